//! What the program sends to others, against servers on loopback that misbehave where others would.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdue::clock::{Clock, ManualClock};
use overdue::outbound::{
    HttpRequest, HttpResponse, NameSources, Outbound, OutboundConfig, ProxyChoice, RedirectPolicy,
    SendError, Trust,
};
use overdue::random::Random;

use crate::support::server::START;

mod command;
mod http;
mod mail;
mod names;
mod proxy;
mod tls;

/// No file of this machine counts, and no proxy of its environment.
fn config() -> OutboundConfig {
    OutboundConfig {
        proxy: ProxyChoice::None,
        names: nowhere(),
        ..OutboundConfig::default()
    }
}

fn nowhere() -> NameSources {
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

/// The sentence of an error. It may name the host alone.
#[track_caller]
fn words(error: &SendError) -> String {
    let words = error.to_string();
    assert!(!words.contains("secret"), "{words}");
    words
}
