//! Resending to Alertmanager, which resolves alerts that are not repeated; and fairness between
//! projects.

use std::time::Instant;

use overdue::channels;
use overdue::domain::text::{Slug, Tags};

use super::*;

async fn alertmanager(
    site: &NotifierFixture,
    receiver: &Receiver,
    more: &[(&str, &str)],
) -> ChannelId {
    let url = receiver.url("");
    let pairs: Vec<_> = [("url", url.as_str())]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    site.create_channel("alertmanager", &pairs).await
}

/// Names of the checks in a request, and whether each still fires at the current time.
fn fires(
    site: &NotifierFixture,
    seen: &crate::support::receiver::ReceivedRequest,
) -> Vec<(String, bool)> {
    let alerts: Vec<serde_json::Value> = serde_json::from_str(seen.text()).unwrap();
    let now = site.handle.now();
    let one = |alert: &serde_json::Value| {
        let ends: jiff::Timestamp = alert["endsAt"].as_str().unwrap().parse().unwrap();
        (
            alert["labels"]["check"].as_str().unwrap().to_owned(),
            ends.as_microsecond() > now.micros(),
        )
    };
    alerts.iter().map(one).collect()
}

#[tokio::test]
async fn alerts_are_sent_again_with_the_secret_of_the_file_and_a_refusal_is_shown() {
    let acts = [
        ResponseAction::status(200),
        ResponseAction::status(200),
        ResponseAction::status(401),
        ResponseAction::status(200),
    ];
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start(acts).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "sesame\n").unwrap();
    let id = alertmanager(
        &site,
        &receiver,
        &[("token-file", secret.path().to_str().unwrap())],
    )
    .await;
    let unwanted = Receiver::start([ResponseAction::status(200)]).await;
    alertmanager(&site, &unwanted, &[("send", "up")]).await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    site.deliveries(1).await;
    for round in 2..=4 {
        site.clock.advance_secs(61);
        let requests = receiver.wait_for(round).await;
        assert_eq!(
            requests[round - 1].header("authorization"),
            Some("Bearer sesame"),
            "{round}"
        );
        assert_eq!(
            fires(&site, &requests[round - 1]),
            [("Nightly backup".to_owned(), true)]
        );
        match round {
            3 => assert!(site.wait_for_failure(id).await.contains("401")),
            _ => {
                site.wait_until(|| site.channel_now(id).health.failing.is_none())
                    .await;
            }
        }
    }
    assert_eq!(
        unwanted.requests().len(),
        0,
        "a channel without alerts for downtimes"
    );
    // A secret that cannot be read counts as a failure too.
    drop(secret);
    site.clock.advance_secs(61);
    assert!(site.wait_for_failure(id).await.contains("token"));
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    reason = "one request must wait for another"
)]
async fn a_check_that_is_up_no_longer_fires() {
    const DOWN: u128 = 501;
    let slow = ResponseAction::Answer(Reply {
        status: 200,
        wait: Duration::from_secs(1),
        ..Reply::default()
    });
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    alertmanager(&site, &receiver, &[]).await;
    for uuid in 1..=DOWN {
        site.create_check(uuid, &format!("job-{uuid}")).await;
        site.ping(uuid, PingKind::Fail, "").await;
    }
    receiver.wait_for(DOWN as usize).await;
    site.wait_until(|| site.handle.with_state(|state| state.outbox.is_empty()))
        .await;
    // The last check is in the second request. It comes up while the first is in progress.
    receiver.act(slow);
    site.clock.advance_secs(61);
    receiver.wait_for(DOWN as usize + 1).await;
    let started = Instant::now();
    site.ping(DOWN, PingKind::Success, "").await;
    let requests = receiver.wait_for(DOWN as usize + 2).await;
    assert!(
        started.elapsed() > Duration::from_millis(800),
        "it might have overtaken the previous request"
    );
    let last = format!("job-{DOWN}");
    assert_eq!(fires(&site, &requests[DOWN as usize]).len(), 500);
    assert_eq!(
        fires(&site, &requests[DOWN as usize + 1]),
        [(last.clone(), false)]
    );
    site.wait_until(|| site.handle.with_state(|state| state.outbox.is_empty()))
        .await;
    // The next rounds do not include it.
    site.clock.advance_secs(61);
    let requests = receiver.wait_for(DOWN as usize + 3).await;
    assert!(
        fires(&site, &requests[DOWN as usize + 2])
            .iter()
            .all(|(name, fires)| *fires && *name != last)
    );
}

#[tokio::test]
async fn a_new_alert_does_not_wait_for_a_whole_round() {
    const DOWN: u128 = 1_001;
    let slow = ResponseAction::Answer(Reply {
        status: 200,
        wait: Duration::from_millis(500),
        ..Reply::default()
    });
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    alertmanager(&site, &receiver, &[]).await;
    for uuid in 1..=DOWN {
        site.create_check(uuid, &format!("job-{uuid}")).await;
        site.ping(uuid, PingKind::Fail, "").await;
    }
    let down = DOWN as usize;
    receiver.wait_for(down).await;
    site.wait_until(|| site.handle.with_state(|state| state.outbox.is_empty()))
        .await;
    receiver.act(slow);
    site.clock.advance_secs(61);
    receiver.wait_for(down + 1).await;
    site.create_check(DOWN + 1, "new").await;
    site.ping(DOWN + 1, PingKind::Fail, "").await;
    let requests = receiver.wait_for(down + 4).await;
    let sizes: Vec<_> = requests[down..]
        .iter()
        .map(|request| fires(&site, request).len())
        .collect();
    assert_eq!(sizes, [500, 1, 500, 1]);
    assert_eq!(
        fires(&site, &requests[down + 1]),
        [("new".to_owned(), true)]
    );
}

#[tokio::test]
async fn an_accepted_round_does_not_hide_a_refused_alert() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let id = alertmanager(&site, &receiver, &[]).await;
    site.create_check(7, "old").await;
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    site.wait_until(|| site.handle.with_state(|state| state.outbox.is_empty()))
        .await;
    receiver.act(ResponseAction::Answer(Reply {
        status: 503,
        headers: vec![("Retry-After", "3600".into())],
        ..Reply::default()
    }));
    site.create_check(8, "new").await;
    site.ping(8, PingKind::Fail, "").await;
    assert!(site.wait_for_failure(id).await.contains("503"));
    let failing = || site.channel_now(id).health.failing.clone();
    let before = failing();
    receiver.act(ResponseAction::status(200));
    for round in 3..5 {
        site.clock.advance_secs(61);
        let requests = receiver.wait_for(round).await;
        assert_eq!(
            fires(&site, &requests[round - 1]),
            [("old".to_owned(), true)]
        );
    }
    // The first of the two rounds has ended.
    assert_eq!(failing(), before);
    site.clock.advance_secs(3_600);
    site.wait_until(|| failing().is_none()).await;
}

#[tokio::test]
async fn channels_that_never_answer_leave_half_of_the_slots_to_other_projects() {
    let site = NotifierFixture::start().await;
    let other = Receiver::start([ResponseAction::status(200)]).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        let receiver = Receiver::start([ResponseAction::Silence]).await;
        for kind in ["webhook", "alertmanager"] {
            let key = if kind == "webhook" { "down-url" } else { "url" };
            for _ in 0..8 {
                site.create_channel(kind, &[(key, &receiver.url("/"))])
                    .await;
            }
        }
        silent.push(receiver);
    }
    site.execute(create_project(&Random::System, "Other", 100))
        .await;
    let settings = ChannelSettings::parse(
        channels::find_kind("webhook").unwrap(),
        [("down-url", other.url("/").as_str())],
    )
    .unwrap();
    let newest = |state: &overdue::engine::state::State| {
        state
            .projects()
            .map(|found| found.project.id)
            .max()
            .unwrap()
    };
    let project = site.handle.with_state(newest);
    let name = ChannelName::parse("other").unwrap();
    let uuid = site.handle.random().uuid();
    site.execute(Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project,
        name,
        settings,
        set_by_operator: true,
    })))
    .await;
    site.execute(create_check(
        project,
        8,
        CheckEdit {
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        },
    ))
    .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    // They use all slots of one project.
    let under_way = || {
        silent
            .iter()
            .map(|receiver| receiver.requests().len())
            .sum::<usize>()
    };
    site.wait_until(|| under_way() >= 32).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(under_way(), 32);
    site.ping(8, PingKind::Fail, "").await;
    tokio::time::timeout(Duration::from_secs(5), other.wait_for(1))
        .await
        .expect("the alert of the other project arrives");
}

/// Labels of the alerts in a request, each with whether it fires.
fn labels(
    site: &NotifierFixture,
    seen: &crate::support::receiver::ReceivedRequest,
) -> Vec<(serde_json::Value, bool)> {
    let alerts: Vec<serde_json::Value> = serde_json::from_str(seen.text()).unwrap();
    let labels = alerts.iter().map(|alert| alert["labels"].clone());
    labels
        .zip(fires(site, seen))
        .map(|(labels, (_, fires))| (labels, fires))
        .collect()
}

#[tokio::test]
async fn an_alert_ends_with_the_labels_that_it_fired_with() {
    for (is_renamed, end) in [
        (false, "delete"),
        (true, "delete"),
        (true, "pause"),
        (true, "up"),
    ] {
        let site = NotifierFixture::start().await;
        let receiver = Receiver::start([ResponseAction::status(200)]).await;
        alertmanager(&site, &receiver, &[]).await;
        let edit = |name: &str, slug: &str, tags: &str| {
            let name = Name::parse(name).ok();
            let slug = Slug::parse(slug).ok();
            let tags = Tags::parse(tags).ok();
            CheckEdit {
                name,
                slug,
                tags,
                channels: Some(ChannelSelection::All),
                ..CheckEdit::default()
            }
        };
        site.execute(create_check(
            MAIN,
            7,
            edit("Nightly backup", "nightly", "prod db"),
        ))
        .await;
        let id = site
            .handle
            .with_state(|state| state.checks().next().unwrap().id);
        site.ping(7, PingKind::Fail, "").await;
        let fired = labels(&site, &receiver.wait_for(1).await[0]);
        let (first, is_firing) = fired[0].clone();
        assert!(
            is_firing && first["slug"] == "nightly" && first["tag_db"] == "on",
            "{first}"
        );
        site.deliveries(1).await;
        if is_renamed {
            site.execute(Command::UpdateCheck(
                id,
                Box::new(edit("Hourly", "hourly", "test")),
            ))
            .await;
            site.clock.advance_secs(61);
            let resent = labels(&site, &receiver.wait_for(2).await[1]);
            assert_eq!(
                resent,
                [(first.clone(), true)],
                "it is still the same alert"
            );
        }
        match end {
            "delete" => _ = site.execute(Command::DeleteCheck(id)).await,
            "pause" => _ = site.execute(Command::PauseCheck(id, None)).await,
            _ => site.ping(7, PingKind::Success, "").await,
        }
        let ended = labels(
            &site,
            receiver
                .wait_for(2 + usize::from(is_renamed))
                .await
                .last()
                .unwrap(),
        );
        assert_eq!(ended, [(first, false)], "{is_renamed} {end}");
        site.deliveries(2).await;
        if end == "up" {
            // The next alert has the new names.
            site.ping(7, PingKind::Fail, "").await;
            let next = labels(&site, &receiver.wait_for(4).await[3]);
            assert!(
                next[0].0["check"] == "Hourly" && next[0].0["tag_db"].is_null(),
                "{next:?}"
            );
        }
        site.stop().await;
    }
}
