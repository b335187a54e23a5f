//! Fields of a check that users set: one row each, with name, type and help, and the lists that say
//! where a field appears and in which order.
//!
//! The number of failures before an alert and the parents of a check are not here: another command
//! changes them.

use std::sync::Arc;

use super::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, PostOnly, ValueProblem,
};
use crate::domain::check::{CheckSettings, RunLimit};
use crate::domain::check_edit::ChannelSelection;
use crate::domain::number::Seconds;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timezone::Timezone;

/// Fields to change. Fields that are `None` stay, or get their defaults in a new check.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "the fields of `CheckSettings`")]
pub struct CheckEdit {
    pub name: Option<Name>,
    pub slug: Option<Slug>,
    pub tags: Option<Tags>,
    pub desc: Option<Description>,
    /// Period as sent, even if a schedule takes precedence.
    pub timeout: Option<Seconds>,
    pub grace: Option<Seconds>,
    pub schedule: Option<Arc<Schedule>>,
    pub tz: Option<Timezone>,
    pub manual_resume: Option<bool>,
    pub post_only: Option<bool>,
    pub start_kw: Option<Keywords>,
    pub success_kw: Option<Keywords>,
    pub failure_kw: Option<Keywords>,
    /// Older name of `success_kw`, which takes precedence. Like `subject_fail` it turns the search
    /// of subjects on, or off if both lists are then empty; `filter_subject` takes precedence over
    /// that.
    pub subject: Option<Keywords>,
    /// Older name of `failure_kw`, which takes precedence.
    pub subject_fail: Option<Keywords>,
    pub filter_subject: Option<bool>,
    pub filter_body: Option<bool>,
    pub filter_http_body: Option<bool>,
    pub filter_default_fail: Option<bool>,
    pub channels: Option<ChannelSelection>,
    pub longest_run: Option<RunLimit>,
    pub shortest_run: Option<RunLimit>,
    pub latest_start: Option<RunLimit>,
}

/// Row of the table: a field of a check.
pub struct CheckField {
    /// Name in the API. The flag of the command line has hyphens in place of underscores.
    pub name: &'static str,
    /// Form of the values.
    pub field_type: CheckFieldType,
    /// Placeholder for the value in the help of the flag.
    pub value_name: &'static str,
    /// Help of the flag.
    pub flag_help: &'static str,
    /// Key in configuration files. [`CONFIG_FILTER_FIELDS`] are in the table `filter` there.
    pub config_key: &'static str,
    /// Help of the key: half a sentence.
    pub config_help: &'static str,
    /// Name in the form of the dashboard.
    pub form_name: &'static str,
    /// Label on pages.
    pub label: &'static str,
    /// True if early releases accepted texts of any length.
    pub was_unlimited: bool,
    value: fn(&CheckSettings) -> Option<CheckFieldValue<'_>>,
    is_used: fn(&CheckSettings) -> bool,
    edited: fn(&CheckEdit) -> Option<CheckFieldValue<'_>>,
    parse: fn(&mut CheckEdit, &CheckFieldValue<'_>) -> Result<(), InvalidValue>,
    /// Sets a stored text, which may be over the limit. False if the type has no limit.
    keep: fn(&mut CheckEdit, &str) -> bool,
    apply: fn(&mut CheckEdit, &mut CheckSettings),
}

/// Returns the row of the member `$edit` of [`CheckEdit`], which changes `$setting` of
/// [`CheckSettings`], without texts. `$edit` is its name in the API.
macro_rules! row {
    ($edit:ident: $type:ty => $($setting:ident).+) => {
        CheckField {
            value: |settings| Some(settings.$($setting).+.value()),
            apply: |edit, settings| {
                if let Some(value) = edit.$edit.take() {
                    settings.$($setting).+ = value;
                }
            },
            ..row!($edit: $type)
        }
    };
    ($edit:ident: $type:ty) => {
        CheckField {
            name: stringify!($edit),
            field_type: <$type as EditValue>::FORM,
            value_name: "",
            flag_help: "",
            config_key: stringify!($edit),
            config_help: "",
            form_name: stringify!($edit),
            label: "",
            was_unlimited: false,
            value: |_| None,
            is_used: |_| true,
            edited: |edit| edit.$edit.as_ref().map(EditValue::value),
            parse: |edit, value| {
                edit.$edit = Some(EditValue::parse_value(value)?);
                Ok(())
            },
            keep: |edit, text| {
                edit.$edit = EditValue::from_stored(text);
                edit.$edit.is_some()
            },
            apply: |_, _| {},
        }
    };
}

/// Name of the check.
pub static NAME: CheckField = CheckField {
    value_name: "NAME",
    flag_help: "Name",
    config_help: "name; by default the slug",
    label: "Name",
    ..row!(name: Name => name)
};

/// Slug for ping URLs.
pub static SLUG: CheckField = CheckField {
    value_name: "SLUG",
    flag_help: "Slug for ping URLs: a to z, 0 to 9, hyphens and underscores",
    config_help: "slug, if the key is a UUID",
    label: "Slug",
    ..row!(slug: Slug => slug)
};

/// Tags of the check.
pub static TAGS: CheckField = CheckField {
    value_name: "TAGS",
    flag_help: "Tags, separated by spaces",
    config_help: "tags",
    label: "Tags",
    was_unlimited: true,
    ..row!(tags: Tags => tags)
};

/// Description of the check.
pub static DESC: CheckField = CheckField {
    value_name: "TEXT",
    flag_help: "Description",
    config_help: "description",
    label: "Description",
    was_unlimited: true,
    ..row!(desc: Description => desc)
};

/// Period of a check without a schedule.
pub static TIMEOUT: CheckField = CheckField {
    value_name: "TIME",
    flag_help: "Expected time between two pings, for a check without a schedule, in seconds or as \
                in 15m, 2h or 1d [new checks: 86400]",
    config_key: "every",
    config_help: "period",
    is_used: |settings| settings.schedule.is_none(),
    ..row!(timeout: Seconds => timeout)
};

/// Grace time.
pub static GRACE: CheckField = CheckField {
    value_name: "TIME",
    flag_help: "Time by which a ping may be late, in seconds or as in 15m, 2h or 1d [new checks: \
                3600]",
    config_help: "time that a ping may be late",
    label: "Grace",
    ..row!(grace: Seconds => grace)
};

/// Schedule, in place of a period.
pub static SCHEDULE: CheckField = CheckField {
    value_name: "EXPR",
    flag_help: "Schedule of the expected pings: a cron expression of five fields, or an OnCalendar \
                expression of systemd",
    config_help: "cron or OnCalendar expression, instead of a period",
    value: |settings| settings.schedule.as_ref().map(EditValue::value),
    apply: |edit, settings| settings.schedule = edit.schedule.take().or(settings.schedule.take()),
    ..row!(schedule: Arc<Schedule>)
};

/// Time zone of the schedule.
pub static TZ: CheckField = CheckField {
    value_name: "ZONE",
    flag_help: "Time zone of the schedule, such as Europe/Riga [new checks: UTC]",
    config_help: "time zone of the schedule",
    label: "Time zone",
    is_used: |settings| settings.schedule.is_some(),
    ..row!(tz: Timezone => tz)
};

/// HTTP methods that count as pings.
pub static METHODS: CheckField = CheckField {
    name: "methods",
    value_name: "METHODS",
    flag_help: "HTTP methods that count as pings",
    config_key: "methods",
    config_help: "POST: only POST requests count as pings",
    label: "Only POST requests are pings",
    field_type: PostOnly::FORM,
    value: |settings| Some(PostOnly(settings.post_only).word().into()),
    edited: |edit| {
        edit.post_only
            .map(|post_only| PostOnly(post_only).word().into())
    },
    parse: |edit, value| {
        edit.post_only = Some(PostOnly::parse_value(value)?.0);
        Ok(())
    },
    ..row!(post_only: bool => post_only)
};

/// Rule for pings of a paused check.
pub static MANUAL_RESUME: CheckField = CheckField {
    value_name: "yes|no",
    flag_help: "Ignore pings while the check is paused",
    config_key: "manual-resume",
    config_help: "true: a paused check ignores pings",
    label: "Ignores pings while paused",
    ..row!(manual_resume: bool => manual_resume)
};

/// Keywords that mean a start.
pub static START_KW: CheckField = CheckField {
    value_name: "WORDS",
    flag_help: "Keywords that mean a start, separated by commas",
    config_key: "start",
    config_help: "keywords for a start",
    label: "Start keywords",
    ..row!(start_kw: Keywords => start_kw)
};

/// Keywords that mean success.
pub static SUCCESS_KW: CheckField = CheckField {
    value_name: "WORDS",
    flag_help: "Keywords that mean a success, separated by commas",
    config_key: "success",
    config_help: "keywords for success",
    label: "Success keywords",
    ..row!(success_kw: Keywords => success_kw)
};

/// Keywords that mean failure.
pub static FAILURE_KW: CheckField = CheckField {
    value_name: "WORDS",
    flag_help: "Keywords that mean a failure, separated by commas",
    config_key: "failure",
    config_help: "keywords for failure",
    label: "Failure keywords",
    ..row!(failure_kw: Keywords => failure_kw)
};

/// Older name of [`SUCCESS_KW`].
pub static SUBJECT: CheckField = row!(subject: Keywords => success_kw);

/// Older name of [`FAILURE_KW`].
pub static SUBJECT_FAIL: CheckField = row!(subject_fail: Keywords => failure_kw);

/// Search of the subjects of mails.
pub static FILTER_SUBJECT: CheckField = CheckField {
    value_name: "yes|no",
    flag_help: "Look for keywords in the subjects of mails",
    config_key: "subject",
    config_help: "search the subjects of mails",
    label: "Search mail subjects",
    ..row!(filter_subject: bool => filters.subject)
};

/// Search of the bodies of mails.
pub static FILTER_BODY: CheckField = CheckField {
    value_name: "yes|no",
    flag_help: "Look for keywords in the bodies of mails",
    config_key: "body",
    config_help: "search the bodies of mails",
    label: "Search mail texts",
    ..row!(filter_body: bool => filters.body)
};

/// Search of the bodies of HTTP pings.
pub static FILTER_HTTP_BODY: CheckField = CheckField {
    value_name: "yes|no",
    flag_help: "Look for keywords in the bodies of HTTP pings",
    config_key: "http-body",
    config_help: "search the bodies of requests",
    label: "Search bodies of HTTP pings",
    ..row!(filter_http_body: bool => filters.http_body)
};

/// Meaning of a ping without any of the keywords.
pub static FILTER_DEFAULT_FAIL: CheckField = CheckField {
    value_name: "yes|no",
    flag_help: "Treat a ping without any keyword as a failure; otherwise it is ignored",
    config_key: "default-fail",
    config_help: "true: a ping without any of the keywords is a failure; false: it is ignored",
    form_name: "default_fail",
    label: "Failure without a keyword",
    ..row!(filter_default_fail: bool => filters.default_fail)
};

/// Longest time that a run may take.
pub static LONGEST_RUN: CheckField = CheckField {
    value_name: "TIME",
    flag_help: "Warn when a run takes longer, in seconds or as in 15m, 2h or 1d; 0: never",
    config_key: "longest-run",
    config_help: "time after which a run causes a warning",
    label: "Longest run",
    is_used: |settings| settings.limits.longest_run.secs().is_some(),
    ..row!(longest_run: RunLimit => limits.longest_run)
};

/// Shortest time in which a run can succeed.
pub static SHORTEST_RUN: CheckField = CheckField {
    value_name: "TIME",
    flag_help: "Warn when a run succeeds faster, in seconds or as in 15m, 2h or 1d; 0: never",
    config_key: "shortest-run",
    config_help: "time below which a successful run causes a warning",
    label: "Shortest run",
    is_used: |settings| settings.limits.shortest_run.secs().is_some(),
    ..row!(shortest_run: RunLimit => limits.shortest_run)
};

/// Longest time between the expected ping and the start of a run.
pub static LATEST_START: CheckField = CheckField {
    value_name: "TIME",
    flag_help: "Warn when no run has started this long after the expected time, in seconds or as \
                in 15m, 2h or 1d; 0: never",
    config_key: "latest-start",
    config_help: "time after the expected one by which a run must have started",
    label: "Latest start",
    is_used: |settings| settings.limits.latest_start.secs().is_some(),
    ..row!(latest_start: RunLimit => limits.latest_start)
};

/// Channels to notify. The writer resolves them, so no value of settings corresponds to them.
pub static CHANNELS: CheckField = CheckField {
    value_name: "LIST",
    flag_help: "Channels to notify: UUIDs or names separated by commas, * for all channels of the \
                project, or '' for none",
    config_help: r#"names or UUIDs of notified channels, or "*" for all channels of the project"#,
    ..row!(channels: ChannelSelection)
};

/// Every field, in the order in which the API reports errors.
pub static CHECK_FIELDS: [&CheckField; 23] = [
    &CHANNELS,
    &DESC,
    &FAILURE_KW,
    &FILTER_SUBJECT,
    &FILTER_BODY,
    &FILTER_HTTP_BODY,
    &FILTER_DEFAULT_FAIL,
    &GRACE,
    &LATEST_START,
    &LONGEST_RUN,
    &MANUAL_RESUME,
    &METHODS,
    &NAME,
    &SCHEDULE,
    &SHORTEST_RUN,
    &SLUG,
    &START_KW,
    &SUBJECT,
    &SUBJECT_FAIL,
    &SUCCESS_KW,
    &TAGS,
    &TIMEOUT,
    &TZ,
];

/// Names and description: members of a check in the API, and inputs of the form.
pub static NAME_FIELDS: [&CheckField; 4] = [&NAME, &SLUG, &TAGS, &DESC];

/// Expected times, without the grace time.
pub static TIME_FIELDS: [&CheckField; 3] = [&TIMEOUT, &SCHEDULE, &TZ];

/// Rules for pings.
pub static PING_RULE_FIELDS: [&CheckField; 2] = [&MANUAL_RESUME, &METHODS];

/// Keywords, and where they are searched.
pub static KEYWORD_FIELDS: [&CheckField; 7] = [
    &START_KW,
    &SUCCESS_KW,
    &FAILURE_KW,
    &FILTER_SUBJECT,
    &FILTER_BODY,
    &FILTER_HTTP_BODY,
    &FILTER_DEFAULT_FAIL,
];

/// Flags of the command line, in the order of the help.
pub static FLAG_FIELDS: [&CheckField; 21] = [
    &NAME,
    &SLUG,
    &TAGS,
    &DESC,
    &TIMEOUT,
    &GRACE,
    &SCHEDULE,
    &TZ,
    &LATEST_START,
    &LONGEST_RUN,
    &SHORTEST_RUN,
    &METHODS,
    &MANUAL_RESUME,
    &START_KW,
    &SUCCESS_KW,
    &FAILURE_KW,
    &FILTER_SUBJECT,
    &FILTER_BODY,
    &FILTER_HTTP_BODY,
    &FILTER_DEFAULT_FAIL,
    &CHANNELS,
];

/// Keys of a check in configuration files, except its names.
pub static CONFIG_FIELDS: [&CheckField; 12] = [
    &TIMEOUT,
    &SCHEDULE,
    &TZ,
    &GRACE,
    &TAGS,
    &DESC,
    &CHANNELS,
    &MANUAL_RESUME,
    &METHODS,
    &LATEST_START,
    &LONGEST_RUN,
    &SHORTEST_RUN,
];

/// Keys of the table `filter` of a check in configuration files.
pub static CONFIG_FILTER_FIELDS: [&CheckField; 7] = [
    &FILTER_SUBJECT,
    &FILTER_BODY,
    &FILTER_HTTP_BODY,
    &FILTER_DEFAULT_FAIL,
    &START_KW,
    &SUCCESS_KW,
    &FAILURE_KW,
];

/// Limits for runs, which cause warnings.
pub static LIMIT_FIELDS: [&CheckField; 3] = [&LATEST_START, &LONGEST_RUN, &SHORTEST_RUN];

/// Rules, keywords and limits.
pub fn rule_fields() -> impl Iterator<Item = &'static CheckField> {
    let rules = PING_RULE_FIELDS.into_iter().chain(KEYWORD_FIELDS);
    rules.chain(LIMIT_FIELDS)
}

impl CheckField {
    /// Value in settings. `None` for a field that is not set, and for channels.
    pub fn value<'a>(&self, settings: &'a CheckSettings) -> Option<CheckFieldValue<'a>> {
        (self.value)(settings)
    }

    /// Value in settings, if it has a meaning there: a period without a schedule, a time zone with
    /// one.
    pub fn used_value<'a>(&self, settings: &'a CheckSettings) -> Option<CheckFieldValue<'a>> {
        // The list of checks calls it for each field of each check: a value is not moved again.
        if (self.is_used)(settings) {
            self.value(settings)
        } else {
            None
        }
    }

    /// Value in an edit.
    pub fn edited_value<'a>(&self, edit: &'a CheckEdit) -> Option<CheckFieldValue<'a>> {
        (self.edited)(edit)
    }

    /// Sets the field in an edit. A text over the limit is accepted if it is that of `stored`;
    /// without `stored` a text of any length is accepted.
    ///
    /// # Errors
    /// If the field does not accept the value.
    pub fn set(
        &self,
        edit: &mut CheckEdit,
        value: &CheckFieldValue<'_>,
        stored: Option<&CheckSettings>,
    ) -> Result<(), InvalidValue> {
        let Err(error) = (self.parse)(edit, value) else {
            return Ok(());
        };
        let may_keep = stored.map_or(error.problem == ValueProblem::TooLong, |stored| {
            self.value(stored).as_ref() == Some(value)
        });
        match value {
            CheckFieldValue::Text(text) if may_keep && (self.keep)(edit, text) => Ok(()),
            _ => Err(error),
        }
    }

    /// Moves the value from an edit to settings.
    pub(super) fn apply(&self, edit: &mut CheckEdit, settings: &mut CheckSettings) {
        (self.apply)(edit, settings);
    }

    /// True if the text in an edit is over the limit and differs from the stored one.
    pub(super) fn is_overlong(&self, edit: &CheckEdit, stored: &CheckSettings) -> bool {
        self.field_type.max_chars().is_some()
            && self.edited_value(edit).is_some_and(|value| {
                (self.parse)(&mut CheckEdit::default(), &value).is_err()
                    && self.value(stored) != Some(value)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(lists: &[&[&'static CheckField]]) -> BTreeSet<&'static str> {
        let mut names = BTreeSet::new();
        for field in lists.iter().copied().flatten() {
            assert!(names.insert(field.name), "{} is listed twice", field.name);
        }
        names
    }

    #[test]
    fn a_field_appears_everywhere() {
        let all = names(&[&CHECK_FIELDS]);
        let older: &[_] = &[&SUBJECT, &SUBJECT_FAIL];
        let sections: [&[_]; 5] = [
            &NAME_FIELDS,
            &TIME_FIELDS,
            &PING_RULE_FIELDS,
            &KEYWORD_FIELDS,
            &LIMIT_FIELDS,
        ];
        assert_eq!(
            names(&[&sections.concat(), &[&GRACE, &CHANNELS], older]),
            all
        );
        assert_eq!(names(&[&FLAG_FIELDS, older]), all);
        let files: [&[_]; 3] = [&CONFIG_FIELDS, &CONFIG_FILTER_FIELDS, &[&NAME, &SLUG]];
        assert_eq!(names(&[&files.concat(), older]), all);
    }

    #[test]
    fn a_row_reads_what_it_shows() {
        let settings = CheckSettings {
            name: Name::parse("a").unwrap(),
            desc: Description::from_stored(&"x".repeat(20_000)),
            timeout: Seconds::parse(60).unwrap(),
            tz: Timezone::parse("Europe/Riga").unwrap(),
            post_only: true,
            failure_kw: Keywords::parse("f").unwrap(),
            ..CheckSettings::default()
        };
        let edit = CheckEdit::from_settings(&settings);
        for field in FLAG_FIELDS {
            assert_eq!(
                field.edited_value(&edit),
                field.value(&settings),
                "{}",
                field.name
            );
            assert!(!field.flag_help.is_empty() && !field.value_name.is_empty());
        }
        assert_eq!(
            edit.first_overlong_field(&CheckSettings::default()),
            Some("desc")
        );
        assert_eq!(edit.first_overlong_field(&settings), None);
        assert_eq!(edit.apply_to(&CheckSettings::default(), None), settings);
    }
}
