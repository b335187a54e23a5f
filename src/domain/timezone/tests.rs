use super::*;

#[test]
fn exactly_the_names_of_healthchecks_are_accepted() {
    let names: Vec<String> = DATABASE.available().map(|name| name.to_string()).collect();
    let accepted = names
        .iter()
        .filter(|name| Timezone::parse(name).is_ok_and(|zone| zone.name() == name.as_str()))
        .count();
    let replaced = names
        .iter()
        .filter(|name| Timezone::parse(name).is_ok_and(|zone| zone.name() != name.as_str()))
        .count();
    assert_eq!((accepted, replaced, names.len()), (483, 113, 598));
}

#[test]
fn old_names_give_an_accepted_name() {
    assert!(names::REPLACED_NAMES.is_sorted());
    for (old, new) in names::REPLACED_NAMES {
        assert_eq!(Timezone::parse(old).unwrap().name(), new);
        assert_eq!(Timezone::parse(new).unwrap().name(), new);
        assert_eq!(Timezone::from_database(old).unwrap().name(), old);
    }
}

#[test]
fn anything_else_is_refused() {
    let not_zones = [
        "",
        " UTC",
        "UTC ",
        "utc",
        "europe/riga",
        "Europe/Riga\0",
        "EUROPE/RIGA",
        "Europe",
        "GMT+5",
        "+02:00",
        "CEST",
        "Etc/Unknown",
    ];
    for name in not_zones.into_iter().chain(names::REJECTED_NAMES) {
        assert_eq!(Timezone::parse(name), Err(UnknownTimezone), "{name}");
    }
    for name in not_zones {
        assert_eq!(Timezone::from_database(name), None, "{name}");
    }
}

#[test]
fn utc_is_the_zone_of_that_name() {
    assert_eq!(Timezone::utc(), Timezone::parse("UTC").unwrap());
    assert_eq!(Timezone::utc().name(), "UTC");
    assert_ne!(Timezone::utc(), Timezone::parse("Etc/UTC").unwrap());
}

#[test]
fn local_times_follow_the_rules_of_the_zone() {
    let riga = Timezone::parse("Europe/Riga").unwrap();
    for (local, expected) in [
        ("2026-11-20T22:00", Some("2026-11-20T20:00:00+00:00")),
        ("2026-07-20 22:00", Some("2026-07-20T19:00:00+00:00")),
        // Shown twice, and skipped.
        ("2026-10-25T03:30", Some("2026-10-25T00:30:00+00:00")),
        ("2026-03-29T03:30", Some("2026-03-29T01:30:00+00:00")),
        ("tomorrow", None),
        ("", None),
    ] {
        let parsed = riga.parse_local_time(local).map(|time| {
            let mut text = String::new();
            time.write_rfc3339_secs(&mut text);
            text
        });
        assert_eq!(parsed.as_deref(), expected, "{local}");
    }
}

#[test]
fn fuzz_timezones() {
    const EXAMPLES: &[&str] = &[
        "UTC",
        "Europe/Riga 2026-11-20T10:00",
        "US/Pacific 2026-03-08 02:30",
        "Etc/GMT+12 1970-01-01T00:00:00",
    ];
    crate::util::fuzzing::fuzz_text(EXAMPLES, |text| {
        let (name, time) = text.split_once(' ').unwrap_or((text, "2026-11-20T10:00"));
        let zone = Timezone::parse(name).unwrap_or_else(|_| Timezone::utc());
        assert_eq!(Timezone::parse(zone.name()).unwrap().name(), zone.name());
        let _ = zone.parse_local_time(time);
    });
}
