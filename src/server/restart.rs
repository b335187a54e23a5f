//! New start of the process of a machine that no longer leads its cluster. Nothing of the former
//! leader then goes on.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use command_fds::CommandFdExt as _;

use super::ServeError;
use super::log::LogGuard;
use super::passed_sockets::KeptSockets;

/// Mark of the kernel after the path of a program whose file was replaced.
const DELETED_SUFFIX: &str = " (deleted)";

/// Replaces this process by a new one with the same arguments, which follows the new leader.
/// The new one takes over the listening sockets, so no connection is refused meanwhile. Returns
/// only if that is impossible. `reason`: reason why this machine no longer leads.
pub(super) fn restart_process(reason: &str, log: LogGuard, sockets: &KeptSockets) -> ServeError {
    tracing::warn!("this machine no longer leads the cluster: {reason}; starting again to follow");
    // Writes the queued lines.
    drop(log);
    let error = match prepare_command(sockets) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    };
    ServeError::NoLongerLeading(format!("{reason}, and it cannot start again: {error}"))
}

/// Returns the command that starts this program again with its arguments and the sockets.
fn prepare_command(sockets: &KeptSockets) -> io::Result<Command> {
    let program = std::env::current_exe()?;
    let replaced = program
        .to_str()
        .and_then(|path| path.strip_suffix(DELETED_SUFFIX));
    let program = replaced.map_or_else(|| program.clone(), PathBuf::from);
    let hand_over = sockets.prepare_hand_over()?;
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .envs(hand_over.variables)
        .fd_mappings(hand_over.descriptors)
        .map_err(io::Error::other)?;
    Ok(command)
}
