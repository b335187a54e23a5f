//! Selects the rows for the next message of a channel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::delivery_policy::DeliveryPolicy;
use super::channel_progress::{ChannelProgress, PendingRetry};
use super::{
    CurrentTime, DIGEST_QUIET_TIME, MAX_DIGEST_WAIT, MessageItem, ScheduledWork, StateView,
};
use crate::domain::alert::{AlertEvent, OutboxRow};
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber};
use crate::domain::timestamp::Timestamp;
use crate::engine::command::SendOutcome;
use crate::engine::state::State;

/// Maximum number of rows for one message to people: see [limits](crate::docs::limits). The rest
/// follows after the pause between such messages, so a hundred thousand are five messages.
const MAX_ROWS: usize = 20_000;

/// Items of a message, and the rows that it makes unnecessary.
type PickedItems = (Vec<MessageItem>, Vec<DeliveryNumber>);

/// Number of rows that are looked up while the state is locked: see [limits](crate::docs::limits).
const MAX_ROWS_PER_LOOKUP: usize = 256;

/// Rows of a channel, oldest first, and true if there are more.
fn waiting_rows(view: &impl StateView, channel: ChannelId) -> (Vec<Arc<OutboxRow>>, bool) {
    let mut rows: Vec<Arc<OutboxRow>> = Vec::new();
    loop {
        let after = rows.last().map_or(DeliveryNumber(0), |row| row.number);
        let most = MAX_ROWS_PER_LOOKUP.min(MAX_ROWS - rows.len());
        if most == 0 {
            return (rows, true);
        }
        let more = view.read_state(|state| {
            state
                .outbox
                .rows_of_channel_after(channel, after)
                .take(most)
                .cloned()
                .collect::<Vec<_>>()
        });
        let is_end = more.len() < most;
        rows.extend(more);
        if is_end {
            return (rows, false);
        }
    }
}

/// Adds the rows about these checks that are newer than `last`.
fn add_newer_rows(
    view: &impl StateView,
    channel: ChannelId,
    checks: &mut BTreeMap<CheckId, Vec<Arc<OutboxRow>>>,
    last: DeliveryNumber,
) {
    let mut entries: Vec<_> = checks.iter_mut().collect();
    for chunk in entries.chunks_mut(MAX_ROWS_PER_LOOKUP) {
        view.read_state(|state| {
            for (check, rows) in chunk {
                rows.extend(
                    state
                        .outbox
                        .rows_of_pair(channel, **check)
                        .filter(|row| row.number > last)
                        .cloned(),
                );
            }
        });
    }
}

/// Digest that waits for more rows.
#[derive(Clone, Copy)]
pub(super) struct DigestWait {
    /// Uptime at which the wait ends.
    until: Duration,
}

/// True if a digest, whose rows have not been read yet, waits for more rows.
fn is_digest_waiting(
    view: &impl StateView,
    channel: ChannelId,
    progress: &mut ChannelProgress,
    now: CurrentTime,
    work: &mut ScheduledWork,
) -> bool {
    let Some(DigestWait { until }) = progress.digest_wait.take() else {
        return false;
    };
    let newest = view.read_state(|state| {
        state
            .outbox
            .rows_of_channel(channel)
            .next_back()
            .map(|row| row.queued)
    });
    let quiet_for = newest.map_or(DIGEST_QUIET_TIME, |queued| time_in_queue(queued, now));
    if quiet_for >= DIGEST_QUIET_TIME || now.uptime >= until {
        return false;
    }
    progress.digest_wait = Some(DigestWait { until });
    work.wake_no_later_than(until.min(now.uptime + DIGEST_QUIET_TIME - quiet_for));
    true
}

/// Time since a row was queued.
fn time_in_queue(queued: Timestamp, now: CurrentTime) -> Duration {
    match u64::try_from(now.wall.micros_since(queued)) {
        Ok(micros) => Duration::from_micros(micros),
        // The clock was set back.
        Err(_) => MAX_DIGEST_WAIT,
    }
}

/// Selects the newest row of each check: people are notified of the current status. Many checks
/// form a digest. The state is locked for a part of the rows at a time; rows that are removed
/// meanwhile do not begin.
pub(super) fn pick_for_people(
    view: &impl StateView,
    channel: ChannelId,
    policy: &DeliveryPolicy,
    progress: &mut ChannelProgress,
    now: CurrentTime,
    work: &mut ScheduledWork,
) -> Option<PickedItems> {
    if is_digest_waiting(view, channel, progress, now, work) {
        return None;
    }
    let (waiting, is_more) = waiting_rows(view, channel);
    let last = waiting.last()?.number;
    let mut checks = BTreeSet::new();
    for row in &waiting {
        if progress.checks_in_flight.contains(&row.check) || work.is_reported(row) {
            continue;
        }
        if progress.is_expired(row, policy) {
            give_up_row(row, now, work)?;
        } else {
            checks.insert(row.check);
        }
    }
    checks.retain(|check| match progress.check_message_limit(*check, now) {
        Ok(()) => true,
        Err(until) => {
            work.wake_no_later_than(until);
            false
        }
    });
    let (parked, failing) = view.read_state(|state| {
        (
            progress.parked_checks(state, policy.class),
            progress.failing_checks(state, policy.class),
        )
    });
    checks.retain(|check| is_retry_due(parked.get(check), now, work));
    if let Some(check) = checks
        .iter()
        .find(|check| parked.contains_key(check))
        .copied()
    {
        // Its failure affects no other message.
        checks = BTreeSet::from([check]);
    }
    // A reminder is a message of its own.
    if checks.len() > 1 {
        checks.remove(&CheckId(0));
    }
    checks.retain(|check| {
        is_retry_due(
            failing.get(check).map(|failing| &failing.not_before),
            now,
            work,
        )
    });
    let mut checks: BTreeMap<CheckId, Vec<Arc<OutboxRow>>> = checks
        .into_iter()
        .map(|check| (check, Vec::new()))
        .collect();
    for row in waiting.into_iter().filter(|row| !work.is_reported(row)) {
        checks.entry(row.check).and_modify(|rows| rows.push(row));
    }
    if is_more {
        add_newer_rows(view, channel, &mut checks, last);
    }
    checks.values_mut().for_each(drop_newer_warnings);
    separate_suspects(&mut checks, &failing, progress);
    let rows_of_flips = || {
        let rows = checks.values().flatten();
        rows.filter(|row| !row.event.is_warning())
    };
    let is_outage = checks.len() > 1
        && rows_of_flips().next().is_some()
        && rows_of_flips().all(|row| row.during_outage);
    if policy
        .digest_above
        .is_some_and(|most| is_outage || checks.len() > most)
    {
        let queued = || checks.values().flatten().map(|row| row.queued);
        let first = time_in_queue(queued().min()?, now);
        let newest = time_in_queue(queued().max()?, now);
        if newest < DIGEST_QUIET_TIME && first < MAX_DIGEST_WAIT {
            work.wake_no_later_than(
                now.uptime + (DIGEST_QUIET_TIME - newest).min(MAX_DIGEST_WAIT - first),
            );
            progress.digest_wait = Some(DigestWait {
                until: now.uptime + MAX_DIGEST_WAIT - first,
            });
            return None;
        }
    } else {
        // The check with the oldest last attempt.
        let last = |check: &CheckId| failing.get(check).map(|failing| failing.last_attempt);
        let next = checks
            .iter()
            .min_by_key(|(check, rows)| (last(check), rows.first().map(|row| row.number)));
        let next = next.map(|(check, _)| *check)?;
        checks.retain(|check, _| *check == next);
    }
    let mut superseded = Vec::new();
    let mut items: Vec<_> = checks
        .into_values()
        .filter_map(|rows| collapse_rows(&rows, &mut superseded))
        .collect();
    items.sort_by_key(|item| item.row.number);
    Some((items, superseded))
}

/// After a failure, keeps the checks that have not failed since the last success; if there are
/// none, half of a failed message.
fn separate_suspects(
    checks: &mut BTreeMap<CheckId, Vec<Arc<OutboxRow>>>,
    failing: &BTreeMap<CheckId, PendingRetry>,
    progress: &ChannelProgress,
) {
    let is_suspect = |rows: &[Arc<OutboxRow>]| {
        rows.last()
            .is_some_and(|newest| progress.is_suspect(newest.number))
    };
    let is_failing = |check: &CheckId| failing.contains_key(check);
    if checks
        .iter()
        .any(|(check, rows)| !is_failing(check) && !is_suspect(rows))
    {
        checks.retain(|check, rows| !is_failing(check) && !is_suspect(rows));
        return;
    }
    let mut suspects: Vec<_> = checks
        .iter()
        .filter(|(_, rows)| is_suspect(rows))
        .map(|(check, rows)| (rows.last(), *check))
        .collect();
    if suspects.len() > 1 {
        suspects.sort_by_key(|(newest, _)| newest.map(|row| row.number));
        suspects.truncate(suspects.len().div_ceil(2));
        let half: BTreeSet<_> = suspects.into_iter().map(|(_, check)| check).collect();
        checks.retain(|check, _| half.contains(check));
    }
}

/// Removes warnings after the last change of status: a message gives one of both, the change first.
fn drop_newer_warnings(rows: &mut Vec<Arc<OutboxRow>>) {
    if let Some(last) = rows.iter().rposition(|row| !row.event.is_warning()) {
        rows.truncate(last + 1);
    }
}

/// Keeps the newest of the waiting rows about one check. Earlier warnings are outdated by it.
fn collapse_rows(
    rows: &[Arc<OutboxRow>],
    superseded: &mut Vec<DeliveryNumber>,
) -> Option<MessageItem> {
    let (newest, earlier) = rows.split_last()?;
    superseded.extend(earlier.iter().map(|row| row.number));
    let is_kind = |row: &&Arc<OutboxRow>| row.event.is_warning() == newest.event.is_warning();
    let earlier: Vec<_> = earlier.iter().filter(is_kind).collect();
    // Downtime that has ended, if certainly no user was notified of it.
    let unnotified_down = if newest.event == AlertEvent::Up {
        earlier.last().copied()
    } else {
        None
    };
    let unnotified_down = unnotified_down
        .filter(|down| down.event == AlertEvent::Down && !down.may_have_arrived())
        .map(Arc::clone);
    let merged_count = usize::from(unnotified_down.is_some());
    let skipped = rows
        .iter()
        .filter(is_kind)
        .map(|row| usize::from(row.dropped_before))
        .sum::<usize>()
        + earlier.len()
        - merged_count;
    let since = earlier.first().map_or(newest.at, |row| row.at);
    let up = earlier
        .last()
        .filter(|up| newest.event == AlertEvent::Down && up.event == AlertEvent::Up);
    Some(MessageItem {
        row: Arc::clone(newest),
        unnotified_down,
        skipped,
        skipped_since: since,
        up_since: up.map(|up| up.at),
        delay: None,
    })
}

/// Selects a row for a program. Programs get all events in order; incident managers get no downtime
/// that ended before it was sent.
pub(super) fn pick_for_machines(
    state: &State,
    channel: ChannelId,
    policy: &DeliveryPolicy,
    progress: &ChannelProgress,
    now: CurrentTime,
    work: &mut ScheduledWork,
) -> Option<PickedItems> {
    let parked = progress.parked_checks(state, policy.class);
    let failing = progress.failing_checks(state, policy.class);
    // Failed rows are retried when there is nothing else, the least recently tried first.
    let mut retry: Option<(Duration, &Arc<OutboxRow>)> = None;
    let mut seen_checks = BTreeSet::new();
    for row in state.outbox.rows_of_channel(channel) {
        if progress.checks_in_flight.contains(&row.check)
            || work.is_reported(row)
            || !is_retry_due(parked.get(&row.check), now, work)
        {
            continue;
        }
        if progress.is_expired(row, policy) {
            give_up_row(row, now, work)?;
            continue;
        }
        if policy.class == ChannelClass::Incident
            && row.event == AlertEvent::Down
            && !row.may_have_arrived()
        {
            let next = state
                .outbox
                .rows_of_pair(channel, row.check)
                .find(|next| next.number > row.number);
            // For a channel that only subscribes to downtimes, the next row may be another
            // downtime.
            let end = next.filter(|next| matches!(next.event, AlertEvent::Up | AlertEvent::Closed));
            if let Some(end) = end {
                require_report_capacity(now, work)?;
                let reason = "the downtime ended before the alert was sent";
                let sent = SendOutcome::Superseded(reason.into());
                work.finish(channel, vec![row.number, end.number], sent);
                continue;
            }
        }
        if let Some(PendingRetry {
            last_attempt: last,
            not_before: until,
        }) = failing.get(&row.check).copied()
        {
            // Later rows about the check wait for it.
            let is_next = seen_checks.insert(row.check) && is_retry_due(Some(&until), now, work);
            if is_next && retry.is_none_or(|(earliest, _)| last < earliest) {
                retry = Some((last, row));
            }
            continue;
        }
        return Some(single_row(row));
    }
    retry.map(|(_, row)| single_row(row))
}

/// Message with one row, for programs.
fn single_row(row: &Arc<OutboxRow>) -> PickedItems {
    let item = MessageItem {
        row: Arc::clone(row),
        unnotified_down: None,
        skipped: row.dropped_before.into(),
        skipped_since: row.queued,
        up_since: None,
        delay: None,
    };
    (vec![item], Vec::new())
}

/// True if a row that waits by itself is due.
fn is_retry_due(until: Option<&Duration>, now: CurrentTime, work: &mut ScheduledWork) -> bool {
    let until = until.filter(|until| **until > now.uptime);
    until
        .into_iter()
        .for_each(|until| work.wake_no_later_than(*until));
    until.is_none()
}

/// `None` if the round has enough reports. The rest follows in the next round.
fn require_report_capacity(now: CurrentTime, work: &mut ScheduledWork) -> Option<()> {
    if work.reports.len() >= super::MAX_REPORTS {
        work.wake_no_later_than(now.uptime);
        return None;
    }
    Some(())
}

/// Gives up a row. `None` as in [`require_report_capacity`].
fn give_up_row(row: &OutboxRow, now: CurrentTime, work: &mut ScheduledWork) -> Option<()> {
    require_report_capacity(now, work)?;
    work.finish(
        row.channel,
        vec![row.number],
        SendOutcome::Failed("the channel accepted no messages for too long".into()),
    );
    Some(())
}
