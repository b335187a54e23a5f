//! Time zone of the machine.

use std::path::Path;

use crate::domain::timezone::Timezone;

/// Returns the time zone of the machine if it is known, else UTC.
pub(crate) fn machine_timezone() -> Timezone {
    let link = std::fs::read_link("/etc/localtime").ok();
    let name = link
        .as_deref()
        .and_then(Path::to_str)
        .and_then(|path| path.split_once("/zoneinfo/"))
        .map(|(_, name)| name);
    // The same zone has several names; the common one is used.
    let name =
        name.filter(|name| !matches!(*name, "Etc/UTC" | "Etc/UCT" | "Etc/Universal" | "Etc/Zulu"));
    name.and_then(|name| Timezone::parse(name).ok())
        .unwrap_or_else(Timezone::utc)
}
