//! What was read is handed over to whoever holds the database: logs as they are read, then things, then the word that shows all of it.

use std::collections::HashMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use tokio::runtime::Runtime;
use uuid::Uuid;

use super::super::Failure;
use super::super::data::as_owner;
use crate::admin::import::ImportRequest;
use crate::admin::{Reply, Request, Session};
use crate::clock::Clock;
use crate::domain::adopted::ForeignSecret;
use crate::domain::ids::CheckId;
use crate::domain::imported::{Imported, ImportedFlip, ImportedPing};
use crate::domain::moment::Moment;
use crate::domain::project::BadgeSecret;
use crate::domain::staged::{StagedCounts, StagedFlip, StagedPing};
use crate::engine::apply::{MOST_BODY_BYTES, MOST_ENTRIES};
use crate::engine::command::stage::Lost;
use crate::import::staged::{self, StagedFlipRow, StagedPingRow, StagedRow};
use crate::import::{Entry, flip_order, numbering};
use crate::random::Random;

/// About how many bytes of pings are held until they are sent, to be sorted: see [limits](crate::docs::limits).
const HELD_BYTES: usize = 12 << 20;
/// About how many bytes a ping takes without its body.
const PING_BYTES: usize = 192;
/// Pings that go in one request. They are few, since many requests follow each other at once, and the pings of others wait for each.
const PINGS_AT_ONCE: usize = 64;
/// Bytes of bodies that go in one request, unless one body is longer.
const BODY_BYTES: usize = 256 << 10;
/// Bytes of things that go in one request: in JSON each may take six, and a request has 2 MiB.
const OBJECT_BYTES: usize = 256 << 10;
/// Things that go in one request.
const MOST_OBJECTS: usize = 500;

/// An import that is being handed over. It is abandoned if it does not get to its end.
pub(super) struct Handover {
    runtime: Runtime,
    session: Session,
    import: u64,
    /// The numbers that checks get.
    checks: HashMap<Uuid, CheckId>,
    /// That are to be sent, and about how many bytes they take.
    pings: Vec<StagedPing>,
    bytes: usize,
    /// In order.
    next_flips: Vec<StagedFlipRow>,
    /// With their numbers in the source, to be sorted: those of a check go in order.
    flips: Vec<(CheckId, i64, ImportedFlip)>,
    counts: StagedCounts,
    /// Why nothing more is handed over.
    failure: Option<Failure>,
    is_over: bool,
}

/// How it ends.
pub(super) struct Ending {
    pub(super) live: bool,
    /// The latest moment in the source.
    pub(super) newest: Option<Moment>,
    /// Those of old servers, by which hashed keys are known.
    pub(super) secrets: Vec<ForeignSecret>,
    /// What signed badge URLs there.
    pub(super) signing: Option<BadgeSecret>,
    pub(super) replace: bool,
    pub(super) yes: bool,
}

/// Finds whoever holds the database of this directory; makes one if there is none.
pub(super) fn open(directory: &Path) -> Result<(Runtime, Session), Failure> {
    let _owner = as_owner(directory)?;
    let runtime = runtime()?;
    let session = runtime.block_on(Session::open(directory, true)).map_err(Failure::other)?;
    Ok((runtime, session))
}

/// Finds the server that runs on this directory; `None`: none does.
pub(super) fn server(directory: &Path) -> Result<Option<(Runtime, Session)>, Failure> {
    let _owner = as_owner(directory)?;
    let runtime = runtime()?;
    let session = runtime.block_on(Session::with_server(directory)).map_err(Failure::other)?;
    Ok(session.map(|session| (runtime, session)))
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::other)
}

impl Handover {
    /// Begins with whoever holds the database.
    pub(super) fn begin((runtime, session): (Runtime, Session), imported: &Imported) -> Result<Self, Failure> {
        let checks = imported.projects.iter().map(|project| project.checks.len() as u64).sum();
        let mut handover = Self {
            runtime,
            session,
            import: 0,
            checks: HashMap::new(),
            pings: Vec::new(),
            bytes: 0,
            next_flips: Vec::new(),
            flips: Vec::new(),
            counts: StagedCounts::default(),
            failure: None,
            is_over: true,
        };
        match handover.ask(ImportRequest::Begin { ids: numbering::count(imported), checks })? {
            Reply::ImportBegun(import) => (handover.import, handover.is_over) = (import, false),
            _ => return Err(unexpected()),
        }
        handover.checks = numbering::checks(imported, handover.import);
        Ok(handover)
    }

    /// Takes an entry of a log. After a break [`objects`](Self::objects) says why.
    pub(super) fn take(&mut self, entry: Entry) -> ControlFlow<()> {
        let taken = match entry {
            Entry::Ping(ping) => self.ping(ping),
            Entry::NextFlip(flip) => self.next_flip(flip),
            Entry::Flip(flip, number) => {
                let place = self.checks.get(&flip.check).map(|check| (*check, number, flip));
                self.flips.extend(place);
                Ok(())
            }
        };
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn next_flip(&mut self, ImportedFlip { check, flip }: ImportedFlip) -> Result<(), Failure> {
        let Some(check) = self.checks.get(&check).copied() else { return Ok(()) };
        self.counts.flips += 1;
        self.next_flips.push(StagedFlip { check, flip }.into());
        if self.next_flips.len() < MOST_ENTRIES { Ok(()) } else { self.send_next_flips() }
    }

    fn send_next_flips(&mut self) -> Result<(), Failure> {
        let (import, flips) = (self.import, std::mem::take(&mut self.next_flips));
        if flips.is_empty() { Ok(()) } else { self.done(ImportRequest::Log { import, pings: Vec::new(), flips }) }
    }

    fn ping(&mut self, ping: ImportedPing) -> Result<(), Failure> {
        let Some(check) = self.checks.get(&ping.check).copied() else { return Ok(()) };
        if ping.body.len() > MOST_BODY_BYTES {
            return self.send_long(ping.of(check));
        }
        self.bytes += PING_BYTES + ping.body.len();
        self.counts.pings += 1;
        self.pings.push(ping.of(check));
        if self.bytes >= HELD_BYTES { self.send_pings() } else { Ok(()) }
    }

    /// Sends those of one check after each other. They lie together in the database, so that a request changes few pages of it.
    fn send_pings(&mut self) -> Result<(), Failure> {
        let mut pings = std::mem::take(&mut self.pings);
        self.bytes = 0;
        pings.sort_unstable_by_key(|ping| (ping.check, ping.n));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for ping in pings {
            if rows.len() >= PINGS_AT_ONCE || bytes > 0 && bytes + ping.body.len() > BODY_BYTES {
                self.send_rows(std::mem::take(&mut rows))?;
                bytes = 0;
            }
            bytes += ping.body.len();
            rows.push(ping.into());
        }
        if rows.is_empty() { Ok(()) } else { self.send_rows(rows) }
    }

    fn send_rows(&mut self, pings: Vec<StagedPingRow>) -> Result<(), Failure> {
        self.done(ImportRequest::Log { import: self.import, pings, flips: Vec::new() })
    }

    /// Hands over a ping whose body is too long for a request: that goes before it, in parts.
    fn send_long(&mut self, mut ping: StagedPing) -> Result<(), Failure> {
        self.counts.pings += 1;
        let body = std::mem::take(&mut ping.body);
        let request = ImportRequest::LongPing { import: self.import, ping: ping.into(), bytes: body.len() };
        match self.ask_with(request, body.into())? {
            Reply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    fn send_flips(&mut self) -> Result<(), Failure> {
        let mut flips = std::mem::take(&mut self.flips);
        flip_order::sort(&mut flips, Clock::System.now());
        self.counts.flips += flips.len() as u64;
        let import = self.import;
        for flips in flips.chunks(MOST_ENTRIES) {
            let flips = flips.iter().map(|(check, .., flip)| StagedFlipRow::from(StagedFlip { check: *check, flip: flip.flip }));
            self.done(ImportRequest::Log { import, pings: Vec::new(), flips: flips.collect() })?;
        }
        Ok(())
    }

    /// Hands over all but the logs, which have been taken.
    pub(super) fn objects(&mut self, imported: Imported) -> Result<(), Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.send_pings()?;
        self.send_next_flips()?;
        self.send_flips()?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for staged in numbering::staged(imported, self.import, &Random::System) {
            self.counts.count(&staged);
            bytes += staged.bytes();
            rows.push(StagedRow::from(staged));
            if bytes >= OBJECT_BYTES || rows.len() >= MOST_OBJECTS {
                self.send_objects(std::mem::take(&mut rows))?;
                bytes = 0;
            }
        }
        if rows.is_empty() { Ok(()) } else { self.send_objects(rows) }
    }

    fn send_objects(&mut self, objects: Vec<StagedRow>) -> Result<(), Failure> {
        self.done(ImportRequest::Objects { import: self.import, objects })
    }

    fn end(&self, ending: &Ending, look: bool, replace: bool) -> ImportRequest {
        let secrets = ending.secrets.iter().map(|secret| secret.as_str().to_owned()).collect();
        let signing = ending.signing.map(|BadgeSecret(secret)| staged::text(&secret));
        let (import, live, newest, expected) = (self.import, ending.live, ending.newest.map(Moment::micros), self.counts.into());
        ImportRequest::Finish { look, import, live, newest, secrets, signing, expected, replace }
    }

    /// What it would come to if all of it were shown: as of [`finish`](Self::finish).
    pub(super) fn look(&mut self, ending: &Ending) -> Result<(usize, Lost), Failure> {
        match self.ask(self.end(ending, true, true))? {
            Reply::Imported(replaced, checks, pings) => Ok((replaced, Lost { checks, pings })),
            _ => Err(unexpected()),
        }
    }

    /// Has all of it shown; of how many projects it took the place, and what was done in these and is lost.
    pub(super) fn finish(&mut self, ending: &Ending) -> Result<(usize, Lost), Failure> {
        let mut reply = self.ask(self.end(ending, false, false))?;
        if let Reply::Touched(which) = reply {
            if !ending.replace {
                return Err(needs_replace(&which));
            }
            if !ending.yes && !confirmed(&which)? {
                return Err(Failure::other("nothing was imported"));
            }
            reply = self.ask(self.end(ending, false, true))?;
        }
        match reply {
            Reply::Imported(replaced, checks, pings) => {
                self.is_over = true;
                Ok((replaced, Lost { checks, pings }))
            }
            _ => Err(unexpected()),
        }
    }

    /// The empty project that a first start has made, if there is one.
    pub(super) fn has_empty_default(&mut self) -> bool {
        let listed = self.runtime.block_on(self.session.ask(Request::ListProjects {}));
        matches!(listed, Ok(Reply::Projects(rows)) if rows.iter().any(|row| row.name == "default" && row.checks == 0))
    }

    fn done(&mut self, request: ImportRequest) -> Result<(), Failure> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    fn ask(&mut self, request: ImportRequest) -> Result<Reply, Failure> {
        self.ask_with(request, Vec::new())
    }

    fn ask_with(&mut self, request: ImportRequest, document: Vec<u8>) -> Result<Reply, Failure> {
        let nothing = "nothing was imported";
        match self.runtime.block_on(self.session.ask_with(Request::Import(request), document)) {
            Ok(Reply::Refused(reason) | Reply::Invalid(reason)) => Err(Failure::other(format!("{reason}\n{nothing}"))),
            Ok(reply) => Ok(reply),
            Err(error) => Err(Failure::other(error)),
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if !self.is_over {
            // Otherwise whoever holds the database ends it when the connection does, or at the next start.
            let _ = self.ask(ImportRequest::Abandon { import: self.import });
        }
    }
}

fn unexpected() -> Failure {
    Failure::other("the server answered something else than what was asked")
}

/// Refuses to lose what was done here.
pub(super) fn needs_replace(which: &impl std::fmt::Display) -> Failure {
    Failure::other(format!("{which}; --replace does it nevertheless, and what was done and logged here is lost"))
}

/// Asks on the terminal whether that is meant.
fn confirmed(which: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{which}: if what was done and logged here is to be lost, add --yes")));
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{which}. What was done and logged here is lost. Go on? [y/N] ");
    asked.and_then(|()| io::stdin().lock().read_line(&mut answer)).map_err(Failure::other)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
