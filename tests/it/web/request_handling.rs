//! Rules that hold for requests to every page.

use overdue::domain::ids::UniqueKey;
use overdue::http::dashboard::{AuthMode, Page, RequiredRight, Scope};

use super::{browse, channel, project_uuid};
use crate::support::server::TestServer;

/// Returns the path of a page, for existing objects.
fn path(page: &Page, project: &str, check: &str, channel: &str) -> String {
    if matches!(page, Page::UniqueKeyRedirect(_)) {
        return Page::UniqueKeyRedirect(UniqueKey::of_check(check.parse().unwrap())).to_string();
    }
    let own = match page.scope() {
        Scope::Project(_) => project,
        Scope::Check(_) => check,
        Scope::Channel(_) => channel,
        Scope::Server => "",
    };
    let path = page.to_string().replace("/pings/0/", "/pings/1/");
    if own.is_empty() {
        path
    } else {
        path.replace("00000000-0000-0000-0000-000000000000", own)
    }
}

#[tokio::test]
async fn every_page_sends_the_same_headers_and_reading_it_changes_nothing() {
    let server = TestServer::start().await;
    let check = server
        .create_check(serde_json::json!({ "name": "<b>one</b>" }))
        .await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        server
            .send("POST", &format!("/ping/{check}"), &[], b"<b>one</b>")
            .await
            .status,
        200
    );
    let project = project_uuid(&server);
    let channel = channel(&server).await;
    let version = |server: &TestServer| {
        server
            .handle
            .with_state(|state| state.project(server.main.id).unwrap().version)
    };
    let before = version(&server);
    for page in Page::examples() {
        let path = path(&page, &project, &check, &channel);
        for method in ["GET", "HEAD"] {
            let answer = browse(&server, method, &path, &[]).await;
            // An example names no user, key, link or status page, there are no accounts and providers here,
            // and passkeys need HTTPS.
            let names_nothing = path.contains("/0000")
                || path.ends_with("/0/")
                || [
                    "/account/",
                    "/login/passkey/",
                    "/login/callback/",
                    "/status/",
                ]
                .iter()
                .any(|start| path.starts_with(start))
                || matches!(page, Page::EditStatusPage(..));
            let expected = match page.get() {
                Some(_) if names_nothing => &[404, 303][..],
                Some(_) => &[200, 303],
                None => &[405],
            };
            assert!(
                expected.contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
            // Untrusted content is served as a file in which no script runs.
            let is_file = answer.header("Content-Disposition").is_some();
            assert_eq!(
                is_file,
                matches!(page, Page::Body(..) | Page::Export(_)) && answer.status == 200,
                "{path}"
            );
            let policy = if is_file {
                "sandbox; default-src 'none'"
            } else {
                "default-src 'none'; script-src 'self';"
            };
            assert!(
                answer
                    .header("Content-Security-Policy")
                    .unwrap()
                    .starts_with(policy),
                "{path}"
            );
            for (name, value) in [
                ("X-Frame-Options", "DENY"),
                ("Referrer-Policy", "same-origin"),
                ("X-Robots-Tag", "noindex"),
                ("X-Content-Type-Options", "nosniff"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{method} {path}");
            }
            assert!(
                answer.header("Cache-Control").unwrap().contains("no-"),
                "{path}: {answer:?}"
            );
            assert_eq!(answer.header("Access-Control-Allow-Origin"), None, "{path}");
            let text = String::from_utf8_lossy(&answer.body);
            assert!(
                is_file
                    || !text.contains("<b>one</b>")
                        && !text.contains(" style=")
                        && !text.contains("<script>"),
                "{path}: {text}"
            );
        }
    }
    assert_eq!(version(&server), before);
    server.stop().await;
}

#[tokio::test]
async fn pages_that_require_signing_in_show_nothing_without_a_session() {
    let server = TestServer::start_with(|config| config.dashboard.auth = AuthMode::Password).await;
    let project = project_uuid(&server);
    let check = server.create_check(serde_json::json!({})).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let channel = channel(&server).await;
    for page in Page::examples() {
        for (method, need) in [("GET", page.get()), ("POST", page.post())] {
            let Some(need) = need.filter(|need| *need != RequiredRight::Public) else {
                continue;
            };
            let path = path(&page, &project, &check, &channel);
            let answer = browse(&server, method, &path, &[("Sec-Fetch-Site", "same-origin")]).await;
            // Forms are kept until the user has signed in again, and a stream of events gets an
            // event.
            let expected = match &page {
                Page::Events(_) => 200,
                Page::Logout() => 303,
                _ if method == "POST" => 401,
                _ => 303,
            };
            assert_eq!(
                answer.status, expected,
                "{method} {path} ({need:?}): {answer:?}"
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_form_from_another_origin_is_refused_at_every_page() {
    let server = TestServer::start().await;
    let project = project_uuid(&server);
    let check = server.create_check(serde_json::json!({})).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let channel = channel(&server).await;
    for page in Page::examples() {
        let path = path(&page, &project, &check, &channel);
        for headers in [
            &[][..],
            &[("Sec-Fetch-Site", "same-site")],
            &[("Origin", "null")],
            &[("Origin", "http://localhost:1")],
        ] {
            let answer = browse(&server, "POST", &path, headers).await;
            assert_eq!(
                answer.status,
                if page.post().is_some() { 403 } else { 405 },
                "{path} {headers:?}: {answer:?}"
            );
        }
        assert_eq!(
            browse(&server, "DELETE", &path, &[]).await.status,
            405,
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn without_sign_in_only_our_own_host_names_are_answered() {
    let server =
        TestServer::start_with(|config| config.base_url = "http://nas.lan:8000".parse().unwrap())
            .await;
    for (host, status) in [
        ("localhost", 303),
        ("LOCALHOST:9", 303),
        ("127.0.0.1:8000", 303),
        ("[::1]:8000", 303),
        ("nas.lan", 303),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("nas.lan@evil.example", 403),
    ] {
        let answer = browse(&server, "GET", "/", &[("Host", host)]).await;
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn pages_are_served_below_the_path_of_the_base_url_and_at_the_root() {
    let server = TestServer::start_with(|config| {
        config.base_url = "http://localhost/checks".parse().unwrap();
    })
    .await;
    let project = project_uuid(&server);
    for prefix in ["", "/checks"] {
        let root = browse(&server, "GET", &format!("{prefix}/"), &[]).await;
        assert_eq!(
            root.header("Location"),
            Some(format!("/checks/projects/{project}/checks/").as_str()),
            "{root:?}"
        );
        let list = browse(
            &server,
            "GET",
            &format!("{prefix}/projects/{project}/checks/"),
            &[],
        )
        .await;
        assert!(list.text().contains("href=\"/checks/static/"), "{list:?}");
        let style = list
            .text()
            .split("href=\"")
            .find(|part| part.contains("app.css"))
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(
            browse(&server, "GET", style, &[]).await.status,
            200,
            "{style}"
        );
        let redirect = browse(
            &server,
            "GET",
            &format!("{prefix}/projects/{project}/checks?q=a%20b"),
            &[],
        )
        .await;
        let expected = format!("/checks/projects/{project}/checks/?q=a%20b");
        assert_eq!(
            (redirect.status, redirect.header("Location")),
            (301, Some(expected.as_str()))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_opener_policy_is_sent_only_to_trustworthy_origins() {
    let server = TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.base_url = "https://nas.example".parse().unwrap();
    })
    .await;
    for (headers, is_told) in [
        (&[("Host", "localhost:8000")][..], true),
        (&[("Host", "127.0.0.1")], true),
        (&[("Host", "[::1]:1")], true),
        (&[("Host", "nas.lan:8000")], false),
        (&[("Host", "192.168.1.5")], false),
        (&[("Host", "nas.lan"), ("X-Forwarded-Proto", "https")], true),
        (&[("Host", "nas.example")], true),
    ] {
        for path in ["/login/", "/nothing/"] {
            let answer = browse(&server, "GET", path, headers).await;
            assert_eq!(
                answer.header("Cross-Origin-Opener-Policy"),
                is_told.then_some("same-origin"),
                "{path} {headers:?}: {answer:?}"
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn files_are_cached_permanently_and_pages_are_revalidated() {
    let server = TestServer::start().await;
    let page = browse(&server, "GET", "/nothing/", &[]).await;
    assert_eq!(
        (page.status, page.header("Content-Type")),
        (404, Some("text/html; charset=utf-8"))
    );
    let style = page
        .text()
        .split("href=\"")
        .find(|part| part.contains("app.css"))
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let plain = browse(&server, "GET", style, &[]).await;
    assert_eq!(
        plain.header("Cache-Control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(
        (
            plain.status,
            plain.header("Content-Type"),
            plain.header("Content-Encoding")
        ),
        (200, Some("text/css; charset=utf-8"), None)
    );
    let zipped = browse(&server, "GET", style, &[("Accept-Encoding", "br, gzip")]).await;
    assert_eq!(
        (zipped.header("Content-Encoding"), zipped.header("Vary")),
        (Some("gzip"), Some("Accept-Encoding"))
    );
    assert!(zipped.body.len() * 2 < plain.body.len());
    assert_eq!(browse(&server, "POST", style, &[]).await.status, 405);
    // Other programs get the same answer as before.
    assert_eq!(server.get("/nothing/").await.text(), "not found");
    server.stop().await;
}

#[tokio::test]
async fn long_pages_are_compressed_except_if_another_site_embeds_them() {
    let server = TestServer::start().await;
    for _ in 0..50 {
        server
            .create_check(serde_json::json!({ "name": "Nightly backup" }))
            .await;
    }
    let path = format!("/projects/{}/checks/", project_uuid(&server));
    for (site, zipped) in [
        ("same-origin", true),
        ("none", true),
        ("same-site", false),
        ("cross-site", false),
    ] {
        let answer = browse(
            &server,
            "GET",
            &path,
            &[("Accept-Encoding", "gzip"), ("Sec-Fetch-Site", site)],
        )
        .await;
        assert_eq!(
            answer.header("Content-Encoding").is_some(),
            zipped,
            "{site}"
        );
    }
    assert_eq!(
        browse(&server, "GET", &path, &[("Accept-Encoding", "gzip;q=0")])
            .await
            .header("Content-Encoding"),
        None
    );
    server.stop().await;
}

#[tokio::test]
async fn pages_can_be_turned_off() {
    let server = TestServer::start_with(|config| config.dashboard.is_enabled = false).await;
    for path in ["/", "/projects/", "/static/"] {
        let answer = browse(&server, "GET", path, &[]).await;
        assert_eq!((answer.status, answer.text()), (404, "not found"), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn automatic_requests_of_browsers_and_robots_are_answered() {
    let server = TestServer::start_with(|config| {
        config.base_url = "http://localhost/checks".parse().unwrap();
    })
    .await;
    for prefix in ["", "/checks"] {
        let robots = browse(&server, "GET", &format!("{prefix}/robots.txt"), &[]).await;
        assert_eq!(
            (robots.status, robots.text()),
            (200, "User-agent: *\nDisallow: /\n"),
            "{robots:?}"
        );
        let picture = browse(&server, "GET", &format!("{prefix}/favicon.ico"), &[]).await;
        let to = picture.header("Location").unwrap();
        assert!(
            picture.status == 301 && to.starts_with("/checks/static/"),
            "{picture:?}"
        );
        assert_eq!(
            picture.header("Cache-Control"),
            Some("private, no-cache"),
            "its address changes with it"
        );
        let picture = browse(&server, "GET", to, &[]).await;
        assert_eq!(
            (picture.status, picture.header("Content-Type")),
            (200, Some("image/svg+xml"))
        );
        assert_eq!(
            browse(&server, "POST", &format!("{prefix}/robots.txt"), &[])
                .await
                .status,
            405
        );
    }
    server.stop().await;
}
