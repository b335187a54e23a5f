//! Pings: who they are for, what they mean to that check, and their entry in the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::command::stage::StageCommand;
use super::super::command::{Command, Outcome, PingRequest, Refusal, Signal, Target};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::alert::Telling;
use crate::domain::check::{CheckState, Settings};
use crate::domain::edit::ChannelChoice;
use crate::domain::flip::Flip;
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::moment::Moment;
use crate::domain::ping::{Meaning, Method, Ping};
use crate::domain::status::Status;
use crate::domain::text::Name;

/// Checks of a project without a check limit beyond which pings make no more: a ping key is easily copied. See
/// [limits](crate::docs::limits).
const MOST_MADE_BY_PINGS: usize = 10_000;
/// Bytes at the beginning of an HTTP body in which keywords are searched: see [limits](crate::docs::limits).
pub const SEARCHED_BYTES: usize = 10_000;

impl WorkingState {
    /// What is written ahead of a command: the body of a ping, of a mail or of an imported ping that comes to more bytes in the log
    /// than is `large`.
    pub fn ahead(&self, command: &Command) -> Option<Bytes> {
        match command {
            Command::Ping(request) => self.ahead_of(std::slice::from_ref(request)),
            Command::Mail(pings) => self.ahead_of(pings),
            Command::Stage(command) => match &**command {
                StageCommand::Log { pings, .. } => self.ahead_of_log(pings),
                _ => None,
            },
            _ => None,
        }
    }

    fn ahead_of(&self, pings: &[PingRequest]) -> Option<Bytes> {
        let stored = self.stored(pings.first()?);
        (stored.len().saturating_mul(pings.len()) > self.large).then_some(stored)
    }

    /// As much of a body as is stored.
    fn stored(&self, request: &PingRequest) -> Bytes {
        let most = match request.signal {
            Signal::Http(_) | Signal::Exit(_) => self.body_limit,
            Signal::Email { .. } => usize::MAX,
        };
        request.body.slice(..request.body.len().min(most))
    }

    pub(super) fn ping_alone(&mut self, request: PingRequest, now: Moment) -> Applied {
        let sharers = self.ahead_of(std::slice::from_ref(&request)).map_or(0, |_| 1);
        self.ping(request, sharers, now)
    }

    pub(super) fn mail(&mut self, pings: Vec<PingRequest>, now: Moment) -> Outcome {
        let is_ahead = self.ahead_of(&pings).is_some();
        let mut found = BTreeMap::new();
        for ping in pings {
            if let Ok(Some(check)) = self.state.addressee(&ping.target) {
                found.entry(check).or_insert(ping);
            }
        }
        let sharers = if is_ahead { found.len() as u32 } else { 0 };
        for (_, ping) in found {
            // Found just now, so not refused.
            let _ = self.ping(ping, sharers, now);
        }
        Outcome::Done
    }

    /// Logs a ping. Its body was written ahead for so many `sharers`, or is to be written with it.
    fn ping(&mut self, request: PingRequest, sharers: u32, now: Moment) -> Applied {
        let stored = self.stored(&request);
        let PingRequest { target, signal, origin, rid, body } = request;
        let key = match &target {
            Target::Slug { key, .. } => self.state.ping_key(key).map(|key| key.id),
            Target::Uuid(_) => None,
        };
        let (id, created) = self.addressee(target, now)?;
        self.notice(id, now);
        let check = self.state.check(id).ok_or(Refusal::NotFound)?;
        let (settings, mut state) = (Arc::clone(&check.settings), check.state);
        let meaning = if state.status == Status::Paused && settings.manual_resume {
            Meaning::Ignored
        } else {
            meaning(&settings, &signal, origin.method, &body)
        };
        let exit = if let Signal::Exit(status) = signal { Some(status) } else { None };
        let mut flips = Vec::new();
        let deadline = state.deadline(&settings);
        state.ping(&settings, meaning, rid, now, &mut flips);
        let arrival = Arrival(self.numbers.arrival);
        self.numbers.arrival += 1;
        // Bodies are far smaller than 4 GiB: the doors see to that.
        let body_len = stored.len() as u32;
        let (n, previous, kind) = (state.n_pings, state.last_arrival, meaning.kind());
        let ping = Ping { check: id, n, previous, at: now, kind, origin, rid, exit, body_len, sharers };
        self.numbers.bytes += ping.long_bytes();
        state.last_arrival = arrival;
        if let (Some(key), Some(from)) = (key, ping.origin.remote_addr) {
            self.note_key_use(key, now, from);
        }
        self.effects.pings.push((arrival, ping, stored));
        let sooner = state.deadline(&settings).is_some_and(|new| deadline.is_none_or(|old| new < old));
        self.pinged(id, state, sooner, arrival, &flips, now);
        Ok(if created { Outcome::PingedNew } else { Outcome::Pinged })
    }

    /// The check has become this by a ping. What has been told of it stands in its row alone, so that is written if it changes.
    fn pinged(&mut self, id: CheckId, state: CheckState, sooner: bool, arrival: Arrival, flips: &[Flip], now: Moment) {
        let is_held = matches!(state.telling, Telling::Due { .. });
        let check = if flips.is_empty() && !is_held { None } else { self.state.check(id).cloned() };
        let Some(mut check) = check else { return self.change(Change::Pinged { id, state, sooner }) };
        check.state = state;
        self.log_flips(&mut check, arrival, flips, now);
        self.tell_if_due(&mut check, false, now);
        let told = check.state.telling != state.telling;
        let project = check.project;
        self.change(if told { Change::Check(Box::new(check)) } else { Change::Pinged { id, state: check.state, sooner } });
        self.release_children(project, id, now);
    }

    /// The check that a ping is for, and whether it was made for it.
    fn addressee(&mut self, target: Target, now: Moment) -> Result<(CheckId, bool), Refusal> {
        if let Some(id) = self.state.addressee(&target)? {
            return Ok((id, false));
        }
        let Target::Slug { key, slug, create: Some(names) } = target else { return Err(Refusal::NotFound) };
        if !slug.fits() {
            return Err(Refusal::NotFound);
        }
        let project = self.state.project_by_ping_key(&key).ok_or(Refusal::NotFound)?;
        // Pings may go to twice the limit that the API has.
        let most = |limit: Option<usize>| Some(limit.map_or(MOST_MADE_BY_PINGS, |limit| limit.saturating_mul(2)));
        if self.room_for_check(project, most).is_err() {
            // The answer does not say why.
            if self.full.insert(project) {
                self.effects.full.push(project);
            }
            return Err(Refusal::NotFound);
        }
        let settings = Settings {
            name: Name::stored(slug.as_str()),
            slug,
            channels: self.chosen_channels(project, &ChannelChoice::All)?,
            ..Settings::default()
        };
        self.full.remove(&project);
        Ok((self.insert_check(project, names, settings, now).id, true))
    }
}

/// What a ping means to a check with these settings.
fn meaning(settings: &Settings, signal: &Signal, method: Method, body: &Bytes) -> Meaning {
    let said = match signal {
        Signal::Http(kind) => Meaning::from(*kind),
        Signal::Exit(status) => Meaning::of_exit(*status),
        Signal::Email { subject, text, said } => {
            let said = said.as_ref().filter(|said| said.by.classifies_like(settings)).map(|said| said.meaning);
            return said.unwrap_or_else(|| settings.classify_mail(subject, text));
        }
    };
    if settings.post_only && method != Method::Post {
        return Meaning::Ignored;
    }
    if settings.filters.http_body {
        // Bytes that are not UTF-8 are replaced, not refused.
        return settings.classify(&String::from_utf8_lossy(body.get(..SEARCHED_BYTES).unwrap_or(body)));
    }
    said
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::command::{CheckNames, Command, NewKey};
    use super::super::fixture;
    use super::*;
    use crate::domain::ping::{Kind, Origin, Scheme};
    use crate::domain::project::{KeyLabel, PingKey, Secret};
    use crate::domain::text::Slug;

    #[test]
    fn a_full_project_is_told_once_until_it_has_room_again() {
        let mut working = fixture::working();
        let now = fixture::NOW;
        let (project, key) = (fixture::MAIN, PingKey::parse("aZ09-_aZ09-_aZ09-_aZ09").unwrap());
        let new = NewKey { project, secret: Secret::Ping(key.clone()), label: KeyLabel::default(), hint: "aZ09".into() };
        working.apply(Command::CreateKey(Box::new(new)), now).unwrap();
        let mut told = |number: u128, limit: u32| {
            let set = Command::SetProject { project, name: None, check_limit: Some(Some(limit)), ping_log_limit: None };
            working.apply(set, now).unwrap();
            let names = CheckNames { uuid: Uuid::from_u128(number), badge: Uuid::from_u128(number) };
            let target = Target::Slug { key: key.clone(), slug: Slug::parse(&format!("s{number}")).unwrap(), create: Some(names) };
            let origin = Origin { scheme: Scheme::Http, method: Method::Get, remote_addr: None, ua: "".into() };
            let ping = PingRequest { target, signal: Signal::Http(Kind::Success), origin, rid: None, body: Bytes::new() };
            let made = working.apply(Command::Ping(Box::new(ping)), now).is_ok();
            (made, std::mem::take(&mut working.effects.full))
        };
        // Pings may make twice as many as the limit says.
        let found = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1)].map(|(number, limit)| told(number, limit));
        let wanted = [(true, 0), (true, 0), (false, 1), (false, 0), (true, 0), (false, 1)];
        assert_eq!(found, wanted.map(|(made, times)| (made, vec![project; times])));
    }
}
