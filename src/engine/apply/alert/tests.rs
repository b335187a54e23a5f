use super::super::fixture::{MAIN, NOW, channel, check, fill_outbox, ping, working};
use super::*;
use crate::domain::edit::Edit;
use crate::domain::ping::Kind;
use crate::domain::text::Name;
use crate::engine::command::{Command, Report, SendOutcome};

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

/// Begins to send what waits about a check, and reports what becomes of it.
fn send(working: &mut WorkingState, channel: ChannelId, check: CheckId, sent: &SendOutcome) {
    let rows: Vec<_> = working.state.outbox.of_check(check).map(|row| row.number).collect();
    working.apply(Command::BeginDeliveries(rows.clone(), None), NOW).unwrap();
    let report = Report { recipients: Default::default(), channel, sent_to: None, rows, told_with: None, sent: sent.clone(), status: 202 };
    working.apply(Command::ReportDeliveries(vec![report]), NOW).unwrap();
}

#[test]
fn a_full_outbox_takes_the_end_of_a_downtime_that_was_delivered() {
    for kind in ["webhook", "pd"] {
        for end in [Event::Up, Event::Closed] {
            let mut working = working();
            let dead = channel(&mut working, "webhook", &[("down-url", "http://a/"), ("up-url", "http://a/")]);
            let settings: &[_] = if kind == "pd" {
                &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")]
            } else {
                &[("down-url", "http://a/"), ("up-url", "http://a/")]
            };
            let works = channel(&mut working, kind, settings);
            let id = check(&mut working, 7);
            working.apply(Command::AssignChannel { channel: dead, checks: vec![id], assigned: false }, NOW).unwrap();
            ping(&mut working, 7, Kind::Fail, NOW);
            send(&mut working, works, id, &SendOutcome::Delivered);
            fill_outbox(&mut working, dead);
            match end {
                Event::Up => ping(&mut working, 7, Kind::Success, NOW.plus_secs(60)),
                _ => drop(working.apply(Command::DeleteCheck(id), NOW.plus_secs(60)).unwrap()),
            }
            let expected = if (kind, end) == ("webhook", Event::Closed) { vec![] } else { vec![end] };
            assert_eq!(rows(&working, id), expected, "{kind} {end:?}");
        }
    }
}

#[test]
fn a_downtime_that_a_full_outbox_refused_has_no_end() {
    let mut working = working();
    let hook = channel(&mut working, "webhook", &[("down-url", "http://a/"), ("up-url", "http://a/")]);
    let pager = channel(&mut working, "pd", &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")]);
    let id = check(&mut working, 7);
    fill_outbox(&mut working, hook);
    ping(&mut working, 7, Kind::Fail, NOW);
    assert_eq!(rows(&working, id), []);
    // There is room again.
    let first: Vec<_> = working.state.outbox.rows().take(100).cloned().collect();
    first.iter().for_each(|row| working.change(Change::Unqueued(row.number)));
    assert!(!working.state.outbox.is_full_for(MAIN));
    // A delivery that is sent again by hand makes a channel one that was notified.
    let refused = working.effects.deliveries.iter().find(|delivery| delivery.channel == pager).cloned().unwrap();
    assert_eq!((refused.event, refused.outcome), (Event::Down, DeliveryOutcome::Failed));
    working.apply(Command::RetryDelivery { delivery: Box::new(refused), at: NOW }, NOW).unwrap();
    ping(&mut working, 7, Kind::Success, NOW.plus_secs(60));
    let told: Vec<_> = working.state.outbox.of_check(id).map(|row| (row.channel, row.event)).collect();
    assert_eq!(told, [(pager, Event::Down), (pager, Event::Up)]);
    assert_eq!(working.audience_notes.len(), 0);
}

#[test]
fn an_incident_that_may_be_open_keeps_its_end_however_often_the_check_changes() {
    let mut working = working();
    let pager = channel(&mut working, "pd", &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")]);
    let id = check(&mut working, 7);
    ping(&mut working, 7, Kind::Fail, NOW);
    send(&mut working, pager, id, &SendOutcome::Later { reason: "504".into(), doubtful: true });
    for second in 0..21 {
        ping(&mut working, 7, [Kind::Success, Kind::Fail][second as usize % 2], NOW.plus_secs(second));
        let rows: Vec<_> = working.state.outbox.of_check(id).collect();
        assert!(rows.len() <= MOST_OF_A_PAIR && rows[0].doubtful && rows[0].event == Event::Down, "{second}: {rows:?}");
        assert!(rows.windows(2).all(|pair| pair[0].event != pair[1].event), "down and up take turns: {rows:?}");
    }
    assert_eq!(rows(&working, id).last(), Some(&Event::Up));
}

#[test]
fn records_of_audiences_go_with_their_checks_and_channels() {
    let mut working = working();
    let mut hook = || channel(&mut working, "webhook", &[("down-url", "http://a/"), ("up-url", "http://a/"), ("every", "on")]);
    let (first, second) = (hook(), hook());
    let ids = [7, 8].map(|uuid| check(&mut working, uuid));
    for id in [first, second] {
        working.apply(Command::DisableChannel { channel: id, reason: "no".into() }, NOW).unwrap();
    }
    for uuid in [7, 8] {
        ping(&mut working, uuid, Kind::Fail, NOW);
    }
    assert_eq!(working.audience_notes.len(), 4);
    working.apply(Command::DeleteChannel(first), NOW).unwrap();
    assert_eq!(working.audience_notes.len(), 2);
    // As an import does that takes the place of an earlier one.
    working.change(Change::CheckGone(ids[0]));
    assert_eq!(working.audience_notes.len(), 1);
    // What waits for a channel that is gone is removed.
    working.apply(Command::EnableChannel(second), NOW).unwrap();
    ping(&mut working, 8, Kind::Success, NOW);
    ping(&mut working, 8, Kind::Fail, NOW);
    working.apply(Command::DeleteChannel(second), NOW).unwrap();
    working.apply(Command::RemoveOrphans, NOW).unwrap();
    assert_eq!((working.state.outbox.len(), working.audience_notes.len()), (0, 0));
}

#[test]
fn incidents_of_a_deleted_check_are_closed_although_their_end_waits_or_their_channel_has_left() {
    for change in 0..3 {
        let mut working = working();
        let pager = channel(&mut working, "pd", &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")]);
        let id = check(&mut working, 7);
        ping(&mut working, 7, Kind::Fail, NOW);
        send(&mut working, pager, id, &SendOutcome::Delivered);
        let leave = Command::AssignChannel { channel: pager, checks: vec![id], assigned: false };
        match change {
            0 => ping(&mut working, 7, Kind::Success, NOW.plus_secs(60)),
            1 => drop(working.apply(leave, NOW.plus_secs(60)).unwrap()),
            _ => {
                // It was not compared yet.
                working.most_alert_rows = 0;
                working.apply(leave, NOW.plus_secs(60)).unwrap();
                assert_eq!(rows(&working, id), []);
            }
        }
        working.apply(Command::DeleteCheck(id), NOW.plus_secs(61)).unwrap();
        let waiting: Vec<_> = working.state.outbox.of_check(id).map(|row| (row.event, row.gone.is_some())).collect();
        assert_eq!(waiting, [(Event::Closed, true)], "{change}");
    }
}
