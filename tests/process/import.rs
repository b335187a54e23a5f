//! What another program kept, looked at by the command line, and brought here.

mod api;
mod files;
mod long;
mod moved;
mod people;
mod real;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{overdue, run, workplace};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/healthchecks").join(name)
}

const FILES: [(&str, &str); 3] = [("hc.sqlite", "sqlite"), ("hc.sql", "pg_dump"), ("hc.json", "dumpdata")];

fn looked(words: &[&str]) -> Value {
    let done = run(&mut overdue(&[&["import", "healthchecks", "--dry-run", "--json"], words].concat()));
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
    serde_json::from_str(&done.out).unwrap()
}

#[test]
fn a_dry_run_says_the_same_of_every_source() {
    let mut reports = Vec::new();
    for (file, form) in FILES {
        let path = fixture(file);
        let mut report = looked(&[path.to_str().unwrap(), "--users"]);
        let source = report.as_object_mut().unwrap().remove("source").unwrap();
        assert_eq!(source, serde_json::json!({ "name": path, "form": form }));
        reports.push(report);
    }
    assert_eq!(reports[0]["counts"]["pings"]["carried"], 106);
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:#?}");
}

#[test]
fn a_source_may_come_through_a_pipe_and_nothing_of_it_stays() {
    let (directory, _) = workplace();
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    for (file, _) in FILES {
        let mut command = overdue(&["import", "healthchecks", "-", "--dry-run"]);
        let done = run(command.env("TMPDIR", &temporary).stdin(File::open(fixture(file)).unwrap()));
        let said = "overdue: nothing was changed: this was a dry run; no server answers here to compare it with\n";
        assert_eq!((done.status, done.err.as_str()), (0, said), "{file}");
        for line in ["           source  carried  changed  dropped", "3 checks are late by now: Backup, Running, Tiny log"] {
            assert!(done.out.lines().any(|found| found == line), "{line:?} is not in:\n{}", done.out);
        }
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    }
    assert!(!directory.path().join("data").exists());
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_to_do() {
    let (directory, _) = workplace();
    let text = std::fs::read_to_string(fixture("hc.sql")).unwrap();
    let file = directory.path().join("hc.sql");
    let path = file.to_str().unwrap();
    std::fs::write(&file, text.replace("America/New_York", "US/Pacific-New").replace("\tcron\t", "\tweekly\t")).unwrap();
    let done = run(&mut overdue(&["import", "healthchecks", path, "--dry-run"]));
    let wanted = format!(
        "{path}: api_check 1 (\"Backup\"): kind \"weekly\" is unknown; change the check there, or leave it behind with --skip\n\
         {path}: api_check 5 (\"Paused\"): tz \"US/Pacific-New\" is not a time zone: give an IANA name in its exact spelling, such as \
         Europe/Riga or UTC; say --tz US/Pacific-New=NEW, or --skip the check\n"
    );
    assert_eq!((done.status, done.out.as_str(), done.err.as_str()), (1, "", wanted.as_str()));
    looked(&[path, "--tz", "US/Pacific-New=America/Los_Angeles", "--skip", "backup"]);
    std::fs::write(&file, "PGDMP\x01").unwrap();
    for (words, part) in [
        (&[path, "--dry-run"][..], "it is in PostgreSQL's own format: pg_restore -f - FILE | overdue import healthchecks -"),
        (&["/nowhere/hc", "--dry-run"], "/nowhere/hc: No such file"),
        (&[path], "the following required arguments were not provided: <--dry-run|--trial|--live>"),
        (&[path, "--dry-run", "--live"], "cannot be used with"),
        (&[path, "--dry-run", "--tz", "UTC"], "give two names with = between them"),
        (&[path, "--dry-run", "--env-file", "/nowhere/env"], "cannot read /nowhere/env"),
    ] {
        let done = run(&mut overdue(&[&["import", "healthchecks"], words].concat()));
        assert_eq!((done.status, done.out.as_str(), done.err.lines().count()), (2, "", 1), "{words:?}: {}", done.err);
        assert!(done.err.contains(part), "{words:?}: {}", done.err);
    }
}

#[test]
fn secrets_of_the_old_server_are_read_from_files() {
    let (directory, _) = workplace();
    let (environment, key) = (directory.path().join("env"), directory.path().join("key"));
    std::fs::write(&environment, "SITE_ROOT=https://hc.example.org\nTELEGRAM_TOKEN=123:abc\n").unwrap();
    std::fs::write(&key, "s3cret-of-the-old-server\n").unwrap();
    let dump = fixture("hc.json");
    let report = looked(&[dump.to_str().unwrap(), "--env-file", environment.to_str().unwrap(), "--secret-key-file", key.to_str().unwrap()]);
    assert_eq!(
        (&report["counts"]["api_keys"]["carried"], &report["serve_flags"][0]),
        (&3.into(), &"--base-url https://hc.example.org".into())
    );
    assert!(!report["incomplete"].as_array().unwrap().iter().any(|channel| channel["kind"] == "telegram"));
    let text = report.to_string();
    assert!(!text.contains("s3cret") && !text.contains("123:abc"));
}
