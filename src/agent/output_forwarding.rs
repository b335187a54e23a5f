//! Output of a job: forwarded as it arrives, with its end kept.

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::util::sync::{Mutex, ignore_poison, lock};

/// Maximum bytes of the end of a job's output that are sent.
pub(super) const MAX_OUTPUT_BYTES: usize = 100_000;
/// Bytes that are read at once: the capacity of a pipe.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Time for which more output is read after the job has ended. A process that it started may keep
/// its output open forever.
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of reads after that. A pipe of the usual size is empty after two.
const MAX_FINAL_READS: usize = 16;

/// Pipes of a job's output, with their targets.
pub(super) struct OutputPipes(Vec<(Receiver, StandardStream)>);

/// Standard output or standard error of this process.
enum StandardStream {
    Out,
    Err,
}

impl OutputPipes {
    /// Creates pipes, and returns their ends for the job. If standard output and standard error are
    /// the same, such as a terminal or a pipe of cron, they share one pipe, so that the order is
    /// kept.
    pub(super) fn new() -> io::Result<(Self, Stdio, Stdio)> {
        let receiver = |pipe: PipeReader| Receiver::from_owned_fd(OwnedFd::from(pipe));
        let (reader, out) = io::pipe()?;
        if is_same_file(io::stdout(), io::stderr()) {
            let err = out.try_clone()?;
            return Ok((
                Self(vec![(receiver(reader)?, StandardStream::Out)]),
                out.into(),
                err.into(),
            ));
        }
        let (other, err) = io::pipe()?;
        Ok((
            Self(vec![
                (receiver(reader)?, StandardStream::Out),
                (receiver(other)?, StandardStream::Err),
            ]),
            out.into(),
            err.into(),
        ))
    }

    /// Forwards everything until the job has closed its output, or has ended and prints nothing
    /// more.
    pub(super) async fn forward(self, end: &OutputTail, ended: &watch::Receiver<bool>) {
        let mut streams = self.0.into_iter();
        let first = streams.next();
        let second = streams.next();
        let one = |stream: Option<(Receiver, StandardStream)>| async move {
            match stream {
                Some((from, StandardStream::Out)) => {
                    forward_stream(from, tokio::io::stdout(), end, ended.clone()).await;
                }
                Some((from, StandardStream::Err)) => {
                    forward_stream(from, tokio::io::stderr(), end, ended.clone()).await;
                }
                None => {}
            }
        };
        tokio::join!(one(first), one(second));
    }
}

fn is_same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let identity = |file: &dyn AsFd| {
        rustix::fs::fstat(file.as_fd())
            .map(|status| (status.st_dev, status.st_ino))
            .ok()
    };
    let one = identity(&one);
    one.is_some() && one == identity(&other)
}

async fn forward_stream(
    mut from: Receiver,
    to: impl AsyncWrite + Unpin,
    end: &OutputTail,
    mut ended: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    let mut to = Some(to);
    let mut reads_left = MAX_FINAL_READS;
    loop {
        let silence = async {
            // A dropped sender means the same.
            let _ = ended.wait_for(|ended| *ended).await;
            sleep(FINAL_OUTPUT_TIMEOUT).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read(&mut buffer) => read,
            () = silence => return,
        };
        let Ok(length @ 1..) = read else { return };
        let bytes = buffer.get(..length).unwrap_or_default();
        end.push(bytes);
        if let Some(target) = &mut to {
            let written = match target.write_all(bytes).await {
                Ok(()) => target.flush().await,
                failed => failed,
            };
            match written {
                Ok(()) => {}
                // The reader is gone. The job gets the same error as without this program.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
                // For example, a full disk. The job continues.
                Err(_) => to = None,
            }
        }
        if *ended.borrow() {
            reads_left -= 1;
            if reads_left == 0 {
                return;
            }
        }
    }
}

/// End of the output, both streams in the order in which they were read.
#[derive(Default)]
pub(super) struct OutputTail(Mutex<VecDeque<u8>>);

impl OutputTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = lock(&self.0);
        let bytes = bytes
            .get(bytes.len().saturating_sub(MAX_OUTPUT_BYTES)..)
            .unwrap_or_default();
        let excess = (tail.len() + bytes.len()).saturating_sub(MAX_OUTPUT_BYTES);
        tail.drain(..excess);
        tail.extend(bytes);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        ignore_poison(self.0.into_inner()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_is_kept() {
        for (pieces, expected) in [
            (
                vec![vec![b'a'; 10], vec![b'b'; MAX_OUTPUT_BYTES - 5]],
                [vec![b'a'; 5], vec![b'b'; MAX_OUTPUT_BYTES - 5]].concat(),
            ),
            (
                vec![vec![b'a'; 10], vec![b'b'; MAX_OUTPUT_BYTES + 5]],
                vec![b'b'; MAX_OUTPUT_BYTES],
            ),
            (vec![b"ab".to_vec(), b"\xff".to_vec()], b"ab\xff".to_vec()),
        ] {
            let end = OutputTail::default();
            pieces.iter().for_each(|piece| end.push(piece));
            assert!(end.into_bytes() == expected);
        }
    }
}
