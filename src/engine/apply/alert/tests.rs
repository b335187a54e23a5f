use super::super::fixture::{MAIN, NOW, channel, check, fill_outbox, ping, working};
use super::*;
use crate::domain::edit::Edit;
use crate::domain::ping::Kind;
use crate::domain::text::Name;
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
            working.apply(Command::BeginDeliveries(vec![down], None), NOW).unwrap();
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

#[test]
fn a_downtime_keeps_the_names_under_which_it_was_told() {
    let mut working = working();
    channel(&mut working, "alertmanager", &[("url", "http://a/")]);
    channel(&mut working, "webhook", &[("down-url", "http://a/"), ("up-url", "http://a/")]);
    let id = check(&mut working, 7);
    let rename = |working: &mut WorkingState, name: &str| {
        let edit = Edit { name: Some(Name::parse(name).unwrap()), ..Edit::default() };
        working.apply(Command::UpdateCheck(id, Box::new(edit)), NOW).unwrap();
    };
    let told_as = |working: &WorkingState| {
        let name = |names: &Arc<NameSet>| names.name.as_str().to_owned();
        let of_check = working.state.check(id).unwrap().told_as.as_ref().map(name);
        (of_check, working.state.outbox.of_check(id).map(|row| (row.event, row.told_as.as_ref().map(name))).collect::<Vec<_>>())
    };
    rename(&mut working, "one");
    ping(&mut working, 7, Kind::Fail, NOW);
    assert_eq!(told_as(&working), (None, vec![(Event::Down, None); 2]));
    for name in ["two", "three"] {
        rename(&mut working, name);
        // A webhook is told what holds when it is sent.
        let rows = vec![(Event::Down, Some("one".to_owned())), (Event::Down, None)];
        assert_eq!(told_as(&working), (Some("one".to_owned()), rows), "{name}");
    }
    rename(&mut working, "one");
    assert_eq!(told_as(&working), (None, vec![(Event::Down, None); 2]));
    rename(&mut working, "four");
    working.state.outbox.of_check(id).map(|row| row.number).collect::<Vec<_>>().into_iter().for_each(|row| {
        working.change(Change::Unqueued(row));
    });
    ping(&mut working, 7, Kind::Success, NOW.plus_secs(60));
    assert_eq!(told_as(&working), (None, vec![(Event::Up, Some("one".to_owned())); 2]));
}

#[test]
fn rows_of_a_message_whose_last_row_never_began_were_not_sent() {
    let mut working = working();
    channel(&mut working, "ntfy", &[("topic", "t")]);
    let rows: Vec<_> = (7..=9)
        .map(|uuid| {
            let id = check(&mut working, uuid);
            ping(&mut working, uuid, Kind::Fail, NOW);
            working.state.outbox.of_check(id).next().unwrap().number
        })
        .collect();
    let last = rows.last().copied();
    let begin = |working: &mut WorkingState, some: &[DeliveryNumber], last| match working
        .apply(Command::BeginDeliveries(some.to_vec(), last), NOW)
        .unwrap()
    {
        Outcome::Begun(begun) => begun.iter().map(|row| (row.attempts, row.interrupted, row.doubtful)).collect::<Vec<_>>(),
        outcome => panic!("{outcome:?}"),
    };
    begin(&mut working, &rows[..1], last);
    begin(&mut working, &rows[1..2], last);
    working.state.nobody_sends();
    // The server ended before the last part began.
    assert_eq!(begin(&mut working, &rows[..2], last), [(2, 0, false); 2]);
    assert_eq!(begin(&mut working, &rows[2..], last), [(1, 0, false)]);
    working.state.nobody_sends();
    // And now after it.
    assert_eq!(begin(&mut working, &rows, None), [(3, 1, true), (3, 1, true), (2, 1, true)]);
}
