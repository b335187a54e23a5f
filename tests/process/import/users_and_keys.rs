//! Users and keys of another server, imported at the command line: who may sign in, and the
//! permissions of the keys.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use overdue::domain::legacy_keys::LegacySecret;
use serde_json::{Value, json};

use super::healthchecks::import;
use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, temp_data_directory};

/// Hash of "password" by the reference implementation of Argon2, as Django stores it.
const ARGON2: &str =
    "argon2$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
const AT: &str = "2024-06-01T12:00:00.123Z";
const SECRET: &str = "s3cret-of-the-old-server";
const WRITES: &str = "hcw_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const READS: &str = "hcr_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A user of a dump: name, password, whether it is a superuser, and whether it is active.
type DumpedUser<'a> = (&'a str, &'a str, bool, bool);

/// A dump of one project of the first user, with roles of other members by their index, and with
/// these keys.
fn dump(users: &[DumpedUser<'_>], members: &[(usize, &str)], keys: [&str; 2]) -> String {
    let mut rows: Vec<Value> = Vec::new();
    for (pk, (name, password, is_superuser, is_active)) in (1..).zip(users) {
        rows.push(json!({
            "model": "auth.user", "pk": pk,
            "fields": {
                "password": password, "is_superuser": is_superuser, "username": name,
                "email": format!("{name}@example.org"), "is_active": is_active, "date_joined": AT,
            },
        }));
    }
    rows.push(json!({
        "model": "accounts.project", "pk": 1,
        "fields": {
            "code": "91c1bbb0-ad72-4e9a-b98c-06d289da5ad9", "name": "Home", "owner": 1,
            "api_key": keys[0], "api_key_readonly": keys[1], "badge_key": "b", "ping_key": null,
            "show_slugs": false,
        },
    }));
    for (pk, (user, role)) in (1..).zip(members) {
        let fields =
            json!({ "user": user + 1, "project": 1, "transfer_request_date": null, "role": role });
        rows.push(json!({ "model": "accounts.member", "pk": pk, "fields": fields }));
    }
    Value::Array(rows).to_string()
}

/// Creates a user with this password.
fn create(data: &Path, words: &[&str], password: &str) {
    let mut command = overdue(&[&["user", "create", "--password-stdin"], words].concat());
    let mut child = command
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(password.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

/// True if the password opens the dashboard.
fn signs_in(server: &ServerProcess, name: &str, password: &str) -> bool {
    let body = format!("name={}&password={password}", name.replace('@', "%40"));
    let head = "POST /login/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nSec-Fetch-Site: \
                same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let mut client = HttpClient::connect(server.address).unwrap();
    client
        .send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .unwrap();
    match client.receive().unwrap().status {
        303 => true,
        422 => false,
        status => panic!("{name}: {status}"),
    }
}

#[test]
fn users_keep_their_permissions_and_supported_password_hashes() {
    let (directory, data) = temp_data_directory();
    let source = directory.path().join("hc.json");
    let mut server = ServerProcess::start(&data);
    admin(&data, &["project", "create", "Here"]);
    create(
        &data,
        &["dora@example.org", "--member", "Here"],
        "battery staple",
    );
    let django = ARGON2.replace("m=256,t=2,p=1", "m=102400,t=2,p=8");
    let users = [
        ("ann", ARGON2, false, true),
        (
            "bob",
            "pbkdf2_sha256$1000000$salt$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=",
            false,
            true,
        ),
        ("carl", ARGON2, false, true),
        ("dora", ARGON2, false, true),
        ("eve", ARGON2, true, true),
        ("finn", ARGON2, false, false),
        ("gwen", &django, false, true),
    ];
    std::fs::write(
        &source,
        dump(
            &users,
            &[(1, "w"), (2, "r"), (3, "w"), (5, "w"), (6, "m")],
            ["", ""],
        ),
    )
    .unwrap();
    let done = import(&data, &source, &["--live", "--users", "--json"]);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&done.out).unwrap();
    let note = "without a usable password: create a link with overdue user link";
    assert_eq!(
        report["counts"]["users"],
        json!({
            "source": 7, "carried": 7, "changed": 2, "dropped": 0,
            "notes": [{ "count": 2, "text": note }],
        })
    );
    let users: Value = serde_json::from_str(&admin(&data, &["user", "list", "--json"])).unwrap();
    let access = |access: &str| json!({ "projects": [{ "project": "Home", "access": access }] });
    let both = json!({
        "projects": [
            { "project": "Here", "access": "member" },
            { "project": "Home", "access": "member" },
        ],
    });
    let expected = [
        ("ann", access("member"), "active"),
        ("bob", access("member"), "invited"),
        ("carl", access("read-only"), "active"),
        ("dora", both, "active"),
        ("eve", json!("owner"), "active"),
        ("finn", access("member"), "disabled"),
        ("gwen", access("member"), "invited"),
    ];
    for (name, grant, status) in expected {
        let user = users
            .as_array()
            .unwrap()
            .iter()
            .find(|user| user["name"] == format!("{name}@example.org"))
            .expect(name);
        assert_eq!(
            (&user["grant"], &user["status"]),
            (&grant, &json!(status)),
            "{name}"
        );
    }
    // First against the imported hash, then against our own.
    for _ in 0..2 {
        for (name, password, opens) in [
            ("ann", "password", true),
            ("ann", "passwore", false),
            ("bob", "password", false),
            ("carl", "password", true),
            ("dora", "password", false),
            ("dora", "battery+staple", true),
            ("eve", "password", true),
            ("finn", "password", false),
            ("gwen", "password", false),
        ] {
            assert_eq!(
                signs_in(&server, &format!("{name}@example.org"), password),
                opens,
                "{name} {password}"
            );
        }
        server.kill();
        server = ServerProcess::start(&data);
    }
    let link = admin(&data, &["user", "link", "bob@example.org"]);
    assert!(
        link.starts_with(&format!("http://{}/invite/", server.address)),
        "{link}"
    );
    server.stop();
}

/// Status of reading and of writing, first with the read-write key, then with the read-only key.
fn key_statuses(server: &ServerProcess) -> [[u16; 2]; 2] {
    let mut client = HttpClient::connect(server.address).unwrap();
    [WRITES, READS].map(|key| {
        let read = client.get("/api/v3/checks/", key).unwrap().status;
        [
            read,
            client
                .post_with("/api/v3/checks/", key, br#"{"name": ""}"#)
                .unwrap()
                .status,
        ]
    })
}

#[test]
fn keys_stored_as_digests_keep_their_access_only_with_the_right_secret() {
    let (directory, data) = temp_data_directory();
    let secret = LegacySecret::parse(SECRET).unwrap();
    let kept = [WRITES, READS].map(|key| {
        let digest = secret.digest_key(key.as_bytes());
        format!(
            "AAAAAAAA.{}",
            digest
                .0
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        )
    });
    let source = directory.path().join("hc.json");
    std::fs::write(
        &source,
        dump(&[("ann", "!", true, true)], &[], [&kept[0], &kept[1]]),
    )
    .unwrap();
    let file = directory.path().join("secret");
    let mut server = ServerProcess::start(&data);
    let unused = || {
        admin(&data, &["key", "list"])
            .matches("not used since the import")
            .count()
    };
    let by_secret = "hashed: they work if the old server used this SECRET_KEY";
    let without = "hashed: they need the SECRET_KEY of the old server; give it with --env-file or \
                   --secret-key-file";
    for (secret_given, carried, note, known, status) in [
        (None, 0, without, 0, [[401; 2]; 2]),
        (
            Some("s3cret-of-another-server"),
            2,
            by_secret,
            2,
            [[401; 2]; 2],
        ),
        (Some(SECRET), 2, by_secret, 2, [[200, 201], [200, 401]]),
    ] {
        std::fs::write(&file, secret_given.unwrap_or_default()).unwrap();
        let words = [
            "--live",
            "--json",
            "--secret-key-file",
            file.to_str().unwrap(),
        ];
        let done = import(
            &data,
            &source,
            if secret_given.is_some() {
                &words
            } else {
                &words[..2]
            },
        );
        assert_eq!(
            (done.status, done.err.as_str()),
            (0, ""),
            "{secret_given:?}"
        );
        let report: Value = serde_json::from_str(&done.out).unwrap();
        let count = &report["counts"]["api_keys"];
        assert_eq!(
            (&count["carried"], &count["notes"][0]),
            (&json!(carried), &json!({ "count": 2, "text": note })),
            "{secret_given:?}"
        );
        assert_eq!(unused(), known, "{secret_given:?}");
        assert_eq!(key_statuses(&server), status, "{secret_given:?}");
    }
    // Later sign-ins use our own hashes: after a kill, which may come before they are stored, and
    // after a stop.
    assert_eq!(key_statuses(&server), [[200, 201], [200, 401]]);
    server.kill();
    server = ServerProcess::start(&data);
    assert_eq!(key_statuses(&server), [[200, 201], [200, 401]]);
    server.stop();
    assert_eq!(unused(), 0);
    let server = ServerProcess::start(&data);
    assert_eq!(key_statuses(&server), [[200, 201], [200, 401]]);
    server.stop();
}
