//! From a flip to a receiver: real servers on loopback, an engine whose clock is moved by hand, and the notifier between them.

mod commands;
mod long;
mod mailed;
mod recipients;
mod resending;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use overdue::clock::{Clock, ManualClock};
use overdue::domain::alert::{Delivery, DeliveryOutcome};
use overdue::domain::channel::{ChannelKind, ChannelSettings};
use overdue::domain::edit::{ChannelChoice, Edit};
use overdue::domain::ids::{ChannelId, DeliveryNumber, ProjectId, UniqueKey};
use overdue::domain::moment::Moment;
use overdue::domain::ping::Kind;
use overdue::domain::project::{Channel, ChannelName};
use overdue::domain::text::{Keywords, Name};
use overdue::domain::timezone::Timezone;
use overdue::engine::command::{Command, NewChannel, Outcome, Unavailable};
use overdue::engine::{Handle, Tried};
use overdue::notify;
use overdue::outbound::{MailFrom, MailServer, Outbound, OutboundConfig, Relay};
use overdue::random::Random;
use overdue::store::Medium;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::support::build::{create_check, create_project, email, ping};
use crate::support::disk::{Disk, Operation};
use crate::support::engine::open;
use crate::support::mail_server::{MailReceiver, MailScript};
use crate::support::receiver::{Act, Receiver, Reply};

const MAIN: ProjectId = ProjectId(1);
/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine with a notifier, which stop when this is dropped.
struct Site {
    handle: Handle,
    clock: Arc<ManualClock>,
    stop: watch::Sender<bool>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Site {
    async fn start() -> Self {
        let site = Self::start_on(Medium::memory(), Moment::from_secs(1_800_000_000), |_| ());
        site.done(create_project(&Random::seeded(2), "Home", 100)).await;
        site
    }

    fn start_on(medium: Medium, now: Moment, change: impl FnOnce(&mut OutboundConfig)) -> Self {
        Self::start_with(medium, now, change, None)
    }

    fn start_with(medium: Medium, now: Moment, change: impl FnOnce(&mut OutboundConfig), heartbeat: Option<notify::Heartbeat>) -> Self {
        let clock = ManualClock::at(now);
        let (handle, writer) = open(medium, &clock, |_| ()).unwrap();
        std::thread::spawn(|| writer.run());
        let (stop, stopped) = watch::channel(false);
        let mut outbound = OutboundConfig::default();
        change(&mut outbound);
        let config = notify::Config {
            outbound: Outbound::new(outbound, &Clock::System, Random::System).unwrap(),
            zone: Timezone::utc(),
            host: "overdue.test".into(),
            pages: Some("https://overdue.test/sub".into()),
            unsubscribe: Some(Box::new(|_, recipient| Some(format!("https://overdue.test/unsubscribe/{recipient}")))),
            heartbeat,
            last_round: Default::default(),
            show: Box::new(|check| format!("{{\"name\": {:?}}}", check.settings.name.as_str())),
        };
        let ended = Some(notify::start(handle.clone(), config, stopped).unwrap());
        Self { handle, clock, stop, ended }
    }

    async fn done(&self, command: Command) -> Outcome {
        self.handle.call(command).await.unwrap().unwrap()
    }

    async fn channel(&self, kind: &str, pairs: &[(&str, &str)]) -> ChannelId {
        self.channel_of(kind, pairs, true).await
    }

    async fn channel_of(&self, kind: &str, pairs: &[(&str, &str)], operator: bool) -> ChannelId {
        let settings = ChannelSettings::parse(ChannelKind::named(kind).unwrap(), pairs.iter().copied()).unwrap();
        let (uuid, name) = (self.handle.random().uuid(), ChannelName::parse(kind).unwrap());
        let channel = NewChannel { uuid, project: MAIN, name, settings, operator };
        match self.done(Command::CreateChannel(Box::new(channel))).await {
            Outcome::Channel(channel) => channel.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// A check that all channels are told of.
    async fn check(&self, uuid: u128, name: &str) {
        let name = Some(Name::parse(name).unwrap());
        self.done(create_check(MAIN, uuid, Edit { name, channels: Some(ChannelChoice::All), ..Edit::default() })).await;
    }

    /// If the clock is moved while something is written, that looks like a disk that hangs, and all that waits is refused. A ping may come
    /// twice.
    async fn ping(&self, uuid: u128, kind: Kind, body: &'static str) {
        while let Err(unavailable) = self.handle.call(ping(uuid, kind, body)).await.map(Result::unwrap) {
            assert_eq!(unavailable, Unavailable::Storage);
        }
    }

    fn channel_now(&self, id: ChannelId) -> Arc<Channel> {
        self.handle.with_state(|state| Arc::clone(state.channel(id).unwrap()))
    }

    /// What has become of what was to be told, oldest first, once it is so many.
    async fn deliveries(&self, count: usize) -> Vec<Delivery> {
        let all = || self.handle.deliveries(DeliveryNumber(u64::MAX), 10_000, |_| true).unwrap();
        self.until(|| all().len() >= count).await;
        let mut found = all();
        found.reverse();
        found
    }

    async fn until(&self, mut there: impl FnMut() -> bool) {
        let waiting = async {
            while !there() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("it comes in time");
    }

    /// Waits until the channel has failed, and until that is forgotten.
    async fn failed(&self, channel: ChannelId) -> String {
        self.until(|| self.channel_now(channel).health.failing.is_some()).await;
        self.channel_now(channel).health.failing.clone().unwrap().1.into()
    }

    /// Stops the notifier alone.
    async fn stop_but_write(mut self) {
        self.stop.send_replace(true);
        self.ended.take().unwrap().await.unwrap();
    }

    async fn stop(mut self) {
        self.stop.send_replace(true);
        self.ended.take().unwrap().await.unwrap();
        self.handle.close();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.handle.close();
    }
}

fn hook(receiver: &Receiver) -> Vec<(&'static str, String)> {
    vec![("down-url", receiver.url("/down/$NAME")), ("up-url", receiver.url("/up")), ("body", "$EVENT_JSON".to_owned())]
}

async fn webhook(site: &Site, receiver: &Receiver) -> ChannelId {
    let pairs = hook(receiver);
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
    site.channel("webhook", &pairs).await
}

#[tokio::test]
async fn a_failure_and_its_end_reach_a_webhook_in_order() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(200)]).await);
    webhook(&site, &receiver).await;
    site.check(7, "Nightly backup").await;
    site.ping(7, Kind::Fail, "disk full").await;
    site.clock.advance_secs(60);
    site.ping(7, Kind::Success, "").await;
    let seen = receiver.wait_for(2).await;
    let told: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.target.as_str())).collect();
    assert_eq!(told, [("POST", "/down/Nightly%20backup"), ("POST", "/up")]);
    let event: serde_json::Value = serde_json::from_str(seen[0].text()).unwrap();
    assert_eq!(
        (&event["event"], &event["check"]["name"], &event["possible_duplicate"]),
        (&"down".into(), &"Nightly backup".into(), &false.into())
    );
    let page = format!("https://overdue.test/sub/cloaked/{}/", UniqueKey::of(Uuid::from_u128(7)));
    assert_eq!(event["link"], page);
    assert_eq!(seen[0].header("overdue-attempt"), Some("1"));
    assert_eq!(seen[0].header("overdue-possible-duplicate"), None);
    let deliveries = site.deliveries(2).await;
    let outcomes: Vec<_> = deliveries.iter().map(|delivery| (delivery.outcome, delivery.status, delivery.attempts)).collect();
    assert_eq!(outcomes, [(DeliveryOutcome::Delivered, 200, 1); 2]);
    assert!(site.handle.with_state(|state| state.outbox.is_empty()));
    let id = format!("-{}", deliveries[0].number.0);
    assert!(seen[0].header("idempotency-key").unwrap().ends_with(&id));
    site.stop().await;
}

#[tokio::test]
async fn a_receiver_that_fails_is_tried_again_until_it_takes_it() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(503), Act::Reset, Act::status(204)]).await);
    let channel = webhook(&site, &receiver).await;
    site.check(7, "a").await;
    site.ping(7, Kind::Fail, "").await;
    receiver.wait_for(1).await;
    assert!(site.failed(channel).await.contains("503"));
    // Five seconds or so, then fifteen.
    for (secs, count) in [(7, 2), (19, 3)] {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(receiver.seen().len(), count - 1);
        site.clock.advance_secs(secs);
        receiver.wait_for(count).await;
    }
    let deliveries = site.deliveries(1).await;
    assert_eq!((deliveries[0].outcome, deliveries[0].attempts), (DeliveryOutcome::Delivered, 3));
    let attempts: Vec<_> = receiver.seen().iter().map(|seen| seen.header("overdue-attempt").unwrap().to_owned()).collect();
    let marks: Vec<_> = receiver.seen().iter().map(|seen| seen.header("overdue-possible-duplicate").is_some()).collect();
    // The second may have arrived: it had gone out whole.
    assert_eq!((attempts, marks), (vec!["1".into(), "2".into(), "3".into()], vec![false, false, true]));
    assert!(site.channel_now(channel).health.is_well());
}

#[tokio::test]
async fn a_receiver_that_is_gone_for_good_is_told_nothing_more() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(410)]).await);
    let channel = webhook(&site, &receiver).await;
    site.check(7, "a").await;
    site.ping(7, Kind::Fail, "").await;
    site.until(|| site.channel_now(channel).health.disabled.is_some()).await;
    site.ping(7, Kind::Success, "").await;
    let deliveries = site.deliveries(2).await;
    assert_eq!([deliveries[0].outcome, deliveries[1].outcome], [DeliveryOutcome::Failed, DeliveryOutcome::Skipped]);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_dead_receiver_keeps_nobody_else_waiting() {
    let (site, alive) = (Site::start().await, Receiver::start([Act::status(200)]).await);
    let dead = Receiver::start([Act::Silence]).await;
    for _ in 0..3 {
        webhook(&site, &dead).await;
    }
    webhook(&site, &alive).await;
    for uuid in 1..=40 {
        site.check(uuid, "a").await;
    }
    for uuid in 1..=40 {
        site.ping(uuid, Kind::Fail, "").await;
    }
    assert_eq!(alive.wait_for(40).await.len(), 40);
    assert!(dead.seen().len() <= 8, "{} requests to one host at once", dead.seen().len());
}

#[tokio::test]
async fn what_was_under_way_when_the_process_ended_is_sent_again_and_says_so() {
    let disk = Disk::default();
    let silent = Receiver::start([Act::Silence, Act::status(200)]).await;
    let site = Site::start_on(disk.medium(), Moment::from_secs(1_800_000_000), |_| ());
    site.done(create_project(&Random::seeded(2), "Home", 100)).await;
    webhook(&site, &silent).await;
    site.check(7, "a").await;
    site.ping(7, Kind::Fail, "").await;
    silent.wait_for(1).await;
    // Nobody reports any more: the disk of this process is what another one opens.
    let copy = disk.copy();
    drop(site);
    let site = Site::start_on(copy.medium(), Moment::from_secs(1_800_000_010), |_| ());
    let seen = silent.wait_for(2).await;
    assert_eq!(seen[1].header("overdue-possible-duplicate"), Some("true"));
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
    assert_eq!(site.deliveries(1).await[0].attempts, 2);
}

#[tokio::test]
async fn many_at_once_are_one_message_to_people() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(200)]).await);
    site.channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")]).await;
    for uuid in 1..=30 {
        let name = Some(Name::parse(&format!("job {uuid}")).unwrap());
        let failure_kw = Some(Keywords::parse("ERR").unwrap());
        let edit = Edit { name, failure_kw, filter_subject: Some(true), channels: Some(ChannelChoice::All), ..Edit::default() };
        site.done(create_check(MAIN, uuid, edit)).await;
    }
    // One mail to all of them is one command.
    site.done(Command::Mail((1..=30).map(|uuid| email(uuid, "ERR", None, "")).collect())).await;
    // The rest of them could still come, until the clock says otherwise.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(receiver.seen().len(), 0);
    site.clock.advance_secs(1);
    let seen = receiver.wait_for(1).await;
    let message: serde_json::Value = serde_json::from_str(seen[0].text()).unwrap();
    assert!(message["title"].as_str().unwrap().contains("30 checks"), "{message}");
    assert_eq!(site.deliveries(30).await.iter().filter(|delivery| delivery.told_with.is_some()).count(), 29);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_downtime_that_is_over_before_anyone_could_be_told_is_one_message() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(503), Act::status(200)]).await);
    let channel = site.channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")]).await;
    site.check(7, "Nightly backup").await;
    site.ping(7, Kind::Fail, "").await;
    site.failed(channel).await;
    site.clock.advance_secs(3);
    site.ping(7, Kind::Success, "").await;
    site.clock.advance_secs(10);
    let seen = receiver.wait_for(2).await;
    let text = seen[1].text();
    assert!(text.contains("up again") && text.contains("this could not be delivered earlier"), "{text}");
    let outcomes: Vec<_> = site.deliveries(2).await.iter().map(|delivery| delivery.outcome).collect();
    assert_eq!(outcomes, [DeliveryOutcome::Superseded, DeliveryOutcome::Delivered]);
}

#[tokio::test]
async fn what_may_have_opened_an_incident_is_told_that_it_is_over() {
    // A gateway gave up waiting for what it had passed on.
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(504), Act::status(202)]).await);
    let channel = site.channel("victorops", &[("url", &receiver.url("/alert"))]).await;
    site.check(7, "Nightly backup").await;
    site.ping(7, Kind::Fail, "").await;
    site.failed(channel).await;
    site.clock.advance_secs(3);
    site.ping(7, Kind::Success, "").await;
    site.clock.advance_secs(10);
    receiver.wait_for(3).await;
    let outcomes: Vec<_> = site.deliveries(2).await.iter().map(|delivery| delivery.outcome).collect();
    assert_eq!(outcomes, [DeliveryOutcome::Delivered; 2]);
}

#[tokio::test]
async fn a_channel_that_refuses_everything_fails_and_gets_its_alert_when_it_works_again() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(400), Act::status(400), Act::status(200)]).await);
    let channel = site.channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")]).await;
    site.check(7, "Nightly backup").await;
    site.ping(7, Kind::Fail, "").await;
    // As it is, and in its plainest form.
    receiver.wait_for(2).await;
    assert!(site.failed(channel).await.contains("400"));
    site.clock.advance_secs(7);
    receiver.wait_for(3).await;
    let deliveries = site.deliveries(1).await;
    assert_eq!((deliveries[0].outcome, deliveries[0].attempts), (DeliveryOutcome::Delivered, 2));
    site.until(|| site.channel_now(channel).health.is_well()).await;
}

#[tokio::test]
async fn an_alert_that_comes_late_tells_of_the_ping_that_caused_it() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(503), Act::status(200)]).await);
    let channel = site.channel("webhook", &[("down-url", &receiver.url("/")), ("body", "$BODY, $TEXT")]).await;
    site.check(7, "a").await;
    site.ping(7, Kind::Fail, "disk full").await;
    site.failed(channel).await;
    site.clock.advance_secs(1);
    for _ in 0..40 {
        site.ping(7, Kind::Log, "note").await;
    }
    site.clock.advance_secs(6);
    let seen = receiver.wait_for(2).await;
    let text = seen[1].text();
    assert!(text.starts_with("disk full, ") && !text.contains("Last ping: none"), "{text}");
}

#[tokio::test]
async fn a_mail_says_what_happened_and_what_the_job_sent() {
    let server = MailReceiver::start(MailScript::default()).await;
    let site = Site::start_on(Medium::memory(), Moment::from_secs(1_800_000_000), |config| {
        let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
        let url = format!("smtp+plain://{}", server.address);
        config.relay = Some(Relay::new(MailServer::parse(&url).unwrap(), None, from).unwrap());
    });
    site.done(create_project(&Random::seeded(2), "Home", 100)).await;
    site.channel("email", &[("to", "ann@example.org")]).await;
    site.check(7, "Nightly backup").await;
    site.ping(7, Kind::Fail, "no space left on device").await;
    site.deliveries(1).await;
    site.clock.advance_secs(60);
    site.ping(7, Kind::Success, "").await;
    site.deliveries(2).await;
    for line in
        ["Subject: DOWN | Nightly backup", "Subject: UP | Nightly backup", "RCPT TO:<ann@example.org>", "In-Reply-To:", "no space left"]
    {
        assert!(server.count(line) > 0, "{line}: {:#?}", server.seen());
    }
}

#[tokio::test]
async fn a_channel_made_through_the_api_does_not_reach_this_machine() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(200)]).await);
    let channel = site.channel_of("webhook", &[("down-url", &receiver.url("/secret-path"))], false).await;
    site.check(7, "a").await;
    site.ping(7, Kind::Fail, "").await;
    let error = site.failed(channel).await;
    assert!(error.contains("--outbound-allow") && !error.contains("secret-path"), "{error}");
    assert_eq!(receiver.seen().len(), 0);
}

#[tokio::test]
async fn a_test_is_sent_at_once_and_logged() {
    let refused = Reply { status: 401, body: b"the token tk_hidden is wrong".to_vec(), ..Reply::default() };
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(200), Act::Answer(refused)]).await);
    let channel = site.channel("ntfy", &[("url", &receiver.url("")), ("topic", "home"), ("token", "tk_hidden")]).await;
    site.done(Command::DisableChannel { channel, reason: "enough".into() }).await;
    let Tried { failed, status, .. } = site.handle.try_channel(channel, false).unwrap().await.unwrap();
    assert_eq!((failed, status), (None, 200));
    assert!(receiver.seen()[0].text().contains("test"), "{}", receiver.seen()[0].text());
    site.until(|| site.channel_now(channel).health.is_well()).await;
    let Tried { failed, status, .. } = site.handle.try_channel(channel, true).unwrap().await.unwrap();
    let failed = failed.unwrap();
    assert!(status == 401 && failed.contains("401") && !failed.contains("tk_hidden"), "{failed}");
    let outcomes: Vec<_> = site.deliveries(2).await.iter().map(|delivery| delivery.outcome).collect();
    assert_eq!(outcomes, [DeliveryOutcome::Delivered, DeliveryOutcome::Failed]);
    assert_eq!(site.handle.try_channel(ChannelId(99), true).unwrap().await.ok(), None);
}

#[tokio::test]
async fn groups_and_channels_for_every_check_are_told() {
    let (site, receiver) = (Site::start().await, Receiver::start([Act::status(200)]).await);
    let url = receiver.url("/member");
    let member = site.channel("webhook", &[("down-url", &url)]).await;
    let uuid = site.channel_now(member).uuid.to_string();
    let group = site.channel("group", &[("channels", &uuid)]).await;
    site.channel("webhook", &[("down-url", &receiver.url("/every")), ("every", "on")]).await;
    let group = site.channel_now(group).uuid.to_string().into();
    let edit = Edit { channels: Some(ChannelChoice::Listed(vec![group])), ..Edit::default() };
    site.done(create_check(MAIN, 7, edit)).await;
    site.ping(7, Kind::Fail, "").await;
    let mut told: Vec<_> = receiver.wait_for(2).await.into_iter().map(|seen| seen.target).collect();
    told.sort();
    assert_eq!((told, site.deliveries(2).await.len()), (vec!["/every".to_owned(), "/member".to_owned()], 2));
    assert_ne!(Uuid::nil(), site.channel_now(member).uuid);
}
