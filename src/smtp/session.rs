//! One connection: carries bytes between the socket and the dialogue, and watches the time and the room that it takes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use super::dialogue::{Dialogue, Step, Tls};
use super::{Inner, deliver, stopped};

/// A whole command, or the next piece of a message, has to come within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// A session has to end within this time; a message that is complete by then is logged and answered.
const SESSION: Duration = Duration::from_secs(1_800);
/// Replies have to be taken, and a TLS handshake done, within this time.
const HANDOVER: Duration = Duration::from_secs(30);
/// Bytes read at once.
const CHUNK: usize = 16_384;
/// Bytes of a message that need no room of the common one.
const SHARE: usize = 65_536;
/// Bytes of common room taken at once.
const ROOM_STEP: usize = 1_048_576;

const TOO_SLOW: &[u8] = b"421 4.4.2 Too slow\r\n";
const STOPPING: &[u8] = b"421 4.3.2 The service is stopping\r\n";

/// How a conversation ended.
enum End {
    Close,
    StartTls,
}

/// Speaks with a sender until either has had enough.
pub(super) async fn run(mut stream: TcpStream, peer: IpAddr, door: Arc<Inner>, stop: watch::Receiver<bool>) {
    let tls = if door.config.certificate.is_some() { Tls::Offered } else { Tls::None };
    let dialogue = Dialogue::new(door.config.domain.clone(), tls);
    let mut session = Session { dialogue, peer, door, stop, room: None };
    // What goes wrong on a connection concerns that connection only.
    if let Err(error) = session.speak(&mut stream).await {
        tracing::debug!(%peer, %error, "mail session broken off");
    }
}

struct Session {
    dialogue: Dialogue,
    peer: IpAddr,
    door: Arc<Inner>,
    stop: watch::Receiver<bool>,
    /// The common room that the message coming in takes.
    room: Option<OwnedSemaphorePermit>,
}

impl Session {
    async fn speak(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        // Replies are short and waited for; without this each may wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        send(stream, self.dialogue.greeting().as_bytes()).await?;
        if let End::StartTls = self.converse(stream).await?
            && let Some(certificate) = self.door.config.certificate.clone()
        {
            let mut encrypted = timeout(HANDOVER, certificate.0.accept(stream)).await??;
            self.converse(&mut encrypted).await?;
            timeout(HANDOVER, encrypted.shutdown()).await??;
        }
        Ok(())
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&mut self, stream: &mut S) -> io::Result<End> {
        let mut chunk = vec![0; CHUNK];
        let (patience, session) = (sleep(PATIENCE), sleep(SESSION));
        tokio::pin!(patience, session);
        loop {
            let in_message = self.dialogue.in_message();
            let read = tokio::select! {
                read = stream.read(&mut chunk) => Ok(read?),
                () = stopped(&mut self.stop), if !in_message => Err(STOPPING),
                () = &mut patience => Err(TOO_SLOW),
                () = &mut session => Err(TOO_SLOW),
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
            let (replies, end) = self.answer(&mut input).await;
            let progressed = !replies.is_empty() || self.dialogue.in_message();
            send(stream, replies.as_bytes()).await?;
            if let Some(end) = end {
                return Ok(end);
            }
            if progressed {
                patience.set(sleep(PATIENCE));
            }
        }
    }

    /// Answers what has come in, all of it with one write, as pipelining wants it (RFC 2920).
    async fn answer(&mut self, input: &mut &[u8]) -> (String, Option<End>) {
        let mut replies = String::new();
        let end = loop {
            match self.dialogue.step(input) {
                Step::NeedMore => break None,
                Step::Reply(reply) => replies.push_str(&reply),
                Step::Deliver(envelope) => {
                    let logged = deliver::log(&self.door.handle, self.peer, envelope).await;
                    replies.push_str(&Dialogue::delivered(logged));
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
        if !self.make_room(self.dialogue.held()) {
            self.dialogue.refuse_message();
        }
        (replies, end)
    }

    /// Takes or gives back common room for a message of so many bytes; false when there is none.
    fn make_room(&mut self, held: usize) -> bool {
        if held <= SHARE {
            self.room = None;
            return true;
        }
        let has = self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if held <= has {
            return true;
        }
        // A step is far below 4 Gi, and messages end at 32 MiB.
        let wants = (held - has).next_multiple_of(ROOM_STEP) as u32;
        match Arc::clone(&self.door.room).try_acquire_many_owned(wants) {
            Ok(more) => {
                match &mut self.room {
                    Some(room) => room.merge(more),
                    None => self.room = Some(more),
                }
                true
            }
            Err(_) => {
                self.room = None;
                false
            }
        }
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
