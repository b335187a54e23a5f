//! Keys of another server: in lists, across a kill and a restart, and in a backup.

use std::path::Path;

use overdue::domain::ids::{KeyId, ProjectId};
use overdue::domain::legacy_keys::{LegacyKey, LegacySecret, LegacySecrets};
use overdue::domain::project::{KeyLabel, KeySecret, ProjectKey};
use overdue::domain::timestamp::Timestamp;
use overdue::store::{Medium, Store};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

const KEY: &str = "hcw_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Adds a key of another server to project 1.
fn adopt(data: &Path) {
    let secret = LegacySecret::parse("s3cret").unwrap();
    let (adopted, number) = LegacySecrets::default().with_secret(&secret).unwrap();
    let store = Store::open(&Medium::Directory(data.into())).unwrap();
    let batch = store.batch().unwrap();
    batch.set_legacy_secrets(&adopted).unwrap();
    let id = KeyId(1 << 40);
    let label = KeyLabel::default();
    let hint = "hcw_".into();
    let created = Timestamp::from_secs(1);
    let secret = KeySecret::Legacy(LegacyKey {
        read_only: false,
        secret_number: number,
        digest: secret.digest_key(KEY.as_bytes()),
    });
    batch
        .put_key(&ProjectKey {
            id,
            project: ProjectId(1),
            secret,
            label,
            hint,
            created,
            last_use: None,
        })
        .unwrap();
    batch.commit().unwrap();
}

fn status(server: &ServerProcess) -> u16 {
    HttpClient::connect(server.address)
        .unwrap()
        .get("/api/v3/checks/", KEY)
        .unwrap()
        .status
}

#[test]
fn a_key_of_another_server_survives_its_first_use_a_kill_and_a_restore() {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    adopt(&data);
    let is_new = |data: &Path| {
        let text = admin(data, &["key", "list"]);
        let json = admin(data, &["key", "list", "--json"]);
        let words = "not used since the import";
        assert_eq!(
            text.contains(words),
            json.contains(&format!(r#""note":"{words}""#)),
            "{text} {json}"
        );
        assert!(!format!("{text}{json}").contains("s3cret"));
        text.contains(words)
    };
    assert!(is_new(&data));
    let file = directory.path().join("a.backup");
    let file = file.to_str().unwrap();
    run(overdue(&["backup", file]).arg("--data").arg(&data));
    // Whether or not its first use was written.
    let mut server = ServerProcess::start(&data);
    assert_eq!(status(&server), 200);
    server.kill();
    let server = ServerProcess::start(&data);
    assert_eq!(status(&server), 200);
    server.stop();
    assert!(!is_new(&data));
    let server = ServerProcess::start(&data);
    assert_eq!(status(&server), 200);
    server.stop();
    // A backup contains the data that keys need.
    let elsewhere = directory.path().join("elsewhere");
    run(overdue(&["restore", file]).arg("--data").arg(&elsewhere));
    assert!(is_new(&elsewhere));
    let server = ServerProcess::start(&elsewhere);
    assert_eq!(status(&server), 200);
    server.stop();
}
