//! Guessing passwords and codes: the attacker has to wait, and other users are not affected.

use std::cell::Cell;

use overdue::domain::ids::SessionId;
use overdue::domain::user::second_factor::{SecondFactor, TotpSecret};
use overdue::domain::user::{User, one_time_link::LinkCode};
use overdue::engine::command::user::{SessionSelection, UserChanges};
use overdue::operations::user;

use super::browser::{Browser, PASSWORD, owner, server};
use super::second_factor::hidden;
use super::sign_in::futures;
use super::visible_text;
use crate::support::server::TestServer;

/// A browser at this address.
fn from<'a>(server: &'a TestServer, address: &str) -> Browser<'a> {
    let mut browser = Browser::new(server);
    browser
        .headers
        .push(("X-Forwarded-For".into(), address.into()));
    browser
}

const SHARED: &str = "192.0.2.1";

#[tokio::test]
async fn wrong_passwords_for_other_names_lock_no_user_out() {
    let server = server().await;
    for name in ["ann", "bob", "cara"] {
        owner(&server, name).await;
    }
    let mut session = from(&server, SHARED);
    assert_eq!(session.sign_in("bob", PASSWORD).await.status, 303);
    // Ann has signed in from this browser before, and out again.
    let mut browser = from(&server, "198.51.100.7");
    let answer = browser.sign_in("ann", PASSWORD).await;
    let marks = answer.headers.iter().filter(|(name, value)| {
        name.eq_ignore_ascii_case("set-cookie") && value.starts_with("overdue-known=")
    });
    let attributes: Vec<_> = marks
        .map(|(_, value)| value.split_once(';').unwrap().1)
        .collect();
    assert_eq!(
        attributes,
        [" Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax"]
    );
    browser.send("POST", "/logout/", &[]).await;
    assert!(browser.cookie.is_none() && browser.mark.is_some());
    browser.headers = vec![("X-Forwarded-For".into(), SHARED.into())];
    server.clock.advance_secs(901);

    let mut guesser = from(&server, SHARED);
    let names = ["ann", "bob", "c", "d", "e", "f", "g"];
    for number in 0..60 {
        let refused = guesser
            .sign_in(names[number % names.len()], "correct donkey")
            .await;
        assert_eq!(refused.status, 422, "{number}: {refused:?}");
    }
    for name in names {
        assert_eq!(guesser.sign_in(name, PASSWORD).await.status, 429, "{name}");
    }
    // The confirmation in a session, the recognised browser, and a user who is not attacked.
    for (password, status) in [("wrong one!", 422), (PASSWORD, 200)] {
        assert_eq!(
            session
                .send("POST", "/system/backup/", &[("password", password)])
                .await
                .status,
            status,
            "{password}"
        );
    }
    assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 303);
    assert_eq!(
        from(&server, SHARED).sign_in("cara", PASSWORD).await.status,
        303
    );
    // The cookie of a recognised browser does not work for another user, and cannot be forged.
    browser.cookie = None;
    assert_eq!(browser.sign_in("bob", PASSWORD).await.status, 429);
    browser.mark = Some(format!("overdue-known={}", "a".repeat(59)));
    assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 429);
    server.stop().await;
}

#[tokio::test]
async fn a_browser_is_recognised_until_a_new_password_or_factor_or_the_end_of_all_sessions() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let set = |changes| user::update(&server.handle, ann.id, changes, None);
    let hash = || {
        server
            .handle
            .with_state(|state| state.users.get(ann.id).unwrap().password.clone())
    };
    // An attacker has used up the attempts for her name, so only a recognised browser can sign in.
    let is_known = async |browser: &mut Browser<'_>| {
        browser.cookie = None;
        for number in 0..100 {
            from(&server, &format!("192.0.2.{number}"))
                .sign_in("ann", "correct donkey")
                .await;
        }
        assert_eq!(
            from(&server, "203.0.113.1")
                .sign_in("ann", PASSWORD)
                .await
                .status,
            429
        );
        let status = browser.sign_in("ann", PASSWORD).await.status;
        server.clock.advance_secs(3601);
        status != 429
    };
    let mut browser = from(&server, "198.51.100.7");
    assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 303);
    assert!(is_known(&mut browser).await);
    set(UserChanges {
        password: hash(),
        ..UserChanges::default()
    })
    .await
    .unwrap();
    assert!(!is_known(&mut browser).await, "the password was changed");
    for (second, what) in [
        (true, "the second factor is new"),
        (false, "the second factor was reset"),
    ] {
        browser.sign_in("ann", PASSWORD).await;
        if second {
            with_second_factor(&server, &ann).await;
        } else {
            set(UserChanges {
                second_factor: Some(None),
                ..UserChanges::default()
            })
            .await
            .unwrap();
        }
        assert!(!is_known(&mut browser).await, "{what}");
    }
    for which in [
        SessionSelection::All,
        SessionSelection::AllBut(SessionId(1)),
    ] {
        browser.sign_in("ann", PASSWORD).await;
        user::end_sessions(&server.handle, ann.id, which)
            .await
            .unwrap();
        assert!(!is_known(&mut browser).await, "{which:?}");
    }
    // A browser that changes the password or ends the other sessions stays recognised. Other
    // browsers do not.
    let mut other = from(&server, "198.51.100.8");
    for (path, fields) in [
        (
            "/account/password/",
            &[("new", PASSWORD), ("password", PASSWORD)][..],
        ),
        ("/account/sessions/", &[("session", "others")]),
    ] {
        for browser in [&mut browser, &mut other] {
            browser.cookie = None;
            assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 303);
        }
        assert_eq!(
            browser.send("POST", path, fields).await.status,
            303,
            "{path}"
        );
        assert!(
            is_known(&mut browser).await && !is_known(&mut other).await,
            "{path}"
        );
    }
    server.stop().await;
}

/// Gives a user a second factor. Returns its secret and a recovery code.
async fn with_second_factor(server: &TestServer, user: &User) -> (TotpSecret, LinkCode) {
    let secret = TotpSecret::new([7; TotpSecret::LENGTH]);
    let code = LinkCode::from_random([9; LinkCode::LENGTH]);
    let second = Some(Some(SecondFactor {
        secret: secret.clone(),
        last_used_step: 0,
        recovery_hashes: [code.hash()].into(),
    }));
    user::update(
        &server.handle,
        user.id,
        UserChanges {
            second_factor: second,
            ..UserChanges::default()
        },
        None,
    )
    .await
    .unwrap();
    (secret, code)
}

/// Enters the password and then this code.
async fn enter(browser: &mut Browser<'_>, code: &str) -> u16 {
    let page = browser.sign_in("ann", PASSWORD).await;
    assert_eq!(page.status, 200, "{page:?}");
    let attempt = hidden(&page, "attempt");
    browser
        .send(
            "POST",
            "/login/code/",
            &[("attempt", &attempt), ("code", code)],
        )
        .await
        .status
}

#[tokio::test]
async fn ten_wrong_codes_block_for_an_hour_and_are_reported() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let mut recognised = from(&server, "198.51.100.7");
    let (secret, recovery) = with_second_factor(&server, &ann).await;
    let now = || secret.code_at(server.handle.now()).unwrap();
    assert_eq!(enter(&mut recognised, &now()).await, 303);
    server.clock.advance_secs(30);
    for number in 0..10 {
        assert_eq!(
            enter(&mut from(&server, &format!("192.0.2.{number}")), "nonsense").await,
            422,
            "{number}"
        );
    }
    // The right code is refused from everywhere except the recognised browser.
    server.clock.advance_secs(3599);
    assert_eq!(enter(&mut from(&server, "192.0.2.20"), &now()).await, 429);
    recognised.cookie = None;
    assert_eq!(enter(&mut recognised, &now()).await, 303);
    let list = format!("/projects/{}/checks/", super::project_uuid(&server));
    let page = recognised.get(&list).await;
    assert!(
        visible_text(page.text()).contains("10 wrong codes of your second factor since"),
        "{page:?}"
    );
    assert!(
        !recognised.get(&list).await.text().contains("wrong codes"),
        "it is reported once"
    );
    // A recovery code is no guess, so it works at any time.
    for number in 0..10 {
        assert_eq!(
            enter(&mut from(&server, &format!("192.0.2.{number}")), "nonsense").await,
            422,
            "{number}"
        );
    }
    let mut lost = from(&server, "192.0.2.21");
    assert_eq!(enter(&mut lost, &now()).await, 429);
    assert_eq!(enter(&mut lost, &recovery.to_string()).await, 303);
    server.clock.advance_secs(30);
    assert_eq!(enter(&mut from(&server, "192.0.2.20"), &now()).await, 303);
    server.stop().await;
}

#[tokio::test]
async fn a_second_factor_ends_earlier_sessions() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let mut shared_browser = from(&server, SHARED);
    let mut other = from(&server, SHARED);
    for browser in [&mut shared_browser, &mut other] {
        assert_eq!(browser.sign_in("ann", PASSWORD).await.status, 303);
    }
    let page = shared_browser.get("/account/totp/").await;
    let secret = TotpSecret::parse(&hidden(&page, "secret")).unwrap();
    let code = secret.code_at(server.handle.now()).unwrap();
    let on = shared_browser
        .send(
            "POST",
            "/account/totp/",
            &[
                ("do", "on"),
                ("secret", &secret.to_base32()),
                ("code", &code),
            ],
        )
        .await;
    assert_eq!(
        on.header("Location"),
        Some("/account/totp/?m=totp-on"),
        "{on:?}"
    );
    assert_eq!(
        (
            shared_browser.get("/account/").await.status,
            other.get("/account/").await.status
        ),
        (200, 303)
    );
    // New recovery codes end no session.
    let sessions = || {
        server
            .handle
            .with_state(|state| state.users.sessions_of(ann.id, server.handle.now()).count())
    };
    shared_browser
        .send(
            "POST",
            "/account/totp/",
            &[("do", "codes"), ("password", PASSWORD)],
        )
        .await;
    assert_eq!(sessions(), 1);
    server.stop().await;
}

#[tokio::test]
async fn owners_are_warned_if_all_clients_share_an_address() {
    let server = server().await;
    for name in ["ann", "bob"] {
        owner(&server, name).await;
    }
    let says = "The sessions of all users come from 172.17.0.1";
    let mut ann = from(&server, "172.17.0.1");
    ann.sign_in("ann", PASSWORD).await;
    assert!(
        !ann.get("/system/").await.text().contains(says),
        "there is one session"
    );
    from(&server, "172.17.0.1").sign_in("bob", PASSWORD).await;
    let page = ann.get("/system/").await;
    assert!(
        page.text().contains(says) && page.text().contains("--trusted-proxy 172.17.0.1"),
        "{page:?}"
    );
    from(&server, "172.17.0.9").sign_in("bob", PASSWORD).await;
    assert!(!ann.get("/system/").await.text().contains(says));
    server.stop().await;
}

#[tokio::test]
async fn public_pages_do_not_delay_signed_in_users() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = from(&server, SHARED);
    browser.sign_in("ann", PASSWORD).await;
    let all = 60;
    let done = Cell::new(0);
    let strangers = futures((0..all).map(|_| async {
        assert_eq!(server.get("/docs/limits/").await.status, 200);
        done.set(done.get() + 1);
    }));
    let signed_in = async {
        while done.get() < 3 {
            tokio::task::yield_now().await;
        }
        (browser.get("/account/").await.status, done.get())
    };
    let (_, (status, before)) = tokio::join!(strangers, signed_in);
    assert_eq!(status, 200);
    assert!(before < all / 2, "{before} strangers were served before");
    server.stop().await;
}
