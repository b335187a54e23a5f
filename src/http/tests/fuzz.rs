//! Requests as bytes on a connection to a running server.

use std::time::Duration;

use super::*;
use crate::domain::ids::ProjectId;
use crate::domain::project::{KeyLabel, KeySecret, PingKey, ProjectName};
use crate::engine::command::{Command, NewKey};
use crate::operations::project;

const API_KEY: &str = "0123456789abcdefghijklmnopqrstuv";
const PING_KEY: &str = "ABCDEFGHIJKLMNOPQRSTUv";
const CHECK: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";

/// Requests for every kind of URL. `\n` stands for the end of a line of the header.
const EXAMPLES: &[&str] = &[
    "GET /ping/CHECK/start?rid=CHECK HTTP/1.1\nHost: localhost\nUser-Agent: curl\n\n",
    "POST /ping/PING/slug/1?create=1 HTTP/1.1\nHost: localhost\nContent-Length: 5\n\nhello",
    "HEAD /ping/PING/slug HTTP/1.0\nX-Forwarded-For: 1.2.3.4, ::1\n\n",
    concat!(
        "POST /ping/CHECK HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n5;x=y\r\n",
        "hello\r\n0\r\nA: b\r\n\r\n",
    ),
    concat!(
        "POST /api/v3/checks/ HTTP/1.1\nHost: a\nX-Api-Key: KEY\nContent-Length: 39\n\n",
        "{\"name\": \"a\", \"schedule\": \"*/5 * * * *\"}",
    ),
    concat!(
        "GET /api/v3/checks/?tag=a&tag=b&slug=c HTTP/1.1\nHost: a\nX-Api-Key: KEY\n",
        "If-None-Match: \"x\"\n\n",
    ),
    concat!(
        "GET /api/v3/checks/CHECK/flips/?seconds=60&start=1&end=2 HTTP/1.1\nHost: a\n",
        "X-Api-Key: KEY\n\n",
    ),
    "OPTIONS /api/v1/checks/ HTTP/1.1\nHost: a\nOrigin: http://b\n\n",
    concat!(
        "PUT /api/overdue/v1/channels/CHECK HTTP/1.1\nHost: a\nX-Api-Key: KEY\n",
        "Content-Length: 2\n\n{}",
    ),
    "GET /badge/CHECK/abcdefgh/tag.svg HTTP/1.1\nHost: a\n\n",
    "GET /b/2/CHECK.shields HTTP/1.1\nHost: a\n\n",
    "GET /projects/CHECK/metrics/KEY HTTP/1.1\nHost: a\nAuthorization: Bearer x\n\n",
    concat!(
        "GET /?tag=a&search=b&status=down&sort=name&page=2 HTTP/1.1\nHost: localhost\n",
        "Cookie: overdue=x; a=b\n\n",
    ),
    concat!(
        "POST /checks/CHECK/edit/ HTTP/1.1\nHost: localhost\n",
        "Sec-Fetch-Site: same-origin\nContent-Type: application/x-www-form-urlencoded\n",
        "Content-Length: 20\n\nname=a&schedule=%2A+",
    ),
    concat!(
        "POST /system/import/ HTTP/1.1\nHost: localhost\nSec-Fetch-Site: same-origin\n",
        "Content-Type: multipart/form-data; boundary=x\nContent-Length: 66\n\n--x\r\n",
        "Content-Disposition: form-data; name=\"file\"\r\n\r\n[]\r\n--x--\r\n",
    ),
    "GET /docs/limits HTTP/1.1\nHost: localhost\nAccept-Encoding: gzip, br;q=0\n\n",
    concat!(
        "GET /status/example HTTP/1.1\nHost: localhost\n\nGET /healthz HTTP/1.1\n",
        "Host: a\nConnection: close\n\n",
    ),
    concat!(
        "POST /login/ HTTP/1.1\nHost: localhost\nExpect: 100-continue\n",
        "Content-Length: 12\n\nname=a&next=",
    ),
];

async fn create_project(handle: &Handle) -> ProjectId {
    let name = ProjectName::parse("main").unwrap();
    let project = project::create(handle, name, None, 100).await.unwrap();
    for secret in [
        KeySecret::ReadWrite(SecretHash::of(API_KEY.as_bytes())),
        KeySecret::Ping(PingKey::parse(PING_KEY).unwrap()),
    ] {
        let key = NewKey {
            project: project.id,
            secret,
            label: KeyLabel::default(),
            hint: "".into(),
        };
        let command = Command::CreateKey(Box::new(key));
        handle.call(command).await.unwrap().unwrap();
    }
    project.id
}

/// Sends bytes on a connection of their own, and returns all responses.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have refused the request before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut responses = Vec::new();
    let _ = stream.read_to_end(&mut responses).await;
    responses
}

#[test]
fn fuzz_requests() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Running::start_with(100, dashboard::AuthMode::None));
    runtime.block_on(create_project(&server.handle));
    let examples: Vec<String> = EXAMPLES
        .iter()
        .map(|example| {
            let (head, body) = example.split_once("\n\n").unwrap();
            let head = head.replace('\n', "\r\n");
            format!("{head}\r\n\r\n{body}")
                .replace("CHECK", CHECK)
                .replace("PING", PING_KEY)
                .replace("KEY", API_KEY)
        })
        .collect();
    let limit = Duration::from_secs(10);
    crate::util::fuzzing::fuzz_within(limit, &examples, |bytes| {
        let responses = runtime.block_on(exchange(server.address, bytes));
        let text = String::from_utf8_lossy(&responses);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.") && !text.contains("HTTP/1.1 500"),
            "{text}"
        );
    });
    let alive = runtime.block_on(server.ask("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(alive.unwrap(), "HTTP/1.1 200");
    runtime.block_on(server.stop());
}
