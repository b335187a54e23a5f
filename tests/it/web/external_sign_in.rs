//! Sign-in at OpenID Connect providers: accounts, permissions by groups, and results that are not
//! accepted.

use std::collections::BTreeMap;

use overdue::domain::user::external_identity::{ClientSecret, GroupRoles, IdentityProvider};
use overdue::domain::user::{Grant, Membership, User, UserName};
use overdue::http::dashboard::AuthMode;
use overdue::operations::user;
use overdue::outbound::{Outbound, OutboundConfig};
use overdue::util::clock::Clock;
use overdue::util::random::Random;
use serde_json::json;

use super::browser::{Browser, owner, signed_in};
use super::visible_text;
use crate::support::identity_provider::{CLIENT_ID, CLIENT_SECRET, FakeProvider, params_of};
use crate::support::server::{TestResponse, TestServer};

const START_PATH: &str = "/login/provider/0/";

/// A provider of this issuer, whose new users get accounts.
fn provider(issuer: String) -> IdentityProvider {
    IdentityProvider {
        name: "Company".into(),
        issuer: issuer.into(),
        client_id: CLIENT_ID.into(),
        client_secret: Some(ClientSecret(CLIENT_SECRET.into())),
        scopes: vec!["profile".into(), "groups".into()],
        name_claim: "preferred_username".into(),
        groups_claim: "groups".into(),
        creates_users: true,
        roles: GroupRoles::default(),
    }
}

async fn server_with(providers: Vec<IdentityProvider>) -> TestServer {
    let server = TestServer::start_with(|config| {
        config.dashboard.auth = AuthMode::Password;
        config.dashboard.providers = providers;
        let outbound = OutboundConfig::default();
        config.dashboard.outbound =
            Some(Outbound::new(outbound, &Clock::System, Random::System).unwrap());
    })
    .await;
    owner(&server, "root").await;
    server
}

async fn start(change: impl FnOnce(&mut IdentityProvider)) -> (FakeProvider, TestServer) {
    let fake = FakeProvider::start().await;
    let mut provider = provider(fake.issuer());
    change(&mut provider);
    let server = server_with(vec![provider]).await;
    (fake, server)
}

/// Opens the provider in a browser; returns its URL.
async fn begin(browser: &mut Browser<'_>, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("Location").unwrap().to_owned()
}

async fn finish(browser: &mut Browser<'_>, query: &str) -> TestResponse {
    browser.get(&format!("/login/callback/?{query}")).await
}

/// Signs in at the provider.
async fn sign_in(browser: &mut Browser<'_>, fake: &FakeProvider, subject: &str) -> TestResponse {
    let location = begin(browser, START_PATH).await;
    let query = fake.sign_in(&location, subject, |_| {});
    finish(browser, &query).await
}

fn stored(server: &TestServer, name: &str) -> Option<User> {
    let name = UserName::parse(name).unwrap();
    server
        .handle
        .with_state(|state| state.users.by_name(&name).map(|user| User::clone(user)))
}

#[tokio::test]
async fn a_user_of_a_provider_gets_an_account_once_and_lands_on_the_requested_page() {
    let (fake, server) = start(|_| {}).await;
    let mut browser = Browser::new(&server);
    let page = browser.get("/login/?next=/account/").await;
    assert!(visible_text(page.text()).contains("Sign in with Company"));
    let location = begin(&mut browser, &format!("{START_PATH}?next=/account/")).await;
    let params = params_of(&location);
    assert_eq!(params["scope"], "openid profile groups");
    assert_eq!(
        params["redirect_uri"],
        format!("{}/login/callback/", server.base)
    );
    let query = fake.sign_in(&location, "ann", |_| {});
    let answer = finish(&mut browser, &query).await;
    assert_eq!(
        (answer.status, answer.header("Location")),
        (303, Some("/account/"))
    );
    assert_eq!(browser.pending, None);
    let ann = stored(&server, "ann").unwrap();
    assert_eq!(ann.identity.as_ref().unwrap().subject(), "ann");
    assert!(!ann.grant.is_owner() && ann.password.is_none());
    let page = browser.get("/account/").await;
    assert!(
        visible_text(page.text()).contains("Company connected"),
        "{page:?}"
    );
    // The same subject is the same user, even under another name.
    let mut other = Browser::new(&server);
    let location = begin(&mut other, START_PATH).await;
    let query = fake.sign_in(&location, "ann", |claims| {
        claims.insert("preferred_username".into(), json!("renamed"));
    });
    assert_eq!(finish(&mut other, &query).await.status, 303);
    assert!(stored(&server, "renamed").is_none());
    assert_eq!(user::list(&server.handle).len(), 2);
    // Signing out offers to leave the provider, too.
    let answer = browser.send("POST", "/logout/", &[]).await;
    let login = answer.header("Location").unwrap().to_owned();
    let page = browser.get(&login).await;
    assert!(visible_text(page.text()).contains("Sign out of Company, too"));
    let answer = browser.get(&format!("{START_PATH}?leave=1")).await;
    let target = answer.header("Location").unwrap();
    assert!(target.starts_with(&format!("{}/end?client_id=overdue", fake.issuer())));
}

#[tokio::test]
async fn a_result_is_refused_unless_it_is_right_in_every_part() {
    let (fake, server) = start(|_| {}).await;
    type Change = fn(&mut serde_json::Map<String, serde_json::Value>);
    let changes: [(&str, Change); 7] = [
        ("another issuer", |claims| {
            claims.insert("iss".into(), json!("https://evil.example"));
        }),
        ("another audience", |claims| {
            claims.insert("aud".into(), json!("another"));
        }),
        ("another nonce", |claims| {
            claims.insert("nonce".into(), json!("x"));
        }),
        ("no nonce", |claims| {
            claims.remove("nonce");
        }),
        ("expired", |claims| {
            let now = claims["iat"].as_i64().unwrap();
            claims.insert("exp".into(), json!(now - 61));
        }),
        ("from the future", |claims| {
            let now = claims["iat"].as_i64().unwrap();
            claims.insert("iat".into(), json!(now + 62));
        }),
        ("no subject", |claims| {
            claims.insert("sub".into(), json!(""));
        }),
    ];
    for (case, change) in changes {
        let mut browser = Browser::new(&server);
        let location = begin(&mut browser, START_PATH).await;
        let query = fake.sign_in(&location, "ann", change);
        let answer = finish(&mut browser, &query).await;
        assert_eq!((answer.status, &browser.cookie), (422, &None), "{case}");
        let text = visible_text(answer.text());
        assert!(
            text.contains("Company did not sign you in"),
            "{case}: {text}"
        );
    }
    // A clock that differs by less than a minute is accepted.
    let mut browser = Browser::new(&server);
    let location = begin(&mut browser, START_PATH).await;
    let query = fake.sign_in(&location, "ann", |claims| {
        let now = claims["iat"].as_i64().unwrap();
        claims.insert("exp".into(), json!(now - 58));
        claims.insert("iat".into(), json!(now + 58));
    });
    assert_eq!(finish(&mut browser, &query).await.status, 303);
}

#[tokio::test]
async fn a_sign_in_belongs_to_one_browser_and_is_used_once() {
    let (fake, server) = start(|_| {}).await;
    let mut browser = Browser::new(&server);
    let location = begin(&mut browser, START_PATH).await;
    let query = fake.sign_in(&location, "ann", |_| {});
    let params = params_of(&format!("?{query}"));
    let timed_out = |answer: &TestResponse| {
        answer.status == 422 && visible_text(answer.text()).contains("timed out")
    };
    // The link in another browser, with or without a sign-in of its own.
    let mut other = Browser::new(&server);
    assert!(timed_out(&finish(&mut other, &query).await));
    begin(&mut other, START_PATH).await;
    assert!(timed_out(&finish(&mut other, &query).await));
    for wrong in [
        format!("code={}", params["code"]),
        format!("code={}&state=x", params["code"]),
        format!("code={}&state={}x", params["code"], params["state"]),
    ] {
        assert!(timed_out(&finish(&mut browser, &wrong).await), "{wrong}");
    }
    let pending = browser.pending.clone();
    assert_eq!(finish(&mut browser, &query).await.status, 303);
    let mut again = Browser::new(&server);
    again.pending = pending;
    assert!(timed_out(&finish(&mut again, &query).await));
    // After a quarter of an hour.
    let mut late = Browser::new(&server);
    let location = begin(&mut late, START_PATH).await;
    let query = fake.sign_in(&location, "ann", |_| {});
    server.clock.advance_secs(900);
    assert!(timed_out(&finish(&mut late, &query).await));
}

#[tokio::test]
async fn errors_of_the_provider_are_shown_and_other_issuers_are_refused() {
    let (fake, server) = start(|_| {}).await;
    for (suffix, requests) in [
        ("&error=access_denied", 0),
        ("&iss=https%3A%2F%2Fevil.example", 0),
        ("&code=unknown", 1),
    ] {
        let mut browser = Browser::new(&server);
        let location = begin(&mut browser, START_PATH).await;
        let state = params_of(&location)["state"].clone();
        let answer = finish(&mut browser, &format!("state={state}{suffix}")).await;
        assert_eq!(answer.status, 422, "{suffix}");
        assert!(visible_text(answer.text()).contains("Company did not sign you in"));
        assert_eq!(fake.requests("/token"), requests, "{suffix}");
    }
    // The user information of another user.
    let mut browser = Browser::new(&server);
    let location = begin(&mut browser, START_PATH).await;
    let query = fake.sign_in(&location, "ann", |_| {});
    fake.set_user_info(json!({ "sub": "root" }));
    assert_eq!(finish(&mut browser, &query).await.status, 422);
    let (fake, server) = start(|_| {}).await;
    fake.set_down(true);
    // It is asked again after ten seconds.
    let discovery = "/.well-known/openid-configuration";
    for (advance, requests) in [(0, 1), (9, 1), (1, 2)] {
        server.clock.advance_secs(advance);
        let answer = Browser::new(&server).get(START_PATH).await;
        assert_eq!(answer.status, 422);
        assert!(visible_text(answer.text()).contains("Company does not answer"));
        assert_eq!(fake.requests(discovery), requests, "{advance}");
    }
    fake.set_down(false);
    server.clock.advance_secs(10);
    assert_eq!(Browser::new(&server).get(START_PATH).await.status, 303);
    assert_eq!(
        Browser::new(&server).get("/login/provider/1/").await.status,
        404
    );
}

#[tokio::test]
async fn new_keys_of_a_provider_are_fetched_and_unpublished_ones_are_refused() {
    let (fake, server) = start(|_| {}).await;
    let mut browser = Browser::new(&server);
    assert_eq!(sign_in(&mut browser, &fake, "ann").await.status, 303);
    server.clock.advance_secs(61);
    fake.change_key("second", true);
    let mut browser = Browser::new(&server);
    let sign_in_later = async |browser: &mut Browser<'_>| {
        let location = begin(browser, START_PATH).await;
        let now = server.handle.now().secs();
        let query = fake.sign_in(&location, "ann", |claims| {
            claims.insert("iat".into(), json!(now));
            claims.insert("exp".into(), json!(now + 60));
        });
        finish(browser, &query).await.status
    };
    assert_eq!(sign_in_later(&mut browser).await, 303);
    assert_eq!(fake.requests("/keys"), 2);
    server.clock.advance_secs(61);
    fake.change_key("stolen", false);
    assert_eq!(sign_in_later(&mut Browser::new(&server)).await, 422);
    // Within a minute the keys are not fetched again.
    assert_eq!(sign_in_later(&mut Browser::new(&server)).await, 422);
    assert_eq!(fake.requests("/keys"), 3);
}

#[tokio::test]
async fn groups_give_permissions_at_every_sign_in() {
    let roles = GroupRoles {
        owners: vec!["admins".into()],
        members: BTreeMap::from([("ops".into(), vec!["main".into()])]),
        read_only: BTreeMap::new(),
    };
    let (fake, server) = start(|provider| provider.roles = roles).await;
    let with_groups = async |groups: serde_json::Value| {
        let mut browser = Browser::new(&server);
        let location = begin(&mut browser, START_PATH).await;
        let query = fake.sign_in(&location, "ann", |claims| {
            claims.insert("groups".into(), groups);
        });
        finish(&mut browser, &query).await
    };
    let refused = with_groups(json!(["staff"])).await;
    assert_eq!(refused.status, 422);
    let text = visible_text(refused.text());
    assert!(
        text.contains("Your groups at Company give no access here."),
        "{text}"
    );
    assert!(stored(&server, "ann").is_none());
    assert_eq!(with_groups(json!(["ops"])).await.status, 303);
    let membership = |server: &TestServer| {
        let user = stored(server, "ann").unwrap();
        (
            user.grant.is_owner(),
            user.grant.membership_in(server.main.id),
        )
    };
    assert_eq!(membership(&server), (false, Some(Membership::Member)));
    assert_eq!(with_groups(json!(["ops", "admins"])).await.status, 303);
    assert!(membership(&server).0);
    assert_eq!(with_groups(json!("ops")).await.status, 303);
    assert!(!membership(&server).0);
    // Groups that only the user information has.
    let mut browser = Browser::new(&server);
    let location = begin(&mut browser, START_PATH).await;
    let query = fake.sign_in(&location, "bob", |_| {});
    fake.set_user_info(json!({ "sub": "bob", "groups": ["admins"] }));
    assert_eq!(finish(&mut browser, &query).await.status, 303);
    assert!(stored(&server, "bob").unwrap().grant.is_owner());
}

#[tokio::test]
async fn invited_users_are_connected_by_name_and_others_keep_their_accounts() {
    let (fake, server) = start(|provider| provider.creates_users = false).await;
    let name = |text: &str| UserName::parse(text).unwrap();
    user::create(&server.handle, name("ann"), None, Grant::Owner)
        .await
        .unwrap();
    let mut browser = Browser::new(&server);
    assert_eq!(sign_in(&mut browser, &fake, "ann").await.status, 303);
    assert!(stored(&server, "ann").unwrap().identity.is_some());
    for (subject, text) in [
        // A user with a password, and another spelling of a name.
        ("root", "An account with the name root exists."),
        ("ANN", "An account with the name ANN exists."),
        ("eve", "eve has no account here."),
    ] {
        let mut browser = Browser::new(&server);
        let answer = sign_in(&mut browser, &fake, subject).await;
        assert_eq!((answer.status, &browser.cookie), (422, &None), "{subject}");
        let page = visible_text(answer.text());
        assert!(page.contains(text), "{page}");
    }
    assert!(stored(&server, "root").unwrap().identity.is_none());
    assert_eq!(user::list(&server.handle).len(), 2);
}

#[tokio::test]
async fn a_user_connects_and_disconnects_the_account() {
    let (fake, server) = start(|provider| provider.creates_users = false).await;
    let mut browser = signed_in(&server, "root").await;
    let path = format!("{START_PATH}?connect=1");
    let location = begin(&mut browser, &path).await;
    let query = fake.sign_in(&location, "u1", |_| {});
    // Another user cannot use the link.
    owner(&server, "eve").await;
    let mut eve = signed_in(&server, "eve").await;
    eve.pending = browser.pending.clone();
    assert_eq!(finish(&mut eve, &query).await.status, 422);
    assert!(stored(&server, "eve").unwrap().identity.is_none());
    assert_eq!(finish(&mut browser, &query).await.status, 303);
    assert!(stored(&server, "root").unwrap().identity.is_some());
    // The identity is taken.
    let location = begin(&mut eve, &path).await;
    let query = fake.sign_in(&location, "u1", |_| {});
    assert_eq!(finish(&mut eve, &query).await.status, 403);
    let mut other = Browser::new(&server);
    assert_eq!(sign_in(&mut other, &fake, "u1").await.status, 303);
    // A session that is open for a while is not enough.
    server.clock.advance_secs(16 * 60);
    assert_eq!(browser.get(&path).await.status, 403);
    let form = [("password", "wrong password")];
    let answer = browser.send("POST", "/account/identity/", &form).await;
    assert_eq!(answer.status, 400);
    assert!(stored(&server, "root").unwrap().identity.is_some());
    let form = [("password", super::browser::PASSWORD)];
    let answer = browser.send("POST", "/account/identity/", &form).await;
    assert_eq!(answer.status, 303);
    assert!(stored(&server, "root").unwrap().identity.is_none());
}

/// Sends a logout token as a provider does; returns the status.
async fn send_logout(server: &TestServer, token: &str) -> u16 {
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = format!("logout_token={token}");
    let path = "/login/provider/0/logout";
    server
        .send("POST", path, &form, body.as_bytes())
        .await
        .status
}

#[tokio::test]
async fn a_logout_at_the_provider_ends_the_sessions_of_its_user_only() {
    let (fake, server) = start(|_| {}).await;
    let mut ann = Browser::new(&server);
    let mut ben = Browser::new(&server);
    assert_eq!(sign_in(&mut ann, &fake, "ann").await.status, 303);
    assert_eq!(sign_in(&mut ben, &fake, "ben").await.status, 303);
    let token = fake.logout_token("ann", |_| {});
    assert_eq!(send_logout(&server, &token).await, 200);
    assert_eq!(ann.get("/account/").await.status, 303);
    assert_eq!(ben.get("/account/").await.status, 200);
    // A user without an account here has no session.
    let token = fake.logout_token("zoe", |_| {});
    assert_eq!(send_logout(&server, &token).await, 200);
    let answer = server.get("/login/provider/0/logout").await;
    assert_eq!(answer.status, 405);
    server.stop().await;
}

#[tokio::test]
async fn logout_tokens_of_others_and_other_tokens_end_no_session() {
    let (fake, server) = start(|_| {}).await;
    let mut ann = Browser::new(&server);
    assert_eq!(sign_in(&mut ann, &fake, "ann").await.status, 303);
    type Change = (&'static str, serde_json::Value);
    let changes: [Change; 8] = [
        ("aud", json!("another client")),
        ("iss", json!("https://other.example.org")),
        ("exp", json!(1_700_000_000)),
        ("iat", json!(2_000_000_000)),
        ("nonce", json!("of an ID token")),
        ("events", json!({})),
        (
            "events",
            json!({ "http://schemas.openid.net/event/backchannel-logout": 1 }),
        ),
        ("sub", json!(null)),
    ];
    for (name, value) in changes {
        let token = fake.logout_token("ann", |claims| {
            claims.insert(name.into(), value);
        });
        assert_eq!(send_logout(&server, &token).await, 400, "{name}");
    }
    let token = fake.logout_token("ann", |_| {});
    let (signed, _) = token.rsplit_once('.').unwrap();
    for token in [
        "",
        "a.b.c",
        signed,
        &format!("{signed}.AAAA"),
        &format!("{token}A"),
    ] {
        assert_eq!(send_logout(&server, token).await, 400, "{token}");
    }
    // A key that the provider does not publish.
    fake.change_key("stolen", false);
    let stolen = fake.logout_token("ann", |_| {});
    assert_eq!(send_logout(&server, &stolen).await, 400);
    assert_eq!(ann.get("/account/").await.status, 200);
    server.stop().await;
}
