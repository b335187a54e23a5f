//! Form fields of a check: created from settings, parsed from a request, and converted to an edit
//! by the rules of the API.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::domain::check::CheckSettings;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::schedule::{Schedule, ScheduleKind};
use crate::domain::text::{
    Description, FailureThreshold, Keywords, Name, Seconds, Slug, Tags, TextError,
};
use crate::domain::timezone::Timezone;
use crate::http::dashboard::page_request::Query;

/// Name of the form field for a parent. The field may occur several times.
pub(crate) const PARENT_FIELD: &str = "parent";

/// Kind of schedule of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpectationKind {
    /// A ping in every period.
    Period,
    /// Pings at the times of a cron expression.
    Cron,
    /// Pings at the times of OnCalendar expressions.
    OnCalendar,
}

/// Units of durations: name in forms, label, seconds.
pub(crate) const DURATION_UNITS: [(&str, &str, u64); 4] = [
    ("d", "days", 86_400),
    ("h", "hours", 3_600),
    ("min", "min", 60),
    ("s", "s", 1),
];

/// A duration as typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurationInput {
    /// Number of units.
    pub(crate) number: String,
    /// Name of the unit in forms.
    pub(crate) unit: String,
}

/// Form fields, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of `Settings`")]
pub(crate) struct CheckFormFields {
    pub(crate) name: String,
    pub(crate) slug: String,
    pub(crate) tags: String,
    pub(crate) desc: String,
    pub(crate) expects: ExpectationKind,
    pub(crate) period: DurationInput,
    pub(crate) cron: String,
    pub(crate) oncalendar: String,
    pub(crate) tz: String,
    pub(crate) grace: DurationInput,
    /// UUIDs of its channels.
    pub(crate) channels: Vec<String>,
    pub(crate) manual_resume: bool,
    pub(crate) post_only: bool,
    pub(crate) start_kw: String,
    pub(crate) success_kw: String,
    pub(crate) failure_kw: String,
    pub(crate) filter_subject: bool,
    pub(crate) filter_body: bool,
    pub(crate) filter_http_body: bool,
    pub(crate) default_fail: bool,
    pub(crate) after: String,
    /// Names of its parents.
    pub(crate) parents: Vec<String>,
}

/// Error in a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckFormError {
    /// Name of the field in the form.
    pub(crate) field: &'static str,
    /// Label of the field.
    pub(crate) label: &'static str,
    /// Explanation of the error and of valid values.
    pub(crate) text: String,
}

impl ExpectationKind {
    /// Name in the form.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Period => "period",
            Self::Cron => "cron",
            Self::OnCalendar => "oncalendar",
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "cron" => Self::Cron,
            "oncalendar" => Self::OnCalendar,
            _ => Self::Period,
        }
    }
}

impl DurationInput {
    /// Converts seconds to the largest unit that divides them.
    fn from_seconds(seconds: i64) -> Self {
        let seconds = seconds.unsigned_abs();
        let (unit, size) = DURATION_UNITS
            .iter()
            .find(|(.., size)| seconds.is_multiple_of(*size))
            .map_or(("s", 1), |(unit, _, size)| (*unit, *size));
        Self {
            number: (seconds / size).to_string(),
            unit: unit.into(),
        }
    }

    fn from_query(query: &Query, number: &str, unit: &str) -> Self {
        Self {
            number: query.get(number).trim().into(),
            unit: query.get(unit).into(),
        }
    }

    /// Parses the duration as seconds, or returns the error.
    pub(crate) fn parse_seconds(&self) -> Result<Seconds, String> {
        let (.., size) = DURATION_UNITS
            .iter()
            .find(|(unit, ..)| *unit == self.unit)
            .ok_or("Choose a unit.")?;
        let number: u64 = self.number.parse().map_err(|_| "Enter a whole number.")?;
        let seconds = i64::try_from(number.saturating_mul(*size)).unwrap_or(i64::MAX);
        Seconds::parse(seconds).map_err(|_| "Between 1 minute and 365 days.".into())
    }
}

impl CheckFormFields {
    /// Creates the fields from settings, with channels as UUIDs and parents as names.
    pub(crate) fn from_settings(
        settings: &CheckSettings,
        channels: Vec<String>,
        parents: Vec<String>,
    ) -> Self {
        let text = |kind: ScheduleKind| {
            let schedule = settings
                .schedule
                .as_ref()
                .filter(|schedule| schedule.kind() == kind);
            schedule.map_or_else(String::new, |schedule| schedule.text().to_owned())
        };
        Self {
            name: settings.name.as_str().into(),
            slug: settings.slug.as_str().into(),
            tags: settings.tags.as_str().into(),
            desc: settings.desc.as_str().into(),
            expects: match settings.schedule.as_ref().map(|schedule| schedule.kind()) {
                None => ExpectationKind::Period,
                Some(ScheduleKind::Cron) => ExpectationKind::Cron,
                Some(ScheduleKind::OnCalendar) => ExpectationKind::OnCalendar,
            },
            period: DurationInput::from_seconds(settings.timeout.get()),
            cron: text(ScheduleKind::Cron),
            oncalendar: text(ScheduleKind::OnCalendar),
            tz: settings.tz.name().into(),
            grace: DurationInput::from_seconds(settings.grace.get()),
            channels,
            manual_resume: settings.manual_resume,
            post_only: settings.post_only,
            start_kw: settings.start_kw.as_str().into(),
            success_kw: settings.success_kw.as_str().into(),
            failure_kw: settings.failure_kw.as_str().into(),
            filter_subject: settings.filters.subject,
            filter_body: settings.filters.body,
            filter_http_body: settings.filters.http_body,
            default_fail: settings.filters.default_fail,
            after: settings.failure_threshold.get().to_string(),
            parents,
        }
    }

    /// Parses the fields of a submitted form. Browsers send CR LF as line end, and omit boxes that
    /// are not ticked.
    pub(crate) fn from_query(query: &Query) -> Self {
        let text = |name: &str| query.get(name).replace("\r\n", "\n");
        Self {
            name: text("name"),
            slug: text("slug").trim().into(),
            tags: text("tags"),
            desc: text("desc"),
            expects: ExpectationKind::parse(query.get("expects")),
            period: DurationInput::from_query(query, "period", "period_unit"),
            cron: text("cron"),
            oncalendar: text("oncalendar"),
            tz: text("tz").trim().into(),
            grace: DurationInput::from_query(query, "grace", "grace_unit"),
            channels: query.get_all("channel").map(str::to_owned).collect(),
            manual_resume: query.has("manual_resume"),
            post_only: query.has("post_only"),
            start_kw: text("start_kw"),
            success_kw: text("success_kw"),
            failure_kw: text("failure_kw"),
            filter_subject: query.has("filter_subject"),
            filter_body: query.has("filter_body"),
            filter_http_body: query.has("filter_http_body"),
            default_fail: query.has("default_fail"),
            after: text("after").trim().into(),
            parents: query
                .get_all(PARENT_FIELD)
                .map(str::trim)
                .filter(|typed| !typed.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Digest of the fields. It shows if a check was changed while a user edited it.
    pub(crate) fn digest(&self) -> String {
        let digest = Sha256::digest(format!("{self:?}"));
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Converts the fields to an edit and a failure threshold, or returns all errors. A stored
    /// value over the current limit is accepted if it is unchanged.
    pub(crate) fn to_edit(
        &self,
        stored: &CheckSettings,
    ) -> Result<(CheckEdit, FailureThreshold), Vec<CheckFormError>> {
        let mut wrong = Vec::new();
        let kept = |text: &str, stored: &str| text == stored.replace("\r\n", "\n");
        let name = match &stored.name {
            stored if kept(&self.name, stored.as_str()) => Some(stored.clone()),
            _ => collect_error(
                &mut wrong,
                "name",
                "Name",
                Name::parse(&self.name).map_err(|_| "At most 100 characters."),
            ),
        };
        let slug = match &stored.slug {
            stored if kept(&self.slug, stored.as_str()) => Some(stored.clone()),
            _ => collect_error(
                &mut wrong,
                "slug",
                "Slug",
                Slug::parse(&self.slug).map_err(slug_error),
            ),
        };
        let tags = match &stored.tags {
            stored if kept(&self.tags, stored.as_str()) => Some(stored.clone()),
            _ => collect_error(
                &mut wrong,
                "tags",
                "Tags",
                Tags::parse(&self.tags).map_err(|_| "At most 64 tags and 500 characters in total."),
            ),
        };
        let desc = match &stored.desc {
            stored if kept(&self.desc, stored.as_str()) => Some(stored.clone()),
            _ => collect_error(
                &mut wrong,
                "desc",
                "Description",
                Description::parse(&self.desc).map_err(|_| "At most 16,384 characters."),
            ),
        };
        let (timeout, schedule) = self.parse_schedule(&mut wrong);
        let tz = collect_error(
            &mut wrong,
            "tz",
            "Time zone",
            Timezone::parse(&self.tz).map_err(|error| to_sentence(&error.to_string())),
        );
        let grace = collect_error(&mut wrong, "grace", "Grace", self.grace.parse_seconds());
        let mut keywords = |field, label, text: &str, stored: &Keywords| match stored {
            stored if kept(text, stored.as_str()) => Some(stored.clone()),
            _ => collect_error(
                &mut wrong,
                field,
                label,
                Keywords::parse(text).map_err(|_| "At most 200 characters."),
            ),
        };
        let start_kw = keywords(
            "start_kw",
            "Start keywords",
            &self.start_kw,
            &stored.start_kw,
        );
        let success_kw = keywords(
            "success_kw",
            "Success keywords",
            &self.success_kw,
            &stored.success_kw,
        );
        let failure_kw = keywords(
            "failure_kw",
            "Failure keywords",
            &self.failure_kw,
            &stored.failure_kw,
        );
        let after = self
            .after
            .parse()
            .map_err(|_| "Enter a whole number.".to_owned());
        let after = after.and_then(|after| FailureThreshold::parse(after).map_err(to_sentence));
        let after = collect_error(&mut wrong, "after", "Failures in a row", after);
        let channels = self
            .channels
            .iter()
            .map(|uuid| uuid.as_str().into())
            .collect();
        let edit = CheckEdit {
            name,
            slug,
            tags,
            desc,
            timeout,
            grace,
            schedule,
            tz,
            manual_resume: Some(self.manual_resume),
            post_only: Some(self.post_only),
            start_kw,
            success_kw,
            failure_kw,
            subject: None,
            subject_fail: None,
            filter_subject: Some(self.filter_subject),
            filter_body: Some(self.filter_body),
            filter_http_body: Some(self.filter_http_body),
            filter_default_fail: Some(self.default_fail),
            channels: Some(ChannelSelection::Listed(channels)),
        };
        after
            .filter(|_| wrong.is_empty())
            .map(|after| (edit, after))
            .ok_or(wrong)
    }

    /// Converts the fields of the schedule to an edit, or returns the first error.
    pub(crate) fn to_schedule_edit(&self) -> Result<CheckEdit, String> {
        let mut wrong = Vec::new();
        let (timeout, schedule) = self.parse_schedule(&mut wrong);
        let tz = Timezone::parse(&self.tz);
        match wrong.pop() {
            Some(wrong) => Err(wrong.text),
            None if self.expects == ExpectationKind::Period => Ok(CheckEdit {
                timeout,
                ..CheckEdit::default()
            }),
            None => Ok(CheckEdit {
                schedule,
                tz: Some(tz.map_err(|error| to_sentence(&error.to_string()))?),
                ..CheckEdit::default()
            }),
        }
    }

    fn parse_schedule(
        &self,
        wrong: &mut Vec<CheckFormError>,
    ) -> (Option<Seconds>, Option<Arc<Schedule>>) {
        let (field, label, text, kind, other) = match self.expects {
            ExpectationKind::Period => {
                return (
                    collect_error(wrong, "period", "Period", self.period.parse_seconds()),
                    None,
                );
            }
            ExpectationKind::Cron => (
                "cron",
                "Cron",
                &self.cron,
                ScheduleKind::Cron,
                "This is not a cron expression. Choose OnCalendar.",
            ),
            ExpectationKind::OnCalendar => (
                "oncalendar",
                "OnCalendar",
                &self.oncalendar,
                ScheduleKind::OnCalendar,
                "This is a cron expression. Choose Cron.",
            ),
        };
        let schedule = match Schedule::parse(text) {
            _ if text.trim().is_empty() => Err("Enter an expression.".to_owned()),
            Ok(schedule) if schedule.kind() != kind => Err(other.to_owned()),
            Ok(schedule) => Ok(Arc::new(schedule)),
            Err(error) => Err(to_sentence(&error.to_string())),
        };
        (None, collect_error(wrong, field, label, schedule))
    }
}

/// Returns the value of a field, or adds the error to `wrong`.
fn collect_error<T>(
    wrong: &mut Vec<CheckFormError>,
    field: &'static str,
    label: &'static str,
    read: Result<T, impl Into<String>>,
) -> Option<T> {
    read.map_err(|text| {
        wrong.push(CheckFormError {
            field,
            label,
            text: text.into(),
        });
    })
    .ok()
}

fn slug_error(error: TextError) -> &'static str {
    match error {
        TextError::TooLong => "At most 100 characters.",
        TextError::InvalidCharacter => "Only a to z, 0 to 9, hyphens and underscores.",
    }
}

/// Capitalizes a text and adds a full stop.
fn to_sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    const GOOD: [(&str, &str); 11] = [
        ("name", "Nightly backup"),
        ("slug", "nightly-backup"),
        ("tags", "nas prod"),
        ("desc", "line\r\nline"),
        ("expects", "cron"),
        ("cron", "30 3 * * *"),
        ("tz", "Europe/Riga"),
        ("grace", "15"),
        ("grace_unit", "min"),
        ("after", "1"),
        ("period_unit", "d"),
    ];

    #[test]
    fn a_form_becomes_an_edit() {
        let (edit, after) = CheckFormFields::from_query(&query(&GOOD))
            .to_edit(&CheckSettings::default())
            .unwrap();
        let settings = edit.apply_to(&CheckSettings::default(), None);
        assert_eq!(
            (
                settings.name.as_str(),
                settings.slug.as_str(),
                settings.desc.as_str()
            ),
            ("Nightly backup", "nightly-backup", "line\nline")
        );
        assert_eq!(
            (
                settings.describe_schedule().as_str(),
                settings.tz.name(),
                settings.grace.get()
            ),
            ("every day at 03:30", "Europe/Riga", 900)
        );
        assert_eq!(
            (settings.manual_resume, settings.timeout, after),
            (false, Seconds::DAY, FailureThreshold::ONE)
        );
    }

    #[test]
    fn each_invalid_field_has_its_own_error() {
        let long = "x".repeat(201);
        for (field, value, text) in [
            ("name", long.as_str(), "At most 100 characters."),
            (
                "slug",
                "Nightly",
                "Only a to z, 0 to 9, hyphens and underscores.",
            ),
            ("slug", &long, "At most 100 characters."),
            (
                "tags",
                &"x".repeat(501),
                "At most 64 tags and 500 characters in total.",
            ),
            ("desc", &"x".repeat(16_385), "At most 16,384 characters."),
            ("cron", "", "Enter an expression."),
            (
                "cron",
                "daily",
                "This is not a cron expression. Choose OnCalendar.",
            ),
            (
                "tz",
                "europe/riga",
                "Not a time zone: give an IANA name in its exact spelling, such as Europe/Riga or \
                 UTC.",
            ),
            ("grace", "0", "Between 1 minute and 365 days."),
            ("grace", "525601", "Between 1 minute and 365 days."),
            ("grace", "99999999999999999999", "Enter a whole number."),
            ("grace", "1.5", "Enter a whole number."),
            ("start_kw", &long, "At most 200 characters."),
            ("success_kw", &long, "At most 200 characters."),
            ("failure_kw", &long, "At most 200 characters."),
            ("after", "0", "Give a number of failures from 1 to 100."),
            ("after", "many", "Enter a whole number."),
        ] {
            let mut pairs: Vec<_> = GOOD
                .iter()
                .copied()
                .filter(|(name, _)| *name != field)
                .collect();
            pairs.push((field, value));
            let wrong = CheckFormFields::from_query(&query(&pairs))
                .to_edit(&CheckSettings::default())
                .unwrap_err();
            let errors: Vec<_> = wrong
                .iter()
                .map(|wrong| (wrong.field, wrong.text.as_str()))
                .collect();
            assert_eq!(errors, [(field, text)]);
        }
        let all_wrong =
            CheckFormFields::from_query(&query(&[("slug", "É"), ("expects", "period")]))
                .to_edit(&CheckSettings::default())
                .unwrap_err();
        let fields: Vec<_> = all_wrong.iter().map(|wrong| wrong.field).collect();
        assert_eq!(fields, ["slug", "period", "tz", "grace", "after"]);
        let bad = CheckFormFields::from_query(&query(&[
            ("expects", "oncalendar"),
            ("oncalendar", "30 3 * * *"),
        ]))
        .to_edit(&CheckSettings::default())
        .unwrap_err();
        assert_eq!(bad[0].text, "This is a cron expression. Choose Cron.");
    }

    #[test]
    fn a_stored_value_over_a_limit_may_be_saved_again() {
        let stored = CheckSettings {
            tags: Tags::from_stored(&"x".repeat(600)),
            desc: Description::from_stored(&"y\r\n".repeat(9_000)),
            ..CheckSettings::default()
        };
        let mut fields = CheckFormFields::from_settings(&stored, Vec::new(), Vec::new());
        fields.desc = fields.desc.replace("\r\n", "\n");
        let (edit, _) = fields.to_edit(&stored).unwrap();
        assert_eq!(edit.apply_to(&stored, None), stored);
        fields.tags.push('x');
        assert_eq!(fields.to_edit(&stored).unwrap_err()[0].field, "tags");
    }

    proptest! {
        /// Parsing a filled form returns its values, and saving it changes nothing.
        #[test]
        fn saving_an_unchanged_form_changes_nothing(
            name in "[a-z <>\"&é]{0,20}",
            tags in "[a-z ]{0,20}",
            desc in "([a-z]{0,5}\n){0,3}",
            timeout in 60_i64..=31_536_000,
            grace in 60_i64..=31_536_000,
            schedule in prop::sample::select(vec!["", "30 3 * * *", "Mon 10:00\nTue 11:00"]),
            flags in any::<[bool; 6]>(),
        ) {
            let settings = CheckSettings {
                name: Name::parse(&name).unwrap(),
                tags: Tags::parse(&tags).unwrap(),
                desc: Description::parse(&desc).unwrap(),
                timeout: Seconds::parse(timeout).unwrap(),
                grace: Seconds::parse(grace).unwrap(),
                schedule: Schedule::parse(schedule).ok().map(Arc::new),
                manual_resume: flags[0],
                post_only: flags[1],
                filters: crate::domain::check::KeywordFilters {
                    subject: flags[2],
                    body: flags[3],
                    http_body: flags[4],
                    default_fail: flags[5],
                },
                ..CheckSettings::default()
            };
            let fields = CheckFormFields::from_settings(&settings, Vec::new(), Vec::new());
            let (edit, after) = fields.to_edit(&settings).unwrap();
            prop_assert_eq!(edit.apply_to(&settings, None), settings.clone());
            prop_assert_eq!(after, settings.failure_threshold);
            let digest_of = |settings: &CheckSettings| {
                CheckFormFields::from_settings(settings, Vec::new(), Vec::new()).digest()
            };
            prop_assert_eq!(fields.digest(), digest_of(&settings));
            let other = CheckSettings { manual_resume: !settings.manual_resume, ..settings };
            prop_assert_ne!(fields.digest(), digest_of(&other));
        }
    }
}
