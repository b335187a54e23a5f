//! Commands. The shell runs them with an environment of their own. A command that takes too long is
//! killed with all processes of its group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getegid, geteuid, getgid, getuid, kill_process, kill_process_group,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::{SendError, SendStage};
use crate::util::sync::{Mutex, lock};
use crate::util::system_users::{self, SystemUser};

/// Maximum number of concurrent commands.
const MAX_COMMANDS: usize = 4;
/// Maximum number of bytes of standard error that are kept.
const MAX_STDERR_BYTES: usize = 200;
/// Time to read standard error after the command has exited: a process that it started may keep it
/// open forever.
const STDERR_GRACE_TIME: Duration = Duration::from_millis(200);
/// Inherited environment variables, apart from the home directory.
const INHERITED_VARIABLES: [&str; 2] = ["PATH", "LANG"];
/// Shell that runs commands.
const SHELL: &str = "/bin/sh";
/// Name under which this program starts the program in its arguments: in a session of its own,
/// without a terminal, with only the three standard files open.
pub const SESSION_LAUNCHER: &str = "overdue-session";

/// Shell command. It has no `Debug`: any part of it may be a secret.
#[derive(Clone)]
pub struct ShellCommand {
    /// Argument of `sh -c`.
    pub command: String,
    /// Variables in addition to `PATH`, `HOME` and `LANG`.
    pub environment: Vec<(String, String)>,
    /// Data on its standard input.
    pub input: Vec<u8>,
    /// Maximum run time. After that it is killed, with all processes of its group.
    pub timeout: Duration,
}

/// Result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellCommandResult {
    /// Exit of the command.
    pub exit: ProcessExit,
    /// First 200 bytes of its standard error.
    pub stderr: String,
}

/// Exit of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessExit {
    /// Exited with this status. The shell itself uses 126 for a program that cannot be executed and
    /// 127 for one that does not exist.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// Took too long and was killed.
    TimedOut,
}

/// Runs commands, up to four at the same time.
pub struct Commands {
    /// This program: see [`SESSION_LAUNCHER`].
    launcher: PathBuf,
    permits: Semaphore,
}

impl Commands {
    /// Creates the runner. `launcher`: this program, see [`SESSION_LAUNCHER`].
    pub fn new(launcher: PathBuf) -> Self {
        Self {
            launcher,
            permits: Semaphore::new(MAX_COMMANDS),
        }
    }

    /// Runs a command until it exits.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run(&self, command: ShellCommand) -> Result<ShellCommandResult, SendError> {
        run(&self.launcher, &self.permits, command).await
    }
}

async fn run(
    launcher: &Path,
    permits: &Semaphore,
    command: ShellCommand,
) -> Result<ShellCommandResult, SendError> {
    // The shell uses the real ids, which are the ids of root if root acts as another user.
    if getuid() != geteuid() || getgid() != getegid() {
        return Err(setup_error(
            "overdue runs as one user with the rights of another, which a command could obtain: \
             run it as that user",
        ));
    }
    let permit = permits.acquire().await;
    let _permit = permit.map_err(|error| setup_error(error.to_string()))?;
    if !Path::new(SHELL).exists() {
        return Err(setup_error(
            "there is no /bin/sh: this system, perhaps a container image, has no shell",
        ));
    }
    let ShellCommand {
        command,
        environment,
        input,
        timeout: limit,
    } = command;
    let mut child = spawn_shell(launcher, &command, environment)?;
    let stderr_prefix = StderrPrefix::default();
    let stderr = child.stderr.take();
    let stderr_task = stderr.map(|stderr| tokio::spawn(stderr_prefix.clone().collect(stderr)));
    let exit = wait_for_exit(&mut child, &input, limit).await?;
    if let Some(mut stderr_task) = stderr_task
        && timeout(STDERR_GRACE_TIME, &mut stderr_task).await.is_err()
    {
        stderr_task.abort();
    }
    Ok(ShellCommandResult {
        exit,
        stderr: stderr_prefix.to_text(),
    })
}

fn setup_error(reason: impl Into<String>) -> SendError {
    SendError::new(SendStage::Setup, reason.into())
}

/// Starts a shell that runs a command, in a session of its own.
fn spawn_shell(
    launcher: &Path,
    command: &str,
    environment: Vec<(String, String)>,
) -> Result<Child, SendError> {
    let inherited = INHERITED_VARIABLES
        .iter()
        .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let home = home(
        std::env::var_os("HOME"),
        getuid().as_raw(),
        &system_users::read_system_users(),
    )
    .map(|home| (OsString::from("HOME"), home));
    let command_variables = environment
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()));
    let variables = inherited.chain(home).chain(command_variables);
    let child = Command::new(launcher)
        .arg0(SESSION_LAUNCHER)
        .args([SHELL, "-c"])
        .arg(command)
        .env_clear()
        .envs(variables.filter(|(name, value)| is_valid_variable(name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    child.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            SendError::new(SendStage::Request, "the command contains a NUL character")
        }
        io::ErrorKind::NotFound if launcher.starts_with("/proc") => {
            setup_error("the shell cannot be started: /proc is not mounted")
        }
        kind => SendError::new(
            SendStage::Exchange,
            format!("the shell cannot be started: {kind}"),
        ),
    })
}

/// Writes the input of a shell and waits until it exits. After `limit` its process group is killed.
async fn wait_for_exit(
    child: &mut Child,
    input: &[u8],
    limit: Duration,
) -> Result<ProcessExit, SendError> {
    let mut group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)));
    let mut stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin.take() {
            // A command need not read its input.
            let _ = stdin.write_all(input).await;
        }
    };
    // After it has exited, nothing reads the rest of the input, even if a process that it started
    // holds the input open.
    let exit = timeout(limit, async {
        tokio::pin!(feed);
        tokio::select! {
            biased;
            status = child.wait() => status,
            () = &mut feed => child.wait().await,
        }
    });
    match exit.await {
        Ok(Ok(status)) => {
            // From now on its number may belong to another process.
            group.0 = None;
            Ok(status.code().map_or_else(
                || ProcessExit::Killed(status.signal().unwrap_or_default()),
                ProcessExit::Exited,
            ))
        }
        Ok(Err(error)) => Err(SendError::new(
            SendStage::Exchange,
            format!("waiting for the shell failed: {}", error.kind()),
        )),
        Err(_) => {
            drop(group);
            // It was killed. Waiting takes a moment and leaves no zombie.
            let _ = timeout(STDERR_GRACE_TIME, child.wait()).await;
            Ok(ProcessExit::TimedOut)
        }
    }
}

/// Returns the home directory of the user that a command runs as. The home of another user in the
/// list is replaced: root, for example, may have become this user.
fn home(inherited: Option<OsString>, uid: u32, users: &[SystemUser]) -> Option<OsString> {
    let is_foreign = |home: &OsString| {
        let mut owners = users.iter().filter(|user| *user.home == **home).peekable();
        owners.peek().is_some() && owners.all(|user| user.uid != uid)
    };
    let own_home = || {
        users
            .iter()
            .find(|user| user.uid == uid)
            .map(|user| OsString::from(&user.home))
    };
    inherited.filter(|home| !is_foreign(home)).or_else(own_home)
}

/// True if this is a valid variable. An invalid one would make the whole command fail.
fn is_valid_variable(name: &OsString, value: &OsString) -> bool {
    let has = |text: &OsString, byte: u8| text.as_encoded_bytes().contains(&byte);
    !name.is_empty() && !has(name, b'=') && !has(name, 0) && !has(value, 0)
}

/// Process group of a running command. Dropping it kills the group.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It has not been waited for, so the number is still its own. Right after its start it
            // leads no group yet.
            if kill_process_group(leader, Signal::KILL).is_err() {
                let _ = kill_process(leader, Signal::KILL);
            }
        }
    }
}

/// Beginning of the standard error of a command.
#[derive(Clone, Default)]
struct StderrPrefix(Arc<Mutex<Vec<u8>>>);

impl StderrPrefix {
    /// Reads to the end, so that the command never blocks on a full pipe.
    async fn collect(self, mut stderr: ChildStderr) {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
            let mut output = lock(&self.0);
            let room = MAX_STDERR_BYTES - output.len();
            output.extend(buffer.iter().take(length.min(room)));
        }
    }

    fn to_text(&self) -> String {
        let output = lock(&self.0);
        String::from_utf8_lossy(&output).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_another_user_is_replaced() {
        let user = |uid, home: &str| SystemUser {
            name: String::new(),
            uid,
            group: uid,
            home: home.into(),
        };
        let users = [
            user(0, "/root"),
            user(998, "/var/lib/overdue"),
            user(65534, "/nonexistent"),
            user(7, "/"),
            user(8, "/"),
        ];
        for (inherited, uid, expected) in [
            (Some("/root"), 0, Some("/root")),
            (Some("/root"), 998, Some("/var/lib/overdue")),
            (Some("/root"), 12345, None),
            (Some("/srv/own"), 998, Some("/srv/own")),
            (Some("/"), 8, Some("/")),
            (None, 998, Some("/var/lib/overdue")),
            (None, 12345, None),
        ] {
            let home = home(inherited.map(OsString::from), uid, &users);
            assert_eq!(home, expected.map(OsString::from), "{inherited:?} {uid}");
        }
    }
}
