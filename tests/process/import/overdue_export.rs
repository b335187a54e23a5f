//! Moving an overdue server at the command line: with a server on the database, and without.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::fixture;
use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

fn import(data: &Path, file: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(&["import", "overdue", "--data"])
        .arg(data)
        .arg(file)
        .args(words))
}

fn export(data: &Path, words: &[&str]) -> String {
    let done = run(overdue(&["export", "--format", "jsonl", "--data"])
        .arg(data)
        .args(words));
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    done.out
}

/// Returns all lines except the first, which has the time, and the last, which has the checksum.
fn middle(lines: &str) -> Vec<&str> {
    let all: Vec<_> = lines.lines().collect();
    all[1..all.len() - 1].to_vec()
}

/// Lines of pings without the numbers of their checks: neither the time nor the project of a first
/// start changes them.
fn pings(lines: &str) -> Vec<&str> {
    lines
        .lines()
        .filter_map(|line| line.strip_prefix("{\"ping\":{\"check\":")?.split_once(','))
        .map(|(_, ping)| ping)
        .collect()
}

#[test]
fn an_export_is_imported_with_and_without_servers() {
    let (_one, data) = temp_data_directory();
    let source = fixture("hc.sqlite");
    let done = run(
        overdue(&["import", "healthchecks", "--live", "--users", "--data"])
            .arg(&data)
            .arg(source),
    );
    assert_eq!(done.status, 0, "{}", done.err);
    let (directory, other) = temp_data_directory();
    let file = directory.path().join("all.jsonl");
    let written = run(
        overdue(&["export", "--format", "jsonl", "--logs", "--data"])
            .arg(&data)
            .arg(&file),
    );
    assert_eq!(
        (written.status, written.out.as_str(), written.err.as_str()),
        (0, "", "")
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let lines = std::fs::read_to_string(&file).unwrap();
    assert!(pings(&lines).len() > 100);
    let preview = import(&other, &file, &["--dry-run", "--json"]);
    assert_eq!(
        (preview.status, other.join("overdue.redb").exists()),
        (0, false),
        "{}",
        preview.err
    );
    let report: serde_json::Value = serde_json::from_str(&preview.out).unwrap();
    assert_eq!(report["counts"]["pings"]["carried"], pings(&lines).len());
    // No server runs on either data directory.
    assert_eq!(import(&other, &file, &["--live"]).status, 0);
    assert_eq!(middle(&export(&other, &["--logs"])), middle(&lines));
    // Through servers and pipes.
    let (_third, third) = temp_data_directory();
    let from = ServerProcess::start(&other);
    let to = ServerProcess::start(&third);
    let through = export(&other, &["--logs"]);
    let pipe = directory.path().join("pipe.jsonl");
    std::fs::write(&pipe, &through).unwrap();
    let taken = run(overdue(&["import", "overdue", "-", "--trial", "--data"])
        .arg(&third)
        .stdin(File::open(&pipe).unwrap()));
    assert_eq!(taken.status, 0, "{}", taken.err);
    assert_eq!(pings(&export(&third, &["--logs"])), pings(&lines));
    // A preview shows the contents and leaves no trace.
    let before = export(&third, &["--logs"]);
    let preview = import(&third, &file, &["--dry-run"]);
    let error = "it would replace 4 projects of an earlier import";
    assert!(
        preview.status == 0 && preview.out.lines().any(|line| line == error),
        "{}{}",
        preview.out,
        preview.err
    );
    assert_eq!(middle(&export(&third, &["--logs"])), middle(&before));
    // A preview that is ended after its result leaves no trace either.
    let mut socket = UnixStream::connect(third.join("admin.sock")).unwrap();
    let nothing = concat!(
        r#"{"projects":0,"keys":0,"channels":0,"windows":0,"checks":0,"users":0,"#,
        r#""pings":0,"flips":0}"#,
    );
    let mut post = |path: &str, body: &str| {
        write!(
            socket,
            "POST /api/overdue/v1/admin{path} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reply = BufReader::new(&socket);
        let mut status = String::new();
        reply.read_line(&mut status).unwrap();
        let mut line = "header".to_owned();
        let mut length = 0;
        while line.trim_end() != "" {
            line.clear();
            reply.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reply.read_exact(&mut body).unwrap();
        (
            status.split(' ').nth(1).unwrap().to_owned(),
            serde_json::from_slice::<serde_json::Value>(&body).unwrap(),
        )
    };
    let begin = r#"{"ids":1,"checks":0}"#;
    let (_, begun) = post("/imports", begin);
    let end = format!(r#"{{"look":true,"expected":{nothing},"replace":true}}"#);
    let path = format!("/imports/{}/finish", begun["import"]);
    assert_eq!(
        post(&path, &end),
        (
            "200".into(),
            serde_json::json!({ "replaced": 0, "checks": 0, "pings": 0 })
        )
    );
    let (status, second) = post("/imports", begin);
    assert_eq!(
        (status.as_str(), &second["error"]),
        (
            "409",
            &"an import is already in progress on this connection".into()
        )
    );
    let is_staged = || admin(&third, &["import", "list"]).contains("staged");
    assert!(is_staged());
    drop(socket);
    assert!(
        (0..100).any(|_| !is_staged()),
        "the import is still in progress"
    );
    drop((from, to));
}

#[test]
fn a_refused_import_leaves_nothing() {
    let (directory, data) = temp_data_directory();
    let output = run(overdue(&["project", "create", "Home", "--data"]).arg(&data));
    assert_eq!(output.status, 0, "{}", output.err);
    let file = directory.path().join("all.jsonl");
    let lines = export(&data, &[]);
    let before = lines.replacen("Home", "Away", 1);
    let other = directory.path().join("other");
    for (content, part) in [
        (
            &lines[..lines.len() - 10],
            "it is incomplete: the file is truncated",
        ),
        (&before, "the checksum at the end does not match"),
        ("", "it is empty"),
        ("version = 1\n", "it is not an export of overdue"),
    ] {
        File::create(&file)
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
        let refused = import(&other, &file, &["--live"]);
        assert!(
            refused.status == 2 && refused.err.contains(part),
            "{part}: {}",
            refused.err
        );
        assert!(!other.join("overdue.redb").exists(), "{part}");
    }
    std::fs::write(&file, &lines).unwrap();
    let refused = import(&data, &file, &["--live"]);
    assert!(
        refused.status == 1 && refused.err.contains("which was not imported"),
        "{}",
        refused.err
    );
    assert_eq!(middle(&export(&data, &[])), middle(&lines));
    let refused = run(overdue(&["export", "--logs", "--data"]).arg(&data));
    assert!(
        refused.status == 2 && refused.err.contains("--format jsonl"),
        "{}",
        refused.err
    );
}
