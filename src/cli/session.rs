//! Programs that replace this one in its process: the command of a channel in a session of its own,
//! and this program as another user.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::server::passed_socket_count;
use crate::store::owner::{ForeignOwner, become_user};

/// First file descriptor after the standard streams.
const FIRST_OTHER: i32 = 3;
/// Exit status of a shell for a file that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// Name under which root starts this program again. The first two words are the ids of a user and
/// of a group, which it takes before anything else. The rest is the command line.
pub(super) const OWNER_LAUNCHER: &str = "overdue-owner";

/// Returns the path by which this program is executed again: a link of the kernel. It works without
/// permission for the directories above the program, and after the file was replaced.
pub(super) fn this_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// Begins a session, and replaces this program in it by the one that the first word names. The new
/// program has no access to root's terminal and to files that root's shell had opened.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    let [program, arguments @ ..] = words else {
        return ExitCode::from(NOT_EXECUTABLE);
    };
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

/// Replaces this process by this program as another user, with the same words. Files that root's
/// shell had opened are closed. The standard streams and the sockets that a service manager passed
/// stay open.
pub(super) fn restart_as(owner: ForeignOwner) -> io::Error {
    close_fds::set_fds_cloexec(FIRST_OTHER.saturating_add(passed_socket_count()), &[]);
    let ids = [owner.uid, owner.gid].map(|id| id.to_string());
    let error = Command::new(this_program())
        .arg0(OWNER_LAUNCHER)
        .args(ids)
        .args(std::env::args_os())
        .exec();
    match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, "/proc is not mounted"),
        _ => error,
    }
}

/// Takes the ids that the first two words name, and returns the other words. No other process of
/// that user can trace this one.
pub(super) fn take_ids(words: &[OsString]) -> io::Result<&[OsString]> {
    let [uid, gid, rest @ ..] = words else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let parse = |word: &OsString| {
        word.to_str()
            .and_then(|word| word.parse().ok())
            .ok_or(ErrorKind::InvalidInput)
    };
    become_user(ForeignOwner {
        uid: parse(uid)?,
        gid: parse(gid)?,
    })?;
    Ok(rest)
}
