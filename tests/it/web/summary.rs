//! Settings of summaries by mail on the account, and the link that unsubscribes.

use overdue::domain::timestamp::Timestamp;
use overdue::domain::user::summary::SummaryInterval;
use overdue::domain::user::{SummarySubscription, User};
use overdue::engine::command::Command;
use overdue::engine::command::user::{SummaryResult, UserCommand};
use overdue::http::unsubscribe_links;
use overdue::notifier::UnsubscribeTarget;
use overdue::operations::user;

use super::browser::{Browser, owner, server, signed_in};
use super::visible_text;
use crate::support::server::TestServer;

const PAGE: &str = "/account/summary/";

fn stored(server: &TestServer) -> User {
    User::clone(&user::find(&server.handle, "ann").unwrap())
}

fn subscription(server: &TestServer) -> Option<SummarySubscription> {
    stored(server).summary
}

async fn save(browser: &mut Browser<'_>, interval: &str, address: &str) -> u16 {
    let form = [("interval", interval), ("address", address)];
    browser.send("POST", PAGE, &form).await.status
}

#[tokio::test]
async fn a_user_subscribes_changes_the_address_and_unsubscribes() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let page = visible_text(browser.get("/account/").await.text());
    assert!(page.contains("Summary by mail off"), "{page}");
    for (interval, address, error) in [
        (
            "weekly",
            "ann",
            "give one mail address like ops@example.org",
        ),
        ("weekly", "", "give one mail address"),
        (
            "daily",
            "ann@example.org",
            "select how often a summary is sent",
        ),
    ] {
        let form = [("interval", interval), ("address", address)];
        let answer = browser.send("POST", PAGE, &form).await;
        assert_eq!(answer.status, 422, "{interval} {address}");
        let text = visible_text(answer.text());
        assert!(text.contains(error), "{text}");
        assert_eq!(subscription(&server), None);
    }
    assert_eq!(save(&mut browser, "weekly", "ann@example.org").await, 303);
    let first = subscription(&server).unwrap();
    assert_eq!(first.settings.interval, SummaryInterval::Weekly);
    assert_eq!(first.settings.address.as_str(), "ann@example.org");
    assert_eq!(first.covered_until, server.handle.now());
    let page = browser.get(PAGE).await;
    assert!(
        page.text().contains(r#"value="ann@example.org""#),
        "{page:?}"
    );
    server.clock.advance_secs(60);
    // Another address keeps the period; another interval begins anew.
    assert_eq!(save(&mut browser, "weekly", "b@example.org").await, 303);
    assert_eq!(
        subscription(&server).unwrap().covered_until,
        first.covered_until
    );
    assert_eq!(save(&mut browser, "monthly", "b@example.org").await, 303);
    assert_eq!(
        subscription(&server).unwrap().covered_until,
        server.handle.now()
    );
    assert_eq!(save(&mut browser, "off", "").await, 303);
    assert_eq!(subscription(&server), None);
}

#[tokio::test]
async fn the_last_summary_is_requested_again_at_most_every_ten_minutes() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let repeat = [("repeat", "1")];
    assert_eq!(browser.send("POST", PAGE, &repeat).await.status, 404);
    save(&mut browser, "weekly", "ann@example.org").await;
    let before = subscription(&server).unwrap().covered_until;
    assert_eq!(browser.send("POST", PAGE, &repeat).await.status, 303);
    let due = subscription(&server).unwrap();
    assert!(due.covered_until < before);
    let now = server.handle.now();
    let result = SummaryResult {
        covered_until: Some(now),
        sent: Some(now),
        failure: None,
    };
    let user = stored(&server).id;
    let record = Command::User(Box::new(UserCommand::RecordSummary { user, result }));
    server.handle.call(record).await.unwrap().unwrap();
    let refused = browser.send("POST", PAGE, &repeat).await;
    assert_eq!(refused.status, 422);
    assert!(
        visible_text(refused.text()).contains("less than ten minutes ago"),
        "{refused:?}"
    );
    assert_eq!(subscription(&server).unwrap().covered_until, now);
    server.clock.advance_secs(600);
    assert_eq!(browser.send("POST", PAGE, &repeat).await.status, 303);
    assert!(subscription(&server).unwrap().covered_until < Timestamp::min(now, before));
}

#[tokio::test]
async fn the_link_in_a_summary_unsubscribes_by_post_alone() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    save(&mut browser, "weekly", "ann@example.org").await;
    let base: overdue::http::BaseUrl = server.base.parse().unwrap();
    let links = unsubscribe_links(base.clone(), server.handle.clone());
    let path = |address: &str| {
        let url = links(UnsubscribeTarget::Summary(stored(&server).uuid), address).unwrap();
        url.strip_prefix(base.as_str()).unwrap().to_owned()
    };
    let link = path("ann@example.org");
    for (method, path, status) in [
        ("POST", path("b@example.org"), 404),
        ("POST", link.replace("/summary/", "/"), 404),
        ("POST", link[..link.len() - 1].to_owned(), 404),
        ("DELETE", link.clone(), 405),
        ("HEAD", link.clone(), 200),
        ("GET", link.clone(), 200),
    ] {
        let answer = server.send(method, &path, &[], b"").await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(subscription(&server).is_some(), "{method} {path}");
    }
    // Any number of times.
    for _ in 0..2 {
        let body = b"List-Unsubscribe=One-Click";
        let answer = server.send("POST", &link, &[], body).await;
        assert_eq!(answer.status, 200);
        assert!(
            answer.text().contains("no longer get summaries"),
            "{answer:?}"
        );
        assert_eq!(subscription(&server), None);
    }
}
