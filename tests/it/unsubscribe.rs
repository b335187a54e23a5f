//! The link in mails by which whoever gets them ends that: signed, and only POST changes anything.

use overdue::http::unsubscribe_links;

use crate::support::server::Server;

#[tokio::test]
async fn whoever_gets_mails_ends_that_by_their_link() {
    let server = Server::start().await;
    let uuid = |kind: &str, settings: &str| format!(r#"{{"kind": "{kind}", "settings": {settings}}}"#);
    let mail = server.own("POST", "/channels", &uuid("email", r#"{"to": "a@example.org"}"#)).await.json();
    let hook = server.own("POST", "/channels", &uuid("webhook", r#"{"down-url": "http://example.org/"}"#)).await.json();
    let base: overdue::http::BaseUrl = server.base.parse().unwrap();
    let links = unsubscribe_links(base.clone(), server.handle.clone());
    let state = || server.handle.state().project(server.main.id).unwrap().channels.values().cloned().collect::<Vec<_>>();
    let [path, other] = [&mail, &hook].map(|channel| {
        let channel = state().into_iter().find(|one| channel["id"] == one.uuid.to_string()).unwrap();
        links(&channel).unwrap().strip_prefix(base.as_str()).unwrap().to_owned()
    });
    let is_disabled = || state().iter().any(|channel| channel.health.disabled.is_some());
    for method in ["GET", "HEAD", "OPTIONS"] {
        let answer = server.send(method, &path, &[], b"").await;
        assert_eq!((answer.status, is_disabled()), (if method == "OPTIONS" { 204 } else { 200 }, false), "{method}: {answer:?}");
    }
    let asked = server.send("GET", &path, &[], b"").await;
    assert!(asked.text().contains("<form method=\"post\"><button>Unsubscribe</button></form>"), "{asked:?}");
    assert_eq!(asked.header("content-security-policy"), Some("default-src 'none'; form-action 'self'; frame-ancestors 'none'"));
    let forged = format!("{}{}", &path[..path.len() - 1], if path.ends_with('A') { 'B' } else { 'A' });
    for (method, path, status) in [
        ("POST", forged.as_str(), 404),
        ("POST", &other, 404),
        ("POST", &path[..path.len() - 1], 404),
        ("POST", &path.replace("unsubscribe", "unsubscribed"), 404),
        ("PUT", &path, 405),
        ("DELETE", &path, 405),
    ] {
        let answer = server.send(method, path, &[], b"List-Unsubscribe=One-Click").await;
        assert_eq!((answer.status, is_disabled()), (status, false), "{method} {path}: {answer:?}");
    }
    // From whatever page or program, and as often as one likes.
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "null")];
    for _ in 0..2 {
        let answer = server.send("POST", &path, &form, b"List-Unsubscribe=One-Click").await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("This channel sends no more mails."), "{answer:?}");
    }
    let shown = server.own("GET", &format!("/channels/{}", mail["id"].as_str().unwrap()), "").await.json();
    assert_eq!((&shown["status"], &shown["last_error"]), (&"disabled".into(), &"somebody unsubscribed by the link in a mail".into()));
    assert!(!server.send("GET", &path, &[], b"").await.text().contains("<form"));
    server.stop().await;
}
