//! Long runs: a day with a dead receiver and a flapping check, and ten minutes without the server.

use std::collections::BTreeSet;

use overdue::domain::number::Seconds;

use super::*;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;

#[tokio::test]
async fn a_day_with_a_dead_receiver_and_a_flapping_check_leaves_no_heap_behind() {
    let disk = Disk::default();
    let dead = Receiver::start([ResponseAction::status(503)]).await;
    let site = NotifierFixture::start_on(disk.medium(), START, |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let hook = webhook(&site, &dead).await;
    let phone = site
        .create_channel("ntfy", &[("url", &dead.url("")), ("topic", "home")])
        .await;
    site.create_check(7, "Flapping").await;
    let flips = DAY / MINUTE;
    let quarter = DAY / MINUTE / 4;
    let mut attempts = 0;
    let mut sizes = Vec::new();
    for flip in 1..=flips {
        site.ping(
            7,
            if flip % 2 == 1 {
                PingKind::Fail
            } else {
                PingKind::Success
            },
            "output of the job",
        )
        .await;
        site.clock.advance_secs(MINUTE);
        let waiting = site.handle.with_state(|state| state.outbox.len());
        // Eight for each channel, and the one that is being sent.
        assert!(waiting <= 2 * 9, "{waiting} wait after {flip} flips");
        if flip % 120 == 0 {
            // After any time, both channels retry within two hours, since the longest pause is one
            // hour.
            attempts = dead.wait_for(attempts + 2).await.len();
        }
        if flip % quarter == 0 {
            sizes.push(disk.len());
        }
    }
    println!("{attempts} requests; the file after each quarter of the day: {sizes:?}");
    for channel in [hook, phone].map(|id| site.channel_now(id)) {
        assert!(
            channel.health.failing.is_some() && channel.health.disabled.is_none(),
            "{:?}",
            channel.health
        );
    }
    // Nine in the first hour or so, and then one each hour.
    assert!(attempts <= 2 * 45, "{attempts} requests in a day");
    // Rows of a flip: its own, the ping's and its deliveries'.
    let max_bytes = u64::try_from(flips / 2).unwrap() * 1000;
    assert!(sizes[3] - sizes[1] <= max_bytes, "{sizes:?}");
    site.stop().await;
}

/// Pings checks with these numbers, all at once.
async fn ping_all(site: &NotifierFixture, uuids: impl IntoIterator<Item = u128>) {
    let submitted: Vec<_> = uuids
        .into_iter()
        .map(|uuid| (uuid, site.handle.submit(ping(uuid, PingKind::Success, ""))))
        .collect();
    for (uuid, answer) in submitted {
        let answer = match answer {
            Ok(answer) => answer.await.unwrap(),
            Err(unavailable) => Err(unavailable),
        };
        match answer {
            Err(Unavailable::StorageFailed) => site.ping(uuid, PingKind::Success, "").await,
            taken => drop(taken.unwrap().unwrap()),
        }
    }
}

/// A job: its period, and the time of its last report in seconds before the server is stopped.
#[derive(Clone, Copy)]
struct SimulatedJob {
    uuid: u128,
    period: i64,
    last: i64,
}

#[tokio::test]
async fn ten_minutes_without_a_server_are_one_message_about_the_missing_checks() {
    const AWAY: i64 = 10 * MINUTE;
    const PACER: u128 = 5000;
    // A thousand checks with periods from a minute to a day. The last pings of each period are
    // spread over it.
    let jobs: Vec<_> = (0..1000)
        .map(|number| {
            let periods = [1, 2, 3, 5, 8, 13, 60, 120, 360, 720, 1440];
            let period = periods[number % periods.len()] * MINUTE;
            SimulatedJob {
                uuid: 1 + number as u128,
                period,
                last: (number as i64 * 7919 * MINUTE) % period,
            }
        })
        .collect();
    let mut disk = Disk::default();
    let phone = Receiver::start([ResponseAction::status(200)]).await;
    let site = NotifierFixture::start_on(disk.medium(), START, |_| ());
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    site.create_channel("ntfy", &[("url", &phone.url("")), ("topic", "home")])
        .await;
    // A check without channels.
    let edit = CheckEdit {
        timeout: Seconds::parse(30 * DAY).ok(),
        ..CheckEdit::default()
    };
    site.execute(create_check(MAIN, PACER, edit)).await;
    ping_all(&site, [PACER]).await;
    for job in &jobs {
        let name = Some(Name::parse(&format!("job-{}", job.uuid)).unwrap());
        let timeout = Seconds::parse(job.period).ok();
        let grace = Seconds::parse(MINUTE).ok();
        let edit = CheckEdit {
            name,
            timeout,
            grace,
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        site.execute(create_check(MAIN, job.uuid, edit)).await;
    }
    let moments: BTreeSet<_> = jobs.iter().map(|job| DAY - job.last).collect();
    let mut now = 0;
    for at in moments {
        site.clock.advance_secs(at - now);
        now = at;
        let of_now: Vec<_> = jobs.iter().filter(|job| DAY - job.last == at).collect();
        ping_all(&site, of_now.iter().map(|job| job.uuid)).await;
    }
    site.clock.advance_secs(DAY - now);
    assert!(site.handle.with_state(|state| {
        state
            .checks()
            .all(|check| check.state.status == overdue::domain::status::Status::Up)
    }));
    // The server ends without a clean stop; its last write was at that moment.
    disk = disk.copy();
    drop(site);

    let site = NotifierFixture::start_on(disk.medium(), START.plus_secs(DAY + AWAY), |_| ());
    // All jobs continue as before. A job with a long period has not reported since.
    let mut missing: BTreeSet<_> = jobs
        .iter()
        .filter(|job| job.period - job.last < AWAY && job.period > 15 * MINUTE)
        .map(|job| format!("job-{}", job.uuid))
        .collect();
    for second in (0..=16 * MINUTE).step_by(15) {
        let is_now = |job: &&SimulatedJob| {
            let next = (AWAY + second + job.last) % job.period;
            next < 15
        };
        ping_all(&site, jobs.iter().filter(is_now).map(|job| job.uuid)).await;
        site.clock.advance_secs(15);
        // Everything due by then is done before the clock advances.
        ping_all(&site, [PACER]).await;
        ping_all(&site, [PACER]).await;
    }
    site.wait_until(|| site.handle.with_state(|state| state.outbox.is_empty()))
        .await;
    let requests = phone.requests();
    let messages: Vec<serde_json::Value> = requests
        .iter()
        .map(|request| serde_json::from_str(request.text()).unwrap())
        .collect();
    let titles: Vec<_> = messages
        .iter()
        .map(|message| message["title"].as_str().unwrap())
        .collect();
    assert_eq!(
        titles,
        [format!(
            "Home: {} checks may have missed their reports",
            missing.len()
        )]
    );
    let deliveries = site.deliveries(missing.len()).await;
    let finished = deliveries
        .iter()
        .filter(|delivery| delivery.result == DeliveryResult::Delivered);
    for delivery in finished {
        let name = site.handle.with_state(|state| {
            state
                .check(delivery.check)
                .unwrap()
                .settings
                .name
                .as_str()
                .to_owned()
        });
        assert!(missing.remove(&name), "an alert was sent for {name}");
    }
    assert_eq!(missing, BTreeSet::new());
    site.stop().await;
}
