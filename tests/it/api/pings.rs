//! `/checks/<uuid>/pings/` and the bodies in it.

use overdue::engine::command::Command;
use serde_json::{Value, json};

use super::{path, refused, text};
use crate::support::server::TestServer;

#[tokio::test]
async fn the_log_has_every_member_newest_first() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let ping = format!("/ping/{}", text(&check, "uuid"));
    let rid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    server
        .send("GET", &format!("{ping}/start?rid={rid}"), &[], b"")
        .await;
    server
        .clock
        .set(crate::support::server::START.plus_micros(1_234_567));
    server
        .send(
            "POST",
            &format!("{ping}?rid={}", rid.to_uppercase()),
            &[("User-Agent", "curl \"8\"")],
            b"done",
        )
        .await;
    let answer = server.api("GET", &path(&check, "/pings/"), "").await;
    let body_url = format!("{}/api/v3{}", server.base, path(&check, "/pings/2/body"));
    let expected = json!({
        "pings": [
            {
                "type": "success", "date": "2026-11-20T10:00:01.234567+00:00", "n": 2,
                "scheme": "http", "remote_addr": "127.0.0.1", "method": "POST", "ua": "curl \"8\"",
                "rid": rid, "duration": 1.23, "body_url": body_url,
            },
            {
                "type": "start", "date": "2026-11-20T10:00:00.000000+00:00", "n": 1,
                "scheme": "http", "remote_addr": "127.0.0.1", "method": "GET", "ua": "", "rid": rid,
                "body_url": null,
            },
        ],
    });
    assert_eq!((answer.status, answer.json()), (200, expected));
    let older = server
        .keyed(
            &server.main.read_write_key,
            "GET",
            &format!("/api/v1{}", path(&check, "/pings/")),
            "",
        )
        .await
        .json();
    assert_eq!(
        older["pings"][0]["body_url"],
        body_url.replace("/v3/", "/v1/")
    );
    server.stop().await;
}

fn numbers(list: &Value) -> Vec<u64> {
    list["pings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ping| ping["n"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn the_newest_are_listed_up_to_the_limit() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    assert_eq!(
        server.api("GET", &path(&check, "/pings/"), "").await.json(),
        json!({ "pings": [] })
    );
    let limit = |limit| Command::UpdateProject {
        project: server.main.id,
        name: None,
        check_limit: None,
        ping_log_limit: Some(limit),
        allows_ping_settings: None,
    };
    server.handle.call(limit(5000)).await.unwrap().unwrap();
    for _ in 0..1003 {
        server.ping(&check, "").await;
    }
    let list = || async { numbers(&server.api("GET", &path(&check, "/pings"), "").await.json()) };
    assert_eq!(
        list().await,
        (4..=1003).rev().collect::<Vec<_>>(),
        "never more than 1000"
    );
    server.handle.call(limit(3)).await.unwrap().unwrap();
    assert_eq!(list().await, [1003, 1002, 1001]);
    assert_eq!(server.now(&check).await["n_pings"], 1003);
    server.stop().await;
}

#[tokio::test]
async fn bodies_come_back_as_they_were() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let ping = format!("/ping/{}", text(&check, "uuid"));
    let limit = Command::UpdateProject {
        project: server.main.id,
        name: None,
        check_limit: None,
        ping_log_limit: Some(3),
        allows_ping_settings: None,
    };
    server.handle.call(limit).await.unwrap().unwrap();
    for body in [
        b"beyond".as_slice(),
        b"\0\xff\r\n<script>",
        b"",
        &[b'x'; 1001],
    ] {
        server.send("POST", &ping, &[], body).await;
    }
    let body = |n: &str| {
        let path = path(&check, &format!("/pings/{n}/body"));
        let server = &server;
        async move { server.api("GET", &path, "").await }
    };
    for (n, expected) in [
        ("2", b"\0\xff\r\n<script>".to_vec()),
        ("4", vec![b'x'; 1000]),
        ("004", vec![b'x'; 1000]),
    ] {
        let answer = body(n).await;
        assert_eq!(
            (answer.status, answer.header("Content-Type")),
            (200, Some("text/plain"))
        );
        assert_eq!(answer.body, expected, "{n}");
    }
    for n in [
        "0",
        "1",
        "3",
        "5",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        refused(&body(n).await, 404, "not found");
    }
    server.stop().await;
}
