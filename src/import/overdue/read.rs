//! An export read twice: first all of it is looked at, then its logs are handed over. What was cut or altered is refused by the first
//! reading, and by the second if that happened meanwhile.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::line::{self, EndRow, HeadRow, Line, MOST_LINE, OtherRow};
use crate::domain::adopted::ForeignSecret;
use crate::domain::imported::{Imported, ImportedFlip, ImportedProject, ImportedSecret};
use crate::domain::moment::Moment;
use crate::domain::ping::LONGEST_BODY;
use crate::domain::project::{BadgeSecret, Secret};
use crate::domain::staged::{Staged, StagedFlip, StagedPing};
use crate::import::report::{LateRow, Remarks, Report, Tally, What};
use crate::import::staged::bytes;
use crate::import::{Chosen, Entry, Progress, source};
use crate::random::Random;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// What a line holds; a ping with all of its body.
enum Item {
    Signing(BadgeSecret),
    Secret(ForeignSecret),
    Thing(Staged),
    Flip(StagedFlip),
    Ping(StagedPing),
}

/// An export that has been looked at.
pub struct Reading {
    name: String,
    file: File,
    things: Things,
    /// The checksum in its end: another file that took its place meanwhile has another.
    sum: String,
}

impl Reading {
    /// Reads a file, or standard input for `-`, to its end. `chosen`: the projects that are asked for; none: all, and users.
    ///
    /// # Errors
    /// When it cannot be read, is not what was written, or lacks what was asked for; the message names the line.
    pub fn begin(path: &Path, chosen: &[Chosen], random: &Random, tell: &mut dyn FnMut(Progress)) -> Result<Self, String> {
        let (name, mut file) = source::rereadable(path, random)?;
        let mut things = Things::new(chosen);
        let read = pass(&mut file, &mut |done, total| tell(Progress { logs: false, done, total }), &mut |item| {
            things.take(item).map(ControlFlow::Continue)
        });
        let (head, sum) = read.and_then(|read| things.end().map(|()| read)).map_err(|problem| format!("{name}: {problem}"))?;
        things.imported.newest = Some(Moment::from_micros(head.at));
        Ok(Self { name, file, things, sum: sum.unwrap_or_default() })
    }

    /// What there is, but for logs.
    pub fn imported(&self) -> &Imported {
        &self.things.imported
    }

    /// Reads the logs; `take` gets what comes along, until it breaks.
    ///
    /// # Errors
    /// When it cannot be read, or is not what it was.
    pub fn logs(&mut self, tell: &mut dyn FnMut(Progress), take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), String> {
        let checks = &self.things.checks;
        let of = |check| checks.get(&check).copied().flatten();
        let read = pass(&mut self.file, &mut |done, total| tell(Progress { logs: true, done, total }), &mut |item| {
            let entry = match item {
                Item::Flip(StagedFlip { check, flip }) => of(check.0).map(|check| Entry::NextFlip(ImportedFlip { check, flip })),
                Item::Ping(ping) => of(ping.check.0).map(|check| Entry::Ping(ping.of(check))),
                Item::Signing(_) | Item::Secret(_) | Item::Thing(_) => None,
            };
            Ok(entry.map_or(ControlFlow::Continue(()), &mut *take))
        });
        match read {
            Ok((_, Some(sum))) if sum != self.sum => Err(format!("{}: it was written anew while it was read", self.name)),
            read => read.map(drop).map_err(|problem| format!("{}: {problem}", self.name)),
        }
    }

    /// All of it but the logs, and what becomes of it.
    pub fn end(self, now: Moment) -> (Imported, Report) {
        let Things { imported, tally, .. } = self.things;
        let mut late = Vec::new();
        for project in &imported.projects {
            for check in &project.checks {
                let mut state = check.state;
                state.expect(&check.settings);
                if state.deadline(&check.settings).is_some_and(|deadline| deadline <= now) {
                    let name = check.settings.called(check.uuid);
                    late.push(LateRow { project: project.name.as_str().to_owned(), name });
                }
            }
        }
        let remarks = Remarks { newest: imported.newest, late, ..Remarks::default() };
        (imported, Report::new((&self.name, "overdue"), tally, remarks))
    }
}

/// What has been read, but for logs.
struct Things {
    chosen: Vec<Chosen>,
    /// Places of those that were found.
    met: HashSet<usize>,
    imported: Imported,
    /// Places of projects by their numbers in the file; `None`: it stays behind.
    projects: HashMap<u64, Option<usize>>,
    /// UUIDs of checks by their numbers in the file; `None`: it stays behind.
    checks: HashMap<u64, Option<Uuid>>,
    tally: Tally,
}

/// Why something stays behind.
const LEFT: &str = "of projects that stay behind";

impl Things {
    fn new(chosen: &[Chosen]) -> Self {
        let (imported, tally) = (Imported::default(), Tally::default());
        Self { chosen: chosen.to_vec(), met: HashSet::new(), imported, projects: HashMap::new(), checks: HashMap::new(), tally }
    }

    fn take(&mut self, item: Item) -> Result<(), String> {
        match item {
            Item::Signing(secret) => self.imported.signing = Some(secret),
            Item::Secret(secret) => self.imported.secrets.push(secret),
            Item::Thing(thing) => return self.thing(thing),
            Item::Flip(flip) => {
                let comes = self.known(flip.check.0)?;
                self.count(What::Flips, comes);
            }
            Item::Ping(ping) => {
                let comes = self.known(ping.check.0)?;
                self.count(What::Pings, comes);
                if !ping.body.is_empty() {
                    self.count(What::Bodies, comes);
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, what: What, comes: bool) {
        if comes { self.tally.carried(what, 1) } else { self.tally.dropped(what, 1, LEFT) }
    }

    /// Whether the check of this number comes along.
    fn known(&self, check: u64) -> Result<bool, String> {
        self.checks.get(&check).map(Option::is_some).ok_or_else(|| format!("no check before it has the number {check}"))
    }

    /// The project of this number, if it comes along; counts what belongs to it.
    fn of(&mut self, project: u64, what: What) -> Result<Option<&mut ImportedProject>, String> {
        let place = *self.projects.get(&project).ok_or_else(|| format!("no project before it has the number {project}"))?;
        self.count(what, place.is_some());
        Ok(place.and_then(|place| self.imported.projects.get_mut(place)))
    }

    fn thing(&mut self, thing: Staged) -> Result<(), String> {
        let number = thing.number();
        match thing {
            Staged::Project { project, .. } => return self.project(number, *project),
            Staged::Key { project, key, .. } => {
                if let ImportedSecret::Hashed { secret, .. } = key.secret
                    && usize::from(secret) >= self.imported.secrets.len()
                {
                    return Err("no secret before it has the place that it names".into());
                }
                let what = match key.secret {
                    ImportedSecret::Own(Secret::Ping(_)) => What::PingKeys,
                    _ => What::ApiKeys,
                };
                if let Some(of) = self.of(project.0, what)? {
                    of.keys.push(key);
                }
            }
            Staged::Channel { project, channel, .. } => {
                if let Some(of) = self.of(project.0, What::Channels)? {
                    of.channels.push(*channel);
                }
            }
            Staged::Window { project, window, .. } => {
                if let Some(of) = self.of(project.0, What::Windows)? {
                    of.windows.push(*window);
                }
            }
            Staged::Check { project, check, .. } => {
                let uuid = check.uuid;
                let comes = self.of(project.0, What::Checks)?.map(|of| of.checks.push(*check)).is_some();
                if self.checks.insert(number, comes.then_some(uuid)).is_some() {
                    return Err(format!("another check has the number {number}"));
                }
            }
            Staged::User { user, .. } => {
                if self.chosen.is_empty() {
                    self.tally.carried(What::Users, 1);
                    if user.owner {
                        self.tally.note(What::Users, None, format!("{:?} may do everything", user.name.as_str()));
                    }
                    self.imported.users.push(*user);
                } else {
                    self.tally.dropped(What::Users, 1, "they come along with all projects together");
                }
            }
        }
        Ok(())
    }

    fn project(&mut self, number: u64, mut project: ImportedProject) -> Result<(), String> {
        let uuid = project.uuid.to_string();
        let asked = self.chosen.iter().position(|chosen| chosen.old == project.name.as_str() || chosen.old == uuid);
        let comes = self.chosen.is_empty() || asked.is_some();
        if let Some(chosen) = asked.and_then(|place| self.chosen.get(place))
            && let Some(new) = &chosen.new
        {
            self.tally.changed(What::Projects, 1);
            self.tally.note(What::Projects, None, format!("{:?} is called {:?}", project.name.as_str(), new.as_str()));
            project.name = new.clone();
        }
        self.met.extend(asked);
        if comes {
            self.tally.carried(What::Projects, 1);
        } else {
            self.tally.dropped(What::Projects, 1, "not asked for");
        }
        if self.projects.insert(number, comes.then_some(self.imported.projects.len())).is_some() {
            return Err(format!("another project has the number {number}"));
        }
        if comes {
            self.imported.projects.push(project);
        }
        Ok(())
    }

    /// Looks at what can be known only at the end.
    fn end(&mut self) -> Result<(), String> {
        if let Some((_, missed)) = self.chosen.iter().enumerate().find(|(place, _)| !self.met.contains(place)) {
            return Err(format!("there is no project {:?} in it", missed.old));
        }
        for project in &mut self.imported.projects {
            // One that was deleted while the file was written is not in it.
            let known: HashSet<Uuid> = project.checks.iter().map(|check| check.uuid).collect();
            for check in &mut project.checks {
                check.parents = check.parents.iter().copied().filter(|parent| known.contains(parent)).collect();
            }
        }
        Ok(())
    }
}

/// Reads all lines from the first to the last, which has to fit them; `take` gets what they hold, until it breaks.
fn pass(
    file: &mut File,
    tell: &mut dyn FnMut(u64, u64),
    take: &mut dyn FnMut(Item) -> Result<ControlFlow<()>, String>,
) -> Result<(HeadRow, Option<String>), String> {
    let total = file.metadata().map_err(|error| error.to_string())?.len();
    file.rewind().map_err(|error| error.to_string())?;
    let mut lines = Lines { reader: BufReader::with_capacity(BUFFER, file), hash: Sha256::new(), number: 0, done: 0, line: Vec::new() };
    if !lines.next()? {
        return Err("it is empty".into());
    }
    let head = line::read_head(&lines.line)?;
    lines.sum();
    // A ping is taken when all of its body is there; with the number of its line.
    let mut waiting: Option<(u64, StagedPing)> = None;
    loop {
        tell(lines.done, total);
        if !lines.next()? {
            return Err(format!("it has no end after line {}: it was cut, or is still being written", lines.number));
        }
        let (mut item, mut end) = (None, None);
        match lines.row()? {
            Line::Thing(row) => item = Some(row.staged().map(Item::Thing)),
            Line::Other(row) => match *row {
                OtherRow::Body { check, n, body } => {
                    let ping = waiting.as_mut().map(|(_, ping)| ping);
                    longer(ping, (check, n), &body).map_err(|problem| lines.told(&problem))?;
                    lines.sum();
                    continue;
                }
                OtherRow::End(row) => end = Some(row),
                OtherRow::Ping(row) => item = Some(row.ping().map(Item::Ping)),
                OtherRow::Flip(row) => item = Some(row.flip().map(Item::Flip)),
                OtherRow::Signing(text) => {
                    item = Some(bytes(&text).map(|secret| Item::Signing(BadgeSecret(secret))).map_err(str::to_owned));
                }
                OtherRow::Secret(text) => item = Some(ForeignSecret::parse(&text).map(Item::Secret).map_err(str::to_owned)),
            },
        }
        if let Some((number, ping)) = waiting.take()
            && take(Item::Ping(ping)).map_err(|problem| format!("line {number}: {problem}"))?.is_break()
        {
            return Ok((head, None));
        }
        if let Some(end) = end {
            return lines.ended(&end).map(|()| (head, Some(end.sha256)));
        }
        waiting = match item.transpose().map_err(|problem| lines.told(&problem))? {
            Some(Item::Ping(ping)) => Some((lines.number, ping)),
            Some(item) => {
                let flow = take(item).map_err(|problem| lines.told(&problem))?;
                if flow.is_break() {
                    return Ok((head, None));
                }
                None
            }
            None => None,
        };
        lines.sum();
    }
}

/// Adds a piece to the body of the ping before it.
fn longer(ping: Option<&mut StagedPing>, of: (u64, u64), piece: &str) -> Result<(), String> {
    let ping = ping.filter(|ping| (ping.check.0, ping.n) == of).ok_or("it goes on with a body, but not with that of the line before")?;
    let piece = STANDARD.decode(piece).map_err(|_| "a body is no base64")?;
    if ping.body.len() + piece.len() > LONGEST_BODY {
        return Err("a body is longer than any may be".into());
    }
    let mut body = Vec::from(std::mem::take(&mut ping.body));
    body.extend(piece);
    ping.body = body.into();
    Ok(())
}

/// Lines of a file, one at a time, counted and summed up.
struct Lines<'f> {
    reader: BufReader<&'f mut File>,
    hash: Sha256,
    /// That of the line.
    number: u64,
    /// Bytes that have been read.
    done: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    /// Reads the next one. `false`: there is none.
    fn next(&mut self) -> Result<bool, String> {
        self.line.clear();
        let read = (&mut self.reader).take(MOST_LINE as u64).read_until(b'\n', &mut self.line).map_err(|error| error.to_string())?;
        if read == 0 {
            return Ok(false);
        }
        (self.number, self.done) = (self.number + 1, self.done + read as u64);
        match self.line.ends_with(b"\n") {
            true => Ok(true),
            false if read == MOST_LINE => Err(self.told("it is longer than a line may be")),
            false => Err(self.told("it has no end: the file was cut, or is still being written")),
        }
    }

    fn row(&self) -> Result<Line, String> {
        line::read(&self.line).map_err(|problem| self.told(&problem))
    }

    /// Takes the line into the sum.
    fn sum(&mut self) {
        self.hash.update(&self.line);
    }

    /// Whether the line is an end that fits those before it, and the last one.
    fn ended(&mut self, end: &EndRow) -> Result<(), String> {
        if (end.lines, &end.sha256) != (self.number - 1, &line::hex(self.hash.clone())) {
            return Err("its end does not fit what stands before it: it was altered, or lines are missing".into());
        }
        if self.next()? { Err("something follows its end".into()) } else { Ok(()) }
    }

    fn told(&self, problem: &str) -> String {
        format!("line {}: {problem}", self.number)
    }
}
