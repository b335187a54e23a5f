//! Process of a job: starts it, forwards signals, and ends it at its timeout.

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::sleep;

use super::JobSpec;
use super::output_forwarding::{self, OutputPipes};
use super::signal_forwarding::ForwardedSignals;

/// Exit status of a job that exceeded its time and then reported success: the same as of
/// timeout(1).
const EXIT_TIMED_OUT: u8 = 124;

/// A running job.
pub(super) struct JobProcess {
    process: tokio::process::Child,
    output: OutputPipes,
    /// True if it is in the process group of this program, and so in the foreground of the
    /// terminal if this program is.
    in_our_group: bool,
}

/// Result of a job.
pub(super) struct JobResult {
    pub(super) status: u8,
    /// Details beyond the exit status.
    pub(super) note: Option<String>,
    /// End of its output.
    pub(super) output: Vec<u8>,
}

impl JobProcess {
    /// Starts the job. A job that cannot be started counts as ended.
    ///
    /// At a terminal it stays in our process group: it can read the terminal, and the keys `^C` and
    /// `^Z` affect it as they would without this program. Otherwise it gets a group of its own, so
    /// that all of its processes can be ended.
    pub(super) fn start(job: &JobSpec) -> io::Result<Result<Self, JobResult>> {
        let in_our_group = File::open("/dev/tty").is_ok();
        let (output, out, err) = OutputPipes::new()?;
        let mut command = Command::new(&job.program);
        command.args(&job.arguments).stdout(out).stderr(err);
        if !in_our_group {
            command.process_group(0);
        }
        let started = command.spawn();
        // It owns the ends of the pipes that the job writes to.
        drop(command);
        Ok(started
            .map(|process| Self {
                process,
                output,
                in_our_group,
            })
            .map_err(|error| {
                let status = if error.kind() == io::ErrorKind::NotFound {
                    127
                } else {
                    126
                };
                let note = format!(
                    "{} cannot be started: {error}",
                    job.program.to_string_lossy()
                );
                JobResult {
                    status,
                    note: Some(note),
                    output: Vec::new(),
                }
            }))
    }

    /// Waits for its end.
    pub(super) async fn wait(self, job: &JobSpec, signals: &mut ForwardedSignals) -> JobResult {
        let Self {
            mut process,
            output,
            in_our_group,
        } = self;
        let pid = process
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let send = |signal| {
            // The process has not been reaped, so its number is still its own. It may have ended.
            let _ = match pid {
                Some(pid) if in_our_group => kill_process(pid, signal),
                Some(pid) => kill_process_group(pid, signal),
                None => Ok(()),
            };
        };
        let output_tail = output_forwarding::OutputTail::default();
        let (end_sender, end_receiver) = watch::channel(false);
        let mut timed_out = false;
        let mut has_closed = false;
        let status = {
            let forwarding = output.forward(&output_tail, &end_receiver);
            let mut time_limit = Box::pin(sleep_or_forever(job.timeout));
            tokio::pin!(forwarding);
            let status = loop {
                tokio::select! {
                    status = process.wait() => break status,
                    () = &mut forwarding, if !has_closed => has_closed = true,
                    signal = signals.next() => {
                        let is_from_keyboard =
                            in_our_group && matches!(signal, Signal::INT | Signal::QUIT);
                        if !is_from_keyboard {
                            send(signal);
                        }
                    }
                    () = &mut time_limit => {
                        send(if timed_out { Signal::KILL } else { Signal::TERM });
                        // A stopped process could not end.
                        send(Signal::CONT);
                        time_limit.set(sleep_or_forever((!timed_out).then_some(job.kill_after)));
                        timed_out = true;
                    }
                }
            };
            end_sender.send_replace(true);
            if !has_closed {
                forwarding.await;
            }
            status
        };
        let (status, signal) = shell_exit_status(&status);
        let note = match (job.timeout, signal) {
            (Some(limit), _) if timed_out => {
                Some(format!("the job was ended after {} s", limit.as_secs()))
            }
            (_, Some(signal)) => Some(format!("the job was ended by signal {signal}")),
            _ => None,
        };
        let status = if timed_out && status == 0 {
            EXIT_TIMED_OUT
        } else {
            status
        };
        JobResult {
            status,
            note,
            output: output_tail.into_bytes(),
        }
    }
}

/// Sleeps for this duration, or forever if there is none.
async fn sleep_or_forever(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => pending().await,
    }
}

/// Returns the exit status in the convention of shells, and the signal that ended the job.
fn shell_exit_status(status: &io::Result<ExitStatus>) -> (u8, Option<i32>) {
    // A missing status, because another part of the process reaped the job, is a failure.
    let Ok(status) = status else { return (1, None) };
    let signal = status.signal();
    let number = status.code().unwrap_or(128 + signal.unwrap_or_default());
    (u8::try_from(number).unwrap_or(u8::MAX), signal)
}
