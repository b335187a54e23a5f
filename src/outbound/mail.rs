//! Mail: sent to one server, over a connection that is kept for a while.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_send::{Credentials, SmtpClient};
use smtp_proto::{AUTH_LOGIN, AUTH_PLAIN, EXT_8BIT_MIME, EXT_START_TLS, EhloResponse, Response};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use self::server::MailSecurity;
use super::Outbound;
use super::address_guard::Trust;
use super::dial::{ByteStream, Dialer, network_error_text};
use super::error::{SendError, SendStage};
use super::http::QUEUE_TIMEOUT;
use crate::domain::channel::MASK;
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};
pub use message::OutgoingMail;
pub use server::{MailFrom, MailRelay, MailServer};

mod message;
mod server;

/// Maximum idle time of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of messages over one connection.
const MAX_MESSAGES: u32 = 100;
/// Shorter passwords are not searched for in replies: redacting them would hide ordinary words.
const MIN_PASSWORD_CHARS: usize = 4;
/// Maximum number of characters of a reply that are kept.
const MAX_REPLY_CHARS: usize = 200;

/// Negative reply of a mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailReply {
    /// Step that was refused.
    pub step: MailStep,
    /// Reply code, such as 550.
    pub code: u16,
    /// Beginning of its text, in one line.
    pub text: String,
}

/// Steps of sending a mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailStep {
    /// Connecting, EHLO and STARTTLS.
    Greeting,
    /// Authentication.
    Login,
    /// `MAIL FROM`.
    Sender,
    /// `RCPT TO`.
    Recipient,
    /// `DATA` and the message.
    Message,
}

/// Error of sending a mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailError {
    /// No reply arrived.
    Send(SendError),
    /// The server refused.
    Refused(MailReply),
}

impl fmt::Display for MailReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match self.step {
            MailStep::Greeting => "the greeting",
            MailStep::Login => "user and password",
            MailStep::Sender => "the sender",
            MailStep::Recipient => "the recipient",
            MailStep::Message => "the message",
        };
        write!(
            f,
            "the mail server answered {} to {to}: {}",
            self.code, self.text
        )
    }
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => error.fmt(f),
            Self::Refused(reply) => reply.fmt(f),
        }
    }
}

impl std::error::Error for MailError {}

impl From<SendError> for MailError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

/// Result of an accepted mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailReceipt {
    /// Recipients that the server refused while it accepted the mail for others: index in the
    /// list, and its reply.
    pub refused: Vec<(usize, MailReply)>,
}

/// Holds the idle connection, if there is one.
pub(super) struct MailConnections {
    clock: Clock,
    idle: Arc<Mutex<Option<MailSession>>>,
}

struct MailSession {
    client: SmtpClient<Box<dyn ByteStream>>,
    has_8bitmime: bool,
    messages: u32,
    /// Time of the last message, by the clock's uptime.
    last_used: Duration,
}

impl MailConnections {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            idle: Arc::default(),
        }
    }

    fn take(&self) -> Option<MailSession> {
        let session = lock(&self.idle).take();
        session.filter(|session| self.clock.uptime() < session.last_used + IDLE_TIMEOUT)
    }

    fn put(&self, mut session: MailSession) {
        session.messages += 1;
        session.last_used = self.clock.uptime();
        let mut idle = lock(&self.idle);
        if session.messages < MAX_MESSAGES && idle.is_none() {
            let last_used = session.last_used;
            let weak = Arc::downgrade(&self.idle);
            *idle = Some(session);
            tokio::spawn(async move {
                sleep(IDLE_TIMEOUT).await;
                let Some(idle) = weak.upgrade() else { return };
                let expired = lock(&idle).take_if(|session| session.last_used <= last_used);
                quit(expired).await;
            });
        } else {
            drop(idle);
            tokio::spawn(quit(Some(session)));
        }
    }
}

/// Closes a connection with QUIT.
async fn quit(session: Option<MailSession>) {
    if let Some(session) = session {
        let _ = timeout(IDLE_TIMEOUT, session.client.quit()).await;
    }
}

pub(super) async fn send(
    outbound: &Outbound,
    mail: OutgoingMail,
) -> Result<MailReceipt, MailError> {
    let inner = &*outbound.inner;
    let setup_error = || {
        SendError::new(
            SendStage::Setup,
            "no mail server is set; start with --mail-server",
        )
    };
    let relay = inner.relay.as_ref().ok_or_else(setup_error)?;
    let message = mail.build(&relay.from)?;
    let host = &relay.server.host_port.host;
    let permit = timeout(
        QUEUE_TIMEOUT,
        inner
            .limits
            .acquire(&relay.server.host_port, outbound.project),
    );
    let _permit = permit.await.map_err(|_| {
        SendError::new(
            SendStage::Timeout,
            format!("too many requests to {host} are waiting"),
        )
    })?;
    let sending = AtomicBool::new(false);
    let delivered = timeout(mail.timeout, async {
        if let Some(session) = inner.mail_connections.take() {
            match transmit(session, relay, &mail, &message, &sending).await {
                // The server has closed the connection meanwhile.
                Err(error) if !sending.load(Ordering::Relaxed) && is_stale_connection(&error) => {}
                done => return done,
            }
        }
        transmit(
            open_session(&inner.dialer, relay, mail.timeout).await?,
            relay,
            &mail,
            &message,
            &sending,
        )
        .await
    });
    let (session, sent) = delivered.await.map_err(|_| {
        let text = format!(
            "the mail server {host} did not answer within {} seconds",
            mail.timeout.as_secs()
        );
        SendError::new(SendStage::Timeout, text)
            .with_may_have_arrived(sending.load(Ordering::Relaxed))
    })??;
    inner.mail_connections.put(session);
    Ok(sent)
}

/// Maximum time until the greeting of a server, which may itself be waiting for TLS.
const GREETING_TIMEOUT: Duration = Duration::from_secs(20);

fn is_stale_connection(error: &MailError) -> bool {
    match error {
        MailError::Send(error) => error.stage == SendStage::Exchange,
        MailError::Refused(reply) => reply.code == 421,
    }
}

/// Connects, performs the TLS handshake and logs in.
async fn open_session(
    dialer: &Dialer,
    relay: &MailRelay,
    reply_timeout: Duration,
) -> Result<MailSession, MailError> {
    let stream = dialer
        .connect_directly(&relay.server.host_port, Trust::Operator)
        .await?;
    let us = ehlo_name(&stream);
    let stream = greet(dialer, relay, stream, &us, reply_timeout).await?;
    let mut client = SmtpClient {
        stream,
        timeout: reply_timeout,
    };
    let offers = send_ehlo(&mut client, &us, relay).await?;
    let has_8bitmime = offers.capabilities & EXT_8BIT_MIME != 0;
    log_in(&mut client, relay, offers).await?;
    Ok(MailSession {
        client,
        has_8bitmime,
        messages: 0,
        last_used: Duration::ZERO,
    })
}

/// Reads the greeting and secures the connection as configured. What arrived before TLS is dropped.
async fn greet(
    dialer: &Dialer,
    relay: &MailRelay,
    stream: TcpStream,
    us: &str,
    reply_timeout: Duration,
) -> Result<Box<dyn ByteStream>, MailError> {
    let lost = |error: mail_send::Error| connection_lost(relay, &error);
    let server = &relay.server;
    let greeting = MailStep::Greeting;
    if server.security == MailSecurity::Tls {
        let mut client = SmtpClient {
            stream: secure(dialer, relay, stream).await?,
            timeout: reply_timeout,
        };
        require_positive(greeting, &client.read().await.map_err(lost)?)?;
        return Ok(client.stream);
    }
    let mut client = SmtpClient {
        stream,
        timeout: reply_timeout,
    };
    let reply = first_reply(&mut client, relay, reply_timeout).await?;
    require_positive(greeting, &reply)?;
    if server.security == MailSecurity::None {
        return Ok(Box::new(client.stream));
    }
    let offers = send_ehlo(&mut client, us, relay).await?;
    if offers.capabilities & EXT_START_TLS == 0 {
        let text = format!(
            "the mail server {} does not offer STARTTLS: use smtps:// if it begins with TLS, or \
             smtp+plain:// if it has no TLS",
            server.host_port.host
        );
        return Err(SendError::new(SendStage::Tls, text).into());
    }
    require_positive(greeting, &client.cmd(b"STARTTLS\r\n").await.map_err(lost)?)?;
    // Plain text that arrived after the reply to STARTTLS is dropped: its sender is unknown.
    secure(dialer, relay, client.stream).await
}

async fn secure(
    dialer: &Dialer,
    relay: &MailRelay,
    stream: TcpStream,
) -> Result<Box<dyn ByteStream>, MailError> {
    let server = &relay.server;
    let negotiated = dialer
        .negotiate_tls(stream, &server.host_port.host, None, &[])
        .await;
    let secured = negotiated.map_err(|failure| match server.security {
        MailSecurity::Tls if !failure.error.is_permanent => {
            let text = format!(
                "{}: if the server begins without TLS, as on port 587 or 25, use smtp:// instead \
                 of smtps://",
                failure.error
            );
            SendError::new(SendStage::Tls, text)
        }
        _ => failure.error,
    });
    Ok(Box::new(secured?))
}

/// Logs in if a user is configured. `offers`: the reply to EHLO.
async fn log_in(
    client: &mut SmtpClient<Box<dyn ByteStream>>,
    relay: &MailRelay,
    mut offers: EhloResponse<String>,
) -> Result<(), MailError> {
    let server = &relay.server;
    let Some(user) = &server.user else {
        return Ok(());
    };
    let password = relay
        .password()
        .map_err(|error| SendError::new(SendStage::Setup, error))?
        .unwrap_or_default();
    offers.auth_mechanisms &= AUTH_PLAIN | AUTH_LOGIN;
    let credentials = Credentials::Plain {
        username: user.clone(),
        secret: password.clone(),
    };
    let login = client.authenticate(&credentials, &offers).await.map(drop);
    login.map_err(|error| match error {
        mail_send::Error::AuthenticationFailed(reply)
        | mail_send::Error::UnexpectedReply(reply) => {
            refused_error(MailStep::Login, &redact_password(&reply, &password))
        }
        mail_send::Error::UnsupportedAuthMechanism => SendError::new(
            SendStage::Exchange,
            format!(
                "the mail server {} offers neither AUTH PLAIN nor LOGIN",
                server.host_port.host
            ),
        )
        .into(),
        error => connection_lost(relay, &error),
    })
}

/// Returns a reply without the password that it may repeat, in plain text or as it was sent (RFC
/// 4616, and LOGIN).
fn redact_password(reply: &Response<String>, password: &str) -> Response<String> {
    if password.len() < MIN_PASSWORD_CHARS {
        return reply.clone();
    }
    let contains_password = |word: &str| {
        let decoded = BASE64_STANDARD.decode(word).unwrap_or_default();
        decoded
            .split(|byte| *byte == 0)
            .any(|part| part == password.as_bytes())
    };
    let words: Vec<_> = reply
        .message
        .split(' ')
        .map(|word| if contains_password(word) { MASK } else { word })
        .collect();
    Response {
        message: words.join(" ").replace(password, MASK),
        ..reply.clone()
    }
}

/// Sends EHLO and reads the extensions of the server.
async fn send_ehlo<T: ByteStream>(
    client: &mut SmtpClient<T>,
    us: &str,
    relay: &MailRelay,
) -> Result<EhloResponse<String>, MailError> {
    client.ehlo(us).await.map_err(|error| match error {
        mail_send::Error::UnexpectedReply(reply) => refused_error(MailStep::Greeting, &reply),
        error => connection_lost(relay, &error),
    })
}

/// Transmits the message. Sets `sending` when that begins.
async fn transmit(
    mut session: MailSession,
    relay: &MailRelay,
    mail: &OutgoingMail,
    message: &[u8],
    sending: &AtomicBool,
) -> Result<(MailSession, MailReceipt), MailError> {
    let client = &mut session.client;
    let lost = |error: mail_send::Error| connection_lost(relay, &error);
    let body = if session.has_8bitmime && !message.is_ascii() {
        " BODY=8BITMIME"
    } else {
        ""
    };
    let sender = format!("MAIL FROM:<{}>{body}\r\n", relay.from.address);
    require_positive(MailStep::Sender, &client.cmd(sender).await.map_err(lost)?)?;
    let mut refused = Vec::new();
    for (index, address) in mail.to.iter().enumerate() {
        let reply = client
            .cmd(format!("RCPT TO:<{address}>\r\n"))
            .await
            .map_err(lost)?;
        if !(200..300).contains(&reply.code) {
            refused.push((index, to_mail_reply(MailStep::Recipient, &reply)));
        }
    }
    if refused.len() == mail.to.len()
        && let Some((_, reply)) = refused.pop()
    {
        return Err(MailError::Refused(reply));
    }
    let reply = client.cmd(b"DATA\r\n").await.map_err(lost)?;
    if reply.code != 354 {
        return Err(refused_error(MailStep::Message, &reply));
    }
    client
        .write_message(message)
        .await
        .map_err(|error| lost(error.into()))?;
    sending.store(true, Ordering::Relaxed);
    let reply = client.read().await.map_err(|error| match lost(error) {
        MailError::Send(error) => MailError::Send(error.with_may_have_arrived(true)),
        other => other,
    })?;
    require_positive(MailStep::Message, &reply)?;
    Ok((session, MailReceipt { refused }))
}

fn require_positive(step: MailStep, reply: &Response<String>) -> Result<(), MailError> {
    if (200..300).contains(&reply.code) {
        Ok(())
    } else {
        Err(refused_error(step, reply))
    }
}

fn refused_error(step: MailStep, reply: &Response<String>) -> MailError {
    MailError::Refused(to_mail_reply(step, reply))
}

fn to_mail_reply(step: MailStep, reply: &Response<String>) -> MailReply {
    let text = reply
        .message
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_REPLY_CHARS)
        .collect();
    MailReply {
        step,
        code: reply.code,
        text,
    }
}

/// Reads the greeting of a server that does not begin with TLS.
async fn first_reply<T: ByteStream>(
    client: &mut SmtpClient<T>,
    relay: &MailRelay,
    within: Duration,
) -> Result<Response<String>, MailError> {
    let stage = match timeout(GREETING_TIMEOUT.min(within / 2), client.read()).await {
        Ok(Ok(reply)) => return Ok(reply),
        Ok(Err(_)) => SendStage::Exchange,
        Err(_) => SendStage::Timeout,
    };
    let host = &relay.server.host_port.host;
    let text = format!(
        "the mail server {host} sent no greeting: if it begins with TLS, as on port 465, use \
         smtps:// instead of smtp:// or smtp+plain://"
    );
    Err(SendError::new(stage, text).into())
}

fn connection_lost(relay: &MailRelay, error: &mail_send::Error) -> MailError {
    let host = &relay.server.host_port.host;
    let text = match error {
        mail_send::Error::Io(error) => format!(
            "the connection to the mail server {host} broke: {}",
            network_error_text(error)
        ),
        mail_send::Error::UnparseableReply => {
            format!("the mail server {host} closed the connection or sent an invalid reply")
        }
        mail_send::Error::Timeout => format!("the mail server {host} does not answer"),
        _ => format!("the session with the mail server {host} failed"),
    };
    SendError::new(SendStage::Exchange, text).into()
}

/// Name in EHLO: our address, as the server sees it unless a NAT is in between. A host name would
/// have to be correct.
fn ehlo_name(stream: &TcpStream) -> String {
    match stream
        .local_addr()
        .map(|address| address.ip().to_canonical())
    {
        Ok(std::net::IpAddr::V6(address)) => format!("[IPv6:{address}]"),
        Ok(address) => format!("[{address}]"),
        Err(_) => "[127.0.0.1]".into(),
    }
}
