//! Edited commands and drop-ins in a shell: the exit statuses that they report.

use std::path::Path;
use std::process::Command;

use super::*;

/// Replacements of the programs that report: each writes the last part of its URL. They are
/// functions, because a program file that was just written may be busy.
const RECORDERS: &str = "curl() { for last; do :; done; echo \"$last\" >> \"$LOG\"; }\noverdue() \
                         { url=$2; shift 3; \"$@\"; echo \"$url/$?\" >> \"$LOG\"; }\n";

/// Runs a command in a shell with these recorders.
fn run_in_shell(directory: &Path, command: &str, result: &str) {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{RECORDERS}{command}"))
        .env("LOG", directory.join("log"))
        .env("SERVICE_RESULT", result);
    shell
        .current_dir(directory)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
}

/// Runs edited commands in `sh` and returns the reported exit statuses, in order.
fn reported_statuses(directory: &Path, reporter: Reporter, commands: &[&str]) -> Vec<String> {
    let draw = sequential_uuids();
    let text: String = commands
        .iter()
        .map(|command| format!("* * * * * {command}\n"))
        .collect();
    let mut proposer = CheckProposer {
        reporter,
        ..proposer(&draw)
    };
    let found = propose_for_crontab(
        &mut proposer,
        &Crontab {
            name: "c".into(),
            text,
            owner: CrontabOwner::User,
        },
    );
    assert_eq!(
        (found.proposals.len(), found.skipped.len()),
        (commands.len(), 0),
        "{found:?}"
    );
    for proposal in &found.proposals {
        let JobEdit::Line { new: line, .. } = &proposal.edit else {
            panic!("{proposal:?}")
        };
        // The text that cron passes to the shell.
        run_in_shell(
            directory,
            &line.strip_prefix("* * * * * ").unwrap().replace("\\%", "%"),
            "",
        );
    }
    let log = std::fs::read_to_string(directory.join("log")).unwrap();
    log.lines()
        .map(|url| url.rsplit('/').next().unwrap().to_owned())
        .collect()
}

#[test]
fn edited_commands_report_the_exit_status_of_the_job() {
    let commands = [
        "true",
        "sh -c 'exit 3'",
        "cd /nowhere-at-all && true",
        "true; false",
        "false || sh -c \"exit 4\"",
        "echo 'a;b' | grep -q b",
        "test \"$(date +\\%Y)\" -gt 2000",
        "( exit 5 )",
        "exec sh -c 'exit 6'",
        "A=b command exec true",
        "exit 7",
        "echo it\\'s | grep -q \"it's\"",
    ];
    for reporter in [Reporter::Curl, Reporter::Run] {
        let directory = tempfile::tempdir().unwrap();
        let statuses = reported_statuses(directory.path(), reporter, &commands);
        assert!(statuses[2] == "1" || statuses[2] == "2", "{statuses:?}");
        assert_eq!(
            [&statuses[..2], &statuses[3..]].concat(),
            ["0", "3", "1", "4", "0", "0", "5", "6", "0", "7", "0"],
            "{statuses:?}"
        );
    }
}

#[test]
fn a_drop_in_reports_the_result_of_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let draw = sequential_uuids();
    let found = propose_for_timers(
        &mut proposer(&draw),
        &parse_timers(TIMER_PROPERTIES_OUTPUT),
        "/etc/systemd/system",
        false,
    );
    let JobEdit::DropIn { text, .. } = &found.proposals[0].edit else {
        panic!("an edit of a line")
    };
    let stop = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStopPost=-/bin/sh -c '"))
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    // systemd replaces two by one.
    let stop = stop.replace("$$", "$");
    for result in ["success", "exit-code"] {
        run_in_shell(directory.path(), &stop, result);
    }
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    let ends: Vec<_> = log.lines().map(|url| url.ends_with("/fail")).collect();
    assert_eq!(ends, [false, true], "{log}");
}
