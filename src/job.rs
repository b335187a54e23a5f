//! Runs a job and tells a server of it: that it has begun, how it ended, and the last of what it printed.
//!
//! Nothing here fails the job or holds it up. What could not be told is one line on standard error, and waits in a directory if there is one.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use child::{Child, End};
use delivery::Outcome;
use report::Report;
use signals::Signals;

pub use delivery::{Delivery, Told};
pub use report::{Action, PingUrl};
pub use spool::Spool;

mod child;
mod delivery;
mod output;
mod report;
mod signals;
mod spool;

/// How long a ping that is under way when the job ends is waited for.
const LAST_TRY: Duration = Duration::from_secs(2);
/// How long after the end of a job a signal may be the one that ended it: `^C` and a service manager reach this process too, maybe later.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// What is run, and who is told.
pub struct Job {
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
pub async fn run(job: Job, delivery: Delivery) -> io::Result<u8> {
    let run = delivery.random.uuid();
    let begins = Report::new(job.url.with(Some(Action::Start), Some(run)), Vec::new());
    let mut signals = Signals::listen()?;
    let child = Child::start(&job)?;
    let (tell, told) = oneshot::channel();
    let telling = tokio::spawn(tell_of(delivery, begins, told));
    let End { status, note, output } = match child {
        Ok(child) => child.watch(&job, &mut signals).await,
        Err(end) => end,
    };
    let body = if job.sends_output { output } else { Vec::new() };
    let mut ends = Report::new(job.url.with(Some(Action::Exit(status)), Some(run)), body);
    if let Some(note) = note {
        say(&note);
        ends.add_line(&format!("overdue: {note}"));
    }
    // It ends only after it was told.
    let _ = tell.send(ends);
    tokio::select! {
        _ = telling => {}
        () = signals.after(SAME_SIGNAL) => {}
    }
    Ok(status)
}

/// Tells that the job has begun, delivers what earlier runs have left, and tells how the job ended once that is known.
async fn tell_of(delivery: Delivery, begins: Report, mut ended: oneshot::Receiver<Report>) {
    let (stop, mut stopped) = watch::channel(false);
    let before = async {
        let begun = delivery.persist(&begins, &mut stopped).await;
        if matches!(begun, Outcome::Taken { .. }) {
            delivery.deliver_waiting().await;
        }
        begun
    };
    tokio::pin!(before);
    let (begun, ends) = tokio::select! {
        begun = &mut before => (begun, ended.await),
        ends = &mut ended => {
            // What is under way may end first: the end is not to arrive before the beginning.
            stop.send_replace(true);
            (timeout(LAST_TRY, &mut before).await.unwrap_or(Outcome::Away(String::new())), ends)
        }
    };
    let Ok(mut ends) = ends else { return };
    if let Outcome::Taken { body_limit: Some(limit) } = begun {
        ends.keep_last(limit);
    }
    match delivery.finish(ends).await {
        Told::Taken => {}
        Told::Waits(why) => say(&format!("the server did not take the ping: {why}; the next run sends it again")),
        Told::Lost(why) => say(&format!("the server did not take the ping: {why}")),
    }
}

/// Sends one ping, and what waits before it.
pub async fn ping(url: String, body: Vec<u8>, delivery: &Delivery) -> Told {
    delivery.finish(Report::new(url, body)).await
}

/// Says something to whoever reads standard error. With nobody there, the job goes on.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "overdue: {line}");
}
