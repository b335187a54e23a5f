//! The log of deliveries: which of them go when there are too many.

use super::*;
use crate::domain::alert::{Delivery, DeliveryOutcome, Event};
use crate::domain::ids::DeliveryNumber;

/// A delivery about a check of the project of the same number.
pub(super) fn delivery(number: u64, project: u64) -> Delivery {
    Delivery {
        number: DeliveryNumber(number),
        channel: ChannelId(0),
        check: CheckId(project),
        flip: FlipNumber(1),
        event: Event::Down,
        queued: Moment::from_secs(1),
        finished: Moment::from_secs(i64::try_from(number).unwrap()),
        outcome: DeliveryOutcome::Failed,
        attempts: 1,
        status: 500,
        reason: Delivery::reason("no"),
        told_with: None,
    }
}

#[test]
fn deliveries_go_by_number_and_the_oldest_are_found() {
    let store = store();
    let all: Vec<_> = (1..=9).map(|number| delivery(number, 1)).collect();
    write(&store, |batch| batch.append_deliveries(&all));
    write(&store, |batch| {
        let old = batch.deliveries_finished_before(Moment::from_secs(5), 3)?;
        assert_eq!(old, [1, 2, 3].map(DeliveryNumber), "no more than were asked for");
        assert_eq!(batch.deliveries_finished_before(Moment::from_secs(3), 10)?, [1, 2].map(DeliveryNumber));
        batch.remove_deliveries(&[2, 4, 4, 99].map(DeliveryNumber))?;
        assert_eq!(batch.delivery_count()?, 7);
        let mut seen = Vec::new();
        batch.each_delivery(|number, delivery| seen.push((number.0, delivery.map(|delivery| delivery.check.0))))?;
        assert_eq!(seen, [1, 3, 5, 6, 7, 8, 9].map(|number| (number, Some(1))));
        Ok(())
    });
}
