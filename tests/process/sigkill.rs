//! Repeated SIGKILL while many clients send: acknowledged pings are stored, unchanged.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, kill_count, temp_data_directory};

const SENDERS: usize = 24;
/// Number of acknowledged pings in a round before the server is killed.
const ENOUGH: usize = 10 * SENDERS;

/// A body that shows whether it is complete: the sender, the number, and a filling derived from
/// both.
pub fn body(sender: usize, number: usize) -> Vec<u8> {
    let filling = (0..(number * 37) % 3000).map(|place| (place * 7 + sender * 31 + number) as u8);
    format!("{sender} {number} ")
        .into_bytes()
        .into_iter()
        .chain(filling)
        .collect()
}

/// Returns the number in a body if it is a complete body of this sender.
pub fn number_in(bytes: &[u8], sender: usize) -> Option<usize> {
    let number = std::str::from_utf8(bytes.split(|byte| *byte == b' ').nth(1)?)
        .ok()?
        .parse()
        .ok()?;
    (bytes == body(sender, number)).then_some(number)
}

/// Sends until the server is gone. Returns the acknowledged numbers and the next one.
fn send(
    address: SocketAddr,
    path: &str,
    sender: usize,
    mut number: usize,
    count: &AtomicUsize,
) -> (Vec<usize>, usize) {
    let mut acknowledged = Vec::new();
    if let Ok(mut client) = HttpClient::connect(address) {
        while let Ok(answer) = client.post(path, &body(sender, number)) {
            if matches!(answer.status, 200 | 201) {
                acknowledged.push(number);
                count.fetch_add(1, Ordering::Relaxed);
            }
            number += 1;
        }
    }
    // The last ping may be stored or not.
    (acknowledged, number + 1)
}

#[test]
fn no_acknowledged_ping_is_lost() {
    let (_directory, data) = temp_data_directory();
    admin(
        &data,
        &["project", "create", "main", "--ping-log-limit", "1000000"],
    );
    let key = |access| {
        admin(
            &data,
            &["key", "create", "--project", "main", "--access", access],
        )
    };
    let ping_key = key("ping");
    let api_key = key("read-write");
    let mut next = [0; SENDERS];
    let mut acknowledged = vec![Vec::new(); SENDERS];
    for _ in 0..kill_count(25) {
        let mut server = ServerProcess::start(&data);
        // A server that has logged its address has recovered.
        assert_eq!(
            HttpClient::connect(server.address)
                .unwrap()
                .get("/healthz", "")
                .unwrap()
                .status,
            200
        );
        let count = Arc::new(AtomicUsize::new(0));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let count = Arc::clone(&count);
                let path = format!("/ping/{ping_key}/s{sender}?create=1");
                let address = server.address;
                let number = next[sender];
                std::thread::spawn(move || send(address, &path, sender, number, &count))
            })
            .collect();
        let give_up = Instant::now() + Duration::from_secs(60);
        while count.load(Ordering::Relaxed) < ENOUGH {
            assert!(
                Instant::now() < give_up,
                "only {count:?} pings were acknowledged"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        for (sender, thread) in senders.into_iter().enumerate() {
            let (numbers, following) = thread.join().unwrap();
            acknowledged[sender].extend(numbers);
            next[sender] = following;
        }
    }

    let server = ServerProcess::start_with(&data, &["--api-rate", "0"]);
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut get = |path: &str| client.get(path, &api_key).unwrap();
    for (sender, acknowledged) in acknowledged.iter().enumerate() {
        let list = get(&format!("/api/v3/checks/?slug=s{sender}"));
        let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
        let check = &list["checks"][0];
        let uuid = check["uuid"].as_str().unwrap();
        let pings = check["n_pings"].as_u64().unwrap();
        let mut found = HashMap::new();
        for n in 1..=pings {
            let logged = get(&format!("/api/v3/checks/{uuid}/pings/{n}/body"));
            let number = number_in(&logged.body, sender).unwrap_or_else(|| {
                panic!("ping {n} of sender {sender} differs from the ping sent")
            });
            *found.entry(number).or_insert(0) += 1;
        }
        assert!(
            acknowledged
                .iter()
                .all(|number| found.get(number) == Some(&1)),
            "sender {sender}: {found:?} {acknowledged:?}"
        );
    }
}
