//! What each row of a Healthchecks becomes here, or why it does not: a function of rows, of what was asked for and of the time.

mod channel;
mod channel_rows;
mod check;
mod convert;
mod log;
mod project;
mod secret;

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::environment::{self, ServeFlags};
use super::report::{ChannelRow, LateRow, Remarks, Report, Tally, What};
use super::rows::{Complaint, Row, Table};
use super::{Entry, MOST_COMPLAINTS, Options, Source};
use crate::domain::adopted::ForeignSecret;
use crate::domain::alert::{Held, Telling};
use crate::domain::flip::Cause;
use crate::domain::imported::{Imported, ImportedChannel, ImportedSettings};
use crate::domain::moment::Moment;
use crate::domain::status::Status;
use crate::domain::user::Membership;
use channel::Made;
use channel_rows::ChannelRows;
use log::{CheckLog, LastFlip};
use project::{Owners, Projects};
pub(super) use secret::MOST_SESSIONS;
use secret::Proof;

/// A Healthchecks whose logs are still to be read.
pub(super) struct Healthchecks<'a> {
    options: &'a Options,
    now: Moment,
    tally: Tally,
    imported: Imported,
    /// By the numbers of the checks that come along.
    logs: HashMap<i64, CheckLog>,
    /// Numbers of the checks that do not.
    left: HashSet<i64>,
    channel_rows: ChannelRows,
    proof: Proof,
}

/// Why reading the tables ends.
enum Refusal {
    /// A row without which nothing makes sense is wrong.
    Row(Complaint),
    /// Something that was asked for is not there.
    Missing(String),
}

impl From<Complaint> for Refusal {
    fn from(complaint: Complaint) -> Self {
        Self::Row(complaint)
    }
}

/// Channels that come along, by their numbers: the places of their projects, their order and their UUIDs.
type KnownChannels = HashMap<i64, (usize, usize, Uuid)>;

/// Rows of tables that are read whole.
#[derive(Default)]
struct Tables(HashMap<Table, Vec<Row>>);

impl Tables {
    /// The rows of a table, oldest first.
    fn take(&mut self, table: Table) -> Result<Vec<Row>, Complaint> {
        let rows = self.0.remove(&table).unwrap_or_default();
        let age = |row: Row| Ok(((row.moment("created")?, row.id("id")?), row));
        let mut rows = rows.into_iter().map(age).collect::<Result<Vec<_>, Complaint>>()?;
        rows.sort_by_key(|(age, _)| *age);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

impl<'a> Healthchecks<'a> {
    /// Takes all but the logs. What is wrong with rows is complained of.
    ///
    /// # Errors
    /// When there is nothing to take, or something that was asked for is not there.
    pub(super) fn new(rows: Vec<Row>, options: &'a Options, now: Moment, complaints: &mut Vec<Complaint>) -> Result<Self, String> {
        let mut tables = Tables::default();
        for row in rows {
            tables.0.entry(row.table).or_default().push(row);
        }
        if !tables.0.contains_key(&Table::Project) {
            return Err(match tables.0.contains_key(&Table::Check) {
                true => {
                    "there are checks but no projects: upgrade that Healthchecks to a release of 2019 or later, or dump accounts too".into()
                }
                false => "there is no project of a Healthchecks in it".into(),
            });
        }
        let secret = options
            .environment
            .get("SECRET_KEY")
            .map(ForeignSecret::parse)
            .transpose()
            .map_err(|problem| format!("SECRET_KEY: {problem}"))?;
        let imported = Imported { secrets: secret.into_iter().collect(), ..Imported::default() };
        let (tally, logs, left) = (Tally::default(), HashMap::new(), HashSet::new());
        let (channel_rows, proof) = (ChannelRows::default(), Proof::default());
        let mut made = Self { options, now, tally, imported, logs, left, channel_rows, proof };
        match made.objects(&mut tables, complaints) {
            Ok(()) => Ok(made),
            Err(Refusal::Row(complaint)) => {
                complain(complaints, complaint);
                Ok(made)
            }
            Err(Refusal::Missing(problem)) => Err(problem),
        }
    }

    fn objects(&mut self, tables: &mut Tables, complaints: &mut Vec<Complaint>) -> Result<(), Refusal> {
        if let Some(secret) = self.imported.secrets.first() {
            let sessions = tables.0.remove(&Table::Session).unwrap_or_default();
            self.proof = sessions.iter().fold(self.proof, |proof, row| proof.with(secret::signed_session(row, secret)));
        }
        let users = tables.take(Table::User)?;
        let owners = Owners::read(&users, &tables.take(Table::Profile)?)?;
        let projects = tables.take(Table::Project)?;
        let places = self.projects(&projects, &owners, complaints)?;
        let channels = self.channels(&tables.take(Table::Channel)?, &places, complaints)?;
        let mut assigned: HashMap<i64, Vec<i64>> = HashMap::new();
        for row in tables.0.remove(&Table::Assignment).unwrap_or_default() {
            assigned.entry(row.id("check_id")?).or_default().push(row.id("channel_id")?);
        }
        self.checks(&tables.take(Table::Check)?, &places, &channels, &assigned, complaints)?;
        if self.options.users {
            self.users(&users, &projects, &tables.take(Table::Member)?, &places, complaints)?;
        }
        Ok(())
    }

    /// Gives the places of those that come along by their numbers.
    fn projects(&mut self, rows: &[Row], owners: &Owners, complaints: &mut Vec<Complaint>) -> Result<HashMap<i64, usize>, Refusal> {
        let secret = self.imported.secrets.first().cloned();
        let (secret, proof) = (secret.as_ref(), self.proof);
        let mut reader = Projects { options: self.options, owners, secret, proof, taken: BTreeSet::new(), met: HashSet::new() };
        let mut places = HashMap::new();
        for row in rows {
            match reader.project(row, &mut self.tally) {
                Ok(None) => {}
                Ok(Some(project)) => {
                    places.insert(row.id("id")?, self.imported.projects.len());
                    self.imported.projects.push(project);
                }
                Err(complaint) => complain(complaints, complaint),
            }
        }
        self.proof = reader.proof;
        let missed = self.options.projects.iter().find(|chosen| !reader.met.contains(&chosen.old));
        missed.map_or(Ok(places), |chosen| Err(Refusal::Missing(format!("there is no project {:?} in it", chosen.old))))
    }

    /// Gives the UUIDs of those that come along by their numbers, with their projects and their order.
    fn channels(&mut self, rows: &[Row], places: &HashMap<i64, usize>, complaints: &mut Vec<Complaint>) -> Result<KnownChannels, Refusal> {
        let mut known = HashMap::new();
        for row in rows {
            let Some(place) = places.get(&row.id("project_id")?).copied() else {
                self.tally.dropped(What::Channels, 1, "of projects that stay behind");
                continue;
            };
            let made = match channel::channel(row, &self.options.environment, self.now) {
                Ok(made) => made,
                Err(complaint) => {
                    complain(complaints, complaint);
                    continue;
                }
            };
            let Some(project) = self.imported.projects.get_mut(place) else { continue };
            match made {
                Made::Channel { channel, changes } => {
                    known.insert(row.id("id")?, (place, known.len(), channel.uuid));
                    self.tally.carried(What::Channels, 1);
                    for warning in warnings(&channel) {
                        self.tally.note(What::Channels, None, warning);
                    }
                    let is_incomplete = matches!(channel.settings, ImportedSettings::Incomplete { .. });
                    self.tally.changed(What::Channels, u64::from(is_incomplete || !changes.is_empty()));
                    self.channel_rows.come(project, &channel, changes);
                    project.channels.push(channel);
                }
                Made::Dropped { name, uuid, kind, why } => {
                    self.tally.dropped(What::Channels, 1, why.clone());
                    self.channel_rows.stay(row.id("id")?, ChannelRow::new(project, uuid, &name, &kind, vec![why]));
                }
            }
        }
        Ok(known)
    }

    fn checks(
        &mut self,
        rows: &[Row],
        places: &HashMap<i64, usize>,
        channels: &KnownChannels,
        assigned: &HashMap<i64, Vec<i64>>,
        complaints: &mut Vec<Complaint>,
    ) -> Result<(), Refusal> {
        let mut skipped = HashSet::new();
        for row in rows {
            let id = row.id("id")?;
            let place = places.get(&row.id("project_id")?).copied();
            let meant = |word: &&String| check::is_meant(row, word);
            let meant = self.options.skip.iter().map(|word| meant(&word).map(|is_meant| is_meant.then_some(word)));
            let words: Vec<_> = meant.filter_map(Result::transpose).collect::<Result<_, Complaint>>()?;
            skipped.extend(words.iter().copied());
            let why = if words.is_empty() { "of projects that stay behind" } else { "left out by --skip" };
            let Some((place, project)) =
                place.filter(|_| words.is_empty()).and_then(|place| Some((place, self.imported.projects.get_mut(place)?)))
            else {
                self.tally.dropped(What::Checks, 1, why);
                self.left.insert(id);
                continue;
            };
            let check::ReadCheck { mut check, is_changed, notes } = match check::check(row, self.options, self.now) {
                Ok(read) => read,
                Err(complaint) => {
                    complain(complaints, complaint);
                    continue;
                }
            };
            let own = assigned.get(&id).into_iter().flatten().filter_map(|channel| channels.get(channel)).filter(|(of, ..)| *of == place);
            let mut own: Vec<_> = own.map(|(_, order, uuid)| (*order, *uuid)).collect();
            own.sort_unstable();
            own.dedup();
            self.channel_rows.missed_by(assigned.get(&id).into_iter().flatten(), || check.settings.called(check.uuid));
            check.channels = own.into_iter().map(|(_, uuid)| uuid).collect();
            self.tally.carried(What::Checks, 1);
            self.tally.changed(What::Checks, u64::from(is_changed || check.badge.is_none() || !notes.is_empty()));
            notes.into_iter().for_each(|note| self.tally.note(What::Checks, Some(1), note));
            self.tally.note(What::Checks, Some(u64::from(is_changed)), "with times in the future: they become now");
            self.tally.note(What::Checks, Some(u64::from(check.badge.is_none())), "without a badge: they get a new one");
            self.logs.insert(id, CheckLog::new(check.uuid, check.state.n_pings, project.ping_log_limit));
            project.checks.push(check);
        }
        let missed = self.options.skip.iter().find(|word| !skipped.contains(word));
        missed.map_or(Ok(()), |word| Err(Refusal::Missing(format!("there is no check {word:?} in it"))))
    }

    fn users(
        &mut self,
        rows: &[Row],
        projects: &[Row],
        members: &[Row],
        places: &HashMap<i64, usize>,
        complaints: &mut Vec<Complaint>,
    ) -> Result<(), Refusal> {
        let uuid = |number: i64| places.get(&number).and_then(|place| self.imported.projects.get(*place)).map(|project| project.uuid);
        let mut grants: HashMap<i64, Vec<(Uuid, Membership)>> = HashMap::new();
        for row in projects {
            let member = uuid(row.id("id")?).map(|uuid| (uuid, Membership::Member));
            grants.entry(row.id("owner_id")?).or_default().extend(member);
        }
        for row in members {
            // An invitation from before projects has none.
            let Some(number) = row.integer("project_id")? else { continue };
            let membership = project::membership(row)?;
            grants.entry(row.id("user_id")?).or_default().extend(uuid(number).map(|uuid| (uuid, membership)));
        }
        let mut taken = BTreeSet::new();
        for row in rows {
            match project::user(row, &grants, &mut taken, self.now, &mut self.tally) {
                Ok(user) => self.imported.users.extend(user),
                Err(complaint) => complain(complaints, complaint),
            }
        }
        Ok(())
    }

    /// What there is, before logs have been read.
    pub(super) fn imported(&self) -> &Imported {
        &self.imported
    }

    /// Takes a row of a log; what comes along of it. None is a reason to refuse the rest.
    pub(super) fn log(&mut self, row: &Row) -> Option<Entry> {
        let id = row.id("owner_id").ok();
        let Some(log) = id.and_then(|id| self.logs.get_mut(&id)) else {
            let what = if row.table == Table::Flip { What::Flips } else { What::Pings };
            let why =
                if id.is_some_and(|id| self.left.contains(&id)) { "of checks that stay behind" } else { "of checks that are not in it" };
            self.tally.dropped(what, 1, why);
            return None;
        };
        let entry = match row.table {
            Table::Flip => log.flip(row, self.now, &mut self.tally).zip(row.id("id").ok()).map(|(flip, id)| Entry::Flip(flip, id)),
            _ => log.ping(row, self.options, self.now, &mut self.tally).map(Entry::Ping),
        };
        let at = entry.as_ref().map(|entry| match entry {
            Entry::Ping(ping) => ping.at,
            Entry::Flip(flip, _) | Entry::NextFlip(flip) => flip.flip.at.min(self.now),
        });
        self.imported.newest = self.imported.newest.max(at);
        entry
    }

    /// What there is when the logs have been read.
    pub(super) fn end(self, source: &Source) -> (Imported, Report) {
        let Self { options, now, mut tally, mut imported, logs, channel_rows, proof, .. } = self;
        let logs: HashMap<Uuid, CheckLog> = logs.into_values().map(|log| (log.uuid, log)).collect();
        let mut late = Vec::new();
        for project in &mut imported.projects {
            for check in &mut project.checks {
                let last = logs.get(&check.uuid).and_then(CheckLog::last_flip);
                if let Some(log) = logs.get(&check.uuid) {
                    log.count(options.logs, &mut tally);
                }
                let state = &mut check.state;
                state.changed = last.map_or(check.created, |flip| flip.at);
                state.telling = telling(state.status, last, now);
                imported.newest = imported.newest.max(state.last_ping).max(state.run.map(|run| run.start));
                if state.deadline(&check.settings).is_some_and(|deadline| deadline <= now) {
                    let name = check.settings.called(check.uuid);
                    late.push(LateRow { project: project.name.as_str().to_owned(), name });
                }
            }
        }
        badges(&imported, proof, &mut tally);
        let ServeFlags { flags: serve_flags, mut advice } = environment::serve(&options.environment);
        advice.splice(..0, proof.advice());
        let mut remarks = Remarks { newest: imported.newest, late, serve_flags, advice, ..Remarks::default() };
        channel_rows.end(&imported, &mut remarks);
        (imported, Report::new((source.name(), source.form().name()), tally, remarks))
    }
}

/// What the old server had told of a check with this status and newest flip, and what is still to be told.
fn telling(status: Status, last: Option<LastFlip>, now: Moment) -> Telling {
    match (status, last.filter(|flip| !flip.is_told)) {
        // That it was down is told, that it is up again is not.
        (Status::Up, Some(LastFlip { from: Status::Down, .. })) => Telling::Told,
        // What a job has reported is told at once; who was silent gets a chance.
        (Status::Down, Some(LastFlip { cause: Cause::Fail, .. })) => Telling::Due { at: now, held: Held::Failures },
        (Status::Down, Some(_)) => Telling::Due { at: now, held: Held::Away },
        (Status::Down, None) => Telling::Told,
        _ => Telling::Quiet,
    }
}

/// Returns what should be known of the settings of a channel that comes along.
fn warnings(channel: &ImportedChannel) -> impl Iterator<Item = String> {
    let warnings = match &channel.settings {
        ImportedSettings::Whole(settings) => settings.warnings(),
        ImportedSettings::Incomplete { .. } => Vec::new(),
    };
    warnings.into_iter().map(|warning| format!("{:?}: {warning}", channel.name.as_str()))
}

fn complain(complaints: &mut Vec<Complaint>, complaint: Complaint) {
    if complaints.len() < MOST_COMPLAINTS {
        complaints.push(complaint);
    }
}

/// Counts badge URLs. Those of projects and tags need the secret that signed them.
fn badges(imported: &Imported, proof: Proof, tally: &mut Tally) {
    for project in &imported.projects {
        let own = project.checks.iter().filter(|check| check.badge.is_some()).count() as u64;
        tally.carried(What::Badges, own);
        let tags: HashSet<&str> = project.checks.iter().flat_map(|check| check.settings.tags.iter()).collect();
        let signed = 1 + tags.len() as u64;
        match (project.old_badge, proof) {
            (None, _) => {
                let why = format!(
                    "of project {:?} and its tags: 404, unless --env-file or --secret-key-file give the SECRET_KEY of the old server; \
                     GET /api/v3/badges/ lists the URLs to use in place of them",
                    project.name.as_str()
                );
                tally.dropped(What::Badges, signed, why);
            }
            (Some(_), Proof::Wrong(_)) => {
                tally.carried(What::Badges, signed);
                tally.note(What::Badges, Some(signed), "of projects and tags: 404, unless the old server ran with the given SECRET_KEY");
            }
            (Some(_), _) => tally.carried(What::Badges, signed),
        }
    }
}

#[cfg(test)]
mod tests;
