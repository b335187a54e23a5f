//! Runs a job and reports to a server: its start, its end, and the end of its output.
//!
//! An error here never fails or delays the job. A failed report is one line on standard error, and
//! waits in a directory if there is one.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use job_process::{JobProcess, JobResult};
use outgoing_ping::OutgoingPing;
use ping_sender::PingAttemptResult;
use signal_forwarding::ForwardedSignals;

pub use outgoing_ping::{JobEvent, PingUrl};
pub use ping_sender::{PingResult, PingSender};
pub use spool::Spool;

pub mod discover;
mod job_process;
mod outgoing_ping;
mod output_forwarding;
mod ping_sender;
mod signal_forwarding;
mod spool;

/// Maximum wait for a ping in flight after the job has ended.
const LAST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after the end of a job during which signals still count as meant for the job: `^C` and a
/// service manager reach this process too, maybe later.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

/// Job to run, and target of its reports.
pub struct JobSpec {
    /// Program, looked up in `PATH`.
    pub program: OsString,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Ping URL of its check.
    pub url: PingUrl,
    /// Time limit. A job that exceeds it gets SIGTERM.
    pub timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    pub kill_after: Duration,
    /// True to send the end of its output.
    pub sends_output: bool,
}

/// Runs the job to its end and returns its exit status: 128 plus the number of the signal that
/// ended it, 127 if there is no such program, 126 if it cannot be started, 124 if it ended
/// successfully but after its time.
///
/// Reports are sent meanwhile, and after the end for as long as the sender allows. A signal that
/// did not end the job ends that wait.
///
/// # Errors
/// If the system provides no signals or no pipes. Nothing has been started then.
pub async fn run(job: JobSpec, sender: PingSender) -> io::Result<u8> {
    let run = sender.random.uuid();
    let start_ping = OutgoingPing::new(
        job.url.url_for(Some(JobEvent::Start), Some(run)),
        Vec::new(),
    );
    let mut signals = ForwardedSignals::listen()?;
    let child = JobProcess::start(&job)?;
    let (end_sender, end_receiver) = oneshot::channel();
    let reporting = tokio::spawn(report_run(sender, start_ping, end_receiver));
    let JobResult {
        status,
        note,
        output,
    } = match child {
        Ok(child) => child.wait(&job, &mut signals).await,
        Err(result) => result,
    };
    let body = if job.sends_output { output } else { Vec::new() };
    let mut end_ping = OutgoingPing::new(
        job.url.url_for(Some(JobEvent::Exit(status)), Some(run)),
        body,
    );
    if let Some(note) = note {
        print_notice(&note);
        end_ping.append_line(&format!("overdue: {note}"));
    }
    // The task ends only after this message.
    let _ = end_sender.send(end_ping);
    tokio::select! {
        _ = reporting => {}
        () = signals.next_after(SIGNAL_GRACE) => {}
    }
    Ok(status)
}

/// Reports the start of the job, sends the pings that earlier runs left, and reports the end once
/// it is known.
async fn report_run(
    sender: PingSender,
    start_ping: OutgoingPing,
    mut end_receiver: oneshot::Receiver<OutgoingPing>,
) {
    let (stop_sender, mut stop_receiver) = watch::channel(false);
    let sending = async {
        let result = sender
            .send_until_stopped(&start_ping, &mut stop_receiver)
            .await;
        if matches!(result, PingAttemptResult::Accepted { .. }) {
            sender.drain_spool().await;
        }
        result
    };
    tokio::pin!(sending);
    let (start_result, end_ping) = tokio::select! {
        result = &mut sending => (result, end_receiver.await),
        end_ping = &mut end_receiver => {
            // A ping in flight may end first: the end must not arrive before the start.
            stop_sender.send_replace(true);
            let result = timeout(LAST_ATTEMPT_TIMEOUT, &mut sending).await;
            let unavailable = PingAttemptResult::Unavailable(String::new());
            (result.unwrap_or(unavailable), end_ping)
        }
    };
    let Ok(mut end_ping) = end_ping else { return };
    if let PingAttemptResult::Accepted {
        body_limit: Some(limit),
    } = start_result
    {
        end_ping.truncate_to_tail(limit);
    }
    match sender.send_or_spool(end_ping).await {
        PingResult::Accepted => {}
        PingResult::Spooled(reason) => print_notice(&format!(
            "the server did not accept the ping: {reason}; the next run sends it again"
        )),
        PingResult::Lost(reason) => {
            print_notice(&format!("the server did not accept the ping: {reason}"));
        }
    }
}

/// Sends one ping, and the waiting ones before it.
pub async fn ping(url: String, body: Vec<u8>, sender: &PingSender) -> PingResult {
    sender.send_or_spool(OutgoingPing::new(url, body)).await
}

/// Prints a line to standard error. If it is closed, the job continues.
fn print_notice(line: &str) {
    let _ = writeln!(io::stderr(), "overdue: {line}");
}
