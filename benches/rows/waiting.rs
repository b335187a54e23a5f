//! What it costs that many alerts wait for a channel that is dead, and how they leave once it is back.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::alerts::Came;
use super::setup::Setup;
use super::{Line, megabytes, thousands};
use crate::driver::{Plan, Request, Result, Until};
use crate::subject::Subject;

/// When it is too late.
const PATIENCE: Duration = Duration::from_secs(300);
const GLANCE: Duration = Duration::from_millis(100);

/// A channel as it is listed.
#[derive(Deserialize)]
struct Listed {
    waiting: u64,
}

/// Memory with and without what waits, and the time until nothing does.
pub(super) fn waiting(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(100_000);
    let subject = setup.filled(checks, 1)?;
    // Nobody listens at this address until somebody shall.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("url=http://{address}");
    let words =
        ["channel", "create", "--project", "default", "--kind", "ntfy", "--name", "phone", "--set", "topic=home", "--set", "every=on"];
    // Without it: what a failure costs by itself.
    let before = subject.resident()?;
    let written = subject.file()?;
    subject.run(&[&words[..], &["--set", &url]].concat())?;
    let endpoint = &subject.endpoint;
    let path = format!("/ping/{}/load-{{n}}/fail", subject.ping_key);
    let fail = &Request::new(endpoint, "POST", &path, &[], "", checks);
    setup.bar.set_prefix("failures that nobody can be told");
    setup.send(&Plan { endpoint, request: fail, connections: 256, threads: 1, rate: None, until: Until::Count(checks) })?;
    if listed(&subject)? != checks {
        return Err("not all failures wait to be told".into());
    }
    let (after, grown) = (subject.resident()?, subject.file()? - written);
    let used = subject.processor()?;
    let came = Came::default();
    came.listen(TcpListener::bind(address)?);
    // It is tried at once, and not at the end of its pause.
    subject.run(&["channel", "enable", "phone"])?;
    let back = Instant::now();
    while listed(&subject)? > 0 {
        if back.elapsed() > PATIENCE {
            return Err("not everything was told".into());
        }
        std::thread::sleep(GLANCE);
    }
    let (drained, used) = (back.elapsed(), subject.processor()? - used);
    let what = format!("{} alerts that wait for a channel that is dead: memory, file", thousands(checks as f64));
    let kept = format!("{} more, {} more", megabytes(after - before), megabytes(grown));
    let told = format!("{:.1} s, {used:.1} s of processor time, {} messages", drained.as_secs_f64(), came.count());
    Ok(vec![Line::new(what, "40 MB more", kept), Line::new("until they are told once it is back", "60 s, 30 s of processor time", told)])
}

/// How many wait.
fn listed(subject: &Subject) -> Result<u64> {
    let list: Vec<Listed> = serde_json::from_str(&subject.run(&["channel", "list", "--json"])?)?;
    Ok(list.iter().map(|channel| channel.waiting).sum())
}
