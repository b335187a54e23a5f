//! Cost of a regression here: every ping and every change by the API waits for the one writer and
//! its sync. The cost of a batch limits the rate of a large installation.
#![allow(
    clippy::expect_used,
    reason = "a benchmark stops when it cannot measure"
)]

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::ProjectName;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{
    CheckUuids, Command, CreateCheckRequest, NewProject, PingRequest, PingSignal, PingTarget,
};
use overdue::engine::{self, EngineConfig, Handle, Writer};
use overdue::metrics::Metrics;
use overdue::store::Medium;
use tempfile::TempDir;
use uuid::Uuid;

const CHECKS: u128 = 10_000;
/// Bytes of the body of every ping.
const BODY: usize = 100;

/// Directory on a disk; the system's temporary directory may be in memory.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

/// A writer without a thread, on a file of its own.
struct WriterFixture {
    handle: Handle,
    writer: Writer,
    next: u128,
    body: Bytes,
    _directory: TempDir,
}

impl WriterFixture {
    /// Opens it, with every check created and pinged once.
    fn open() -> Self {
        let directory = TempDir::with_prefix_in("bench-", DIRECTORY).expect("a directory");
        let medium = Medium::Directory(directory.path().into());
        let (handle, writer) =
            engine::open(EngineConfig::new(medium, 100_000)).expect("a database");
        let mut fixture = Self {
            handle,
            writer,
            next: 0,
            body: vec![b'x'; BODY].into(),
            _directory: directory,
        };
        let name = ProjectName::parse("bench").expect("a name");
        let uuid = Uuid::from_u128(1);
        let badge_key = "bench".into();
        let project = NewProject {
            uuid,
            name,
            check_limit: None,
            ping_log_limit: 100,
            badge_key,
        };
        fixture.run_batch([Command::CreateProject(Box::new(project))]);
        for thousand in 0..CHECKS / 1000 {
            fixture.run_batch((thousand * 1000..(thousand + 1) * 1000).map(create));
        }
        fixture.ping_batch(CHECKS as usize / 2);
        fixture.ping_batch(CHECKS as usize / 2);
        fixture
    }

    /// Runs commands in one batch.
    fn run_batch(&mut self, commands: impl IntoIterator<Item = Command>) {
        let answers: Vec<_> = commands
            .into_iter()
            .map(|command| self.handle.submit(command).expect("room"))
            .collect();
        self.writer.step(false).expect("a writer");
        for mut answer in answers {
            answer
                .try_recv()
                .expect("an answer")
                .expect("a sound disk")
                .expect("a command without fault");
        }
    }

    /// Pings checks in all parts of the database, in one batch.
    fn ping_batch(&mut self, count: usize) {
        let remote_addr = IpAddr::from([127, 0, 0, 1]);
        let pings: Vec<_> = (0..count)
            .map(|_| {
                // A prime step visits every check.
                self.next = (self.next + 7919) % CHECKS;
                let origin = PingOrigin {
                    scheme: PingScheme::Http,
                    method: PingMethod::Post,
                    remote_addr: Some(remote_addr),
                    user_agent: "curl/8.14.1".into(),
                };
                let target = PingTarget::Uuid(Uuid::from_u128(self.next));
                let signal = PingSignal::Http(PingKind::Success);
                Command::Ping(Box::new(PingRequest {
                    target,
                    signal,
                    origin,
                    rid: None,
                    body: self.body.clone(),
                }))
            })
            .collect();
        self.run_batch(pings);
    }
}

fn create(number: u128) -> Command {
    let names = CheckUuids {
        uuid: Uuid::from_u128(number),
        badge: Uuid::from_u128(number + CHECKS),
    };
    Command::CreateCheck(Box::new(CreateCheckRequest {
        project: ProjectId(1),
        edit: CheckEdit::default(),
        unique: Vec::new(),
        uuids: names,
    }))
}

/// Measures the time from the queue to the reply after fsync, housekeeping included.
fn batches(criterion: &mut Criterion) {
    let mut fixture = WriterFixture::open();
    let mut group = criterion.benchmark_group("writer, 10,000 checks, file with fsync");
    group.sample_size(20);
    for count in [1, 64, 256] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} pings a commit"), |bencher| {
            bencher.iter(|| fixture.ping_batch(count));
        });
    }
    group.finish();
}

/// Measures the share of counting: the kind and the origin of each ping, the size and the time of
/// the commit.
fn counting(criterion: &mut Criterion) {
    let metrics = Metrics::new(Timestamp::default());
    let mut group = criterion.benchmark_group("metrics");
    for count in [1, 64, 256] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(
            format!("{count} pings of a commit are counted"),
            |bencher| {
                bencher.iter(|| {
                    metrics.record_pings(std::iter::repeat_n(
                        (PingKind::Success, PingScheme::Http),
                        black_box(count),
                    ));
                    metrics.record_commit(black_box(count), black_box(Duration::from_micros(900)));
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, batches, counting);
criterion_main!(benches);
