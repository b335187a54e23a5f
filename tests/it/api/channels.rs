//! `/channels/`, and how checks are assigned to channels.

use overdue::engine::command::Command;
use serde_json::json;

use super::{path, refused};
use crate::support::server::{TestServer, new_project};

#[tokio::test]
async fn channels_are_listed_without_their_settings() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    server.channel(&other, "foreign").await;
    let mut expected = Vec::new();
    for name in ["Ops", "Ops", "", "Žofie, ☎"] {
        expected.push(json!({
            "id": server.channel(&server.main, name).await, "name": name, "kind": "email",
        }));
    }
    let answer = server.api("GET", "/channels/", "").await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "channels": expected }))
    );
    server.stop().await;
}

#[tokio::test]
async fn checks_are_assigned_by_uuid_or_name() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let foreign = server.channel(&other, "foreign").await;
    let mut ids = Vec::new();
    for name in ["hook", " hook", "twin", "twin", "comma,name", "*a", ""] {
        ids.push(server.channel(&server.main, name).await);
    }
    let sorted = |places: &[usize]| {
        let mut chosen: Vec<_> = places.iter().map(|place| ids[*place].as_str()).collect();
        chosen.sort_unstable();
        chosen.join(",")
    };
    let check = server.create_check(json!({})).await;
    for (channels, places) in [
        ("*".to_owned(), [0, 1, 2, 3, 4, 5, 6].as_slice()),
        (String::new(), &[]),
        ("hook".to_owned(), &[0]),
        (" hook,hook,hook".to_owned(), &[0, 1]),
        (format!("*a,{},{}", ids[4], ids[0]), &[0, 4, 5]),
        (format!("{},hook", ids[0]), &[0]),
        (ids.join(","), &[0, 1, 2, 3, 4, 5, 6]),
    ] {
        let body = json!({ "channels": channels }).to_string();
        for path in ["/checks/".to_owned(), path(&check, "")] {
            let assigned = server.api("POST", &path, &body).await.json();
            assert_eq!(assigned["channels"], sorted(places), "{channels}");
        }
        let kept = server
            .api("POST", &path(&check, ""), r#"{"name": "a"}"#)
            .await
            .json();
        assert_eq!(kept["channels"], sorted(places), "{channels}");
    }
    let before = server.changes();
    for (channels, message) in [
        ("hook,".to_owned(), "empty channel identifier".to_owned()),
        (",".to_owned(), "empty channel identifier".to_owned()),
        (
            "hook , ".to_owned(),
            "invalid channel identifier: hook ".to_owned(),
        ),
        (
            "twin".to_owned(),
            "non-unique channel identifier: twin".to_owned(),
        ),
        (
            "*,hook".to_owned(),
            "invalid channel identifier: *".to_owned(),
        ),
        (
            "hook,none,,twin".to_owned(),
            "invalid channel identifier: none".to_owned(),
        ),
        (
            "comma,name".to_owned(),
            "invalid channel identifier: comma".to_owned(),
        ),
        (
            ids[0].to_uppercase(),
            format!("invalid channel identifier: {}", ids[0].to_uppercase()),
        ),
        (
            foreign.clone(),
            format!("invalid channel identifier: {foreign}"),
        ),
        (
            "foreign".to_owned(),
            "invalid channel identifier: foreign".to_owned(),
        ),
    ] {
        let body = json!({ "name": "b", "channels": channels }).to_string();
        for path in ["/checks/".to_owned(), path(&check, "")] {
            refused(&server.api("POST", &path, &body).await, 400, &message);
        }
    }
    assert_eq!(server.changes(), before);
    let id = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .channels
            .values()
            .find(|one| one.uuid.to_string() == ids[0])
            .unwrap()
            .id
    });
    server
        .handle
        .call(Command::DeleteChannel(id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        server.now(&check).await["channels"],
        sorted(&[1, 2, 3, 4, 5, 6]),
        "a channel leaves its checks"
    );
    server.stop().await;
}
