//! One connection: carries bytes between the socket and the dialogue, and keeps the limits of time and memory.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::Level;

use super::budget::TakenBytes;
use super::dialogue::{Dialogue, Step, Tls};
use super::{Door, deliver};
use crate::accept::stopped;
use crate::log_limit::LogLimit;

/// A session has so long to begin a message, and the next one. The next piece of a message has to come within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// A session has to end within this time. A message that is complete by then is still logged and answered.
const SESSION: Duration = Duration::from_secs(1_800);
/// Replies have to be taken, and a TLS handshake done, within this time.
const HANDOVER: Duration = Duration::from_secs(30);
/// Bytes read at once.
const CHUNK: usize = 16_384;
/// Bytes of a message that each session may hold without the common budget.
const SHARE: usize = 65_536;
/// The common budget is taken in multiples of so many bytes, as they come.
const BUDGET_STEP: usize = 1_048_576;
/// In this time a sender sends [`LEAST_BYTES`], or it is slow: it loses its part of the budget to another that needs it.
const LEAST_TIME: Duration = Duration::from_secs(10);
/// 1 kB a second.
const LEAST_BYTES: usize = 10_000;

static REFUSED: LogLimit = LogLimit::new();

const TOO_SLOW: &[u8] = b"421 4.4.2 Too slow\r\n";
const STOPPING: &[u8] = b"421 4.3.2 The service is stopping\r\n";

/// How a conversation ended.
enum End {
    Close,
    StartTls,
}

/// Speaks with a sender until either has had enough.
pub(super) async fn run(mut stream: TcpStream, peer: IpAddr, door: Arc<Door>, stop: watch::Receiver<bool>) {
    let tls = if door.config.certificate.is_some() { Tls::Offered } else { Tls::None };
    let dialogue = Dialogue::new(door.config.domain.clone(), tls);
    let mut session = Session { dialogue, peer, door, stop, taken: None, slow: false };
    // What goes wrong on a connection concerns that connection only.
    if let Err(error) = session.speak(&mut stream).await {
        tracing::debug!(%peer, %error, "mail session broken off");
    }
}

struct Session {
    dialogue: Dialogue,
    peer: IpAddr,
    door: Arc<Door>,
    stop: watch::Receiver<bool>,
    /// What the message that is coming in takes of the common budget.
    taken: Option<TakenBytes>,
    /// The message that is coming in has come slowly of late.
    slow: bool,
}

impl Session {
    async fn speak(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        // Replies are short, and the sender waits for each. Nagle's algorithm would only delay them.
        stream.set_nodelay(true)?;
        send(stream, self.dialogue.greeting().as_bytes()).await?;
        if let End::StartTls = self.converse(stream).await?
            && let Some(certificate) = self.door.config.certificate.clone()
        {
            let mut encrypted = timeout(HANDOVER, certificate.acceptor().accept(stream)).await??;
            self.converse(&mut encrypted).await?;
            timeout(HANDOVER, encrypted.shutdown()).await??;
        }
        Ok(())
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&mut self, stream: &mut S) -> io::Result<End> {
        let mut chunk = vec![0; CHUNK];
        let budget = self.door.budget.clone();
        let (patience, session, look) = (sleep(PATIENCE), sleep(SESSION), sleep(LEAST_TIME));
        tokio::pin!(patience, session, look);
        let mut came = 0;
        loop {
            let in_message = self.dialogue.in_message();
            // Whatever ends the wait comes before what has come in, and who needs room before all.
            let read = tokio::select! {
                biased;
                () = budget.pressed(), if self.slow && self.taken.is_some() => {
                    self.cut_message();
                    continue;
                }
                () = &mut look, if self.taken.is_some() => {
                    self.slow = std::mem::take(&mut came) < LEAST_BYTES;
                    look.set(sleep(LEAST_TIME));
                    continue;
                }
                () = stopped(&mut self.stop), if !in_message => Err(STOPPING),
                () = &mut patience => Err(TOO_SLOW),
                () = &mut session => Err(TOO_SLOW),
                read = stream.read(&mut chunk) => Ok(read?),
            };
            let read = match read {
                Ok(read) => read,
                Err(farewell) => {
                    send(stream, farewell).await?;
                    return Ok(End::Close);
                }
            };
            let mut input = chunk.get(..read).unwrap_or_default();
            if input.is_empty() {
                return Ok(End::Close);
            }
            if self.taken.is_none() {
                // It counts from the first piece that takes of the budget.
                (self.slow, came) = (false, 0);
                look.set(sleep(LEAST_TIME));
            }
            came += read;
            let (replies, end) = self.answer(&mut input).await;
            // Commands alone do not keep a session open.
            let progressed = in_message || self.dialogue.in_message();
            send(stream, replies.as_bytes()).await?;
            if let Some(end) = end {
                return Ok(end);
            }
            if progressed {
                patience.set(sleep(PATIENCE));
            }
        }
    }

    /// Answers all that has come in. The replies go out in one write, for pipelining (RFC 2920).
    async fn answer(&mut self, input: &mut &[u8]) -> (String, Option<End>) {
        let mut replies = String::new();
        let end = loop {
            match self.dialogue.step(input) {
                Step::NeedMore => break None,
                Step::Reply(reply) => {
                    self.tell_refusal(&reply);
                    replies.push_str(&reply);
                }
                Step::Deliver(envelope) => {
                    let logged = deliver::log(&self.door.handle, &self.door.blocking, &self.door.readers, self.peer, envelope).await;
                    let reply = Dialogue::delivered(logged);
                    self.tell_refusal(&reply);
                    replies.push_str(&reply);
                }
                Step::StartTls(reply) => {
                    replies.push_str(&reply);
                    break Some(End::StartTls);
                }
                Step::Close(reply) => {
                    replies.push_str(&reply);
                    break Some(End::Close);
                }
            }
        };
        if !self.cover_message().await {
            self.cut_message();
        }
        (replies, end)
    }

    /// Counts what was not taken, a recipient, a message, a command, and tells the log of it.
    fn tell_refusal(&self, reply: &str) {
        if !reply.starts_with(['4', '5']) {
            return;
        }
        self.door.handle.metrics().refused_mail();
        if tracing::enabled!(Level::DEBUG)
            && let Some(left_out) = REFUSED.admit(self.door.handle.now())
        {
            tracing::debug!(from = %self.peer, "refused in a mail session: {}{left_out}", reply.trim_end());
        }
    }

    /// Takes as much of the common budget as the message needs that has come so far, or gives it back. False if there is not enough.
    async fn cover_message(&mut self) -> bool {
        let held = self.dialogue.held();
        if held <= SHARE {
            self.taken = None;
            return true;
        }
        let wanted = held.next_multiple_of(BUDGET_STEP);
        let has = self.taken.as_ref().map_or(0, TakenBytes::count);
        if wanted <= has {
            return true;
        }
        let Some(more) = self.door.budget.take(wanted - has, has).await else { return false };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        true
    }

    /// Gives back what the message has of the budget. Its beginning is still a ping.
    fn cut_message(&mut self) {
        tracing::debug!(peer = %self.peer, "a mail is cut for want of room");
        self.dialogue.cut_message(SHARE);
        self.taken = None;
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    timeout(HANDOVER, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    })
    .await?
}

#[cfg(test)]
mod tests;
