//! Runs a job and tells a server of it: that it has begun, how it ended, and the last of what it printed.
//!
//! Nothing here fails the job or holds it up. What could not be told is one line on standard error, and waits in a directory if there is one.

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

/// How long a ping that is under way when the job ends is waited for.
const LAST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long after the end of a job a signal may be the one that ended it: `^C` and a service manager reach this process too, maybe later.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

/// What is run, and who is told.
pub struct JobSpec {
    /// The program, looked up in `PATH`.
    pub program: OsString,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// The check that it belongs to.
    pub url: PingUrl,
    /// How long it may take; after that it is asked to end.
    pub timeout: Option<Duration>,
    /// How long it may take to do so; after that it is killed.
    pub kill_after: Duration,
    /// Whether the last of its output is sent.
    pub sends_output: bool,
}

/// Runs the job to its end and gives its exit status: 128 and the number of the signal that ended it, 127 if there is no such program, 126
/// if it cannot be started, 124 if it ended well, but only after its time.
///
/// The server is told meanwhile, and for as long as the delivery allows after that. A signal that is not the job's own ends that wait.
///
/// # Errors
/// When the system gives no signals or no pipes. Nothing has been started then.
pub async fn run(job: JobSpec, delivery: PingSender) -> io::Result<u8> {
    let run = delivery.random.uuid();
    let begins = OutgoingPing::new(job.url.url_for(Some(JobEvent::Start), Some(run)), Vec::new());
    let mut signals = ForwardedSignals::listen()?;
    let child = JobProcess::start(&job)?;
    let (tell, told) = oneshot::channel();
    let telling = tokio::spawn(report_run(delivery, begins, told));
    let JobResult { status, note, output } = match child {
        Ok(child) => child.wait(&job, &mut signals).await,
        Err(end) => end,
    };
    let body = if job.sends_output { output } else { Vec::new() };
    let mut ends = OutgoingPing::new(job.url.url_for(Some(JobEvent::Exit(status)), Some(run)), body);
    if let Some(note) = note {
        print_notice(&note);
        ends.append_line(&format!("overdue: {note}"));
    }
    // It ends only after it was told.
    let _ = tell.send(ends);
    tokio::select! {
        _ = telling => {}
        () = signals.next_after(SIGNAL_GRACE) => {}
    }
    Ok(status)
}

/// Tells that the job has begun, delivers what earlier runs have left, and tells how the job ended once that is known.
async fn report_run(delivery: PingSender, begins: OutgoingPing, mut ended: oneshot::Receiver<OutgoingPing>) {
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
            // What is under way may end first: the end is not to arrive before the beginning.
            stop.send_replace(true);
            (timeout(LAST_ATTEMPT_TIMEOUT, &mut before).await.unwrap_or(PingAttemptResult::Unavailable(String::new())), ends)
        }
    };
    let Ok(mut ends) = ends else { return };
    if let PingAttemptResult::Accepted { body_limit: Some(limit) } = begun {
        ends.truncate_to_tail(limit);
    }
    match delivery.send_or_spool(ends).await {
        PingResult::Accepted => {}
        PingResult::Spooled(why) => print_notice(&format!("the server did not take the ping: {why}; the next run sends it again")),
        PingResult::Lost(why) => print_notice(&format!("the server did not take the ping: {why}")),
    }
}

/// Sends one ping, and what waits before it.
pub async fn ping(url: String, body: Vec<u8>, delivery: &PingSender) -> PingResult {
    delivery.send_or_spool(OutgoingPing::new(url, body)).await
}

/// Says something to whoever reads standard error. With nobody there, the job goes on.
fn print_notice(line: &str) {
    let _ = writeln!(io::stderr(), "overdue: {line}");
}
