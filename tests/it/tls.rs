//! HTTP over TLS on real sockets: accepted protocols, refusals, and renewed certificates.

use std::path::Path;
use std::sync::Arc;

use overdue::http::{self, HttpTls};
use overdue::runtime::certificate::{Certificate, CertificateReload};
use overdue::runtime::runtime_threads::RuntimeThreads;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, DEFAULT_VERSIONS};

use crate::support::certificates::{Authority, put};
use crate::support::server::{TestResponse, TestServer, read_response};

const NAME: &str = "checks.example.org";

fn certificate(authority: &Authority, directory: &Path) -> Certificate {
    let [chain, key] = authority.write(NAME, directory);
    Certificate::read(&chain, &key, http::ALPN_PROTOCOLS).unwrap()
}

/// A server with this certificate, without worker threads.
async fn serve(certificate: &Certificate) -> TestServer {
    TestServer::start_encrypted(
        HttpTls::new(certificate.clone(), RuntimeThreads::default()),
        |config| {
            config.trusted_proxies = Vec::new();
        },
    )
    .await
}

async fn agree(server: &TestServer, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, server.connect().await)
        .await
}

/// Sends a request on a connection of its own.
async fn ask(server: &TestServer, authority: &Authority, head: &str, body: &[u8]) -> TestResponse {
    let mut stream = agree(server, authority.client(DEFAULT_VERSIONS))
        .await
        .unwrap();
    let head = format!(
        "{head}\r\nHost: test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(&[head.as_bytes(), body].concat())
        .await
        .unwrap();
    read_response(stream).await
}

#[tokio::test]
async fn requests_are_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = serve(&certificate(&authority, directory.path())).await;
    // More than the limit for encrypted data that is not sent yet.
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let answer = ask(
        &server,
        &authority,
        &format!(
            "POST /ping/{}/backup?create=1 HTTP/1.1",
            server.main.ping_key
        ),
        &body,
    )
    .await;
    assert_eq!((answer.status, answer.text()), (201, "Created"));
    let uuid = server
        .handle
        .with_state(|state| state.checks_of(server.main.id).next().unwrap().uuid);
    let key = format!("HTTP/1.1\r\nX-Api-Key: {}", server.main.read_write_key);
    let stored = ask(
        &server,
        &authority,
        &format!("GET /api/v3/checks/{uuid}/pings/1/body {key}"),
        b"",
    )
    .await;
    assert!(stored.body == body, "{} bytes", stored.body.len());
    let pings = ask(
        &server,
        &authority,
        &format!("GET /api/v3/checks/{uuid}/pings/ {key}"),
        b"",
    )
    .await
    .json();
    assert_eq!(
        (
            &pings["pings"][0]["scheme"],
            &pings["pings"][0]["remote_addr"]
        ),
        (&"https".into(), &"127.0.0.1".into())
    );
    server.stop().await;
}

#[tokio::test]
async fn pages_under_a_certificate_of_our_own_ask_for_tls_where_the_base_url_names_no_port() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    for (port, value) in [("", Some("max-age=2592000")), (":8443", None)] {
        let tls = HttpTls::new(
            certificate(&authority, directory.path()),
            RuntimeThreads::default(),
        );
        let server = TestServer::start_encrypted(tls, |config| {
            config.base_url = format!("https://{NAME}{port}").parse().unwrap();
            config.dashboard.auth = overdue::http::dashboard::AuthMode::Password;
        })
        .await;
        for (host, value) in [
            (NAME, value),
            ("checks.example.org:8443", value),
            ("localhost", None),
        ] {
            let mut stream = agree(&server, authority.client(DEFAULT_VERSIONS))
                .await
                .unwrap();
            stream
                .write_all(
                    format!("GET /docs/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
                        .as_bytes(),
                )
                .await
                .unwrap();
            let page = read_response(stream).await;
            assert_eq!(
                (page.status, page.header("strict-transport-security")),
                (200, value),
                "{host}"
            );
        }
        server.stop().await;
    }
    // A proxy that terminates TLS says so in a header.
    let server = TestServer::start_with(|config| {
        config.base_url = format!("https://{NAME}").parse().unwrap();
    })
    .await;
    let page = server
        .send(
            "GET",
            "/docs/",
            &[
                ("X-Forwarded-Proto", "https"),
                ("X-Forwarded-For", "192.0.2.1"),
            ],
            b"",
        )
        .await;
    assert_eq!(page.header("strict-transport-security"), None);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_stays_open_and_uses_the_negotiated_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = serve(&certificate(&authority, directory.path())).await;
    for version in [&TLS12, &TLS13] {
        let mut config = authority.client(&[version]);
        config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).to_vec();
        let mut stream = agree(&server, config).await.unwrap();
        let agreed = stream.get_ref().1;
        assert_eq!(
            (agreed.alpn_protocol(), agreed.protocol_version()),
            (Some(&b"http/1.1"[..]), Some(version.version))
        );
        for _ in 0..3 {
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                .await
                .unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nOK") {
                assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
            }
        }
        // A client that closes the connection cleanly gets the same answer.
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
    let mut only = authority.client(DEFAULT_VERSIONS);
    only.alpn_protocols = vec![b"h2".to_vec()];
    assert!(agree(&server, only).await.is_err(), "HTTP/2 is not spoken");
    server.stop().await;
}

#[tokio::test]
async fn plain_http_gets_an_error_and_health_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = serve(&certificate(&authority, directory.path())).await;
    let refused = server
        .get(&format!("/ping/{}/backup?create=1", server.main.ping_key))
        .await;
    assert_eq!(
        (refused.status, refused.text()),
        (400, "this address accepts only https:// URLs")
    );
    let refused = server.api("GET", "/checks/", "").await;
    assert_eq!(
        (refused.status, refused.json()["error"].as_str()),
        (400, Some("this address accepts only https:// URLs"))
    );
    assert_eq!(
        server
            .handle
            .with_state(|state| state.checks_of(server.main.id).count()),
        0
    );
    assert_eq!(
        (
            server.get("/healthz").await.status,
            server.get("/").await.status
        ),
        (200, 400)
    );
    // Data that begins like TLS but is not closes the connection.
    let mut stream = server.connect().await;
    stream
        .write_all(b"\x16\x03\x01\x00\x05hello")
        .await
        .unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    server.stop().await;
}

#[tokio::test]
async fn connections_before_the_handshake_count_for_their_address() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = HttpTls::new(
        certificate(&authority, directory.path()),
        RuntimeThreads::default(),
    );
    let server = TestServer::start_encrypted(tls, |config| {
        (config.trusted_proxies, config.connections_per_address) = (Vec::new(), 2);
    })
    .await;
    let connections = [server.connect().await, server.connect().await];
    assert_eq!(server.get("/healthz").await.status, 503);
    drop(connections);
    while server.get("/healthz").await.status != 200 {}
    server.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let old = Authority::new();
    let new = Authority::new();
    let certificate = certificate(&old, directory.path());
    let server = serve(&certificate).await;
    let is_shown = async |authority: &Authority| {
        agree(&server, authority.client(DEFAULT_VERSIONS))
            .await
            .is_ok()
    };
    assert_eq!(certificate.reload(false), CertificateReload::Unchanged);
    assert_eq!(certificate.reload(true), CertificateReload::Replaced);
    let mut connection = agree(&server, old.client(DEFAULT_VERSIONS)).await.unwrap();

    new.write(NAME, directory.path());
    assert!(is_shown(&old).await, "it was not reloaded yet");
    assert_eq!(certificate.reload(false), CertificateReload::Replaced);
    assert_eq!((is_shown(&old).await, is_shown(&new).await), (false, true));

    let [chain, key] = ["server.pem", "server.key"].map(|file| directory.path().join(file));
    let good = std::fs::read_to_string(&chain).unwrap();
    put(&chain, &good[..good.len() / 2]);
    for again in [false, true] {
        assert!(matches!(
            certificate.reload(again),
            CertificateReload::Failed(error) if error.to_string().contains("server.pem")
        ));
    }
    assert_eq!(
        certificate.reload(false),
        CertificateReload::Unchanged,
        "it is reported once"
    );
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(
        certificate.reload(false),
        CertificateReload::Failed(_)
    ));
    // The certificate of a pair is written first, and its key later.
    let renewed = tempfile::tempdir().unwrap();
    let [other_chain, other_key] = old.write(NAME, renewed.path());
    put(&chain, &std::fs::read_to_string(other_chain).unwrap());
    assert!(matches!(
        certificate.reload(false),
        CertificateReload::Failed(_)
    ));
    assert!(is_shown(&new).await);
    put(&key, &std::fs::read_to_string(other_key).unwrap());
    assert_eq!(certificate.reload(false), CertificateReload::Replaced);
    assert_eq!((is_shown(&old).await, is_shown(&new).await), (true, false));

    // Open connections continue.
    connection
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_response(connection).await.status, 200);
    server.stop().await;
}
