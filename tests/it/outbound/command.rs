//! Commands: environment, input, exit, and cleanup of processes.

use std::time::Duration;

use overdue::outbound::{
    Outbound, OutboundConfig, ProcessExit, SendStage, ShellCommand, ShellCommandResult,
};
use overdue::store::owner::AssumedOwner;
use tokio::time::{sleep, timeout};

use super::{config, outbound, words};

fn shell(command: impl Into<String>) -> ShellCommand {
    ShellCommand {
        command: command.into(),
        environment: Vec::new(),
        input: Vec::new(),
        timeout: Duration::from_secs(10),
    }
}

fn allowed() -> Outbound {
    outbound(OutboundConfig {
        command_launcher: Some(env!("CARGO_BIN_EXE_overdue").into()),
        ..config()
    })
}

async fn run(command: ShellCommand) -> ShellCommandResult {
    timeout(Duration::from_secs(20), allowed().run_command(command))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn commands_are_disabled_by_default() {
    let error = outbound(config())
        .run_command(shell("echo secret"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Setup,
            "commands are not allowed; start with --allow-shell"
        )
    );
}

#[tokio::test]
async fn a_command_without_proc_fails_with_the_reason() {
    let sender = outbound(OutboundConfig {
        command_launcher: Some("/proc/self/absent".into()),
        ..config()
    });
    let error = sender.run_command(shell("true")).await.unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Setup,
            "the shell cannot be started: /proc is not mounted"
        )
    );
}

/// The shell would use the real user, which is root.
#[tokio::test]
async fn no_command_runs_while_root_acts_as_another_user() {
    let directory = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(directory.path(), Some(65534), Some(65534)).is_err() {
        return;
    }
    let sender = allowed();
    let owner = AssumedOwner::assume(directory.path()).unwrap();
    let error = sender.run_command(shell("true")).await.unwrap_err();
    drop(owner);
    assert_eq!(error.stage, SendStage::Setup);
    assert!(
        words(&error).contains("with the rights of another"),
        "{error:?}"
    );
    assert_eq!(run(shell("true")).await.exit, ProcessExit::Exited(0));
}

#[tokio::test]
async fn a_command_gets_its_environment_and_input() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = shell(format!(
        "{{ cat; echo; env | grep -o '^[A-Z_]*=' | sort | tr -d '\\n'; echo; echo \
         \"$OVERDUE_ALERT_NAME\"; }} > {}",
        out.display()
    ));
    command.environment = vec![
        ("OVERDUE_ALERT_NAME".into(), "a 'b' $(c)\n".into()),
        ("BAD=NAME".into(), "x".into()),
        ("NUL".into(), "a\0b".into()),
    ];
    command.input = b"{\"event\":\"down\"}".to_vec();
    assert_eq!(
        run(command).await,
        ShellCommandResult {
            exit: ProcessExit::Exited(0),
            stderr: String::new()
        }
    );
    let out = std::fs::read_to_string(out).unwrap();
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("{\"event\":\"down\"}"));
    let names: Vec<_> = lines.next().unwrap().split_terminator('=').collect();
    // The shell itself adds the last three.
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "OVERDUE_ALERT_NAME",
        "PWD",
        "SHLVL",
        "_",
    ];
    assert!(
        names.contains(&"OVERDUE_ALERT_NAME") && names.contains(&"PATH"),
        "{out}"
    );
    assert!(names.iter().all(|name| known.contains(name)), "{out}");
    assert!(out.ends_with("a 'b' $(c)\n\n"), "{out}");
}

#[tokio::test]
async fn exit_statuses_are_reported() {
    for (command, how, stderr) in [
        ("exit 75", ProcessExit::Exited(75), ""),
        (
            "echo words >&2; echo nothing; exit 3",
            ProcessExit::Exited(3),
            "words",
        ),
        ("kill -9 $$", ProcessExit::Killed(9), ""),
        (
            "printf '%0999d' 7 >&2",
            ProcessExit::Exited(0),
            &"0".repeat(200),
        ),
        // The command reads no input, and the input is longer than a pipe holds.
        ("exec 0<&-; exit 4", ProcessExit::Exited(4), ""),
    ] {
        let mut command = shell(command);
        command.input = vec![b'x'; 200_000];
        assert_eq!(
            run(command).await,
            ShellCommandResult {
                exit: how,
                stderr: stderr.into()
            }
        );
    }
    let missing = run(shell("/nowhere/command")).await;
    assert_eq!(missing.exit, ProcessExit::Exited(127));
    assert!(
        missing.stderr.contains("/nowhere/command"),
        "{}",
        missing.stderr
    );
    assert_eq!(
        allowed()
            .run_command(shell("a\0b"))
            .await
            .unwrap_err()
            .stage,
        SendStage::Request
    );
}

/// Waits until a process is gone. A zombie counts as gone.
async fn wait_until_gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let is_gone = async {
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), is_gone)
        .await
        .unwrap_or_else(|_| panic!("{pid} still runs"));
}

#[tokio::test]
async fn a_command_over_its_time_limit_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let mut command = shell(format!(
        "echo began >&2; sleep 1000 & echo $! > {0}; sh -c 'echo $$ >> {0}; sleep 1000; true'; \
         true",
        pids.display()
    ));
    command.timeout = Duration::from_secs(2);
    assert_eq!(
        run(command).await,
        ShellCommandResult {
            exit: ProcessExit::TimedOut,
            stderr: "began".into()
        }
    );
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        wait_until_gone(pid).await;
    }
}

#[tokio::test]
async fn processes_that_a_command_leaves_behind_are_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    // It keeps standard error open.
    let end = run(shell(format!(
        "sleep 3 & echo $! > {}; echo left >&2",
        pid.display()
    )))
    .await;
    assert_eq!(
        end,
        ShellCommandResult {
            exit: ProcessExit::Exited(0),
            stderr: "left".into()
        }
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(
        std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(),
        "it was killed, or waited for"
    );
}

#[tokio::test]
async fn an_abandoned_command_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let outbound = allowed();
    let command = shell(format!(
        "echo $$ > {0}.new; mv {0}.new {0}; sleep 1000; true",
        pid.display()
    ));
    let job = tokio::spawn(async move { outbound.run_command(command).await });
    let written = async {
        while !pid.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), written).await.unwrap();
    job.abort();
    wait_until_gone(&std::fs::read_to_string(&pid).unwrap()).await;
}

#[tokio::test]
async fn the_number_of_running_commands_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    // Each waits for a fifth for a while, and reports whether it came.
    let command = format!(
        "touch {path}/$$; for i in 1 2 3 4 5; do [ $(ls {path} | wc -l) -gt 4 ] && exit 9; sleep \
         0.05; done; rm {path}/$$"
    );
    let outbound = allowed();
    let jobs: Vec<_> = (0..6)
        .map(|_| {
            let outbound = outbound.clone();
            let command = shell(command.clone());
            tokio::spawn(async move { outbound.run_command(command).await.unwrap().exit })
        })
        .collect();
    for job in jobs {
        assert_eq!(
            timeout(Duration::from_secs(20), job)
                .await
                .unwrap()
                .unwrap(),
            ProcessExit::Exited(0)
        );
    }
}
