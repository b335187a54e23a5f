//! Copies bytes between two connections in both directions, until both have ended.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::ready;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::runtime::accept::wait_for_stop;

/// Maximum bytes that are copied at once.
const CHUNK_BYTES: usize = 8 << 10;
/// Time for which a client may still send after the server has ended its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without bytes after which a connection that waits for its client is closed at a stop.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// Idle time after which the first probe is sent, interval of the probes, and their number. A dead
/// machine is noticed within ten seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;

/// Bytes copied between a client and a server.
#[derive(Default)]
pub(super) struct Splice {
    /// Number of chunks copied so far.
    chunks: AtomicU64,
    /// True if the last bytes came from the client, so the server is expected to answer.
    awaits_server: AtomicBool,
}

impl Splice {
    /// Copies until both sides have ended, or a side fails. After `stop` holds true, also ends when
    /// the server has answered and nothing is sent for a second.
    ///
    /// The end of one direction is passed on, and the other direction continues: without limit
    /// after the client has ended its side, for five seconds after the server has.
    pub(super) async fn run<C, S>(
        &self,
        client: &mut C,
        server: &mut S,
        stop: &mut watch::Receiver<bool>,
    ) where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let ended = tokio::select! {
            ended = self.copy(client, server) => ended,
            () = async {
                wait_for_stop(stop).await;
                self.wait_until_quiet().await;
            } => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!("a forwarded connection ended early: {error}");
        }
    }

    async fn copy<C, S>(&self, client: &mut C, server: &mut S) -> io::Result<()>
    where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut client_reader, mut client_writer) = tokio::io::split(client);
        let (mut server_reader, mut server_writer) = tokio::io::split(server);
        let to_server = async {
            loop {
                let chunk = read_chunk(&mut client_reader).await?;
                self.record(true);
                // If the server reads nothing further, its last answer may still be on the way.
                if chunk.is_empty() || server_writer.write_all(&chunk).await.is_err() {
                    break;
                }
            }
            let _ = server_writer.shutdown().await;
            io::Result::Ok(())
        };
        let to_client = async {
            loop {
                let chunk = read_chunk(&mut server_reader).await?;
                self.record(false);
                if chunk.is_empty() {
                    break;
                }
                client_writer.write_all(&chunk).await?;
            }
            client_writer.shutdown().await
        };
        tokio::pin!(to_server, to_client);
        tokio::select! {
            ended = &mut to_server => {
                ended?;
                to_client.await
            }
            ended = &mut to_client => {
                ended?;
                // The result makes no difference: nothing more is answered.
                let _ = timeout(CLOSE_TIMEOUT, to_server).await;
                Ok(())
            }
        }
    }

    fn record(&self, is_from_client: bool) {
        self.awaits_server.store(is_from_client, Ordering::Relaxed);
        self.chunks.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the server has answered and nothing has been sent for [`QUIET_TIME`].
    async fn wait_until_quiet(&self) {
        loop {
            let before = self.chunks.load(Ordering::Relaxed);
            sleep(QUIET_TIME).await;
            let is_quiet = self.chunks.load(Ordering::Relaxed) == before;
            if is_quiet && !self.awaits_server.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Reads the next bytes; none at the end. Holds no buffer while it waits, because most connections
/// wait most of the time.
async fn read_chunk(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    std::future::poll_fn(|context| {
        let mut bytes = [MaybeUninit::uninit(); CHUNK_BYTES];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut *reader).poll_read(context, &mut buffer))?;
        Ok(buffer.filled().to_vec()).into()
    })
    .await
}

/// Makes the kernel notice a dead machine at the other end of an idle connection within ten
/// seconds.
pub(super) fn set_keepalive(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!("cannot enable keepalive of a connection between machines: {error}");
    }
}
