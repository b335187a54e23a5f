//! Repeated SIGKILL between flips and the results of their alerts: no alert is lost, and every
//! repeat is marked as a possible repeat. A receiver with transactions gets the repeat as the same
//! transaction.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, kill_count, temp_data_directory};

/// Number of checks of the project with a webhook, and of the project with a Matrix room.
const AT_WEBHOOK: usize = 24;
const AT_MATRIX: usize = 2;
const CHECKS: usize = AT_WEBHOOK + AT_MATRIX;
const ALERT_TIMEOUT: Duration = Duration::from_secs(60);

/// Received alerts by alert key or transaction: the name and status of the check, and for each copy
/// whether it is marked as a possible repeat.
type ReceivedAlerts = Arc<Mutex<HashMap<String, (String, Vec<bool>)>>>;

/// Accepts and records all requests, some of them a little late.
fn receiver() -> (String, ReceivedAlerts) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let came = ReceivedAlerts::default();
    let kept = Arc::clone(&came);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || serve_connection(stream.unwrap(), &kept, number as u64));
        }
    });
    (url, came)
}

/// Serves one connection until it ends.
fn serve_connection(mut stream: TcpStream, came: &ReceivedAlerts, mut chance: u64) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut key = String::new();
        let mut length = 0;
        let mut marked = false;
        let mut is_matrix = false;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                if line == "\r\n" {
                    break;
                }
                if let Some(transaction) = line
                    .split(' ')
                    .nth(1)
                    .and_then(|path| path.split("/send/m.room.message/").nth(1))
                {
                    (key, is_matrix) = (transaction.to_owned(), true);
                }
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.to_owned(),
                "content-length" => length = value.parse().ok()?,
                "overdue-possible-duplicate" => marked = true,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let text = if is_matrix {
            matrix_summary(&body)?
        } else {
            String::from_utf8(body).ok()?
        };
        // Matrix shows a repeated transaction only once.
        marked |= is_matrix;
        came.lock()
            .unwrap()
            .entry(key)
            .or_insert((text, Vec::new()))
            .1
            .push(marked);
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(chance >> 52));
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

/// Returns the check's name and status from a Matrix message.
fn matrix_summary(body: &[u8]) -> Option<String> {
    let message: serde_json::Value = serde_json::from_slice(body).ok()?;
    let mut words = message["body"].as_str()?.lines().next()?.split(' ').skip(1);
    Some(format!(
        "{} {}",
        words.next()?,
        if words.eq(["is", "up", "again"]) {
            "up"
        } else {
            "down"
        }
    ))
}

/// Pings each check that has not answered yet, until the server ends.
fn ping(server: SocketAddr, keys: &[String; 2], word: &str, pending: &mut Vec<usize>) {
    let Ok(mut client) = HttpClient::connect(server) else {
        return;
    };
    pending.retain(|check| {
        let key = &keys[usize::from(*check >= AT_WEBHOOK)];
        let answer = client.post(&format!("/ping/{key}/job-{check}{word}?create=1"), b"");
        !answer.is_ok_and(|answer| matches!(answer.status, 200 | 201))
    });
}

/// Waits for `count` alerts, or until the timeout.
fn wait_for(came: &ReceivedAlerts, count: usize) {
    let give_up = Instant::now() + ALERT_TIMEOUT;
    while came.lock().unwrap().len() < count && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_alert_is_lost_and_every_repeat_is_marked() {
    let rounds = kill_count(20) as usize;
    let (url, came) = receiver();
    let (_directory, data) = temp_data_directory();
    let keys = ["main", "room"].map(|project| {
        admin(&data, &["project", "create", project]);
        admin(
            &data,
            &["key", "create", "--project", project, "--access", "ping"],
        )
    });
    let down = format!("down-url={url}");
    let up = format!("up-url={url}");
    let words = [
        "channel",
        "create",
        "--project",
        "main",
        "--kind",
        "webhook",
        "--name",
        "hook",
        "--set",
    ];
    admin(
        &data,
        &[
            &words[..],
            &[&down, "--set", &up, "--set", "body=$NAME $STATUS"],
        ]
        .concat(),
    );
    let words = [
        "channel",
        "create",
        "--project",
        "room",
        "--kind",
        "matrix",
        "--name",
        "room",
        "--set",
    ];
    admin(
        &data,
        &[
            &words[..],
            &[
                &format!("server={url}"),
                "--set",
                "token=t",
                "--set",
                "room=!abc:example.org",
            ],
        ]
        .concat(),
    );
    let mut pending: Vec<usize> = Vec::new();
    let mut word = "";
    for round in 0..rounds {
        let mut server = ServerProcess::start(&data);
        // The pings of the previous round are completed first, so that each round is one flip of
        // each check.
        ping(server.address, &keys, word, &mut pending);
        assert!(pending.is_empty(), "{pending:?}");
        wait_for(&came, round * CHECKS);
        word = if round % 2 == 0 { "/fail" } else { "" };
        pending = (0..CHECKS).collect();
        let pause = Duration::from_micros((round as u64 * 7919) % 30_000);
        std::thread::scope(|scope| {
            let address = server.address;
            let keys = &keys;
            let pending = &mut pending;
            scope.spawn(move || ping(address, keys, word, pending));
            std::thread::sleep(pause);
            server.kill();
        });
    }
    let server = ServerProcess::start(&data);
    ping(server.address, &keys, word, &mut pending);
    wait_for(&came, rounds * CHECKS);
    server.stop();
    let came = came.lock().unwrap();
    let mut counts = BTreeMap::<&str, usize>::new();
    came.values()
        .for_each(|(text, _)| *counts.entry(text).or_default() += 1);
    for check in 0..CHECKS {
        for (word, count) in [("down", rounds.div_ceil(2)), ("up", rounds / 2)] {
            assert_eq!(
                counts.get(format!("job-{check} {word}").as_str()),
                Some(&count),
                "{check} {word}: {counts:?}"
            );
        }
    }
    let repeats: Vec<_> = came
        .values()
        .filter(|(_, copies)| copies.len() > 1)
        .collect();
    println!(
        "{} alerts, {} received more than once",
        came.len(),
        repeats.len()
    );
    for (text, copies) in repeats {
        // The interrupted request may be read after its repeat.
        let unmarked = copies.iter().filter(|marked| !**marked).count();
        assert!(
            unmarked <= 1,
            "{text} was received {} times: {copies:?}",
            copies.len()
        );
    }
}
