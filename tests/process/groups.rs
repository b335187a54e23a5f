//! Tests of groups at the command line: a test message is sent to each channel of a group.

use serde_json::{Value, json};

use crate::server_process::{admin, overdue, run, temp_data_directory};

#[test]
fn a_test_of_a_group_tests_each_of_its_channels() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    for (name, command) in [("works", "true"), ("broken", "exit 3")] {
        let set = format!("down-command={command}");
        admin(
            &data,
            &[
                "channel",
                "create",
                "--project",
                "a",
                "--kind",
                "shell",
                "--name",
                name,
                "--set",
                &set,
            ],
        );
    }
    for (name, members) in [("both", "works,broken"), ("bad", "broken")] {
        let set = format!("channels={members}");
        admin(
            &data,
            &[
                "channel",
                "create",
                "--project",
                "a",
                "--kind",
                "group",
                "--name",
                name,
                "--set",
                &set,
            ],
        );
    }
    let test = |words: &[&str]| {
        run(overdue(&["channel", "test", "--allow-shell"])
            .args(words)
            .arg("--data")
            .arg(&data))
    };
    let both = test(&["both"]);
    let lines: Vec<_> = both.out.lines().collect();
    assert_eq!((both.status, both.err.as_str(), lines.len()), (0, "", 2));
    assert!(
        lines[0].starts_with("works: delivered in ")
            && lines[1] == "broken: not delivered: exit status 3",
        "{}",
        both.out
    );
    let rows: Value = serde_json::from_str(&test(&["both", "--json"]).out).unwrap();
    assert_eq!(
        (&rows[0]["name"], &rows[0]["delivered"]),
        (&json!("works"), &json!(true))
    );
    assert_eq!(
        (&rows[1]["delivered"], &rows[1]["error"]),
        (&json!(false), &json!("exit status 3"))
    );
    // A terminal may interpret control characters in a name.
    admin(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "shell",
            "--name",
            "x\u{202e}y",
            "--set",
            "down-command=true",
        ],
    );
    admin(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "group",
            "--name",
            "odd",
            "--set",
            "channels=x\u{202e}y",
        ],
    );
    let odd = test(&["odd", "--json"]).out;
    assert!(odd.contains("x\\u202ey"), "{odd}");
    let bad = test(&["bad"]);
    assert_eq!(
        (bad.status, bad.out.as_str()),
        (1, "broken: not delivered: exit status 3\n")
    );
    assert_eq!(
        bad.err,
        "overdue: not delivered: no channel of the group accepted it\n"
    );
    let create = [
        "channel",
        "create",
        "--project",
        "a",
        "--kind",
        "group",
        "--name",
        "third",
        "--set",
        "channels=works",
        "--test",
    ];
    let output = run(overdue(&create)
        .args(["--allow-shell", "--data"])
        .arg(&data));
    assert!(
        output.status == 0 && output.err.starts_with("works: delivered in "),
        "{}",
        output.err
    );
}
