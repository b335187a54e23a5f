//! World of a soak: an engine with its files, the model of its checks, and the passing of time.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use overdue::backup;
use overdue::channels;
use overdue::domain::alert::{AlertEvent, OutboxRow};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check::Check;
use overdue::domain::ids::ProjectId;
use overdue::domain::project::ChannelName;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandOutcome, DeliveryReport, NewChannel, SendOutcome};
use overdue::engine::{Handle, HousekeepingLimits};
use overdue::store::Medium;
use overdue::util::clock::ManualClock;
use overdue::util::random::Random;
use tempfile::TempDir;
use uuid::Uuid;

use super::SoakSize;
use super::figures::directory_bytes;
use super::import::replace_by_export;
use super::jobs::{Jobs, TICK, is_verbose, schedule_of};
use super::model::{FlipCounts, ModelCheck, body_of};
use crate::support::commands::{create_check, create_project, ping};
use crate::support::engine::{TestEngine, open};
use crate::support::seeded_rng::SeededRng;

/// 2027-03-22, at midnight. The clocks of Europe go forward six days later.
const START: i64 = 1_805_673_600;
/// Number of checks in a project.
const CHECKS_PER_PROJECT: usize = 1000;
/// Minimum number of projects.
const MIN_PROJECTS: usize = 3;
/// Maximum number of commands in a batch.
const BATCH_COMMANDS: usize = 2000;
/// Maximum number of steps until the writer has no work.
const MAX_STEPS: usize = 100_000;
/// Bodies above this length are stored in chunks of half of it.
const LONG_BODY_BYTES: usize = 32 << 10;
/// Full months before the current one for which the server keeps flips.
const FLIP_MONTHS: i64 = 2;

/// Numbers of events so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SoakCounts {
    pub(super) pings: u64,
    pub(super) long_bodies: u64,
    pub(super) flips: FlipCounts,
    pub(super) down_alerts: u64,
    pub(super) up_alerts: u64,
    pub(super) deletions: u64,
    pub(super) imports: u64,
    pub(super) backups: u64,
    /// Comparisons of a check with its model.
    pub(super) comparisons: u64,
}

pub(super) struct SoakWorld {
    engine: TestEngine,
    data: TempDir,
    /// For exports and backups.
    files: TempDir,
    rng: SeededRng,
    now: i64,
    ping_log_limit: u64,
    projects: Vec<Uuid>,
    /// Current check of each slot.
    checks: Vec<ModelCheck>,
    jobs: Jobs,
    last_uuid: u128,
    pub(super) counts: SoakCounts,
}

impl SoakWorld {
    pub(super) fn new(size: SoakSize) -> Self {
        let data = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_secs(START));
        let engine = open_engine(data.path(), &clock);
        let mut world = Self {
            engine,
            data,
            files: tempfile::tempdir().unwrap(),
            rng: SeededRng::seeded(1),
            now: START,
            // The logs of daily jobs are full before the second quarter.
            ping_log_limit: (size.days / 5).clamp(3, 50),
            projects: Vec::new(),
            checks: Vec::new(),
            jobs: Jobs::default(),
            last_uuid: 1000,
            counts: SoakCounts::default(),
        };
        let projects = MIN_PROJECTS.max(size.checks / CHECKS_PER_PROJECT);
        (0..projects).for_each(|number| world.create_project(number));
        let slots: Vec<_> = (0..size.checks).collect();
        for some in slots.chunks(BATCH_COMMANDS) {
            let (checks, commands): (Vec<_>, Vec<_>) =
                some.iter().map(|slot| world.new_check(*slot)).unzip();
            let answers = world.engine.batch(commands);
            assert!(answers.iter().all(|answer| matches!(answer, Ok(Ok(_)))));
            world.checks.extend(checks);
        }
        world
    }

    fn create_project(&mut self, number: usize) {
        let random = self.engine.handle.random().clone();
        let limit = self.ping_log_limit as u32;
        let command = create_project(&random, &format!("project {number}"), limit);
        let CommandOutcome::Project(project) = self.engine.execute(command) else {
            panic!("no project")
        };
        let settings = ChannelSettings::parse(
            channels::find_kind("webhook").unwrap(),
            [
                ("down-url", "http://a.example/"),
                ("up-url", "http://a.example/"),
            ],
        );
        let channel = NewChannel {
            uuid: random.uuid(),
            project: project.id,
            name: ChannelName::parse("hook").unwrap(),
            settings: settings.unwrap(),
            set_by_operator: true,
        };
        self.engine
            .execute(Command::CreateChannel(Box::new(channel)));
        self.projects.push(project.uuid);
    }

    /// Begins a job in a slot. Returns its check and the command that creates it.
    fn new_check(&mut self, slot: usize) -> (ModelCheck, Command) {
        self.last_uuid += 1;
        let uuid = self.last_uuid;
        let project = slot % self.projects.len();
        let (schedule, grace) = schedule_of(slot);
        let command = create_check(self.project_id(project), uuid, schedule.settings(grace));
        self.jobs.begin(slot, uuid, self.now, &self.rng);
        (ModelCheck::new(uuid, project, schedule, grace), command)
    }

    /// Number of a project. An import changes it.
    fn project_id(&self, number: usize) -> ProjectId {
        let uuid = self.projects[number];
        self.engine.handle.with_state(|state| {
            let mut projects = state.projects().map(|of| &of.project);
            let project = projects.find(|project| project.uuid == uuid);
            project.expect("the project exists").id
        })
    }

    /// Lets a day pass.
    pub(super) fn pass_day(&mut self) {
        for _ in 0..super::model::DAY / TICK {
            self.now += TICK;
            self.engine.clock.set(Timestamp::from_secs(self.now));
            self.send_pings();
            self.settle();
            self.deliver_alerts();
        }
    }

    /// Sends the pings that are due, long ones alone.
    fn send_pings(&mut self) {
        let checks = &self.checks;
        let due = self
            .jobs
            .take_due(self.now, |slot| checks[slot].uuid, &self.rng);
        let mut commands = Vec::new();
        let mut long_commands = Vec::new();
        for (slot, kind) in due {
            let check = &mut self.checks[slot];
            check.ping(kind, self.now, &mut self.counts.flips);
            let body = body_of(check.uuid, check.n_pings, is_verbose(slot));
            self.counts.pings += 1;
            self.counts.long_bodies += u64::from(body.len() > LONG_BODY_BYTES);
            let command = ping(check.uuid, kind, body);
            if is_verbose(slot) {
                long_commands.push(command);
            } else {
                commands.push(command);
            }
        }
        let mut commands = commands.into_iter().peekable();
        while commands.peek().is_some() {
            let batch: Vec<_> = commands.by_ref().take(BATCH_COMMANDS).collect();
            for answer in self.engine.batch(batch) {
                assert_eq!(answer, Ok(Ok(CommandOutcome::Pinged)));
            }
        }
        for command in long_commands {
            assert_eq!(self.engine.execute(command), CommandOutcome::Pinged);
        }
    }

    /// Runs the writer until it has no work.
    fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            assert_eq!(self.engine.writer.step(false), Ok(true));
            if self.engine.writer.is_idle() {
                return;
            }
        }
        panic!("the writer still has work after {MAX_STEPS} steps");
    }

    /// Delivers all alerts, and counts them.
    fn deliver_alerts(&mut self) {
        let waiting: Vec<Arc<OutboxRow>> = self
            .engine
            .handle
            .with_state(|state| state.outbox.rows().cloned().collect());
        if waiting.is_empty() {
            return;
        }
        let rows = waiting.iter().map(|row| row.number).collect();
        self.engine.execute(Command::StartAttempts {
            rows,
            last_row: None,
        });
        let report = |row: &Arc<OutboxRow>| DeliveryReport {
            channel: row.channel,
            sent_to: None,
            rows: vec![row.number],
            merged_into: None,
            result: SendOutcome::Delivered,
            status: 200,
            recipients: None,
        };
        let reports = waiting.iter().map(report).collect();
        self.engine.execute(Command::RecordDeliveryReports(reports));
        let count = |event| waiting.iter().filter(|row| row.event == event).count() as u64;
        self.counts.down_alerts += count(AlertEvent::Down);
        self.counts.up_alerts += count(AlertEvent::Up);
        self.settle();
    }

    /// Deletes some checks, and creates as many.
    pub(super) fn replace_checks(&mut self) {
        for _ in 0..(self.checks.len() / 500).max(1) {
            let slot = self.rng.below(self.checks.len() as u64) as usize;
            self.checks[slot].wait_until(self.now, &mut self.counts.flips);
            let id = read_check(&self.engine.handle, &self.checks[slot]).id;
            let (check, command) = self.new_check(slot);
            for answer in self.engine.batch([Command::DeleteCheck(id), command]) {
                assert!(matches!(answer, Ok(Ok(_))), "{answer:?}");
            }
            self.checks[slot] = check;
            self.counts.deletions += 1;
        }
        self.settle();
    }

    /// Replaces a project by its export, and compares all of its checks.
    pub(super) fn import_project(&mut self) {
        let project = self.counts.imports as usize % self.projects.len();
        let id = self.project_id(project);
        let file = self.files.path().join("export.jsonl");
        replace_by_export(&mut self.engine, id, &file);
        self.settle();
        self.counts.imports += 1;
        let slots = (0..self.checks.len()).filter(|slot| self.checks[*slot].project == project);
        self.compare(slots.collect());
    }

    fn backup_file(&self) -> PathBuf {
        self.files.path().join("backup")
    }

    /// Makes a backup and verifies it. Returns its bytes.
    pub(super) fn back_up(&mut self) -> u64 {
        let path = self.backup_file();
        let mut file = BufWriter::new(File::create(&path).unwrap());
        backup::write_backup(&self.engine.handle, &mut file).unwrap();
        file.flush().unwrap();
        let file = BufReader::new(File::open(&path).unwrap());
        let (_, report) = backup::inspect(file).unwrap();
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
        self.counts.backups += 1;
        std::fs::metadata(&path).unwrap().len()
    }

    /// Compares a random sample with the model.
    pub(super) fn compare_sample(&mut self) {
        let len = self.checks.len();
        let slots = (0..(len / 50).max(20)).map(|_| self.rng.below(len as u64) as usize);
        self.compare(slots.collect());
    }

    /// Compares all checks with the model.
    pub(super) fn compare_all(&mut self) {
        self.compare((0..self.checks.len()).collect());
        let check_count = self.engine.handle.with_state(|state| state.check_count());
        assert_eq!(check_count, self.checks.len(), "number of checks");
    }

    fn compare(&mut self, slots: Vec<usize>) {
        self.update_model();
        for slot in slots {
            compare(&self.engine.handle, self, slot);
            self.counts.comparisons += 1;
        }
        let alerts = (self.counts.down_alerts, self.counts.up_alerts);
        let flips = (self.counts.flips.down, self.counts.flips.up_again);
        assert_eq!(alerts, flips, "alerts of flips to down and to up");
    }

    /// Applies passed deadlines to the model, and forgets flips that the server may have removed.
    fn update_model(&mut self) {
        let kept_from = Timestamp::from_secs(self.now).start_of_month(FLIP_MONTHS);
        for check in &mut self.checks {
            check.wait_until(self.now, &mut self.counts.flips);
            check.forget_flips_before(kept_from.secs());
        }
    }

    /// Opens a restored backup, and compares all checks in it.
    pub(super) fn compare_restored_backup(&mut self) {
        self.back_up();
        let directory = tempfile::tempdir().unwrap();
        let backup = BufReader::new(File::open(self.backup_file()).unwrap());
        backup::restore(directory.path(), false, backup, &Random::seeded(2)).unwrap();
        let restored = open_engine(directory.path(), &self.engine.clock);
        for slot in 0..self.checks.len() {
            compare(&restored.handle, self, slot);
        }
    }

    /// Bytes of the files of the database.
    pub(super) fn file_bytes(&self) -> u64 {
        directory_bytes(self.data.path())
    }
}

fn open_engine(directory: &Path, clock: &Arc<ManualClock>) -> TestEngine {
    let (handle, writer) = open(Medium::Directory(directory.into()), clock, |config| {
        config.housekeeping = HousekeepingLimits {
            upload_threshold_bytes: LONG_BODY_BYTES,
            chunk_bytes: LONG_BODY_BYTES / 2,
            ..HousekeepingLimits::default()
        };
    })
    .unwrap();
    TestEngine {
        handle,
        writer,
        clock: Arc::clone(clock),
    }
}

fn read_check(handle: &Handle, expected: &ModelCheck) -> Check {
    let uuid = Uuid::from_u128(expected.uuid);
    let check = handle.with_state(|state| state.check_by_uuid(uuid).cloned());
    check.unwrap_or_else(|| panic!("check {uuid} is missing"))
}

/// Compares the answers about the check in a slot with its model.
fn compare(handle: &Handle, world: &SoakWorld, slot: usize) {
    let expected = &world.checks[slot];
    let check = read_check(handle, expected);
    let in_micros = |at: Option<Timestamp>| at.map(Timestamp::micros);
    let micros = |secs: i64| secs * 1_000_000;
    assert_eq!(
        (
            check.state.status,
            check.state.n_pings,
            in_micros(check.state.last_ping),
            in_micros(check.state.run.map(|run| run.start)),
        ),
        (
            expected.status,
            expected.n_pings,
            expected.last_ping.map(micros),
            expected.run.map(micros),
        ),
        "status, pings, last ping and run of slot {slot}: {expected:?}"
    );
    let kept_from = Timestamp::from_secs(world.now).start_of_month(FLIP_MONTHS);
    let flips: Vec<_> = handle
        .flips(&check, kept_from)
        .unwrap()
        .iter()
        .rev()
        .map(|flip| (flip.at.micros(), flip.from, flip.to, flip.cause))
        .collect();
    let expected_flips: Vec<_> = expected
        .flips
        .iter()
        .map(|flip| (micros(flip.at), flip.from, flip.to, flip.cause))
        .collect();
    assert_eq!(flips, expected_flips, "flips of slot {slot}: {expected:?}");
    let pings = handle.pings(&check).unwrap();
    assert_eq!(
        pings.len() as u64,
        expected.n_pings.min(world.ping_log_limit),
        "listed pings of slot {slot}"
    );
    for ping in pings.iter().take(1).chain(pings.last()) {
        let body = handle.body(&check, ping.n).unwrap().unwrap_or_default();
        assert!(
            body == body_of(expected.uuid, ping.n, is_verbose(slot)),
            "body {} of slot {slot}",
            ping.n
        );
    }
}
