//! Test messages to channels: their results, and the order in which they are sent.

use std::time::Duration;

use super::alerts::channel_of;
use super::*;
use crate::engine::{ChannelTestResult, TestedChannel};
use crate::operations::channel::ChannelTestResults;

#[test]
fn a_test_of_a_deleted_channel_is_reported() {
    let service = EngineFixture::new();
    let project = service.project("one");
    let id = channel_of(&service, &project, "email", &[("to", "a@example.org")]);
    let mail = service
        .handle
        .with_state(|state| state.channel(id).cloned().unwrap());
    let untried = service.run(async {
        let testing = channel::test(&service.handle, &mail, false);
        let sender = async {
            service.handle.wait_for_outgoing().await;
            channel::delete(&service.handle, id).await.unwrap();
            drop(service.handle.next_channel_test());
        };
        let (result, ()) = tokio::join!(testing, sender);
        refused(result)
    });
    assert_eq!(untried, "the object has been deleted in the meantime");
    // One project takes half of the slots.
    let busy: Vec<_> = (0..8)
        .map(|_| service.handle.request_channel_test(id, false).unwrap())
        .collect();
    assert_eq!(
        refused(service.run(channel::test(&service.handle, &mail, false))),
        "the server is overloaded; nothing was changed, try again"
    );
    drop(busy);
    while service.handle.next_channel_test().is_some() {}
    let members = [("email", ("to", "a@example.org")), ("ntfy", ("topic", "a"))];
    let members = members.map(|(kind, setting)| channel_of(&service, &project, kind, &[setting]));
    let id = channel_of(&service, &project, "group", &[("channels", "email,ntfy")]);
    let group = service
        .handle
        .with_state(|state| state.channel(id).cloned().unwrap());
    let tested = service.run(async {
        let testing = channel::test(&service.handle, &group, true);
        let sender = async {
            for failed in [None, Some("busy".to_owned())] {
                let trial = loop {
                    match service.handle.next_channel_test() {
                        Some(trial) => break trial,
                        None => service.handle.wait_for_outgoing().await,
                    }
                };
                assert!(trial.is_up_message);
                trial
                    .reply
                    .send(ChannelTestResult {
                        duration: Duration::ZERO,
                        status: 0,
                        error: failed,
                        missed: None,
                    })
                    .unwrap();
            }
        };
        tokio::join!(testing, sender).0
    });
    let Ok(ChannelTestResults::Group(tests)) = tested else {
        panic!("a group was tested as a channel")
    };
    let shown = tests
        .into_iter()
        .map(|test| {
            (
                test.channel.settings.kind().name,
                test.result.unwrap().error,
            )
        })
        .collect::<Vec<_>>();
    assert_eq!(shown, [("email", None), ("ntfy", Some("busy".to_owned()))]);
    for id in members {
        service.run(channel::delete(&service.handle, id)).unwrap();
    }
    let group = service
        .handle
        .with_state(|state| state.channel(id).cloned().unwrap());
    let untried = refused(service.run(channel::test(&service.handle, &group, false)));
    assert_eq!(
        untried,
        "the group has no channels; `channel set` adds some"
    );
}

#[test]
fn a_test_of_a_group_shows_which_channels_have_no_result_and_why() {
    let service = EngineFixture::new();
    let project = service.project("one");
    let members = [
        ("email", ("to", "a@example.org")),
        ("ntfy", ("topic", "a")),
        ("webhook", ("down-url", "http://a/")),
    ];
    let [mail, ..] =
        members.map(|(kind, setting)| channel_of(&service, &project, kind, &[setting]));
    let id = channel_of(
        &service,
        &project,
        "group",
        &[("channels", "email,ntfy,webhook")],
    );
    let group = service
        .handle
        .with_state(|state| state.channel(id).cloned().unwrap());
    service
        .run(channel::disable(&service.handle, mail))
        .unwrap();
    let tested = service.run(async {
        tokio::time::pause();
        // The test of the second channel is never sent and takes all the time.
        let time = async {
            let Clock::Manual(clock) = service.handle.clock() else {
                panic!("the clock is not moved by hand")
            };
            clock.advance_secs(70);
        };
        tokio::join!(channel::test(&service.handle, &group, false), time).0
    });
    let Ok(ChannelTestResults::Group(tests)) = tested else {
        panic!("a group was tested as a channel")
    };
    let shown = tests
        .into_iter()
        .map(|test| (test.channel.settings.kind().name, refused(test.result)))
        .collect::<Vec<_>>();
    let untested = [
        (
            "email",
            "it was disabled by the operator and was not tested; `channel enable` enables it",
        ),
        (
            "ntfy",
            "no result yet; the message may still arrive; test it separately",
        ),
        (
            "webhook",
            "there was no time left to test it; test it separately",
        ),
    ];
    assert_eq!(
        shown,
        untested.map(|(kind, error)| (kind, error.to_owned()))
    );
}

#[test]
fn tests_of_channels_take_turns_with_other_projects() {
    let service = EngineFixture::new();
    let projects: Vec<_> = (0..6)
        .map(|number| service.project(&format!("p{number}")))
        .collect();
    let channels: Vec<_> = projects
        .iter()
        .map(|project| channel_of(&service, project, "email", &[("to", "a@example.org")]))
        .collect();
    let ask = |channel| service.handle.request_channel_test(channel, false).is_ok();
    let taken: Vec<_> = channels
        .iter()
        .map(|channel| (0..20).filter(|_| ask(*channel)).count())
        .collect();
    assert_eq!(taken, [8, 4, 2, 1, 1, 0], "as much as is free");
    let next = || {
        service.handle.next_channel_test().map(|trial| {
            (
                channels
                    .iter()
                    .position(|id| trial.channel == TestedChannel::Stored(*id)),
                trial,
            )
        })
    };
    let under_way: Vec<_> = std::iter::from_fn(&next).collect();
    assert_eq!(
        under_way
            .iter()
            .map(|(project, _)| *project)
            .collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), Some(3)]
    );
    assert!(ask(channels[5]) && next().is_none(), "four at once");
    drop(under_way);
    assert_eq!(
        next().unwrap().0,
        Some(0),
        "what has waited for the longest"
    );
}
