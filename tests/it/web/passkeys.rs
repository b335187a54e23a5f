//! Passkeys: adding, signing in, refused results, and removal.

use overdue::admin::users::RemovePasskeys;
use overdue::admin::{AdminContext, AdminRequest as _};
use overdue::domain::user::User;
use overdue::domain::user::passkey::MAX_PASSKEYS;
use overdue::http::dashboard::AuthMode;
use overdue::operations::user;
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use serde_json::Value;

use super::browser::{Browser, PASSWORD, owner, signed_in};
use super::visible_text;
use crate::support::authenticator::{Authenticator, USER_PRESENT, new_key};
use crate::support::server::{TestResponse, TestServer};

const ORIGIN: &str = "https://checks.example.org";

/// A server at an address that allows passkeys.
async fn server() -> TestServer {
    TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.base_url = format!("{ORIGIN}/base").parse().unwrap();
    })
    .await
}

fn authenticator(id: u8) -> Authenticator {
    Authenticator::new("checks.example.org", ORIGIN, &[id; 32])
}

/// Returns the stored user.
fn stored(server: &TestServer, name: &str) -> User {
    User::clone(&user::find(&server.handle, name).unwrap())
}

async fn options(browser: &mut Browser<'_>, path: &str) -> Value {
    let answer = browser.get(path).await;
    assert!(
        answer.status == 200
            && answer.header("Content-Type") == Some("application/json")
            && answer
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store"),
        "{answer:?}"
    );
    answer.json()
}

/// Adds a passkey in a browser whose user has just typed the password.
async fn add(browser: &mut Browser<'_>, authenticator: &mut Authenticator) -> TestResponse {
    let options = options(browser, "/account/passkeys/options/").await;
    let response = authenticator.create(&options);
    browser
        .send(
            "POST",
            "/account/passkeys/",
            &[("name", "Phone"), ("response", &response)],
        )
        .await
}

/// Signs in with a passkey in a new browser.
async fn sign_in<'s>(
    server: &'s TestServer,
    authenticator: &Authenticator,
) -> (Browser<'s>, TestResponse) {
    let mut browser = Browser::new(server);
    let options = options(&mut browser, "/login/passkey/").await;
    let answer = submit(&mut browser, &authenticator.get(&options)).await;
    (browser, answer)
}

async fn submit(browser: &mut Browser<'_>, response: &str) -> TestResponse {
    browser
        .send(
            "POST",
            "/login/passkey/",
            &[("response", response), ("next", "/base/account/")],
        )
        .await
}

fn is_refused(answer: &TestResponse) -> bool {
    answer.status == 422 && answer.header("Set-Cookie").is_none()
}

#[tokio::test]
async fn a_passkey_signs_in_without_a_password_and_a_code() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let options = options(&mut browser, "/account/passkeys/options/").await;
    assert_eq!(options["rp"]["id"], "checks.example.org");
    assert_eq!(options["user"]["name"], "ann");
    assert_eq!(
        options["authenticatorSelection"],
        serde_json::json!({
            "residentKey": "required",
            "requireResidentKey": true,
            "userVerification": "required",
        })
    );
    let mut phone = authenticator(1);
    phone.counter = 4;
    let added = add(&mut browser, &mut phone).await;
    assert_eq!(
        added.header("Location"),
        Some("/base/account/passkeys/?m=passkey-added"),
        "{added:?}"
    );
    let page = browser.get("/account/passkeys/").await;
    assert!(visible_text(page.text()).contains("Phone"), "{page:?}");

    phone.counter = 5;
    let (mut other, answer) = sign_in(&server, &phone).await;
    assert_eq!(
        answer.header("Location"),
        Some("/base/account/"),
        "{answer:?}"
    );
    let page = other.get("/account/").await;
    assert!(
        page.status == 200 && page.text().contains("ann"),
        "{page:?}"
    );
    let [passkey] = &*stored(&server, "ann").passkeys else {
        panic!("one passkey was added");
    };
    assert_eq!(
        (passkey.counter, passkey.last_used),
        (5, Some(server.handle.now()))
    );
    // Another authenticator has a key of another algorithm.
    let mut token = authenticator(2);
    token.key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    assert_eq!(add(&mut browser, &mut token).await.status, 303);
    assert_eq!(sign_in(&server, &token).await.1.status, 303);
    let mut unknown = authenticator(3);
    unknown.key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let refused = add(&mut browser, &mut unknown).await;
    assert!(
        refused.status == 422 && refused.text().contains("not of Ed25519, ES256 or RS256"),
        "{refused:?}"
    );
    // The user has just proved to be present, so a critical action needs no password.
    let page = other.get("/account/passkeys/").await;
    assert!(!page.text().contains("type=\"password\""), "{page:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_result_is_refused_unless_it_is_right_in_every_part() {
    let server = server().await;
    owner(&server, "ann").await;
    owner(&server, "bob").await;
    let mut browser = signed_in(&server, "ann").await;
    let mut phone = authenticator(1);
    phone.counter = 10;
    assert_eq!(add(&mut browser, &mut phone).await.status, 303);

    type Change = fn(&mut Authenticator);
    let changes: [(&str, Change); 12] = [
        ("key", |phone| phone.key = new_key()),
        ("identifier", |phone| phone.id[0] ^= 1),
        ("user", |phone| phone.user_handle[0] ^= 1),
        ("no user", |phone| phone.user_handle.clear()),
        ("server", |phone| phone.relying_party.push('x')),
        ("address", |phone| {
            phone.origin = "https://example.org".into();
        }),
        ("port", |phone| phone.origin.push_str(":8443")),
        ("frame", |phone| phone.is_cross_origin = true),
        ("not verified", |phone| phone.flags = USER_PRESENT),
        ("not present", |phone| phone.flags &= !USER_PRESENT),
        ("counter", |phone| phone.counter = 10),
        ("type", |phone| {
            phone.client_data_type = Some("webauthn.create");
        }),
    ];
    for (name, change) in changes {
        let mut phone = Authenticator {
            key: KeyPair::try_from(phone.key.serialize_der()).unwrap(),
            id: phone.id.clone(),
            user_handle: phone.user_handle.clone(),
            counter: 11,
            ..authenticator(1)
        };
        change(&mut phone);
        let (_, answer) = sign_in(&server, &phone).await;
        assert!(is_refused(&answer), "{name}: {answer:?}");
        server.clock.advance_secs(60);
    }
    for text in [
        "",
        "{}",
        "null",
        "[1]",
        "{\"id\":\"AQ\",\"response\":{}}",
        "ž",
    ] {
        let answer = submit(&mut Browser::new(&server), text).await;
        assert!(is_refused(&answer), "{text}: {answer:?}");
    }

    // The passkey of one user does not sign in another.
    let mut bobs = authenticator(2);
    let mut browser_of_bob = signed_in(&server, "bob").await;
    assert_eq!(add(&mut browser_of_bob, &mut bobs).await.status, 303);
    bobs.user_handle = phone.user_handle.clone();
    assert!(is_refused(&sign_in(&server, &bobs).await.1));
    phone.counter = 11;
    assert_eq!(sign_in(&server, &phone).await.1.status, 303);
    server.stop().await;
}

#[tokio::test]
async fn a_signature_is_accepted_once_and_for_five_minutes() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let mut phone = authenticator(1);
    assert_eq!(add(&mut browser, &mut phone).await.status, 303);
    // This authenticator does not count its signatures.
    let mut other = Browser::new(&server);
    let challenge = options(&mut other, "/login/passkey/").await;
    let response = phone.get(&challenge);
    assert_eq!(submit(&mut other, &response).await.status, 303);
    assert!(is_refused(
        &submit(&mut Browser::new(&server), &response).await
    ));

    let late = options(&mut Browser::new(&server), "/login/passkey/").await;
    let of_registration = options(&mut browser, "/account/passkeys/options/").await;
    server.clock.advance_secs(299);
    assert_eq!(
        submit(&mut Browser::new(&server), &phone.get(&late))
            .await
            .status,
        303
    );
    let late = options(&mut Browser::new(&server), "/login/passkey/").await;
    server.clock.advance_secs(301);
    for (name, challenge) in [("late", &late), ("other purpose", &of_registration)] {
        let answer = submit(&mut Browser::new(&server), &phone.get(challenge)).await;
        assert!(
            is_refused(&answer) && answer.text().contains("timed out"),
            "{name}: {answer:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn adding_needs_the_password_and_a_result_for_this_user() {
    let server = server().await;
    owner(&server, "ann").await;
    owner(&server, "bob").await;
    let mut browser = signed_in(&server, "ann").await;
    let mut other = signed_in(&server, "bob").await;
    let refused = async |browser: &mut Browser<'_>, name: &str, response: &str| {
        let answer = browser
            .send(
                "POST",
                "/account/passkeys/",
                &[("name", name), ("response", response)],
            )
            .await;
        assert_eq!(answer.status, 422, "{answer:?}");
        visible_text(answer.text())
    };
    let challenge = options(&mut browser, "/account/passkeys/options/").await;
    let response = authenticator(1).create(&challenge);
    // The challenge is for another user, or for signing in.
    assert!(
        refused(&mut other, "Phone", &response)
            .await
            .contains("took too long")
    );
    let for_sign_in = options(&mut other, "/login/passkey/").await;
    let mut wrong = challenge.clone();
    wrong["challenge"] = for_sign_in["challenge"].clone();
    let wrong = authenticator(1).create(&wrong);
    refused(&mut browser, "Phone", &wrong).await;
    let mut unverified = authenticator(1);
    unverified.flags = USER_PRESENT;
    refused(&mut browser, "Phone", &unverified.create(&challenge)).await;
    assert!(
        refused(&mut browser, " ", &response)
            .await
            .contains("needs a name")
    );
    // Nothing of this used up the challenge. The password is asked for after a quarter of an hour.
    let added = add(&mut browser, &mut authenticator(1)).await;
    assert_eq!(added.status, 303, "{added:?}");
    let taken = add(&mut other, &mut authenticator(1)).await;
    assert!(
        taken.status == 422 && taken.text().contains("belongs to a user already"),
        "{taken:?}"
    );
    server.clock.advance_secs(16 * 60);
    let late = add(&mut browser, &mut authenticator(2)).await;
    assert!(
        late.status == 422 && late.text().contains("enter your current password"),
        "{late:?}"
    );
    let challenge = options(&mut browser, "/account/passkeys/options/").await;
    let response = authenticator(2).create(&challenge);
    let fields = [
        ("name", "Key"),
        ("response", &response),
        ("password", PASSWORD),
    ];
    let added = browser.send("POST", "/account/passkeys/", &fields).await;
    assert_eq!(added.status, 303, "{added:?}");
    for number in 3..=MAX_PASSKEYS as u8 {
        assert_eq!(
            add(&mut browser, &mut authenticator(number)).await.status,
            303
        );
    }
    let full = add(&mut browser, &mut authenticator(99)).await;
    assert!(
        full.status == 422 && full.text().contains("maximum number of passkeys"),
        "{full:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_removed_passkey_and_a_disabled_user_do_not_sign_in() {
    let server = server().await;
    owner(&server, "ann").await;
    owner(&server, "bob").await;
    let mut browser = signed_in(&server, "ann").await;
    let mut phones = [1, 2, 3].map(authenticator);
    for phone in &mut phones {
        assert_eq!(add(&mut browser, phone).await.status, 303);
    }
    let [first, second, third] = &phones;
    let id = stored(&server, "ann").passkeys[0].id.to_text();
    let removed = browser
        .send("POST", "/account/passkeys/", &[("remove", &id)])
        .await;
    assert_eq!(
        removed.header("Location"),
        Some("/base/account/passkeys/?m=passkey-removed")
    );
    assert!(is_refused(&sign_in(&server, first).await.1));
    assert_eq!(sign_in(&server, second).await.1.status, 303);

    let update = async |disabled: &str| {
        let page = format!("/users/{}/", stored(&server, "ann").uuid);
        let mut bob = signed_in(&server, "bob").await;
        bob.send("POST", &page, &[("do", disabled)]).await.status
    };
    assert_eq!(update("disable").await, 303);
    assert!(is_refused(&sign_in(&server, second).await.1));
    assert_eq!(update("enable").await, 303);
    assert_eq!(sign_in(&server, third).await.1.status, 303);
    assert_eq!(update("reset-passkeys").await, 303);
    assert!(stored(&server, "ann").passkeys.is_empty());
    assert!(is_refused(&sign_in(&server, third).await.1));

    let mut browser = signed_in(&server, "ann").await;
    assert_eq!(add(&mut browser, &mut authenticator(4)).await.status, 303);
    let context = AdminContext::new(&server.handle, None);
    let reset = RemovePasskeys { user: "Ann".into() };
    reset.run(&context).await.unwrap();
    assert!(stored(&server, "ann").passkeys.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn passkeys_are_offered_only_at_addresses_that_allow_them() {
    for (base, is_offered) in [
        ("https://checks.example.org", true),
        ("https://checks.example.org:8443/base", true),
        ("http://localhost:8000", true),
        ("http://checks.example.org", false),
        ("https://192.0.2.1", false),
        ("https://[2001:db8::1]:8443", false),
    ] {
        let server = TestServer::start_with(|config| {
            config.dashboard.auth = AuthMode::Password;
            config.base_url = base.parse().unwrap();
        })
        .await;
        owner(&server, "ann").await;
        let page = Browser::new(&server).get("/login/").await;
        assert_eq!(page.text().contains("data-passkey"), is_offered, "{base}");
        let status = Browser::new(&server).get("/login/passkey/").await.status;
        assert_eq!(status, if is_offered { 200 } else { 404 }, "{base}");
        let mut browser = signed_in(&server, "ann").await;
        let page = browser.get("/account/passkeys/").await;
        assert_eq!(page.text().contains("data-passkey"), is_offered, "{base}");
        assert_eq!(
            page.text().contains("Browsers allow passkeys"),
            !is_offered,
            "{base}"
        );
        server.stop().await;
    }
}
