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
