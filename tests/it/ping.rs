//! Ping URLs: forms, methods, refusals, and the stored data of a ping.

use overdue::domain::flip::FlipDirection;
use overdue::domain::ping::{Ping, PingKind};
use overdue::domain::status::VisibleStatus;
use overdue::operations;
use overdue::operations::project::ProjectChanges;

use crate::support::server::TestServer;

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Creates a check by its first ping. Returns its UUID.
async fn create_by_ping(server: &TestServer, slug: &str) -> uuid::Uuid {
    let answer = server
        .get(&format!("/ping/{}/{slug}?create=1", server.main.ping_key))
        .await;
    assert_eq!((answer.status, answer.text()), (201, "Created"));
    server.handle.with_state(|state| {
        state
            .checks()
            .find(|check| check.settings.slug.as_str() == slug)
            .unwrap()
            .uuid
    })
}

fn log(server: &TestServer, uuid: uuid::Uuid) -> Vec<Ping> {
    let check = server
        .handle
        .with_state(|state| state.check_by_uuid(uuid).unwrap().clone());
    server.handle.pings(&check).unwrap()
}

fn visible_status(server: &TestServer, uuid: uuid::Uuid) -> VisibleStatus {
    server.handle.with_state(|state| {
        let check = state.check_by_uuid(uuid).unwrap();
        check
            .state
            .visible_status(&check.settings, server.handle.now())
    })
}

#[tokio::test]
async fn a_ping_is_answered_ok_with_the_stored_body_limit() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    for (method, path) in [
        ("GET", "backup"),
        ("POST", "backup"),
        ("HEAD", "backup"),
        ("PUT", "backup/start"),
    ] {
        let answer = server
            .send(
                method,
                &format!("/ping/{}/{path}", server.main.ping_key),
                &[],
                b"",
            )
            .await;
        assert_eq!(
            (answer.status, answer.text()),
            (200, if method == "HEAD" { "" } else { "OK" }),
            "{method}"
        );
        assert_eq!(answer.header("Ping-Body-Limit"), Some("1000"));
        assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
        assert!(answer.header("Cache-Control").unwrap().contains("no-store"));
    }
    assert_eq!(server.get(&format!("/ping/{uuid}/")).await.status, 200);
    let methods: Vec<_> = log(&server, uuid)
        .iter()
        .map(|ping| (ping.n, ping.origin.method.name(), ping.kind))
        .collect();
    let expected = [
        (6, "GET"),
        (5, "PUT"),
        (4, "HEAD"),
        (3, "POST"),
        (2, "GET"),
        (1, "GET"),
    ];
    assert_eq!(
        methods,
        expected.map(|(n, method)| (
            n,
            method,
            if n == 5 {
                PingKind::Start
            } else {
                PingKind::Success
            }
        ))
    );
    server.stop().await;
}

#[tokio::test]
async fn a_browser_can_send_a_preflight_request() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    for path in [
        format!("/ping/{uuid}/fail"),
        format!("/ping/{}/backup", server.main.ping_key),
        format!("/ping/{}/x?create=1", server.main.ping_key),
    ] {
        let answer = server
            .send(
                "OPTIONS",
                &path,
                &[("Access-Control-Request-Method", "PUT")],
                b"",
            )
            .await;
        assert_eq!((answer.status, answer.text()), (204, ""), "{path}");
        assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
        assert_eq!(
            answer.header("Access-Control-Allow-Methods"),
            Some("GET, HEAD, POST, PUT, OPTIONS")
        );
    }
    assert_eq!(
        server.handle.with_state(|state| state
            .checks()
            .map(|check| check.state.n_pings)
            .collect::<Vec<_>>()),
        [1]
    );
    server.stop().await;
}

#[tokio::test]
async fn an_invalid_ping_is_refused_and_stores_nothing() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await.to_string();
    let key = server.main.ping_key.clone();
    let cases = [
        ("GET", format!("/ping/{UNKNOWN}"), 404, "not found"),
        ("GET", format!("/ping/{UNKNOWN}/256"), 404, "not found"),
        ("GET", format!("/ping/{UNKNOWN}?rid=x"), 404, "not found"),
        (
            "GET",
            format!("/ping/{}", uuid.to_uppercase()),
            404,
            "not found",
        ),
        (
            "GET",
            format!("/ping/{uuid}/256"),
            400,
            "invalid url format",
        ),
        ("GET", format!("/ping/{uuid}/-1"), 404, "not found"),
        (
            "GET",
            format!("/ping/{uuid}?rid="),
            400,
            "invalid uuid format",
        ),
        (
            "GET",
            format!("/ping/{uuid}?rid=%ff"),
            400,
            "invalid uuid format",
        ),
        (
            "GET",
            format!("/ping/{uuid}?rid=6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f"),
            400,
            "invalid uuid format",
        ),
        (
            "GET",
            format!("/ping/{key}/Backup"),
            400,
            "invalid url format",
        ),
        ("GET", format!("/ping/{key}/none"), 404, "not found"),
        (
            "GET",
            format!("/ping/{key}/none?create=true"),
            404,
            "not found",
        ),
        (
            "GET",
            format!("/ping/{key}/none?create=1&rid=x"),
            400,
            "invalid uuid format",
        ),
        (
            "GET",
            format!("/ping/{key}/none/300?create=1"),
            400,
            "invalid url format",
        ),
        (
            "GET",
            "/ping/AAAAAAAAAAAAAAAAAAAAAA/none?create=1".to_owned(),
            404,
            "not found",
        ),
        ("TRACE", format!("/ping/{uuid}"), 405, "method not allowed"),
        (
            "PATCH",
            format!("/ping/{key}/backup/fail"),
            405,
            "method not allowed",
        ),
        (
            "DELETE",
            format!("/ping/{key}/none?create=1"),
            405,
            "method not allowed",
        ),
        (
            "GET",
            format!("/ping/{uuid}?{}", "x".repeat(9000)),
            414,
            "the URL is too long",
        ),
    ];
    for (method, path, status, text) in cases {
        let answer = server.send(method, &path, &[], b"").await;
        assert_eq!(
            (answer.status, answer.text()),
            (status, text),
            "{method} {path}"
        );
        assert_eq!(
            answer.header("Allow"),
            (status == 405).then_some("GET, HEAD, POST, PUT, OPTIONS"),
            "{method} {path}"
        );
    }
    assert_eq!(
        server.handle.with_state(|state| state
            .checks()
            .map(|check| check.state.n_pings)
            .collect::<Vec<_>>()),
        [1]
    );
    server.stop().await;
}

#[tokio::test]
async fn bodies_of_every_transfer_coding_are_cut_at_the_limit() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    let body = |n| {
        let check = server
            .handle
            .with_state(|state| state.check_by_uuid(uuid).unwrap().clone());
        server.handle.body(&check, n).unwrap()
    };
    let long: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_le_bytes()[0])
        .collect();
    server
        .send("POST", &format!("/ping/{uuid}"), &[], b"\xff\0verbatim")
        .await;
    server
        .send("POST", &format!("/ping/{uuid}"), &[], &long)
        .await;
    let head = format!(
        "POST /ping/{uuid} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: \
         chunked\r\n\r\n"
    );
    server
        .raw(format!("{head}3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n").as_bytes())
        .await;
    assert_eq!(body(1), None);
    assert_eq!(body(2).as_deref(), Some(b"\xff\0verbatim".as_slice()));
    assert_eq!(body(3).as_deref(), Some(&long[..1000]));
    assert_eq!(body(4).as_deref(), Some(b"abcdefg".as_slice()));
    assert_eq!(body(5), None);
    let answer = server
        .send("POST", &format!("/ping/{uuid}"), &[], &vec![b'x'; 11 << 20])
        .await;
    assert_eq!(answer.status, 413);
    assert_eq!(log(&server, uuid).len(), 4);
    server.stop().await;
}

#[tokio::test]
async fn the_log_shows_where_a_ping_came_from() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    let rid = "6F3A0F6E-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    let agent = "ž".repeat(250);
    let headers = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-For", "2001:DB8::7, 127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
        ("User-Agent", agent.as_str()),
    ];
    server
        .send(
            "GET",
            &format!("/ping/{uuid}/fail?rid={rid}"),
            &headers,
            b"",
        )
        .await;
    let ping = log(&server, uuid).remove(0);
    assert_eq!(ping.origin.remote_addr.unwrap().to_string(), "2001:db8::7");
    assert_eq!(
        (ping.origin.scheme.name(), &*ping.origin.user_agent),
        ("https", "ž".repeat(200).as_str())
    );
    assert_eq!(ping.rid.unwrap().to_string(), rid.to_lowercase());
    assert_eq!(visible_status(&server, uuid), VisibleStatus::Down);
    let forwarded = [(
        "Forwarded",
        r#"for=6.6.6.6, for="[2001:db8::8]:80";proto=https, for=127.0.0.1"#,
    )];
    server
        .send("GET", &format!("/ping/{uuid}"), &forwarded, b"")
        .await;
    let origin = log(&server, uuid).remove(0).origin;
    assert_eq!(
        (
            origin.remote_addr.unwrap().to_string(),
            origin.scheme.name()
        ),
        ("2001:db8::8".to_owned(), "https")
    );
    server.stop().await;
}

#[tokio::test]
async fn the_log_keeps_the_exit_status() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    for (action, kind, exit) in [
        ("", PingKind::Success, None),
        ("/fail", PingKind::Fail, None),
        ("/0", PingKind::Success, Some(0)),
        ("/007", PingKind::Fail, Some(7)),
        ("/255", PingKind::Fail, Some(255)),
    ] {
        assert_eq!(
            server.get(&format!("/ping/{uuid}{action}")).await.status,
            200
        );
        let ping = log(&server, uuid).remove(0);
        assert_eq!((ping.kind, ping.exit_status), (kind, exit), "{action}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_missed_ping_takes_a_check_to_grace_and_down_on_time() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    server.clock.advance_secs(86_400);
    assert_eq!(visible_status(&server, uuid), VisibleStatus::Grace);
    server.clock.advance_secs(3_600 + 1);
    assert_eq!(visible_status(&server, uuid), VisibleStatus::Down);
    // The writer has noticed the deadline by itself: the flip exists and has the time of the
    // deadline.
    let flips = loop {
        let check = server
            .handle
            .with_state(|state| state.check_by_uuid(uuid).unwrap().clone());
        let flips = server
            .handle
            .flips(&check, overdue::domain::timestamp::Timestamp::default())
            .unwrap();
        if flips.len() == 2 {
            break flips;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        flips[0].at,
        crate::support::server::START.plus_secs(86_400 + 3_600)
    );
    assert_eq!(flips[0].direction(), Some(FlipDirection::Down));
    server.stop().await;
}

#[tokio::test]
async fn malformed_requests_end_their_own_connection_only() {
    let server = TestServer::start().await;
    let uuid = create_by_ping(&server, "backup").await;
    for (bytes, status) in [
        (
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
            400,
        ),
        (b"G\0T / HTTP/1.1\r\n\r\n".to_vec(), 400),
        (
            format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(101)).into_bytes(),
            431,
        ),
        (
            b"CONNECT example.org:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
            404,
        ),
        (
            b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
            404,
        ),
        (
            b"GET //ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
            404,
        ),
    ] {
        assert_eq!(
            server.raw(&bytes).await.status,
            status,
            "{:?}",
            String::from_utf8_lossy(&bytes[..40.min(bytes.len())])
        );
    }
    assert_eq!(server.get(&format!("/ping/{uuid}")).await.status, 200);
    assert_eq!(server.get("/healthz").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_ping_gives_settings_of_a_new_check_if_its_project_allows_them() {
    let server = TestServer::start().await;
    let hook = r#"{"kind":"webhook","name":"hook","settings":{"down-url":"http://127.0.0.1:1/"}}"#;
    for name in ["hook", "other"] {
        let answer = server
            .extension_api(
                "POST",
                "/channels",
                &hook.replace("hook\",\"s", &format!("{name}\",\"s")),
            )
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let ping = async |slug: &str, parameters: &str| {
        let path = format!(
            "/ping/{}/{slug}?create=1&{parameters}",
            server.main.ping_key
        );
        server.get(&path).await
    };
    let settings = |slug: &str| {
        server.handle.with_state(|state| {
            let found = state
                .checks()
                .find(|check| check.settings.slug.as_str() == slug);
            found.map(|check| std::sync::Arc::clone(&check.settings))
        })
    };
    let all = "schedule=30+3+*+*+*&tz=Europe/Riga&grace=15m&tags=nas+prod&channels=hook";
    assert_eq!(ping("closed", all).await.status, 201);
    let closed = settings("closed").unwrap();
    assert!(
        closed.schedule.is_none() && closed.channels.len() == 2,
        "{closed:?}"
    );
    assert_eq!(ping("closed-too", "grace=never").await.status, 201);

    let changes = ProjectChanges {
        allows_ping_settings: Some(true),
        ..ProjectChanges::default()
    };
    operations::project::update(&server.handle, server.main.id, changes)
        .await
        .unwrap();
    let answer = ping("open", all).await;
    assert_eq!((answer.status, answer.text()), (201, "Created"));
    let open = settings("open").unwrap();
    assert_eq!(
        (
            open.schedule.as_ref().map(|schedule| schedule.text()),
            open.tz.name(),
            open.grace.get(),
            open.tags.as_str(),
            open.channels.len(),
            open.name.as_str(),
        ),
        (
            Some("30 3 * * *"),
            "Europe/Riga",
            900,
            "nas prod",
            1,
            "open"
        )
    );
    assert_eq!(
        ping("simple", "timeout=90&grace=60&unknown=1").await.status,
        201
    );
    assert_eq!(settings("simple").unwrap().timeout.get(), 90);

    for (parameters, reason) in [
        (
            "grace=never",
            "grace: give a whole number of seconds from 60",
        ),
        ("timeout=59", "timeout: "),
        ("schedule=0+0+30+2+*", "schedule: "),
        ("tz=Nowhere", "tz: "),
        ("tags=%ff", "tags: it is not UTF-8 text"),
        ("channels=none", "channel"),
        (&format!("tags={}", "x".repeat(600)), "tags"),
    ] {
        let refused = ping("refused", parameters).await;
        assert!(
            refused.status == 400 && refused.text().contains(reason),
            "{parameters}: {refused:?}"
        );
        assert!(settings("refused").is_none(), "{parameters}");
        // A check that exists is pinged, whatever the parameters are.
        assert_eq!(ping("open", parameters).await.status, 200, "{parameters}");
    }
    assert_eq!(settings("open").unwrap(), open);
    server.stop().await;
}
