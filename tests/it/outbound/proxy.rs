//! Proxies on the way out.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use overdue::outbound::{CertificatePin, OutboundConfig, ProxyChoice, SendStage, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::{config, outbound, post, send, words};
use crate::support::certificates::Authority;
use crate::support::receiver::{Receiver, ResponseAction};

/// A proxy that forwards everything to one address. It speaks CONNECT or SOCKS5.
async fn proxy(to: SocketAddr, refuses: bool) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                let length = stream.read(&mut bytes).await.unwrap();
                if bytes[0] == 5 {
                    stream.write_all(&[5, bytes[2]]).await.unwrap();
                    if bytes[2] == 2 {
                        let length = stream.read(&mut bytes).await.unwrap();
                        record
                            .lock()
                            .unwrap()
                            .push(String::from_utf8(bytes[..length].to_vec()).unwrap());
                        stream.write_all(&[1, 0]).await.unwrap();
                    }
                    let length = stream.read(&mut bytes).await.unwrap();
                    record
                        .lock()
                        .unwrap()
                        .push(format!("{:?}", &bytes[..length]));
                    stream
                        .write_all(&[5, u8::from(refuses), 0, 1, 0, 0, 0, 0, 0, 0])
                        .await
                        .unwrap();
                } else {
                    record
                        .lock()
                        .unwrap()
                        .push(String::from_utf8(bytes[..length].to_vec()).unwrap());
                    stream
                        .write_all(if refuses {
                            b"HTTP/1.1 403 no\r\n\r\n"
                        } else {
                            b"HTTP/1.1 200 yes\r\n\r\n"
                        })
                        .await
                        .unwrap();
                }
                let mut target = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut target).await;
            });
        }
    });
    (address, seen)
}

fn through(url: &str) -> OutboundConfig {
    OutboundConfig {
        proxy: ProxyChoice::parse(url).unwrap(),
        ..config()
    }
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let shown = Authority::new().issue("h.test");
    let receiver = Receiver::start_tls([ResponseAction::status(200)], shown.acceptor.clone()).await;
    let request = || {
        let mut request = post("https://h.test/secret", "x");
        request.pin = Some(CertificatePin::from_bytes(shown.fingerprint));
        request
    };
    let (address, seen) = proxy(receiver.address, false).await;
    // The proxy resolves names.
    let answer = outbound(through(&format!("http://ann:pass@{address}")))
        .send_http(request(), Trust::Api)
        .await
        .unwrap();
    assert_eq!(
        (answer.status, receiver.requests()[0].target.as_str()),
        (200, "/secret")
    );
    assert_eq!(
        seen.lock().unwrap()[0],
        "CONNECT h.test:443 HTTP/1.1\r\nHost: h.test:443\r\nProxy-Authorization: Basic \
         YW5uOnBhc3M=\r\n\r\n"
    );

    let (address, seen) = proxy(receiver.address, false).await;
    assert_eq!(
        outbound(through(&format!("socks5://{address}")))
            .send_http(request(), Trust::Api)
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(
        seen.lock().unwrap()[0],
        format!(
            "{:?}",
            [&[5, 1, 0, 3, 6], &b"h.test"[..], &[1, 187]].concat()
        )
    );

    let (address, seen) = proxy(receiver.address, false).await;
    let mut by_address = request();
    by_address.url = "https://[2001:db8::1]:8443/".into();
    assert_eq!(
        outbound(through(&format!("socks5h://ann:pass@{address}")))
            .send_http(by_address, Trust::Api)
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(seen.lock().unwrap()[0], "\u{1}\u{3}ann\u{4}pass");
    assert_eq!(
        seen.lock().unwrap()[1],
        format!(
            "{:?}",
            [
                5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0xfb
            ]
        )
    );

    for (scheme, why) in [("http", "it answered 403"), ("socks5h", "it failed")] {
        let (address, _) = proxy(receiver.address, true).await;
        let error = outbound(through(&format!("{scheme}://ann:secret@{address}")))
            .send_http(request(), Trust::Api)
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage, error.may_have_arrived),
            (SendStage::Proxy, false)
        );
        assert_eq!(
            words(&error),
            format!("the proxy {address} did not connect to h.test:443: {why}")
        );
    }
}

#[tokio::test]
async fn http_is_forwarded_by_its_full_url() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let outbound = outbound(through(&format!("http://ann:pass@{}", receiver.address)));
    assert_eq!(
        send(&outbound, "http://h.test:81/path?x")
            .await
            .unwrap()
            .status,
        200
    );
    let request = &receiver.requests()[0];
    assert_eq!(
        (request.target.as_str(), request.header("host")),
        ("http://h.test:81/path?x", Some("h.test:81"))
    );
    assert_eq!(
        request.header("proxy-authorization"),
        Some("Basic YW5uOnBhc3M=")
    );
}

#[tokio::test]
async fn an_address_is_checked_before_the_proxy_is_used() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let outbound = outbound(through(&format!("http://{}", receiver.address)));
    for url in [
        "http://127.0.0.1/",
        "http://[::ffff:169.254.169.254]/",
        // Names of the proxy's own machine, which may be this one.
        "http://localhost/",
        "http://a.LOCALHOST./",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
    ] {
        assert_eq!(
            outbound
                .send_http(post(url, "x"), Trust::Api)
                .await
                .unwrap_err()
                .stage,
            SendStage::Refused
        );
    }
    assert!(receiver.requests().is_empty());
    for url in ["http://127.0.0.1/", "http://localhost/", "http://127.1/"] {
        send(&outbound, url).await.unwrap();
    }
}

#[tokio::test]
async fn an_unreachable_proxy_is_named_in_the_error() {
    let error = send(
        &outbound(through("http://ann:secret@127.0.0.1:1")),
        "https://h.test/",
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Proxy,
            "the proxy cannot be reached: cannot connect to 127.0.0.1:1: connection refused"
        )
    );
}
