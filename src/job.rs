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

mod job_process;
mod outgoing_ping;
mod output_forwarding;
mod ping_sender;
mod signal_forwarding;
mod spool;

/// Time for which a ping in flight is waited for when the job ends.
const LAST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after the end of a job in which a signal is attributed to it: `^C` and a service manager
/// reach this process too, maybe later.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

/// Job to run, and target of its reports.
pub struct JobSpec {
    /// Program, looked up in `PATH`.
    pub program: OsString,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Ping URL of its check.
    pub url: PingUrl,
    /// Maximum duration. After it the job is asked to end.
    pub timeout: Option<Duration>,
    /// Time to end after that request. After it the job is killed.
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
pub async fn run(job: JobSpec, delivery: PingSender) -> io::Result<u8> {
    let run = delivery.random.uuid();
    let begins = OutgoingPing::new(
        job.url.url_for(Some(JobEvent::Start), Some(run)),
        Vec::new(),
    );
    let mut signals = ForwardedSignals::listen()?;
    let child = JobProcess::start(&job)?;
    let (tell, told) = oneshot::channel();
    let telling = tokio::spawn(report_run(delivery, begins, told));
    let JobResult {
        status,
        note,
        output,
    } = match child {
        Ok(child) => child.wait(&job, &mut signals).await,
        Err(end) => end,
    };
    let body = if job.sends_output { output } else { Vec::new() };
    let mut ends = OutgoingPing::new(
        job.url.url_for(Some(JobEvent::Exit(status)), Some(run)),
        body,
    );
    if let Some(note) = note {
        print_notice(&note);
        ends.append_line(&format!("overdue: {note}"));
    }
    // The task ends only after this message.
    let _ = tell.send(ends);
    tokio::select! {
        _ = telling => {}
        () = signals.next_after(SIGNAL_GRACE) => {}
    }
    Ok(status)
}

/// Reports the start of the job, sends the pings that earlier runs left, and reports the end once
/// it is known.
async fn report_run(
    delivery: PingSender,
    begins: OutgoingPing,
    mut ended: oneshot::Receiver<OutgoingPing>,
) {
    let (stop, mut stopped) = watch::channel(false);
    let before = async {
        let begun = delivery.send_until_stopped(&begins, &mut stopped).await;
        if matches!(begun, PingAttemptResult::Accepted { .. }) {
            delivery.drain_spool().await;
        }
        begun
    };
    tokio::pin!(before);
    let (begun, ends) = tokio::select! {
        begun = &mut before => (begun, ended.await),
        ends = &mut ended => {
            // A ping in flight may end first: the end must not arrive before the start.
            stop.send_replace(true);
            (timeout(LAST_ATTEMPT_TIMEOUT, &mut before).await.unwrap_or(PingAttemptResult::Unavailable(String::new())), ends)
        }
    };
    let Ok(mut ends) = ends else { return };
    if let PingAttemptResult::Accepted {
        body_limit: Some(limit),
    } = begun
    {
        ends.truncate_to_tail(limit);
    }
    match delivery.send_or_spool(ends).await {
        PingResult::Accepted => {}
        PingResult::Spooled(why) => print_notice(&format!(
            "the server did not take the ping: {why}; the next run sends it again"
        )),
        PingResult::Lost(why) => print_notice(&format!("the server did not take the ping: {why}")),
    }
}

/// Sends one ping, and the waiting ones before it.
pub async fn ping(url: String, body: Vec<u8>, delivery: &PingSender) -> PingResult {
    delivery.send_or_spool(OutgoingPing::new(url, body)).await
}

/// Prints a line to standard error. If it is closed, the job continues.
fn print_notice(line: &str) {
    let _ = writeln!(io::stderr(), "overdue: {line}");
}
