//! New start of the process of a machine that no longer leads its cluster. Nothing of the former
//! leader then goes on.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::ServeError;
use super::log::LogGuard;
use super::passed_sockets::KeptSockets;

/// Mark of the kernel after the path of a program whose file was replaced.
const DELETED_SUFFIX: &str = " (deleted)";

/// Replaces this process by a new one with the same arguments, which follows the new leader.
/// The new one takes over the listening sockets, so no connection is refused meanwhile. Returns only
/// if that is impossible. `reason`: reason why this machine no longer leads.
pub(super) fn restart_process(reason: &str, log: LogGuard, sockets: &KeptSockets) -> ServeError {
    tracing::warn!("this machine no longer leads the cluster: {reason}; starting again to follow");
    // Writes the queued lines.
    drop(log);
    let error = match std::env::current_exe() {
        Ok(program) => {
            let replaced = program
                .to_str()
                .and_then(|path| path.strip_suffix(DELETED_SUFFIX));
            let program = replaced.map_or_else(|| program.clone(), PathBuf::from);
            let mut command = Command::new(program);
            command.args(std::env::args_os().skip(1));
            match sockets.pass_to(&mut command) {
                Ok(()) => command.exec(),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    ServeError::NoLongerLeading(format!("{reason}, and it cannot start again: {error}"))
}
