//! Outgoing connections: everything that the program sends to others passes through this module. No
//! other module opens a connection or starts a process that would.
//!
//! [`AddressGuard`] decides which addresses may be reached. It checks every address right before a
//! connection to it is opened. Possible secrets appear in no error, no log line and no `Debug`:
//! errors name a host, never a path, a query, a header or a body.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::domain::channel::Transports;
use crate::domain::ids::ProjectId;
use crate::util::clock::Clock;
use crate::util::random::Random;
use connection_pool::ConnectionPool;
use dial::Dialer;
use mail::MailConnections;
use proxy::ProxyMatcher;
use resolver::Resolver;
use send_limits::SendLimits;
use tls::TrustedRoots;
pub(crate) use tls::pem_cause;

pub use address_guard::{AddressGuard, NetworkReach, Trust};
pub use command::{Commands, ProcessExit, SESSION_LAUNCHER, ShellCommand, ShellCommandResult};
pub use error::{SendError, SendStage};
pub use http::{HttpRequest, HttpResponse, RedirectPolicy};
pub(crate) use http2::{Http2Body, Http2Connection};
pub use mail::{
    MailError, MailFrom, MailReceipt, MailRelay, MailReply, MailServer, MailStep, OutgoingMail,
};
pub(crate) use object_requests::ObjectConnector;
pub use proxy::ProxyChoice;
pub use resolver::NameSources;
pub use tls::CertificatePin;
pub(crate) use typed_request::describe_error;

mod address_guard;
mod command;
mod connection_pool;
mod dial;
mod error;
mod http;
mod http2;
mod mail;
mod object_requests;
mod proxy;
mod proxy_tunnel;
mod resolver;
mod send_limits;
mod tls;
mod typed_request;
mod url;

/// Default for the number of concurrent requests to one host and port.
pub const DEFAULT_PER_HOST: usize = 8;

/// Configuration of outgoing connections.
#[derive(Clone)]
pub struct OutboundConfig {
    /// Rules for the addresses that may be connected to.
    pub guard: AddressGuard,
    /// Proxy for requests. Mail uses none.
    pub proxy: ProxyChoice,
    /// PEM file of certificate authorities that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Mail server, if there is one.
    pub relay: Option<MailRelay>,
    /// Path of this program, which starts commands as [`SESSION_LAUNCHER`]. `None`: commands are
    /// not allowed.
    pub command_launcher: Option<PathBuf>,
    /// Maximum number of concurrent requests to one host and port; at least 1.
    pub per_host: usize,
    /// Sources of name resolution.
    pub names: NameSources,
    /// True if requests are sent for channels: errors about certificates then mention the setting
    /// `tls-pin`.
    pub mentions_tls_pin: bool,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            guard: AddressGuard::default(),
            proxy: ProxyChoice::default(),
            ca_file: None,
            relay: None,
            command_launcher: None,
            per_host: DEFAULT_PER_HOST,
            names: NameSources::default(),
            mentions_tls_pin: true,
        }
    }
}

/// A file that the configuration names is unusable. Displays as the file and the cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboundError(String);

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutboundError {}

/// Sends requests and mails and runs commands. Clones share connections, limits and the name cache.
#[derive(Clone)]
pub struct Outbound {
    inner: Arc<OutboundInner>,
    /// Project to send for, which may use at most half of each limit. `None`: the server itself.
    project: Option<ProjectId>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound(..)")
    }
}

/// Permit to send one request.
pub struct RequestPermit(send_limits::SendPermit);

struct OutboundInner {
    dialer: Dialer,
    pool: ConnectionPool,
    mail_connections: MailConnections,
    limits: SendLimits,
    relay: Option<MailRelay>,
    /// `None`: commands are not allowed.
    commands: Option<Commands>,
}

impl Outbound {
    /// Checks that the files of the configuration are readable. Each is read again when it is
    /// needed.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(
        config: OutboundConfig,
        clock: &Clock,
        random: Random,
    ) -> Result<Self, OutboundError> {
        if let Some(path) = &config.ca_file {
            tls::read_authorities(path).map_err(OutboundError)?;
        }
        if let Some(relay) = &config.relay {
            relay.password().map_err(OutboundError)?;
        }
        let dialer = Dialer {
            resolver: Resolver::new(config.names, clock.clone(), random),
            guard: config.guard,
            proxies: ProxyMatcher::new(&config.proxy),
            roots: TrustedRoots::new(config.ca_file, clock.clone()),
            mentions_tls_pin: config.mentions_tls_pin,
        };
        let inner = OutboundInner {
            dialer,
            pool: ConnectionPool::new(clock.clone()),
            mail_connections: MailConnections::new(clock.clone()),
            limits: SendLimits::new(config.per_host.max(1)),
            relay: config.relay,
            commands: config.command_launcher.map(Commands::new),
        };
        Ok(Self {
            inner: Arc::new(inner),
            project: None,
        })
    }

    /// Returns a sender for a project.
    pub fn for_project(&self, project: ProjectId) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            project: Some(project),
        }
    }

    /// Waits for a permit to send a request to this URL.
    ///
    /// # Errors
    /// If none is free within a minute, or if it is no `http` or `https` URL.
    pub async fn reserve(&self, url: &str) -> Result<RequestPermit, SendError> {
        http::wait_for_permit(self, &url::Url::parse(url)?)
            .await
            .map(RequestPermit)
    }

    /// Transports that the configuration allows.
    pub fn transports(&self) -> Transports {
        Transports {
            mail: self.inner.relay.is_some(),
            commands: self.inner.commands.is_some(),
        }
    }

    /// Sends a request and reads the response, whatever its status.
    ///
    /// # Errors
    /// If no response arrived.
    pub async fn send_http(
        &self,
        request: HttpRequest,
        trust: Trust,
    ) -> Result<HttpResponse, SendError> {
        self.send_http_limited(http::MAX_BODY_BYTES, request, trust)
            .await
    }

    /// Like [`send_http`](Self::send_http), with a maximum length for the body of the response, in
    /// bytes.
    ///
    /// # Errors
    /// If no response arrived.
    pub async fn send_http_limited(
        &self,
        max_body_bytes: usize,
        request: HttpRequest,
        trust: Trust,
    ) -> Result<HttpResponse, SendError> {
        http::send(self, None, request, trust, max_body_bytes).await
    }

    /// Sends a request with a permit that was [reserved](Self::reserve), and reads the response.
    ///
    /// # Errors
    /// If no response arrived.
    pub async fn send_http_reserved(
        &self,
        permit: RequestPermit,
        request: HttpRequest,
        trust: Trust,
    ) -> Result<HttpResponse, SendError> {
        http::send(self, Some(permit.0), request, trust, http::MAX_BODY_BYTES).await
    }

    /// Opens a connection to an address of the operator, `HOST:PORT`.
    ///
    /// # Errors
    /// If the address is invalid, its name is unknown, or nothing accepts the connection.
    pub async fn connect(&self, address: &str) -> Result<TcpStream, SendError> {
        let host_port = url::HostPort::parse(address)?;
        self.inner
            .dialer
            .connect_directly(&host_port, Trust::Operator)
            .await
    }

    /// Sends a mail to the mail server.
    ///
    /// # Errors
    /// If the server rejected it, or did not confirm it.
    pub async fn send_mail(&self, mail: OutgoingMail) -> Result<MailReceipt, MailError> {
        mail::send(self, mail).await
    }

    /// Runs a command until it exits. Dropping the future kills it.
    ///
    /// # Errors
    /// If commands are not allowed, or if it could not be started.
    pub async fn run_command(
        &self,
        command: ShellCommand,
    ) -> Result<ShellCommandResult, SendError> {
        let none = || {
            SendError::new(
                SendStage::Setup,
                "commands are not allowed; start with --allow-shell",
            )
        };
        self.inner
            .commands
            .as_ref()
            .ok_or_else(none)?
            .run(command)
            .await
    }
}

/// Host and port of a URL as `host:port`, for callers that limit requests by destination.
///
/// # Errors
/// If it is no `http` or `https` URL.
pub fn host_port_of(url: &str) -> Result<String, SendError> {
    url::Url::parse(url).map(|url| url.host_port.to_string())
}
