//! Endpoints that cannot be reached, and replies that do not arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::test_server::{free_ports, local_endpoint, test_client, test_outbound};
use super::super::*;
use super::{get, missing, put, start};
use crate::server::cluster::key_values::KeyValueStore as _;

#[tokio::test]
async fn an_endpoint_without_a_connection_is_skipped() {
    let Some((server, _)) = start().await else {
        return;
    };
    let [closed] = free_ports();
    let endpoints = vec![local_endpoint(closed), server.endpoint.clone()];
    let etcd = test_client(endpoints, None, None).unwrap();
    let write = [put("k", "1")];
    assert!(etcd.transact(&[], &write, &[]).await.unwrap().succeeded);
    assert_eq!(etcd.inner.preferred.load(Ordering::Relaxed), 1);
    assert_eq!(etcd.get("k").await.unwrap().unwrap().version, 1);
    assert!(matches!(
        etcd.status(0).await,
        Err(EtcdError::Unreachable(_))
    ));
    assert!(etcd.status(1).await.is_ok());

    drop(server);
    let Err(EtcdError::Unreachable(reason)) = etcd.get("k").await.map_err(|error| {
        // The connection may break during the call.
        match error {
            EtcdError::Unknown(reason) => EtcdError::Unreachable(reason),
            error => error,
        }
    }) else {
        panic!("a server that is gone answered");
    };
    assert!(reason.contains(&format!("127.0.0.1:{closed}")), "{reason}");
    let result = etcd.transact(&[], &write, &[]).await;
    assert!(
        matches!(result, Err(EtcdError::Unreachable(_))),
        "{result:?}"
    );
}

/// Forwards connections to a server. While `swallows` is set, replies do not come back.
struct Proxy {
    port: u16,
    swallows: Arc<AtomicBool>,
    /// Closes the connections when it is notified.
    closing: Arc<Notify>,
}

impl Proxy {
    async fn start(server: &EtcdEndpoint) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallows = Arc::new(AtomicBool::new(false));
        let closing = Arc::new(Notify::new());
        let proxy = Self {
            port,
            swallows: Arc::clone(&swallows),
            closing: Arc::clone(&closing),
        };
        let server_port = server.port;
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let swallows = Arc::clone(&swallows);
                let closing = Arc::clone(&closing);
                tokio::spawn(forward(client, server_port, swallows, closing));
            }
        });
        proxy
    }
}

async fn forward(
    client: TcpStream,
    server_port: u16,
    swallows: Arc<AtomicBool>,
    closing: Arc<Notify>,
) {
    let server = TcpStream::connect(("127.0.0.1", server_port)).await;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.unwrap().into_split();
    let requests = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let replies = async {
        let mut buffer = vec![0; 65536];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            if !swallows.load(Ordering::Relaxed) {
                to_client.write_all(&buffer[..length]).await?;
            }
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        _ = replies => {}
        () = closing.notified() => {}
    }
    requests.abort();
}

#[tokio::test]
async fn a_transaction_without_a_reply_is_settled_by_its_repetition() {
    let Some((server, direct)) = start().await else {
        return;
    };
    let proxy = Proxy::start(&server.endpoint).await;
    let endpoints = vec![local_endpoint(proxy.port), server.endpoint.clone()];
    // The connection is closed, or it stays open without a reply.
    for (place, closes) in [("log/1", true), ("log/2", false)] {
        let etcd = test_client(endpoints.clone(), None, None).unwrap();
        assert_eq!(etcd.get(place).await, Ok(None));
        let append = async || {
            etcd.transact(&[missing(place)], &[put(place, "mine")], &[get(place)])
                .await
        };
        let close_after_execution = async {
            while direct.get(place).await.unwrap().is_none() {
                sleep(Duration::from_millis(10)).await;
            }
            if closes {
                proxy.closing.notify_waiters();
            }
        };
        proxy.swallows.store(true, Ordering::Relaxed);
        let (result, ()) = tokio::join!(append(), close_after_execution);
        assert!(matches!(result, Err(EtcdError::Unknown(_))), "{result:?}");
        // The next call goes to the other endpoint.
        let repeated = append().await.unwrap();
        assert!(!repeated.succeeded);
        assert_eq!(repeated.gets[0].as_ref().unwrap().value, "mine");
        assert_eq!(direct.get(place).await.unwrap().unwrap().version, 1);
        proxy.swallows.store(false, Ordering::Relaxed);
    }
    // Reads go on to the next endpoint.
    let etcd = test_client(endpoints, None, None).unwrap();
    assert!(etcd.get("log/1").await.unwrap().is_some());
    proxy.swallows.store(true, Ordering::Relaxed);
    let close_soon = async {
        sleep(Duration::from_millis(100)).await;
        proxy.closing.notify_waiters();
    };
    let (found, ()) = tokio::join!(etcd.get("log/1"), close_soon);
    assert!(found.unwrap().is_some());
    assert_eq!(etcd.inner.preferred.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_url_for_something_else_is_explained() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = local_endpoint(other.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = other.accept().await {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for (tls, part) in [
        (None, "if etcd uses TLS there, begin the URL with etcds://"),
        (
            Some(EtcdTls::default()),
            "does not use TLS: give its URL without TLS",
        ),
    ] {
        let etcd = test_client(vec![endpoint.clone()], None, tls).unwrap();
        let error = etcd.get("k").await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_user_that_etcd_does_not_ask_for_is_noticed() {
    let Some((server, _)) = start().await else {
        return;
    };
    let user = EtcdUser {
        name: "me".into(),
        password: "secret".into(),
    };
    for (user, is_noticed) in [(None, false), (Some(user), true)] {
        let etcd = test_client(vec![server.endpoint.clone()], user, None).unwrap();
        assert_eq!(etcd.get("k").await, Ok(None));
        assert_eq!(etcd.inner.has_warned.load(Ordering::Relaxed), is_noticed);
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_accept_counts_as_unreachable() {
    // The handshake of TLS never ends.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = local_endpoint(silent.local_addr().unwrap().port());
    let mut config = EtcdConfig {
        endpoints: vec![endpoint],
        user: None,
        tls: Some(EtcdTls::default()),
        timeout: Duration::from_millis(200),
    };
    let outbound = test_outbound();
    let etcd = Etcd::new(config.clone(), &outbound).unwrap();
    let result = etcd.transact(&[], &[put("k", "1")], &[]).await;
    assert!(
        matches!(result, Err(EtcdError::Unreachable(_))),
        "{result:?}"
    );
    // Without TLS, the request is sent.
    config.tls = None;
    let etcd = Etcd::new(config.clone(), &outbound).unwrap();
    let result = etcd.transact(&[], &[put("k", "1")], &[]).await;
    assert!(matches!(result, Err(EtcdError::Unknown(_))), "{result:?}");
    config.endpoints.clear();
    assert!(Etcd::new(config, &outbound).is_err());
}

#[tokio::test]
async fn an_error_before_sending_is_recognised() {
    use tonic::Status;
    let [closed] = free_ports();
    let opened = test_outbound()
        .open_http2::<tonic::body::Body>("127.0.0.1", closed, None)
        .await;
    let refused = Status::from_error(Box::new(opened.err().unwrap()));
    let error = error::broken_connection(&refused);
    assert!(error.is_some_and(|error| !error.may_have_arrived));
    assert_eq!(
        error::broken_connection(&Status::unavailable("no leader")),
        None
    );
}
