//! Copy of the database of the leader for a machine that joins, as a stream of rows.

use std::io::BufReader;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::peer::{HANDSHAKE_TIMEOUT, PeerConnector, PeerHeader, PeerListener, PeerService};
use crate::backup;
use crate::engine::Handle;
use crate::runtime::accept::accept_connections;

/// Maximum number of machines that copy the database at the same time.
const MAX_COPIES: usize = 2;
/// Time for which neither side makes progress, after which a copy ends.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Replaces the database in the data directory by a copy of that of the leader at an address.
///
/// # Errors
/// Returns the reason, as the end of a sentence. The directory is then unchanged.
pub(super) async fn receive(
    connector: &PeerConnector,
    address: &str,
    directory: PathBuf,
) -> Result<(), String> {
    let header = PeerHeader {
        service: PeerService::Snapshot,
        client: (Ipv4Addr::LOCALHOST, 0).into(),
    };
    let mut stream = connector
        .connect(address, header, HANDSHAKE_TIMEOUT)
        .await
        .map_err(|error| error.to_string())?;
    let (reader, mut writer) = UnixStream::pair().map_err(|error| error.to_string())?;
    // The database is written by a thread that blocks.
    let receiving = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut stream, &mut writer).await;
    });
    let copying = tokio::task::spawn_blocking(move || {
        let stream = reader.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(STALL_TIMEOUT))?;
        backup::receive_copy(&directory, BufReader::new(stream))
    });
    let copied = copying.await;
    receiving.abort();
    match copied {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Sends the database to each machine that connects, until `stop` holds true.
pub(super) async fn serve(handle: Handle, listener: PeerListener, stop: watch::Receiver<bool>) {
    let serve = |(stream, _)| {
        let handle = handle.clone();
        Some(async move {
            match send(handle, stream).await {
                Ok(()) => tracing::info!("sent a copy of the database to another machine"),
                Err(reason) => {
                    tracing::warn!(
                        "a copy of the database for another machine was not completed: {reason}"
                    );
                }
            }
        })
    };
    accept_connections("copy", listener, MAX_COPIES, stop, serve).await;
}

async fn send(handle: Handle, mut stream: TcpStream) -> Result<(), String> {
    let mut chunks = backup::backup_chunks(handle, false).map_err(|error| error.to_string())?;
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        timeout(STALL_TIMEOUT, stream.write_all(&chunk))
            .await
            .map_err(|_| "the other machine does not read".to_owned())?
            .map_err(|error| error.to_string())?;
    }
    stream.shutdown().await.map_err(|error| error.to_string())
}
