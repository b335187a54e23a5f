//! `/checks/<uuid>/flips/`: which flips are listed, and the filters.

use overdue::domain::ping::PingKind;
use overdue::engine::command::CommandOutcome;
use serde_json::{Value, json};

use super::{path, refused, text};
use crate::support::commands::ping;
use crate::support::server::{START, TestServer};

/// Flips of a check as seconds from the start of the test. Flips to down are negative.
async fn flips(server: &TestServer, check: &Value, query: &str) -> Vec<i64> {
    let answer = server
        .api("GET", &path(check, &format!("/flips/{query}")), "")
        .await;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    let flips = answer.json();
    let seconds = |flip: &Value| {
        assert_eq!(flip.as_object().unwrap().len(), 2);
        let text = flip["timestamp"].as_str().unwrap();
        assert!(text.ends_with("+00:00"));
        let at = text.parse::<jiff::Timestamp>().unwrap().as_second() - START.secs();
        if flip["up"] == 1 { at } else { -at }
    };
    flips.as_array().unwrap().iter().map(seconds).collect()
}

#[tokio::test]
async fn only_changes_between_up_and_down_are_shown() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 60 }))
        .await;
    server.ping(&check, "").await;
    assert_eq!(
        flips(&server, &check, "").await,
        [0; 0],
        "new to up is none"
    );
    for (seconds, rest, expected) in [
        (10, "/fail", vec![-10]),
        (10, "/fail", vec![-10]),
        (10, "/log", vec![-10]),
        (0, "/start", vec![-10]),
        (10, "", vec![40, -10]),
        (10, "", vec![40, -10]),
        // No ping: the flip has the time of the deadline.
        (500, "/log", vec![-170, 40, -10]),
        (0, "", vec![550, -170, 40, -10]),
    ] {
        server.clock.advance_secs(seconds);
        server.ping(&check, rest).await;
        assert_eq!(
            flips(&server, &check, "").await,
            expected,
            "{seconds} {rest}"
        );
    }
    for action in ["/pause", "/resume", "/pause"] {
        server.api("POST", &path(&check, action), "").await;
    }
    server.ping(&check, "/fail").await;
    assert_eq!(
        flips(&server, &check, "").await,
        [550, -170, 40, -10],
        "pause and resume are none, nor what follows them"
    );
    server.stop().await;
}

#[tokio::test]
async fn filters_compare_the_exact_moment_and_combine() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    server.ping(&check, "").await;
    let start = START.secs();
    for (micros, rest) in [
        (10_000_000, "/fail"),
        (20_500_000, ""),
        (30_000_000, "/fail"),
    ] {
        server.clock.set(START.plus_micros(micros));
        server.ping(&check, rest).await;
    }
    server.clock.set(START.plus_secs(40));
    for (query, expected) in [
        (String::new(), vec![-30, 20, -10]),
        ("?seconds=&x=y".to_owned(), vec![-30, 20, -10]),
        (format!("?start={}", start + 10), vec![-30, 20, -10]),
        (format!("?start={}", start + 11), vec![-30, 20]),
        (format!("?start={}", start + 20), vec![-30, 20]),
        (format!("?start={}", start + 21), vec![-30]),
        (format!("?start=000{}", start + 31), vec![]),
        (format!("?end={}", start + 30), vec![20, -10]),
        (format!("?end={}", start + 20), vec![-10]),
        (format!("?end={}", start + 10), vec![]),
        ("?end=0".to_owned(), vec![]),
        (
            "?start=0&end=10000000000&seconds=31536000".to_owned(),
            vec![-30, 20, -10],
        ),
        ("?seconds=10".to_owned(), vec![-30]),
        ("?seconds=9".to_owned(), vec![]),
        ("?seconds=0".to_owned(), vec![]),
        ("?seconds=20".to_owned(), vec![-30, 20]),
        (
            format!("?seconds=20&start={}&end={}", start, start + 30),
            vec![20],
        ),
        (format!("?seconds=5&start={start}"), vec![]),
        (format!("?start={}&end={}", start + 30, start + 20), vec![]),
    ] {
        assert_eq!(flips(&server, &check, &query).await, expected, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn older_versions_wrap_the_array_in_an_object() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    server.ping(&check, "").await;
    server.ping(&check, "/fail").await;
    let flips = json!([{ "timestamp": "2026-11-20T10:00:00+00:00", "up": 0 }]);
    let unique = server
        .keyed(
            &server.main.read_only_key,
            "GET",
            &format!("/api/v3{}", path(&check, "")),
            "",
        )
        .await
        .json();
    let paths = [
        path(&check, "/flips/"),
        path(&check, "/flips"),
        format!("/checks/{}/flips/", text(&unique, "unique_key")),
    ];
    for path in paths {
        for (version, expected) in [
            ("v1", json!({ "flips": flips })),
            ("v2", json!({ "flips": flips })),
            ("v3", flips.clone()),
        ] {
            let answer = server
                .keyed(
                    &server.main.read_only_key,
                    "GET",
                    &format!("/api/{version}{path}"),
                    "",
                )
                .await;
            assert_eq!(
                (answer.status, answer.json()),
                (200, expected),
                "{version} {path}"
            );
        }
        let none = server
            .keyed(
                &server.main.read_only_key,
                "GET",
                &format!("/api/v1{path}?end=0"),
                "",
            )
            .await;
        assert_eq!(none.json(), json!({ "flips": [] }), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn one_invalid_value_refuses_the_request() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    for value in [
        "",
        "abc",
        "-1",
        "+1",
        "1.5",
        "1.0",
        "1e3",
        "%201",
        "0x10",
        "%ff",
        "%D9%A1",
        "10000000001",
        "99999999999999999999",
        "-0",
        "1,2",
        "1_000",
    ] {
        for name in ["start", "end", "seconds"] {
            let status = if (name, value) == ("seconds", "") {
                200
            } else {
                400
            };
            for query in [
                format!("{name}={value}"),
                format!("seconds=1&{name}={value}&end=5"),
            ] {
                let answer = server
                    .api("GET", &path(&check, &format!("/flips/?{query}")), "")
                    .await;
                assert_eq!(answer.status, status, "{query}");
            }
        }
    }
    let answer = server
        .api("GET", &path(&check, "/flips/?seconds=31536001"), "")
        .await;
    refused(
        &answer,
        400,
        "seconds is not a whole number from 0 to 31536000",
    );
    assert_eq!(
        server
            .api("GET", &path(&check, "/flips/?%ff=x&Start=x"), "")
            .await
            .status,
        200
    );
    server.stop().await;
}

#[tokio::test]
async fn many_flips_are_sent_in_chunks() {
    const MANY: usize = 5000;
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let uuid: u128 = text(&check, "uuid")
        .parse::<uuid::Uuid>()
        .unwrap()
        .as_u128();
    for _ in 0..MANY / 1000 {
        let kinds = (0..1000).map(|number| {
            if number % 2 == 0 {
                PingKind::Fail
            } else {
                PingKind::Success
            }
        });
        let answers: Vec<_> = kinds
            .map(|kind| server.handle.submit(ping(uuid, kind, "")).unwrap())
            .collect();
        for answer in answers {
            assert_eq!(answer.await.unwrap(), Ok(Ok(CommandOutcome::Pinged)));
        }
    }
    for (version, query, count) in [
        ("v3", "", MANY - 1),
        ("v2", "", MANY - 1),
        ("v3", "?end=1", 0),
    ] {
        let address = format!("/api/{version}{}", path(&check, &format!("/flips/{query}")));
        let answer = server
            .keyed(&server.main.read_write_key, "GET", &address, "")
            .await;
        let flips = answer.json();
        let flips = if version == "v3" {
            &flips
        } else {
            &flips["flips"]
        };
        let ups: Vec<_> = flips
            .as_array()
            .unwrap()
            .iter()
            .map(|flip| flip["up"].as_u64().unwrap())
            .collect();
        assert_eq!((answer.status, ups.len()), (200, count), "{address}");
        assert!(
            ups.iter()
                .enumerate()
                .all(|(place, up)| *up == 1 - place as u64 % 2)
        );
        assert_eq!(
            answer.header("transfer-encoding"),
            Some("chunked"),
            "{address}"
        );
    }
    server.stop().await;
}
