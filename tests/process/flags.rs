//! Wrong usage, help, environment variables, and a closed pipe.

use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

#[test]
fn errors_are_one_line_on_standard_error() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "default"]);
    let channel = |kind: &'static str, set: &'static str| {
        vec![
            "channel",
            "create",
            "--project",
            "default",
            "--kind",
            kind,
            "--name",
            "n",
            "--set",
            set,
        ]
    };
    let providers = data.join("oidc.toml");
    std::fs::write(
        &providers,
        "[[provider]]\nissuer = \"https://id.example.org\"\nclient-id = \"overdue\"\n",
    )
    .unwrap();
    let providers = providers.to_str().unwrap().to_owned();
    let cases = [
        (vec!["prject"], 2, "there is no command 'prject'"),
        (
            vec!["run", "http://127.0.0.1:1/ping/a", "echo", "foo"],
            2,
            "write -- before the command of the job",
        ),
        (vec!["project"], 2, "requires a subcommand"),
        (vec!["project", "create", ""], 2, "cannot be empty"),
        (
            vec!["project", "create", "default"],
            1,
            "a project of that name already",
        ),
        (
            vec!["project", "create", "x", "--check-limit", "many"],
            2,
            "give a number of checks, or none",
        ),
        (vec!["project", "set", "default"], 2, "--check-limit"),
        (
            vec!["project", "delete", "nope"],
            1,
            r#"there is no project "nope"; existing projects: default"#,
        ),
        (
            vec!["key", "create", "--project", "default", "--access", "all"],
            2,
            "possible values: read-write, read-only, ping",
        ),
        (vec!["key", "create"], 2, "--access <ACCESS>"),
        (vec!["key", "revoke", "77"], 1, "there is no key 77"),
        (
            channel("fax", "to=a"),
            2,
            "possible values: alertmanager, apprise,",
        ),
        (channel("email", "to"), 2, "give a setting as KEY=VALUE"),
        (
            channel("email", "too=a"),
            2,
            "there is no setting \"too\"; use to",
        ),
        (channel("webhook", "body=a"), 2, "there is no URL"),
        (
            vec!["channel", "delete", "nope"],
            1,
            "there is no channel \"nope\"",
        ),
        (
            vec!["serve", "--listen", "8000"],
            2,
            "give an IP address and a port",
        ),
        (
            vec!["serve", "--listen", "192.0.2.1:8000"],
            1,
            "cannot listen on 192.0.2.1:8000",
        ),
        (
            vec!["serve", "--base-url", "example.org"],
            2,
            "a base URL looks like",
        ),
        (
            vec!["serve", "--trusted-proxy", "10.0.0.0/33"],
            2,
            "give a network or an address",
        ),
        (
            vec!["serve", "--ping-body-limit", "10000001"],
            2,
            "give a whole number from 0 to 10000000",
        ),
        (
            vec!["serve", "--api-rate", "-1"],
            2,
            "give a whole number from 0",
        ),
        (
            vec!["serve", "--outbound", "all"],
            2,
            "give private or public",
        ),
        (
            vec!["serve", "--outbound-allow", "box"],
            2,
            "give a network or an address",
        ),
        (
            vec!["serve", "--outbound-proxy", "https://box"],
            2,
            "give none, http://HOST:PORT",
        ),
        (
            vec!["serve", "--send-per-host", "0"],
            2,
            "give a whole number from 1 to 64",
        ),
        (
            vec!["serve", "--mail-server", "smtps://box"],
            2,
            "--mail-from <ADDRESS>",
        ),
        (
            vec!["serve", "--mail-server", "box", "--mail-from", "a@b"],
            2,
            "give smtps://USER@HOST (TLS)",
        ),
        (
            vec!["serve", "--mail-server", "smtps://box", "--mail-from", "a"],
            2,
            "give an address, as in alerts@example.org",
        ),
        (
            vec![
                "serve",
                "--mail-server",
                "smtps://me@box",
                "--mail-from",
                "a@b",
            ],
            2,
            "give a file with the password as --mail-password-file",
        ),
        (
            vec![
                "serve",
                "--mail-server",
                "smtps://me@box",
                "--mail-from",
                "a@b",
                "--mail-password-file",
                "/nowhere/x",
            ],
            1,
            "cannot read the password of the mail server from /nowhere/x",
        ),
        (
            vec!["serve", "--ca-file", "/nowhere/ca.pem"],
            1,
            "cannot read the certificates of /nowhere/ca.pem: No such file",
        ),
        (vec!["serve", "--auth", "all"], 2, "give password or none"),
        (
            vec!["serve", "--auth", "none", "--oidc", &providers],
            2,
            "--oidc has no effect with --auth none",
        ),
        (
            vec!["serve", "--oidc", "/nowhere/oidc.toml"],
            2,
            "cannot use /nowhere/oidc.toml: No such file",
        ),
        (
            vec!["serve", "--auth-header", "Remote-User"],
            2,
            "--trusted-proxy",
        ),
        (
            vec!["serve", "--auth-new-users", "owner"],
            2,
            "give no, read-only or member",
        ),
        (
            vec!["serve", "--session-days", "181"],
            2,
            "give a whole number from 1 to 180",
        ),
        (vec!["serve", "--backup-command", "true"], 2, "--backup-to"),
        (
            vec!["serve", "--backup-to", "/nowhere", "--backup-every", "7"],
            2,
            "give minutes, hours or days",
        ),
        (
            vec!["serve", "--backup-to", "/nowhere", "--backup-keep", "0"],
            2,
            "give a whole number from 1 to",
        ),
        (
            vec!["serve", "--log", "loud"],
            2,
            "give off, error, warn, info, debug or trace",
        ),
    ];
    for (words, status, part) in cases {
        let done = run(overdue(&words).arg("--data").arg(&data));
        assert_eq!(
            (done.status, done.out.as_str()),
            (status, ""),
            "{words:?}: {}",
            done.err
        );
        assert!(
            done.err.lines().count() == 1
                && done.err.starts_with("overdue: ")
                && done.err.contains(part),
            "{words:?}: {}",
            done.err
        );
    }
    let nowhere = run(&mut overdue(&["project", "list"]));
    assert_eq!(
        (
            nowhere.status,
            nowhere
                .err
                .contains("HOME is not set; give one with --data")
        ),
        (2, true),
        "{}",
        nowhere.err
    );
}

#[test]
fn help_goes_to_standard_output_and_names_the_variables() {
    for (words, variables) in [
        (
            &["serve"][..],
            &[
                "OVERDUE_LISTEN",
                "OVERDUE_BASE_URL",
                "OVERDUE_TRUSTED_PROXY",
                "OVERDUE_API_RATE",
                "OVERDUE_LOG",
                "OVERDUE_MAIL_SERVER",
            ][..],
        ),
        (
            &["project", "create"],
            &["OVERDUE_CHECK_LIMIT", "OVERDUE_PING_LOG_LIMIT"],
        ),
        (&["key", "create"], &["OVERDUE_PROJECT", "OVERDUE_ACCESS"]),
        (
            &["channel", "create"],
            &[
                "OVERDUE_KIND",
                "OVERDUE_NAME",
                "OVERDUE_SET",
                "OVERDUE_SET_FILE",
            ],
        ),
        (&["compact"], &[]),
    ] {
        let done = run(overdue(words).arg("--help"));
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
        for variable in variables.iter().chain(&["OVERDUE_DATA"]) {
            assert!(done.out.contains(variable), "{words:?}: {variable}");
        }
    }
    let version = run(&mut overdue(&["--version"]));
    let commit = option_env!("OVERDUE_COMMIT").unwrap_or("unknown");
    let expected = format!(
        "overdue {} (commit {commit}, schema {})\n",
        env!("CARGO_PKG_VERSION"),
        overdue::store::SCHEMA
    );
    assert_eq!(version.out, expected);
}

#[test]
fn variables_replace_flags_and_flags_take_precedence() {
    let (directory, data) = temp_data_directory();
    let create = |name: &str| {
        let mut command = overdue(&["project", "create", name]);
        command
            .env("OVERDUE_DATA", &data)
            .env("OVERDUE_CHECK_LIMIT", "7");
        command
    };
    assert_eq!(run(&mut create("a")).status, 0);
    assert_eq!(run(create("b").args(["--check-limit", "8"])).status, 0);
    let list = run(overdue(&["project", "list"])
        .env("OVERDUE_JSON", "1")
        .env("STATE_DIRECTORY", &data));
    assert_eq!(
        (
            list.out.contains(r#""check_limit":7"#),
            list.out.contains(r#""check_limit":8"#)
        ),
        (true, true),
        "{}",
        list.out
    );

    // An empty variable counts as not set.
    let mut empty = overdue(&["project", "create", "c"]);
    for name in [
        "OVERDUE_CHECK_LIMIT",
        "OVERDUE_PING_LOG_LIMIT",
        "OVERDUE_LOG",
    ] {
        empty.env(name, "");
    }
    let done = run(empty.arg("--data").arg(&data));
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    // Without `--project`, the only project is used.
    let key = || {
        let mut command = overdue(&["key", "create", "--access", "ping"]);
        run(command
            .env("OVERDUE_PROJECT", "")
            .env("OVERDUE_DATA", &data))
    };
    let which = key();
    assert_eq!(
        (which.status, which.err.as_str()),
        (
            1,
            "overdue: there are 3 projects; select one with --project: a, b, c\n"
        )
    );
    for name in ["b", "c"] {
        admin(&data, &["project", "delete", name, "--yes"]);
    }
    assert_eq!((key().status, key().err.as_str()), (0, ""));

    // An error names the variable.
    let wrong = run(overdue(&["serve"])
        .env("OVERDUE_DATA", &data)
        .env("OVERDUE_LISTEN", "foo"));
    let error = "overdue: invalid value 'foo' for '--listen <ADDR:PORT>' (set by OVERDUE_LISTEN): ";
    assert!(
        wrong.status == 2 && wrong.err.starts_with(error),
        "{}",
        wrong.err
    );

    assert_eq!(
        run(overdue(&["project", "create", "a"]).env("HOME", directory.path())).status,
        0
    );
    assert!(
        directory
            .path()
            .join(".local/state/overdue/overdue.redb")
            .exists()
    );
}

#[test]
fn the_data_flag_works_before_and_after_the_subcommand() {
    let (_directory, data) = temp_data_directory();
    let data = data.to_str().unwrap();
    for words in [
        ["--data", data, "project", "create", "a"],
        ["project", "--data", data, "create", "b"],
    ] {
        assert_eq!(run(&mut overdue(&words)).status, 0, "{words:?}");
    }
    assert_eq!(
        run(&mut overdue(&["project", "list", "--data", data]))
            .out
            .lines()
            .count(),
        3
    );
}

#[test]
fn settings_can_be_read_from_a_file() {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "default"]);
    let file = directory.path().join("settings");
    std::fs::write(&file, "header.authorization=Bearer a=b\n\nmethod=PUT\n").unwrap();
    let file = file.to_str().unwrap();
    let create = [
        "channel",
        "create",
        "--project",
        "default",
        "--kind",
        "webhook",
        "--name",
        "n",
        "--set",
        "up-url=http://a/",
    ];
    admin(&data, &[&create[..], &["--set-file", file]].concat());
    let shown = admin(&data, &["channel", "list", "--show-settings", "--json"]);
    assert!(
        shown.contains(
            r#""settings":{"header.authorization":"***","method":"PUT","up-url":"http://a/"}"#
        ),
        "{shown}"
    );

    std::fs::write(file, "method=PUT\nnonsense\n").unwrap();
    let done = run(overdue(&create)
        .arg("--data")
        .arg(&data)
        .env("OVERDUE_SET_FILE", file));
    assert_eq!(
        (
            done.status,
            done.err.contains("line 2: give a setting as KEY=VALUE")
        ),
        (2, true),
        "{}",
        done.err
    );
}

#[test]
fn the_kinds_of_channel_are_shown_without_a_database() {
    let shown = |words: &[&str]| {
        let done = run(&mut overdue(&[&["channel"], words].concat()));
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
        done.out
    };
    let lines = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let kinds = lines(&shown(&["kinds"]));
    for line in [
        "KIND SETTING NEED DESCRIPTION",
        "email to=ADDRESS,... required mail address, or several separated by commas",
        "webhook method=GET|POST|PUT default method; POST with a body, otherwise GET",
        "webhook header.NAME=TEXT optional header of the request; a secret",
        "ntfy url=URL default server, without the topic; https://ntfy.sh",
        "(any) send=down,up,late,limits optional events to send: a check is down, up again, late, or a run passes its limits; the first two if left out",
    ] {
        assert!(kinds.iter().any(|one| one == line), "{line}: {kinds:?}");
    }
    // For one kind: all its settings, where to get them, and a command to start with.
    let ntfy = shown(&["kinds", "ntfy"]);
    assert!(
        lines(&ntfy).contains(
            &"ntfy quiet=HH:MM-HH:MM optional hours in which nothing is sent; at their end one \
              message for each check gives its current status, or one message for all if there are \
              more than group-after"
                .into()
        )
    );
    assert!(
        ntfy.contains("Create access token") && ntfy.contains("add -file to its key"),
        "{ntfy}"
    );
    let example = "overdue channel create --project default --kind ntfy --name ntfy --set \
                topic=backups-x7Qm2";
    assert_eq!(ntfy.lines().last(), Some(example));
    assert_eq!(shown(&["kinds", "pushover"]), shown(&["kinds", "po"]));
    let first = concat!(
        r#"[{"kind":"email","key":"to","value":"ADDRESS,...","need":"required","#,
        r#""secret":false,"help":"mail address"#,
    );
    assert!(shown(&["kinds", "email", "--json"]).starts_with(first));
    // The help of commands that create or change a channel lists the kinds.
    for help in ["create", "set"] {
        let help = lines(&shown(&[help, "--help"]));
        for line in [
            "po, pushover Pushover",
            "email Mail",
            "To show the settings of a kind and where to get them: overdue channel kinds KIND",
        ] {
            assert!(help.iter().any(|one| one == line), "{line}: {help:?}");
        }
    }
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "default"]);
    for (words, status) in [
        (&["project", "list"][..], 0),
        (&["project", "list", "--json"], 0),
        (&["serve", "--help"], 0),
        (&["--version"], 0),
        // The key was not shown, so the command failed.
        (
            &["key", "create", "--project", "default", "--access", "ping"],
            1,
        ),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = run(overdue(words).arg("--data").arg(&data).stdout(writer));
        assert_eq!(done.status, status, "{words:?}: {}", done.err);
        assert!(!done.err.contains("panicked"), "{words:?}: {}", done.err);
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(run(overdue(&["key"]).stderr(writer)).status, 2);
}

#[test]
fn a_server_reads_its_configuration_file() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("overdue.toml");
    let text = "listen = [\"127.0.0.1:0\"]\nbase-url = \"https://checks.example.org\"\n\
                no-web = true\n";
    std::fs::write(&file, text).unwrap();
    let serve = |words: &[&str]| {
        let mut command = overdue(&["serve", "--config"]);
        command.arg(&file).arg("--data").arg(&data).args(words);
        command
    };
    let printed = run(&mut serve(&["--print-config", "--site-name", "nas"]));
    assert_eq!(printed.status, 0, "{}", printed.err);
    for line in [
        "listen = [\"127.0.0.1:0\"]  # configuration file",
        "no-web = true  # configuration file",
        "site-name = \"nas\"  # flag",
        "# api-rate = 100  # default",
    ] {
        assert!(printed.out.lines().any(|found| found == line), "{line}");
    }
    assert!(!data.exists(), "printing creates no database");

    let server = ServerProcess::spawn(&mut serve(&[]));
    let status = admin(&data, &["status", "--json"]);
    assert!(status.contains("https://checks.example.org"), "{status}");
    server.stop();

    std::fs::write(&file, "listn = \"127.0.0.1:0\"\n").unwrap();
    let refused = run(&mut serve(&[]));
    assert_eq!(refused.status, 2);
    assert!(
        refused
            .err
            .contains("overdue.toml:1:1: listn: there is no such setting"),
        "{}",
        refused.err
    );
}
