//! Command that runs after each scheduled backup, for example to copy it to another place.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::BackupError;
use crate::outbound::{Commands, ProcessExit, ShellCommand};

/// Maximum run time of the command: see [limits](crate::docs::limits).
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// Variable with the path of the backup.
const FILE_VARIABLE: &str = "BACKUP_FILE";

/// Command for `sh`, and the program that starts it. `Debug` does not show the command, which may
/// hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BackupHook {
    /// Argument of `sh -c`.
    pub command: String,
    /// This program: see [`SESSION_LAUNCHER`](crate::outbound::SESSION_LAUNCHER).
    pub launcher: PathBuf,
}

impl fmt::Debug for BackupHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackupHook(..)")
    }
}

impl BackupHook {
    /// Runs the command for a backup until it exits.
    ///
    /// # Errors
    /// If it cannot be started, exits with another status than 0, or takes longer than six hours.
    pub(super) fn run(&self, backup: &Path) -> Result<(), BackupError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let command = ShellCommand {
            command: self.command.clone(),
            environment: vec![(FILE_VARIABLE.into(), backup.to_string_lossy().into_owned())],
            input: Vec::new(),
            timeout: TIMEOUT,
        };
        let commands = Commands::new(self.launcher.clone());
        let result = runtime
            .block_on(commands.run(command))
            .map_err(|error| BackupError::Hook(error.to_string()))?;
        let end = match result.exit {
            ProcessExit::Exited(0) => return Ok(()),
            ProcessExit::Exited(status) => format!("it exited with status {status}"),
            ProcessExit::Killed(signal) => format!("it was killed by signal {signal}"),
            ProcessExit::TimedOut => "it took longer than six hours".into(),
        };
        let reason = match result.stderr.as_str() {
            "" => end,
            stderr => format!("{end}: {stderr}"),
        };
        Err(BackupError::Hook(reason.replace(char::is_control, " ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_command_is_not_shown() {
        let hook = BackupHook {
            command: "curl -u user:s3cret https://example.org".into(),
            launcher: "/proc/self/exe".into(),
        };
        assert!(!format!("{hook:?}").contains("s3cret"));
    }
}
