//! The log goes to standard error through a thread of its own: whoever reads it slowly, or not at all, holds up nobody who logs.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::level_filters::LevelFilter;

/// Lines that wait to be written; more are dropped.
const WAITING: usize = 1024;
/// How long the end of the process waits for what has been logged.
const PATIENCE: Duration = Duration::from_millis(500);

enum Message {
    Line(Vec<u8>),
    /// Say so when all lines before it are written.
    Written(SyncSender<()>),
}

/// Writes what was logged when it is dropped, as far as somebody takes it.
pub(super) struct Log(SyncSender<Message>);

impl Log {
    /// Begins to log at this level.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn begin(level: LevelFilter) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::Builder::new().name("log".into()).spawn(move || write(&receiver))?;
        let lines = Lines(sender.clone());
        // What cannot be logged is not: a closed standard error must not end the service.
        let log = tracing_subscriber::fmt().with_max_level(level).with_writer(move || lines.clone()).log_internal_errors(false);
        log.with_ansi(io::stderr().is_terminal()).with_target(false).init();
        Ok(Self(sender))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (tell, written) = sync_channel(1);
        if self.0.try_send(Message::Written(tell)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let _ = io::stderr().write_all(&line);
            }
            Message::Written(tell) => {
                let _ = tell.send(());
            }
        }
    }
}

/// Takes lines, each in one write.
#[derive(Clone)]
struct Lines(SyncSender<Message>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
