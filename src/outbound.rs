//! The one way out: whatever the program sends to others goes through here. Nothing else of it opens a connection or starts a process
//! that would.
//!
//! Who may be reached is for [`AddressGuard`] to say, which is asked about every address right before a connection to it is made. What may be
//! a secret is in no error, no log line and no `Debug`: errors name a host, never a path, a query, a header or a body.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::channel::Transports;
use crate::domain::ids::ProjectId;
use crate::random::Random;
use connection_pool::ConnectionPool;
use dial::Dialer;
use mail::MailConnections;
use proxy::ProxyMatcher;
use resolver::Resolver;
use send_limits::SendLimits;
use tls::TrustedRoots;
pub(crate) use tls::pem_cause;

pub use address_guard::{AddressGuard, NetworkReach, Trust};
use command::Commands;
pub use command::{ProcessExit, SESSION_LAUNCHER, ShellCommand, ShellCommandResult};
pub use error::{SendError, SendStage};
pub use http::{HttpRequest, HttpResponse, RedirectPolicy};
pub use mail::{MailError, MailFrom, MailReceipt, MailRelay, MailReply, MailServer, MailStep, OutgoingMail};
pub use proxy::ProxyChoice;
pub use resolver::NameSources;
pub use tls::CertificatePin;

mod address_guard;
mod command;
mod connection_pool;
mod dial;
mod error;
mod http;
mod mail;
mod proxy;
mod proxy_tunnel;
mod resolver;
mod send_limits;
mod tls;
mod url;

/// How much is sent to one host and port at once, unless the operator says otherwise.
pub const DEFAULT_PER_HOST: usize = 8;

/// What is sent, and how.
#[derive(Clone)]
pub struct OutboundConfig {
    /// Which addresses may be connected to.
    pub guard: AddressGuard,
    /// Through which proxy requests go. Mail goes through none.
    pub proxy: ProxyChoice,
    /// A PEM file of certificate authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The mail server, if there is one.
    pub relay: Option<MailRelay>,
    /// The program that starts commands as [`SESSION_LAUNCHER`], if commands may be run.
    pub allow_shell: Option<PathBuf>,
    /// How much is sent to one host and port at once; at least 1.
    pub per_host: usize,
    /// Where names are looked up.
    pub names: NameSources,
    /// True if it sends for channels: errors about certificates name their setting `tls-pin`.
    pub with_pins: bool,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            guard: AddressGuard::default(),
            proxy: ProxyChoice::default(),
            ca_file: None,
            relay: None,
            allow_shell: None,
            per_host: DEFAULT_PER_HOST,
            names: NameSources::default(),
            with_pins: true,
        }
    }
}

/// A file that the configuration names cannot be used: which, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboundError(String);

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutboundError {}

/// Sends requests, mails and commands. Its clones share connections, limits and what is known of names.
#[derive(Clone)]
pub struct Outbound {
    inner: Arc<OutboundInner>,
    /// For which project it sends, which has at most half of the places; `None`: for the server itself.
    project: Option<ProjectId>,
}

/// A place to send a request, which was waited for.
pub struct ReservedSlot(send_limits::SendPermit);

struct OutboundInner {
    dialer: Dialer,
    pool: ConnectionPool,
    mail_connections: MailConnections,
    limits: SendLimits,
    relay: Option<MailRelay>,
    /// Absent: none may be run.
    commands: Option<Commands>,
}

impl Outbound {
    /// Reads what the configuration names, to see that it can be read. Everything is read again when it is needed.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn new(config: OutboundConfig, clock: &Clock, random: Random) -> Result<Self, OutboundError> {
        if let Some(path) = &config.ca_file {
            tls::read_authorities(path).map_err(OutboundError)?;
        }
        if let Some(relay) = &config.relay {
            relay.password().map_err(OutboundError)?;
        }
        let dialler = Dialer {
            resolver: Resolver::new(config.names, clock.clone(), random),
            guard: config.guard,
            proxies: ProxyMatcher::new(&config.proxy),
            roots: TrustedRoots::new(config.ca_file, clock.clone()),
            with_pins: config.with_pins,
        };
        let inner = OutboundInner {
            dialer: dialler,
            pool: ConnectionPool::new(clock.clone()),
            mail_connections: MailConnections::new(clock.clone()),
            limits: SendLimits::new(config.per_host.max(1)),
            relay: config.relay,
            commands: config.allow_shell.map(Commands::new),
        };
        Ok(Self { inner: Arc::new(inner), project: None })
    }

    /// The same, sending for a project.
    pub fn for_project(&self, project: ProjectId) -> Self {
        Self { inner: Arc::clone(&self.inner), project: Some(project) }
    }

    /// Waits for a place to send a request to this URL.
    ///
    /// # Errors
    /// When there is none for a minute, or it is no `send_http` or `https` URL.
    pub async fn reserve(&self, url: &str) -> Result<ReservedSlot, SendError> {
        http::wait_for_permit(self, &url::Url::parse(url)?).await.map(ReservedSlot)
    }

    /// The transports that the configuration allows.
    pub fn transports(&self) -> Transports {
        Transports { mail: self.inner.relay.is_some(), commands: self.inner.commands.is_some() }
    }

    /// Sends a request and reads its answer, whatever the answer says.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send_http(&self, request: HttpRequest, trust: Trust) -> Result<HttpResponse, SendError> {
        self.send_http_limited(http::MAX_BODY_BYTES, request, trust).await
    }

    /// The same with so many bytes of the answer's body at the most.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send_http_limited(&self, most_body: usize, request: HttpRequest, trust: Trust) -> Result<HttpResponse, SendError> {
        http::send(self, None, request, trust, most_body).await
    }

    /// Sends a request in a place that was [reserved](Self::reserve), and reads its answer.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send_http_reserved(&self, place: ReservedSlot, request: HttpRequest, trust: Trust) -> Result<HttpResponse, SendError> {
        http::send(self, Some(place.0), request, trust, http::MAX_BODY_BYTES).await
    }

    /// Hands a mail to the mail server.
    ///
    /// # Errors
    /// When the server did not take it, or did not say so.
    pub async fn send_mail(&self, mail: OutgoingMail) -> Result<MailReceipt, MailError> {
        mail::send(self, mail).await
    }

    /// Runs a command to its end. If nobody waits for that any more, it is killed.
    ///
    /// # Errors
    /// When none may be run, or it could not be started.
    pub async fn run_command(&self, command: ShellCommand) -> Result<ShellCommandResult, SendError> {
        let none = || SendError::new(SendStage::Setup, "commands are not run; start with --allow-shell");
        self.inner.commands.as_ref().ok_or_else(none)?.run(command).await
    }
}

/// The host and port that a URL leads to, as `host:port`, for whoever counts what is sent where.
///
/// # Errors
/// When it is no `send_http` or `https` URL.
pub fn host_port_of(url: &str) -> Result<String, SendError> {
    url::Url::parse(url).map(|url| url.host_port.to_string())
}
