//! Runs the binary: as a command that ends, and as a server that the test waits for.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Maximum time of each step, on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The binary, without our environment.
pub fn overdue(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdue"));
    command.args(words).env_clear().stdin(Stdio::null());
    command
}

/// Result of a command.
pub struct ProcessOutput {
    pub status: i32,
    pub out: String,
    pub err: String,
}

pub fn run(command: &mut Command) -> ProcessOutput {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    ProcessOutput {
        status: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{name} {process}"))
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Runs an administrative command on a data directory. Returns its output.
pub fn admin(data: &Path, words: &[&str]) -> String {
    let done = run(overdue(words).arg("--data").arg(data));
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
    done.out.trim_end().to_owned()
}

/// A temporary directory, and the path of the data directory that a server creates in it.
pub fn temp_data_directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::Builder::new()
        .prefix("overdue")
        .tempdir()
        .unwrap();
    let data = directory.path().join("data");
    (directory, data)
}

/// A server that has logged its address. It is killed when it is dropped.
pub struct ServerProcess {
    child: Child,
    lines: Receiver<String>,
    /// Log lines that were read so far.
    pub log: Vec<String>,
    pub address: SocketAddr,
}

impl ServerProcess {
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub fn start_with(data: &Path, words: &[&str]) -> Self {
        Self::spawn(
            overdue(&["serve", "--listen", "127.0.0.1:0"])
                .arg("--data")
                .arg(data)
                .args(words),
        )
    }

    /// Starts a server with this command.
    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_until(command, "listening for HTTP")
    }

    /// Starts a server with this command, and waits for the log line with its address.
    pub fn spawn_until(command: &mut Command, part: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let mut server = Self {
            child,
            lines,
            log: Vec::new(),
            address: ([127, 0, 0, 1], 0).into(),
        };
        let line = server.wait_for(part);
        server.address = line.split("address=").nth(1).unwrap().parse().unwrap();
        server
    }

    /// Waits for a log line that contains `part`.
    pub fn wait_for(&mut self, part: &str) -> String {
        loop {
            match self.lines.recv_timeout(WAIT_TIMEOUT) {
                Ok(line) => self.log.push(line.clone()),
                Err(_) => panic!("no {part:?} in the log:\n{}", self.log.join("\n")),
            }
            if let Some(line) = self.log.last().filter(|line| line.contains(part)) {
                return line.clone();
            }
        }
    }

    /// Returns the log lines that were written so far.
    pub fn lines_so_far(&mut self) -> String {
        while let Ok(line) = self.lines.try_recv() {
            self.log.push(line);
        }
        self.log.join("\n")
    }

    /// Waits for a log line that contains `part`, which may have been read before.
    pub fn find_or_wait_for(&mut self, part: &str) -> String {
        let known_line = self.log.iter().find(|line| line.contains(part)).cloned();
        known_line.unwrap_or_else(|| self.wait_for(part))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id()))
            .unwrap()
            .count()
    }

    /// Returns the peak memory in bytes.
    #[cfg(target_os = "linux")]
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process. The log is complete then.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        // The log ends with the process.
        while let Ok(line) = self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.log.push(line);
        }
        assert!(Instant::now() < deadline, "the process did not end");
        self.child.wait().unwrap()
    }

    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0), "{}", self.log.join("\n"));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number of times that a test kills its server, unless `OVERDUE_KILLS` sets another one.
pub fn kill_count(default: u32) -> u32 {
    std::env::var("OVERDUE_KILLS").map_or(default, |count| count.parse().unwrap())
}
