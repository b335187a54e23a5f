//! Random bodies for create and update: never a 5xx, and a refused body changes nothing.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::path;
use crate::support::server::TestServer;

const FIELDS: [&str; 22] = [
    "api_key",
    "channels",
    "desc",
    "failure_kw",
    "filter_body",
    "filter_default_fail",
    "filter_http_body",
    "filter_subject",
    "grace",
    "manual_resume",
    "methods",
    "name",
    "schedule",
    "slug",
    "start_kw",
    "subject",
    "subject_fail",
    "success_kw",
    "tags",
    "timeout",
    "tz",
    "unique",
];

/// Values of every type. Some are valid for a field.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..100_000_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(?s).{0,120}".prop_map(Value::from),
        "[a-z0-9_,*-]{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "POST",
            "*",
            "UTC",
            "Europe/Riga",
            "* * * * *",
            "0 0 30 2 *",
            "Mon 10:00",
            "name",
            "timeout"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{0,3}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A document, unchanged or with one byte changed, removed or repeated.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        4 => prop::sample::select(FIELDS.as_slice()).prop_map(str::to_owned),
        1 => ".{0,4}",
    ];
    let object = prop::collection::hash_map(name, value(), 0..5).prop_map(|map| json!(map));
    let document = prop_oneof![8 => object, 1 => value()];
    (document, any::<prop::sample::Index>(), any::<u8>(), 0..8).prop_map(
        |(document, at, byte, change)| {
            let mut bytes = document.to_string().into_bytes();
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, bytes[at]),
                2 => drop(bytes.remove(at)),
                3 => bytes.truncate(at),
                _ => {}
            }
            bytes
        },
    )
}

#[test]
fn no_body_causes_a_server_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::start());
    let check = runtime.block_on(server.create_check(json!({ "name": "kept" })));
    let addresses = ["v1", "v3"]
        .map(|version| {
            [
                format!("/api/{version}/checks/"),
                format!("/api/{version}{}", path(&check, "")),
            ]
        })
        .concat();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let outcome = runner.run(
        &(body(), prop::sample::select(addresses)),
        |(body, address)| {
            let before = server.changes();
            let answer = runtime.block_on(server.send(
                "POST",
                &address,
                &[("X-Api-Key", &server.main.read_write_key)],
                &body,
            ));
            let accepted = matches!(answer.status, 200 | 201);
            prop_assert!(accepted || answer.status == 400, "{answer:?}");
            prop_assert_eq!(server.changes() - before, u64::from(accepted));
            prop_assert!(accepted || answer.json()["error"].is_string());
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("{error}");
    }
    runtime.block_on(server.stop());
}
