//! Channels that are notified, and their delivery results.

use super::*;
use crate::channels;
use crate::domain::alert::{AlertEvent, DeliveryRecord, DeliveryResult, NotificationState};
use crate::domain::check::Check;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::number::FailureThreshold;
use crate::domain::ping::{PingKind, PingOrigin};
use crate::domain::text::Name;
use crate::engine::command::{DeliveryReport, PingRequest, PingSignal, PingTarget, SendOutcome};
use crate::operations::channel::CheckSelection;
use crate::operations::delivery::DeliveryFilter;

fn check(service: &EngineFixture, project: &Project, name: &str, tags: &str) -> Box<Check> {
    let edit = CheckEdit {
        name: Some(Name::parse(name).unwrap()),
        tags: Some(crate::domain::text::Tags::parse(tags).unwrap()),
        channels: Some(ChannelSelection::All),
        ..CheckEdit::default()
    };
    service
        .run(check::create(&service.handle, project.id, edit, Vec::new()))
        .unwrap()
        .check
}

/// Creates a channel of a kind, and returns its id.
pub(super) fn channel_of(
    service: &EngineFixture,
    project: &Project,
    kind: &str,
    pairs: &[(&str, &str)],
) -> ChannelId {
    let settings =
        ChannelSettings::parse(channels::find_kind(kind).unwrap(), pairs.iter().copied()).unwrap();
    service
        .run(channel::create(
            &service.handle,
            project.id,
            ChannelName::parse(kind).unwrap(),
            settings,
            SettingsAuthor::Operator,
        ))
        .unwrap()
        .id
}

fn ping(service: &EngineFixture, check: &Check, kind: PingKind) {
    let origin = PingOrigin {
        scheme: crate::domain::ping::PingScheme::Http,
        method: crate::domain::ping::PingMethod::Get,
        remote_addr: None,
        user_agent: "".into(),
    };
    let target = PingTarget::Uuid(check.uuid);
    let request = PingRequest {
        target,
        signal: PingSignal::Http(kind),
        origin,
        rid: None,
        body: bytes::Bytes::new(),
    };
    service
        .run(service.handle.call(Command::Ping(Box::new(request))))
        .unwrap()
        .unwrap();
}

/// Fails all waiting messages of a channel, and returns their numbers.
fn give_up(service: &EngineFixture, channel: ChannelId) -> Vec<u64> {
    finish(service, channel, 500)
}

/// Does the same after a response with this status.
fn finish(service: &EngineFixture, channel: ChannelId, status: u16) -> Vec<u64> {
    report(service, channel, SendOutcome::Failed("no".into()), status)
}

/// Reports this result for all waiting messages of a channel, and returns their numbers.
fn report(service: &EngineFixture, channel: ChannelId, sent: SendOutcome, status: u16) -> Vec<u64> {
    let rows: Vec<_> = service.handle.with_state(|state| {
        state
            .outbox
            .rows_of_channel(channel)
            .map(|row| row.number)
            .collect()
    });
    let report = DeliveryReport {
        recipients: Default::default(),
        channel,
        sent_to: None,
        rows: rows.clone(),
        merged_into: None,
        result: sent,
        status,
    };
    service
        .run(
            service
                .handle
                .call(Command::RecordDeliveryReports(vec![report])),
        )
        .unwrap()
        .unwrap();
    rows.into_iter().map(|number| number.0).collect()
}

fn list(service: &EngineFixture, wanted: DeliveryFilter) -> Vec<DeliveryRecord> {
    service
        .run(delivery::list(&service.handle, wanted, 100))
        .unwrap()
}

#[test]
fn checks_are_assigned_by_name_by_tag_or_all() {
    let service = EngineFixture::new();
    let one = service.project("one");
    let two = service.project("two");
    let first = check(&service, &one, "first", "x y");
    let second = check(&service, &one, "second", "y");
    let elsewhere = check(&service, &two, "elsewhere", "x");
    let id = channel_of(&service, &one, "email", &[("to", "a@example.org")]);
    let channel = || {
        service
            .handle
            .with_state(|state| state.channel(id).cloned().unwrap())
    };
    let told = |check: &Check| {
        service.handle.with_state(|state| {
            state
                .check(check.id)
                .is_some_and(|check| check.settings.channels.contains(&id))
        })
    };
    let tagged =
        |tags: &[&str]| CheckSelection::Tagged(tags.iter().map(|tag| (*tag).into()).collect());
    let named = |name: &str| CheckSelection::Named(vec![name.into()]);
    for (chosen, assigned, count, told_of) in [
        (named("first"), true, 1, [true, false]),
        (named("first"), true, 0, [true, false]),
        (tagged(&["y"]), true, 1, [true, true]),
        (tagged(&["y", "x"]), false, 1, [false, true]),
        (tagged(&["z"]), true, 0, [false, true]),
        (CheckSelection::All, false, 1, [false, false]),
        (CheckSelection::All, true, 2, [true, true]),
    ] {
        assert_eq!(
            service
                .run(channel::assign(
                    &service.handle,
                    &channel(),
                    chosen,
                    assigned
                ))
                .unwrap(),
            count
        );
        assert_eq!(
            [told(&first), told(&second), told(&elsewhere)],
            [told_of[0], told_of[1], false]
        );
    }
    let unknown = refused(service.run(channel::assign(
        &service.handle,
        &channel(),
        named("elsewhere"),
        true,
    )));
    assert_eq!(
        unknown,
        r#"there is no check "elsewhere"; `check list` lists all checks"#
    );
    // A command cannot assign a check of another project, even if it names one.
    let command = Command::AssignChannel {
        channel: id,
        checks: vec![elsewhere.id],
        assigned: true,
    };
    assert_eq!(
        service.run(service.handle.call(command)),
        Ok(Ok(CommandOutcome::ChannelAssigned(0)))
    );
}

#[test]
fn a_failed_delivery_is_sent_again_unless_it_is_out_of_date() {
    let service = EngineFixture::new();
    let project = service.project("one");
    let hook = channel_of(
        &service,
        &project,
        "webhook",
        &[("down-url", "http://a/"), ("up-url", "http://a/")],
    );
    let mail = channel_of(&service, &project, "email", &[("to", "a@example.org")]);
    let check = check(&service, &project, "Backup", "");
    ping(&service, &check, PingKind::Fail);
    let to_hook = give_up(&service, hook)[0];
    let to_mail = give_up(&service, mail)[0];
    let never_tried = to_mail;
    let retry = |number| service.run(delivery::retry(&service.handle, None, number));
    let waiting = || {
        service.handle.with_state(|state| {
            state
                .outbox
                .rows()
                .map(|row| {
                    (
                        row.number.0,
                        row.channel,
                        row.check,
                        row.flip,
                        row.event,
                        row.at,
                    )
                })
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(waiting(), []);
    let failed = list(
        &service,
        DeliveryFilter {
            result: Some(DeliveryResult::Failed),
            ..DeliveryFilter::default()
        },
    )
    .remove(0);
    let down = service.handle.flip(failed.flip).unwrap().unwrap().flip.at;
    let number = retry(to_mail).unwrap();
    assert_eq!(
        waiting(),
        [(number, mail, check.id, failed.flip, AlertEvent::Down, down)]
    );
    assert_ne!(number, to_mail);
    // A message that was attempted may have arrived, and says so when it is sent again.
    let doubtful = |number| {
        service.handle.with_state(|state| {
            state
                .outbox
                .get(DeliveryNumber(number))
                .map(|row| row.may_be_duplicate)
        })
    };
    assert_eq!(doubtful(number), Some(false));
    service
        .run(service.handle.call(Command::StartAttempts {
            rows: vec![DeliveryNumber(number)],
            last_row: None,
        }))
        .unwrap()
        .unwrap();
    give_up(&service, mail);
    let number = retry(number).unwrap();
    assert_eq!(doubtful(number), Some(true));
    give_up(&service, mail);
    // A refused message has not arrived, unless an earlier attempt may have.
    let begin = |number| {
        service
            .run(service.handle.call(Command::StartAttempts {
                rows: vec![DeliveryNumber(number)],
                last_row: None,
            }))
            .unwrap()
            .unwrap()
    };
    let number = retry(never_tried).unwrap();
    begin(number);
    report(
        &service,
        mail,
        SendOutcome::Retry {
            reason: "the answer was 504".into(),
            may_have_arrived: true,
        },
        504,
    );
    begin(number);
    let number = retry(finish(&service, mail, 400)[0]).unwrap();
    assert_eq!(doubtful(number), Some(true));
    give_up(&service, mail);
    let number = retry(never_tried).unwrap();
    service
        .run(service.handle.call(Command::StartAttempts {
            rows: vec![DeliveryNumber(number)],
            last_row: None,
        }))
        .unwrap()
        .unwrap();
    let number = retry(finish(&service, mail, 400)[0]).unwrap();
    assert_eq!(doubtful(number), Some(false));
    let to_mail = give_up(&service, mail)[0];

    // It is up again: people would get a false alert, a program gets every event.
    ping(&service, &check, PingKind::Success);
    give_up(&service, hook);
    give_up(&service, mail);
    assert_eq!(
        refused(retry(to_mail)),
        "the status of the check has changed since, so this alert is out of date"
    );
    let number = retry(to_hook).unwrap();
    assert_eq!(
        waiting(),
        [(number, hook, check.id, failed.flip, AlertEvent::Down, down)]
    );

    service
        .run(channel::disable(&service.handle, hook))
        .unwrap();
    assert_eq!(
        refused(retry(to_hook)),
        "the channel is disabled; `channel enable` enables it"
    );
    assert!(
        list(
            &service,
            DeliveryFilter {
                channel: Some(hook),
                ..DeliveryFilter::default()
            }
        )
        .iter()
        .any(|delivery| delivery.number.0 == to_hook)
    );
    service.run(channel::enable(&service.handle, hook)).unwrap();
    assert_eq!(
        refused(retry(0)),
        "there is no delivery 0; `deliveries` lists all deliveries"
    );
    assert_eq!(
        refused(retry(u64::MAX)),
        format!(
            "there is no delivery {}; `deliveries` lists all deliveries",
            u64::MAX
        )
    );
    service
        .run(check::delete(&service.handle, check.id))
        .unwrap();
    assert_eq!(
        refused(retry(to_hook)),
        "the object has been deleted in the meantime"
    );
}

#[test]
fn deliveries_are_found_by_project_channel_check_and_outcome() {
    let service = EngineFixture::new();
    let one = service.project("one");
    let two = service.project("two");
    let hook = channel_of(&service, &one, "webhook", &[("down-url", "http://a/")]);
    let other = channel_of(&service, &two, "webhook", &[("down-url", "http://a/")]);
    let checks = [
        check(&service, &one, "a", ""),
        check(&service, &one, "b", ""),
        check(&service, &two, "c", ""),
    ];
    checks
        .iter()
        .for_each(|check| ping(&service, check, PingKind::Fail));
    give_up(&service, hook);
    let number = service
        .handle
        .with_state(|state| state.outbox.rows_of_channel(other).next().unwrap().number);
    let report = DeliveryReport {
        recipients: Default::default(),
        channel: other,
        sent_to: None,
        rows: vec![number],
        merged_into: Some(number),
        result: SendOutcome::Delivered,
        status: 200,
    };
    service
        .run(
            service
                .handle
                .call(Command::RecordDeliveryReports(vec![report])),
        )
        .unwrap()
        .unwrap();
    let [a, _, c] = [0, 1, 2].map(|place: usize| checks[place].id);
    let none = DeliveryFilter::default();
    for (wanted, count) in [
        (none, 3),
        (
            DeliveryFilter {
                result: Some(DeliveryResult::Failed),
                ..none
            },
            2,
        ),
        (
            DeliveryFilter {
                project: Some(one.id),
                ..none
            },
            2,
        ),
        (
            DeliveryFilter {
                project: Some(two.id),
                result: Some(DeliveryResult::Failed),
                ..none
            },
            0,
        ),
        (
            DeliveryFilter {
                channel: Some(hook),
                ..none
            },
            2,
        ),
        (
            DeliveryFilter {
                channel: Some(hook),
                check: Some(a),
                ..none
            },
            1,
        ),
        (
            DeliveryFilter {
                check: Some(c),
                ..none
            },
            1,
        ),
    ] {
        assert_eq!(list(&service, wanted).len(), count);
    }
    let all = list(&service, none);
    assert!(all.is_sorted_by_key(|delivery| std::cmp::Reverse(delivery.number)));
    assert_eq!(
        (all[0].result, all[0].merged_into),
        (DeliveryResult::Delivered, None::<DeliveryNumber>)
    );
    assert_eq!(
        service
            .run(delivery::list(&service.handle, none, 1))
            .unwrap(),
        all[..1]
    );
    let oldest = all[2].number;
    let found = |max_read| {
        service
            .handle
            .recent_deliveries(DeliveryNumber(u64::MAX), 1, max_read, |delivery| {
                delivery.number == oldest
            })
            .unwrap()
            .len()
    };
    assert_eq!([0, 2, 3].map(found), [0, 0, 1]);
    // After a channel is deleted, deliveries are still found by project through their checks.
    service.run(channel::delete(&service.handle, hook)).unwrap();
    assert_eq!(
        list(
            &service,
            DeliveryFilter {
                project: Some(one.id),
                ..none
            }
        )
        .len(),
        2
    );
}

#[test]
fn alerting_is_changed_and_shows_what_it_waits_for() {
    let service = EngineFixture::new();
    let project = service.project("one");
    let check = check(&service, &project, "a", "");
    let three = service
        .run(check::update_alert_settings(
            &service.handle,
            check.id,
            Some(FailureThreshold::parse(3).unwrap()),
            None,
        ))
        .unwrap();
    assert_eq!(
        (
            three.settings.failure_threshold.get(),
            three.state.notification.name(),
            three.state.notification.pending_decision()
        ),
        (3, "quiet", None)
    );
    ping(&service, &check, PingKind::Fail);
    let notification = service
        .handle
        .with_state(|state| state.check(check.id).unwrap().state.notification);
    let NotificationState::Pending { at, .. } = notification else {
        panic!("{notification:?}")
    };
    assert_eq!(
        (notification.name(), notification.pending_decision()),
        ("due", Some((at, "it has not failed often enough in a row")))
    );
    let one = service
        .run(check::update_alert_settings(
            &service.handle,
            check.id,
            Some(FailureThreshold::ONE),
            None,
        ))
        .unwrap();
    assert_eq!(
        (
            one.state.notification.name(),
            one.state.notification.pending_decision()
        ),
        ("unheard", None)
    );
    service
        .run(check::delete(&service.handle, check.id))
        .unwrap();
    assert_eq!(
        refused(service.run(check::update_alert_settings(
            &service.handle,
            check.id,
            Some(FailureThreshold::ONE),
            None
        ))),
        "the object has been deleted in the meantime"
    );
}
