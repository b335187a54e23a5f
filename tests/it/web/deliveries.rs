//! Page of the deliveries.

use overdue::engine::command::SendOutcome;
use serde_json::{Value, json};

use super::{browse, post, project_uuid, visible_text};
use crate::support::server::{TestServer, new_project};

/// Server with two checks that went down. The alert about `backup` failed at `ops`, the one about
/// `web` arrived at `spare`.
struct Fixture {
    server: TestServer,
    /// URL of the page.
    page: String,
    /// UUIDs of the channels `ops` and `spare`.
    channels: [String; 2],
    backup: Value,
}

impl Fixture {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let mut channels = Vec::new();
        for name in ["ops", "spare"] {
            channels.push(server.channel(&server.main, name).await);
        }
        let channels: [String; 2] = channels.try_into().unwrap();
        let mut checks = Vec::new();
        for (name, channel) in ["backup", "web"].iter().zip(&channels) {
            let check = server
                .create_check(json!({ "name": name, "channels": channel }))
                .await;
            server.ping(&check, "/fail").await;
            checks.push(check);
        }
        let results = [
            (SendOutcome::Failed("it answered \"502\"".into()), 502),
            (SendOutcome::Delivered, 200),
        ];
        for (channel, (result, status)) in channels.iter().zip(results) {
            let channel = server.number_of(&server.main, channel);
            server.sent(channel, result, status).await;
        }
        Self {
            page: format!("/projects/{}/deliveries/", project_uuid(&server)),
            backup: checks.remove(0),
            server,
            channels,
        }
    }

    async fn html(&self, query: &str) -> String {
        let path = format!("{}{query}", self.page);
        let answer = browse(&self.server, "GET", &path, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.text().to_owned()
    }

    async fn text(&self, query: &str) -> String {
        visible_text(&self.html(query).await)
    }
}

#[tokio::test]
async fn deliveries_are_filtered() {
    let site = Fixture::start().await;
    let failed = "not delivered backup went down, to ops";
    let delivered = "delivered web went down, to spare";
    let [ops, spare] = &site.channels;
    let backup = site.backup["uuid"].as_str().unwrap();
    for (query, has_failed, has_delivered) in [
        (String::new(), true, true),
        ("?result=&channel=".into(), true, true),
        ("?result=failed".into(), true, false),
        ("?result=delivered".into(), false, true),
        ("?result=waiting".into(), false, false),
        (format!("?channel={ops}"), true, false),
        (format!("?channel={spare}&result=failed"), false, false),
        (format!("?check={backup}"), true, false),
    ] {
        let text = site.text(&query).await;
        assert_eq!(text.contains(failed), has_failed, "{query}: {text}");
        assert_eq!(text.contains(delivered), has_delivered, "{query}: {text}");
    }
    let text = site.text("").await;
    assert!(
        text.contains("it answered &#34;502&#34;; status 502"),
        "{text}"
    );
    let details = format!("/checks/{backup}/details/");
    let details = browse(&site.server, "GET", &details, &[]).await;
    let link = format!("{}?check={backup}", site.page);
    assert!(details.text().contains(&link), "{}", details.text());
    for query in [
        "?result=lost",
        "?channel=6f3a1c1e-0000-4000-8000-000000000001",
        "?check=backup",
    ] {
        let path = format!("{}{query}", site.page);
        let answer = browse(&site.server, "GET", &path, &[]).await;
        assert_eq!(answer.status, 404, "{query}");
    }
    site.server.stop().await;
}

#[tokio::test]
async fn a_failed_alert_is_sent_again() {
    let site = Fixture::start().await;
    let html = site.html("").await;
    let targets: Vec<_> = html
        .split("action=\"")
        .filter_map(|rest| rest.split('"').next())
        .filter(|target| target.ends_with("/retry/"))
        .collect();
    let [target] = targets[..] else {
        panic!("{targets:?}")
    };
    // The page of another project does not send it.
    let other = new_project(&site.server.handle, "other").await;
    let uuid = site
        .server
        .handle
        .with_state(|state| state.project(other.id).unwrap().project.uuid);
    let foreign = target.replace(&project_uuid(&site.server), &uuid.to_string());
    assert_eq!(post(&site.server, &foreign, &[]).await.status, 400);
    assert!(!site.text("").await.contains("waiting backup"));

    let answer = post(&site.server, target, &[]).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let waiting = "waiting backup went down, to ops";
    assert!(site.text("").await.contains(waiting));
    assert!(site.text("?result=waiting").await.contains(waiting));
    assert!(!site.text("?result=failed").await.contains(waiting));
    let channel = site.server.number_of(&site.server.main, &site.channels[0]);
    site.server.sent(channel, SendOutcome::Delivered, 200).await;
    let text = site.text("").await;
    assert!(
        text.contains("delivered backup went down, to ops"),
        "{text}"
    );
    site.server.stop().await;
}

#[tokio::test]
async fn deliveries_are_paged() {
    let server = TestServer::start().await;
    let channel = server.channel(&server.main, "ops").await;
    let number = server.number_of(&server.main, &channel);
    for index in 0..60 {
        let check = server
            .create_check(json!({ "name": format!("job {index}"), "channels": channel }))
            .await;
        server.ping(&check, "/fail").await;
    }
    server.sent(number, SendOutcome::Delivered, 200).await;
    let page = format!("/projects/{}/deliveries/", project_uuid(&server));
    let first = browse(&server, "GET", &page, &[]).await;
    assert_eq!(first.text().matches("<time").count(), 50);
    let older = first.text().split("rel=\"next\"").next().unwrap();
    let older = older.rsplit("href=\"").next().unwrap();
    let older = older.split('"').next().unwrap();
    let second = browse(&server, "GET", older, &[]).await;
    assert_eq!(second.text().matches("<time").count(), 10, "{older}");
    assert!(!second.text().contains("rel=\"next\""));
    server.stop().await;
}
