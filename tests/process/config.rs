//! Configuration as files at the command line, with and without a server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

const FILE: &str = r#"version = 1
source = "homelab"
[project.Home]
ping-log-limit = 200
[project.Home.channel.phone]
kind = "telegram"
chat = "1"
token = { env = "TOKEN" }
[project.Home.check.backup]
schedule = "30 3 * * *"
channels = ["phone"]
[project.Home.check.router]
uuid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f"
every = "5m"
[user.ann]
owner = true
"#;

fn with(data: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(words)
        .arg("--data")
        .arg(data)
        .env("TOKEN", "12345:secret"))
}

fn apply_diff_and_export(data: &Path, directory: &Path, base: &str) {
    let file = directory.join("home.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, FILE).unwrap();
    let done = with(data, &["apply", path]);
    let no_server = "overdue: no server with a dashboard is running; once one is, open the path \
                     of the link at its address\n";
    assert_eq!(
        (done.status, done.err.as_str()),
        (0, if base.is_empty() { no_server } else { "" }),
        "{}",
        done.out
    );
    assert!(
        done.out
            .contains(&format!("chooses a password at {base}/invite/")),
        "{}",
        done.out
    );
    assert!(
        done.out.starts_with("project Home\n  + project")
            && done.out.trim_end().ends_with("5 added"),
        "{}",
        done.out
    );
    assert!(!done.out.contains("12345"), "{}", done.out);
    let url = format!("{base}/ping/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f");
    assert_eq!(done.out.contains(&url), !base.is_empty(), "{}", done.out);
    for (words, status, out) in [
        (&["diff", path][..], 0, "nothing to do\n"),
        (&["apply", path], 0, "no changes\n"),
        (
            &["diff", path, "--json"],
            0,
            "{\"changes\":[],\"counts\":{\"add\":0,\"adopt\":0,\"change\":0,\"delete\":0,\"leave\"\
             :0}}\n",
        ),
        (&["apply", "--check", path], 0, ""),
    ] {
        let done = with(data, words);
        assert_eq!(
            (done.status, done.out.as_str(), done.err.as_str()),
            (status, out, ""),
            "{words:?}"
        );
    }
    std::fs::write(
        &file,
        FILE.replace("5m", "10m")
            .replace("[project.Home.check.backup]", "[project.Home.check.other]"),
    )
    .unwrap();
    let done = with(data, &["diff", path]);
    assert_eq!((done.status, done.err.as_str()), (3, ""), "{}", done.out);
    for line in [
        "  + check other   schedule 30 3 * * *, channels [phone]",
        "  ~ check router  every  5m → 10m",
        "  ? check backup  is no longer declared; kept, --prune would delete it",
        "1 to change, 1 to add, 1 left over",
    ] {
        assert!(
            done.out.lines().any(|found| found == line),
            "{line:?} is not in:\n{}",
            done.out
        );
    }
    let done = with(data, &["apply", path, "--prune"]);
    assert!(
        done.status == 0
            && done.out.contains("  - check backup\n")
            && done.out.contains("1 deleted"),
        "{}{}",
        done.out,
        done.err
    );
    // Errors of syntax and of content are shown with their place.
    std::fs::write(&file, FILE.replace("30 3", "30 25")).unwrap();
    let done = with(data, &["apply", path]);
    assert!(
        done.status == 2
            && done.err.starts_with(&format!(
                "{path}:10:12: project.Home.check.backup.schedule: "
            )),
        "{}",
        done.err
    );
    assert!(
        done.err
            .contains("\n  schedule = \"30 25 * * *\"\n             ^"),
        "{}",
        done.err
    );
    std::fs::write(&file, FILE.replace("[\"phone\"]", "[\"fax\"]")).unwrap();
    let done = with(data, &["apply", path]);
    assert!(
        done.status == 1
            && done.err.starts_with(&format!(
                "{path}:11:1: project.Home.check.backup.channels: "
            )),
        "{}",
        done.err
    );
    let done = run(overdue(&["apply", path]).arg("--data").arg(data));
    assert!(
        done.status == 2
            && done
                .err
                .contains("the environment variable TOKEN is not set"),
        "{}",
        done.err
    );
    // The export contains the current state.
    let done = with(data, &["export", "--project", "Home"]);
    assert!(
        done.status == 0
            && done
                .out
                .contains(r#"token = { env = "OVERDUE_HOME_PHONE_TOKEN" }"#),
        "{}{}",
        done.out,
        done.err
    );
    std::fs::write(&file, &done.out).unwrap();
    let done = run(overdue(&["diff", path])
        .arg("--data")
        .arg(data)
        .env("OVERDUE_HOME_PHONE_TOKEN", "12345:secret"));
    assert_eq!(
        (done.status, done.out.as_str()),
        (0, "nothing to do\n"),
        "{}",
        done.err
    );
    let secret = directory.join("secret.json");
    admin(
        data,
        &[
            "export",
            "--secrets",
            "--format",
            "json",
            secret.to_str().unwrap(),
        ],
    );
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&secret).unwrap().permissions());
    assert_eq!(
        (
            mode & 0o777,
            std::fs::read_to_string(&secret)
                .unwrap()
                .contains("12345:secret")
        ),
        (0o600, true)
    );
    assert_eq!(
        with(data, &["diff", secret.to_str().unwrap()]).out,
        "nothing to do\n"
    );
}

#[test]
fn files_are_applied_compared_and_written_without_a_server() {
    let (directory, data) = temp_data_directory();
    apply_diff_and_export(&data, directory.path(), "");
}

#[test]
fn files_are_applied_compared_and_written_with_a_server() {
    let (directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    apply_diff_and_export(
        &data,
        directory.path(),
        &format!("http://{}", server.address),
    );
    server.stop();
}

#[test]
fn a_server_applies_files_at_its_start_and_at_sighup() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("home.toml");
    let check = |slug: &str| format!("version = 1\nsource = \"s\"\n[project.Home.check.{slug}]\n");
    std::fs::write(&file, check("one")).unwrap();
    let mut server =
        ServerProcess::start_with(&data, &["--apply", file.to_str().unwrap(), "--apply-prune"]);
    server.find_or_wait_for("--apply: add check \"one\"");
    let slugs = || admin(&data, &["check", "list", "--project", "Home", "--json"]);
    assert!(slugs().contains("\"one\""));
    std::fs::write(
        &file,
        "version = 1\nsource = \"s\"\n[project.Home.check.,]\n",
    )
    .unwrap();
    server.signal("HUP");
    server.wait_for("the files of --apply were not applied; the server keeps");
    assert!(
        server
            .log
            .iter()
            .any(|line| line.contains("home.toml:3:21: ")),
        "{}",
        server.log.join("\n")
    );
    assert!(slugs().contains("\"one\""));
    std::fs::write(&file, check("two")).unwrap();
    server.signal("HUP");
    server.wait_for("--apply: delete check \"one\"");
    // The request comes after the transaction.
    assert!(slugs().contains("\"two\"") && !slugs().contains("\"one\""));
    server.stop();
    // An invalid file does not stop the server from starting.
    std::fs::write(&file, "version = ").unwrap();
    let mut server = ServerProcess::start_with(&data, &["--apply", file.to_str().unwrap()]);
    server.find_or_wait_for("the files of --apply were not applied; the server keeps");
    assert!(slugs().contains("\"two\""));
    server.stop();
}

#[test]
fn jobs_are_discovered_and_their_checks_applied() {
    let (directory, data) = temp_data_directory();
    let crontab = directory.path().join("crontab");
    let out = directory.path().join("out");
    std::fs::write(
        &crontab,
        "30 3 * * * /usr/local/bin/backup\n0 4 * * * date +%F\n",
    )
    .unwrap();
    let words = [
        "discover",
        "--host",
        "nas",
        "--base-url",
        "https://hc.example.org",
        "--crontab",
        crontab.to_str().unwrap(),
    ];
    let done = run(&mut overdue(&words));
    assert_eq!(
        (
            done.status,
            done.out.contains("[project.default.check.nas-backup]\n")
        ),
        (0, true),
        "{}{}",
        done.out,
        done.err
    );
    assert!(
        done.err.starts_with("overdue: edit manually: ") && done.err.contains("an unescaped %"),
        "{}",
        done.err
    );
    let done = run(overdue(&words).args(["--write", out.to_str().unwrap()]));
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(
        done.err.contains("overdue.patch (cd / && patch -p0")
            && !done.err.contains("/crontab (crontab"),
        "{}",
        done.err
    );
    // A crontab may contain passwords, and ping URLs are secret too.
    let mode = |path: &Path| {
        std::fs::symlink_metadata(path)
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        (
            mode(&out),
            mode(&out.join("overdue.toml")),
            mode(&out.join("overdue.patch"))
        ),
        (0o700, 0o600, 0o600)
    );
    let link_target = directory.path().join("victim");
    let link = out.join("overdue.patch");
    std::fs::write(&link_target, "somebody's").unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&link_target, &link).unwrap();
    assert_eq!(
        run(overdue(&words).args(["--write", out.to_str().unwrap()])).status,
        0
    );
    assert_eq!(
        (
            std::fs::read_to_string(&link_target).unwrap().as_str(),
            mode(&link)
        ),
        ("somebody's", 0o600)
    );
    let patch = std::fs::read_to_string(out.join("overdue.patch")).unwrap();
    assert!(
        patch.contains(
            "+30 3 * * * /usr/local/bin/backup; curl -fsS -m 10 --retry 5 -o /dev/null \
             https://hc.example.org/ping/"
        ),
        "{patch}"
    );
    let file = out.join("overdue.toml");
    let done = with(&data, &["apply", file.to_str().unwrap()]);
    assert!(
        done.status == 0 && done.out.contains("+ check nas-backup"),
        "{}{}",
        done.out,
        done.err
    );
    assert_eq!(
        with(&data, &["diff", file.to_str().unwrap()]).out,
        "nothing to do\n"
    );
    let listed = run(overdue(&words).arg("--json"));
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(
        (
            listed["checks"][0]["line"].as_u64(),
            listed["skipped"][0]["by_hand"].as_bool()
        ),
        (Some(1), Some(true))
    );
}

#[test]
fn a_job_that_is_discovered_again_keeps_its_url() {
    let (directory, _) = temp_data_directory();
    let crontab = directory.path().join("crontab");
    let out = directory.path().join("out");
    let line = "30 3 * * * /usr/local/bin/backup\n";
    std::fs::write(&crontab, line.repeat(2)).unwrap();
    let discover = |base_url: &str| {
        let words = [
            "discover",
            "--host",
            "nas",
            "--base-url",
            base_url,
            "--write",
            "out",
            "--crontab",
        ];
        let done = run(overdue(&words).arg(&crontab).current_dir(directory.path()));
        assert_eq!(done.status, 0, "{}", done.err);
        let [checks, patch] = ["overdue.toml", "overdue.patch"]
            .map(|name| std::fs::read_to_string(out.join(name)).unwrap());
        (done.err, checks, patch)
    };
    let uuids = |checks: &str| {
        checks
            .lines()
            .filter_map(|line| Some(line.strip_prefix("uuid = ")?.to_owned()))
            .collect::<Vec<_>>()
    };
    let first = discover("https://hc.example.org");
    let shown = out.display();
    let stdout = format!(
        "wrote 2 checks to {shown}/overdue.toml; the edits are in {shown}/overdue.patch (cd / && \
         patch -p0 < {shown}/overdue.patch)\n"
    );
    assert!(first.0.ends_with(&stdout), "{}", first.0);
    assert_eq!(discover("https://hc.example.org"), first);
    // Another base URL changes the URLs, but not the checks.
    let other_base = discover("https://checks.example.org");
    assert!(
        other_base.2.contains("https://checks.example.org/ping/"),
        "{}",
        other_base.2
    );
    assert_eq!(uuids(&other_base.1), uuids(&first.1));
    // The URL of a job that already reports is not shown.
    let edited: Vec<_> = other_base
        .2
        .lines()
        .filter_map(|line| line.strip_prefix("+30 3"))
        .collect();
    std::fs::write(&crontab, format!("30 3{}\n{line}", edited[0])).unwrap();
    let remaining = discover("https://checks.example.org");
    assert_eq!(uuids(&remaining.1), uuids(&first.1)[1..]);
    assert!(
        remaining.0.contains("overdue: wrote 1 check to "),
        "{}",
        remaining.0
    );
    // Neither another way to report nor an inserted line changes the checks.
    let command = "0 4 * * * cd /srv && /usr/local/bin/copy 'a b'\n";
    std::fs::write(&crontab, format!("{line}{command}")).unwrap();
    let by_curl = discover("https://checks.example.org");
    std::fs::write(&crontab, format!("MAILTO=root\n\n{line}{command}")).unwrap();
    let words = [
        "discover",
        "--host",
        "nas",
        "--with",
        "run",
        "--write",
        "out",
        "--crontab",
    ];
    let by_run = run(overdue(&words).arg(&crontab).current_dir(directory.path()));
    assert_eq!(by_run.status, 0, "{}", by_run.err);
    let checks = std::fs::read_to_string(out.join("overdue.toml")).unwrap();
    assert_eq!(
        (
            uuids(&by_curl.1),
            uuids(&by_curl.1).len(),
            checks.contains("overdue run ")
        ),
        (uuids(&checks), 2, true),
        "{checks}"
    );
    let remaining = discover("https://checks.example.org");
    assert_eq!(uuids(&remaining.1), uuids(&by_curl.1));
    // If nothing is left to do, the files are kept.
    std::fs::write(&crontab, "").unwrap();
    let done = discover("https://checks.example.org");
    assert_eq!(
        (done.0.as_str(), done.1),
        (
            "overdue: no job was found for which a check can be proposed; nothing was written\n",
            remaining.1
        )
    );
}

#[test]
fn changes_as_json_do_nothing_to_a_terminal() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("a.toml");
    let named = |name: &str| {
        std::fs::write(
            &file,
            format!("version = 1\n[project.Home.check.one]\nname = \"{name}\"\n"),
        )
        .unwrap();
    };
    named("plain");
    admin(&data, &["apply", file.to_str().unwrap()]);
    named("x\u{202e}y");
    let done = with(&data, &["diff", "--json", file.to_str().unwrap()]);
    assert!(done.out.contains("x\\u202ey"), "{} {}", done.out, done.err);
}

#[test]
fn the_same_line_in_two_crontabs_is_two_jobs() {
    let (directory, _) = temp_data_directory();
    let [alice, bob, out] = ["alice", "bob", "out"].map(|name| directory.path().join(name));
    let line = "30 3 * * * /usr/local/bin/backup\n";
    let discover = |crontabs: &[&Path]| {
        let named = crontabs
            .iter()
            .flat_map(|crontab| ["--crontab".as_ref(), crontab.as_os_str()]);
        let done = run(overdue(&["discover", "--host", "nas", "--write"])
            .arg(&out)
            .args(named));
        assert_eq!(done.status, 0, "{}", done.err);
        let checks = std::fs::read_to_string(out.join("overdue.toml")).unwrap();
        let uuids = checks
            .lines()
            .filter_map(|line| Some(line.strip_prefix("uuid = ")?.to_owned()))
            .collect::<Vec<_>>();
        (uuids, done.err)
    };
    for crontab in [&alice, &bob] {
        std::fs::write(crontab, line).unwrap();
    }
    let (both, said) = discover(&[&alice, &bob]);
    assert!(
        both.len() == 2 && !said.contains("was not written by this run"),
        "{said}"
    );
    assert_eq!(
        discover(&[&bob, &alice]).0,
        [both[1].clone(), both[0].clone()]
    );
    // An edited crontab of another run is not reported as one of this run.
    std::fs::write(out.join("crontab"), "of an earlier run").unwrap();
    let (of_bob, said) = discover(&[&bob]);
    assert_eq!(of_bob, both[1..]);
    assert!(
        said.contains(&format!(
            "overdue: {} was not written by this run\n",
            out.join("crontab").display()
        )),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(out.join("crontab")).unwrap(),
        "of an earlier run"
    );
}

#[test]
fn the_name_of_an_export_file_sets_its_format() {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "web"]);
    let export = |name: &str, words: &[&str]| {
        let done = run(overdue(&["export", name, "--data"])
            .arg(&data)
            .args(words)
            .current_dir(directory.path()));
        (
            done.status,
            done.err,
            std::fs::read_to_string(directory.path().join(name)).unwrap_or_default(),
        )
    };
    for (name, words, begins) in [
        ("all.jsonl", &["--logs"][..], "{\"overdue\":"),
        ("all.json", &[], "{\n"),
        ("all.toml", &[], "# "),
        ("all", &[], "# "),
        ("all.txt", &["--format", "json"], "{\n"),
    ] {
        let (status, err, text) = export(name, words);
        assert!(
            status == 0 && text.starts_with(begins),
            "{name}: {err}{text}"
        );
    }
    for (name, words, part) in [
        (
            "other.json",
            &["--format", "toml"][..],
            "other.json ends with .json, but --format is toml: rename the file",
        ),
        (
            "other.toml",
            &["--logs"],
            "give --format jsonl, or a FILE that ends with .jsonl",
        ),
    ] {
        let (status, err, text) = export(name, words);
        assert!(
            status == 2 && err.contains(part) && text.is_empty(),
            "{name}: {err}"
        );
    }
}

#[test]
fn changes_name_a_ping_key() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("home.toml");
    std::fs::write(
        &file,
        "version = 1\n[project.Home]\nping-key = \"abcdefghijklmnopqrstuv\"\n",
    )
    .unwrap();
    let done = with(&data, &["apply", file.to_str().unwrap()]);
    assert!(
        done.out
            .lines()
            .any(|line| line.starts_with("  + ping-key  ")),
        "{}{}",
        done.out,
        done.err
    );
}

/// A server that answers 200. Returns its address and the request lines as they arrive.
fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            // The test may have ended.
            let _ = stream
                .read_line(&mut line)
                .map(|_| tell.send(line.trim_end().to_owned()));
            let _ = stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (url, requests)
}

#[test]
fn a_group_that_is_exported_and_applied_elsewhere_delivers() {
    let (directory, data) = temp_data_directory();
    let (url, requests) = receiver();
    admin(&data, &["project", "create", "web"]);
    let create = |kind: &str, name: &str, set: &str| {
        admin(
            &data,
            &[
                "channel",
                "create",
                "--project",
                "web",
                "--kind",
                kind,
                "--name",
                name,
                "--set",
                set,
            ],
        )
    };
    let ops = create("webhook", "ops", &format!("down-url={url}/ops"));
    // A name with a comma cannot be in a list, so the group keeps the UUID.
    let comma = create("webhook", "day, night", &format!("down-url={url}/comma"));
    create(
        "group",
        "grp",
        &format!("channels={},{}", ops.trim(), comma.trim()),
    );
    admin(
        &data,
        &["check", "create", "--project", "web", "--slug", "backup"],
    );
    admin(&data, &["channel", "assign", "grp", "--all"]);
    let exported = admin(&data, &["export"]);
    assert!(
        exported.contains(&format!("channels = \"ops,{}\"", comma.trim())),
        "{exported}"
    );
    let file = directory.path().join("web.toml");
    std::fs::write(&file, &exported).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(admin(&data, &["diff", path]), "nothing to do");
    // Renaming a member changes only that channel.
    admin(&data, &["channel", "rename", "ops", "operators"]);
    assert!(
        admin(&data, &["export"]).contains(&format!("channels = \"operators,{}\"", comma.trim()))
    );

    let (_elsewhere, data) = temp_data_directory();
    std::fs::write(&file, exported.replace("\"ops,", "\"oops,")).unwrap();
    let refused = with(&data, &["apply", path]);
    assert!(
        refused.status == 1 && refused.err.contains("project.web.channel.grp.channels: "),
        "{}",
        refused.err
    );
    assert!(
        refused
            .err
            .contains(r#"names "oops", but the project has no such channel"#),
        "{}",
        refused.err
    );
    std::fs::write(&file, &exported).unwrap();
    admin(&data, &["apply", path]);
    assert!(admin(&data, &["diff", path]).contains("nothing to do"));
    let server = ServerProcess::start(&data);
    let uuid = exported
        .split("uuid = \"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let mut client = crate::client::HttpClient::connect(server.address).unwrap();
    assert_eq!(
        client
            .post(&format!("/ping/{uuid}/fail"), b"")
            .unwrap()
            .status,
        200
    );
    let mut received: Vec<_> = (0..2)
        .map(|_| requests.recv_timeout(Duration::from_secs(60)).unwrap())
        .collect();
    received.sort();
    assert_eq!(received, ["GET /comma HTTP/1.1", "GET /ops HTTP/1.1"]);
    server.stop();
}

#[test]
fn files_are_checked_without_their_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("home.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(overdue(&["apply", "--check", "--no-secrets"]).arg(&file))
    };
    let text = "version = 1\n[project.Home]\nping-key = { file = \"/nonexistent/key\" }\n\
                [project.Home.channel.phone]\nkind = \"telegram\"\nchat = \"1\"\n\
                token = { env = \"NOT_SET_ANYWHERE\" }\n";
    let checked = check(text);
    assert_eq!(checked.status, 0, "{}", checked.err);
    for (wrong, part) in [
        (text.replace("chat =", "chatt ="), "chatt"),
        (text.replace("\"telegram\"", "\"telegramm\""), "telegramm"),
        (text.replace("ping-key =", "pink-key ="), "pink-key"),
    ] {
        let refused = check(&wrong);
        assert_eq!(refused.status, 2, "{wrong}");
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    let alone = run(overdue(&["apply", "--no-secrets"]).arg(&file));
    assert_eq!(alone.status, 2, "{}", alone.err);
}
