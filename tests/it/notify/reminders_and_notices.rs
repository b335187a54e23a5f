//! Messages other than flips: reminders, notices and heartbeats; and the state after a
//! stop.

use overdue::backup::{BackupSchedule, BackupScheduler};
use overdue::engine::TestedChannel;
use overdue::outbound::OutboundConfig;

use super::*;

#[tokio::test]
async fn reminders_are_sent_to_channels_that_request_them() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &receiver.url("")),
            ("topic", "home"),
            ("repeat", "1h"),
            ("repeat-most", "2"),
        ],
    )
    .await;
    for (uuid, name) in [(7, "Nightly backup"), (8, "db-dump")] {
        site.create_check(uuid, name).await;
    }
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    // The first round found the check down and counts from there.
    site.clock.advance_secs(16);
    for (round, secs) in [(2, 3600), (3, 3600)] {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(receiver.requests().len(), round - 1);
        site.clock.advance_secs(secs);
        let requests = receiver.wait_for(round).await;
        let message: serde_json::Value = serde_json::from_str(requests[round - 1].text()).unwrap();
        let title = message["title"].as_str().unwrap();
        assert!(
            title.contains("still down") && !message.to_string().contains("db-dump"),
            "{message}"
        );
        site.deliveries(round).await;
    }
    // Two reminders were requested. A check that is up sends none.
    site.clock.advance_secs(3601);
    site.ping(7, PingKind::Success, "").await;
    receiver.wait_for(4).await;
    site.clock.advance_secs(7300);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn a_restart_keeps_the_number_of_reminders() {
    let mut disk = Disk::default();
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let began = Timestamp::from_secs(1_800_000_000);
    let site = NotifierFixture::start_on(disk.medium(), began, |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &receiver.url("")),
            ("topic", "home"),
            ("repeat", "1h"),
            ("repeat-most", "2"),
        ],
    )
    .await;
    site.create_check(7, "Nightly backup").await;
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    site.deliveries(1).await;
    disk = disk.copy();
    drop(site);
    // It restarts half an hour before the next reminder, which comes an hour after the one before.
    for (round, after) in [(2, 3601), (3, 2 * 3601), (3, 3 * 3601)] {
        let site = NotifierFixture::start_on(disk.medium(), began.plus_secs(after - 1800), |_| ());
        tokio::time::sleep(Duration::from_millis(50)).await;
        site.clock.advance_secs(1800);
        receiver.wait_for(round).await;
        site.deliveries(round).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(receiver.requests().len(), round);
        disk = disk.copy();
        drop(site);
    }
}

#[tokio::test]
async fn a_heartbeat_is_sent_as_long_as_pings_are_taken() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let disk = Disk::default();
    let heartbeat = notifier::Heartbeat {
        url: receiver.url("/ping/watch"),
        interval: Duration::from_millis(20),
    };
    let site = NotifierFixture::start_with(
        disk.medium(),
        Timestamp::from_secs(1_800_000_000),
        |_| (),
        Some(heartbeat),
    );
    let requests = receiver.wait_for(3).await;
    assert_eq!(
        (requests[0].method.as_str(), requests[0].target.as_str()),
        ("GET", "/ping/watch")
    );
    disk.fail_after(DiskOperation::Write, 0);
    let failed = site
        .handle
        .call(create_project(&Random::seeded(2), "Home", 100))
        .await;
    assert!(failed.is_err());
    // One heartbeat may be in progress.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let count = receiver.requests().len();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(receiver.requests().len(), count);
    disk.heal();
    receiver.wait_for(count + 2).await;
}

#[tokio::test]
async fn notices_about_channels_and_the_database_are_sent_to_channels_that_request_them() {
    let disk = Disk::default();
    let site =
        NotifierFixture::start_on(disk.medium(), Timestamp::from_secs(1_800_000_000), |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let refusal = ResponseAction::Answer(Reply {
        status: 500,
        body: b"bad token SECRET".into(),
        ..Reply::default()
    });
    let broken = Receiver::start([refusal]).await;
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    let hook = webhook(&site, &broken).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &phone.url("")),
            ("topic", "home"),
            ("notices", "on"),
            ("send", "up"),
        ],
    )
    .await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_for_failure(hook).await;
    site.clock.advance_secs(3601);
    let title = |seen: &crate::support::receiver::ReceivedRequest| {
        let message: serde_json::Value = serde_json::from_str(seen.text()).unwrap();
        message["title"].as_str().unwrap().to_owned()
    };
    let requests = phone.wait_for(1).await;
    assert_eq!(title(&requests[0]), "Channel webhook is failing");
    // Readers of the other channel may lack the permission to see what this receiver answers.
    assert!(
        requests[0].text().contains("the answer was 500") && !requests[0].text().contains("SECRET"),
        "{}",
        requests[0].text()
    );
    // Once, until it is over.
    for _ in 0..5 {
        site.clock.advance_secs(16);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    disk.fail_after(DiskOperation::Write, 0);
    assert!(
        site.handle
            .call(create_project(&Random::seeded(3), "Other", 100))
            .await
            .is_err()
    );
    // One round finds the problem, and one finds that it has lasted.
    for secs in [16, 61] {
        site.clock.advance_secs(secs);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        title(&phone.wait_for(2).await[1]),
        "overdue accepts no pings"
    );
    disk.heal();
    site.wait_until(|| site.handle.is_writable()).await;
    site.clock.advance_secs(16);
    assert_eq!(
        title(&phone.wait_for(3).await[2]),
        "overdue accepts pings again"
    );
}

#[tokio::test]
async fn a_notice_that_fails_is_sent_again_after_a_minute_and_five_times_at_most() {
    let site = NotifierFixture::start().await;
    let broken = Receiver::start([ResponseAction::status(500)]).await;
    let phone = Receiver::start([ResponseAction::status(503)]).await;
    let hook = webhook(&site, &broken).await;
    let settings = [
        ("url", &*phone.url("")),
        ("topic", "home"),
        ("notices", "on"),
        ("send", "up"),
    ];
    site.create_channel("ntfy", &settings).await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    site.wait_for_failure(hook).await;
    site.clock.advance_secs(3601);
    phone.wait_for(1).await;
    for attempts in 1..5 {
        site.clock.advance_secs(50);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(
            phone.requests().len(),
            attempts,
            "the next one is too early"
        );
        while phone.requests().len() == attempts {
            site.clock.advance_secs(30);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for _ in 0..10 {
        site.clock.advance_secs(120);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(phone.requests().len(), 5);
}

#[tokio::test]
async fn failing_backups_alert_until_one_succeeds() {
    let disk = Disk::default();
    let site =
        NotifierFixture::start_on(disk.medium(), Timestamp::from_secs(1_800_000_000), |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &phone.url("")),
            ("topic", "home"),
            ("notices", "on"),
        ],
    )
    .await;
    let directory = tempfile::tempdir().unwrap();
    let backups = directory.path().join("backups");
    let intervals = BackupSchedule {
        directory: backups.clone(),
        interval: Duration::from_secs(3600),
        keep_newest: 2,
        recipients: Vec::new(),
        bucket: None,
        hook: None,
    };
    let _keeper =
        BackupScheduler::start(site.handle.clone(), intervals, OutboundConfig::default()).unwrap();
    let status = || site.handle.metrics().backup_status();
    site.wait_until(|| status().is_some_and(|status| status.failing.is_some()))
        .await;
    site.clock.advance_secs(16);
    let message = |seen: &crate::support::receiver::ReceivedRequest| {
        serde_json::from_str::<serde_json::Value>(seen.text()).unwrap()
    };
    let text = message(&phone.wait_for(1).await[0]);
    assert!(
        text["title"] == "overdue cannot make backups"
            && text["message"].as_str().unwrap().contains("No such file"),
        "{text}"
    );
    // The result of this delivery is stored before long time passes.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        site.clock.advance_secs(16);
    }
    std::fs::create_dir(&backups).unwrap();
    site.clock.advance_secs(601);
    site.wait_until(|| {
        status().is_some_and(|status| status.failing.is_none() && status.newest.is_some())
    })
    .await;
    site.clock.advance_secs(16);
    assert_eq!(
        message(&phone.wait_for(2).await[1])["title"],
        "overdue makes backups again"
    );
}

#[tokio::test]
async fn a_certificate_that_is_not_renewed_alerts_until_it_is() {
    let disk = Disk::default();
    let site =
        NotifierFixture::start_on(disk.medium(), Timestamp::from_secs(1_800_000_000), |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    let settings = [
        ("url", &*phone.url("")),
        ("topic", "home"),
        ("notices", "on"),
    ];
    site.create_channel("ntfy", &settings).await;
    for (number, failure, expected) in [
        (
            1,
            Some("a.test: refused"),
            "overdue cannot get a certificate",
        ),
        (2, None, "overdue has a new certificate"),
    ] {
        let metrics = site.handle.metrics();
        metrics.set_certificate_failure(failure.map(str::to_owned));
        site.clock.advance_secs(16);
        let seen = phone.wait_for(number).await;
        let message: serde_json::Value = serde_json::from_str(seen[number - 1].text()).unwrap();
        assert_eq!(message["title"], expected);
        // The result of this delivery is stored before long time passes.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            site.clock.advance_secs(16);
        }
    }
}

#[tokio::test]
async fn a_stop_abandons_messages_in_progress_and_does_not_count_as_a_crash() {
    let disk = Disk::default();
    let silent = Receiver::start([ResponseAction::Silence]).await;
    let site =
        NotifierFixture::start_on(disk.medium(), Timestamp::from_secs(1_800_000_000), |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let channel = webhook(&site, &silent).await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    silent.wait_for(1).await;
    let handle = site.handle.clone();
    let seen = || {
        handle.with_state(|state| {
            state
                .outbox
                .rows()
                .map(|row| {
                    (
                        row.attempts,
                        row.attempt_started,
                        row.interruptions,
                        row.may_be_duplicate,
                    )
                })
                .collect::<Vec<_>>()
        })
    };
    assert!(
        matches!(seen()[..], [(1, Some(_), 0, false)]),
        "{:?}",
        seen()
    );
    site.stop_notifier().await;
    assert_eq!(seen(), [(1, None, 0, true)]);
    assert_eq!(
        handle.with_state(|state| state.channel(channel).unwrap().health.clone()),
        Default::default()
    );
    handle.close();
}

#[tokio::test]
async fn pings_are_written_while_reminders_iterate_over_down_checks() {
    const DOWN: u128 = 300;
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &receiver.url("")),
            ("topic", "home"),
            ("repeat", "5m"),
        ],
    )
    .await;
    for uuid in 1..=DOWN {
        site.create_check(uuid, "job").await;
        site.ping(uuid, PingKind::Fail, "").await;
    }
    site.create_check(DOWN + 1, "works").await;
    // Each round iterates over all checks that are down, while the writer publishes.
    for round in 0..40 {
        site.clock.advance_secs(16);
        let pings = async {
            for _ in 0..50 {
                site.ping(DOWN + 1, PingKind::Success, "").await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, pings)
            .await
            .unwrap_or_else(|_| panic!("the writer hangs in round {round}"));
    }
    receiver.wait_for(2).await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_stops_neither_reminders_nor_notices() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let broken = Receiver::start([ResponseAction::status(503)]).await;
    let hook = webhook(&site, &broken).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &receiver.url("")),
            ("topic", "home"),
            ("repeat", "1h"),
            ("notices", "on"),
        ],
    )
    .await;
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    receiver.wait_for(1).await;
    site.wait_for_failure(hook).await;
    // The first round finds the check down and the channel failing.
    site.clock.advance_secs(16);
    tokio::time::sleep(Duration::from_millis(100)).await;
    site.clock
        .jump_to(Timestamp::from_secs(1_800_000_000 - 86_400));
    tokio::time::sleep(Duration::from_millis(100)).await;
    site.clock.advance_secs(3_700);
    let titles = |seen: &[crate::support::receiver::ReceivedRequest]| {
        let title = |seen: &crate::support::receiver::ReceivedRequest| {
            serde_json::from_str::<serde_json::Value>(seen.text()).unwrap()["title"].to_string()
        };
        seen.iter().map(title).collect::<Vec<_>>()
    };
    let mut titles = titles(&receiver.wait_for(3).await);
    titles.sort();
    assert!(
        titles.iter().any(|title| title.contains("still down")),
        "{titles:?}"
    );
    assert!(
        titles.iter().any(|title| title.contains("is failing")),
        "{titles:?}"
    );
}

#[tokio::test]
async fn a_digest_with_a_part_that_began_before_a_crash_is_not_marked_as_a_repeat() {
    const CHECKS: u128 = 300;
    let began = Timestamp::from_secs(1_800_000_000);
    for is_whole in [false, true] {
        let disk = Disk::default();
        let phone = Receiver::start([ResponseAction::status(200)]).await;
        let clock = ManualClock::at(began);
        let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
        std::thread::spawn(|| writer.run());
        // No notifier runs.
        let site = NotifierFixture {
            handle,
            clock,
            stop: watch::channel(false).0,
            ended: None,
        };
        site.execute(create_project(&Random::seeded(2), "Home", 100))
            .await;
        site.create_channel("ntfy", &[("url", &phone.url("")), ("topic", "home")])
            .await;
        for uuid in 1..=CHECKS {
            site.create_check(uuid, &format!("job-{uuid}")).await;
            site.ping(uuid, PingKind::Fail, "").await;
        }
        let rows: Vec<_> = site
            .handle
            .with_state(|state| state.outbox.rows().map(|row| row.number).collect());
        for some in rows.chunks(256).take(if is_whole { 2 } else { 1 }) {
            site.execute(Command::StartAttempts {
                rows: some.to_vec(),
                last_row: rows.last().copied(),
            })
            .await;
        }
        let copy = disk.copy();
        drop(site);
        let site = NotifierFixture::start_on(copy.medium(), began.plus_secs(10), |_| ());
        let requests = phone.wait_for(1).await;
        assert!(
            requests[0].text().contains("300 checks"),
            "{}",
            requests[0].text()
        );
        assert_eq!(
            requests[0].text().contains("may be a repeat"),
            is_whole,
            "{}",
            requests[0].text()
        );
        site.deliveries(rows.len()).await;
        site.stop().await;
    }
}

#[tokio::test]
async fn the_rows_of_a_digest_name_the_one_that_begins_last() {
    let site = NotifierFixture::start().await;
    let phone = Receiver::start([ResponseAction::Silence]).await;
    site.create_channel("ntfy", &[("url", &phone.url("")), ("topic", "home")])
        .await;
    for uuid in 1..=300 {
        let failure_kw = Some(Keywords::parse("ERR").unwrap());
        let edit = CheckEdit {
            failure_kw,
            filter_subject: Some(true),
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        site.execute(create_check(MAIN, uuid, edit)).await;
    }
    site.execute(Command::Mail(
        (1..=300)
            .map(|uuid| email_ping(uuid, "ERR", None, ""))
            .collect(),
    ))
    .await;
    site.clock.advance_secs(1);
    phone.wait_for(1).await;
    site.handle.with_state(|state| {
        let last = state.outbox.rows().last().unwrap().number;
        assert!(state.outbox.rows().all(|row| {
            row.attempt_started.is_some()
                && row
                    .part
                    .is_some_and(|part| (part.last_row, part.attempts) == (last, 0))
        }));
    });
}

#[tokio::test]
async fn a_channel_that_reaches_its_daily_limit_reports_it_once() {
    let site = NotifierFixture::start().await;
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    let twilio = Receiver::start([ResponseAction::status(201)]).await;
    let number = "+15005550006";
    let url = twilio.url("");
    let settings = [
        ("api", &*url),
        ("account", "AC1"),
        ("token", "t"),
        ("from", number),
        ("to", number),
        ("most-a-day", "1"),
    ];
    let sms = site.create_channel("sms", &settings).await;
    site.create_channel(
        "ntfy",
        &[
            ("url", &phone.url("")),
            ("topic", "home"),
            ("notices", "on"),
            ("send", "up"),
        ],
    )
    .await;
    assert_eq!(
        site.handle
            .request_channel_test(sms, false)
            .unwrap()
            .await
            .unwrap()
            .error,
        None
    );
    let ChannelTestResult { error, .. } = site
        .handle
        .request_channel_test(sms, false)
        .unwrap()
        .await
        .unwrap();
    assert_eq!(
        error.as_deref(),
        Some("the daily limit most-a-day is reached")
    );
    // A channel that is not stored yet has no daily limit: its number is that of all new ones.
    let stored = site.handle.with_state(|state| state.channel(sms).cloned());
    let draft = Arc::new(Channel {
        id: ChannelId(0),
        ..Channel::clone(&stored.unwrap())
    });
    for _ in 0..2 {
        let tested = TestedChannel::Draft(Arc::clone(&draft));
        let test = site.handle.queue_channel_test(tested, false).unwrap();
        assert_eq!(test.await.unwrap().error, None);
    }
    site.create_check(7, "a").await;
    site.ping(7, PingKind::Fail, "").await;
    assert!(
        site.wait_for_failure(sms)
            .await
            .starts_with("the daily limit most-a-day is reached; ")
    );
    site.clock.advance_secs(3601);
    let message: serde_json::Value =
        serde_json::from_str(phone.wait_for(1).await[0].text()).unwrap();
    assert!(
        message["title"]
            .as_str()
            .unwrap()
            .ends_with("has reached its daily limit"),
        "{message}"
    );
    assert!(
        message["message"]
            .as_str()
            .unwrap()
            .starts_with("The daily limit most-a-day is reached; "),
        "{message}"
    );
    for _ in 0..5 {
        site.clock.advance_secs(16);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((phone.requests().len(), twilio.requests().len()), (1, 3));
}
