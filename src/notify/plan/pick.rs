//! Which of the rows that wait for a channel make its next message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rules;
use super::progress::{ChannelProgress, Failing};
use super::{GATHER, Item, Now, QUIET, Step, View};
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

/// Rows that are looked up while the state is locked: see [limits](crate::docs::limits).
const MOST_AT_ONCE: usize = 256;

/// Rows of a channel, oldest first, and whether there are more.
fn waiting(view: &impl View, channel: ChannelId) -> (Vec<Arc<OutboxRow>>, bool) {
    let mut rows: Vec<Arc<OutboxRow>> = Vec::new();
    loop {
        let after = rows.last().map_or(DeliveryNumber(0), |row| row.number);
        let most = MOST_AT_ONCE.min(MOST_ROWS - rows.len());
        if most == 0 {
            return (rows, true);
        }
        let more = view.look(|state| state.outbox.of_channel_after(channel, after).take(most).cloned().collect::<Vec<_>>());
        let is_end = more.len() < most;
        rows.extend(more);
        if is_end {
            return (rows, false);
        }
    }
}

/// Adds the rows about these checks that lie beyond those that were looked at.
fn add_newer(view: &impl View, channel: ChannelId, checks: &mut BTreeMap<CheckId, Vec<Arc<OutboxRow>>>, last: DeliveryNumber) {
    let mut left: Vec<_> = checks.iter_mut().collect();
    for some in left.chunks_mut(MOST_AT_ONCE) {
        view.look(|state| {
            for (check, rows) in some {
                rows.extend(state.outbox.of_pair(channel, **check).filter(|row| row.number > last).cloned());
            }
        });
    }
}

/// A digest that waits for more rows.
#[derive(Clone, Copy)]
pub(super) struct Gathering {
    /// It waits no longer than until this uptime.
    until: Duration,
}

/// Whether a digest of which nothing more has been looked at waits for more rows.
fn is_gathering(view: &impl View, channel: ChannelId, progress: &mut ChannelProgress, now: Now, step: &mut Step) -> bool {
    let Some(Gathering { until }) = progress.gathering.take() else { return false };
    let newest = view.look(|state| state.outbox.of_channel(channel).next_back().map(|row| row.queued));
    let quiet_for = newest.map_or(QUIET, |queued| age(queued, now));
    if quiet_for >= QUIET || now.uptime >= until {
        return false;
    }
    progress.gathering = Some(Gathering { until });
    step.again(until.min(now.uptime + QUIET - quiet_for));
    true
}

/// How long ago a row was queued.
fn age(queued: Moment, now: Now) -> Duration {
    match u64::try_from(now.wall.micros_since(queued)) {
        Ok(micros) => Duration::from_micros(micros),
        // The clock was set back.
        Err(_) => GATHER,
    }
}

/// People are told what is true now: of each check its newest row. Of many checks there is one digest. The state is locked for a part of
/// the rows at a time: those that go meanwhile do not begin.
pub(super) fn for_people(
    view: &impl View,
    channel: ChannelId,
    rules: &Rules,
    progress: &mut ChannelProgress,
    now: Now,
    step: &mut Step,
) -> Option<Picked> {
    if is_gathering(view, channel, progress, now, step) {
        return None;
    }
    let (waiting, is_more) = waiting(view, channel);
    let last = waiting.last()?.number;
    let mut checks = BTreeSet::new();
    for row in &waiting {
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
    let (aside, failing) = view.look(|state| (progress.aside(state, rules.class), progress.failing(state, rules.class)));
    checks.retain(|check| is_due(aside.get(check), now, step));
    if let Some(check) = checks.iter().find(|check| aside.contains_key(check)).copied() {
        // It fails nothing but itself.
        checks = BTreeSet::from([check]);
    }
    // A reminder has its own turn.
    if checks.len() > 1 {
        checks.remove(&CheckId(0));
    }
    checks.retain(|check| is_due(failing.get(check).map(|failing| &failing.until), now, step));
    let mut checks: BTreeMap<CheckId, Vec<Arc<OutboxRow>>> = checks.into_iter().map(|check| (check, Vec::new())).collect();
    for row in waiting.into_iter().filter(|row| !step.is_over(row)) {
        checks.entry(row.check).and_modify(|rows| rows.push(row));
    }
    if is_more {
        add_newer(view, channel, &mut checks, last);
    }
    spare_suspects(&mut checks, &failing, progress);
    let is_away = checks.len() > 1 && checks.values().flatten().all(|row| row.away);
    if rules.group_after.is_some_and(|most| is_away || checks.len() > most) {
        let queued = || checks.values().flatten().map(|row| row.queued);
        let (first, newest) = (age(queued().min()?, now), age(queued().max()?, now));
        if newest < QUIET && first < GATHER {
            step.again(now.uptime + (QUIET - newest).min(GATHER - first));
            progress.gathering = Some(Gathering { until: now.uptime + GATHER - first });
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
fn spare_suspects(checks: &mut BTreeMap<CheckId, Vec<Arc<OutboxRow>>>, failing: &BTreeMap<CheckId, Failing>, progress: &ChannelProgress) {
    let is_suspect = |rows: &[Arc<OutboxRow>]| rows.last().is_some_and(|newest| progress.is_suspect(newest.number));
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
fn collapsed(rows: &[Arc<OutboxRow>], superseded: &mut Vec<DeliveryNumber>) -> Option<Item> {
    let (newest, earlier) = rows.split_last()?;
    superseded.extend(earlier.iter().map(|row| row.number));
    // The downtime that has ended, if nobody can have been told of it.
    let untold = if newest.event == Event::Up { earlier.last() } else { None };
    let untold = untold.filter(|down| down.event == Event::Down && !down.may_have_arrived()).map(Arc::clone);
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
