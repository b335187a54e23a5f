//! Some keepers of incidents forget what they are not told again: they hear every minute what is still down.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::sending::MessageSender;
use crate::channel;
use crate::channel::alert::{Also, CheckFacts, Facts, News};
use crate::domain::check::Check;
use crate::domain::project::Channel;

/// How often they are told.
const EVERY: Duration = Duration::from_secs(60);
/// Checks that are told in one request.
const AT_ONCE: usize = 500;

/// Tells them until it is stopped. One that does not answer keeps no other waiting.
pub(super) async fn run(sender: Rc<MessageSender>) {
    loop {
        sleep(EVERY).await;
        for channel in channels(&sender) {
            let sender = Rc::clone(&sender);
            spawn_local(async move { timeout(EVERY, sustain(&sender, &channel)).await });
        }
    }
}

/// Those that fail are told as well: what they do not hear again ends there.
fn channels(sender: &MessageSender) -> Vec<Arc<Channel>> {
    let state = sender.handle.state();
    let all = state.projects().flat_map(|project_state| project_state.channels.values());
    all.filter(|channel| channel::is_sustained(&channel.settings) && channel.health.disabled.is_none()).cloned().collect()
}

async fn sustain(sender: &MessageSender, channel: &Channel) {
    let now = sender.handle.now();
    let down = sender.told_down(channel);
    for checks in down.chunks(AT_ONCE) {
        let alerts: Vec<_> = checks.iter().filter_map(|check| alert(sender, channel, check, now)).collect();
        let steps = channel::sustain(&channel.settings, &alerts.iter().collect::<Vec<_>>(), now);
        for step in steps {
            // What is not taken is told in a minute.
            let _ = sender.carry_out(&step, channel).await;
        }
    }
}

fn alert(sender: &MessageSender, channel: &Channel, check: &Check, now: crate::domain::moment::Moment) -> Option<channel::Alert> {
    let flip = sender.handle.flip(check.state.last_flip).ok().flatten()?.flip;
    let project = sender.handle.state().project(check.project)?.project.name.as_str().to_owned();
    let facts = CheckFacts {
        uuid: check.uuid,
        unique_key: crate::domain::ids::UniqueKey::of(check.uuid),
        settings: Arc::clone(&check.settings),
        n_pings: check.state.n_pings,
        failures: check.state.failures,
        ..CheckFacts::example(&project)
    };
    Some(sender.words(channel, Facts::Check(Box::new(facts), News::Down { flip, also: Also::default() }), now))
}
