//! Signing in: the first owner, passwords, cookies, links, and who sees what.

use overdue::domain::user::one_time_link::LinkCode;
use overdue::domain::user::{Grant, Membership, ProjectMemberships, UserName};
use overdue::engine::command::user::UserChanges;
use overdue::http::dashboard::{AuthMode, LogoutUrl, ProxyAuth};
use overdue::operations::user;

use super::browser::{Browser, PASSWORD, make, owner, server};
use crate::support::server::TestServer;

/// Waits for all futures at once.
pub(super) async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all
            .iter_mut()
            .zip(&mut done)
            .filter(|(_, done)| done.is_none())
        {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Waits until the condition is true.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting)
        .await
        .expect("it is never so");
}

/// True if the browser is signed in.
async fn is_in(browser: &mut Browser<'_>) -> bool {
    let answer = browser.get("/").await;
    !answer
        .header("Location")
        .unwrap_or_default()
        .contains("/login/")
}

#[tokio::test]
async fn a_code_creates_the_first_owner_once() {
    let server = server().await;
    let mut browser = Browser::new(&server);
    assert_eq!(browser.get("/").await.header("Location"), Some("/login/"));
    assert_eq!(
        browser.get("/login/").await.header("Location"),
        Some("/setup/")
    );
    let link = user::create_link(&server.handle, None).await.unwrap();
    let page = browser.get(&link.path()).await;
    assert!(
        page.status == 200 && page.text().contains(&link.code.to_string()),
        "{page:?}"
    );
    assert!(
        page.header("Cache-Control")
            .unwrap()
            .starts_with("no-store")
    );
    let code = link.code.to_string().to_lowercase();
    let form = |code: &str, name: &str, password: &str| {
        [
            ("code", code),
            ("name", name),
            ("password", password),
            ("zone", "Europe/Riga"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    for (code, name, password, part) in [
        (
            "AAAA-AAAA-AAAA-AAAA",
            "ann",
            PASSWORD,
            "has been used or has expired",
        ),
        (&code, "", PASSWORD, "a user&#39;s name cannot be empty"),
        (&code, "ann", "xyzzy12", "at least 10 characters"),
        (&code, "Margarethe", "margarethe", "not be the name"),
    ] {
        let form = form(code, name, password);
        let form: Vec<_> = form
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let refused = browser.send("POST", "/setup/", &form).await;
        assert!(
            refused.status == 422 && refused.text().contains(part),
            "{name} {password}: {}",
            refused.text()
        );
        assert!(
            !refused.text().contains(password) || password == "margarethe",
            "a password is not sent back"
        );
    }
    // Eight requests at once: one of them creates the owner.
    let form = form(&code, "<b>Ann</b>", PASSWORD);
    let form: Vec<_> = form
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let mut browsers: Vec<_> = (0..8).map(|_| Browser::new(&server)).collect();
    let mut entered = Vec::new();
    let asked = browsers
        .iter_mut()
        .map(|browser| browser.send("POST", "/setup/", &form));
    for answer in futures(asked).await {
        entered.push(answer.status);
    }
    assert_eq!(
        entered.iter().filter(|status| **status == 303).count(),
        1,
        "{entered:?}"
    );
    let mut browser = browsers.remove(entered.iter().position(|status| *status == 303).unwrap());
    let list = browser.get("/").await;
    let list = browser.get(list.header("Location").unwrap()).await;
    assert!(
        list.status == 200
            && list.text().contains("&#60;b&#62;Ann")
            && !list.text().contains("<b>Ann"),
        "{}",
        list.text()
    );
    let users = user::list(&server.handle);
    assert_eq!((users.len(), users[0].grant.is_owner()), (1, true));
    assert_eq!(
        users[0]
            .preferences
            .zone
            .as_ref()
            .map(|zone| zone.name().to_owned()),
        Some("Europe/Riga".to_owned())
    );
    assert_eq!(
        Browser::new(&server)
            .get("/setup/")
            .await
            .header("Location"),
        Some("/login/")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_password_signs_in_and_signing_out_ends_the_session() {
    let server = server().await;
    owner(&server, "Ann").await;
    let mut browser = Browser::new(&server);
    for (name, password) in [
        ("ann", "correct donkey"),
        ("ann", ""),
        ("bob", PASSWORD),
        ("", PASSWORD),
        ("x\n", PASSWORD),
    ] {
        let refused = browser.sign_in(name, password).await;
        assert!(
            refused.status == 422 && refused.text().contains("Wrong name or password."),
            "{name}: {refused:?}"
        );
        assert_eq!(refused.header("Set-Cookie"), None);
        assert!(
            refused
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store")
        );
    }
    assert!(!is_in(&mut browser).await);
    let answer = browser.sign_in(" aNN ", PASSWORD).await;
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/")));
    assert!(is_in(&mut browser).await);
    let cookie = browser.cookie.clone();
    let sign_out = browser.send("POST", "/logout/", &[]).await;
    assert_eq!(
        (
            sign_out.header("Location"),
            sign_out.header("Clear-Site-Data")
        ),
        (Some("/login/"), Some("\"cache\""))
    );
    assert_eq!(browser.cookie, None);
    browser.cookie = cookie;
    assert!(!is_in(&mut browser).await, "the old cookie is invalid");
    // A script that requests a part of a page gets a refusal.
    browser.headers.push(("X-Fragment".into(), "rows".into()));
    assert_eq!(browser.get("/").await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn cookies_have_the_attributes_of_their_deployment() {
    for (base, headers, expected) in [
        (
            "http://localhost",
            &[][..],
            "overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax",
        ),
        (
            "http://localhost/sub",
            &[],
            "overdue=T; Path=/sub; Max-Age=15552000; HttpOnly; SameSite=Lax",
        ),
        (
            "https://nas.example",
            &[("Host", "nas.example")],
            "__Host-overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax; Secure",
        ),
        (
            "https://nas.example",
            &[("Host", "nas.example:8000")],
            "overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax",
        ),
        (
            "http://localhost",
            &[("X-Forwarded-Proto", "https")],
            "__Host-overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax; Secure",
        ),
        (
            "https://nas.example/sub",
            &[("X-Forwarded-Proto", "https")],
            "__Secure-overdue=T; Path=/sub; Max-Age=15552000; HttpOnly; SameSite=Lax; Secure",
        ),
    ] {
        let server = TestServer::start_with(|config| {
            config.dashboard.auth = AuthMode::Password;
            config.base_url = base.parse().unwrap();
        })
        .await;
        owner(&server, "ann").await;
        let mut browser = Browser::new(&server);
        browser.headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let answer = browser.sign_in("ann", PASSWORD).await;
        let cookie = answer.header("Set-Cookie").unwrap();
        let (name, rest) = cookie.split_once('=').unwrap();
        let (token, rest) = rest.split_once(';').unwrap();
        assert_eq!(
            (format!("{name}=T;{rest}").as_str(), token.len()),
            (expected, 32),
            "{base} {headers:?}"
        );
        assert!(is_in(&mut browser).await, "{base} {headers:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_session_is_touched_once_an_hour_and_ends_when_it_is_not_used() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ann", PASSWORD).await;
    assert!(is_in(&mut browser).await);
    let seen = || {
        server.handle.with_state(|state| {
            state
                .users
                .sessions_of(ann.id, server.handle.now())
                .next()
                .map(|session| session.last_used)
        })
    };
    let first = seen();
    server.clock.advance_secs(3599);
    assert!(is_in(&mut browser).await && seen() == first);
    server.clock.advance_secs(1);
    assert!(is_in(&mut browser).await);
    until(|| seen() != first).await;
    server.clock.advance_secs(30 * 86_400 - 1);
    assert!(is_in(&mut browser).await);
    until(|| seen() == Some(server.handle.now())).await;
    server.clock.advance_secs(30 * 86_400);
    assert!(!is_in(&mut browser).await);
    server.stop().await;
}

#[tokio::test]
async fn a_link_sets_a_password_once() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let bob = user::create(
        &server.handle,
        UserName::parse("bob").unwrap(),
        None,
        Grant::Owner,
    )
    .await
    .unwrap();
    let mut old = Browser::new(&server);
    old.sign_in("ann", PASSWORD).await;
    for (whose, kind) in [(&ann, "/reset/"), (&bob, "/invite/")] {
        let path = user::create_link(&server.handle, Some(whose))
            .await
            .unwrap()
            .path();
        assert!(path.starts_with(kind), "{path}");
        let mut browser = Browser::new(&server);
        let page = browser.get(&path).await;
        assert!(
            page.status == 200 && page.text().contains(whose.name.as_str()),
            "{page:?}"
        );
        assert_eq!(
            browser
                .send("POST", &path, &[("password", "short")])
                .await
                .status,
            422
        );
        let answer = browser
            .send("POST", &path, &[("password", "another horse")])
            .await;
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")));
        assert!(is_in(&mut browser).await);
        for method in ["GET", "POST"] {
            let spent = Browser::new(&server)
                .send(method, &path, &[("password", "one more horse")])
                .await;
            assert!(
                spent.status == 404 && spent.text().contains("has been used or has expired"),
                "{spent:?}"
            );
        }
    }
    assert!(!is_in(&mut old).await, "another password ends sessions");
    let unknown = format!("/reset/{}/", LinkCode::from_random([9; 16]));
    assert_eq!(Browser::new(&server).get(&unknown).await.status, 404);
    let path = user::create_link(&server.handle, Some(&ann))
        .await
        .unwrap()
        .path();
    server.clock.advance_secs(86_400);
    assert_eq!(Browser::new(&server).get(&path).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn guessing_passwords_is_rate_limited() {
    let server = server().await;
    owner(&server, "ann").await;
    let from = |address: &str| {
        let mut browser = Browser::new(&server);
        // The client's invented value precedes the value that its proxy adds.
        browser
            .headers
            .push(("X-Forwarded-For".into(), format!("203.0.113.99, {address}")));
        browser
    };
    let mut browser = from("192.0.2.1");
    for _ in 0..10 {
        assert_eq!(browser.sign_in("ann", "correct donkey").await.status, 422);
    }
    let waits = browser.sign_in("ann", PASSWORD).await;
    assert_eq!(
        (waits.status, waits.header("Retry-After")),
        (429, Some("300"))
    );
    // The page is the form, with the name.
    assert!(
        waits.text().contains("Try again in 5 minutes.")
            && waits.text().contains(r#"value="ann""#)
            && waits.text().contains(r#"action="/login/""#),
        "{}",
        waits.text()
    );
    assert_eq!(from("192.0.2.2").sign_in("ann", PASSWORD).await.status, 303);
    server.clock.advance_secs(300);
    assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 303);
    server.stop().await;
}

#[tokio::test]
async fn an_account_without_a_time_zone_gets_that_of_the_browser_once() {
    let server = server().await;
    let user = owner(&server, "ann").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ann", PASSWORD).await;
    let asks = r#"data-zone-to="/account/list/""#;
    assert!(browser.get("/users/").await.text().contains(asks));
    let zone = || {
        server.handle.with_state(|state| {
            let user = state.users.get(user.id).unwrap();
            user.preferences
                .zone
                .as_ref()
                .map(|zone| zone.name().to_owned())
        })
    };
    // Choices in a list do not set a zone.
    browser
        .send("POST", "/account/list/", &[("rows", "100")])
        .await;
    assert_eq!(zone(), None);
    for sent in ["Europe/Riga", "Asia/Tokyo"] {
        let set = browser
            .send("POST", "/account/list/", &[("zone", sent)])
            .await;
        assert_eq!((set.status, zone().as_deref()), (303, Some("Europe/Riga")));
    }
    assert!(!browser.get("/users/").await.text().contains(asks));
    assert!(
        browser
            .get("/account/")
            .await
            .text()
            .contains(r#"<option value="Asia/Tokyo">"#)
    );
    let other = owner(&server, "bob").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("bob", PASSWORD).await;
    // A browser with a zone that is not known here does not ask again.
    browser
        .send("POST", "/account/list/", &[("zone", "Mars/Olympus")])
        .await;
    let zone = server
        .handle
        .with_state(|state| state.users.get(other.id).unwrap().preferences.zone.clone());
    assert_eq!(zone.unwrap().name(), "UTC");
    server.stop().await;
}

#[tokio::test]
async fn signing_in_redirects_only_to_our_own_pages() {
    let server = server().await;
    owner(&server, "ann").await;
    let uuid = server
        .handle
        .with_state(|state| state.project(server.main.id).unwrap().project.uuid);
    let list = format!("/projects/{uuid}/checks/");
    let mut browser = Browser::new(&server);
    let asked = browser.get(&format!("{list}?q=a%20b")).await;
    let way = asked.header("Location").unwrap().to_owned();
    assert!(
        asked.status == 303 && way.starts_with("/login/?next="),
        "{way}"
    );
    let page = browser.get(&way).await;
    assert!(
        page.text().contains(&format!("value=\"{list}?q=a%20b\"")),
        "{}",
        page.text()
    );
    browser.sign_in("ann", PASSWORD).await;
    let good = [
        list.clone(),
        format!("{list}?q=a%20b&tag=x"),
        "/".to_owned(),
        format!("{list}?next=//evil.example"),
    ];
    let bad = [
        "",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example/",
        "http:evil.example",
        "javascript:alert(1)",
        "/login/",
        "/logout/",
        "/setup/",
        "/static/x",
        "/api/v3/checks/",
        "/projects",
        "/projects/",
        "/projects/x/checks/",
        "evil.example",
        "/%2f/evil.example",
        "/..//evil.example",
        "/.//evil.example",
        "/%5cevil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " /",
        "/ ",
        "//",
        "///",
        "/@evil.example",
        "@evil.example",
        "/;@evil.example",
        "?x",
        "#x",
        "/#",
        ".",
        "..",
        "/.",
        "/..",
        "ftp://evil.example/",
        "data:text/html,x",
        "//evil.example/%2f..",
        "/%0d%0aSet-Cookie:a=b",
        "/\r\nSet-Cookie: a=b",
        "////",
        "http://localhost/",
        "//localhost/",
        "/evil.example",
        "/ping/x",
        "/badge/x",
        "/healthz",
        "/favicon.ico",
        "*",
        "/*",
        "http://",
        "https:///evil.example",
        "/projects/00000000-0000-0000-0000-000000000000",
        "blob:x",
        "vbscript:x",
        "/\u{202e}",
        "/ž",
        "http://user@localhost/",
    ];
    assert!(bad.len() >= 60);
    for (next, expected) in good
        .iter()
        .map(|next| (next.as_str(), next.as_str()))
        .chain(bad.map(|next| (next, "/")))
    {
        let answer = browser
            .send(
                "POST",
                "/login/",
                &[("name", "ann"), ("password", PASSWORD), ("next", next)],
            )
            .await;
        assert_eq!(
            (answer.status, answer.header("Location")),
            (303, Some(expected)),
            "{next:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_disabled_user_is_signed_out_at_once() {
    let server = server().await;
    owner(&server, "ann").await;
    let bob = make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::new([(
            server.main.id,
            Membership::Member,
        )])),
    )
    .await;
    let mut browser = Browser::new(&server);
    browser.sign_in("bob", PASSWORD).await;
    assert!(is_in(&mut browser).await);
    let changes = UserChanges {
        disabled: Some(true),
        ..UserChanges::default()
    };
    user::update(&server.handle, bob.id, changes, None)
        .await
        .unwrap();
    assert!(!is_in(&mut browser).await);
    assert_eq!(browser.sign_in("bob", PASSWORD).await.status, 422);
    server.stop().await;
}

#[tokio::test]
async fn only_a_trusted_proxy_names_the_user() {
    let logout = LogoutUrl::parse("https://auth.example/bye").unwrap();
    let forward = ProxyAuth::new("Remote-User", Some(b"hush"), None, Some(logout)).unwrap();
    let server = TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.dashboard.proxy_auth = Some(forward.clone());
    })
    .await;
    owner(&server, "ann").await;
    let by = |headers: &[(&str, &str)]| {
        let mut browser = Browser::new(&server);
        browser.headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        browser
    };
    let hush = ("X-Overdue-Proxy-Secret", "hush");
    for (headers, status, part) in [
        (&[("Remote-User", "ann"), hush][..], 303, "/projects/"),
        (
            &[("Remote-User", "ANN"), hush],
            403,
            "User ANN has no access. Ask an owner.",
        ),
        (&[("Remote-User", "ann")], 403, "did not send the secret"),
        (
            &[("Remote-User", "ann"), ("X-Overdue-Proxy-Secret", "hus")],
            403,
            "did not send the secret",
        ),
        (
            &[("Remote-User", "<b>bob"), hush],
            403,
            "User &#60;b&#62;bob has no access. Ask an owner.",
        ),
        (
            &[("Remote-User", "ann"), ("Remote-User", "ann"), hush],
            400,
            "does not name one user",
        ),
        (&[("Remote-User", ""), hush], 400, "does not name one user"),
        (&[hush], 303, "/login/"),
    ] {
        let answer = by(headers).get("/").await;
        let location = answer.header("Location").unwrap_or_else(|| answer.text());
        assert!(
            answer.status == status && location.contains(part),
            "{headers:?}: {answer:?}"
        );
    }
    let mut browser = by(&[("Remote-User", "ann"), hush]);
    let sign_out = browser.send("POST", "/logout/", &[]).await;
    assert_eq!(
        sign_out.header("Location"),
        Some("https://auth.example/bye")
    );
    let policy = sign_out.header("Content-Security-Policy").unwrap();
    assert!(
        policy.contains("form-action 'self' https://auth.example;"),
        "{policy}"
    );
    // The password still works, and a form from another origin is refused for every named user.
    assert_eq!(
        Browser::new(&server).sign_in("ann", PASSWORD).await.status,
        303
    );
    let elsewhere = server
        .send(
            "POST",
            "/projects/add/",
            &[
                ("Remote-User", "ann"),
                hush,
                ("Sec-Fetch-Site", "cross-site"),
            ],
            b"name=x",
        )
        .await;
    assert_eq!(elsewhere.status, 403);
    server.stop().await;

    let forward = ProxyAuth::new("Remote-User", None, Some(Membership::ReadOnly), None).unwrap();
    let server = TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.dashboard.proxy_auth = Some(forward);
    })
    .await;
    // The first user is an owner. Until there is one, the header of a proxy creates no user.
    let mut first = Browser::new(&server);
    first.headers = vec![("Remote-User".into(), "carol".into())];
    assert_eq!(first.get("/").await.header("Location"), Some("/login/"));
    assert_eq!(
        first.get("/login/").await.header("Location"),
        Some("/setup/")
    );
    assert!(
        first
            .get("/setup/")
            .await
            .text()
            .contains("This server has no users yet.")
            && user::list(&server.handle).is_empty()
    );
    owner(&server, "ann").await;
    for _ in 0..2 {
        let mut browser = Browser::new(&server);
        browser.headers = vec![("Remote-User".into(), "carol".into())];
        assert!(
            browser
                .get("/")
                .await
                .header("Location")
                .unwrap()
                .contains("/projects/")
        );
    }
    let carol = user::find(&server.handle, "carol").unwrap();
    assert_eq!(
        carol.grant,
        Grant::Projects(ProjectMemberships::new([(
            server.main.id,
            Membership::ReadOnly
        )]))
    );
    assert_eq!(user::list(&server.handle).len(), 2);
    server.stop().await;

    // A client that is no trusted proxy cannot name a user.
    let forward = ProxyAuth::new("Remote-User", None, Some(Membership::Member), None).unwrap();
    let server = TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.dashboard.proxy_auth = Some(forward);
        config.trusted_proxies = Vec::new();
    })
    .await;
    let mut browser = Browser::new(&server);
    browser.headers = vec![("Remote-User".into(), "carol".into())];
    assert_eq!(browser.get("/").await.header("Location"), Some("/login/"));
    assert!(user::list(&server.handle).is_empty());
    server.stop().await;
}
