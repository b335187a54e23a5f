//! Outgoing requests and mail, against misbehaving servers on loopback.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdue::outbound::{
    HttpRequest, HttpResponse, NameSources, Outbound, OutboundConfig, ProxyChoice, RedirectPolicy,
    SendError, Trust,
};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;

use crate::support::server::START;

mod command;
mod http;
mod mail;
mod names;
mod proxy;
mod tls;

/// Configuration that ignores files of this machine and proxies of its environment.
fn config() -> OutboundConfig {
    OutboundConfig {
        proxy: ProxyChoice::None,
        names: empty_sources(),
        ..OutboundConfig::default()
    }
}

fn empty_sources() -> NameSources {
    NameSources {
        hosts: "/nowhere/hosts".into(),
        resolv_conf: "/nowhere/resolv.conf".into(),
        getent: "/nowhere/getent".into(),
    }
}

fn outbound(config: OutboundConfig) -> Outbound {
    with_clock(config).0
}

fn with_clock(config: OutboundConfig) -> (Outbound, Arc<ManualClock>) {
    let clock = ManualClock::at(START);
    (
        Outbound::new(
            config,
            &Clock::Manual(Arc::clone(&clock)),
            Random::seeded(7),
        )
        .unwrap(),
        clock,
    )
}

fn post(url: &str, body: &'static str) -> HttpRequest {
    HttpRequest {
        method: "POST".into(),
        url: url.into(),
        headers: Vec::new(),
        body: Bytes::from_static(body.as_bytes()),
        redirects: RedirectPolicy::Follow,
        pin: None,
        timeout: Duration::from_secs(10),
    }
}

async fn send(outbound: &Outbound, url: &str) -> Result<HttpResponse, SendError> {
    outbound
        .send_http(post(url, "hello"), Trust::Operator)
        .await
}

/// Text of an error. It may contain only the host of a URL.
#[track_caller]
fn words(error: &SendError) -> String {
    let words = error.to_string();
    assert!(!words.contains("secret"), "{words}");
    words
}
