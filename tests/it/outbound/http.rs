//! Requests and responses, connections, redirects, and their failures.

use std::time::Duration;

use bytes::Bytes;
use overdue::outbound::{OutboundConfig, RedirectPolicy, SendStage, Trust};
use tokio::time::timeout;

use super::{config, outbound, post, send, with_clock, words};
use crate::support::receiver::{Receiver, Reply, ResponseAction};

#[tokio::test]
async fn a_request_arrives_complete_and_unchanged() {
    let receiver = Receiver::start([ResponseAction::Answer(Reply {
        status: 202,
        body: b"fine".to_vec(),
        headers: vec![("X-Name", "a b".into())],
        ..Reply::default()
    })])
    .await;
    let outbound = outbound(config());
    let mut request = post(
        &receiver.url_at("ann:pa%3Ass@localhost", "/a%20b?c=d"),
        "hello",
    );
    request.headers = vec![
        ("X-Latin".into(), "½ ä".into()),
        ("Content-Type".into(), "text/plain".into()),
        ("Host".into(), "elsewhere".into()),
    ];
    let answer = outbound.send_http(request, Trust::Operator).await.unwrap();
    assert_eq!(
        (
            answer.status,
            answer.header("x-name"),
            answer.body.as_slice(),
            answer.is_complete
        ),
        (202, Some("a b"), &b"fine"[..], true)
    );
    let seen = &receiver.requests()[0];
    assert_eq!(
        (seen.method.as_str(), seen.target.as_str(), seen.text()),
        ("POST", "/a%20b?c=d", "hello")
    );
    assert_eq!(
        seen.header("host"),
        Some(format!("localhost:{}", receiver.address.port()).as_str())
    );
    assert_eq!(
        (
            seen.header("x-latin"),
            seen.header("content-type"),
            seen.header("content-length")
        ),
        (Some("½ ä"), Some("text/plain"), Some("5"))
    );
    assert_eq!(seen.header("authorization"), Some("Basic YW5uOnBhOnNz"));
    assert_eq!(
        seen.header("user-agent"),
        Some(concat!("overdue/", env!("CARGO_PKG_VERSION")))
    );
}

#[tokio::test]
async fn a_request_without_a_body_has_a_length_if_its_method_usually_has_one() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let outbound = outbound(config());
    for (method, length) in [("GET", None), ("POST", Some("0")), ("PUT", Some("0"))] {
        let mut request = post(&receiver.url("/"), "");
        request.method = method.into();
        outbound.send_http(request, Trust::Operator).await.unwrap();
        let seen = receiver.requests().pop().unwrap();
        assert_eq!(
            (seen.method.as_str(), seen.header("content-length")),
            (method, length)
        );
    }
}

#[tokio::test]
async fn an_invalid_request_is_not_sent() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let outbound = outbound(config());
    for (method, name, value) in [
        ("PO ST", "x", "y"),
        ("CONNECT", "x", "y"),
        ("POST", "x y", "z"),
        ("POST", "x", "a\r\nb: c"),
        ("POST", "x", "日本"),
    ] {
        let mut request = post(&receiver.url("/secret"), "secret");
        request.method = method.into();
        request.headers = vec![(name.into(), value.into())];
        let error = outbound
            .send_http(request, Trust::Operator)
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage, error.may_have_arrived),
            (SendStage::Request, false),
            "{method} {name}: {}",
            words(&error)
        );
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_connection_is_kept_for_a_while() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let (outbound, clock) = with_clock(config());
    for expected in [0, 0, 0] {
        send(&outbound, &receiver.url("/")).await.unwrap();
        assert_eq!(receiver.requests().pop().unwrap().connection, expected);
    }
    // Channels created through the API do not reuse a connection of an operator's channel, because
    // its address was not checked for them.
    let error = outbound
        .send_http(post(&receiver.url("/"), ""), Trust::Api)
        .await
        .unwrap_err();
    assert_eq!(error.stage, SendStage::Refused);
    clock.advance_secs(21);
    send(&outbound, &receiver.url("/")).await.unwrap();
    assert_eq!(receiver.requests().pop().unwrap().connection, 1);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced() {
    let close = ResponseAction::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let receiver = Receiver::start([close]).await;
    let outbound = outbound(config());
    for count in 0..20 {
        send(&outbound, &receiver.url("/")).await.unwrap();
        assert_eq!(receiver.requests().len(), count + 1);
    }
}

#[tokio::test]
async fn a_sent_request_without_an_answer_has_an_unknown_result() {
    let receiver = Receiver::start([
        ResponseAction::Reset,
        ResponseAction::Silence,
        ResponseAction::Raw(b"250 hello\r\n"),
        ResponseAction::Raw(b"HTTP/1.1 200 OK\r\nContent-"),
    ])
    .await;
    let outbound = outbound(config());
    let expected = [
        (
            SendStage::Exchange,
            "127.0.0.1 closed the connection without a response",
        ),
        (
            SendStage::Timeout,
            "127.0.0.1 did not answer within 2 seconds",
        ),
        (
            SendStage::Exchange,
            "127.0.0.1 sent a response that is not HTTP",
        ),
        (
            SendStage::Exchange,
            "127.0.0.1 closed the connection without a response",
        ),
    ];
    for (body, (stage, text)) in ["a", "", "b", "c"].into_iter().zip(expected) {
        let mut request = post(&receiver.url("/secret?secret"), body);
        request.timeout = Duration::from_secs(2);
        let error = outbound
            .send_http(request, Trust::Operator)
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage, error.may_have_arrived, words(&error).as_str()),
            (stage, true, text)
        );
    }
    // Nothing listens on port 1.
    let error = send(&outbound, "http://127.0.0.1:1/secret")
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, error.may_have_arrived, words(&error).as_str()),
        (
            SendStage::Connect,
            false,
            "cannot connect to 127.0.0.1:1: connection refused"
        )
    );
}

#[tokio::test]
async fn the_status_counts_even_if_the_body_breaks_off() {
    let base = Reply {
        status: 200,
        body: vec![b'y'; 10],
        ..Reply::default()
    };
    let slow = Reply {
        wait_for_body: Duration::from_secs(60),
        ..base.clone()
    };
    let endless = Reply {
        endless: true,
        ..base.clone()
    };
    let cut = ResponseAction::Raw(b"HTTP/1.1 201 OK\r\nContent-Length: 9\r\n\r\nyyy");
    let long = Reply {
        body: vec![b'y'; 65_537],
        ..base.clone()
    };
    let full = Reply {
        body: vec![b'y'; 65_536],
        ..base
    };
    let receiver = Receiver::start([
        ResponseAction::Answer(endless),
        ResponseAction::Answer(slow),
        cut,
        ResponseAction::Answer(long),
        ResponseAction::Answer(full),
    ])
    .await;
    let outbound = outbound(config());
    for (status, length, whole) in [
        (200, 65_536, false),
        (200, 0, false),
        (201, 3, false),
        (200, 65_536, false),
        (200, 65_536, true),
    ] {
        let mut request = post(&receiver.url("/"), "x");
        request.timeout = Duration::from_secs(1);
        let answer = timeout(
            Duration::from_secs(5),
            outbound.send_http(request, Trust::Operator),
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!(
            (answer.status, answer.body.len(), answer.is_complete),
            (status, length, whole)
        );
    }
}

#[tokio::test]
async fn redirects_are_followed_within_an_origin_with_everything() {
    for (status, method, body) in [
        (301, "POST", "hello"),
        (302, "POST", "hello"),
        (303, "GET", ""),
        (307, "POST", "hello"),
        (308, "POST", "hello"),
    ] {
        let receiver = Receiver::start([
            ResponseAction::redirect(status, "/next?x"),
            ResponseAction::status(204),
        ])
        .await;
        let mut request = post(&receiver.url("/first"), "hello");
        request.headers = vec![
            ("Authorization".into(), "Bearer t".into()),
            ("X-Own".into(), "o".into()),
        ];
        assert_eq!(
            outbound(config())
                .send_http(request, Trust::Operator)
                .await
                .unwrap()
                .status,
            204
        );
        let seen = receiver.requests().pop().unwrap();
        assert_eq!(
            (seen.method.as_str(), seen.target.as_str(), seen.text()),
            (method, "/next?x", body),
            "{status}"
        );
        assert_eq!(
            (seen.header("authorization"), seen.header("x-own")),
            (Some("Bearer t"), Some("o"))
        );
    }
}

#[tokio::test]
async fn another_origin_gets_no_secret() {
    let other = Receiver::start([ResponseAction::status(200)]).await;
    let receiver = Receiver::start([ResponseAction::redirect(307, &other.url("/there"))]).await;
    let mut request = post(&receiver.url_at("ann:secret@127.0.0.1", "/"), "hello");
    request.headers = [
        "X-Own",
        "Cookie",
        "webhook-signature",
        "webhook-id",
        "Content-Type",
        "Idempotency-Key",
    ]
    .map(|name| (name.into(), "v".into()))
    .into();
    let mut config = config();
    config.guard.allow = vec!["127.0.0.0/8".parse().unwrap()];
    outbound(config)
        .send_http(request, Trust::Operator)
        .await
        .unwrap();
    assert_eq!(
        receiver.requests()[0].header("authorization"),
        Some("Basic YW5uOnNlY3JldA==")
    );
    let seen = &other.requests()[0];
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "content-length",
            "content-type",
            "host",
            "idempotency-key",
            "user-agent",
            "webhook-id"
        ]
    );
    assert_eq!((seen.method.as_str(), seen.text()), ("POST", "hello"));
}

#[tokio::test]
async fn another_origin_does_not_have_the_trust_of_the_operator() {
    let hidden = Receiver::start([ResponseAction::status(200)]).await;
    let within = Receiver::start([
        ResponseAction::redirect(307, "/next"),
        ResponseAction::status(204),
    ])
    .await;
    assert_eq!(
        send(&outbound(config()), &within.url("/"))
            .await
            .unwrap()
            .status,
        204
    );
    // A redirect back to the first origin still comes from the other one.
    let receiver = Receiver::start([ResponseAction::redirect(307, &hidden.url("/there"))]).await;
    let error = send(&outbound(config()), &receiver.url("/"))
        .await
        .unwrap_err();
    assert_eq!(error.stage, SendStage::Refused);
    assert!(
        words(&error).starts_with("127.0.0.1 is a loopback address"),
        "{error}"
    );
    assert!(hidden.requests().is_empty());
}

#[tokio::test]
async fn the_number_of_redirects_is_limited() {
    let receiver = Receiver::start([ResponseAction::redirect(302, "/again")]).await;
    let outbound = outbound(config());
    assert_eq!(
        send(&outbound, &receiver.url("/")).await.unwrap().status,
        302
    );
    assert_eq!(receiver.requests().len(), 4);
    // Kinds with fixed hosts follow no redirects.
    let mut request = post(&receiver.url("/"), "x");
    request.redirects = RedirectPolicy::None;
    assert_eq!(
        outbound
            .send_http(request, Trust::Operator)
            .await
            .unwrap()
            .status,
        302
    );
    assert_eq!(receiver.requests().len(), 5);
}

#[tokio::test]
async fn the_address_of_each_hop_is_checked() {
    // Channels of the API reach this receiver and nothing else on loopback.
    let hidden = Receiver::start([ResponseAction::status(200)]).await;
    let location = format!("http://127.0.0.2:{}/", hidden.address.port());
    let receiver = Receiver::start([ResponseAction::redirect(302, &location)]).await;
    let mut config = OutboundConfig { ..config() };
    config.guard.allow = vec!["127.0.0.1/32".parse().unwrap()];
    let error = outbound(config)
        .send_http(post(&receiver.url("/"), "x"), Trust::Api)
        .await
        .unwrap_err();
    assert_eq!(error.stage, SendStage::Refused);
    assert_eq!(
        words(&error),
        "127.0.0.2 is a loopback address: to let channels created through the API reach it, start \
         the server with --outbound-allow 127.0.0.2"
    );
    assert!(hidden.requests().is_empty());
}

#[tokio::test]
async fn requests_to_one_address_are_limited_and_do_not_delay_others() {
    let slow = Receiver::start([ResponseAction::Silence]).await;
    let quick = Receiver::start([ResponseAction::status(200)]).await;
    let outbound = outbound(OutboundConfig {
        per_host: 3,
        ..config()
    });
    let jobs: Vec<_> = (0..70)
        .map(|_| {
            let outbound = outbound.clone();
            let request = post(&slow.url("/"), "x");
            tokio::spawn(async move { outbound.send_http(request, Trust::Operator).await })
        })
        .collect();
    slow.wait_for(3).await;
    send(&outbound, &quick.url("/")).await.unwrap();
    assert_eq!(slow.requests().len(), 3);
    // A request that is abandoned frees its slot.
    jobs[0].abort();
    slow.wait_for(4).await;
    jobs.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn long_bodies_arrive_complete() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let mut request = post(&receiver.url("/"), "");
    request.body = Bytes::from(vec![b'z'; 1_000_000]);
    outbound(config())
        .send_http(request, Trust::Operator)
        .await
        .unwrap();
    assert_eq!(receiver.requests()[0].body.len(), 1_000_000);
}
