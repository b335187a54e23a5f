//! Commands of channels in sessions of their own. This program executes itself as the leader of a
//! session, and then the command.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// First file descriptor after the standard streams.
const FIRST_OTHER: i32 = 3;
/// Exit status of a shell for a file that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// Link of the kernel to this program. It works without permission for the directories above it,
/// and after the file was replaced.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Returns the path by which this program is executed again.
pub(super) fn this_program() -> PathBuf {
    let link = PathBuf::from(THIS_PROGRAM);
    if link.exists() { link } else { std::env::current_exe().unwrap_or(link) }
}

/// Begins a session, and replaces this program in it by the one that the first word names. The new
/// program has no access to root's terminal and to files that root's shell had opened.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    let [program, arguments @ ..] = words else { return ExitCode::from(NOT_EXECUTABLE) };
    let error = match rustix::process::setsid() {
        Ok(_) => {
            close_fds::set_fds_cloexec(FIRST_OTHER, &[]);
            Command::new(program).args(arguments).exec()
        }
        Err(error) => error.into(),
    };
    let _ = writeln!(io::stderr(), "the shell cannot be started: {error}");
    ExitCode::from(NOT_EXECUTABLE)
}
