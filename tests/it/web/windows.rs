//! Page of the maintenance windows.

use serde_json::json;

use super::{browse, post, project_uuid, visible_text};
use crate::support::server::TestServer;

/// Returns the targets of the forms that end windows.
fn end_forms(page: &str) -> Vec<String> {
    page.split("action=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|target| target.ends_with("/remove/"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn windows_are_created_shown_and_ended() {
    let server = TestServer::start().await;
    for (name, tags) in [("nas", "nas nightly"), ("web", "web")] {
        server
            .create_check(json!({"name": name, "tags": tags}))
            .await;
    }
    let project = format!("/projects/{}", project_uuid(&server));
    let path = format!("{project}/windows/");
    let page = async |path: &str| browse(&server, "GET", path, &[]).await.text().to_owned();
    assert!(visible_text(&page(&path).await).contains("No maintenance windows."));
    // Mute: open at once, for the checks with the tags.
    let mute = [("form", "mute"), ("minutes", "120"), ("tags", "nas")];
    assert_eq!(post(&server, &path, &mute).await.status, 303);
    let shown = visible_text(&page(&path).await);
    assert!(
        shown.contains("mute 1 check with nas open until"),
        "{shown}"
    );
    let list = visible_text(&page(&format!("{project}/checks/")).await);
    assert!(
        list.contains("Maintenance window mute is open until")
            && list.contains("the checks that it covers send no alerts"),
        "{list}"
    );
    let covered = server.api("GET", "/checks/?tag=nas", "").await.json()["checks"][0].clone();
    let other = server.api("GET", "/checks/?tag=web", "").await.json()["checks"][0].clone();
    for (check, is_covered) in [(covered, true), (other, false)] {
        let path = format!("/checks/{}/details/", check["uuid"].as_str().unwrap());
        let text = visible_text(&page(&path).await);
        assert_eq!(
            text.contains("no alerts are sent about this check"),
            is_covered,
            "{text}"
        );
    }
    // A single one and a recurring one. The viewer's times are in UTC.
    let once = [
        ("form", "once"),
        ("name", "move"),
        ("from", "2099-01-02T22:00"),
        ("to", "2099-01-03T01:30"),
    ];
    let recurring = [
        ("form", "recurring"),
        ("name", "updates"),
        ("schedule", "0 3 * * 0"),
        ("zone", "Europe/Riga"),
        ("minutes", "90"),
    ];
    let refused = post(&server, &path, &once).await;
    assert_eq!(refused.status, 303, "{refused:?}");
    assert_eq!(post(&server, &path, &recurring).await.status, 303);
    let shown = visible_text(&page(&path).await);
    for part in [
        "move all checks (2)",
        "updates all checks (2)",
        "(Europe/Riga)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Errors keep the input.
    let backwards = [
        ("form", "once"),
        ("name", "<back>"),
        ("from", "2099-01-02T22:00"),
        ("to", "2099-01-01T22:00"),
    ];
    let refused = post(&server, &path, &backwards).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        visible_text(refused.text()).contains("the end is not after from")
            && refused.text().contains(r#"value="2099-01-01T22:00""#)
            && refused.text().contains("&#60;back&#62;"),
        "{}",
        refused.text()
    );
    let html = page(&path).await;
    let targets = end_forms(&html);
    assert_eq!(targets.len(), 3, "{html}");
    // The open one is first.
    assert_eq!(post(&server, &targets[0], &[]).await.status, 303);
    assert!(!visible_text(&page(&path).await).contains("open until"));
    assert_eq!(post(&server, &targets[0], &[]).await.status, 404);
    server.stop().await;
}
