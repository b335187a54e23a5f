//! Names as identities: renaming, and the comparison of a proxy's header with names.

use std::io::Read as _;
use std::sync::Arc;

use overdue::domain::project::ProjectName;
use overdue::domain::user::{Grant, Membership, ProjectMemberships, UserName};
use overdue::engine::command::user::UserChanges;
use overdue::http::dashboard::{AuthMode, ProxyAuth};
use overdue::operations::{project, user};

use super::browser::{Browser, make, owner, server, signed_in};
use super::visible_text;
use crate::support::server::TestServer;

/// A server that trusts a proxy's `Remote-User` header.
async fn behind_a_proxy(new_users: Option<Membership>) -> TestServer {
    TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.dashboard.proxy_auth =
            Some(ProxyAuth::new("Remote-User", None, new_users, None).unwrap());
        config.base_url = "https://nas.example".parse().unwrap();
    })
    .await
}

/// A browser whose requests pass a proxy that adds these headers.
fn proxied_browser<'a>(server: &'a TestServer, headers: &[(&str, &str)]) -> Browser<'a> {
    let mut browser = Browser::new(server);
    browser.headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    browser
}

fn names(server: &TestServer) -> Vec<String> {
    user::list(&server.handle)
        .iter()
        .map(|user| user.name.as_str().to_owned())
        .collect()
}

/// Collects the log of this thread until it is dropped.
struct CapturedLog {
    file: tempfile::NamedTempFile,
    _guard: tracing::subscriber::DefaultGuard,
}

impl CapturedLog {
    fn begin() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(writer)
            .finish();
        Self {
            file,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.file
            .reopen()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }
}

#[tokio::test]
async fn users_cannot_rename_themselves_beyond_their_permissions() {
    let server = behind_a_proxy(Some(Membership::Member)).await;
    owner(&server, "ann").await;
    let bob = make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut browser = proxied_browser(&server, &[("Remote-User", "bob")]);
    let account = browser.get("/account/").await;
    assert!(
        !account.text().contains("name=\"name\"")
            && visible_text(account.text())
                .contains("Name bob Only owners of this server can change names.")
    );
    let saved = browser
        .send("POST", "/account/", &[("name", "bob-old"), ("zone", "UTC")])
        .await;
    assert_eq!(
        saved.header("Location"),
        Some("/account/?m=saved"),
        "{saved:?}"
    );
    assert!(
        browser
            .get("/")
            .await
            .text()
            .contains("You have no access to a project yet")
    );
    assert_eq!(names(&server), ["ann", "bob"]);
    assert_eq!(user::find(&server.handle, "bob").unwrap().grant, bob.grant);
    server.stop().await;
}

#[tokio::test]
async fn owners_rename_users_and_the_log_records_it() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut browser = signed_in(&server, "ann").await;
    assert!(
        browser
            .get("/account/")
            .await
            .text()
            .contains(&format!("href=\"/users/{}/\"", ann.uuid))
    );
    let bob = user::find(&server.handle, "bob").unwrap();
    let log = CapturedLog::begin();
    let page = format!("/users/{}/", bob.uuid);
    let renamed = browser
        .send(
            "POST",
            &page,
            &[("do", "save"), ("name", "rob"), ("role", "projects")],
        )
        .await;
    assert_eq!(
        (renamed.status, names(&server)),
        (303, vec!["ann".to_owned(), "rob".to_owned()])
    );
    let text = log.text();
    assert!(
        text.contains(r#"a user was renamed before="bob" now="rob""#)
            && text.contains("changed a user"),
        "{text}"
    );
    // As the command line does.
    let changes = UserChanges {
        name: Some(UserName::parse("robert").unwrap()),
        ..UserChanges::default()
    };
    user::update(&server.handle, bob.id, changes, None)
        .await
        .unwrap();
    let changes = project::ProjectChanges {
        name: Some(ProjectName::parse("house").unwrap()),
        ..project::ProjectChanges::default()
    };
    project::update(&server.handle, server.main.id, changes)
        .await
        .unwrap();
    browser
        .send("POST", "/account/sessions/", &[("session", "others")])
        .await;
    let text = log.text();
    for line in [
        r#"a user was renamed before="rob" now="robert""#,
        r#"a project was renamed before="main" now="house""#,
        r#"ended all their other sessions user="ann" address=127.0.0.1"#,
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    drop(log);
    server.stop().await;
}

#[tokio::test]
async fn no_user_is_created_with_a_name_that_looks_like_another() {
    let server = behind_a_proxy(Some(Membership::Member)).await;
    owner(&server, "ann").await;
    for name in ["sam", "scope", "bill"] {
        make(
            &server,
            name,
            Grant::Projects(ProjectMemberships::default()),
        )
        .await;
    }
    for (said, reason) in [
        ("ann\u{200b}", "it contains the character U+200B"),
        ("\u{202e}nna", "it contains the character U+202E"),
        ("bob\u{e000}", "it contains the character U+E000"),
        ("bob\u{378}", "it contains the character U+0378"),
        ("z\u{30c}ofie", "NFC"),
        ("\u{430}nn", "it mixes letters of several scripts"),
        ("biII", "it looks like the name of another user"),
        ("sarn", "it looks like the name of another user"),
        ("ѕсоре", "it looks like the name of another user"),
    ] {
        let refused = proxied_browser(&server, &[("Remote-User", said)])
            .get("/")
            .await;
        assert!(
            refused.status == 403 && visible_text(refused.text()).contains(reason),
            "{said:?}: {refused:?}"
        );
    }
    assert_eq!(names(&server), ["ann", "sam", "scope", "bill"]);
    // A user that an owner has created is matched by its exact spelling.
    make(
        &server,
        "sarn",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    assert_eq!(
        proxied_browser(&server, &[("Remote-User", "sarn")])
            .get("/account/")
            .await
            .status,
        200
    );
    assert_eq!(
        proxied_browser(&server, &[("Remote-User", "žofie@example.org")])
            .get("/account/")
            .await
            .status,
        200
    );
    assert_eq!(
        names(&server),
        ["ann", "sam", "scope", "bill", "sarn", "žofie@example.org"]
    );
    server.stop().await;
}

#[tokio::test]
async fn the_header_of_a_proxy_is_compared_byte_for_byte() {
    for new_users in [None, Some(Membership::Member)] {
        let server = behind_a_proxy(new_users).await;
        owner(&server, "ann").await;
        for name in ["ANN", "Ann", "ａnn", "ⓐnn", "ann\u{a0}", "\u{3000}ann"] {
            let refused = proxied_browser(&server, &[("Remote-User", name)])
                .get("/users/")
                .await;
            assert!(
                refused.status == 403 && refused.text().contains("has no access"),
                "{name:?}: {refused:?}"
            );
        }
        // No new user can have a name that differs only in white space.
        let spaced = proxied_browser(&server, &[("Remote-User", "carol\u{a0}")])
            .get("/")
            .await;
        assert_eq!(
            (spaced.status, names(&server)),
            (403, vec!["ann".to_owned()])
        );
        assert_eq!(
            proxied_browser(&server, &[("Remote-User", "ann")])
                .get("/users/")
                .await
                .status,
            200
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn a_proxy_counts_only_under_a_known_host() {
    let server = behind_a_proxy(Some(Membership::Member)).await;
    owner(&server, "ann").await;
    for (host, forwarded, status) in [
        ("nas.example", None, 200),
        ("NAS.example:8443", None, 200),
        ("localhost:8000", None, 200),
        ("127.0.0.1", Some("nas.example"), 200),
        ("evil.example", None, 403),
        ("evil.example", Some("nas.example"), 403),
        ("127.0.0.1:8000", Some("evil.example"), 403),
        ("nas.example", Some("nas.example, evil.example"), 403),
    ] {
        let forwarded = forwarded.map(|forwarded| ("X-Forwarded-Host", forwarded));
        let headers: Vec<_> = [("Remote-User", "ann"), ("Host", host)]
            .into_iter()
            .chain(forwarded)
            .collect();
        let answer = proxied_browser(&server, &headers).get("/users/").await;
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        assert!(
            status == 200 || visible_text(answer.text()).contains("You used"),
            "{answer:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_name_in_the_form_of_a_uuid_hides_no_user() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let shadow = owner(&server, &ann.uuid.to_string()).await;
    assert_eq!(
        user::find(&server.handle, &ann.uuid.to_string())
            .unwrap()
            .id,
        ann.id
    );
    assert_eq!(
        user::find(&server.handle, &shadow.uuid.to_string())
            .unwrap()
            .id,
        shadow.id
    );
    let main = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .project
            .uuid
            .to_string()
    });
    let other = crate::support::server::new_project(&server.handle, &main).await;
    assert_eq!(
        project::find(&server.handle, &main).unwrap().id,
        server.main.id
    );
    let uuid = server
        .handle
        .with_state(|state| state.project(other.id).unwrap().project.uuid.to_string());
    assert_eq!(project::find(&server.handle, &uuid).unwrap().id, other.id);
    server.stop().await;
}
