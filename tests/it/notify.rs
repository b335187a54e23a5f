//! From a flip to a receiver: real servers on loopback, an engine with a manual clock, and the
//! notifier between them.

mod commands;
mod long_outage;
mod mail_pings;
mod recipients;
mod reminders_and_notices;
mod resending;
mod summaries;

use std::sync::Arc;
use std::time::Duration;

use overdue::channels;
use overdue::domain::alert::{DeliveryRecord, DeliveryResult};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{ChannelId, DeliveryNumber, ProjectId, UniqueKey};
use overdue::domain::ping::PingKind;
use overdue::domain::project::{Channel, ChannelName};
use overdue::domain::text::{Keywords, Name};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::engine::command::{Command, CommandOutcome, NewChannel, Unavailable};
use overdue::engine::{ChannelTestResult, Handle};
use overdue::notifier;
use overdue::outbound::{MailFrom, MailRelay, MailServer, Outbound, OutboundConfig};
use overdue::store::Medium;
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::support::commands::{create_check, create_project, email_ping, ping};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::open;
use crate::support::mail_server::{MailScript, RecordingMailServer};
use crate::support::receiver::{Receiver, Reply, ResponseAction};

const MAIN: ProjectId = ProjectId(1);
/// Maximum time that a test waits for an event.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// An engine with a notifier. Both stop when this is dropped.
struct NotifierFixture {
    handle: Handle,
    clock: Arc<ManualClock>,
    stop: watch::Sender<bool>,
    ended: Option<oneshot::Receiver<()>>,
}

impl NotifierFixture {
    async fn start() -> Self {
        let site = Self::start_on(
            Medium::memory(),
            Timestamp::from_secs(1_800_000_000),
            |_| (),
        );
        site.execute(create_project(&Random::seeded(2), "Home", 100))
            .await;
        site
    }

    fn start_on(medium: Medium, now: Timestamp, change: impl FnOnce(&mut OutboundConfig)) -> Self {
        Self::start_with(medium, now, change, None)
    }

    fn start_with(
        medium: Medium,
        now: Timestamp,
        change: impl FnOnce(&mut OutboundConfig),
        heartbeat: Option<notifier::Heartbeat>,
    ) -> Self {
        let clock = ManualClock::at(now);
        let (handle, writer) = open(medium, &clock, |_| ()).unwrap();
        std::thread::spawn(|| writer.run());
        let (stop, stopped) = watch::channel(false);
        let mut outbound = OutboundConfig::default();
        change(&mut outbound);
        let config = notifier::NotifierConfig {
            outbound: Outbound::new(outbound, &Clock::System, Random::System).unwrap(),
            zone: Timezone::utc(),
            host: "overdue.test".into(),
            pages_url: Some("https://overdue.test/sub".into()),
            unsubscribe_links: Some(Box::new(|_, recipient| {
                Some(format!("https://overdue.test/unsubscribe/{recipient}"))
            })),
            heartbeat,
            last_round: Default::default(),
            render_check: Box::new(|check| {
                format!("{{\"name\": {:?}}}", check.settings.name.as_str())
            }),
        };
        let ended = Some(notifier::start(handle.clone(), config, stopped).unwrap());
        Self {
            handle,
            clock,
            stop,
            ended,
        }
    }

    async fn execute(&self, command: Command) -> CommandOutcome {
        self.handle.call(command).await.unwrap().unwrap()
    }

    async fn create_channel(&self, kind: &str, pairs: &[(&str, &str)]) -> ChannelId {
        self.create_channel_as(kind, pairs, true).await
    }

    async fn create_channel_as(
        &self,
        kind: &str,
        pairs: &[(&str, &str)],
        operator: bool,
    ) -> ChannelId {
        let settings =
            ChannelSettings::parse(channels::find_kind(kind).unwrap(), pairs.iter().copied())
                .unwrap();
        let uuid = self.handle.random().uuid();
        let name = ChannelName::parse(kind).unwrap();
        let channel = NewChannel {
            uuid,
            project: MAIN,
            name,
            settings,
            set_by_operator: operator,
        };
        match self
            .execute(Command::CreateChannel(Box::new(channel)))
            .await
        {
            CommandOutcome::Channel(channel) => channel.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Creates a check that notifies every channel.
    async fn create_check(&self, uuid: u128, name: &str) {
        let name = Some(Name::parse(name).unwrap());
        self.execute(create_check(
            MAIN,
            uuid,
            CheckEdit {
                name,
                channels: Some(ChannelSelection::All),
                ..CheckEdit::default()
            },
        ))
        .await;
    }

    /// Sends a ping. If the clock moves during a write, the disk appears to hang and all queued
    /// commands are refused, so this retries. A ping may arrive twice.
    async fn ping(&self, uuid: u128, kind: PingKind, body: &'static str) {
        while let Err(unavailable) = self
            .handle
            .call(ping(uuid, kind, body))
            .await
            .map(Result::unwrap)
        {
            assert_eq!(unavailable, Unavailable::StorageFailed);
        }
    }

    fn channel_now(&self, id: ChannelId) -> Arc<Channel> {
        self.handle
            .with_state(|state| Arc::clone(state.channel(id).unwrap()))
    }

    /// Waits for `count` finished deliveries and returns them, oldest first.
    async fn deliveries(&self, count: usize) -> Vec<DeliveryRecord> {
        let all = || {
            self.handle
                .deliveries(DeliveryNumber(u64::MAX), 10_000, |_| true)
                .unwrap()
        };
        self.wait_until(|| all().len() >= count).await;
        let mut found = all();
        found.reverse();
        found
    }

    async fn wait_until(&self, mut there: impl FnMut() -> bool) {
        let waiting = async {
            while !there() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, waiting)
            .await
            .expect("it comes in time");
    }

    /// Waits until the channel has failed, and until the failure is cleared.
    async fn wait_for_failure(&self, channel: ChannelId) -> String {
        self.wait_until(|| self.channel_now(channel).health.failing.is_some())
            .await;
        self.channel_now(channel)
            .health
            .failing
            .clone()
            .unwrap()
            .1
            .into()
    }

    /// Stops only the notifier.
    async fn stop_notifier(mut self) {
        self.stop.send_replace(true);
        self.ended.take().unwrap().await.unwrap();
    }

    async fn stop(mut self) {
        self.stop.send_replace(true);
        self.ended.take().unwrap().await.unwrap();
        self.handle.close();
    }
}

impl Drop for NotifierFixture {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.handle.close();
    }
}

fn webhook_settings(receiver: &Receiver) -> Vec<(&'static str, String)> {
    vec![
        ("down-url", receiver.url("/down/$NAME")),
        ("up-url", receiver.url("/up")),
        ("body", "$EVENT_JSON".to_owned()),
    ]
}

async fn webhook(site: &NotifierFixture, receiver: &Receiver) -> ChannelId {
    let pairs = webhook_settings(receiver);
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    site.create_channel("webhook", &pairs).await
}

#[tokio::test]
async fn a_failure_and_its_end_reach_a_webhook_in_order() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    webhook(&site, &receiver).await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "disk full").await;
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    let requests = receiver.wait_for(2).await;
    let events: Vec<_> = requests
        .iter()
        .map(|request| (request.method.as_str(), request.target.as_str()))
        .collect();
    assert_eq!(
        events,
        [("POST", "/down/Nightly%20backup"), ("POST", "/up")]
    );
    let event: serde_json::Value = serde_json::from_str(requests[0].text()).unwrap();
    assert_eq!(
        (
            &event["event"],
            &event["check"]["name"],
            &event["possible_duplicate"]
        ),
        (&"down".into(), &"Nightly backup".into(), &false.into())
    );
    let page = format!(
        "https://overdue.test/sub/cloaked/{}/",
        UniqueKey::of_check(Uuid::from_u128(7))
    );
    assert_eq!(event["link"], page);
    assert_eq!(requests[0].header("overdue-attempt"), Some("1"));
    assert_eq!(requests[0].header("overdue-possible-duplicate"), None);
    let deliveries = site.deliveries(2).await;
    let outcomes: Vec<_> = deliveries
        .iter()
        .map(|delivery| (delivery.result, delivery.status, delivery.attempts))
        .collect();
    assert_eq!(outcomes, [(DeliveryResult::Delivered, 200, 1); 2]);
    assert!(site.handle.with_state(|state| state.outbox.is_empty()));
    let id = format!("-{}", deliveries[0].number.0);
    assert!(
        requests[0]
            .header("idempotency-key")
            .unwrap()
            .ends_with(&id)
    );
    site.stop().await;
}

#[tokio::test]
async fn a_failed_delivery_is_retried_until_the_receiver_takes_it() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([
        ResponseAction::status(503),
        ResponseAction::Reset,
        ResponseAction::status(204),
    ])
    .await;
    let channel = webhook(&site, &receiver).await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    assert!(site.wait_for_failure(channel).await.contains("503"));
    // The pauses are about five and fifteen seconds.
    for (secs, count) in [(7, 2), (19, 3)] {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(receiver.requests().len(), count - 1);
        site.clock.advance_secs(secs);
        receiver.wait_for(count).await;
    }
    let deliveries = site.deliveries(1).await;
    assert_eq!(
        (deliveries[0].result, deliveries[0].attempts),
        (DeliveryResult::Delivered, 3)
    );
    let attempts: Vec<_> = receiver
        .requests()
        .iter()
        .map(|seen| seen.header("overdue-attempt").unwrap().to_owned())
        .collect();
    let marks: Vec<_> = receiver
        .requests()
        .iter()
        .map(|seen| seen.header("overdue-possible-duplicate").is_some())
        .collect();
    // The second request may have arrived, because it was sent completely.
    assert_eq!(
        (attempts, marks),
        (
            vec!["1".into(), "2".into(), "3".into()],
            vec![false, false, true]
        )
    );
    assert!(site.channel_now(channel).health.is_healthy());
}

#[tokio::test]
async fn a_receiver_that_is_gone_permanently_gets_no_further_alerts() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(410)]).await;
    let channel = webhook(&site, &receiver).await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_until(|| site.channel_now(channel).health.disabled.is_some())
        .await;
    site.ping(7, PingKind::Success, "").await;
    let deliveries = site.deliveries(2).await;
    assert_eq!(
        [deliveries[0].result, deliveries[1].result],
        [DeliveryResult::Failed, DeliveryResult::Skipped]
    );
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn a_dead_receiver_does_not_delay_other_receivers() {
    let site = NotifierFixture::start().await;
    let alive = Receiver::start([ResponseAction::status(200)]).await;
    let dead = Receiver::start([ResponseAction::Silence]).await;
    for _ in 0..3 {
        webhook(&site, &dead).await;
    }
    webhook(&site, &alive).await;
    for uuid in 1..=40 {
        site.create_check(uuid, "a").await;
    }
    for uuid in 1..=40 {
        site.ping(uuid, PingKind::Fail, "").await;
    }
    assert_eq!(alive.wait_for(40).await.len(), 40);
    assert!(
        dead.requests().len() <= 8,
        "{} requests to one host at once",
        dead.requests().len()
    );
}

#[tokio::test]
async fn a_message_that_a_crash_interrupted_is_sent_again_and_marked() {
    let disk = Disk::default();
    let silent = Receiver::start([ResponseAction::Silence, ResponseAction::status(200)]).await;
    let site =
        NotifierFixture::start_on(disk.medium(), Timestamp::from_secs(1_800_000_000), |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    webhook(&site, &silent).await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    silent.wait_for(1).await;
    // The results are lost: a new engine opens a copy of the disk.
    let copy = disk.copy();
    drop(site);
    let site =
        NotifierFixture::start_on(copy.medium(), Timestamp::from_secs(1_800_000_010), |_| ());
    let requests = silent.wait_for(2).await;
    assert_eq!(
        requests[1].header("overdue-possible-duplicate"),
        Some("true")
    );
    assert_eq!(
        requests[0].header("idempotency-key"),
        requests[1].header("idempotency-key")
    );
    assert_eq!(site.deliveries(1).await[0].attempts, 2);
}

#[tokio::test]
async fn many_alerts_at_once_are_one_message_to_people() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    site.create_channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")])
        .await;
    for uuid in 1..=30 {
        let name = Some(Name::parse(&format!("job {uuid}")).unwrap());
        let failure_kw = Some(Keywords::parse("ERR").unwrap());
        let edit = CheckEdit {
            name,
            failure_kw,
            filter_subject: Some(true),
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        site.execute(create_check(MAIN, uuid, edit)).await;
    }
    // One command queues a mail to all of them.
    site.execute(Command::Mail(
        (1..=30)
            .map(|uuid| email_ping(uuid, "ERR", None, ""))
            .collect(),
    ))
    .await;
    // More messages could arrive until the clock advances.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(receiver.requests().len(), 0);
    site.clock.advance_secs(1);
    let requests = receiver.wait_for(1).await;
    let message: serde_json::Value = serde_json::from_str(requests[0].text()).unwrap();
    assert!(
        message["title"].as_str().unwrap().contains("30 checks")
            && message["click"].as_str().unwrap().contains("/projects/"),
        "{message}"
    );
    assert_eq!(
        site.deliveries(30)
            .await
            .iter()
            .filter(|delivery| delivery.merged_into.is_some())
            .count(),
        29
    );
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn a_downtime_that_ends_before_its_alert_is_sent_is_one_message() {
    let site = NotifierFixture::start().await;
    let receiver =
        Receiver::start([ResponseAction::status(503), ResponseAction::status(200)]).await;
    let channel = site
        .create_channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")])
        .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_for_failure(channel).await;
    site.clock.advance_secs(3);
    site.ping(7, PingKind::Success, "").await;
    site.clock.advance_secs(10);
    let requests = receiver.wait_for(2).await;
    let text = requests[1].text();
    assert!(
        text.contains("up again") && text.contains("this could not be delivered earlier"),
        "{text}"
    );
    let outcomes: Vec<_> = site
        .deliveries(2)
        .await
        .iter()
        .map(|delivery| delivery.result)
        .collect();
    assert_eq!(
        outcomes,
        [DeliveryResult::Superseded, DeliveryResult::Delivered]
    );
}

#[tokio::test]
async fn a_message_that_may_have_opened_an_incident_is_followed_by_the_recovery() {
    // A gateway timed out after it had forwarded the request.
    let site = NotifierFixture::start().await;
    let receiver =
        Receiver::start([ResponseAction::status(504), ResponseAction::status(202)]).await;
    let channel = site
        .create_channel("victorops", &[("url", &receiver.url("/alert"))])
        .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_for_failure(channel).await;
    site.clock.advance_secs(3);
    site.ping(7, PingKind::Success, "").await;
    site.clock.advance_secs(10);
    receiver.wait_for(3).await;
    let outcomes: Vec<_> = site
        .deliveries(2)
        .await
        .iter()
        .map(|delivery| delivery.result)
        .collect();
    assert_eq!(outcomes, [DeliveryResult::Delivered; 2]);
}

#[tokio::test]
async fn a_channel_that_refuses_everything_fails_and_gets_its_alert_when_it_works_again() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([
        ResponseAction::status(400),
        ResponseAction::status(400),
        ResponseAction::status(200),
    ])
    .await;
    let channel = site
        .create_channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")])
        .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    // First with formatting, then as plain text.
    receiver.wait_for(2).await;
    assert!(site.wait_for_failure(channel).await.contains("400"));
    site.clock.advance_secs(7);
    receiver.wait_for(3).await;
    let deliveries = site.deliveries(1).await;
    assert_eq!(
        (deliveries[0].result, deliveries[0].attempts),
        (DeliveryResult::Delivered, 2)
    );
    site.wait_until(|| site.channel_now(channel).health.is_healthy())
        .await;
}

#[tokio::test]
async fn a_late_alert_shows_the_ping_that_caused_it() {
    let site = NotifierFixture::start().await;
    let receiver =
        Receiver::start([ResponseAction::status(503), ResponseAction::status(200)]).await;
    let channel = site
        .create_channel(
            "webhook",
            &[("down-url", &receiver.url("/")), ("body", "$BODY, $TEXT")],
        )
        .await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "disk full").await;
    site.wait_for_failure(channel).await;
    site.clock.advance_secs(1);
    for _ in 0..40 {
        site.ping(7, PingKind::Log, "note").await;
    }
    site.clock.advance_secs(6);
    let requests = receiver.wait_for(2).await;
    let text = requests[1].text();
    assert!(
        text.starts_with("disk full, ") && !text.contains("Last ping: none"),
        "{text}"
    );
}

#[tokio::test]
async fn a_mail_shows_the_event_and_the_output_of_the_job() {
    let server = RecordingMailServer::start(MailScript::default()).await;
    let site = NotifierFixture::start_on(
        Medium::memory(),
        Timestamp::from_secs(1_800_000_000),
        |config| {
            let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
            let url = format!("smtp+plain://{}", server.address);
            config.relay =
                Some(MailRelay::new(MailServer::parse(&url).unwrap(), None, from).unwrap());
        },
    );
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    site.create_channel("email", &[("to", "ann@example.org")])
        .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "no space left on device")
        .await;
    site.deliveries(1).await;
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    site.deliveries(2).await;
    for line in [
        "Subject: DOWN | Nightly backup",
        "Subject: UP | Nightly backup",
        "RCPT TO:<ann@example.org>",
        "In-Reply-To:",
        "Content-Type: text/html",
        "no space left",
    ] {
        assert!(
            server.count(line) > 0,
            "{line}: {:#?}",
            server.received_lines()
        );
    }
}

#[tokio::test]
async fn an_alert_names_the_other_checks_that_are_down() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    site.create_channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")])
        .await;
    for (uuid, name) in [(7, "Nightly backup"), (8, "db-dump"), (9, "Sync")] {
        site.create_check(uuid, name).await;
    }
    for (count, uuid) in [(1, 7), (2, 8)] {
        site.ping(uuid, PingKind::Fail, "").await;
        receiver.wait_for(count).await;
        site.deliveries(count).await;
        site.clock.advance_secs(60);
    }
    let requests = receiver.requests();
    let text = requests[1].text();
    assert!(
        text.contains("Nightly backup") && !text.contains("Sync"),
        "{text}"
    );
}

#[tokio::test]
async fn a_channel_made_through_the_api_does_not_reach_this_machine() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let channel = site
        .create_channel_as(
            "webhook",
            &[("down-url", &receiver.url("/secret-path"))],
            false,
        )
        .await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    let error = site.wait_for_failure(channel).await;
    assert!(
        error.contains("--outbound-allow") && !error.contains("secret-path"),
        "{error}"
    );
    assert_eq!(receiver.requests().len(), 0);
}

#[tokio::test]
async fn a_test_is_sent_at_once_and_logged() {
    let refused = Reply {
        status: 401,
        body: b"the token tk_hidden is wrong".to_vec(),
        ..Reply::default()
    };
    let site = NotifierFixture::start().await;
    let receiver =
        Receiver::start([ResponseAction::status(200), ResponseAction::Answer(refused)]).await;
    let channel = site
        .create_channel(
            "ntfy",
            &[
                ("url", &receiver.url("")),
                ("topic", "home"),
                ("token", "tk_hidden"),
            ],
        )
        .await;
    site.execute(Command::DisableChannel {
        channel,
        reason: "enough".into(),
    })
    .await;
    let ChannelTestResult { error, status, .. } = site
        .handle
        .request_channel_test(channel, false)
        .unwrap()
        .await
        .unwrap();
    assert_eq!((error, status), (None, 200));
    assert!(
        receiver.requests()[0].text().contains("test"),
        "{}",
        receiver.requests()[0].text()
    );
    site.wait_until(|| site.channel_now(channel).health.is_healthy())
        .await;
    let ChannelTestResult { error, status, .. } = site
        .handle
        .request_channel_test(channel, true)
        .unwrap()
        .await
        .unwrap();
    let error = error.unwrap();
    assert!(
        status == 401 && error.contains("401") && !error.contains("tk_hidden"),
        "{error}"
    );
    let outcomes: Vec<_> = site
        .deliveries(2)
        .await
        .iter()
        .map(|delivery| delivery.result)
        .collect();
    assert_eq!(
        outcomes,
        [DeliveryResult::Delivered, DeliveryResult::Failed]
    );
    assert_eq!(
        site.handle
            .request_channel_test(ChannelId(99), true)
            .unwrap()
            .await
            .ok(),
        None
    );
}

#[tokio::test]
async fn groups_and_channels_of_every_check_are_notified() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let url = receiver.url("/member");
    let member = site.create_channel("webhook", &[("down-url", &url)]).await;
    let uuid = site.channel_now(member).uuid.to_string();
    let group = site.create_channel("group", &[("channels", &uuid)]).await;
    site.create_channel(
        "webhook",
        &[("down-url", &receiver.url("/every")), ("every", "on")],
    )
    .await;
    let group = site.channel_now(group).uuid.to_string().into();
    let edit = CheckEdit {
        channels: Some(ChannelSelection::Listed(vec![group])),
        ..CheckEdit::default()
    };
    site.execute(create_check(MAIN, 7, edit)).await;
    site.ping(7, PingKind::Fail, "").await;
    let mut bodies: Vec<_> = receiver
        .wait_for(2)
        .await
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    bodies.sort();
    assert_eq!(
        (bodies, site.deliveries(2).await.len()),
        (vec!["/every".to_owned(), "/member".to_owned()], 2)
    );
    assert_ne!(Uuid::nil(), site.channel_now(member).uuid);
}
