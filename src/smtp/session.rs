//! One connection: moves bytes between the socket and the dialogue, and enforces the limits of time
//! and memory.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::Level;

use super::dialogue::{Dialogue, DialogueStep, TlsState};
use super::{SmtpServerState, ping_submission};
use crate::runtime::accept::wait_for_stop;
use crate::util::byte_budget::BytePermit;
use crate::util::log_limit::LogLimit;

/// Maximum time between the start of a session, or a message, and the start of the next message.
/// Also the maximum time between two parts of a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time of a session. A message that is complete by then is still logged and answered.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Time in which the client must read a reply or complete a TLS handshake.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 16_384;
/// Bytes of a message that each session may hold without the common budget.
const UNBUDGETED_BYTES: usize = 65_536;
/// Step in which the common budget is taken, in bytes, as they arrive.
const BUDGET_STEP_BYTES: usize = 1_048_576;
/// Interval in which a sender must send [`MIN_BYTES_PER_INTERVAL`]. Otherwise it is slow, and loses
/// its part of the budget to another that needs it.
const RATE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum bytes in an interval: 1 kB a second.
const MIN_BYTES_PER_INTERVAL: usize = 10_000;

static REFUSAL_LOG_LIMIT: LogLimit = LogLimit::new();

const TOO_SLOW_REPLY: &[u8] = b"421 4.4.2 Too slow\r\n";
const STOPPING_REPLY: &[u8] = b"421 4.3.2 The service is stopping\r\n";

/// Result of a session.
enum SessionEnd {
    Close,
    StartTls,
}

/// Runs a session until either side ends it.
pub(super) async fn run_session(
    mut stream: TcpStream,
    peer: IpAddr,
    server: Arc<SmtpServerState>,
    stop: watch::Receiver<bool>,
) {
    let tls = if server.config.certificate.is_some() {
        TlsState::Offered
    } else {
        TlsState::None
    };
    let dialogue = Dialogue::new(server.config.domain.clone(), tls);
    let mut session = SmtpSession {
        dialogue,
        peer,
        server,
        stop,
        budget_permit: None,
        is_slow: false,
    };
    // An error of a connection concerns that connection only.
    if let Err(error) = session.serve(&mut stream).await {
        tracing::debug!(%peer, %error, "mail session aborted");
    }
}

struct SmtpSession {
    dialogue: Dialogue,
    peer: IpAddr,
    server: Arc<SmtpServerState>,
    stop: watch::Receiver<bool>,
    /// Permit for the part of the common budget that the current message takes.
    budget_permit: Option<BytePermit>,
    /// True if the current message has arrived slowly in the last interval.
    is_slow: bool,
}

impl SmtpSession {
    async fn serve(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        // Replies are short, and the sender waits for each. Nagle's algorithm would only delay
        // them.
        stream.set_nodelay(true)?;
        send_bytes(stream, self.dialogue.greeting().as_bytes()).await?;
        if let SessionEnd::StartTls = self.run_dialogue(stream).await?
            && let Some(certificate) = self.server.config.certificate.clone()
        {
            let mut encrypted =
                timeout(SEND_TIMEOUT, certificate.acceptor().accept(stream)).await??;
            self.run_dialogue(&mut encrypted).await?;
            timeout(SEND_TIMEOUT, encrypted.shutdown()).await??;
        }
        Ok(())
    }

    async fn run_dialogue<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
    ) -> io::Result<SessionEnd> {
        let mut chunk = vec![0; READ_BYTES];
        let budget = self.server.message_budget.clone();
        let message_timer = sleep(MESSAGE_TIMEOUT);
        let session_timer = sleep(SESSION_TIMEOUT);
        let rate_timer = sleep(RATE_INTERVAL);
        tokio::pin!(message_timer, session_timer, rate_timer);
        let mut received = 0;
        loop {
            let in_message = self.dialogue.is_in_message();
            let has_budget = self.budget_permit.is_some();
            // Any end of the wait takes precedence over input, and a shortage over both.
            let read = tokio::select! {
                biased;
                () = budget.wait_for_shortage(), if has_budget && self.is_slow => {
                    self.truncate_message();
                    continue;
                }
                () = &mut rate_timer, if has_budget => {
                    self.is_slow = std::mem::take(&mut received) < MIN_BYTES_PER_INTERVAL;
                    rate_timer.set(sleep(RATE_INTERVAL));
                    continue;
                }
                () = wait_for_stop(&mut self.stop), if !in_message => Err(STOPPING_REPLY),
                () = &mut message_timer => Err(TOO_SLOW_REPLY),
                () = &mut session_timer => Err(TOO_SLOW_REPLY),
                read = stream.read(&mut chunk) => Ok(read?),
            };
            let read = match read {
                Ok(read) => read,
                Err(last_reply) => {
                    send_bytes(stream, last_reply).await?;
                    return Ok(SessionEnd::Close);
                }
            };
            let mut input = chunk.get(..read).unwrap_or_default();
            if input.is_empty() {
                return Ok(SessionEnd::Close);
            }
            if self.budget_permit.is_none() {
                // The interval begins with the first bytes that use the budget.
                self.is_slow = false;
                received = 0;
                rate_timer.set(sleep(RATE_INTERVAL));
            }
            received += read;
            let (replies, end) = self.process_input(&mut input).await;
            // Commands alone do not extend a session.
            let progressed = in_message || self.dialogue.is_in_message();
            send_bytes(stream, replies.as_bytes()).await?;
            if let Some(end) = end {
                return Ok(end);
            }
            if progressed {
                message_timer.set(sleep(MESSAGE_TIMEOUT));
            }
        }
    }

    /// Processes all input. The replies are sent in one write, for pipelining (RFC 2920).
    async fn process_input(&mut self, input: &mut &[u8]) -> (String, Option<SessionEnd>) {
        let mut replies = String::new();
        let end = loop {
            match self.dialogue.step(input) {
                DialogueStep::NeedMore => break None,
                DialogueStep::Reply(reply) => {
                    self.record_refusal(&reply);
                    replies.push_str(&reply);
                }
                DialogueStep::Deliver(envelope) => {
                    let logged = ping_submission::log_pings(
                        &self.server.handle,
                        &self.server.blocking,
                        &self.server.parse_permits,
                        self.peer,
                        envelope,
                    )
                    .await;
                    let reply = Dialogue::delivery_reply(logged);
                    self.record_refusal(&reply);
                    replies.push_str(&reply);
                }
                DialogueStep::StartTls(reply) => {
                    replies.push_str(&reply);
                    break Some(SessionEnd::StartTls);
                }
                DialogueStep::Close(reply) => {
                    replies.push_str(&reply);
                    break Some(SessionEnd::Close);
                }
            }
        };
        if !self.reserve_message().await {
            self.truncate_message();
        }
        (replies, end)
    }

    /// Counts and logs a refused recipient, message or command.
    fn record_refusal(&self, reply: &str) {
        if !reply.starts_with(['4', '5']) {
            return;
        }
        self.server.handle.metrics().record_rejected_mail();
        if tracing::enabled!(Level::DEBUG)
            && let Some(suppressed) = REFUSAL_LOG_LIMIT.admit(self.server.handle.now())
        {
            let reply = reply.trim_end();
            tracing::debug!(from = %self.peer, "mail command refused: {reply}{suppressed}");
        }
    }

    /// Takes the part of the common budget that the received message needs, or returns it. Returns
    /// false if the budget does not suffice.
    async fn reserve_message(&mut self) -> bool {
        let held = self.dialogue.buffered_bytes();
        if held <= UNBUDGETED_BYTES {
            self.budget_permit = None;
            return true;
        }
        let needed = held.next_multiple_of(BUDGET_STEP_BYTES);
        let reserved = self.budget_permit.as_ref().map_or(0, BytePermit::bytes);
        if needed <= reserved {
            return true;
        }
        let Some(permit) = self
            .server
            .message_budget
            .acquire(needed - reserved, reserved)
            .await
        else {
            return false;
        };
        permit.add_to(&mut self.budget_permit);
        true
    }

    /// Returns the message's part of the budget. Its beginning is still a ping.
    fn truncate_message(&mut self) {
        tracing::debug!(peer = %self.peer, "mail truncated: memory budget for mail exhausted");
        self.dialogue.truncate_message(UNBUDGETED_BYTES);
        self.budget_permit = None;
    }
}

async fn send_bytes<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    timeout(SEND_TIMEOUT, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    })
    .await?
}

#[cfg(test)]
mod tests;
