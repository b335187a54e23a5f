//! Damaged files, and files that vanish under a running server: one error line, and no ping
//! acknowledged without being stored.

use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

#[test]
fn a_damaged_file_is_reported_in_one_line() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let file = data.join("overdue.redb");
    let whole = std::fs::read(&file).unwrap();
    let altered = [
        &whole[..4096],
        &whole[4096..]
            .iter()
            .map(|byte| byte ^ 0x5a)
            .collect::<Vec<_>>(),
    ]
    .concat();
    let cases = [
        altered,
        whole[..8192].to_vec(),
        vec![0; whole.len()],
        Vec::new(),
        b"notes".to_vec(),
    ];
    for (number, bytes) in cases.iter().enumerate() {
        std::fs::write(&file, bytes).unwrap();
        for words in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["project", "list"],
        ] {
            let done = run(overdue(words).arg("--data").arg(&data));
            let prefix = format!("overdue: {} cannot be opened: ", file.display());
            assert!(
                done.status == 1 && done.err.lines().count() == 1 && done.err.starts_with(&prefix),
                "{number}: {} {}",
                done.status,
                done.err
            );
        }
        assert_eq!(std::fs::read(&file).unwrap(), *bytes);
    }
}

#[test]
fn pings_are_refused_after_the_file_of_a_running_server_is_removed() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let key = admin(
        &data,
        &["key", "create", "--project", "main", "--access", "ping"],
    );
    let mut server = ServerProcess::start(&data);
    let mut client = HttpClient::connect(server.address).unwrap();
    let path = format!("/ping/{key}/job?create=1");
    assert_eq!(client.post(&path, b"").unwrap().status, 201);
    let file = data.join("overdue.redb");
    let moved_file = data.join("aside");
    std::fs::rename(&file, &moved_file).unwrap();
    let removed = Instant::now();
    while client.post(&path, b"").unwrap().status == 200 {
        assert!(
            removed.elapsed() < Duration::from_secs(2),
            "pings are still accepted"
        );
    }
    server.wait_for("NO PINGS ARE ACCEPTED");
    assert_eq!(client.get("/healthz", "").unwrap().status, 503);
    // The file comes back: nothing was lost, and pings are accepted again.
    std::fs::rename(&moved_file, &file).unwrap();
    server.wait_for("accepts pings again");
    assert_eq!(client.post(&path, b"").unwrap().status, 200);
    server.stop();
}
