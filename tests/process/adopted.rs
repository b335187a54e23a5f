//! Keys of another server: in lists, across a kill and a restart, and in a backup.

use std::path::Path;

use overdue::domain::adopted::{Adopted, ForeignSecret, HashedKey};
use overdue::domain::ids::{KeyId, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::project::{Key, KeyLabel, Secret};
use overdue::store::{Medium, Store};

use crate::client::Client;
use crate::process::{Server, admin, overdue, run, workplace};

const KEY: &str = "hcw_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Adds a key that another server made to project 1.
fn adopt(data: &Path) {
    let secret = ForeignSecret::parse("s3cret").unwrap();
    let (adopted, number) = Adopted::default().with(&secret).unwrap();
    let store = Store::open(&Medium::Directory(data.into())).unwrap();
    let batch = store.batch().unwrap();
    batch.set_adopted(&adopted).unwrap();
    let (id, label, hint, created) = (KeyId(1 << 40), KeyLabel::default(), "hcw_".into(), Moment::from_secs(1));
    let secret = Secret::Hashed(HashedKey { read_only: false, secret: number, digest: secret.digest(KEY.as_bytes()) });
    batch.put_key(&Key { id, project: ProjectId(1), secret, label, hint, created, used: None }).unwrap();
    batch.commit().unwrap();
}

fn status(server: &Server) -> u16 {
    Client::connect(server.address).unwrap().get("/api/v3/checks/", KEY).unwrap().status
}

#[test]
fn a_key_of_another_server_survives_its_first_use_a_kill_and_a_restore() {
    let (directory, data) = workplace();
    admin(&data, &["project", "create", "main"]);
    adopt(&data);
    let is_new = |data: &Path| {
        let (text, json) = (admin(data, &["key", "list"]), admin(data, &["key", "list", "--json"]));
        let words = "not used since the import";
        assert_eq!(text.contains(words), json.contains(&format!(r#""note":"{words}""#)), "{text} {json}");
        assert!(!format!("{text}{json}").contains("s3cret"));
        text.contains(words)
    };
    assert!(is_new(&data));
    let file = directory.path().join("a.backup");
    let file = file.to_str().unwrap();
    run(overdue(&["backup", file]).arg("--data").arg(&data));
    // Whether or not its first use was written.
    let mut server = Server::start(&data);
    assert_eq!(status(&server), 200);
    server.kill();
    let server = Server::start(&data);
    assert_eq!(status(&server), 200);
    server.stop();
    assert!(!is_new(&data));
    let server = Server::start(&data);
    assert_eq!(status(&server), 200);
    server.stop();
    // A backup has what keys need.
    let elsewhere = directory.path().join("elsewhere");
    run(overdue(&["restore", file]).arg("--data").arg(&elsewhere));
    assert!(is_new(&elsewhere));
    let server = Server::start(&elsewhere);
    assert_eq!(status(&server), 200);
    server.stop();
}
