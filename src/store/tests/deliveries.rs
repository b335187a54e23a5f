//! Tests of the delivery log: which deliveries are pruned.

use super::*;
use crate::domain::alert::{
    AlertEvent, DeletedCheck, DeliveryRecord, DeliveryResult, MessagePart, OutboxRow, Recipient,
    RecipientResult,
};
use crate::domain::check::RunLimit;
use crate::domain::ids::{DeliveryNumber, UniqueKey};

/// Returns a delivery about a check; the project has the same number.
pub(super) fn delivery(number: u64, project: u64) -> DeliveryRecord {
    DeliveryRecord {
        number: DeliveryNumber(number),
        channel: ChannelId(0),
        check: CheckId(project),
        flip: FlipNumber(1),
        event: AlertEvent::Down,
        queued: Timestamp::from_secs(1),
        finished: Timestamp::from_secs(i64::try_from(number).unwrap()),
        result: DeliveryResult::Failed,
        attempts: 1,
        status: 500,
        reason: DeliveryRecord::truncate_reason("no"),
        merged_into: None,
        may_be_duplicate: false,
    }
}

#[test]
fn deliveries_are_removed_by_number_and_the_oldest_are_found() {
    let store = store();
    let all: Vec<_> = (1..=9).map(|number| delivery(number, 1)).collect();
    write(&store, |batch| batch.append_deliveries(&all));
    write(&store, |batch| {
        let old = batch.deliveries_finished_before(Timestamp::from_secs(5), 3)?;
        assert_eq!(
            old,
            [1, 2, 3].map(DeliveryNumber),
            "no more than were asked for"
        );
        assert_eq!(
            batch.deliveries_finished_before(Timestamp::from_secs(3), 10)?,
            [1, 2].map(DeliveryNumber)
        );
        batch.remove_deliveries(&[2, 4, 4, 99].map(DeliveryNumber))?;
        assert_eq!(batch.delivery_count()?, 7);
        let mut seen = Vec::new();
        batch.for_each_delivery(|number, delivery| {
            seen.push((number.0, delivery.map(|delivery| delivery.check.0)));
        })?;
        assert_eq!(seen, [1, 3, 5, 6, 7, 8, 9].map(|number| (number, Some(1))));
        Ok(())
    });
}

#[test]
fn rows_of_the_outbox_and_of_deliveries_are_read_in_every_version() {
    let store = store();
    let at = Timestamp::from_secs;
    let recipient = |address: &str, result| Recipient {
        address: address.into(),
        result,
    };
    let results = [
        RecipientResult::Accepted,
        RecipientResult::Refused("no".into()),
        RecipientResult::PossiblyDelivered,
        RecipientResult::Pending,
    ];
    let outbox_row = OutboxRow {
        attempts: 1,
        attempt_started: Some(at(7)),
        interruptions: 1,
        may_be_duplicate: true,
        deleted_check: Some(Box::new(DeletedCheck {
            labels: names(),
            unique_key: UniqueKey::from_bytes([9; 20]),
        })),
        alerted_labels: Some(Arc::new(names())),
        limit: RunLimit::parse(60).unwrap(),
        part: Some(MessagePart {
            last_row: DeliveryNumber(70),
            attempts: 3,
        }),
        recipients: ["a", "b", "c", "d"]
            .into_iter()
            .zip(results)
            .map(|(address, result)| recipient(address, result))
            .collect(),
        ..OutboxRow::new(
            DeliveryNumber(1),
            ChannelId(1),
            CheckId(2),
            FlipNumber(3),
            AlertEvent::Closed,
            at(5),
            at(6),
        )
    };
    let delivery = DeliveryRecord {
        may_be_duplicate: true,
        ..delivery(1, 2)
    };
    write(&store, |batch| {
        batch.put_outbox_rows([&outbox_row])?;
        batch.append_deliveries(std::slice::from_ref(&delivery))
    });
    let read = |store: &Store| {
        let snapshot = store.snapshot().unwrap();
        let outbox_row = snapshot.outbox().unwrap().next().unwrap().unwrap();
        (
            outbox_row,
            snapshot
                .deliveries_before(DeliveryNumber(9))
                .unwrap()
                .next()
                .unwrap()
                .unwrap(),
        )
    };
    assert_eq!(read(&store), (outbox_row.clone(), delivery.clone()));
    // Version 1 of both, as hexadecimal digits.
    let version_1 = [
        (
            "outbox",
            format!(
                "019d01020302ce004c4b40ce005b8d8001ce006acfc001c3c20092a16fdc0014{}",
                "09".repeat(20)
            ),
        ),
        (
            "deliveries",
            "019b00020100ce000f4240ce000f42400101cd01f4a26e6fc0".to_owned(),
        ),
    ];
    for (table, row) in version_1 {
        let bytes: Vec<_> = (0..row.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap())
            .collect();
        put_row(&store, (table, 1), &bytes);
    }
    let deleted_check = CheckLabels {
        name: names().name,
        ..CheckLabels::default()
    };
    let deleted_check = Some(Box::new(DeletedCheck {
        labels: deleted_check,
        unique_key: UniqueKey::from_bytes([9; 20]),
    }));
    let outbox_row = OutboxRow {
        deleted_check,
        alerted_labels: None,
        part: None,
        recipients: Arc::default(),
        limit: RunLimit::default(),
        ..outbox_row
    };
    assert_eq!(
        read(&store),
        (
            outbox_row,
            DeliveryRecord {
                may_be_duplicate: false,
                ..delivery
            }
        )
    );
}
