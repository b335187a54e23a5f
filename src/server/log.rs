//! Log to standard error through a thread of its own, so that a slow reader never blocks a thread
//! that logs.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Maximum number of lines that wait to be written; more are dropped.
const MAX_QUEUED_LINES: usize = 1024;
/// Time for which the end of the process waits for the queued lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

enum LogMessage {
    Line(Vec<u8>),
    /// Requests a reply when all lines before it are written.
    Flush(SyncSender<()>),
}

/// Writer of the log. When it is dropped, it writes the queued lines as far as there is a reader.
pub(super) struct LogGuard(SyncSender<LogMessage>);

/// Format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people. Omits times under systemd's journal, which has its own.
    Text,
    /// For programs: a JSON object on each line.
    Json,
}

impl LogGuard {
    /// Starts logging at this level.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(level: LevelFilter, format: LogFormat) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_messages(&receiver))?;
        let lines = LogWriter(sender.clone());
        // A log error is ignored: a closed standard error must not end the service.
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || lines.clone())
            .log_internal_errors(false);
        let log = log.with_ansi(io::stderr().is_terminal()).with_target(false);
        // The library for HTTP/2 logs each frame.
        let filter = Targets::new()
            .with_default(level)
            .with_target("h2", level.min(LevelFilter::WARN));
        match format {
            LogFormat::Json => {
                let log = log.json().flatten_event(true).with_ansi(false);
                log.finish().with(filter).init();
            }
            LogFormat::Text if is_journal(std::env::var_os("JOURNAL_STREAM").as_deref()) => {
                log.without_time().finish().with(filter).init();
            }
            LogFormat::Text => log.finish().with(filter).init(),
        }
        Ok(Self(sender))
    }
}

/// True if standard error is the stream that systemd has connected to its journal (systemd.exec(5):
/// `JOURNAL_STREAM` is `DEVICE:INODE`).
fn is_journal(stream: Option<&OsStr>) -> bool {
    let Ok(metadata) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    let numbers = stream
        .and_then(OsStr::to_str)
        .and_then(|stream| stream.split_once(':'));
    let numbers = numbers.and_then(|(device, inode)| {
        Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?))
    });
    #[allow(
        clippy::useless_conversion,
        reason = "these numbers have other types on other systems"
    )]
    let actual = u64::try_from(metadata.st_dev)
        .ok()
        .zip(u64::try_from(metadata.st_ino).ok());
    numbers.is_some() && numbers == actual
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (sender, written) = sync_channel(1);
        if self.0.try_send(LogMessage::Flush(sender)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn write_messages(messages: &Receiver<LogMessage>) {
    for message in messages {
        match message {
            LogMessage::Line(line) => {
                let _ = io::stderr().write_all(&line);
            }
            LogMessage::Flush(sender) => {
                let _ = sender.send(());
            }
        }
    }
}

/// Queue of lines, each written in one call.
#[derive(Clone)]
struct LogWriter(SyncSender<LogMessage>);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(LogMessage::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
