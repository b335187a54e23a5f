//! What there is to say about what is told, gathered when it is sent: nothing that is no longer true is told.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::{Item, Job};
use super::sending::MessageSender;
use crate::channel::alert::{self, Also, Brief, CheckFacts, Closing, Facts, MailText, News, PingFacts};
use crate::channel::words;
use crate::domain::alert::{Away, Event, OutboxRow};
use crate::domain::check::Check;
use crate::domain::flip::{Cause, Flip};
use crate::domain::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::outcomes::RunOutcome;
use crate::domain::ping::{Kind, Ping, Scheme};
use crate::domain::project::{Channel, PingKey, Secret};
use crate::domain::status::Status;
use crate::engine::state::State;
use crate::mail::Searchable;
use crate::store::BodyPart;

/// Pings that are looked at for the last success and the start of a run.
const LOOKED_AT: u64 = 30;
/// Bytes of the end of a body that may be told. Mails are told whole up to as much.
const BODY_BYTES: usize = 1 << 20;
/// Other checks that are named.
const MOST_NAMED: usize = 10;
/// Checks that are looked at while the state is locked.
const LOOKED_AT_ONCE: usize = 64;
/// Checks of a digest that are looked up one by one. The rest is counted.
const MOST_LOOKED_UP: usize = 100;

impl MessageSender {
    /// What a message tells.
    pub(super) fn facts(&self, job: &Job) -> Facts {
        match job.items.as_slice() {
            [item] if item.row.event == Event::Still => Facts::Still(self.still_down(&job.channel)),
            [item] => self.one(&job.channel, item),
            items => self.many(items),
        }
    }

    /// The checks that a channel was told to be down, and that are.
    fn still_down(&self, channel: &Channel) -> Vec<Brief> {
        let down = self.told_down(channel);
        let brief = |(place, check): (usize, &Check)| {
            let flip = if place < MOST_LOOKED_UP { self.flip(check.state.last_flip) } else { None };
            Brief {
                name: words::name(&check.settings),
                project: self.project_name(check.project),
                project_uuid: self.project_uuid(check.project),
                since: check.state.changed,
                cause: flip.map_or(Cause::Unknown, |flip| flip.cause),
                last_success: self.last_success(check, place < MOST_LOOKED_UP),
            }
        };
        down.iter().enumerate().map(brief).collect()
    }

    /// The checks of which this channel was told, itself or as a member of a group, that they are down.
    pub(super) fn told_down(&self, channel: &Channel) -> Vec<Check> {
        let mut down = Vec::new();
        self.each_told_of(channel, |check| down.push(check.clone()));
        down
    }

    /// The numbers of these checks.
    pub(super) fn told_down_ids(&self, channel: &Channel) -> Vec<CheckId> {
        let mut down = Vec::new();
        self.each_told_of(channel, |check| down.push(check.id));
        down
    }

    fn each_told_of(&self, channel: &Channel, mut look: impl FnMut(&Check)) {
        let hearing = self.handle.with_state(|state| state.hearing(channel));
        self.each_told(channel.project, |check| {
            if hearing.is_of(check) {
                look(check);
            }
        });
    }

    /// Looks at the checks of a project of which somebody was told that they are down, oldest first. One on trial tells nobody again.
    pub(super) fn each_told(&self, project: ProjectId, mut look: impl FnMut(&Check)) {
        let told = |state: &State| {
            state
                .project(project)
                .filter(|found| !found.project.is_held())
                .map(|found| found.told_down().iter().copied().collect::<Vec<_>>())
        };
        let told = self.handle.with_state(told).unwrap_or_default();
        // The lock is held for a few at a time.
        for some in told.chunks(LOOKED_AT_ONCE) {
            self.handle.with_state(|state| {
                some.iter().filter_map(|id| state.check(*id)).filter(|check| check.state.telling.is_told()).for_each(&mut look);
            });
        }
    }

    fn one(&self, channel: &Channel, item: &Item) -> Facts {
        let Item { row, untold, skipped, since, up_since, delay } = item;
        // What cannot be read is told without.
        let logged = self.handle.flip(row.flip).ok().flatten();
        let flip = logged.map_or_else(|| unknown(row), |logged| logged.flip);
        let check = self.handle.with_state(|state| state.check(row.check).cloned());
        let also = Also {
            delay: *delay,
            up_since: *up_since,
            changes: (*skipped > 0).then(|| (u16::try_from(*skipped).unwrap_or(u16::MAX), *since)),
            away: if row.away { self.away(check.as_ref(), row, Some(flip)) } else { None },
            window: check.as_ref().and_then(|check| self.window(check, row)),
        };
        let news = match row.event {
            Event::Up => {
                let down = self.downtime(row, untold.as_deref());
                News::Up { flip, down, told: untold.is_none(), also }
            }
            Event::Closed => {
                let why = match flip.to {
                    _ if row.gone.is_some() => Closing::Deleted,
                    Status::Down => Closing::Unassigned,
                    _ => Closing::Paused,
                };
                News::Closed { at: row.at, why }
            }
            _ => News::Down { flip, also },
        };
        let facts = match (&check, &row.gone) {
            (Some(check), _) => self.check(channel, check, flip.at, logged.map(|logged| logged.arrival)),
            (None, Some(gone)) => CheckFacts::gone(gone.names.clone(), gone.unique_key, &self.project_name(channel.project)),
            (None, None) => CheckFacts::example(&self.project_name(channel.project)),
        };
        let facts = CheckFacts { told_as: row.told_as.clone(), ..facts };
        Facts::Check(Box::new(facts), news)
    }

    /// The flip by which the downtime began that has ended.
    fn downtime(&self, up: &OutboxRow, untold: Option<&OutboxRow>) -> Flip {
        let number = match untold {
            Some(down) => Some(down.flip),
            None => self.handle.flip(up.flip).ok().flatten().map(|logged| logged.previous),
        };
        number.and_then(|number| self.flip(number)).unwrap_or_else(|| unknown(untold.unwrap_or(up)))
    }

    fn flip(&self, number: FlipNumber) -> Option<Flip> {
        // What cannot be read is told without.
        self.handle.flip(number).ok().flatten().map(|logged| logged.flip)
    }

    /// The time without pings in which the one of this check may have been lost: its own, or that before an import of its project.
    fn away(&self, check: Option<&Check>, row: &OutboxRow, flip: Option<Flip>) -> Option<(Moment, Moment)> {
        let check = check?;
        let expected = flip.and_then(|flip| flip.awaited).unwrap_or(row.at.plus_secs(-check.settings.grace.get()));
        self.handle.with_state(|state| {
            let of_project = state.project(check.project).and_then(|found| found.project.import.as_ref()?.away);
            let all = of_project.iter().chain(state.away.iter().rev()).copied();
            Away::explaining(all, expected, row.at).map(|away| (away.from, away.to))
        })
    }

    /// The maintenance window in which a check went down, as far as that is still known.
    fn window(&self, check: &Check, row: &OutboxRow) -> Option<String> {
        self.handle.with_state(|state| {
            let mut windows = state.project(check.project)?.windows.values();
            let held = windows
                .find(|window| window.is_about(&check.settings.tags) && window.open_until(row.at).is_some_and(|to| to <= row.queued));
            held.filter(|_| row.event == Event::Down).map(|window| window.name.as_str().to_owned())
        })
    }

    fn project_uuid(&self, project: ProjectId) -> Option<uuid::Uuid> {
        self.handle.with_state(|state| state.project(project).map(|project_state| project_state.project.uuid))
    }

    fn project_name(&self, project: ProjectId) -> String {
        self.handle
            .with_state(|state| state.project(project).map_or_else(String::new, |project_state| project_state.project.name.as_str().into()))
    }

    /// A check as it was when it flipped at `at`, during the ping at a place of the log, as far as the log is kept.
    fn check(&self, channel: &Channel, check: &Check, at: Moment, place: Option<Arrival>) -> CheckFacts {
        let caused = place.filter(|place| *place != Arrival(0));
        let pings = match caused.map(|place| self.handle.pings_before(check, place, LOOKED_AT)) {
            Some(Ok(pings)) if !pings.is_empty() => pings,
            _ => self.handle.last_pings(check, LOOKED_AT).unwrap_or_default(),
        };
        let before = || pings.iter().filter(|ping| ping.at <= at);
        let (others, others_down) = self.others_down(check);
        CheckFacts {
            uuid: check.uuid,
            unique_key: crate::domain::ids::UniqueKey::of(check.uuid),
            project: self.project_name(check.project),
            settings: Arc::clone(&check.settings),
            n_pings: check.state.n_pings,
            failures: check.state.failures,
            last_ping: before().next().map(|ping| self.ping(check, ping, &pings)),
            last_success: before().find(|ping| ping.kind == Kind::Success).map(|ping| ping.at),
            others_down,
            others,
            ping_keys: self.ping_keys(check.project),
            json: alert::wants_json(&channel.settings).then(|| (self.show)(check)),
            told_as: None,
        }
    }

    fn ping(&self, check: &Check, ping: &Ping, pings: &[Ping]) -> PingFacts {
        let started = pings.iter().find(|other| other.n < ping.n && other.kind == Kind::Start && other.rid == ping.rid);
        let is_end = matches!(ping.kind, Kind::Success | Kind::Fail);
        let part = |part| self.handle.part_of_body(check, ping.n, part).ok().flatten().unwrap_or_default();
        let is_long = ping.body_len as usize > BODY_BYTES;
        let body = match is_long {
            true => part(BodyPart::Last(BODY_BYTES)),
            false => self.handle.body(check, ping.n).ok().flatten().unwrap_or_default(),
        };
        // The header fields that say how to read it are at its beginning.
        let mail = (ping.origin.scheme == Scheme::Email).then(|| match is_long {
            true => Searchable::of(&part(BodyPart::First(BODY_BYTES))),
            false => Searchable::of(&body),
        });
        PingFacts {
            at: ping.at,
            kind: ping.kind,
            scheme: ping.origin.scheme,
            exit: ping.exit,
            from: ping.origin.remote_addr,
            took: started.filter(|_| is_end).map(|start| ping.at.micros_since(start.at)).filter(|micros| *micros >= 0),
            body,
            mail: mail.map(|Searchable { subject, text }| MailText { subject, text }),
        }
    }

    /// The ping keys of a project.
    fn ping_keys(&self, project: ProjectId) -> Vec<PingKey> {
        self.handle.with_state(|state| {
            let keys = state.keys().filter(|key| key.project == project);
            keys.filter_map(|key| if let Secret::Ping(key) = &key.secret { Some(key.clone()) } else { None }).collect()
        })
    }

    /// How many other checks of the project are down, and the names of some.
    fn others_down(&self, check: &Check) -> (usize, Vec<String>) {
        let now = self.handle.clock().uptime();
        let mut known = self.others.borrow_mut();
        let down = known.get(check.project, now, || {
            let mut down = Vec::new();
            self.handle.each_check(check.project, |check| {
                if check.state.status == Status::Down {
                    down.push((check.id, check.settings));
                }
            });
            down.into()
        });
        let others = || down.iter().filter(|(id, _)| *id != check.id);
        (others().count(), others().take(MOST_NAMED).map(|(_, settings)| words::name(settings)).collect())
    }

    /// When a check last reported success, as far as that is known without its log or, if it is to be looked up, by its last pings.
    fn last_success(&self, check: &Check, look_up: bool) -> Option<Moment> {
        match check.state.outcomes.newest_first().find(|outcome| *outcome != RunOutcome::Missed) {
            Some(RunOutcome::Success) => check.state.last_ping,
            _ if look_up => {
                let pings = self.handle.last_pings(check, LOOKED_AT).unwrap_or_default();
                pings.iter().find(|ping| ping.kind == Kind::Success).map(|ping| ping.at)
            }
            _ => None,
        }
    }

    fn many(&self, items: &[Item]) -> Facts {
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for (place, item) in items.iter().enumerate() {
            let brief = self.brief(item, place < MOST_LOOKED_UP);
            if item.row.event == Event::Up { up.push(brief) } else { down.push(brief) }
        }
        let is_away = up.is_empty() && items.iter().all(|item| item.row.away);
        let first = items.first().filter(|_| is_away).map(|item| &item.row);
        let of = |row: &OutboxRow| self.handle.with_state(|state| state.check(row.check).cloned());
        match first.and_then(|row| self.away(of(row).as_ref(), row, self.flip(row.flip))) {
            Some((from, until)) => Facts::Away { from, until, checks: down },
            None => Facts::Digest { down, up },
        }
    }

    fn brief(&self, item: &Item, look_up: bool) -> Brief {
        let row = &item.row;
        let flip = if look_up { self.flip(row.flip) } else { None }.unwrap_or_else(|| unknown(row));
        let check = self.handle.with_state(|state| state.check(row.check).cloned());
        let name = match (&check, &row.gone) {
            (Some(check), _) => words::name(&check.settings),
            (None, Some(gone)) => words::name(&gone.names.clone().settings()),
            (None, None) => String::new(),
        };
        Brief {
            name,
            project: check.as_ref().map_or_else(String::new, |check| self.project_name(check.project)),
            project_uuid: check.as_ref().and_then(|check| self.project_uuid(check.project)),
            since: flip.at,
            cause: flip.cause,
            last_success: check.as_ref().and_then(|check| self.last_success(check, look_up)),
        }
    }
}

/// A flip of which no more is known than its row in the outbox says.
fn unknown(row: &OutboxRow) -> Flip {
    let (from, to) = if row.event == Event::Up { (Status::Down, Status::Up) } else { (Status::Up, Status::Down) };
    Flip { at: row.at, from, to, cause: Cause::Unknown, awaited: None }
}

/// Which checks of projects are down, remembered for a moment: ten thousand messages in a row would count ten thousand checks each.
#[derive(Default)]
pub(super) struct OthersDown(HashMap<ProjectId, (std::time::Duration, Arc<[Down]>)>);

/// A check that is down.
type Down = (CheckId, Arc<crate::domain::check::Settings>);

impl OthersDown {
    fn get(&mut self, project: ProjectId, now: std::time::Duration, count: impl FnOnce() -> Arc<[Down]>) -> Arc<[Down]> {
        const FRESH: std::time::Duration = std::time::Duration::from_millis(500);
        self.0.retain(|_, (at, _)| now.saturating_sub(*at) < FRESH);
        Arc::clone(&self.0.entry(project).or_insert_with(|| (now, count())).1)
    }
}
