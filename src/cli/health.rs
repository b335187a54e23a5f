//! `overdue health`: tests for containers and scripts that the server on this machine accepts
//! pings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use super::CliError;
use super::serve::parse_address;
use crate::outbound::{HttpRequest, Outbound, OutboundConfig, ProxyChoice, RedirectPolicy, Trust};
use crate::server::DEFAULT_LISTEN;
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Time within which the server must answer: a server that cannot write says so earlier.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(9);

#[derive(Args)]
pub(super) struct HealthArgs {
    /// Address and port on which the server accepts HTTP requests; may be given several times, with
    /// commas in the variable: the first one is tested
    #[arg(
        long,
        env = "OVERDUE_LISTEN",
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        default_value = DEFAULT_LISTEN,
        value_parser = parse_address
    )]
    listen: Vec<SocketAddr>,
}

impl HealthArgs {
    /// Succeeds if the server accepts pings.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let Some(at) = self.listen.first().copied().map(local_address) else {
            return Ok(());
        };
        let config = OutboundConfig {
            proxy: ProxyChoice::None,
            ..OutboundConfig::default()
        };
        let outbound =
            Outbound::new(config, &Clock::System, Random::System).map_err(CliError::other)?;
        let request = HttpRequest {
            method: "GET".into(),
            url: format!("http://{at}/healthz"),
            headers: Vec::new(),
            body: Vec::new().into(),
            redirects: RedirectPolicy::None,
            pin: None,
            timeout: HEALTH_TIMEOUT,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CliError::other)?;
        match runtime.block_on(outbound.send_http(request, Trust::Operator)) {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(CliError::other(format!(
                "{at} answers {} to /healthz: the server does not accept pings",
                answer.status
            ))),
            Err(error) => Err(CliError::other(format!(
                "no server accepts pings at {at}: {error}; if it listens on another address, give \
                 that with --listen or OVERDUE_LISTEN"
            ))),
        }
    }
}

/// Returns the address at which this machine reaches a server that listens here.
fn local_address(listen_address: SocketAddr) -> SocketAddr {
    let ip = match listen_address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen_address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_at_the_loopback_address() {
        for (listen_address, local) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:8000", "[::1]:8000"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(
                local_address(listen_address.parse().unwrap()),
                local.parse().unwrap()
            );
        }
    }
}
