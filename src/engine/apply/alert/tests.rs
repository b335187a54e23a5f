use super::super::fixture::{
    MAIN_PROJECT, NOW, add_channel, add_check, fill_outbox, send_ping, working_state,
};
use super::super::outbox::MAX_ROWS_PER_PAIR;
use super::*;
use crate::domain::check_edit::CheckEdit;
use crate::domain::ids::DeliveryNumber;
use crate::domain::ping::PingKind;
use crate::domain::text::Name;
use crate::engine::command::{Command, DeliveryReport, SendOutcome};

fn rows(working: &WorkingState, check: CheckId) -> Vec<AlertEvent> {
    working
        .state
        .outbox
        .rows_of_check(check)
        .map(|row| row.event)
        .collect()
}

#[test]
fn the_end_of_a_queued_downtime_needs_no_space_in_a_full_outbox() {
    for begun in [false, true] {
        let mut working = working_state();
        let hook = add_channel(
            &mut working,
            "webhook",
            &[("down-url", "http://a/"), ("up-url", "http://a/")],
        );
        let id = add_check(&mut working, 7);
        send_ping(&mut working, 7, PingKind::Fail, NOW);
        let down = working
            .state
            .outbox
            .rows_of_check(id)
            .next()
            .unwrap()
            .number;
        if begun {
            working
                .apply(
                    Command::StartAttempts {
                        rows: vec![down],
                        last_row: None,
                    },
                    NOW,
                )
                .unwrap();
        }
        fill_outbox(&mut working, hook);
        working.effects = super::super::Effects::default();
        send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60));
        let outcomes: Vec<_> = working
            .effects
            .deliveries
            .iter()
            .map(|delivery| (delivery.event, delivery.result))
            .collect();
        if begun {
            // It may have arrived.
            assert_eq!(
                (rows(&working, id), outcomes),
                (vec![AlertEvent::Down, AlertEvent::Up], vec![])
            );
        } else {
            let superseded =
                [AlertEvent::Down, AlertEvent::Up].map(|event| (event, DeliveryResult::Superseded));
            assert_eq!(
                (rows(&working, id), outcomes),
                (vec![], superseded.to_vec())
            );
            assert!(
                !working.state.outbox.is_full_for(MAIN_PROJECT),
                "that made room"
            );
        }
        // Rows that nothing waits for are refused, however often the check changes.
        fill_outbox(&mut working, hook);
        let before = working.state.outbox.len();
        for second in 0..20 {
            send_ping(
                &mut working,
                7,
                [PingKind::Fail, PingKind::Success][second as usize % 2],
                NOW.plus_secs(100 + second),
            );
        }
        assert_eq!(working.state.outbox.len(), before);
    }
}

#[test]
fn a_downtime_keeps_the_names_under_which_it_was_alerted() {
    let mut working = working_state();
    add_channel(&mut working, "alertmanager", &[("url", "http://a/")]);
    add_channel(
        &mut working,
        "webhook",
        &[("down-url", "http://a/"), ("up-url", "http://a/")],
    );
    let id = add_check(&mut working, 7);
    let rename = |working: &mut WorkingState, name: &str| {
        let edit = CheckEdit {
            name: Some(Name::parse(name).unwrap()),
            ..CheckEdit::default()
        };
        working
            .apply(Command::UpdateCheck(id, Box::new(edit)), NOW)
            .unwrap();
    };
    let told_as = |working: &WorkingState| {
        let name = |names: &Arc<CheckLabels>| names.name.as_str().to_owned();
        let of_check = working
            .state
            .check(id)
            .unwrap()
            .alerted_labels
            .as_ref()
            .map(name);
        (
            of_check,
            working
                .state
                .outbox
                .rows_of_check(id)
                .map(|row| (row.event, row.alerted_labels.as_ref().map(name)))
                .collect::<Vec<_>>(),
        )
    };
    rename(&mut working, "one");
    send_ping(&mut working, 7, PingKind::Fail, NOW);
    assert_eq!(told_as(&working), (None, vec![(AlertEvent::Down, None); 2]));
    for name in ["two", "three"] {
        rename(&mut working, name);
        // A webhook gets the names that are valid when it is sent.
        let rows = vec![
            (AlertEvent::Down, Some("one".to_owned())),
            (AlertEvent::Down, None),
        ];
        assert_eq!(told_as(&working), (Some("one".to_owned()), rows), "{name}");
    }
    rename(&mut working, "one");
    assert_eq!(told_as(&working), (None, vec![(AlertEvent::Down, None); 2]));
    rename(&mut working, "four");
    working
        .state
        .outbox
        .rows_of_check(id)
        .map(|row| row.number)
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|row| {
            working.record_change(Change::OutboxRowDeleted(row));
        });
    send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60));
    assert_eq!(
        told_as(&working),
        (None, vec![(AlertEvent::Up, Some("one".to_owned())); 2])
    );
}

#[test]
fn rows_of_a_message_whose_last_row_never_began_were_not_sent() {
    let mut working = working_state();
    add_channel(&mut working, "ntfy", &[("topic", "t")]);
    let rows: Vec<_> = (7..=9)
        .map(|uuid| {
            let id = add_check(&mut working, uuid);
            send_ping(&mut working, uuid, PingKind::Fail, NOW);
            working
                .state
                .outbox
                .rows_of_check(id)
                .next()
                .unwrap()
                .number
        })
        .collect();
    let last = rows.last().copied();
    let begin = |working: &mut WorkingState, some: &[DeliveryNumber], last| match working
        .apply(
            Command::StartAttempts {
                rows: some.to_vec(),
                last_row: last,
            },
            NOW,
        )
        .unwrap()
    {
        CommandOutcome::AttemptsStarted(begun) => begun
            .iter()
            .map(|row| (row.attempts, row.interruptions, row.may_be_duplicate))
            .collect::<Vec<_>>(),
        outcome => panic!("{outcome:?}"),
    };
    begin(&mut working, &rows[..1], last);
    begin(&mut working, &rows[1..2], last);
    working.state.clear_sending();
    // The server stopped before the last part began.
    assert_eq!(begin(&mut working, &rows[..2], last), [(2, 0, false); 2]);
    assert_eq!(begin(&mut working, &rows[2..], last), [(1, 0, false)]);
    working.state.clear_sending();
    // Now it stopped after that.
    assert_eq!(
        begin(&mut working, &rows, None),
        [(3, 1, true), (3, 1, true), (2, 1, true)]
    );
}

/// Begins to send the rows of a check, and reports the result.
fn send(working: &mut WorkingState, channel: ChannelId, check: CheckId, sent: &SendOutcome) {
    let rows: Vec<_> = working
        .state
        .outbox
        .rows_of_check(check)
        .map(|row| row.number)
        .collect();
    working
        .apply(
            Command::StartAttempts {
                rows: rows.clone(),
                last_row: None,
            },
            NOW,
        )
        .unwrap();
    let report = DeliveryReport {
        recipients: Default::default(),
        channel,
        sent_to: None,
        rows,
        merged_into: None,
        result: sent.clone(),
        status: 202,
    };
    working
        .apply(Command::RecordDeliveryReports(vec![report]), NOW)
        .unwrap();
}

#[test]
fn a_full_outbox_accepts_the_end_of_a_delivered_downtime() {
    for kind in ["webhook", "pd"] {
        for end in [AlertEvent::Up, AlertEvent::Closed] {
            let mut working = working_state();
            let dead = add_channel(
                &mut working,
                "webhook",
                &[("down-url", "http://a/"), ("up-url", "http://a/")],
            );
            let settings: &[_] = if kind == "pd" {
                &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")]
            } else {
                &[("down-url", "http://a/"), ("up-url", "http://a/")]
            };
            let works = add_channel(&mut working, kind, settings);
            let id = add_check(&mut working, 7);
            working
                .apply(
                    Command::AssignChannel {
                        channel: dead,
                        checks: vec![id],
                        assigned: false,
                    },
                    NOW,
                )
                .unwrap();
            send_ping(&mut working, 7, PingKind::Fail, NOW);
            send(&mut working, works, id, &SendOutcome::Delivered);
            fill_outbox(&mut working, dead);
            match end {
                AlertEvent::Up => send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60)),
                _ => drop(
                    working
                        .apply(Command::DeleteCheck(id), NOW.plus_secs(60))
                        .unwrap(),
                ),
            }
            let expected = if (kind, end) == ("webhook", AlertEvent::Closed) {
                vec![]
            } else {
                vec![end]
            };
            assert_eq!(rows(&working, id), expected, "{kind} {end:?}");
        }
    }
}

#[test]
fn a_full_outbox_accepts_the_end_of_a_downtime_that_was_tried() {
    let mut working = working_state();
    let urls = [("down-url", "http://a/"), ("up-url", "http://a/")];
    let hook = add_channel(&mut working, "webhook", &urls);
    let id = add_check(&mut working, 7);
    send_ping(&mut working, 7, PingKind::Fail, NOW);
    let refused = SendOutcome::Retry {
        reason: "the answer was 503".into(),
        may_have_arrived: false,
    };
    send(&mut working, hook, id, &refused);
    fill_outbox(&mut working, hook);
    send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60));
    assert_eq!(rows(&working, id), [AlertEvent::Down, AlertEvent::Up]);
}

#[test]
fn a_downtime_that_a_full_outbox_refused_has_no_end() {
    let mut working = working_state();
    let hook = add_channel(
        &mut working,
        "webhook",
        &[("down-url", "http://a/"), ("up-url", "http://a/")],
    );
    let pager = add_channel(
        &mut working,
        "pd",
        &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")],
    );
    let id = add_check(&mut working, 7);
    fill_outbox(&mut working, hook);
    send_ping(&mut working, 7, PingKind::Fail, NOW);
    assert_eq!(rows(&working, id), []);
    // The outbox has space again.
    let first: Vec<_> = working.state.outbox.rows().take(100).cloned().collect();
    first
        .iter()
        .for_each(|row| working.record_change(Change::OutboxRowDeleted(row.number)));
    assert!(!working.state.outbox.is_full_for(MAIN_PROJECT));
    // A delivery that is retried by hand counts as a notification of the channel.
    let refused = working
        .effects
        .deliveries
        .iter()
        .find(|delivery| delivery.channel == pager)
        .cloned()
        .unwrap();
    assert_eq!(
        (refused.event, refused.result),
        (AlertEvent::Down, DeliveryResult::Failed)
    );
    working
        .apply(
            Command::RetryDelivery {
                delivery: Box::new(refused),
                at: NOW,
            },
            NOW,
        )
        .unwrap();
    send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60));
    let sent: Vec<_> = working
        .state
        .outbox
        .rows_of_check(id)
        .map(|row| (row.channel, row.event))
        .collect();
    assert_eq!(sent, [(pager, AlertEvent::Down), (pager, AlertEvent::Up)]);
    assert_eq!(working.audience_states.len(), 0);
}

#[test]
fn an_incident_that_may_be_open_keeps_its_end_however_often_the_check_changes() {
    let mut working = working_state();
    let pager = add_channel(
        &mut working,
        "pd",
        &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")],
    );
    let id = add_check(&mut working, 7);
    send_ping(&mut working, 7, PingKind::Fail, NOW);
    send(
        &mut working,
        pager,
        id,
        &SendOutcome::Retry {
            reason: "504".into(),
            may_have_arrived: true,
        },
    );
    for second in 0..21 {
        send_ping(
            &mut working,
            7,
            [PingKind::Success, PingKind::Fail][second as usize % 2],
            NOW.plus_secs(second),
        );
        let rows: Vec<_> = working.state.outbox.rows_of_check(id).collect();
        assert!(
            rows.len() <= MAX_ROWS_PER_PAIR
                && rows[0].may_be_duplicate
                && rows[0].event == AlertEvent::Down,
            "{second}: {rows:?}"
        );
        assert!(
            rows.windows(2).all(|pair| pair[0].event != pair[1].event),
            "down and up take turns: {rows:?}"
        );
    }
    assert_eq!(rows(&working, id).last(), Some(&AlertEvent::Up));
}

#[test]
fn audience_notes_are_removed_with_their_checks_and_channels() {
    let mut working = working_state();
    let mut hook = || {
        add_channel(
            &mut working,
            "webhook",
            &[
                ("down-url", "http://a/"),
                ("up-url", "http://a/"),
                ("every", "on"),
            ],
        )
    };
    let first = hook();
    let second = hook();
    let ids = [7, 8].map(|uuid| add_check(&mut working, uuid));
    for id in [first, second] {
        working
            .apply(
                Command::DisableChannel {
                    channel: id,
                    reason: "no".into(),
                },
                NOW,
            )
            .unwrap();
    }
    for uuid in [7, 8] {
        send_ping(&mut working, uuid, PingKind::Fail, NOW);
    }
    assert_eq!(working.audience_states.len(), 4);
    working.apply(Command::DeleteChannel(first), NOW).unwrap();
    assert_eq!(working.audience_states.len(), 2);
    // An import that replaces an earlier one does the same.
    working.record_change(Change::CheckDeleted(ids[0]));
    assert_eq!(working.audience_states.len(), 1);
    // Rows of a deleted channel are removed.
    working.apply(Command::EnableChannel(second), NOW).unwrap();
    send_ping(&mut working, 8, PingKind::Success, NOW);
    send_ping(&mut working, 8, PingKind::Fail, NOW);
    working.apply(Command::DeleteChannel(second), NOW).unwrap();
    working.apply(Command::RemoveOrphans, NOW).unwrap();
    assert_eq!(
        (working.state.outbox.len(), working.audience_states.len()),
        (0, 0)
    );
}

#[test]
fn incidents_of_a_deleted_check_are_closed_if_their_end_is_queued_or_their_channel_has_left() {
    for change in 0..3 {
        let mut working = working_state();
        let pager = add_channel(
            &mut working,
            "pd",
            &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")],
        );
        let id = add_check(&mut working, 7);
        send_ping(&mut working, 7, PingKind::Fail, NOW);
        send(&mut working, pager, id, &SendOutcome::Delivered);
        let leave = Command::AssignChannel {
            channel: pager,
            checks: vec![id],
            assigned: false,
        };
        match change {
            0 => send_ping(&mut working, 7, PingKind::Success, NOW.plus_secs(60)),
            1 => drop(working.apply(leave, NOW.plus_secs(60)).unwrap()),
            _ => {
                // The audience was not compared yet.
                working.max_alert_rows = 0;
                working.apply(leave, NOW.plus_secs(60)).unwrap();
                assert_eq!(rows(&working, id), []);
            }
        }
        working
            .apply(Command::DeleteCheck(id), NOW.plus_secs(61))
            .unwrap();
        let waiting: Vec<_> = working
            .state
            .outbox
            .rows_of_check(id)
            .map(|row| (row.event, row.deleted_check.is_some()))
            .collect();
        assert_eq!(waiting, [(AlertEvent::Closed, true)], "{change}");
    }
}
