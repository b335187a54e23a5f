//! Badges: their list, their URLs and their content.

use serde_json::{Value, json};

use crate::support::server::{TestResponse, TestServer};

/// Badge URLs of a tag, without the address of the server.
async fn links(server: &TestServer, tag: &str) -> impl Fn(&str) -> String + use<> {
    let badges = server.api("GET", "/badges/", "").await.json();
    let links = badges["badges"][tag].clone();
    let base = server.base.clone();
    move |format| {
        links[format]
            .as_str()
            .and_then(|url| url.strip_prefix(&base))
            .unwrap_or_else(|| panic!("{format} in {links}"))
            .to_owned()
    }
}

async fn ping(server: &TestServer, check: &Value, action: &str) {
    let path = format!("/ping/{}{action}", check["uuid"].as_str().unwrap());
    assert_eq!(server.get(&path).await.status, 200);
}

async fn json_of(server: &TestServer, path: &str) -> Value {
    let answer = server.get(path).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json")),
        "{path}"
    );
    answer.json()
}

fn assert_open_and_never_cached(answer: &TestResponse) {
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-headers", "X-Api-Key"),
        ("access-control-allow-methods", "GET, HEAD, OPTIONS"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    if answer.status == 200 {
        assert!(
            answer
                .header("cache-control")
                .is_some_and(|value| value.contains("no-store")),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn every_tag_and_the_project_have_six_urls() {
    let server = TestServer::start().await;
    server.create_check(json!({ "tags": "b a" })).await;
    server.create_check(json!({ "tags": "a c/d" })).await;
    let listed = server.api("GET", "/badges/", "").await.json();
    let badges = listed["badges"].as_object().unwrap();
    assert_eq!(badges.keys().collect::<Vec<_>>(), ["*", "a", "b", "c/d"]);
    for links in badges.values() {
        let links = links.as_object().unwrap();
        let mut formats = links.keys().collect::<Vec<_>>();
        formats.sort();
        assert_eq!(
            formats,
            ["json", "json3", "shields", "shields3", "svg", "svg3"]
        );
        for url in links.values() {
            let answer = server
                .get(url.as_str().unwrap().strip_prefix(&server.base).unwrap())
                .await;
            assert_eq!(answer.status, 200, "{url}");
            assert_open_and_never_cached(&answer);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_badge_shows_the_worst_status_of_its_checks() {
    let server = TestServer::start().await;
    let first = server
        .create_check(json!({ "tags": "x y", "timeout": 60, "grace": 60 }))
        .await;
    let second = server.create_check(json!({ "tags": "y" })).await;
    server.create_check(json!({ "tags": "xx" })).await;
    let x = links(&server, "x").await;
    let y = links(&server, "y").await;
    let all = links(&server, "*").await;
    let counts = |status: &str, total: u8, grace: u8, down: u8| {
        json!({
            "status": status, "total": total, "grace": grace, "down": down,
        })
    };

    assert_eq!(json_of(&server, &x("json3")).await, counts("up", 1, 0, 0));
    assert_eq!(json_of(&server, &all("json")).await, counts("up", 3, 0, 0));

    ping(&server, &first, "").await;
    server.clock.advance_secs(90);
    assert_eq!(json_of(&server, &x("json3")).await, counts("late", 1, 1, 0));
    assert_eq!(
        json_of(&server, &x("json")).await,
        counts("up", 1, 1, 0),
        "grace is counted in both forms"
    );
    let shields =
        json!({ "schemaVersion": 1, "label": "x", "message": "late", "color": "important" });
    assert_eq!(json_of(&server, &x("shields3")).await, shields);

    ping(&server, &second, "/fail").await;
    assert_eq!(json_of(&server, &y("json3")).await, counts("down", 2, 1, 1));
    let shields = json!({
        "schemaVersion": 1, "label": "Ünit checks", "message": "down", "color": "critical",
    });
    assert_eq!(json_of(&server, &all("shields")).await, shields);
    let svg = server.get(&all("svg")).await;
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(
        svg.text().contains(">Ünit checks<") && svg.text().contains(">down<"),
        "{}",
        svg.text()
    );

    for check in [&first, &second] {
        let path = format!("/checks/{}", check["uuid"].as_str().unwrap());
        assert_eq!(server.api("DELETE", &path, "").await.status, 200);
    }
    assert_eq!(
        json_of(&server, &y("json")).await,
        counts("up", 0, 0, 0),
        "a badge outlives its checks"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_badge_of_one_check_shows_its_name_but_never_its_uuid() {
    let server = TestServer::start().await;
    for (body, label) in [
        (json!({ "name": "a & b", "slug": "s" }), "a & b"),
        (json!({ "slug": "s" }), "s"),
        (json!({}), "unnamed"),
    ] {
        let check = server.create_check(body).await;
        let url = check["badge_url"]
            .as_str()
            .and_then(|url| url.strip_prefix(&server.base))
            .unwrap()
            .to_owned();
        assert!(!url.contains(check["uuid"].as_str().unwrap()), "{url}");
        let shields = json_of(&server, &url.replace(".svg", ".shields")).await;
        assert_eq!(
            shields,
            json!({ "schemaVersion": 1, "label": label, "message": "up", "color": "success" })
        );
        let svg = server.get(&url).await;
        assert!(
            svg.text()
                .contains(&format!(">{}<", label.replace('&', "&amp;"))),
            "{}",
            svg.text()
        );
        assert_open_and_never_cached(&svg);
        assert_eq!(
            svg.header("content-security-policy"),
            Some("default-src 'none'")
        );

        ping(&server, &check, "").await;
        server.clock.advance_secs(86_400);
        let counts = json!({ "status": "late", "total": 1, "grace": 1, "down": 0 });
        assert_eq!(
            json_of(
                &server,
                &url.replace("/b/2/", "/b/3/").replace(".svg", ".json")
            )
            .await,
            counts
        );
        assert_eq!(
            json_of(&server, &url.replace(".svg", ".json")).await["status"],
            "up"
        );

        assert_eq!(
            server
                .api(
                    "DELETE",
                    &format!("/checks/{}", check["uuid"].as_str().unwrap()),
                    ""
                )
                .await
                .status,
            200
        );
        assert_eq!(server.get(&url).await.status, 404);
    }
    server.stop().await;
}

#[tokio::test]
async fn only_a_signed_url_and_a_known_uuid_show_a_badge() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "tags": "x" })).await;
    let x = links(&server, "x").await;
    let badge = check["badge_url"]
        .as_str()
        .and_then(|url| url.strip_prefix(&server.base))
        .unwrap()
        .to_owned();
    let uuid = check["uuid"].as_str().unwrap();
    for path in [
        x("svg").replace("/x.svg", "/y.svg"),
        x("svg").replace(".svg", ".png"),
        x("svg").replace(".svg", ""),
        badge.replace(".svg", ".png"),
        badge.replace(".svg", ""),
        badge
            .to_uppercase()
            .replace("/B/", "/b/")
            .replace(".SVG", ".svg"),
        badge.replace("/b/2/", "/b/4/"),
        format!("/b/2/{uuid}.svg"),
    ] {
        assert_eq!(server.get(&path).await.status, 404, "{path}");
    }
    for path in [x("svg"), badge] {
        for (method, status) in [
            ("HEAD", 200),
            ("OPTIONS", 204),
            ("POST", 405),
            ("DELETE", 405),
        ] {
            let answer = server.send(method, &path, &[], b"").await;
            assert_eq!(answer.status, status, "{method}");
            assert_open_and_never_cached(&answer);
            assert_eq!(answer.body.is_empty(), status < 400, "{method}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn every_tag_reaches_its_badge() {
    let server = TestServer::start().await;
    for tag in [
        "a/b", "#1", "100%", "%2F", "a.b.svg", "..", "?x=1", "ž日本", "a\tb", "\u{1}", "<&>\"'",
        "-2", "+",
    ] {
        server.create_check(json!({ "tags": tag })).await;
        let link = links(&server, tag).await;
        assert_eq!(json_of(&server, &link("shields")).await["label"], tag);
        assert_eq!(json_of(&server, &link("json")).await["total"], 1, "{tag}");
        assert_eq!(server.get(&link("svg")).await.status, 200, "{tag}");
    }
    server.stop().await;
}
