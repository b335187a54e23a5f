//! Pings by mail on pages, for users with and without write permission.

use overdue::domain::project::{KeyAccess, KeyLabel};
use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::engine::command::Command;
use overdue::operations::key;
use serde_json::json;
use uuid::Uuid;

use super::browser::{self, make, signed_in};
use crate::support::commands::email_ping;

#[tokio::test]
async fn read_only_users_see_no_ping_address() {
    let server = browser::server().await;
    let of_project =
        |membership| Grant::Projects(ProjectMemberships::new([(server.main.id, membership)]));
    make(&server, "bob", of_project(Membership::Member)).await;
    make(&server, "carol", of_project(Membership::ReadOnly)).await;
    let (_, ping_key) = key::create(
        &server.handle,
        server.main.id,
        KeyAccess::Ping,
        KeyLabel::default(),
    )
    .await
    .unwrap();
    let uuid: Uuid = server.create_check(json!({ "name": "mailed" })).await["uuid"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let address = format!("{ping_key}+mailed@hc.test");
    let mail = format!(
        "Delivered-To: {address}\r\nTo: {address}\r\nSubject: Backup {address}\r\n\r\ndisk \
         full\r\nsent to {address}\r\n"
    );
    server
        .handle
        .call(Command::Mail(vec![email_ping(
            uuid.as_u128(),
            "Backup",
            None,
            mail.clone(),
        )]))
        .await
        .unwrap()
        .unwrap();
    let page = format!("/checks/{uuid}/pings/1/");

    let mut bob = signed_in(&server, "bob").await;
    let shown = bob.get(&page).await;
    assert!(
        shown.text().contains("Show the source") && shown.text().contains(&*ping_key),
        "{shown:?}"
    );
    assert!(
        bob.get(&format!("{page}?source=1"))
            .await
            .text()
            .contains("Delivered-To")
    );
    let file = bob.get(&format!("{page}body/")).await;
    assert_eq!(
        (file.text(), file.header("Content-Disposition")),
        (mail.as_str(), Some("attachment; filename=\"ping-1.eml\""))
    );

    let mut carol = signed_in(&server, "carol").await;
    for path in [
        page.clone(),
        format!("{page}?source=1"),
        format!("{page}?all=1&escapes=1&source=1"),
        format!("{page}body/"),
    ] {
        let shown = carol.get(&path).await;
        assert!(
            shown.status == 200
                && shown.text().contains("disk full")
                && shown.text().contains("sent to ***+mailed@"),
            "{path}: {shown:?}"
        );
        assert!(
            !shown.text().contains(&*ping_key) && !shown.text().contains("Delivered-To"),
            "{path}: {shown:?}"
        );
        assert!(!shown.text().contains("Show the source"));
    }
    let file = carol.get(&format!("{page}body/")).await;
    assert_eq!(
        file.header("Content-Disposition"),
        Some("attachment; filename=\"ping-1.txt\"")
    );

    // A job that prints its own URL, as `set -x` does.
    server.get(&format!("/ping/{uuid}")).await;
    let printed = format!("+ curl https://hc.test/ping/{ping_key}/mailed\n");
    server
        .raw(
            format!(
                "POST /ping/{uuid} HTTP/1.1\r\nHost: localhost\r\nConnection: \
                 close\r\nContent-Length: {}\r\n\r\n{printed}",
                printed.len()
            )
            .as_bytes(),
        )
        .await;
    let last = format!("/checks/{uuid}/pings/3/");
    assert!(bob.get(&last).await.text().contains(&*ping_key));
    let shown = carol.get(&last).await;
    assert!(
        shown.text().contains("/ping/***/mailed") && !shown.text().contains(&*ping_key),
        "{shown:?}"
    );
    server.stop().await;
}
