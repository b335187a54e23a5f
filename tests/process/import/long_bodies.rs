//! Long bodies of an old server with a raised limit: they are imported in full, up to our
//! maximum length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::healthchecks::import;
use crate::client::HttpClient;
use crate::server_process::{ServerProcess, overdue, run, temp_data_directory};

const KEY: &str = "AAAAAAAAAAAAAAAAplain-key_123456";
const CHECK: &str = "00000000-0000-4000-8000-000000000001";
const AT: &str = "2024-06-01T12:00:00.123Z";
const MAX_BODY: usize = 33_554_432;

/// Bytes without short repetition, from an offset.
fn body(len: usize, from: u64) -> Vec<u8> {
    (from..)
        .take(len)
        .map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn dump(bodies: &[Vec<u8>]) -> String {
    let user = json!({
        "password": "!", "is_superuser": false, "username": "a", "email": "a@example.org",
        "is_active": true, "date_joined": AT,
    });
    let mut rows = vec![
        json!({ "model": "auth.user", "pk": 1, "fields": user }),
        json!({
            "model": "accounts.project", "pk": 1,
            "fields": {
                "code": "91c1bbb0-ad72-4e9a-b98c-06d289da5ad9", "name": "Home", "owner": 1,
                "api_key": KEY, "api_key_readonly": "", "badge_key": "b", "ping_key": null,
                "show_slugs": false,
            },
        }),
        json!({
            "model": "api.check", "pk": 1,
            "fields": {
                "name": "long", "slug": "long", "tags": "", "code": CHECK, "desc": "", "project": 1,
                "created": AT, "kind": "simple", "timeout": "1 00:00:00", "grace": "01:00:00",
                "schedule": "", "tz": "UTC", "filter_subject": false, "filter_body": false,
                "filter_http_body": false, "filter_default_fail": false, "start_kw": "",
                "success_kw": "", "failure_kw": "", "methods": "", "manual_resume": false,
                "badge_key": "00000000-0000-4000-9000-000000000001", "n_pings": bodies.len(),
                "last_ping": AT, "last_start": null, "last_start_rid": null, "last_duration": null,
                "status": "paused",
            },
        }),
    ];
    for (n, body) in (1..).zip(bodies) {
        rows.push(json!({
            "model": "api.ping", "pk": n,
            "fields": {
                "n": n, "owner": 1, "created": AT, "kind": "", "scheme": "http",
                "remote_addr": null, "method": "POST", "ua": "", "body_raw": STANDARD.encode(body),
                "object_size": null, "exitstatus": null, "rid": null,
            },
        }));
    }
    Value::Array(rows).to_string()
}

/// Imports bodies of these lengths, with or without a server on the database, and reads each from
/// the server. Returns the counts of the report.
fn import_bodies(lengths: &[usize], is_served: bool) -> Value {
    let (directory, data) = temp_data_directory();
    let source = directory.path().join("hc.json");
    let bodies: Vec<_> = (1_u64..)
        .zip(lengths)
        .map(|(n, len)| body(*len, n << 32))
        .collect();
    std::fs::write(&source, dump(&bodies)).unwrap();
    let running = is_served.then(|| ServerProcess::start(&data));
    let done = import(&data, &source, &["--trial", "--json"]);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let server = running.unwrap_or_else(|| ServerProcess::start(&data));
    let mut client = HttpClient::connect(server.address).unwrap();
    for (n, body) in (1..).zip(&bodies) {
        let answer = client
            .get(&format!("/api/v3/checks/{CHECK}/pings/{n}/body"), KEY)
            .unwrap();
        let expected = &body[..body.len().min(MAX_BODY)];
        assert!(
            answer.status == 200 && answer.body == expected,
            "ping {n}: {} of {} bytes",
            answer.body.len(),
            expected.len()
        );
    }
    server.stop();
    let verified = run(overdue(&["verify", "--data"]).arg(&data));
    assert_eq!(verified.status, 0, "{}{}", verified.out, verified.err);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    report["counts"]["bodies"].clone()
}

#[test]
fn the_longest_bodies_are_imported_completely_and_longer_ones_are_cut_and_counted() {
    let notes = json!([{ "count": 1, "text": "longer than 33554432 bytes, truncated" }]);
    let expected = json!({ "source": 3, "carried": 3, "changed": 1, "dropped": 0, "notes": notes });
    assert_eq!(import_bodies(&[5, MAX_BODY, MAX_BODY + 1], true), expected);
    let expected = json!({ "source": 3, "carried": 3, "changed": 0, "dropped": 0, "notes": [] });
    assert_eq!(
        import_bodies(&[(1 << 20) + 1, 300_000, 3 << 20], false),
        expected
    );
}
