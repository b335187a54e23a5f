//! Clients that misuse a connection, and their effect on others.

use std::time::{Duration, Instant};

use overdue::domain::check_edit::CheckEdit;
use overdue::domain::text::Tags;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use uuid::Uuid;

use crate::support::commands::create_check;
use crate::support::server::{TestServer, read_response};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_client_that_closes_its_sending_side_is_answered() {
    let server = TestServer::start().await;
    let mut stream = server.connect().await;
    let request = format!(
        "GET /ping/{}/backup?create=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        server.main.ping_key
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_response(stream).await;
    assert_eq!((answer.status, answer.text()), (201, "Created"));
    server.stop().await;
}

#[tokio::test]
async fn a_request_needs_one_host_and_a_known_coding() {
    let server = TestServer::start().await;
    let paths = [
        format!("/ping/{}/backup?create=1", server.main.ping_key),
        "/api/v3/status/".into(),
        "/healthz".into(),
        "/none".into(),
    ];
    for (rest, status) in [
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
        ("HTTP/1.0\r\nHost: a\r\nHost: b\r\n", 400),
        (
            "HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n",
            501,
        ),
        (
            "HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            501,
        ),
        (
            "HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n",
            501,
        ),
    ] {
        for path in &paths {
            let refused = server
                .raw(format!("POST {path} {rest}Connection: close\r\n\r\n0\r\n\r\n").as_bytes())
                .await;
            assert_eq!(refused.status, status, "{path} {rest}");
            assert_eq!(
                refused.header("content-type") == Some("application/json"),
                path.starts_with("/api/")
            );
        }
    }
    let changes = server
        .handle
        .with_state(|state| state.project(server.main.id).unwrap().version);
    assert_eq!(changes, 0, "nothing was pinged");
    for (rest, status) in [
        ("HTTP/1.0\r\n", 201),
        ("HTTP/1.1\r\nHost:\r\n", 200),
        ("HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n", 200),
    ] {
        let taken = server
            .raw(format!("GET {} {rest}Connection: close\r\n\r\n0\r\n\r\n", paths[0]).as_bytes())
            .await;
        assert_eq!(taken.status, status, "{rest}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_connections_of_an_address_are_limited() {
    let server = TestServer::start_with(|config| {
        (config.trusted_proxies, config.connections_per_address) = (Vec::new(), 2);
    })
    .await;
    let connections = [server.connect().await, server.connect().await];
    let refused = server.get("/healthz").await;
    assert_eq!(
        (refused.status, refused.header("connection")),
        (503, Some("close")),
        "{refused:?}"
    );
    drop(connections);
    while server.get("/healthz").await.status != 200 {}
    server.stop().await;
    let server = TestServer::start_with(|config| config.connections_per_address = 0).await;
    assert_eq!(
        server.get("/healthz").await.status,
        200,
        "a trusted proxy has no limit"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_too_much_gets_the_reason() {
    let server = TestServer::start().await;
    let ping = format!("/ping/{}/backup?create=1", server.main.ping_key);
    for (path, length, most) in [
        ("/api/v3/checks/", 8 * MIB, MIB),
        ("/api/v3/checks/", MIB + 1, MIB),
        (&ping, 10 * MIB + 1, 10 * MIB),
    ] {
        let mut stream = server.connect().await;
        let body = vec![b' '; length];
        // Such a client reads the answer after it has sent everything.
        let announced =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(announced.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let refused = read_response(stream).await;
        assert_eq!(
            (refused.status, refused.header("connection")),
            (413, Some("close")),
            "{length}"
        );
        assert!(
            refused
                .text()
                .contains(&format!("longer than {most} bytes")),
            "{refused:?}"
        );

        let mut stream = server.connect().await;
        stream
            .write_all(
                format!(
                    "POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \
                     chunked\r\n\r\n{length:x}\r\n"
                )
                .as_bytes(),
            )
            .await
            .unwrap();
        stream.write_all(&body).await.unwrap();
        stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
        assert_eq!(read_response(stream).await.status, 413, "{length}");
    }
    // A request that never ends is closed.
    let mut stream = server.connect().await;
    stream
        .write_all(
            b"POST /api/v3/checks/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        )
        .await
        .unwrap();
    let mut sent = 0;
    while stream.write_all(&[b' '; MIB]).await.is_ok() {
        sent += 1;
        assert!(sent < 100, "it is still read");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_long_bodies_use_only_their_own_limit() {
    let server = TestServer::start_storing(1 << 20).await;
    let long = format!("{{{}}}", " ".repeat(MIB - 2));
    let create = async |body: &str| {
        server
            .send("POST", "/api/v3/checks/", &[], body.as_bytes())
            .await
            .status
    };
    let tried = async {
        let mut connections = Vec::new();
        while create(&long).await != 503 {
            let mut stream = server.connect().await;
            let head = format!(
                "POST /api/v3/checks/ HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n"
            );
            stream
                .write_all(&[head.as_bytes(), &long.as_bytes()[1..]].concat())
                .await
                .unwrap();
            connections.push(stream);
        }
        assert!(
            connections.len() > 15,
            "{} bodies were held",
            connections.len()
        );
        assert_eq!(create("{}").await, 401, "a short body needs no room");
        // Clients without a key take no memory from projects: the ping is stored as a whole.
        server
            .create_check(json!({
                "slug": "backup", "success_kw": "done", "filter_http_body": true,
                "filter_default_fail": true,
            }))
            .await;
        let body = [vec![b'x'; 9_996], b"done".to_vec(), vec![b'y'; MIB]].concat();
        let path = format!("/ping/{}/backup", server.main.ping_key);
        assert_eq!(server.send("POST", &path, &[], &body).await.status, 200);
        let check = &server.api("GET", "/checks/?slug=backup", "").await.json()["checks"][0];
        assert_eq!(check["status"], "up", "{check}");
        let kept = server
            .api(
                "GET",
                &format!("/checks/{}/pings/1/body", check["uuid"].as_str().unwrap()),
                "",
            )
            .await
            .body;
        assert!(
            body.starts_with(&kept) && kept.len() == MIB,
            "{}",
            kept.len()
        );
        // A client that stops sending loses its slot while it is still connected.
        while create(&long).await != 401 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let slow = read_response(connections.remove(0)).await;
        assert_eq!(
            (slow.status, slow.header("connection")),
            (408, Some("close"))
        );
    };
    tokio::time::timeout(Duration::from_secs(50), tried)
        .await
        .unwrap();
    server.stop().await;
}

/// Creates `count` checks without the API.
async fn many_checks(server: &TestServer, count: u128) {
    let edit = CheckEdit {
        tags: Some(Tags::parse("a b").unwrap()),
        ..CheckEdit::default()
    };
    let mut made = Vec::new();
    for uuid in 1..=count {
        made.push(
            server
                .handle
                .submit(create_check(server.main.id, uuid, edit.clone()))
                .unwrap(),
        );
        if made.len() == 4096 || uuid == count {
            for made in made.drain(..) {
                made.await.unwrap().unwrap().unwrap();
            }
        }
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "it measures how long pings wait")]
async fn long_lists_are_sent_in_chunks_and_delay_no_pings() {
    let server = TestServer::start().await;
    many_checks(&server, 6000).await;
    let started = Instant::now();
    let list = server.api("GET", "/checks/", "").await;
    let whole = started.elapsed();
    assert_eq!(list.header("transfer-encoding"), Some("chunked"));
    assert_eq!(list.json()["checks"].as_array().unwrap().len(), 6000);
    let headers = [
        ("X-Api-Key", server.main.read_write_key.as_str()),
        ("If-None-Match", list.header("etag").unwrap()),
    ];
    assert_eq!(
        server
            .send("GET", "/api/v3/checks/", &headers, b"")
            .await
            .status,
        304
    );
    assert_eq!(server.api("HEAD", "/checks/", "").await.body, b"");
    // The thread that answers pings does all other work here, such as reading the lists.
    let ping = format!("/ping/{}", Uuid::from_u128(1));
    let mut lists: Vec<_> = Vec::new();
    for _ in 0..8 {
        let mut stream = server.connect().await;
        let head = format!(
            "GET /api/v3/checks/ HTTP/1.1\r\nHost: a\r\nX-Api-Key: {}\r\nConnection: close\r\n\r\n",
            server.main.read_write_key
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        lists.push(tokio::spawn(async move {
            tokio::io::copy(&mut stream, &mut tokio::io::sink())
                .await
                .unwrap()
        }));
    }
    let mut slowest = Duration::ZERO;
    while !lists.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        assert_eq!(server.get(&ping).await.status, 200);
        slowest = slowest.max(started.elapsed());
    }
    for list in lists {
        let length = list.await.unwrap();
        assert!(length > 6000 * 500, "{length}");
    }
    eprintln!("a list takes {whole:?}, a ping beside eight at most {slowest:?}");
    assert!(
        slowest < 2 * whole.max(Duration::from_millis(100)),
        "{slowest:?}, {whole:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn badges_of_many_tags_are_sent_in_chunks() {
    let server = TestServer::start().await;
    for first in 0..30 {
        let tags: Vec<_> = (0..60).map(|second| format!("t{first}-{second}")).collect();
        server.create_check(json!({ "tags": tags.join(" ") })).await;
    }
    let list = server.api("GET", "/badges/", "").await;
    assert_eq!(list.header("transfer-encoding"), Some("chunked"));
    let list = list.json();
    let badges = list["badges"].as_object().unwrap();
    assert_eq!(badges.len(), 1 + 30 * 60);
    let last = badges["t29-59"]["json"]
        .as_str()
        .unwrap()
        .strip_prefix(&server.base)
        .unwrap();
    assert_eq!(server.get(last).await.json()["total"], 1);
    server.stop().await;
}
