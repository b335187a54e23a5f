//! The bytes of a connection on their way: whoever was refused while it was still sending is let finish, so that it reads why.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How long what a refused client still sends is read and dropped.
const LINGER_TIME: Duration = Duration::from_secs(2);
/// How many bytes of it.
const LINGER_BYTES: usize = 10 << 20;

/// Reads and drops what still comes, within limits, when the last answer has been sent.
///
/// If a socket is closed with bytes in it that nobody has read, the system resets the connection, and the client loses the answer that it
/// has not read yet (RFC 9112, section 9.6).
pub(super) async fn linger(stream: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = vec![0; 16 << 10];
    let mut left = LINGER_BYTES;
    let reading = async {
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    };
    // It was told to stop. Whether it did makes no difference any more.
    let _ = tokio::time::timeout(LINGER_TIME, reading).await;
}
