//! Which of the rows that wait for a channel make its next message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rules;
use super::progress::{ChannelProgress, Failing};
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
        if progress.is_over(row, rules) {
            give_up(row, now, step)?;
        } else {
            checks.insert(row.check);
        }
    }
    checks.retain(|check| match progress.is_calm(*check, now) {
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
    let failing = progress.failing(state, rules.class);
    checks.retain(|check| is_due(failing.get(check).map(|failing| &failing.until), now, step));
    // Also the newest of those that lie beyond what was looked at.
    let rows = |check: &CheckId| -> Vec<_> { state.outbox.of_pair(channel, *check).filter(|row| !step.is_over(row)).collect() };
    let mut checks: BTreeMap<CheckId, Vec<&Arc<OutboxRow>>> = checks.iter().map(|check| (*check, rows(check))).collect();
    spare_suspects(&mut checks, &failing, progress);
    let is_away = checks.len() > 1 && checks.values().flatten().all(|row| row.away);
    if rules.group_after.is_some_and(|most| is_away || checks.len() > most) {
        let queued = || checks.values().flatten().map(|row| row.queued);
        let age = |of: Moment| match u64::try_from(now.wall.micros_since(of)) {
            Ok(micros) => Duration::from_micros(micros),
            // The clock was set back.
            Err(_) => GATHER,
        };
        let (first, newest) = (age(queued().min()?), age(queued().max()?));
        if newest < QUIET && first < GATHER {
            step.again(now.uptime + (QUIET - newest).min(GATHER - first));
            return None;
        }
    } else {
        // The check that has waited longest since it was last tried.
        let last = |check: &CheckId| failing.get(check).map(|failing| failing.last);
        let next = checks.iter().min_by_key(|(check, rows)| (last(check), rows.first().map(|row| row.number)));
        let next = next.map(|(check, _)| *check)?;
        checks.retain(|check, _| *check == next);
    }
    let mut superseded = Vec::new();
    let mut items: Vec<_> = checks.into_values().filter_map(|rows| collapsed(&rows, &mut superseded)).collect();
    items.sort_by_key(|item| item.row.number);
    Some((items, superseded))
}

/// Leaves, if something has failed since a message was last taken, what has not; else half of what a failed message told.
fn spare_suspects(checks: &mut BTreeMap<CheckId, Vec<&Arc<OutboxRow>>>, failing: &BTreeMap<CheckId, Failing>, progress: &ChannelProgress) {
    let is_suspect = |rows: &[&Arc<OutboxRow>]| rows.last().is_some_and(|newest| progress.is_suspect(newest.number));
    let is_failing = |check: &CheckId| failing.contains_key(check);
    if checks.iter().any(|(check, rows)| !is_failing(check) && !is_suspect(rows)) {
        checks.retain(|check, rows| !is_failing(check) && !is_suspect(rows));
        return;
    }
    let mut suspects: Vec<_> = checks.iter().filter(|(_, rows)| is_suspect(rows)).map(|(check, rows)| (rows.last(), *check)).collect();
    if suspects.len() > 1 {
        suspects.sort_by_key(|(newest, _)| newest.map(|row| row.number));
        suspects.truncate(suspects.len().div_ceil(2));
        let half: BTreeSet<_> = suspects.into_iter().map(|(_, check)| check).collect();
        checks.retain(|check, _| half.contains(check));
    }
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
    Some(Item { row: Arc::clone(newest), untold, skipped, since, up_since: up.map(|up| up.at), delay: None })
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
    let failing = progress.failing(state, rules.class);
    // What failed is tried again when there is nothing else, the longest untried first.
    let mut again: Option<(Duration, &Arc<OutboxRow>)> = None;
    let mut seen = BTreeSet::new();
    for row in state.outbox.of_channel(channel) {
        if progress.checks.contains(&row.check) || step.is_over(row) || !is_due(aside.get(&row.check), now, step) {
            continue;
        }
        if progress.is_over(row, rules) {
            give_up(row, now, step)?;
            continue;
        }
        if rules.class == Class::Incident && row.event == Event::Down && !row.may_have_arrived() {
            let next = state.outbox.of_pair(channel, row.check).find(|next| next.number > row.number);
            // A channel that is told of downtimes alone may have another one next.
            let end = next.filter(|next| matches!(next.event, Event::Up | Event::Closed));
            if let Some(end) = end {
                is_room_for_reports(now, step)?;
                let sent = SendOutcome::Superseded("it was over before it was told".into());
                step.finish(channel, vec![row.number, end.number], sent);
                continue;
            }
        }
        if let Some(Failing { last, until }) = failing.get(&row.check).copied() {
            // What comes later about the check waits for it.
            let is_next = seen.insert(row.check) && is_due(Some(&until), now, step);
            if is_next && again.is_none_or(|(earliest, _)| last < earliest) {
                again = Some((last, row));
            }
            continue;
        }
        return Some(alone(row));
    }
    again.map(|(_, row)| alone(row))
}

/// A message that tells one row, to machines.
fn alone(row: &Arc<OutboxRow>) -> Picked {
    let item = Item { row: Arc::clone(row), untold: None, skipped: row.skipped.into(), since: row.queued, up_since: None, delay: None };
    (vec![item], Vec::new())
}

/// Whether what waits by itself has waited for long enough.
fn is_due(until: Option<&Duration>, now: Now, step: &mut Step) -> bool {
    let until = until.filter(|until| **until > now.uptime);
    until.into_iter().for_each(|until| step.again(*until));
    until.is_none()
}

/// `None`: there is enough to be reported, the rest has its turn after it.
fn is_room_for_reports(now: Now, step: &mut Step) -> Option<()> {
    if step.reports.len() >= super::MOST_REPORTS {
        step.again(now.uptime);
        return None;
    }
    Some(())
}

/// `None`: as above.
fn give_up(row: &OutboxRow, now: Now, step: &mut Step) -> Option<()> {
    is_room_for_reports(now, step)?;
    step.finish(row.channel, vec![row.number], SendOutcome::Failed("the channel took nothing for too long".into()));
    Some(())
}
