//! Server fixture in the process of a benchmark: engine and HTTP server on a free port, with the
//! database in a file on disk.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use indicatif::ProgressBar;
use overdue::domain::project::{KeyLabel, KeySecret, PingKey, ProjectName, SecretHash};
use overdue::engine::command::{Command, CommandOutcome, NewKey, NewProject};
use overdue::engine::{self, Handle};
use overdue::http;
use overdue::http::dashboard;
use overdue::runtime::blocking_threads::BlockingThreads;
use overdue::runtime::runtime_threads::RuntimeThreads;
use overdue::store::Medium;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::driver::{self, Endpoint, LoadPlan, Request, Result, StopCondition};

/// Maximum number of checks that a benchmark may create.
const MAX_CHECKS: u32 = 10_000_000;

/// Directory on a disk; the system's temporary directory may be in memory.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

/// A running server with one project.
pub(crate) struct ServerFixture {
    pub(crate) endpoint: Endpoint,
    pub(crate) ping_key: String,
    pub(crate) api_key: String,
    // In the order in which they must be dropped.
    _stop: watch::Sender<bool>,
    _runtime: Runtime,
    _directory: TempDir,
}

impl ServerFixture {
    /// Starts the server, with this number of checks that were pinged once.
    pub(crate) fn open(checks: u64) -> Result<Self> {
        let directory = TempDir::with_prefix_in("bench-", DIRECTORY)?;
        let medium = Medium::Directory(directory.path().into());
        let (handle, writer) = engine::open(engine::EngineConfig::new(medium, 100_000))?;
        std::thread::spawn(|| writer.run());
        let runtime = Runtime::new()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let base = format!("http://{}", listener.local_addr()?);
        let blocking = Arc::new(BlockingThreads::start(4)?);
        let config = http::HttpConfig {
            base_url: base.parse()?,
            trusted_proxies: Vec::new(),
            site_name: "overdue".into(),
            api_rate: http::ApiRate::UNLIMITED,
            dashboard: dashboard::DashboardConfig::new(dashboard::AuthMode::None),
            connections_per_address: usize::MAX,
            access_log: false,
            metrics_token: None,
            instance: None,
            other_endpoints: None,
        };
        let (stop, stopped) = watch::channel(false);
        let threads = Arc::new(RuntimeThreads::start(
            "connections",
            available_parallelism()?.get(),
            &handle,
        )?);
        runtime.spawn(
            http::HttpServer::new(handle.clone(), blocking, config)
                .serve(listener, None, threads, stopped),
        );
        let (ping_key, api_key) = runtime.block_on(project(&handle))?;
        let fixture = Self {
            endpoint: base.parse()?,
            ping_key,
            api_key,
            _stop: stop,
            _runtime: runtime,
            _directory: directory,
        };
        fixture.time(
            &Request::ping(&fixture.endpoint, &fixture.ping_key, checks, true),
            64,
            checks,
        )?;
        Ok(fixture)
    }

    /// Sends this number of requests, each connection its next after a response; returns the
    /// duration.
    pub(crate) fn time(
        &self,
        request: &Request,
        connections: usize,
        count: u64,
    ) -> Result<Duration> {
        let plan = LoadPlan {
            endpoint: &self.endpoint,
            request,
            connections,
            threads: 1,
            rate: None,
            until: StopCondition::Count(count),
        };
        let run = driver::run(&plan, &ProgressBar::hidden())?;
        if run.failed() == 0 {
            Ok(run.took)
        } else {
            Err(format!("{:?}, {} without answer", run.statuses, run.lost).into())
        }
    }
}

/// Creates a project; returns its ping key and its API key.
async fn project(handle: &Handle) -> Result<(String, String)> {
    let random = handle.random();
    let project = NewProject {
        uuid: random.uuid(),
        name: ProjectName::parse("bench")?,
        // Pings create the checks. Without an explicit limit they create 10,000.
        check_limit: Some(MAX_CHECKS),
        ping_log_limit: 100,
        badge_key: random.url_safe::<22>().into(),
    };
    let made = handle
        .call(Command::CreateProject(Box::new(project)))
        .await
        .map_err(|error| format!("{error:?}"))?;
    let Ok(CommandOutcome::Project(project)) = made else {
        return Err(format!("no project: {made:?}").into());
    };
    let ping_key = random.url_safe::<22>();
    let api_key = random.url_safe::<32>();
    let hash = SecretHash(Sha256::digest(api_key.as_bytes()).into());
    for secret in [
        KeySecret::Ping(PingKey::parse(&ping_key).ok_or("not a ping key")?),
        KeySecret::ReadWrite(hash),
    ] {
        let key = NewKey {
            project: project.id,
            secret,
            label: KeyLabel::default(),
            hint: "".into(),
        };
        let made = handle
            .call(Command::CreateKey(Box::new(key)))
            .await
            .map_err(|error| format!("{error:?}"))?;
        made.map_err(|refusal| format!("no key: {refusal:?}"))?;
    }
    Ok((ping_key, api_key))
}
