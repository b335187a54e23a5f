use super::*;
use crate::domain::text::Tags;
use crate::domain::text::{Description, Name};
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
        ("name", long.as_str(), "Give at most 100 characters."),
        (
            "slug",
            "Nightly",
            "Use only a to z, 0 to 9, hyphens and underscores.",
        ),
        ("slug", &long, "Give at most 100 characters."),
        (
            "tags",
            &"x".repeat(501),
            "Give at most 500 characters and at most 64 tags.",
        ),
        (
            "desc",
            &"x".repeat(16_385),
            "Give at most 16384 characters.",
        ),
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
        ("start_kw", &long, "Give at most 200 characters."),
        ("success_kw", &long, "Give at most 200 characters."),
        ("failure_kw", &long, "Give at most 200 characters."),
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
    let all_wrong = CheckFormFields::from_query(&query(&[("slug", "É"), ("expects", "period")]))
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
    let desc = fields.text("desc").replace("\r\n", "\n");
    fields.texts.insert("desc", desc);
    let (edit, _) = fields.to_edit(&stored).unwrap();
    assert_eq!(edit.apply_to(&stored, None), stored);
    fields.texts.entry("tags").or_default().push('x');
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
            CheckFormFields::from_settings(settings, Vec::new(), Vec::new()).digests()
        };
        prop_assert_eq!(fields.digests(), digest_of(&settings));
        let other = CheckSettings { manual_resume: !settings.manual_resume, ..settings };
        prop_assert_ne!(fields.digests(), digest_of(&other));
    }
}
