//! `overdue health`: tests for containers and scripts that the server on this machine accepts
//! pings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use super::CliError;
use super::serve::parse_address;
use crate::clock::Clock;
use crate::outbound::{HttpRequest, Outbound, OutboundConfig, ProxyChoice, RedirectPolicy, Trust};
use crate::random::Random;
use crate::serve::DEFAULT_LISTEN;

/// Time within which the server must answer: a server that cannot write says so earlier.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(9);

#[derive(Args)]
pub(super) struct HealthArgs {
    /// Address and port that the server takes HTTP requests on; may be given several times, with
    /// commas in the variable: the first counts
    #[arg(long, env = "OVERDUE_LISTEN", value_name = "ADDR:PORT", value_delimiter = ',', default_value = DEFAULT_LISTEN, value_parser = parse_address)]
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
                "{at} answers {} to /healthz: it takes no pings",
                answer.status
            ))),
            Err(error) => Err(CliError::other(format!(
                "no server takes pings at {at}: {error}; if it listens elsewhere, say so with \
                 --listen or in OVERDUE_LISTEN"
            ))),
        }
    }
}

/// Returns the address at which this machine reaches a server that listens here.
fn local_address(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_here() {
        for (listens, reached) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:8000", "[::1]:8000"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(
                local_address(listens.parse().unwrap()),
                reached.parse().unwrap()
            );
        }
    }
}
