//! Secrets that read-only users do not see: keys, and URLs that suffice to send a message.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::engine::command::{Command, DeliveryReport, SendOutcome};
use serde_json::json;

use super::browser::{make, owner, server, signed_in};
use super::{project_uuid, visible_text};
use crate::support::server::{TestResponse, TestServer};

async fn reader(server: &TestServer) {
    make(
        server,
        "eve",
        Grant::Projects(ProjectMemberships::new([(
            server.main.id,
            Membership::ReadOnly,
        )])),
    )
    .await;
}

#[tokio::test]
async fn read_only_users_see_no_ping_key() {
    let server = server().await;
    owner(&server, "ann").await;
    reader(&server).await;
    let check = server
        .create_check(json!({ "name": "my first check", "slug": "first" }))
        .await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut ann = signed_in(&server, "ann").await;
    let mut eve = signed_in(&server, "eve").await;
    let by_slug = format!("/checks/{check}/details/?by=slug");
    let shown = ann.get(&by_slug).await;
    assert!(shown.text().contains(&server.main.ping_key), "{shown:?}");
    assert!(
        shown
            .header("Cache-Control")
            .unwrap()
            .starts_with("no-store")
    );
    let seen = eve.get(&by_slug).await;
    assert!(
        seen.status == 200 && !seen.text().contains("by=slug\""),
        "{seen:?}"
    );
    server
        .send(
            "POST",
            &format!("/ping/{}/first", server.main.ping_key),
            &[],
            b"output",
        )
        .await;
    let project = project_uuid(&server);
    let pages = [
        "checks/",
        "checks/?q=first",
        "integrations/",
        "badges/",
        "settings/",
    ]
    .map(|page| format!("/projects/{project}/{page}"));
    let of_check = ["details/", "details/?by=slug", "log/", "pings/1/"]
        .map(|page| format!("/checks/{check}/{page}"));
    let others = [
        format!("/projects/{project}/checks/events/?since=0"),
        "/".to_owned(),
        "/account/".to_owned(),
    ];
    for path in pages.iter().chain(&of_check).chain(&others) {
        let seen = eve.get(path).await;
        assert!(
            seen.status < 400 && !seen.text().contains(&server.main.ping_key),
            "{path}: {seen:?}"
        );
    }
    for path in [
        "/checks/",
        "/channels/",
        "/badges/",
        &format!("/checks/{check}"),
        &format!("/checks/{check}/pings/"),
    ] {
        let seen = server
            .send(
                "GET",
                &format!("/api/v3{path}"),
                &[("X-Api-Key", &server.main.read_only_key)],
                b"",
            )
            .await;
        assert!(
            !seen.text().contains(&server.main.ping_key),
            "{path}: {seen:?}"
        );
    }
    assert_eq!(
        eve.get(&format!("/projects/{project}/export.toml"))
            .await
            .status,
        403
    );
    // Pages with a key are not cached.
    let settings = ann.get(&format!("/projects/{project}/settings/")).await;
    assert!(
        settings.text().contains(&server.main.ping_key)
            && settings
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store")
    );
    server.stop().await;
}

#[tokio::test]
async fn lists_show_the_destination_of_a_channel_without_secrets() {
    let server = server().await;
    owner(&server, "ann").await;
    reader(&server).await;
    let webhook =
        json!({ "down-url": "https://hooks.example.com:8443/v1/SECRET-TOKEN?key=topsecret" });
    let up = json!({ "up-url": "https://up.example.com/SECRET-TOKEN", "method": "PUT" });
    let made = [
        (
            "webhook",
            webhook,
            "https://hooks.example.com:8443",
            "https://hooks.example.com:8443",
        ),
        (
            "webhook",
            up,
            "https://up.example.com",
            "https://up.example.com",
        ),
        (
            "slack",
            json!({ "url": "https://hooks.slack.com/services/T0/B0/SECRET-TOKEN" }),
            "https://hooks.slack.com",
            "https://hooks.slack.com",
        ),
        (
            "ntfy",
            json!({ "topic": "SECRET-topic" }),
            "https://ntfy.sh",
            "https://ntfy.sh",
        ),
        (
            "email",
            json!({ "to": "ann@example.org" }),
            "ann@example.org",
            "ann@example.org",
        ),
    ];
    let mut uuids = Vec::new();
    for (number, (kind, settings, ..)) in made.iter().enumerate() {
        let body =
            json!({ "kind": kind, "name": format!("channel {number}"), "settings": settings });
        let answer = server
            .extension_api("POST", "/channels", &body.to_string())
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        uuids.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    let check = server.create_check(json!({ "channels": "*" })).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    let mut ann = signed_in(&server, "ann").await;
    let mut eve = signed_in(&server, "eve").await;
    let all = visible_text(ann.get(&list).await.text());
    let seen = visible_text(eve.get(&list).await.text());
    for (number, (_, _, to_ann, to_eve)) in made.iter().enumerate() {
        let row = |text: &str| {
            text.split(&format!("channel {number} "))
                .nth(1)
                .unwrap()
                .split(" of 1 check ")
                .next()
                .unwrap()
                .to_owned()
        };
        assert!(
            row(&all).contains(&format!(" {to_ann} ")),
            "{number}: {all}"
        );
        assert!(
            row(&seen).contains(&format!(" {to_eve} ")),
            "{number}: {seen}"
        );
    }
    assert!(
        !all.contains("SECRET-TOKEN") && !all.contains("topsecret"),
        "{all}"
    );
    for path in [
        list,
        format!("/checks/{check}/details/"),
        format!("/checks/{check}/log/"),
    ] {
        let page = eve.get(&path).await;
        assert!(
            !page.text().contains("SECRET") && !page.text().contains("topsecret"),
            "{path}: {page:?}"
        );
    }
    // Users who may change a channel see its URL in the form, which is not cached. A secret stays
    // masked.
    let form = ann.get(&format!("/integrations/{}/edit/", uuids[0])).await;
    assert!(
        form.text().contains("SECRET-TOKEN")
            && form
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store"),
        "{form:?}"
    );
    assert_eq!(
        eve.get(&format!("/integrations/{}/edit/", uuids[0]))
            .await
            .status,
        403
    );
    let path = format!("/channels/{}", uuids[2]);
    let settings = server.extension_api("GET", &path, "").await.json()["settings"].clone();
    assert_eq!(settings["url"], "https://hooks.slack.com/***");
    assert_eq!(
        server
            .extension_api(
                "PUT",
                &path,
                &json!({ "name": "same", "settings": settings }).to_string()
            )
            .await
            .status,
        200
    );
    let kept = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .channels
            .values()
            .any(|channel| {
                channel.name.as_str() == "same"
                    && channel.settings.get("url")
                        == Some("https://hooks.slack.com/services/T0/B0/SECRET-TOKEN")
            })
    });
    assert!(kept);
    server.stop().await;
}

#[tokio::test]
async fn read_only_users_see_no_text_of_a_receiver() {
    let server = server().await;
    owner(&server, "ann").await;
    reader(&server).await;
    let mut ann = signed_in(&server, "ann").await;
    let mut eve = signed_in(&server, "eve").await;
    let extension_path = |path: &str| format!("/api/overdue/v1{path}");
    let mut pages = vec![extension_path("/channels"), extension_path("/deliveries")];
    let project = project_uuid(&server);
    let mut seen_by_nobody = vec![
        "/api/v3/checks/".to_owned(),
        "/api/v3/channels/".to_owned(),
        "/".to_owned(),
    ];
    seen_by_nobody.extend(
        ["checks/", "checks/events/?since=0", "badges/"]
            .map(|page| format!("/projects/{project}/{page}")),
    );
    for (number, (what, words)) in [
        ("failing", "the answer was 500"),
        ("given up", "ann@example.org: the mail server said 550"),
        ("disabled", "exit status 127"),
        ("tested", "the answer was 404"),
    ]
    .into_iter()
    .enumerate()
    {
        let reason = format!("{words}: bad token SECRET\\u0041 SECRET{number}");
        let channel = server.channel(&server.main, what).await;
        let id = server.number_of(&server.main, &channel);
        let check = server
            .create_check(json!({ "name": what, "channels": channel }))
            .await;
        let uuid = check["uuid"].as_str().unwrap();
        if what == "tested" {
            server
                .handle
                .call(Command::RecordChannelTest(DeliveryReport::of_test(
                    id,
                    SendOutcome::Failed(reason.as_str().into()),
                    404,
                )))
                .await
                .unwrap()
                .unwrap();
        } else {
            server.get(&format!("/ping/{uuid}/fail")).await;
            let reason = reason.as_str().into();
            let sent = match what {
                "failing" => SendOutcome::Retry {
                    reason,
                    may_have_arrived: false,
                },
                "given up" => SendOutcome::Failed(reason),
                _ => SendOutcome::ChannelRejected(reason),
            };
            server.sent(id, sent, 500).await;
            pages.push(format!("/checks/{uuid}/details/"));
        }
        pages.push(extension_path(&format!("/channels/{channel}")));
        pages.push(extension_path(&format!("/channels/{channel}/deliveries")));
        pages.push(extension_path(&format!("/checks/{uuid}/deliveries")));
        seen_by_nobody.push(format!("/checks/{uuid}/log/"));
    }
    let failing = server.channel(&server.main, "spare").await;
    let id = server.number_of(&server.main, &failing);
    server
        .handle
        .call(Command::RecordChannelTest(DeliveryReport::of_test(
            id,
            SendOutcome::Failed("the answer was 502: SECRET".into()),
            0,
        )))
        .await
        .unwrap()
        .unwrap();
    let group = json!({ "kind": "group", "name": "all", "settings": { "channels": failing } });
    let group = server
        .extension_api("POST", "/channels", &group.to_string())
        .await;
    pages.push(extension_path(&format!(
        "/channels/{}",
        group.json()["id"].as_str().unwrap()
    )));
    pages.push(format!("/projects/{project}/integrations/"));
    let mut shown_to_ann = 0;
    for path in pages.iter().chain(&seen_by_nobody) {
        let all = if path.starts_with("/api/") {
            // A read-only key does not give access to channels and deliveries.
            let seen = server
                .keyed(&server.main.read_only_key, "GET", path, "")
                .await;
            assert!(
                matches!(seen.status, 200 | 401) && !seen.text().contains("SECRET"),
                "{path}: {seen:?}"
            );
            server
                .keyed(&server.main.read_write_key, "GET", path, "")
                .await
        } else {
            ann.get(path).await
        };
        let seen = if path.starts_with("/api/") {
            None
        } else {
            Some(eve.get(path).await)
        };
        let is_kept = |seen: &TestResponse| {
            seen.status < 400 && !seen.text().contains("SECRET") && !seen.text().contains("token")
        };
        assert!(seen.as_ref().is_none_or(is_kept), "{path}: {seen:?}");
        if !all.text().contains("SECRET") {
            continue;
        }
        shown_to_ann += 1;
        assert!(!seen_by_nobody.contains(path), "{path}: {all:?}");
        let is_told = [
            "the answer was 50",
            "the answer was 404",
            "the mail server said 550",
            "exit status 127",
        ];
        let is_told = |seen: &TestResponse| is_told.iter().any(|words| seen.text().contains(words));
        assert!(seen.as_ref().is_none_or(is_told), "{path}: {seen:?}");
    }
    assert!(shown_to_ann >= 12, "{shown_to_ann} of {}", pages.len());
    server.stop().await;
}
