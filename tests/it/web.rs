//! The dashboard over HTTP.

mod audit;
pub(crate) mod browser;
mod bulk;
mod check;
mod confirmation;
mod deliveries;
mod external_sign_in;
mod import;
mod integrations;
mod list;
mod live_updates;
mod machines;
mod mail_pings;
mod page_weight;
mod passkeys;
mod password_guessing;
mod preserved_input;
mod proxy_identity;
mod request_handling;
mod search;
mod second_factor;
mod secrets;
mod sign_in;
mod status_pages;
mod summary;
mod undo;
mod users_and_keys;
mod windows;

use crate::support::server::{TestResponse, TestServer};

const HOST: (&str, &str) = ("Host", "localhost");

/// Sends a request like a browser that shows a page of this server.
async fn browse(
    server: &TestServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> TestResponse {
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nAccept: text/html\r\n");
    let has_host = headers.iter().any(|(name, _)| *name == "Host");
    for (name, value) in (!has_host).then_some(&HOST).into_iter().chain(headers) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Content-Length: 0\r\n\r\n");
    server.raw(head.as_bytes()).await
}

pub(crate) fn project_uuid(server: &TestServer) -> String {
    server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .project
            .uuid
            .to_string()
    })
}

/// Creates a channel. Returns its UUID.
async fn channel(server: &TestServer) -> String {
    let webhook = concat!(
        r#"{"kind":"webhook","name":"hook <1>","#,
        r#""settings":{"down-url":"http://127.0.0.1:1/","secret":"abc-hidden"}}"#,
    );
    let answer = server.extension_api("POST", "/channels", webhook).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Submits a form like a page of the server.
async fn post(server: &TestServer, path: &str, fields: &[(&str, &str)]) -> TestResponse {
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let body: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    let body = body.join("&");
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in [
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ] {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    server.raw(format!("{head}\r\n{body}").as_bytes()).await
}

/// Text of a page without its tags, with runs of blanks collapsed.
fn visible_text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or("", |(_, text)| text));
        text.push(' ');
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
