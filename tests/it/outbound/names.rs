//! Name resolution: the answers of servers, and whether the addresses may be used.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use overdue::outbound::{OutboundConfig, SendStage, Trust};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{config, outbound, post, send, with_clock, words};
use crate::support::name_server::{DnsReply, NameServer, addresses, ips};
use crate::support::receiver::{Receiver, ResponseAction};

#[tokio::test]
async fn every_form_of_dns_answer_is_resolved() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let server = NameServer::start(|name, before| match name {
        "plain.test" | "box.home.test" => addresses(&["127.0.0.1"]),
        // Nothing listens on the first address: the others are tried.
        "many.test" => addresses(&["::1", "127.0.0.9", "127.0.0.1"]),
        "alias.test" => DnsReply::Alias("target.test", ips(&["127.0.0.1"])),
        "long.test" => DnsReply::TcpOnly(ips(&["127.0.0.1"])),
        "shaky.test" if before == 0 => DnsReply::ErrorCode(2),
        "shaky.test" => addresses(&["127.0.0.1"]),
        _ => DnsReply::NoSuchName,
    })
    .await;
    let outbound = outbound(OutboundConfig {
        names: server.sources("search home.test\n"),
        ..config()
    });
    for host in [
        "plain.test",
        "PLAIN.test.",
        "many.test",
        "alias.test",
        "long.test",
        "shaky.test",
        "box",
    ] {
        send(&outbound, &receiver.url_at(host, "/"))
            .await
            .unwrap_or_else(|error| panic!("{host}: {error}"));
    }
    let error = send(&outbound, &receiver.url_at("nobody.test", "/secret"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (SendStage::Resolve, "no address is known for nobody.test")
    );
}

#[tokio::test]
async fn a_silent_name_server_is_skipped() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let silent = NameServer::start(|_, _| DnsReply::NoReply).await;
    let server = NameServer::start(|_, _| addresses(&["127.0.0.1"])).await;
    let sources = server.sources(&format!(
        "options timeout:1\nnameserver {}\n",
        silent.address
    ));
    send(
        &outbound(OutboundConfig {
            names: sources,
            ..config()
        }),
        &receiver.url_at("h.test", "/"),
    )
    .await
    .unwrap();
    assert_eq!(
        (silent.query_count("h.test"), server.query_count("h.test")),
        (1, 1)
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_that_does_not_answer_delays_the_next_one_only_briefly() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    // While the queue of a listener is full, further connections get no answer.
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(([127, 0, 0, 2], receiver.address.port()).into())
        .unwrap();
    let full = socket.listen(1).unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(
        Duration::from_millis(200),
        TcpStream::connect(full.local_addr().unwrap()),
    )
    .await
    {
        queued.push(stream.unwrap());
    }
    let server = NameServer::start(|_, _| addresses(&["127.0.0.2", "127.0.0.1"])).await;
    let mut request = post(&receiver.url_at("h.test", "/"), "x");
    request.timeout = Duration::from_secs(3);
    outbound(OutboundConfig {
        names: server.sources(""),
        ..config()
    })
    .send_http(request, Trust::Operator)
    .await
    .unwrap();
}

#[tokio::test]
async fn a_dns_answer_is_cached_for_its_ttl_and_longer_if_no_server_answers() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let server = NameServer::start(|name, before| match (name, before) {
        ("short.test", _) => DnsReply::Addresses(ips(&["127.0.0.1"]), 0),
        ("week.test", _) => DnsReply::Addresses(ips(&["127.0.0.1"]), 604_800),
        (_, 0) => DnsReply::Addresses(ips(&["127.0.0.1"]), 60),
        _ => DnsReply::ErrorCode(2),
    })
    .await;
    let (outbound, clock) = with_clock(OutboundConfig {
        names: server.sources("options attempts:1\n"),
        ..config()
    });
    // Name, seconds to wait, total number of queries to the server.
    for (name, after, queries) in [
        ("short.test", 0, 1),
        ("short.test", 4, 1),
        ("short.test", 2, 2),
        ("week.test", 0, 1),
        ("week.test", 299, 1),
        ("week.test", 2, 2),
        ("lost.test", 0, 1),
        ("lost.test", 59, 1),
        ("lost.test", 2, 2),
        ("lost.test", 3590, 3),
    ] {
        clock.advance_secs(after);
        // A kept connection would need no lookup.
        let other = Receiver::start([ResponseAction::status(200)]).await;
        send(&outbound, &other.url_at(name, "/"))
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(server.query_count(name), queries, "{name} after {after}");
    }
    clock.advance_secs(20);
    let error = send(&outbound, &receiver.url_at("lost.test", "/"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Resolve,
            "no name server answered the query for lost.test"
        )
    );
}

#[tokio::test]
async fn the_check_of_an_address_applies_to_the_one_that_is_connected_to() {
    // 127.0.0.8 acts as a public address. Nothing listens there: the failed connection of the first
    // request shows that it was permitted.
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let server = NameServer::start(|name, before| match (name, before) {
        ("rebind.test", 0) => DnsReply::Addresses(ips(&["127.0.0.8"]), 0),
        ("mixed.test", _) => addresses(&["127.0.0.1", "169.254.169.254"]),
        ("alias.test", _) => DnsReply::Alias("localhost", ips(&["127.0.0.1"])),
        ("mapped.test", _) => addresses(&["::ffff:127.0.0.1"]),
        _ => DnsReply::Addresses(ips(&["127.0.0.1"]), 0),
    })
    .await;
    let mut config = OutboundConfig {
        names: server.sources(""),
        ..config()
    };
    config.guard.allow = vec!["127.0.0.8/32".parse().unwrap()];
    let (outbound, clock) = with_clock(config);
    let request = |host: &str| post(&receiver.url_at(host, "/"), "x");
    let first = outbound
        .send_http(request("rebind.test"), Trust::Api)
        .await
        .unwrap_err();
    assert_eq!(first.stage, SendStage::Connect, "{first}");
    clock.advance_secs(6);
    for host in [
        "rebind.test",
        "mixed.test",
        "alias.test",
        "mapped.test",
        "localhost",
        "a.localhost",
        "127.0.0.1",
        "[::1]",
        "[::ffff:7f00:1]",
    ] {
        let error = outbound
            .send_http(request(host), Trust::Api)
            .await
            .unwrap_err();
        assert_eq!(error.stage, SendStage::Refused, "{host}: {error}");
        assert!(
            words(&error).contains("--outbound-allow"),
            "{host}: {error}"
        );
    }
    assert!(receiver.requests().is_empty());
    assert_eq!(
        words(
            &outbound
                .send_http(request("alias.test"), Trust::Api)
                .await
                .unwrap_err()
        ),
        "127.0.0.1, the address of alias.test, is a loopback address: to let channels created \
         through the API reach it, start the server with --outbound-allow 127.0.0.1"
    );
    // The same names work for channels of the operator.
    outbound
        .send_http(request("rebind.test"), Trust::Operator)
        .await
        .unwrap();
}

#[tokio::test]
async fn names_unknown_to_servers_are_resolved_by_the_system() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let server = NameServer::start(|_, _| DnsReply::NoSuchName).await;
    let sources = server.sources("");
    let script = "#!/bin/sh\n[ \"$1 $2\" = 'ahosts box.local' ] && printf '127.0.0.1 STREAM \
                  box\\n127.0.0.1 DGRAM\\nfe80::1%%eth0 RAW\\n'\n";
    std::fs::write(&sources.getent, script).unwrap();
    std::fs::set_permissions(&sources.getent, std::fs::Permissions::from_mode(0o700)).unwrap();
    let outbound = outbound(OutboundConfig {
        names: sources,
        ..config()
    });
    send(&outbound, &receiver.url_at("box.local", "/"))
        .await
        .unwrap();
    assert_eq!(
        send(&outbound, &receiver.url_at("other.local", "/"))
            .await
            .unwrap_err()
            .stage,
        SendStage::Resolve
    );
}

#[tokio::test]
async fn a_changed_hosts_file_counts_at_once() {
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let server = NameServer::start(|_, _| DnsReply::NoSuchName).await;
    let sources = server.sources("");
    let hosts = sources.hosts.clone();
    let resolv_conf = sources.resolv_conf.clone();
    let (outbound, clock) = with_clock(OutboundConfig {
        names: sources,
        ..config()
    });
    let url = receiver.url_at("box.test", "/");
    assert!(send(&outbound, &url).await.is_err());
    let other = NameServer::start(|_, _| DnsReply::Addresses(ips(&["127.0.0.1"]), 0)).await;
    std::fs::write(&resolv_conf, format!("nameserver {}\n", other.address)).unwrap();
    send(&outbound, &url).await.unwrap();
    // A name in the file takes precedence over every server.
    std::fs::write(&hosts, "127.0.0.9 box.test\n").unwrap();
    clock.advance_secs(21);
    assert_eq!(
        send(&outbound, &url).await.unwrap_err().stage,
        SendStage::Connect
    );
}
