//! Measured server: the release binary as a child process with a database of its own.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::driver::{Endpoint, Result};

/// Root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Default directory of databases. It is on a disk; the system's temporary directory may be in
/// memory.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");
/// Time in which a server must start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between two attempts to reach it.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A server and its keys. It is killed, and its database removed, when this is dropped.
pub(crate) struct MeasuredServer {
    /// Program file.
    pub(crate) binary: PathBuf,
    /// Directory of the database.
    pub(crate) directory: TempDir,
    /// Process of the server.
    pub(crate) child: Child,
    /// Endpoint at which it answers.
    pub(crate) endpoint: Endpoint,
    /// Read-write key of the project `default`.
    pub(crate) api_key: String,
    /// Ping key of that project.
    pub(crate) ping_key: String,
}

impl MeasuredServer {
    /// Starts a server on an empty database below `directory`: the given binary, or the one that is
    /// built.
    pub(crate) fn start(directory: Option<&Path>, server: Option<&Path>) -> Result<Self> {
        let directory =
            TempDir::with_prefix_in("bench-", directory.unwrap_or(Path::new(DIRECTORY)))?;
        let endpoint = free_endpoint()?;
        let binary = server.map_or_else(build_server, |server| Ok(server.to_owned()))?;
        let child = serve(&binary, directory.path(), &endpoint, &[])?;
        let mut server = Self {
            binary,
            directory,
            child,
            endpoint,
            api_key: String::new(),
            ping_key: String::new(),
        };
        wait_until_ready(&mut server.child, &server.endpoint, "/healthz")?;
        // Pings create the checks. Without an explicit limit they create 10,000.
        server.run(&["project", "set", "default", "--check-limit", "10000000"])?;
        server.api_key = server.run(&[
            "key",
            "create",
            "--project",
            "default",
            "--access",
            "read-write",
        ])?;
        server.ping_key =
            server.run(&["key", "create", "--project", "default", "--access", "ping"])?;
        Ok(server)
    }

    /// Runs a command on its database, and returns the output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let done = Command::new(&self.binary)
            .args(words)
            .arg("--data")
            .arg(self.directory.path())
            .stdin(Stdio::null())
            .output()?;
        if !done.status.success() {
            return Err(format!(
                "`overdue {}` failed: {}",
                words.join(" "),
                String::from_utf8_lossy(&done.stderr)
            )
            .into());
        }
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    /// Requests a stop, and waits for its end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let pid =
            Pid::from_raw(i32::try_from(self.child.id())?).ok_or("a process without an id")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`overdue serve` ended with {status} after SIGTERM").into())
        }
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the server as `cargo build --release` does, but in `target/bench`, because
/// `target/release` is for installation. Without a measurement the binary that the tests have built
/// suffices, if there is one, even if it is older than the sources.
fn build_server() -> Result<PathBuf> {
    let target = Path::new(DIRECTORY).parent().ok_or("no target directory")?;
    let (target, profile) = if cfg!(debug_assertions) {
        (target.to_owned(), "debug")
    } else {
        (target.join("bench"), "release")
    };
    let binary = target.join(profile).join("overdue");
    // Tests and benchmarks enable features of dependencies that a build of the binary alone does
    // not, so it would compile most of them again.
    if cfg!(debug_assertions) && binary.exists() {
        return Ok(binary);
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "overdue",
            "--bin",
            "overdue",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(ROOT);
    if profile == "release" {
        build.arg("--release");
    }
    let status = build.stdin(Stdio::null()).status()?;
    if status.success() {
        Ok(binary)
    } else {
        Err("the server cannot be built".into())
    }
}

/// Returns a free address.
pub(crate) fn free_endpoint() -> Result<Endpoint> {
    Ok(format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?).parse()?)
}

/// Starts a server on this database.
pub(crate) fn serve(
    binary: &Path,
    data: &Path,
    endpoint: &Endpoint,
    flags: &[&str],
) -> Result<Child> {
    let mut serve = Command::new(binary);
    serve
        .args([
            "serve",
            "--api-rate",
            "0",
            "--listen",
            &endpoint.address().to_string(),
            "--data",
        ])
        .arg(data)
        .args(flags);
    Ok(serve
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?)
}

/// Waits until a GET of this path is answered with 200.
pub(crate) fn wait_until_ready(child: &mut Child, endpoint: &Endpoint, path: &str) -> Result<()> {
    let start_time = Instant::now();
    loop {
        if TcpStream::connect(endpoint.address()).is_ok() {
            match endpoint.call("GET", path, &[], "")?.status {
                200 => return Ok(()),
                503 => {}
                other => return Err(format!("a server that starts answered {other}").into()),
            }
        }
        if let Some(status) = child.try_wait()? {
            return Err(format!("the server ended with {status}").into());
        }
        if start_time.elapsed() > START_TIMEOUT {
            return Err("the server does not answer".into());
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}
