//! Number of threads: requests start none.

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, temp_data_directory};

#[test]
fn no_request_starts_a_thread() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let key = admin(
        &data,
        &[
            "key",
            "create",
            "--project",
            "main",
            "--access",
            "read-write",
        ],
    );
    let server = ServerProcess::start(&data);
    // The server listens before all threads have started.
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    let before = server.threads();
    let body = format!("{{\"name\": \"a\", \"x\": \"{}\"}}", "x".repeat(100_000));
    let asked: Vec<_> = (0..16)
        .map(|_| {
            let address = server.address;
            let key = key.clone();
            let body = body.clone();
            std::thread::spawn(move || {
                let mut client = HttpClient::connect(address).unwrap();
                for _ in 0..20 {
                    assert_eq!(client.get("/healthz", "").unwrap().status, 200);
                    let answer = client
                        .post_with("/api/v3/checks/", &key, body.as_bytes())
                        .unwrap();
                    assert_eq!(answer.status, 201);
                    let check: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
                    let flips =
                        format!("/api/v3/checks/{}/flips/", check["uuid"].as_str().unwrap());
                    assert_eq!(client.get(&flips, &key).unwrap().status, 200);
                    assert_eq!(client.get("/api/v3/checks/", &key).unwrap().status, 200);
                }
            })
        })
        .collect();
    asked.into_iter().for_each(|asked| asked.join().unwrap());
    assert_eq!(server.threads(), before);
    server.stop();
}
