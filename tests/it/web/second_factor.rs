//! The second factor: enabling, use, single use of codes, and removal.

use overdue::admin::users::{ListUsers, RemoveSecondFactor};
use overdue::admin::{AdminContext, AdminRequest as _};
use overdue::domain::user::User;
use overdue::domain::user::second_factor::TotpSecret;
use overdue::operations::user;

use super::browser::{Browser, PASSWORD, owner, server, signed_in};
use super::visible_text;
use crate::support::server::{TestResponse, TestServer};

/// The value of a hidden field.
pub(super) fn hidden(page: &TestResponse, name: &str) -> String {
    let field = format!("name=\"{name}\" value=\"");
    let text = page.text();
    text.split(&field)
        .nth(1)
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .split('"')
        .next()
        .unwrap()
        .to_owned()
}

fn code(server: &TestServer, secret: &TotpSecret) -> String {
    secret.code_at(server.handle.now()).unwrap()
}

/// Returns the stored user.
fn ann(server: &TestServer) -> User {
    User::clone(&user::find(&server.handle, "ann").unwrap())
}

/// Enables it. Returns the secret and the recovery codes.
async fn turn_on(server: &TestServer, browser: &mut Browser<'_>) -> (TotpSecret, Vec<String>) {
    let secret =
        TotpSecret::parse(&hidden(&browser.get("/account/totp/").await, "secret")).unwrap();
    let text = secret.to_base32();
    let code = code(server, &secret);
    let on = browser
        .send(
            "POST",
            "/account/totp/",
            &[("do", "on"), ("secret", &text), ("code", &code)],
        )
        .await;
    assert_eq!(
        on.header("Location"),
        Some("/account/totp/?m=totp-on"),
        "{on:?}"
    );
    let page = browser.get("/account/totp/").await;
    let codes = page
        .text()
        .split("class=\"codes\">")
        .nth(1)
        .unwrap()
        .split("</pre>")
        .next()
        .unwrap();
    (secret, codes.lines().map(str::to_owned).collect())
}

/// Enters a password. Returns the form that asks for the code.
async fn first_step(browser: &mut Browser<'_>, next: &str) -> String {
    let page = browser
        .send(
            "POST",
            "/login/",
            &[("name", "ann"), ("password", PASSWORD), ("next", next)],
        )
        .await;
    assert!(
        page.status == 200 && page.text().contains("one-time-code"),
        "{page:?}"
    );
    assert!(
        page.header("Set-Cookie").is_none()
            && page
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store")
    );
    hidden(&page, "attempt")
}

async fn second_step(browser: &mut Browser<'_>, attempt: &str, code: &str) -> TestResponse {
    browser
        .send(
            "POST",
            "/login/code/",
            &[("attempt", attempt), ("code", code)],
        )
        .await
}

#[tokio::test]
async fn a_code_of_the_app_enables_the_second_factor_which_is_required_from_then_on() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let page = browser.get("/account/totp/").await;
    assert!(
        page.text().contains("<svg class=\"qr\"")
            && page
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store"),
        "{page:?}"
    );
    let secret = hidden(&page, "secret");
    let wrong = browser
        .send(
            "POST",
            "/account/totp/",
            &[("do", "on"), ("secret", &secret), ("code", "000000x")],
        )
        .await;
    assert!(
        wrong.status == 422 && hidden(&wrong, "secret") == secret,
        "the app has this secret by now: {wrong:?}"
    );
    assert_eq!(ann(&server).second_factor, None);
    let (secret, codes) = turn_on(&server, &mut browser).await;
    assert_eq!(
        (
            codes.len(),
            ann(&server).second_factor.unwrap().recovery_hashes.len()
        ),
        (10, 10)
    );
    let reuse = browser.get("/account/totp/").await;
    assert!(
        !reuse.text().contains(&codes[0]) && !reuse.text().contains(&secret.to_base32()[..8]),
        "they are shown once"
    );
    assert!(
        visible_text(browser.get("/account/").await.text()).contains("10 recovery codes are left")
    );

    // The code that enabled it cannot be used again, and neither can any code that was used to sign
    // in.
    let mut other = Browser::new(&server);
    let attempt = first_step(&mut other, "/account/").await;
    let spent = second_step(&mut other, &attempt, &code(&server, &secret)).await;
    assert!(
        spent.status == 422
            && spent
                .text()
                .contains("This code is wrong or was used before."),
        "{spent:?}"
    );
    server.clock.advance_secs(30);
    let now = code(&server, &secret);
    let answer = second_step(&mut other, &attempt, &now).await;
    assert_eq!(
        (answer.status, answer.header("Location")),
        (303, Some("/account/")),
        "{answer:?}"
    );
    assert_eq!(other.get("/account/").await.status, 200);
    let reuse = second_step(&mut Browser::new(&server), &attempt, &now).await;
    assert!(
        reuse.status == 422
            && reuse
                .text()
                .contains("The sign-in has timed out. Sign in again."),
        "{reuse:?}"
    );
    let attempt = first_step(&mut Browser::new(&server), "").await;
    assert_eq!(
        second_step(&mut Browser::new(&server), &attempt, &now)
            .await
            .status,
        422
    );

    // A recovery code works once, in any spelling.
    let lost = codes[3].to_lowercase().replace('-', " ");
    assert_eq!(
        second_step(&mut Browser::new(&server), &attempt, &lost)
            .await
            .header("Location"),
        Some("/")
    );
    let attempt = first_step(&mut Browser::new(&server), "").await;
    assert_eq!(
        second_step(&mut Browser::new(&server), &attempt, &lost)
            .await
            .status,
        422
    );
    assert_eq!(ann(&server).second_factor.unwrap().recovery_hashes.len(), 9);
    server.stop().await;
}

#[tokio::test]
async fn five_wrong_codes_end_an_attempt_and_guessing_is_rate_limited() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let (secret, _) = turn_on(&server, &mut browser).await;
    server.clock.advance_secs(60);
    let mut browser = Browser::new(&server);
    let attempt = first_step(&mut browser, "").await;
    for _ in 0..4 {
        let page = second_step(&mut browser, &attempt, "nonsense").await;
        assert!(
            page.status == 422 && hidden(&page, "attempt") == attempt,
            "{page:?}"
        );
    }
    let ended = second_step(&mut browser, &attempt, "nonsense").await;
    assert!(
        ended
            .text()
            .contains("Too many wrong codes. Sign in again."),
        "{ended:?}"
    );
    assert!(
        second_step(&mut browser, &attempt, &code(&server, &secret))
            .await
            .text()
            .contains("Sign in again.")
    );
    // Passwords and codes are counted together: the tenth was the last.
    let attempt = first_step(&mut browser, "").await;
    for _ in 0..3 {
        assert_eq!(
            second_step(&mut browser, &attempt, "nonsense").await.status,
            422
        );
    }
    assert_eq!(
        second_step(&mut browser, &attempt, &code(&server, &secret))
            .await
            .status,
        429
    );
    server.clock.advance_secs(301);
    assert!(
        second_step(&mut browser, &attempt, &code(&server, &secret))
            .await
            .text()
            .contains("The sign-in has timed out.")
    );
    let attempt = first_step(&mut browser, "").await;
    assert_eq!(
        second_step(&mut browser, &attempt, &code(&server, &secret))
            .await
            .status,
        303
    );
    server.stop().await;
}

#[tokio::test]
async fn the_second_factor_is_removed_by_its_user_with_a_password_or_by_an_owner() {
    let server = server().await;
    let [_, bob] = [owner(&server, "ann").await, owner(&server, "bob").await];
    let mut browser = signed_in(&server, "ann").await;
    let (_, codes) = turn_on(&server, &mut browser).await;
    server.clock.advance_secs(901);
    for (what, password, done) in [
        ("codes", "", None),
        ("codes", "wrong one!", None),
        ("off", "", None),
        ("codes", PASSWORD, Some("/account/totp/?m=totp-codes")),
        ("off", PASSWORD, Some("/account/totp/?m=totp-off")),
    ] {
        let answer = browser
            .send(
                "POST",
                "/account/totp/",
                &[("do", what), ("password", password)],
            )
            .await;
        assert_eq!(
            answer.header("Location"),
            done,
            "{what} {password}: {answer:?}"
        );
        if what == "codes" && done.is_some() {
            let page = browser.get("/account/totp/").await;
            assert!(
                page.text().contains("Recovery codes, shown only once")
                    && !page.text().contains(&codes[0])
            );
        }
    }
    assert_eq!(ann(&server).second_factor, None);
    assert_eq!(
        Browser::new(&server).sign_in("ann", PASSWORD).await.status,
        303
    );

    // A link for a new password does not bypass it.
    turn_on(&server, &mut browser).await;
    let path = user::create_link(&server.handle, Some(&ann(&server)))
        .await
        .unwrap()
        .path();
    let chosen = Browser::new(&server)
        .send("POST", &path, &[("password", PASSWORD)])
        .await;
    assert_eq!(
        (chosen.header("Location"), chosen.header("Set-Cookie")),
        (Some("/login/?m=chosen"), None),
        "{chosen:?}"
    );
    first_step(&mut Browser::new(&server), "").await;

    let mut other = signed_in(&server, "bob").await;
    let page = format!("/users/{}/", ann(&server).uuid);
    assert!(
        other
            .get(&page)
            .await
            .text()
            .contains("Remove second factor")
    );
    assert!(
        !other
            .get(&format!("/users/{}/", bob.uuid))
            .await
            .text()
            .contains("Remove second factor")
    );
    assert_eq!(
        other
            .send("POST", &page, &[("do", "reset-totp")])
            .await
            .status,
        303
    );
    let mut browser = signed_in(&server, "ann").await;
    // At the command line.
    turn_on(&server, &mut browser).await;
    let admin = AdminContext::new(&server.handle, None);
    let has_one = async || {
        let users = ListUsers {}.run(&admin).await.unwrap();
        users
            .iter()
            .any(|user| user.name == "ann" && user.second_factor)
    };
    assert!(has_one().await);
    let reset = RemoveSecondFactor { user: "Ann".into() };
    reset.run(&admin).await.unwrap();
    assert!(!has_one().await);
    signed_in(&server, "ann").await;
    server.stop().await;
}
