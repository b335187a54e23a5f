use std::time::Duration;

use super::super::fixture::{START, SenderFixture};
use super::*;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::engine::command::Command;

const CHECK: u128 = 7;

fn row(check: CheckId, event: AlertEvent, at: Timestamp) -> OutboxRow {
    let number = DeliveryNumber(1);
    let channel = ChannelId(2);
    OutboxRow::new(number, channel, check, FlipNumber(0), event, at, at)
}

#[test]
fn a_downtime_without_a_readable_flip_is_explained_by_the_outage_within_the_grace_before_it() {
    let mut fixture = SenderFixture::new();
    fixture.add_check(CHECK);
    let check = fixture.read_check(CHECK);
    let deadline = START.plus_secs(-1_000);
    let grace = check.settings.grace.get();
    let near = Outage {
        from: deadline.plus_secs(-grace - 60),
        to: deadline.plus_secs(-grace),
    };
    let earlier = Outage {
        from: deadline.plus_secs(-20 * grace),
        to: deadline.plus_secs(-19 * grace),
    };
    // The earlier one was noticed after the clock had been set back.
    for outage in [near, earlier] {
        fixture.execute(Command::RecordOutage(outage));
    }
    let found = |at| {
        let down = row(check.id, AlertEvent::Down, at);
        fixture.sender.own_outage(Some(&check), &down, None)
    };
    assert_eq!(found(deadline), Some((near.from, near.to)));
    let later = deadline.plus_secs(1);
    assert_eq!(found(later), Some((earlier.from, earlier.to)));
}

#[test]
fn the_last_success_of_a_check_that_failed_since_is_read_from_its_pings() {
    let mut fixture = SenderFixture::new();
    fixture.add_check(CHECK);
    let last_success = |fixture: &SenderFixture| {
        let check = fixture.read_check(CHECK);
        [true, false].map(|look_up| fixture.sender.last_success(&check, look_up))
    };
    assert_eq!(last_success(&fixture), [None, None]);
    fixture.send_ping(CHECK, PingKind::Success);
    let succeeded = Some(fixture.sender.handle.now());
    assert_eq!(last_success(&fixture), [succeeded, succeeded]);
    fixture.clock.advance_secs(60);
    fixture.send_ping(CHECK, PingKind::Fail);
    assert_eq!(last_success(&fixture), [succeeded, None]);
}

#[test]
fn an_unreadable_flip_is_replaced_by_the_change_that_the_row_is_about() {
    let check = CheckId(3);
    let at = START;
    for (event, from, to) in [
        (AlertEvent::Up, Status::Down, Status::Up),
        (AlertEvent::Down, Status::Up, Status::Down),
    ] {
        let expected = Flip {
            at,
            from,
            to,
            cause: FlipCause::Unknown,
            awaited_since: None,
        };
        let row = row(check, event, at);
        assert_eq!(unknown_flip(&row), expected);
        let fixture = SenderFixture::new();
        let item = MessageItem {
            row: Arc::new(row),
            unnotified_down: None,
            skipped: 0,
            skipped_since: at,
            up_since: None,
            delay: None,
        };
        let summary = fixture.sender.check_summary(&item, true);
        assert_eq!((summary.since, summary.cause), (at, FlipCause::Unknown));
    }
}

#[test]
fn checks_that_are_down_are_counted_again_after_half_a_second() {
    let mut cache = DownChecksCache::default();
    let mut counted_at = |millis| {
        let mut is_counted = false;
        cache.get(ProjectId(1), Duration::from_millis(millis), || {
            is_counted = true;
            Arc::new([])
        });
        is_counted
    };
    let counted = [1_000, 1_499, 1_500, 1_501].map(&mut counted_at);
    assert_eq!(counted, [true, false, true, false]);
}
