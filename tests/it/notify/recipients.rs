//! Mails to several recipients: each gets a mail, and a recipient who is refused or unsubscribes
//! does not affect the others.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use overdue::domain::alert::DeliveryProof;
use overdue::domain::channel::{SettingsAuthor, SettingsUpdate};
use overdue::operations::channel::ChannelStatus;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::*;

const TO: &str = "ann@example.org,bob@example.org,eve@example.org";

async fn site(
    replies: &[(&'static str, &'static str, usize)],
) -> (NotifierFixture, RecordingMailServer) {
    let server = RecordingMailServer::start(MailScript {
        replies: replies.to_vec(),
        ..MailScript::default()
    })
    .await;
    (site_with_relay(server.address).await, server)
}

async fn site_with_relay(address: SocketAddr) -> NotifierFixture {
    let site = NotifierFixture::start_on(
        Medium::memory(),
        Timestamp::from_secs(1_800_000_000),
        |config| {
            let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
            config.relay = Some(
                MailRelay::new(
                    MailServer::parse(&format!("smtp+plain://{address}")).unwrap(),
                    None,
                    from,
                )
                .unwrap(),
            );
        },
    );
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    site
}

/// Values of a header in the accepted mails, by recipient, in order.
fn headers(server: &RecordingMailServer, name: &str) -> BTreeMap<String, Vec<String>> {
    let mut to = String::new();
    let mut found = BTreeMap::<_, Vec<_>>::new();
    let mut is_body = false;
    for line in server.received_lines() {
        if let Some(address) = line.strip_prefix("RCPT TO:<") {
            to = address.trim_end_matches('>').to_owned();
        }
        is_body = (is_body || line == "DATA") && line != ".";
        if let Some(value) = line.strip_prefix(name).filter(|_| is_body) {
            found
                .entry(to.clone())
                .or_default()
                .push(value.trim().to_owned());
        }
    }
    found
}

#[tokio::test]
async fn a_temporarily_refused_recipient_is_retried_alone() {
    let (site, server) = site(&[
        ("RCPT TO:<bob", "450 greylisted, come back later", 1),
        ("RCPT TO:<eve", "550 no such user", usize::MAX),
    ])
    .await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_until(|| server.count("RCPT TO:<eve") == 1).await;
    // The other mail continues meanwhile.
    site.wait_until(|| server.count("DATA") == 1).await;
    let row = || {
        site.handle.with_state(|state| {
            state
                .outbox
                .rows()
                .next()
                .map(|row| (row.attempts, row.attempt_started))
        })
    };
    site.wait_until(|| row() == Some((1, None))).await;
    assert!(
        site.channel_now(channel).health.failing.is_none(),
        "it is not the channel that fails"
    );
    site.clock.advance_secs(10);
    let delivery = site.deliveries(1).await.remove(0);
    assert_eq!(delivery.result, DeliveryResult::Delivered);
    assert_eq!(
        &*delivery.reason,
        "not taken for eve@example.org: the mail server said 550: no such user"
    );
    let tries = ["ann", "bob", "eve"].map(|name| server.count(&format!("RCPT TO:<{name}")));
    assert_eq!((tries, server.count("DATA")), ([1, 2, 1], 2));
    // Each recipient has a mail, a thread and a link of its own.
    let recipients = headers(&server, "To:");
    let ids = headers(&server, "Message-ID:");
    let links = headers(&server, "List-Unsubscribe:");
    for name in ["ann@example.org", "bob@example.org"] {
        assert_eq!(recipients[name], [format!("<{name}>")]);
        assert_eq!(
            links[name],
            [format!("<https://overdue.test/unsubscribe/{name}>")]
        );
    }
    assert_ne!(ids["ann@example.org"], ids["bob@example.org"]);
    assert!(
        server.count("RCPT") == 4
            && !server
                .received_lines()
                .iter()
                .any(|line| line.contains("This may be a repeat")),
        "{:?}",
        server.received_lines()
    );
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    // The whole mails, not their commands: their headers are read next.
    let accepted = || {
        server
            .received_lines()
            .iter()
            .filter(|line| *line == ".")
            .count()
    };
    site.wait_until(|| accepted() == 4).await;
    let answers = headers(&server, "In-Reply-To:");
    assert_eq!(
        [&answers["ann@example.org"], &answers["bob@example.org"]],
        [&ids["ann@example.org"], &ids["bob@example.org"]]
    );
}

#[tokio::test]
async fn a_recovery_is_no_reply_to_a_mail_about_several_checks() {
    let (site, server) = site(&[]).await;
    site.create_channel("email", &[("to", "ann@example.org")])
        .await;
    let failure_kw = Some(Keywords::parse("ERR").unwrap());
    for uuid in 1..=30 {
        let edit = CheckEdit {
            failure_kw: failure_kw.clone(),
            filter_subject: Some(true),
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        site.execute(create_check(MAIN, uuid, edit)).await;
    }
    let mails = (1..=30).map(|uuid| email_ping(uuid, "ERR", None, ""));
    site.execute(Command::Mail(mails.collect())).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    site.clock.advance_secs(1);
    site.deliveries(30).await;
    site.clock.advance_secs(60);
    site.ping(1, PingKind::Success, "").await;
    site.deliveries(31).await;
    let ids = &headers(&server, "Message-ID:")["ann@example.org"];
    let answers = &headers(&server, "In-Reply-To:")["ann@example.org"];
    assert_eq!((ids.len(), answers.len()), (2, 1));
    assert!(!ids.contains(&answers[0]), "{ids:?} {answers:?}");
}

#[tokio::test]
async fn a_refusal_that_comes_before_the_recipient_is_not_about_the_recipient() {
    let (site, server) = site(&[
        ("RCPT TO:<bob", "450 later", 1),
        ("RCPT TO:<eve", "450 later", 1),
    ])
    .await;
    site.create_channel("email", &[("to", TO)]).await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    let attempts = || {
        site.handle.with_state(|state| {
            state
                .outbox
                .rows()
                .next()
                .map(|row| (row.attempts, row.attempt_started))
        })
    };
    site.wait_until(|| attempts() == Some((1, None))).await;
    server.reply_once("MAIL FROM", "550 quota exceeded");
    site.clock.advance_secs(10);
    site.wait_until(|| attempts() == Some((2, None))).await;
    site.clock.advance_secs(60);
    let delivery = site.deliveries(1).await.remove(0);
    assert_eq!(
        (delivery.result, &*delivery.reason),
        (DeliveryResult::Delivered, "")
    );
    assert_eq!((server.count("RCPT TO:<ann"), server.count("DATA")), (1, 3));
}

#[tokio::test]
async fn the_last_recipient_gets_nothing_twice() {
    let (site, server) = site(&[
        ("RCPT TO:<bob", "450 later", usize::MAX),
        ("RCPT TO:<eve", "450 later", usize::MAX),
    ])
    .await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    let attempts = || {
        site.handle.with_state(|state| {
            state
                .outbox
                .rows()
                .next()
                .map(|row| (row.attempts, row.attempt_started))
        })
    };
    site.wait_until(|| attempts() == Some((1, None))).await;
    for name in ["bob", "eve"] {
        site.execute(Command::Unsubscribe {
            channel,
            recipient: format!("{name}@example.org").into(),
        })
        .await;
    }
    site.clock.advance_secs(10);
    assert_eq!(
        site.deliveries(1).await.remove(0).result,
        DeliveryResult::Delivered
    );
    assert_eq!(server.count("RCPT TO:<ann"), 1);
}

#[tokio::test]
async fn a_test_names_each_recipient_that_was_refused() {
    let (site, _server) = site(&[
        ("RCPT TO:<eve", "550 no such user", usize::MAX),
        ("RCPT TO:<bob", "452 full", 1),
    ])
    .await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    let ChannelTestResult { error, missed, .. } = site
        .handle
        .request_channel_test(channel, false)
        .unwrap()
        .await
        .unwrap();
    let refused = "delivered to 1 of 3; not taken for bob@example.org: the mail server said 452: \
                   full; eve@example.org: the mail server said 550: no such user";
    assert_eq!((error, missed.as_deref()), (None, Some(refused)));
    let delivery = site.deliveries(1).await.remove(0);
    assert_eq!(
        (delivery.result, &*delivery.reason),
        (DeliveryResult::Delivered, refused)
    );
    // Only permanent refusals are stored.
    let health = site.channel_now(channel).health.clone();
    assert_eq!(
        (health.proof, refused_recipients(&site, channel)),
        (DeliveryProof::Delivered, vec!["eve@example.org".to_owned()])
    );
    site.execute(Command::Unsubscribe {
        channel,
        recipient: "ann@example.org".into(),
    })
    .await;
    site.execute(Command::Unsubscribe {
        channel,
        recipient: "bob@example.org".into(),
    })
    .await;
    let ChannelTestResult { error, missed, .. } = site
        .handle
        .request_channel_test(channel, false)
        .unwrap()
        .await
        .unwrap();
    assert_eq!(
        (error.as_deref(), missed),
        (Some("the mail server said 550: no such user"), None)
    );
}

/// Recipients that are refused.
fn refused_recipients(site: &NotifierFixture, channel: ChannelId) -> Vec<String> {
    site.channel_now(channel)
        .health
        .refused
        .iter()
        .map(|refused| refused.address.to_string())
        .collect()
}

#[tokio::test]
async fn a_refused_recipient_is_shown_reported_after_an_hour_and_not_sent_the_end() {
    let (site, server) = site(&[("RCPT TO:<eve", "550 no such user", 1)]).await;
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &phone.url("")),
            ("topic", "home"),
            ("notices", "on"),
            ("send", "up"),
            ("every", "on"),
        ],
    )
    .await;
    site.create_check(7, "backup").await;
    let tries = || ["ann", "bob", "eve"].map(|name| server.count(&format!("RCPT TO:<{name}")));
    site.ping(7, PingKind::Fail, "").await;
    site.wait_until(|| refused_recipients(&site, channel) == ["eve@example.org"])
        .await;
    let shown = site
        .handle
        .with_state(|state| ChannelStatus::compute(state, state.channel(channel).unwrap(), None));
    assert_eq!(shown, ChannelStatus::Ok);
    assert_eq!(tries(), [1, 1, 1]);
    // The first notice is sent after an hour, not earlier.
    site.clock.advance_secs(16);
    site.clock.advance_secs(3601);
    let message: serde_json::Value =
        serde_json::from_str(phone.wait_for(1).await[0].text()).unwrap();
    assert_eq!(
        message["title"],
        "Channel email does not reach all of its recipients"
    );
    let text = "The last mail to eve@example.org was refused; the first refusal was 1 hour ago. \
                Last error: the mail server said 550.";
    // Notices contain no text of a receiver.
    assert!(
        message["message"].as_str().unwrap().contains(text),
        "{message}"
    );
    // She was not notified of the downtime, so she is not notified of its end.
    let mails_to_all = || {
        let is_mail = |delivery: &DeliveryRecord| delivery.channel == channel;
        site.handle
            .deliveries(DeliveryNumber(u64::MAX), 10, is_mail)
            .unwrap()
            .len()
    };
    site.ping(7, PingKind::Success, "").await;
    site.wait_until(|| mails_to_all() == 2).await;
    assert_eq!(tries(), [2, 2, 1]);
    phone.wait_for(2).await;
    assert_eq!(refused_recipients(&site, channel), ["eve@example.org"]);
    // The next downtime is tried, and its end is sent to every recipient that took it.
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Fail, "").await;
    site.wait_until(|| refused_recipients(&site, channel).is_empty())
        .await;
    assert_eq!(tries(), [3, 3, 2]);
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    site.wait_until(|| mails_to_all() == 4).await;
    assert_eq!(tries(), [4, 4, 3]);
}

#[tokio::test]
async fn a_retry_for_one_recipient_keeps_later_results_of_the_others() {
    for is_refused_first in [true, false] {
        let (site, server) = site(&[("RCPT TO:<bob", "452 full", 2)]).await;
        let channel = site.create_channel("email", &[("to", TO)]).await;
        for (uuid, name) in [(7, "backup"), (8, "dump")] {
            site.create_check(uuid, name).await;
        }
        if is_refused_first {
            server.reply_once("RCPT TO:<eve", "550 mailbox full");
        }
        site.ping(7, PingKind::Fail, "").await;
        let row = || {
            site.handle.with_state(|state| {
                state
                    .outbox
                    .rows()
                    .next()
                    .map(|row| (row.attempts, row.attempt_started))
            })
        };
        site.wait_until(|| row() == Some((1, None))).await;
        assert_eq!(
            refused_recipients(&site, channel).len(),
            usize::from(is_refused_first)
        );
        site.clock.advance_secs(10);
        site.wait_until(|| row() == Some((2, None))).await;
        // Another mail shows the opposite before the retry for bob.
        if !is_refused_first {
            server.reply_once("RCPT TO:<eve", "550 mailbox full");
        }
        site.ping(8, PingKind::Fail, "").await;
        site.deliveries(1).await;
        let now_refused = if is_refused_first {
            vec![]
        } else {
            vec!["eve@example.org".to_owned()]
        };
        assert_eq!(refused_recipients(&site, channel), now_refused);
        site.clock.advance_secs(60);
        site.deliveries(2).await;
        let tries = ["ann", "bob", "eve"].map(|name| server.count(&format!("RCPT TO:<{name}")));
        assert_eq!(
            (tries, refused_recipients(&site, channel)),
            ([2, 4, 2], now_refused)
        );
    }
}

#[tokio::test]
async fn the_only_recipient_left_is_no_longer_refused_once_it_takes_a_mail() {
    let (site, _server) = site(&[("RCPT TO:<eve", "550 mailbox full", 1)]).await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.deliveries(1).await;
    assert_eq!(refused_recipients(&site, channel), ["eve@example.org"]);
    for name in ["ann", "bob"] {
        site.execute(Command::Unsubscribe {
            channel,
            recipient: format!("{name}@example.org").into(),
        })
        .await;
    }
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    assert_eq!(
        site.deliveries(2).await.remove(1).result,
        DeliveryResult::Delivered
    );
    assert_eq!(refused_recipients(&site, channel), Vec::<String>::new());
}

#[tokio::test]
async fn a_notice_that_a_recipient_takes_shows_that_it_is_no_longer_refused() {
    let (site, server) = site(&[("RCPT TO:<eve", "550 mailbox full", 1)]).await;
    let channel = site
        .create_channel("email", &[("to", TO), ("notices", "on")])
        .await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_until(|| refused_recipients(&site, channel) == ["eve@example.org"])
        .await;
    site.clock.advance_secs(3617);
    site.wait_until(|| refused_recipients(&site, channel).is_empty())
        .await;
    assert_eq!(server.count("RCPT TO:<eve"), 2);
}

#[tokio::test]
async fn a_test_stores_no_result_of_recipients_that_were_removed_meanwhile() {
    for is_unsubscribed in [true, false] {
        let replies = vec![("RCPT TO:<eve", "550 no such user", usize::MAX)];
        let server = RecordingMailServer::start(MailScript {
            replies,
            ..MailScript::default()
        })
        .await;
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let site = site_with_relay(relay.local_addr().unwrap()).await;
        let channel = site.create_channel("email", &[("to", TO)]).await;
        let test = site.handle.request_channel_test(channel, false).unwrap();
        // Eve leaves while the test is in progress.
        let (mut client, _) = relay.accept().await.unwrap();
        let address = server.address;
        site.execute(if is_unsubscribed {
            Command::Unsubscribe {
                channel,
                recipient: "eve@example.org".into(),
            }
        } else {
            let given = SettingsUpdate::merge(vec![(
                "to".into(),
                "ann@example.org,bob@example.org".into(),
            )]);
            Command::UpdateChannel {
                channel,
                name: None,
                settings: Some(given),
                author: SettingsAuthor::Operator,
            }
        })
        .await;
        tokio::spawn(async move {
            loop {
                let mut upstream = TcpStream::connect(address).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut upstream).await;
                (client, _) = relay.accept().await.unwrap();
            }
        });
        let missed = test.await.unwrap().missed.unwrap();
        assert!(
            missed.starts_with("delivered to 2 of 3; not taken for eve@example.org"),
            "{missed}"
        );
        assert_eq!(refused_recipients(&site, channel), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_recipient_that_is_refused_after_the_alert_is_sent_its_end() {
    let (site, server) = site(&[]).await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    for (uuid, name) in [(7, "backup"), (8, "dump")] {
        site.create_check(uuid, name).await;
    }
    let tries = || server.count("RCPT TO:<eve");
    site.ping(7, PingKind::Fail, "").await;
    site.deliveries(1).await;
    site.clock.advance_secs(60);
    server.reply_once("RCPT TO:<eve", "550 mailbox full");
    site.ping(8, PingKind::Fail, "").await;
    site.deliveries(2).await;
    assert_eq!(
        (refused_recipients(&site, channel), tries()),
        (vec!["eve@example.org".to_owned()], 2)
    );
    site.clock.advance_secs(60);
    site.ping(7, PingKind::Success, "").await;
    site.deliveries(3).await;
    assert_eq!((refused_recipients(&site, channel), tries()), (vec![], 3));
}

#[tokio::test]
async fn an_unsubscribed_recipient_gets_nothing_and_the_others_still_do() {
    let (site, server) = site(&[]).await;
    let channel = site.create_channel("email", &[("to", TO)]).await;
    let unsubscribe = async |name: &str| {
        site.execute(Command::Unsubscribe {
            channel,
            recipient: format!("{name}@example.org").into(),
        })
        .await;
    };
    unsubscribe("ann").await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    site.deliveries(1).await;
    assert_eq!(
        ["ann", "bob", "eve"].map(|name| server.count(&format!("RCPT TO:<{name}"))),
        [0, 1, 1]
    );
    // The list is set again: unsubscribed recipients stay unsubscribed.
    let given = SettingsUpdate::merge(vec![("to".into(), format!("{TO},kim@example.org"))]);
    site.execute(Command::UpdateChannel {
        channel,
        name: None,
        settings: Some(given),
        author: SettingsAuthor::Operator,
    })
    .await;
    assert_eq!(
        site.channel_now(channel).health.unsubscribed,
        ["ann@example.org".into()]
    );
    unsubscribe("bob").await;
    unsubscribe("eve").await;
    assert!(site.channel_now(channel).health.disabled.is_none());
    unsubscribe("kim").await;
    let health = site.channel_now(channel).health.clone();
    assert_eq!(
        health.disabled.map(|(_, reason)| reason).as_deref(),
        Some("every recipient has unsubscribed")
    );
    site.execute(Command::EnableChannel(channel)).await;
    assert_eq!(
        site.channel_now(channel).health.unsubscribed,
        Vec::<Box<str>>::new()
    );
}

#[tokio::test]
async fn a_restart_remembers_the_recipients_that_took_a_mail() {
    let replies = [
        ("RCPT TO:<bob", "450 greylisted, come back later", 1),
        ("RCPT TO:<eve", "550 no such user", usize::MAX),
    ];
    let server = RecordingMailServer::start(MailScript {
        replies: replies.to_vec(),
        ..MailScript::default()
    })
    .await;
    let start = |medium, at: i64| {
        NotifierFixture::start_on(medium, Timestamp::from_secs(at), |config| {
            let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
            let relay = MailServer::parse(&format!("smtp+plain://{}", server.address)).unwrap();
            config.relay = Some(MailRelay::new(relay, None, from).unwrap());
        })
    };
    let disk = Disk::default();
    let site = start(disk.medium(), 1_800_000_000);
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    site.create_channel("email", &[("to", TO)]).await;
    site.create_check(7, "backup").await;
    site.ping(7, PingKind::Fail, "").await;
    let row = || {
        site.handle.with_state(|state| {
            state
                .outbox
                .rows()
                .next()
                .map(|row| (row.attempts, row.attempt_started))
        })
    };
    site.wait_until(|| row() == Some((1, None))).await;
    let copy = disk.copy();
    drop(site);
    let site = start(copy.medium(), 1_800_000_010);
    let refused = site.handle.with_state(|state| {
        state
            .project(MAIN)
            .unwrap()
            .channels
            .values()
            .next()
            .unwrap()
            .health
            .refused
            .clone()
    });
    assert_eq!(
        refused
            .iter()
            .map(|refused| &*refused.address)
            .collect::<Vec<_>>(),
        ["eve@example.org"]
    );
    let delivery = site.deliveries(1).await.remove(0);
    assert_eq!(
        (delivery.result, delivery.attempts),
        (DeliveryResult::Delivered, 2)
    );
    assert_eq!(
        &*delivery.reason,
        "not taken for eve@example.org: the mail server said 550: no such user"
    );
    let tries = ["ann", "bob", "eve"].map(|name| server.count(&format!("RCPT TO:<{name}")));
    assert_eq!((tries, server.count("DATA")), ([1, 2, 1], 2));
    assert!(
        !server
            .received_lines()
            .iter()
            .any(|line| line.contains("This may be a repeat")),
        "{:?}",
        server.received_lines()
    );
}
