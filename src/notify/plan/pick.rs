//! Which of the rows that wait for a channel make its next message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rules;
use super::progress::ChannelProgress;
use super::{GATHER, Item, Now, QUIET, Step};
use crate::domain::alert::{Event, OutboxRow};
use crate::domain::channel::Class;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber};
use crate::domain::moment::Moment;
use crate::engine::command::SendOutcome;
use crate::engine::state::State;

/// Rows that are looked at for one message to people: see [limits](crate::docs::limits). What is beyond has its turn after the pause between
/// such messages, so a hundred thousand are five messages.
const MOST_ROWS: usize = 20_000;

/// What a message tells, and the rows that it makes needless.
type Picked = (Vec<Item>, Vec<DeliveryNumber>);

/// People are told what is true now: of each check its newest row. Of many checks there is one digest.
pub(super) fn for_people(
    state: &State,
    channel: ChannelId,
    rules: &Rules,
    progress: &mut ChannelProgress,
    now: Now,
    step: &mut Step,
) -> Option<Picked> {
    let mut checks = BTreeSet::new();
    for row in state.outbox.of_channel(channel).take(MOST_ROWS) {
        if progress.checks.contains(&row.check) || step.is_over(row) {
            continue;
        }
        if progress.is_over(row, rules, now) {
            give_up(row, now, step)?;
        } else {
            checks.insert(row.check);
        }
    }
    checks.retain(|check| match progress.is_calm(*check, now.uptime) {
        Ok(()) => true,
        Err(until) => {
            step.again(until);
            false
        }
    });
    let aside = progress.aside(state, rules.class);
    checks.retain(|check| is_due(aside.get(check), now, step));
    if let Some(check) = checks.iter().find(|check| aside.contains_key(check)).copied() {
        // It fails nothing but itself.
        checks = BTreeSet::from([check]);
    }
    // A reminder has its own turn.
    if checks.len() > 1 {
        checks.remove(&CheckId(0));
    }
    // Also the newest of those that lie beyond what was looked at.
    let rows = |check: &CheckId| -> Vec<_> { state.outbox.of_pair(channel, *check).filter(|row| !step.is_over(row)).collect() };
    let mut checks: BTreeMap<CheckId, Vec<&Arc<OutboxRow>>> = checks.iter().map(|check| (*check, rows(check))).collect();
    let is_away = checks.len() > 1 && checks.values().flatten().all(|row| row.away);
    if rules.group_after.is_some_and(|most| is_away || checks.len() > most) {
        let queued = || checks.values().flatten().map(|row| row.queued);
        let age = |of: Moment| Duration::from_micros(now.wall.micros_since(of).max(0).unsigned_abs());
        let (first, newest) = (age(queued().min()?), age(queued().max()?));
        if newest < QUIET && first < GATHER {
            step.again(now.uptime + (QUIET - newest).min(GATHER - first));
            return None;
        }
    } else {
        // The check that has waited longest.
        let next = checks.iter().min_by_key(|(_, rows)| rows.first().map(|row| row.number)).map(|(check, _)| *check)?;
        checks.retain(|check, _| *check == next);
    }
    let mut superseded = Vec::new();
    let mut items: Vec<_> = checks.into_values().filter_map(|rows| collapsed(&rows, &mut superseded)).collect();
    items.sort_by_key(|item| item.row.number);
    Some((items, superseded))
}

/// Of what waits about one check, the newest counts.
fn collapsed(rows: &[&Arc<OutboxRow>], superseded: &mut Vec<DeliveryNumber>) -> Option<Item> {
    let (newest, earlier) = rows.split_last()?;
    superseded.extend(earlier.iter().map(|row| row.number));
    // The downtime that has ended, if nobody can have been told of it.
    let untold = if newest.event == Event::Up { earlier.last() } else { None };
    let untold = untold.filter(|down| down.event == Event::Down && !down.may_have_arrived()).map(|down| Arc::clone(down));
    let told_as_well = usize::from(untold.is_some());
    let skipped = rows.iter().map(|row| usize::from(row.skipped)).sum::<usize>() + earlier.len() - told_as_well;
    let since = rows.first().map_or(newest.at, |row| row.at);
    let up = earlier.last().filter(|up| newest.event == Event::Down && up.event == Event::Up);
    Some(Item { row: Arc::clone(newest), untold, skipped, since, up_since: up.map(|up| up.at) })
}

/// Machines are told everything in order; keepers of incidents nothing that is over before they were told.
pub(super) fn for_machines(
    state: &State,
    channel: ChannelId,
    rules: &Rules,
    progress: &ChannelProgress,
    now: Now,
    step: &mut Step,
) -> Option<Picked> {
    let aside = progress.aside(state, rules.class);
    for row in state.outbox.of_channel(channel) {
        if progress.checks.contains(&row.check) || step.is_over(row) || !is_due(aside.get(&row.check), now, step) {
            continue;
        }
        if progress.is_over(row, rules, now) {
            give_up(row, now, step)?;
            continue;
        }
        if rules.class == Class::Incident && row.event == Event::Down && !row.may_have_arrived() {
            let next = state.outbox.of_pair(channel, row.check).find(|next| next.number > row.number);
            // A channel that is told of downtimes alone may have another one next.
            let end = next.filter(|next| matches!(next.event, Event::Up | Event::Closed));
            if let Some(end) = end {
                let sent = SendOutcome::Superseded("it was over before it was told".into());
                step.finish(channel, vec![row.number, end.number], sent);
                continue;
            }
        }
        let item = Item { row: Arc::clone(row), untold: None, skipped: row.skipped.into(), since: row.queued, up_since: None };
        return Some((vec![item], Vec::new()));
    }
    None
}

/// Whether what waits by itself has waited for long enough.
fn is_due(until: Option<&Duration>, now: Now, step: &mut Step) -> bool {
    let until = until.filter(|until| **until > now.uptime);
    until.into_iter().for_each(|until| step.again(*until));
    until.is_none()
}

/// `None`: there is enough to be reported, the rest has its turn after it.
fn give_up(row: &OutboxRow, now: Now, step: &mut Step) -> Option<()> {
    if step.reports.len() >= super::MOST_REPORTS {
        step.again(now.uptime);
        return None;
    }
    step.finish(row.channel, vec![row.number], SendOutcome::Failed("the channel took nothing for too long".into()));
    Some(())
}
