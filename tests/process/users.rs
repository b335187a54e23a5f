//! Users at the command line, with and without a server.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

/// Runs a command with input.
fn run_with_input(data: &Path, words: &[&str], text: &str) -> ProcessOutput {
    let mut command = overdue(words);
    let mut child = command
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end before it has read all input.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    ProcessOutput {
        status: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn refused(data: &Path, words: &[&str], part: &str) {
    let done = run(overdue(words).arg("--data").arg(data));
    assert!(
        done.status != 0 && done.err.contains(part),
        "{words:?}: {}",
        done.err
    );
}

fn list(data: &Path) -> Vec<Value> {
    serde_json::from_str(&admin(data, &["user", "list", "--json"])).unwrap()
}

fn provision(data: &Path, base: &str) {
    let done = run_with_input(
        data,
        &["user", "create", "Ann", "--owner", "--password-stdin"],
        "correct horse\n",
    );
    assert_eq!(
        (done.status, done.out.trim().len(), done.err.as_str()),
        (0, 36, "")
    );
    refused(data, &["user", "link"], "users already exist");
    refused(
        data,
        &["user", "create", "ANN", "--owner"],
        "a user of that name already exists",
    );
    refused(
        data,
        &["user", "create", "bob", "--member", "nowhere"],
        "there is no project \"nowhere\"",
    );
    refused(data, &["user", "create", "bob"], "--owner");
    refused(data, &["user", "delete", "ann"], "last owner");
    for password in ["short", "Bob Ross's", ""] {
        let done = run_with_input(
            data,
            &[
                "user",
                "create",
                "bob ross's",
                "--owner",
                "--password-stdin",
            ],
            password,
        );
        assert_eq!(
            (done.status, done.err.contains("a password")),
            (2, true),
            "{password}: {}",
            done.err
        );
    }
    let words = [
        "user",
        "create",
        "bob",
        "--member",
        "one",
        "--read-only",
        "two",
        "--json",
    ];
    let invited = run(overdue(&words).arg("--data").arg(data));
    let invited: Value = serde_json::from_str(&invited.out).unwrap();
    let path = invited["path"].as_str().unwrap();
    assert!(path.starts_with("/invite/") && path.len() == 28, "{path}");
    assert_eq!(
        invited["url"].as_str(),
        (!base.is_empty())
            .then(|| format!("{base}{path}"))
            .as_deref()
    );
    let users = list(data);
    let bob = users.iter().find(|user| user["name"] == "bob").unwrap();
    assert_eq!(
        bob["grant"],
        serde_json::json!({
            "projects": [
                { "project": "one", "access": "member" },
                { "project": "two", "access": "read-only" },
            ],
        })
    );
    assert_eq!(
        (&bob["status"], &bob["sessions"]),
        (&"invited".into(), &0.into())
    );
    assert_eq!(
        run_with_input(
            data,
            &["user", "passwd", "bob", "--password-stdin"],
            "another horse"
        )
        .status,
        0
    );
    let reset = run(overdue(&["user", "link", "BOB"]).arg("--data").arg(data));
    assert!(reset.out.contains("/reset/"), "{}", reset.out);
    for words in [
        &["user", "set", "bob", "--name", "Rob", "--owner"][..],
        &["user", "sign-out", "rob"],
        &["user", "reset-totp", "rob"],
        &["user", "reset-passkeys", "rob"],
        &["user", "set", "ann", "--disable"],
    ] {
        admin(data, words);
    }
    let table = admin(data, &["user", "list"]);
    assert_eq!(list(data)[0]["second_factor"], false);
    assert_eq!(list(data)[0]["passkeys"], 0);
    assert!(
        table.contains("disabled") && table.contains("everything") && !table.contains("$argon2id"),
        "{table}"
    );
    refused(data, &["user", "link", "ann"], "is disabled");
    refused(data, &["user", "set", "rob", "--disable"], "last owner");
    refused(data, &["user", "set", "rob"], "--name");
    admin(
        data,
        &["user", "set", "ann", "--enable", "--read-only", "two"],
    );
    admin(data, &["user", "delete", "ann", "--yes"]);
    assert_eq!(list(data).len(), 1);
}

#[test]
fn users_are_managed_without_a_server() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "one"]);
    admin(&data, &["project", "create", "two"]);
    let setup = run(overdue(&["user", "link"]).arg("--data").arg(&data));
    assert!(
        setup.out.starts_with("/setup/")
            && setup.err.contains("no server with a dashboard is running"),
        "{} {}",
        setup.out,
        setup.err
    );
    provision(&data, "");
}

#[test]
fn a_server_without_pages_shows_no_link_to_them() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("users.toml");
    std::fs::write(&file, "version = 1\n[user.ann]\nowner = true\n").unwrap();
    let mut server =
        ServerProcess::start_with(&data, &["--no-web", "--apply", file.to_str().unwrap()]);
    server
        .find_or_wait_for(r#"no link was created for the user "ann", since the dashboard is off"#);
    let link = run(overdue(&["user", "link", "ann"]).arg("--data").arg(&data));
    assert!(
        link.out.starts_with("/invite/")
            && link.err.contains("no server with a dashboard is running"),
        "{} {}",
        link.out,
        link.err
    );
    let log = server.log.join("\n");
    assert!(
        !log.contains("/setup/") && !log.contains("/invite/"),
        "{log}"
    );
    server.stop();
}

#[test]
fn users_are_managed_through_a_running_server() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    admin(&data, &["project", "create", "one"]);
    admin(&data, &["project", "create", "two"]);
    let base = format!("http://{}", server.address);
    assert!(admin(&data, &["user", "link"]).starts_with(&format!("{base}/setup/")));
    provision(&data, &base);
    server.stop();
    assert_eq!(list(&data).len(), 1);
}

#[test]
fn the_audit_log_names_the_command_line_and_users() {
    let (_directory, data) = temp_data_directory();
    let data = data.as_path();
    admin(data, &["project", "create", "Site"]);
    let empty = admin(data, &["audit", "--project", "Site", "--json"]);
    assert_eq!(empty.trim(), "[]");
    admin(data, &["check", "create", "--name", "Backup"]);
    admin(data, &["check", "pause", "Backup"]);
    let table = admin(data, &["audit"]);
    let rows: Vec<_> = table.lines().collect();
    assert!(rows[0].starts_with("TIME"), "{table}");
    for (row, parts) in rows[1..].iter().zip([
        ["Site", "command line", "paused check Backup"],
        ["Site", "command line", "created check Backup"],
        ["", "command line", "created project Site"],
    ]) {
        assert!(parts.iter().all(|part| row.contains(part)), "{table}");
    }
    assert_eq!(rows.len(), 4, "{table}");
    let json = admin(data, &["audit", "--limit", "1", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["action"], "paused");
    assert_eq!(json[0]["actor"]["kind"], "command_line");
    refused(data, &["audit", "--project", "None"], "None");
}
