//! Opens all outgoing connections: resolves the name, removes addresses that the guard refuses, and
//! connects to one of the rest. The name is not resolved a second time in between, so its addresses
//! cannot change.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address_guard::{AddressGuard, Trust};
use super::error::{SendError, SendStage};
use super::proxy::{Proxy, ProxyMatcher};
use super::resolver::Resolver;
use super::tls::{self, CertificatePin, TrustedRoots};
use super::url::{Host, HostPort, Url};

/// Maximum time to connect after name resolution, over all addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of a TLS handshake, and of a handshake with a proxy.
pub(super) const TLS_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay until the next address is tried in parallel (RFC 8305).
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// Byte stream over any transport.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Connection for HTTP requests.
pub(super) struct DialedConnection {
    pub(super) stream: Box<dyn ByteStream>,
    /// Proxy at the other end, if it expects the whole URL as target.
    pub(super) forward_proxy: Option<ForwardProxy>,
}

/// Proxy that forwards plain requests.
pub(super) struct ForwardProxy {
    /// Value of `Proxy-Authorization` for the proxy.
    pub(super) authorization: Option<HeaderValue>,
}

pub(super) struct Dialer {
    pub(super) resolver: Resolver,
    pub(super) guard: AddressGuard,
    pub(super) proxies: ProxyMatcher,
    pub(super) roots: TrustedRoots,
    /// True if requests are sent for channels, which have `tls-pin`.
    pub(super) mentions_tls_pin: bool,
}

impl Dialer {
    /// Opens a connection for requests to the origin of this URL.
    pub(super) async fn open(
        &self,
        url: &Url,
        trust: Trust,
        pin: Option<CertificatePin>,
    ) -> Result<DialedConnection, SendError> {
        let mut has_retried = false;
        loop {
            let (stream, forward_proxy) = self.connect_via_proxy(url, trust).await?;
            if !url.is_https {
                return Ok(DialedConnection {
                    stream: Box::new(stream),
                    forward_proxy,
                });
            }
            match self
                .negotiate_tls(stream, &url.host_port.host, pin, &[b"http/1.1"])
                .await
            {
                Ok(stream) => {
                    return Ok(DialedConnection {
                        stream: Box::new(stream),
                        forward_proxy: None,
                    });
                }
                Err(TlsFailure {
                    is_worth_retrying: true,
                    ..
                }) if !has_retried => has_retried = true,
                Err(TlsFailure { error, .. }) => return Err(error),
            }
        }
    }

    async fn connect_via_proxy(
        &self,
        url: &Url,
        trust: Trust,
    ) -> Result<(TcpStream, Option<ForwardProxy>), SendError> {
        let Some(proxy) = self.proxies.for_url(url)? else {
            return Ok((self.connect_directly(&url.host_port, trust).await?, None));
        };
        self.check_proxied_host(&url.host_port.host, trust).await?;
        let stream = self
            .connect_directly(proxy.host_port(), Trust::Operator)
            .await
            .map_err(|error| proxy.connection_error(&error))?;
        match proxy {
            Proxy::Http { authorization, .. } if !url.is_https => {
                Ok((stream, Some(ForwardProxy { authorization })))
            }
            _ => Ok((proxy.tunnel(stream, &url.host_port).await?, None)),
        }
    }

    /// Refuses a forbidden host, as far as this program can tell: a proxy resolves names itself.
    /// Hosts that the proxy would take for its own machine are refused like this machine, since
    /// both may be the same.
    async fn check_proxied_host(&self, host: &Host, trust: Trust) -> Result<(), SendError> {
        if host.ends_in_number() && trust == Trust::Api {
            let why = format!(
                "a proxy may read the number {host} as any address: write it as four numbers \
                 separated by dots"
            );
            return Err(SendError::new(SendStage::Refused, why));
        }
        if matches!(host, Host::Address(_)) || host.is_loopback() {
            self.allowed_addresses(host, self.resolver.addresses(host).await?, trust)?;
        }
        Ok(())
    }

    /// Opens a connection to a host and port without a proxy.
    pub(super) async fn connect_directly(
        &self,
        host_port: &HostPort,
        trust: Trust,
    ) -> Result<TcpStream, SendError> {
        let addresses = self.resolver.addresses(&host_port.host).await?;
        let addresses = self.allowed_addresses(&host_port.host, addresses, trust)?;
        let connected = timeout(
            CONNECT_TIMEOUT,
            connect_to_first(interleave_families(addresses), host_port.port),
        )
        .await;
        let connect_error = |reason: String| {
            SendError::new(
                SendStage::Connect,
                format!("cannot connect to {host_port}: {reason}"),
            )
        };
        connected
            .map_err(|_| {
                connect_error(format!(
                    "no answer within {} seconds",
                    CONNECT_TIMEOUT.as_secs()
                ))
            })?
            .map_err(|error| connect_error(network_error_text(&error)))
    }

    /// Returns the addresses that the guard allows.
    fn allowed_addresses(
        &self,
        host: &Host,
        addresses: Vec<IpAddr>,
        trust: Trust,
    ) -> Result<Vec<IpAddr>, SendError> {
        let mut refused = None;
        let mut permitted = Vec::new();
        for address in addresses {
            match self.guard.check(address, trust) {
                Ok(()) => permitted.push(address),
                Err(error) => refused = refused.or(Some((address, error))),
            }
        }
        match (permitted.is_empty(), refused) {
            (true, Some((address, refusal))) => {
                let host_phrase = if *host == Host::Address(address) {
                    String::new()
                } else {
                    format!(", the address of {host},")
                };
                Err(SendError::new(
                    SendStage::Refused,
                    format!("{address}{host_phrase} is {}", refusal.reason()),
                ))
            }
            _ => Ok(permitted),
        }
    }

    /// Performs the TLS handshake with a host. Negotiates one of these protocols, if there are any.
    pub(super) async fn negotiate_tls(
        &self,
        stream: TcpStream,
        host: &Host,
        pin: Option<CertificatePin>,
        protocols: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, TlsFailure> {
        let tls_failure = |error| TlsFailure {
            error,
            is_worth_retrying: false,
        };
        let name = certificate_name(host).map_err(tls_failure)?;
        let config = self.roots.config(pin).map_err(tls_failure)?;
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        match timeout(
            TLS_TIMEOUT,
            TlsConnector::from(Arc::new(config)).connect(name, stream),
        )
        .await
        {
            Ok(Ok(stream)) => Ok(stream),
            // Roots that were added since the last read may include the issuer.
            Ok(Err(error)) => Err(TlsFailure {
                error: tls::handshake_error(host, &error, self.mentions_tls_pin),
                is_worth_retrying: tls::is_unknown_issuer(&error) && self.roots.reload(),
            }),
            Err(_) => Err(tls_failure(tls_timeout_error(host))),
        }
    }
}

/// Name that the certificate of a host must have.
pub(super) fn certificate_name(host: &Host) -> Result<ServerName<'static>, SendError> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => {
            ServerName::try_from(name.trim_end_matches('.').to_owned()).map_err(|_| {
                let text = format!("{host} is not a name that a certificate can have");
                SendError::new(SendStage::Request, text)
            })
        }
    }
}

/// Error of a TLS handshake that took longer than [`TLS_TIMEOUT`].
pub(super) fn tls_timeout_error(host: &Host) -> SendError {
    let text = format!(
        "TLS with {host} took more than {} seconds",
        TLS_TIMEOUT.as_secs()
    );
    SendError::new(SendStage::Tls, text)
}

/// Failed TLS handshake.
pub(super) struct TlsFailure {
    pub(super) error: SendError,
    /// The roots have been read again since, so another attempt may succeed.
    pub(super) is_worth_retrying: bool,
}

/// Alternates IPv6 and IPv4, IPv6 first.
fn interleave_families(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (v6, v4): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let mut v4 = v4.into_iter();
    let mut interleaved: Vec<_> = v6
        .into_iter()
        .flat_map(|v6| [Some(v6), v4.next()])
        .flatten()
        .collect();
    interleaved.extend(v4);
    interleaved
}

/// Connects to the first address that answers. The next one is tried when the last one has failed
/// or has not answered for [`NEXT_ADDRESS_DELAY`].
async fn connect_to_first(addresses: Vec<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(connect_to((address, port).into()));
        }
        let more = waiting.len() > 0;
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(_)) => {}
                None if !more => return Err(last),
                None => {}
            },
            () = sleep(NEXT_ADDRESS_DELAY), if more => {}
        }
    }
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Text for a network error.
pub(super) fn network_error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::TimedOut => "it does not answer".into(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate() {
        let turns = |texts: &[&str]| {
            let turns =
                interleave_families(texts.iter().map(|text| text.parse().unwrap()).collect());
            turns
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            turns(&["1.1.1.1", "1.1.1.2", "::1", "::2", "::3"]),
            "::1 1.1.1.1 ::2 1.1.1.2 ::3"
        );
        assert_eq!(turns(&["1.1.1.1", "1.1.1.2", "::1"]), "::1 1.1.1.1 1.1.1.2");
        assert_eq!(turns(&[]), "");
    }
}
