//! Actions that ask for the user's own password again.

use overdue::domain::user::one_time_link::LinkPurpose;
use overdue::domain::user::second_factor::{SecondFactor, TotpSecret};
use overdue::domain::user::{Grant, ProjectMemberships};
use overdue::engine::command::user::UserChanges;
use overdue::operations::user;

use super::browser::{PASSWORD, make, owner, server, signed_in};
use super::visible_text;
use crate::support::server::TestServer;

async fn with_second_factor(server: &TestServer, name: &str) {
    let second = Some(Some(SecondFactor {
        secret: TotpSecret::new([7; TotpSecret::LENGTH]),
        last_used_step: 0,
        recovery_hashes: [].into(),
    }));
    let found = user::find(&server.handle, name).unwrap();
    // As in the browser that the user has open.
    let by = server.handle.with_state(|state| {
        state
            .users
            .sessions_of(found.id, server.handle.now())
            .next()
            .map(|session| session.id)
    });
    user::update(
        &server.handle,
        found.id,
        UserChanges {
            second_factor: second,
            ..UserChanges::default()
        },
        by,
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn sensitive_changes_require_the_users_own_password() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let bob = make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut browser = signed_in(&server, "ann").await;
    with_second_factor(&server, "bob").await;
    let [own, other] = [&ann, &bob].map(|user| format!("/users/{}/", user.uuid));
    let bob = || user::find(&server.handle, "bob").unwrap();
    let link = LinkPurpose::Password(bob().id);
    let is_linked = || {
        server
            .handle
            .with_state(|state| state.users.link_for(link).is_some())
    };
    let save_owner = [("do", "save"), ("name", "bob"), ("role", "owner")];
    let invite_owner = [("name", "carol"), ("role", "owner")];
    let grave: [(&str, &[(&str, &str)]); 4] = [
        (&other, &[("do", "link")]),
        (&other, &[("do", "reset-totp")]),
        (&other, &save_owner),
        ("/users/", &invite_owner),
    ];
    // The password was entered a while ago.
    server.clock.advance_secs(901);
    for (path, fields) in grave {
        assert!(
            browser.get(path).await.text().contains("our own password"),
            "{path}"
        );
        for password in ["", "wrong one!"] {
            let fields: Vec<_> = fields
                .iter()
                .copied()
                .chain([("password", password)])
                .collect();
            let refused = browser.send("POST", path, &fields).await;
            assert!(
                refused.status == 422
                    && visible_text(refused.text()).contains("enter your own password"),
                "{fields:?}: {refused:?}"
            );
        }
    }
    assert!(
        !is_linked()
            && bob().second_factor.is_some()
            && !bob().grant.is_owner()
            && user::find(&server.handle, "carol").is_err()
    );
    // Minor changes need no confirmation.
    for fields in [
        &[("do", "save"), ("name", "bob"), ("role", "projects")][..],
        &[("do", "sign-out")],
    ] {
        assert_eq!(
            browser.send("POST", &other, fields).await.status,
            303,
            "{fields:?}"
        );
    }
    assert_eq!(
        browser
            .send("POST", "/users/", &[("name", "dan"), ("role", "projects")])
            .await
            .status,
        303
    );
    for (path, fields) in grave {
        server.clock.advance_secs(901);
        let fields: Vec<_> = fields
            .iter()
            .copied()
            .chain([("password", PASSWORD)])
            .collect();
        assert_eq!(
            browser.send("POST", path, &fields).await.status,
            303,
            "{fields:?}"
        );
    }
    assert!(
        bob().second_factor.is_none()
            && bob().grant.is_owner()
            && user::find(&server.handle, "carol")
                .unwrap()
                .grant
                .is_owner()
    );
    // Enabling an owner adds an owner.
    assert_eq!(
        browser
            .send("POST", &other, &[("do", "disable")])
            .await
            .status,
        303
    );
    server.clock.advance_secs(901);
    for (password, status) in [("", 422), (PASSWORD, 303)] {
        assert_eq!(
            browser
                .send("POST", &other, &[("do", "enable"), ("password", password)])
                .await
                .status,
            status,
            "{password}"
        );
        assert_eq!(bob().disabled, status == 422);
    }
    // Users change their own settings on the account page, with or without a password.
    with_second_factor(&server, "ann").await;
    for does in ["link", "reset-totp"] {
        let refused = browser
            .send("POST", &own, &[("do", does), ("password", PASSWORD)])
            .await;
        assert!(
            refused.status == 422 && visible_text(refused.text()).contains("on your account page"),
            "{does}: {refused:?}"
        );
        assert!(!refused.text().contains("/reset/"));
    }
    let found = user::find(&server.handle, "ann").unwrap();
    let link = LinkPurpose::Password(found.id);
    assert!(
        found.second_factor.is_some()
            && server
                .handle
                .with_state(|state| state.users.link_for(link).is_none())
    );
    server.stop().await;
}
