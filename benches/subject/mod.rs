//! The server that is measured: the release binary as a child process with a database of its own.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::driver::{Endpoint, Result};

/// The binary that `cargo bench` has built.
const BINARY: &str = env!("CARGO_BIN_EXE_overdue");
/// Databases lie here unless another directory is asked for; a disk, where the system's directory for temporary files may be memory.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is asked whether it has.
const GLANCE: Duration = Duration::from_micros(200);

/// A server and the keys to it. It is killed, and its database removed, when this is dropped.
pub(crate) struct Subject {
    directory: TempDir,
    child: Child,
    /// Where it answers.
    pub(crate) endpoint: Endpoint,
    /// A read-write key of the project `default`.
    pub(crate) api_key: String,
    /// A ping key of the same.
    pub(crate) ping_key: String,
}

impl Subject {
    /// A server on an empty database somewhere in `directory`.
    pub(crate) fn start(directory: Option<&Path>) -> Result<Self> {
        let directory = TempDir::with_prefix_in("bench-", directory.unwrap_or(Path::new(DIRECTORY)))?;
        let (child, endpoint) = spawn(directory.path())?;
        let mut subject = Self { directory, child, endpoint, api_key: String::new(), ping_key: String::new() };
        subject.wait_until_ready()?;
        subject.api_key = subject.key("read-write")?;
        subject.ping_key = subject.key("ping")?;
        Ok(subject)
    }

    fn key(&self, access: &str) -> Result<String> {
        let words = ["key", "create", "--project", "default", "--access", access, "--data"];
        let made = Command::new(BINARY).args(words).arg(self.directory.path()).stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(format!("`overdue key create` failed: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    /// Returns when a request is answered.
    fn wait_until_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if TcpStream::connect(self.endpoint.address()).is_ok() && self.endpoint.call("GET", "/healthz", &[], "")?.0 == 200 {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("`overdue serve` ended with {status}").into());
            }
            if begun.elapsed() > PATIENCE {
                return Err("`overdue serve` does not answer".into());
            }
            std::thread::park_timeout(GLANCE);
        }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).ok_or("a process without an id")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("`overdue serve` ended with {status} after SIGTERM").into()) }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a free port.
fn spawn(data: &Path) -> Result<(Child, Endpoint)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut serve = Command::new(BINARY);
    serve.args(["serve", "--api-rate", "0", "--listen", &address, "--data"]).arg(data);
    let child = serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok((child, format!("http://{address}").parse()?))
}
