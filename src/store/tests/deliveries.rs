//! The log of deliveries: which of them go when there are too many.

use super::*;
use crate::domain::alert::{Delivery, DeliveryOutcome, Event};
use crate::domain::ids::DeliveryNumber;

/// A delivery about a check of the project of the same number.
fn delivery(number: u64, project: u64) -> Delivery {
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
fn the_project_with_the_most_deliveries_loses_its_oldest() {
    let store = store();
    // One project floods the log between two entries of another.
    let projects = [1, 2, 1, 1, 1, 1, 1, 2, 1];
    write(&store, |batch| {
        batch.append_deliveries(&(1..).zip(projects).map(|(number, project)| delivery(number, project)).collect::<Vec<_>>())
    });
    let left = || -> Vec<u64> {
        let all = store.snapshot().unwrap().deliveries_before(DeliveryNumber(u64::MAX)).unwrap();
        all.map(|delivery| delivery.unwrap().number.0).collect()
    };
    let prune = |kept, before, most| {
        let mut gone = 0;
        write(&store, |batch| {
            gone = batch.prune_deliveries(kept, Moment::from_secs(before), most, |delivery| ProjectId(delivery.check.0))?;
            Ok(())
        });
        gone
    };
    assert_eq!((prune(9, 0, 10), left().len()), (0, 9));
    assert_eq!((prune(5, 0, 2), left()), (2, vec![9, 8, 7, 6, 5, 4, 2]), "no more than may go at once");
    assert_eq!((prune(5, 0, 10), left()), (2, vec![9, 8, 7, 6, 2]));
    assert_eq!((prune(5, 3, 10), left()), (1, vec![9, 8, 7, 6]), "what is old goes in any case");
    assert_eq!((prune(2, 0, 10), left()), (2, vec![9, 8]));
}
