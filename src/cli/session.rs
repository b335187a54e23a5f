//! Commands of channels in sessions of their own. This program runs itself to become the leader of one, and then the command.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The first file descriptor behind those of the standard.
const FIRST_OTHER: i32 = 3;
/// The exit status of a shell for what cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// A link of the kernel, which leads to this program whoever may read the directories above it, also after it was replaced.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// The path by which this program is run again.
pub(super) fn this_program() -> PathBuf {
    let link = PathBuf::from(THIS_PROGRAM);
    if link.exists() { link } else { std::env::current_exe().unwrap_or(link) }
}

/// Begins a session and runs in it the program that the first word names, in place of this one. Root's terminal and the files that root's
/// shell had opened are closed to it.
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
