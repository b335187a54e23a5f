//! Figures of the system about a server's process and files; restarts of the server.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use super::median;
use crate::driver::Result;
use crate::server_process::{MeasuredServer, serve, wait_until_ready};

/// Clock ticks in a second, in which the system reports processor time (USER_HZ).
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;

impl MeasuredServer {
    /// Returns the bytes of its resident memory.
    pub(super) fn resident_bytes(&self) -> Result<f64> {
        Ok(number_after(
            &fs::read_to_string(format!("/proc/{}/status", self.child.id()))?,
            "VmRSS:",
        )? * 1024.0)
    }

    /// Returns the processor time that it has used, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The text before is the program's name in parentheses, which may contain anything.
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(str::parse::<f64>)
            .sum::<std::result::Result<f64, _>>()?;
        Ok(ticks / CLOCK_TICKS_PER_SECOND)
    }

    /// Returns the bytes that the disk of its directory has written since the system started, for
    /// all processes.
    ///
    /// `write_bytes` of `/proc/PID/io` would count a large folio for each page of 4 KiB in it.
    pub(super) fn written_bytes(&self) -> Result<f64> {
        const SECTOR_BYTES: f64 = 512.0;
        let device = fs::metadata(self.directory.path())?.dev();
        let path = format!(
            "/sys/dev/block/{}:{}/stat",
            rustix::fs::major(device),
            rustix::fs::minor(device)
        );
        let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let sectors = stat
            .split_whitespace()
            .nth(6)
            .ok_or_else(|| format!("{path} is too short"))?;
        Ok(sectors.parse::<f64>()? * SECTOR_BYTES)
    }

    /// Returns the bytes of its database file.
    pub(super) fn database_bytes(&self) -> Result<f64> {
        Ok(fs::metadata(self.directory.path().join("overdue.redb"))?.len() as f64)
    }

    /// Starts it again once it has ended; returns the time until a ping was answered.
    pub(super) fn restart(&mut self) -> Result<Duration> {
        self.restart_with(&[])
    }

    /// Starts it again with further flags.
    pub(super) fn restart_with(&mut self, flags: &[&str]) -> Result<Duration> {
        let start = Instant::now();
        self.child = serve(&self.binary, self.directory.path(), &self.endpoint, flags)?;
        wait_until_ready(
            &mut self.child,
            &self.endpoint,
            &format!("/ping/{}/load-0000000", self.ping_key),
        )?;
        Ok(start.elapsed())
    }
}

/// Interval at which a running command is examined.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until a command has ended successfully; returns its seconds, and its peak memory.
pub(super) fn wait_for_command(mut command: Child, name: &str) -> Result<(f64, f64)> {
    let start = Instant::now();
    let status_file = format!("/proc/{}/status", command.id());
    let mut most = 0.0;
    let status: ExitStatus = loop {
        // The file has no value for an ended process.
        most = fs::read_to_string(&status_file)
            .ok()
            .and_then(|text| number_after(&text, "VmHWM:").ok())
            .map_or(most, |kib| kib * 1024.0);
        match command.try_wait()? {
            Some(status) => break status,
            None => std::thread::park_timeout(POLL_INTERVAL),
        }
    };
    if status.success() {
        Ok((start.elapsed().as_secs_f64(), most))
    } else {
        Err(format!("`overdue {name}` ended with {status}").into())
    }
}

/// Returns the number after a label.
fn number_after(text: &str, label: &str) -> Result<f64> {
    let rest = text
        .split(label)
        .nth(1)
        .ok_or_else(|| format!("/proc does not say {}", label.trim()))?;
    Ok(rest.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Returns the median time in which this disk makes a changed page durable.
pub(super) fn median_fdatasync(directory: &Path) -> Result<Duration> {
    const PAGE: [u8; 4096] = [b'x'; 4096];
    const PAGES: u64 = 256;
    let path = directory.join("fdatasync");
    let mut file = File::create(&path)?;
    (0..PAGES).try_for_each(|_| file.write_all(&PAGE))?;
    file.sync_all()?;
    let mut times = Vec::new();
    for page in 0..PAGES {
        file.seek(SeekFrom::Start(page * 4096))?;
        file.write_all(&PAGE)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64());
    }
    fs::remove_file(&path)?;
    Ok(Duration::from_secs_f64(median(times)))
}
