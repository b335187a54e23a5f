use super::super::fixture::{MAIN, NOW, channel, check, fill_outbox, ping, working};
use super::*;
use crate::domain::ping::Kind;
use crate::engine::command::Command;

fn rows(working: &WorkingState, check: CheckId) -> Vec<Event> {
    working.state.outbox.of_check(check).map(|row| row.event).collect()
}

#[test]
fn the_end_of_a_downtime_that_waits_needs_no_place_in_a_full_outbox() {
    for begun in [false, true] {
        let mut working = working();
        let hook = channel(&mut working, "webhook", &[("down-url", "http://a/"), ("up-url", "http://a/")]);
        let id = check(&mut working, 7);
        ping(&mut working, 7, Kind::Fail, NOW);
        let down = working.state.outbox.of_check(id).next().unwrap().number;
        if begun {
            working.apply(Command::BeginDeliveries(vec![down]), NOW).unwrap();
        }
        fill_outbox(&mut working, hook);
        working.effects = super::super::Effects::default();
        ping(&mut working, 7, Kind::Success, NOW.plus_secs(60));
        let outcomes: Vec<_> = working.effects.deliveries.iter().map(|delivery| (delivery.event, delivery.outcome)).collect();
        if begun {
            // It may have arrived.
            assert_eq!((rows(&working, id), outcomes), (vec![Event::Down, Event::Up], vec![]));
        } else {
            let superseded = [Event::Down, Event::Up].map(|event| (event, DeliveryOutcome::Superseded));
            assert_eq!((rows(&working, id), outcomes), (vec![], superseded.to_vec()));
            assert!(!working.state.outbox.is_full_for(MAIN), "that made room");
        }
        // What nobody waits for finds no place, however often the check changes.
        fill_outbox(&mut working, hook);
        let before = working.state.outbox.len();
        for second in 0..20 {
            ping(&mut working, 7, [Kind::Fail, Kind::Success][second as usize % 2], NOW.plus_secs(100 + second));
        }
        assert_eq!(working.state.outbox.len(), before);
    }
}
