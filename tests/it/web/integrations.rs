//! Channel pages.

use std::time::Duration;

use overdue::config;
use overdue::domain::alert::{Recipient, RecipientResult};
use overdue::domain::channel::Transports;
use overdue::engine::ChannelTestResult;
use overdue::engine::command::{Command, DeliveryReport, SendOutcome};
use overdue::operations;
use serde_json::{Value, json};

use super::browser::Browser;
use super::{browse, channel, post, project_uuid, visible_text};
use crate::config::{ALLOW_NONE, parse_document};
use crate::support::server::TestServer;

async fn channels(server: &TestServer) -> Vec<Value> {
    server.extension_api("GET", "/channels", "").await.json()["channels"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_channel_form_has_the_fields_of_its_kind() {
    let server = TestServer::start().await;
    for tags in ["nas", "nas prod", ""] {
        server.create_check(json!({ "tags": tags })).await;
    }
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    let empty = browse(&server, "GET", &list, &[]).await;
    assert!(
        visible_text(empty.text()).contains("No alerts are sent."),
        "{empty:?}"
    );
    assert!(
        empty.text().contains("/integrations/add/ntfy/") && !empty.text().contains("/add/shell/"),
        "pages make no commands"
    );
    assert_eq!(
        browse(&server, "GET", &format!("{list}add/shell/"), &[])
            .await
            .status,
        404
    );
    let add = format!("{list}add/webhook/");
    let form = browse(&server, "GET", &add, &[]).await;
    assert!(
        form.text().contains("name=\"header.NAME\"") && !form.text().contains("tls-pin"),
        "{form:?}"
    );
    let fields = [
        ("name", "hook"),
        ("up-url", "https://h.test/up"),
        ("header.NAME", "Authorization: Bearer hidden"),
        ("checks", "tag"),
        ("tag", "nas"),
    ];
    let wrong: Vec<_> = fields
        .iter()
        .copied()
        .filter(|(name, _)| *name != "up-url")
        .collect();
    let refused = post(&server, &add, &wrong).await;
    assert!(
        refused.status == 422 && visible_text(refused.text()).contains("there is no URL"),
        "{refused:?}"
    );
    assert!(refused.text().contains("value=\"hook\""));
    // Secrets have to be entered again only if there were any.
    let again = "Enter the secrets again.";
    assert!(!refused.text().contains(again), "{refused:?}");
    let with_secret = [&wrong[..], &[("secret", "hidden")]].concat();
    let refused = post(&server, &add, &with_secret).await;
    assert!(
        refused.status == 422 && refused.text().contains(again),
        "{refused:?}"
    );
    assert_eq!(
        post(&server, &add, &fields).await.header("Location"),
        Some(format!("{list}?m=integration-made").as_str())
    );
    let made = channels(&server).await;
    assert_eq!(
        (
            made.len(),
            &made[0]["operator"],
            &made[0]["settings"]["up-url"]
        ),
        (1, &json!(false), &json!("https://h.test/up"))
    );
    let shown = visible_text(browse(&server, "GET", &list, &[]).await.text());
    assert!(
        shown.contains("hook Webhook https://h.test 2 of 3 checks Untested"),
        "{shown}"
    );
    server.stop().await;
}

#[tokio::test]
async fn secrets_are_kept_never_shown_and_sent_to_no_other_server() {
    let server = TestServer::start().await;
    let uuid = channel(&server).await;
    let edit = format!("/integrations/{uuid}/edit/");
    let form = browse(&server, "GET", &edit, &[]).await;
    assert!(
        form.text().contains("placeholder=\"unchanged\"") && !form.text().contains("abc-hidden"),
        "{form:?}"
    );
    let same = [("name", "new name"), ("down-url", "http://127.0.0.1:1/x")];
    let other = [("name", "x"), ("down-url", "http://other.test/")];
    assert_eq!(post(&server, &edit, &same).await.status, 303);
    let stored = |server: &TestServer| {
        server.handle.with_state(|state| {
            let channels = &state.project(server.main.id).unwrap().channels;
            channels
                .values()
                .next()
                .unwrap()
                .settings
                .get("secret")
                .map(str::to_owned)
        })
    };
    assert_eq!(stored(&server).as_deref(), Some("abc-hidden"));
    let refused = post(&server, &edit, &other).await;
    assert!(
        refused.status == 422 && visible_text(refused.text()).contains("names another server"),
        "{refused:?}"
    );
    assert!(!refused.text().contains("abc-hidden"));
    assert_eq!(
        post(
            &server,
            &edit,
            &[("down-url", "http://127.0.0.1:1/"), ("remove", "secret")]
        )
        .await
        .status,
        303
    );
    assert_eq!(stored(&server), None);
    server.stop().await;
}

#[tokio::test]
async fn a_test_shows_its_result_verbatim() {
    let server = TestServer::start().await;
    let uuid = channel(&server).await;
    server.answer_tests(ChannelTestResult {
        duration: Duration::from_millis(240),
        status: 500,
        error: Some("500 <Internal> Server Error".into()),
        missed: None,
    });
    let tested = post(&server, &format!("/integrations/{uuid}/test/"), &[]).await;
    assert_eq!(tested.status, 200, "{tested:?}");
    assert!(
        tested
            .text()
            .contains("Not delivered: 500 &#60;Internal&#62; Server Error"),
        "{tested:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_test_before_saving_stores_nothing_and_keeps_the_input() {
    let server = TestServer::start().await;
    server.answer_tests(ChannelTestResult {
        duration: Duration::from_millis(240),
        status: 500,
        error: Some("the answer was 500".into()),
        missed: None,
    });
    let add = format!("/projects/{}/integrations/add/ntfy/", project_uuid(&server));
    let form = [
        ("name", "phone"),
        ("topic", "backups-1"),
        ("token", "tk_hidden"),
        ("checks", "all"),
        ("try", "1"),
    ];
    let tested = post(&server, &add, &form).await;
    assert_eq!(tested.status, 200, "{tested:?}");
    for part in [
        "Not delivered: the answer was 500",
        "value=\"backups-1\"",
        "value=\"phone\"",
    ] {
        assert!(tested.text().contains(part), "{part}: {tested:?}");
    }
    assert!(!tested.text().contains("tk_hidden"), "{tested:?}");
    assert!(channels(&server).await.is_empty());
    // A script gets the result alone.
    let mut script = Browser::new(&server);
    script.headers.push(("X-Fragment".into(), "test".into()));
    let fragment = script.send("POST", &add, &form).await;
    assert_eq!(fragment.status, 200, "{fragment:?}");
    assert!(
        fragment.text().starts_with("<div id=\"test-result\""),
        "{fragment:?}"
    );
    // Errors of the form are shown as when saving.
    let wrong = post(
        &server,
        &add,
        &[("topic", "a/b"), ("checks", "all"), ("try", "1")],
    )
    .await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
    // An existing channel is tested with the changed settings and its stored secret.
    let form = [
        ("name", "phone"),
        ("topic", "old"),
        ("token", "tk_hidden"),
        ("checks", "all"),
    ];
    assert_eq!(post(&server, &add, &form).await.status, 303);
    let uuid = channels(&server).await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let edit = format!("/integrations/{uuid}/edit/");
    let tested = post(&server, &edit, &[("topic", "new"), ("try", "1")]).await;
    assert!(tested.text().contains("Not delivered"), "{tested:?}");
    let stored = browse(&server, "GET", &edit, &[]).await;
    assert!(stored.text().contains("value=\"old\""), "{stored:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_test_of_a_group_shows_the_result_of_each_channel() {
    let server = TestServer::start().await;
    channel(&server).await;
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    let fields = [
        ("name", "both"),
        ("channels", "hook <1>"),
        ("checks", "all"),
    ];
    let answer = post(&server, &format!("{list}add/group/"), &fields).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let all = channels(&server).await;
    let group = all
        .iter()
        .find(|channel| channel["kind"] == "group")
        .unwrap();
    let missed = Some("delivered to 1 of 2; not taken for <a@b.c>: 550".to_owned());
    server.answer_tests(ChannelTestResult {
        duration: Duration::from_millis(240),
        status: 550,
        error: None,
        missed,
    });
    let shown = browse(&server, "GET", &list, &[]).await;
    let path = format!("/integrations/{}/test/", group["id"].as_str().unwrap());
    assert!(shown.text().contains(&path), "{shown:?}");
    let tested = post(&server, &path, &[]).await;
    assert_eq!(tested.status, 200, "{tested:?}");
    assert!(
        tested
            .text()
            .contains("hook &#60;1&#62;: Delivered to 1 of 2; not taken for &#60;a@b.c&#62;: 550."),
        "{tested:?}"
    );
    let member = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .channels
            .keys()
            .next()
            .copied()
            .unwrap()
    });
    operations::channel::disable(&server.handle, member)
        .await
        .unwrap();
    let tested = post(&server, &path, &[]).await;
    assert!(
        tested
            .text()
            .contains("hook &#60;1&#62;: Not tested: the operator has disabled it."),
        "{tested:?}"
    );
    operations::channel::delete(&server.handle, member)
        .await
        .unwrap();
    let tested = post(&server, &path, &[]).await;
    assert_eq!(tested.status, 400, "{tested:?}");
    let shown = visible_text(tested.text());
    assert!(
        shown.contains("No test was sent: the group has no channel. Edit it and add channels."),
        "{shown}"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_form_says_that_nothing_can_be_delivered_without_a_mail_server() {
    let warned = "Note: the channel cannot deliver: no mail server is set (--mail-server).";
    for mail in [true, false] {
        let server = TestServer::start().await;
        server.handle.set_transports(Transports {
            mail,
            commands: false,
        });
        let form = format!(
            "/projects/{}/integrations/add/email/",
            project_uuid(&server)
        );
        let shown = browse(&server, "GET", &form, &[]).await;
        assert_eq!(
            visible_text(shown.text()).contains(warned),
            !mail,
            "{shown:?}"
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn a_recipient_that_is_refused_is_shown() {
    let server = TestServer::start().await;
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    let fields = [
        ("name", "ops"),
        ("to", "ann@example.org,eve@example.org"),
        ("checks", "all"),
    ];
    assert_eq!(
        post(&server, &format!("{list}add/email/"), &fields)
            .await
            .status,
        303
    );
    let uuid = channels(&server).await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let id = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .channels
            .keys()
            .next()
            .copied()
            .unwrap()
    });
    let refused = Recipient {
        address: "eve@example.org".into(),
        result: RecipientResult::Refused("550: no such user".into()),
    };
    let report = DeliveryReport {
        recipients: Some([refused].into()),
        ..DeliveryReport::of_test(id, SendOutcome::PartlyDelivered("".into()), 250)
    };
    server
        .handle
        .call(Command::RecordChannelTest(report))
        .await
        .unwrap()
        .unwrap();
    let shown = visible_text(browse(&server, "GET", &list, &[]).await.text());
    assert!(
        shown.contains("Refused for eve@example.org: 550: no such user"),
        "{shown}"
    );
    let shown = server
        .extension_api("GET", &format!("/channels/{uuid}"), "")
        .await
        .json();
    assert_eq!(
        (&shown["status"], &shown["refused"][0]["recipient"]),
        (&json!("ok"), &json!("eve@example.org"))
    );
    assert_eq!(
        (
            &shown["refused"][0]["error"],
            shown["refused"][0]["since"].is_string()
        ),
        (&json!("550: no such user"), true)
    );
    server.stop().await;
}

#[tokio::test]
async fn checks_are_assigned_and_the_channel_is_deleted() {
    let server = TestServer::start().await;
    let one = server.create_check(json!({ "tags": "nas" })).await;
    let _ = server.create_check(json!({})).await;
    let uuid = channel(&server).await;
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    for (choice, tag, shown) in [
        ("all", "", "2 of 2 checks"),
        ("tag", "nas", "1 of 2 checks"),
        ("none", "", "0 of 2 checks"),
    ] {
        let fields = [("checks", choice), ("tag", tag)];
        assert_eq!(
            post(&server, &format!("/integrations/{uuid}/checks/"), &fields)
                .await
                .status,
            303
        );
        assert!(
            visible_text(browse(&server, "GET", &list, &[]).await.text()).contains(shown),
            "{choice}"
        );
    }
    assert_eq!(
        post(&server, &format!("/integrations/{uuid}/checks/"), &[])
            .await
            .status,
        400
    );
    assert!(
        visible_text(
            browse(
                &server,
                "GET",
                &format!("/integrations/{uuid}/remove/"),
                &[]
            )
            .await
            .text()
        )
        .contains("Delete this channel?")
    );
    assert_eq!(channels(&server).await.len(), 1);
    assert_eq!(
        post(&server, &format!("/integrations/{uuid}/remove/"), &[])
            .await
            .status,
        303
    );
    assert_eq!(channels(&server).await.len(), 0);
    assert_eq!(one["channels"], "");
    server.stop().await;
}

#[tokio::test]
async fn pages_warn_of_probable_mistakes() {
    let server = TestServer::start().await;
    let list = format!("/projects/{}/integrations/", project_uuid(&server));
    let url = "https://contoso.webhook.office.com/webhookb2/a";
    let answer = post(
        &server,
        &format!("{list}add/msteamsw/"),
        &[("name", "teams"), ("url", url), ("checks", "all")],
    )
    .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let id = channels(&server).await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for page in [list, format!("/integrations/{id}/edit/")] {
        let page = browse(&server, "GET", &page, &[]).await;
        assert!(
            visible_text(page.text())
                .contains("Note: url is the URL of an old Office 365 connector"),
            "{page:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn pages_of_declared_objects_name_their_source() {
    let server = TestServer::start().await;
    let here = || {
        server
            .handle
            .with_state(|state| state.project(server.main.id).unwrap().clone())
    };
    let mine = [
        server.create_check(json!({})).await["uuid"]
            .as_str()
            .unwrap()
            .to_owned(),
        channel(&server).await,
    ];
    let name = here().project.name.as_str().to_owned();
    let before = here();
    let text = format!(
        "version = 1\nsource = \"homelab\"\n[project.{name}.channel.phone]\nkind = \
         \"ntfy\"\ntopic = \"t\"\n[project.{name}.check.nas]\n"
    );
    config::apply_config(&server.handle, parse_document(&text), ALLOW_NONE)
        .await
        .unwrap();
    let check = *here().checks.difference(&before.checks).next().unwrap();
    let check = server
        .handle
        .with_state(|state| state.check(check).unwrap().uuid.to_string());
    let phone = here()
        .channels
        .values()
        .find(|channel| channel.name.as_str() == "phone")
        .unwrap()
        .uuid
        .to_string();
    for ([check, channel], says) in [([check, phone], true), (mine, false)] {
        for path in [
            format!("/checks/{check}/details/"),
            format!("/integrations/{channel}/edit/"),
        ] {
            let page = browse(&server, "GET", &path, &[]).await;
            assert_eq!(page.status, 200, "{path}");
            assert_eq!(
                visible_text(page.text())
                    .contains("Declared in homelab . The next overdue apply overwrites"),
                says,
                "{path}: {page:?}"
            );
        }
    }
    server.stop().await;
}
