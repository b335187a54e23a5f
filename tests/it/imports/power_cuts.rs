//! Power cuts at every point of an import. After a restart, the visible state is the one before or
//! after the commit of an import, never one between them. Unfinished imports are removed from the
//! file.
//!
//! `OVERDUE_SEED=<seed> cargo test --test it imports::power_cuts` repeats one simulation;
//! `OVERDUE_SIMULATIONS=<count>` sets their number.

use std::collections::{BTreeMap, BTreeSet};

use overdue::engine::command::Unavailable;
use redb::{ReadableDatabase as _, TableDefinition};

use super::*;
use crate::support::seeded_rng::SeededRng;

const SCENARIO_COUNT: u64 = 25;
const IMPORTS: u64 = 25;
const WITNESS: u128 = 7;

/// Visible state of each project, by its first line, which begins with its UUID.
type VisibleProjects = BTreeMap<String, Vec<String>>;

fn visible_projects(engine: &TestEngine) -> VisibleProjects {
    let mut all = VisibleProjects::new();
    let mut last = String::new();
    for line in visible_state(engine) {
        if line
            .split(' ')
            .next()
            .is_some_and(|word| word.parse::<Uuid>().is_ok())
        {
            last = line.clone();
        }
        all.entry(last[..36].to_owned()).or_default().push(line);
    }
    all
}

/// Visible state of a source once it is imported.
fn visible_after_import(source: &ImportFixture, mode: ImportMode) -> VisibleProjects {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    source.import(&mut engine, mode).unwrap();
    visible_projects(&engine)
}

#[derive(Default, Debug)]
struct PowerCutCounts {
    cuts: u32,
    cut_at_the_end: u32,
    finished: u32,
    replaced: u32,
    abandoned: u32,
    in_pieces: u32,
}

struct PowerCutWorld {
    dice: SeededRng,
    disk: Disk,
    thresholds: HousekeepingLimits,
    engine: Option<TestEngine>,
    /// Expected visible state of imported projects.
    visible: VisibleProjects,
    /// Pings of the witness that were answered, and whether one more may be stored.
    pings: u64,
    in_doubt: bool,
    tally: PowerCutCounts,
}

/// A power cut: the result of the last command is unknown.
struct PowerLost;

impl PowerCutWorld {
    fn new(seed: u64) -> Self {
        let dice = SeededRng::seeded(seed);
        let disk = Disk::default();
        let slice = dice.pick(&[1, 4, 64]);
        // Also with bodies in chunks.
        let (large, piece) = dice.pick(&[(256 << 10, 1 << 20), (4, 2)]);
        let thresholds = HousekeepingLimits {
            slice_rows: slice,
            checkpoint_bytes: dice.pick(&[1, 1 << 20]),
            upload_threshold_bytes: large,
            chunk_bytes: piece,
            ..HousekeepingLimits::default()
        };
        let mut engine = TestEngine::open(disk.medium(), thresholds);
        engine.create_project(1000);
        engine.create_check(WITNESS);
        let visible = VisibleProjects::new();
        let tally = PowerCutCounts::default();
        Self {
            dice,
            disk,
            thresholds,
            engine: Some(engine),
            visible,
            pings: 0,
            in_doubt: false,
            tally,
        }
    }

    fn engine(&mut self) -> &mut TestEngine {
        self.engine.as_mut().unwrap()
    }

    /// A source of one of three projects, different each time.
    fn source(&self) -> ImportFixture {
        let project = u128::from(self.dice.below(3));
        let statuses = [Status::New, Status::Up, Status::Down, Status::Paused];
        let checks = (0..u128::from(self.dice.below(4))).map(|number| {
            let mut check = imported_check(100 * (project + 1) + number, self.dice.pick(&statuses));
            check.settings.grace =
                overdue::domain::number::Seconds::parse(60 + self.dice.below(1000) as i64).unwrap();
            check
        });
        let name = ["a", "b", "c"][project as usize];
        let pings = self.dice.below(8);
        ImportFixture {
            uuid: 500 + project,
            name,
            key: 1 + project as u8,
            channel: 900 + project,
            checks: checks.collect(),
            pings,
        }
    }

    /// Executes one step of an import together with a ping. The power may fail.
    fn step(&mut self, command: ImportStep) -> Result<CommandOutcome, PowerLost> {
        if self.dice.chance(12) {
            self.disk.lose_power_after(self.dice.below(20) as u32);
        }
        let pings = self.dice.below(2);
        let commands = (0..pings)
            .map(|_| ping(WITNESS, PingKind::Success, ""))
            .chain([stage(command)]);
        let commands: Vec<_> = commands.collect();
        let mut answers = self.engine().batch(commands);
        match answers.pop().unwrap() {
            Ok(answer) => {
                self.pings += pings;
                Ok(answer.unwrap_or_else(|refusal| panic!("{refusal:?}")))
            }
            Err(Unavailable::StorageFailed) => {
                self.in_doubt = pings > 0;
                Err(PowerLost)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Runs one import. Returns the expected visible state after its commit, if the commit was
    /// sent.
    fn import(&mut self) -> Result<(), (PowerLost, Option<VisibleProjects>)> {
        let before = |power| (power, None);
        let source = self.source();
        let first = match self
            .step(ImportStep::Begin {
                object_count: source.number_count(),
                check_count: source.checks.len() as u64,
            })
            .map_err(before)?
        {
            CommandOutcome::Import(ImportStepOutcome::Begun(ImportId(first))) => first,
            outcome => panic!("{outcome:?}"),
        };
        let import = ImportId(first);
        let (pings, flips) = source.logs(first);
        for pings in pings.chunks(1 + self.dice.below(9) as usize) {
            self.step(ImportStep::Log {
                import,
                pings: pings.to_vec(),
                flips: Vec::new(),
            })
            .map_err(before)?;
        }
        self.step(ImportStep::Log {
            import,
            pings: Vec::new(),
            flips,
        })
        .map_err(before)?;
        for objects in source
            .objects(first)
            .chunks(1 + self.dice.below(5) as usize)
        {
            self.step(ImportStep::Items {
                import,
                objects: objects.to_vec(),
            })
            .map_err(before)?;
        }
        match self.dice.below(10) {
            0 => {
                self.tally.abandoned += 1;
                self.step(ImportStep::Abandon { import }).map_err(before)?;
            }
            // The client has gone away.
            1 => self.engine().clock.advance_secs(0),
            _ => {
                let mode = self.dice.pick(&[ImportMode::Trial, LIVE]);
                let mut after = self.visible.clone();
                after.extend(visible_after_import(&source, mode));
                let finish = {
                    let expected = source.counts(first);
                    let replace = self.dice.chance(50);
                    ImportStep::Finish {
                        import,
                        options: ImportFinishOptions {
                            mode,
                            legacy_secrets: Vec::new(),
                            badge_secret: None,
                            expected_counts: expected,
                            replace,
                        },
                    }
                };
                match self
                    .step(finish)
                    .map_err(|power| (power, Some(after.clone())))?
                {
                    CommandOutcome::Import(ImportStepOutcome::Finished { replaced, .. }) => {
                        self.tally.replaced += replaced as u32;
                    }
                    outcome => panic!("{outcome:?}"),
                }
                self.tally.finished += 1;
                self.visible = after;
            }
        }
        Ok(())
    }

    fn visible_imports(&mut self) -> VisibleProjects {
        let mut found = visible_projects(self.engine());
        found.retain(|uuid, _| {
            (500..503).any(|project| Uuid::from_u128(project).to_string() == *uuid)
        });
        found
    }

    /// Stops the engine, drops unsynced writes if the power has failed, and starts it again.
    fn restart(&mut self) {
        self.engine = None;
        self.disk.power_on(&self.dice);
        self.engine = Some(TestEngine::open(self.disk.medium(), self.thresholds));
        assert!(
            self.engine()
                .handle
                .with_state(|state| state.imports.is_empty())
        );
        let n = check_by_uuid(self.engine(), WITNESS).state.n_pings;
        assert!(
            n == self.pings || self.in_doubt && n > self.pings,
            "{n} pings, {} were answered",
            self.pings
        );
        (self.pings, self.in_doubt) = (n, false);
    }

    /// Checks that nothing in the logs belongs to an invisible check.
    fn expect_nothing_left(&mut self) {
        // Far more steps than there are rows.
        (0..600).for_each(|_| assert_eq!(self.engine().writer.step(false), Ok(true)));
        let checks: BTreeSet<u64> = self
            .engine()
            .handle
            .with_state(|state| state.checks().map(|check| check.id.0).collect());
        self.engine = None;
        let database = redb::Builder::new()
            .create_with_backend(self.disk.database())
            .unwrap();
        let transaction = database.begin_read().unwrap();
        let kept = transaction
            .open_table(TableDefinition::<(u64, u64), &[u8]>::new("kept_pings"))
            .unwrap();
        let kept: BTreeSet<u64> = redb::ReadableTable::iter(&kept)
            .unwrap()
            .map(|row| row.unwrap().0.value().0)
            .collect();
        let bodies = transaction
            .open_table(TableDefinition::<(u64, u64), &[u8]>::new("kept_bodies"))
            .unwrap();
        let bodies: BTreeSet<u64> = redb::ReadableTable::iter(&bodies)
            .unwrap()
            .map(|row| row.unwrap().0.value().0)
            .collect();
        drop((transaction, database));
        let [in_pieces, referring, unreferred] = super::long_bodies::chunk_count(&self.disk);
        assert_eq!((unreferred, in_pieces > 0), (0, referring > 0));
        self.tally.in_pieces += referring as u32;
        let store = Store::open(&self.disk.medium()).unwrap();
        let flips = store
            .snapshot()
            .unwrap()
            .flips_after(FlipNumber(0))
            .unwrap()
            .map(|flip| flip.unwrap().1.check.0);
        let left = |of: &mut dyn Iterator<Item = u64>| {
            of.filter(|id| !checks.contains(id))
                .collect::<BTreeSet<u64>>()
        };
        let left = [
            left(&mut flips.into_iter()),
            left(&mut kept.into_iter()),
            left(&mut bodies.into_iter()),
        ];
        assert_eq!(
            left,
            [const { BTreeSet::new() }; 3],
            "deleted checks with remaining flips, pings and bodies"
        );
        drop(store);
        self.engine = Some(TestEngine::open(self.disk.medium(), self.thresholds));
    }
}

fn run_scenario(seed: u64) -> PowerCutCounts {
    let mut world = PowerCutWorld::new(seed);
    for _ in 0..IMPORTS {
        // Unfinished imports take the slots of others.
        if world
            .engine()
            .handle
            .with_state(|state| state.imports.len())
            >= 3
            || world.dice.chance(10)
        {
            world.restart();
        }
        if let Err((PowerLost, after)) = world.import() {
            world.tally.cuts += 1;
            world.restart();
            let found = world.visible_imports();
            if let Some(after) = after.filter(|after| *after == found) {
                world.tally.cut_at_the_end += 1;
                world.visible = after;
            }
        }
        let found = world.visible_imports();
        assert_eq!(found, world.visible);
        if world.dice.chance(20) {
            world.restart();
            world.expect_nothing_left();
            assert_eq!(world.visible_imports(), world.visible);
        }
    }
    world.restart();
    world.expect_nothing_left();
    world.tally
}

#[test]
fn an_import_is_visible_completely_or_not_at_all_after_any_power_cut() {
    let variable = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seeds = match variable("OVERDUE_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=variable("OVERDUE_SIMULATIONS").unwrap_or(SCENARIO_COUNT),
    };
    let mut total = PowerCutCounts::default();
    for seed in seeds.clone() {
        let result = std::panic::catch_unwind(|| run_scenario(seed));
        let tally = result.unwrap_or_else(|_| {
            panic!("seed {seed}: OVERDUE_SEED={seed} cargo test --test it imports::power_cuts")
        });
        total.cuts += tally.cuts;
        total.cut_at_the_end += tally.cut_at_the_end;
        total.finished += tally.finished;
        total.replaced += tally.replaced;
        total.abandoned += tally.abandoned;
        total.in_pieces += tally.in_pieces;
    }
    println!("{total:?}");
    let counts = [
        total.cuts,
        total.cut_at_the_end,
        total.finished,
        total.replaced,
        total.abandoned,
        total.in_pieces,
    ];
    assert!(
        counts.iter().all(|count| *count > 0) || seeds.count() < SCENARIO_COUNT as usize,
        "too little has happened: {total:?}"
    );
}
