//! Imports from other programs at the command line: preview and import.

mod api;
mod files;
mod healthchecks;
mod long_bodies;
mod overdue_export;
mod users_and_keys;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, overdue, run, temp_data_directory};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/healthchecks")
        .join(name)
}

const FILES: [(&str, &str); 3] = [
    ("hc.sqlite", "sqlite"),
    ("hc.sql", "pg_dump"),
    ("hc.json", "dumpdata"),
];

fn dry_run(words: &[&str]) -> Value {
    let done = run(&mut overdue(
        &[&["import", "healthchecks", "--dry-run", "--json"], words].concat(),
    ));
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
    serde_json::from_str(&done.out).unwrap()
}

#[test]
fn a_dry_run_gives_the_same_report_for_every_source() {
    let mut reports = Vec::new();
    for (file, form) in FILES {
        let path = fixture(file);
        let mut report = dry_run(&[path.to_str().unwrap(), "--users"]);
        let source = report.as_object_mut().unwrap().remove("source").unwrap();
        assert_eq!(source, serde_json::json!({ "name": path, "form": form }));
        reports.push(report);
    }
    assert_eq!(reports[0]["counts"]["pings"]["carried"], 106);
    assert!(
        reports.iter().all(|report| *report == reports[0]),
        "{reports:#?}"
    );
}

#[test]
fn a_report_as_json_does_nothing_to_a_terminal() {
    let (directory, _) = temp_data_directory();
    let file = directory.path().join("hc.json");
    let text = std::fs::read_to_string(fixture("hc.json")).unwrap();
    std::fs::write(&file, text.replace("\"Backup\"", "\"Back\u{202e}up\"")).unwrap();
    let done = run(&mut overdue(&[
        "import",
        "healthchecks",
        "--dry-run",
        "--json",
        file.to_str().unwrap(),
    ]));
    assert_eq!(
        (
            done.status,
            done.out.contains("Back\\u202eup"),
            done.out.contains('\u{202e}')
        ),
        (0, true, false),
        "{}",
        done.err
    );
}

#[test]
fn a_source_can_be_read_from_a_pipe_and_leaves_no_copy() {
    let (directory, _) = temp_data_directory();
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    for (file, _) in FILES {
        let mut command = overdue(&["import", "healthchecks", "-", "--dry-run"]);
        let done = run(command
            .env("TMPDIR", &temporary)
            .stdin(File::open(fixture(file)).unwrap()));
        let summary = "overdue: nothing was changed: this was a dry run; no server is running here \
                    to compare with\n";
        assert_eq!((done.status, done.err.as_str()), (0, summary), "{file}");
        for line in [
            "           source  carried  changed  dropped",
            "3 checks are already late: Backup, Running, Tiny log",
        ] {
            assert!(
                done.out.lines().any(|found| found == line),
                "{line:?} is not in:\n{}",
                done.out
            );
        }
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    }
    assert!(!directory.path().join("data").exists());
}

#[test]
fn errors_name_their_place_and_the_remedy() {
    let (directory, _) = temp_data_directory();
    let text = std::fs::read_to_string(fixture("hc.sql")).unwrap();
    let file = directory.path().join("hc.sql");
    let path = file.to_str().unwrap();
    std::fs::write(
        &file,
        text.replace("America/New_York", "US/Pacific-New")
            .replace("\tcron\t", "\tweekly\t"),
    )
    .unwrap();
    let done = run(&mut overdue(&["import", "healthchecks", path, "--dry-run"]));
    let expected = format!(
        "{path}: api_check 1 (\"Backup\"): kind \"weekly\" is unknown; change the check on \
         the old server, or skip it with --skip\n{path}: api_check 5 (\"Paused\"): tz \
         \"US/Pacific-New\" is not a time zone: give an IANA name in its exact spelling, such as \
         Europe/Riga or UTC; replace it with --tz US/Pacific-New=NEW, or skip the check with \
         --skip\n"
    );
    assert_eq!(
        (done.status, done.out.as_str(), done.err.as_str()),
        (1, "", expected.as_str())
    );
    dry_run(&[
        path,
        "--tz",
        "US/Pacific-New=America/Los_Angeles",
        "--skip",
        "backup",
    ]);
    std::fs::write(&file, "PGDMP\x01").unwrap();
    for (words, part) in [
        (
            &[path, "--dry-run"][..],
            "it is in PostgreSQL's custom format; use: pg_restore -f - FILE | overdue import \
             healthchecks -",
        ),
        (&["/nowhere/hc", "--dry-run"], "/nowhere/hc: No such file"),
        (
            &[path],
            "the following required arguments were not provided: <--dry-run|--trial|--live>",
        ),
        (&[path, "--dry-run", "--live"], "cannot be used with"),
        (
            &[path, "--dry-run", "--tz", "UTC"],
            "give two names with = between them",
        ),
        (
            &[path, "--dry-run", "--env-file", "/nowhere/env"],
            "cannot read /nowhere/env",
        ),
    ] {
        let done = run(&mut overdue(&[&["import", "healthchecks"], words].concat()));
        assert_eq!(
            (done.status, done.out.as_str(), done.err.lines().count()),
            (2, "", 1),
            "{words:?}: {}",
            done.err
        );
        assert!(done.err.contains(part), "{words:?}: {}", done.err);
    }
}

#[test]
fn secrets_of_the_old_server_are_read_from_files() {
    let (directory, _) = temp_data_directory();
    let environment = directory.path().join("env");
    let key = directory.path().join("key");
    std::fs::write(
        &environment,
        "SITE_ROOT=https://hc.example.org\nTELEGRAM_TOKEN=123:abc\n",
    )
    .unwrap();
    std::fs::write(&key, "s3cret-of-the-old-server\n").unwrap();
    let dump = fixture("hc.json");
    let report = dry_run(&[
        dump.to_str().unwrap(),
        "--env-file",
        environment.to_str().unwrap(),
        "--secret-key-file",
        key.to_str().unwrap(),
    ]);
    assert_eq!(
        (
            &report["counts"]["api_keys"]["carried"],
            &report["serve_flags"][0]
        ),
        (&3.into(), &"--base-url https://hc.example.org".into())
    );
    assert!(
        !report["incomplete"]
            .as_array()
            .unwrap()
            .iter()
            .any(|channel| channel["kind"] == "telegram")
    );
    let text = report.to_string();
    assert!(!text.contains("s3cret") && !text.contains("123:abc"));
}

/// `docker/.env.example` of Healthchecks, without the settings of its database.
const STOCK: &str = "\
    ALLOWED_HOSTS=localhost\nAPPRISE_ENABLED=False\nDEBUG=False\n\
    DEFAULT_FROM_EMAIL=healthchecks@example.org\nEMAIL_HOST=\nEMAIL_HOST_PASSWORD=\n\
    EMAIL_HOST_USER=\nEMAIL_PORT=587\nEMAIL_USE_TLS=True\nEMAIL_USE_VERIFICATION=True\n\
    INTEGRATIONS_ALLOW_PRIVATE_IPS=False\nMASTER_BADGE_LABEL=Mychecks\nPING_BODY_LIMIT=10000\n\
    PING_EMAIL_DOMAIN=localhost\nPING_ENDPOINT=http://localhost:8000/ping/\n\
    REGISTRATION_OPEN=True\nREMOTE_USER_HEADER=\nSECRET_KEY=---\nSHELL_ENABLED=False\n\
    SITE_LOGO_URL=\nSITE_NAME=Mychecks\nSITE_ROOT=http://localhost:8000\nSMTPD_PORT=\n\
    USE_PAYMENTS=False\n";

#[test]
fn a_server_starts_with_the_flags_that_the_report_prints() {
    let (directory, _) = temp_data_directory();
    let environment = directory.path().join("env");
    let more = "SMTPD_PORT=0\nPING_EMAIL_DOMAIN=hc.example.org\nEMAIL_HOST=mx.example.org\n\
                EMAIL_HOST_USER=me\nDEFAULT_FROM_EMAIL=Acme \
                <a@b.example>\nSHELL_ENABLED=True\nSITE_NAME=Our checks\nPING_BODY_LIMIT=None\n";
    for (number, text) in [STOCK.to_owned(), format!("{STOCK}{more}")]
        .into_iter()
        .enumerate()
    {
        std::fs::write(&environment, text).unwrap();
        let dump = fixture("hc.json");
        let words = [
            "import",
            "healthchecks",
            "--dry-run",
            dump.to_str().unwrap(),
            "--env-file",
            environment.to_str().unwrap(),
        ];
        let done = run(&mut overdue(&words));
        assert_eq!(done.status, 0, "{}", done.err);
        let line = done
            .out
            .lines()
            .find_map(|line| line.split_once("overdue serve --base-url"))
            .expect("a line with flags")
            .1;
        // As a shell reads them.
        let data = directory.path().join(format!("data-{number}"));
        let command = format!(
            "exec {} serve --listen 127.0.0.1:0 --data {} --base-url{line}",
            env!("CARGO_BIN_EXE_overdue"),
            data.display()
        );
        let server = ServerProcess::spawn(
            std::process::Command::new("/bin/sh")
                .args(["-c", &command])
                .env_clear(),
        );
        assert_eq!(
            HttpClient::connect(server.address)
                .unwrap()
                .get("/healthz", "")
                .unwrap()
                .status,
            200,
            "{line}"
        );
        server.stop();
    }
}

#[test]
fn badges_that_end_in_404_are_reported_for_each_project() {
    let dump = fixture("hc.json");
    let text = dry_run(&[dump.to_str().unwrap()])["counts"]["badges"].to_string();
    for part in [
        "project \\\"Home\\\" and its tags: they return 404 without the SECRET_KEY of the \
         old server; give it with --env-file or --secret-key-file",
        "GET /api/v3/badges/ lists",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
