//! A state without a file, to which tests give commands.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::super::command::{CheckNames, Command, CreateCheck, NewChannel, NewProject, Outcome, PingRequest, Signal, Target};
use super::super::state::State;
use super::{AudienceNotes, Effects, Numbers, WorkingState};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::edit::{ChannelChoice, Edit};
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Method, Origin, Scheme};
use crate::domain::project::{ChannelName, ProjectName};

pub(super) const NOW: Moment = Moment::from_secs(1_800_000_000);
pub(super) const MAIN: ProjectId = ProjectId(1);

/// A state with one project.
pub(super) fn working() -> WorkingState {
    let numbers = Numbers { id: 1, arrival: 1, flip: 1, delivery: 1, bytes: 0 };
    let (state, effects) = (State::default(), Effects::default());
    let (large, most_alert_rows, full) = (usize::MAX, 1000, BTreeSet::new());
    let mut working = WorkingState {
        state,
        numbers,
        effects,
        body_limit: 100,
        is_served: true,
        large,
        most_alert_rows,
        audience_notes: AudienceNotes::default(),
        rows_before: 0,
        full,
    };
    let name = ProjectName::parse("p").unwrap();
    let new = NewProject { uuid: Uuid::nil(), name, check_limit: None, ping_log_limit: 10, badge_key: "b".into() };
    working.apply(Command::CreateProject(Box::new(new)), NOW).unwrap();
    working
}

pub(super) fn channel(working: &mut WorkingState, kind: &str, settings: &[(&str, &str)]) -> ChannelId {
    let settings = ChannelSettings::parse(ChannelKind::named(kind).unwrap(), settings.iter().copied()).unwrap();
    let (uuid, name) = (Uuid::from_u128(u128::from(working.numbers.id)), ChannelName::parse("").unwrap());
    let new = NewChannel { uuid, project: MAIN, name, settings, operator: true };
    match working.apply(Command::CreateChannel(Box::new(new)), NOW) {
        Ok(Outcome::Channel(channel)) => channel.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// A check with this UUID, assigned to all channels.
pub(super) fn check(working: &mut WorkingState, uuid: u128) -> CheckId {
    let names = CheckNames { uuid: Uuid::from_u128(uuid), badge: Uuid::from_u128(uuid + (1 << 64)) };
    let edit = Edit { channels: Some(ChannelChoice::All), ..Edit::default() };
    let new = CreateCheck { project: MAIN, edit, unique: Vec::new(), names };
    match working.apply(Command::CreateCheck(Box::new(new)), NOW) {
        Ok(Outcome::Created(check)) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

pub(super) fn ping(working: &mut WorkingState, uuid: u128, kind: Kind, now: Moment) {
    let origin = Origin { scheme: Scheme::Http, method: Method::Get, remote_addr: None, ua: "".into() };
    let (target, signal) = (Target::Uuid(Uuid::from_u128(uuid)), Signal::Http(kind));
    let ping = PingRequest { target, signal, origin, rid: None, body: Bytes::new() };
    working.apply(Command::Ping(Box::new(ping)), now).unwrap();
}

/// Puts rows for a channel into the outbox, one for each of as many checks, until its project may have no more.
pub(super) fn fill_outbox(working: &mut WorkingState, channel: ChannelId) {
    use super::super::state::Change;
    use crate::domain::alert::{Event, OutboxRow};
    use crate::domain::ids::FlipNumber;
    while !working.state.outbox.is_full_for(MAIN) {
        let number = working.next_delivery();
        let row = OutboxRow::new(number, channel, CheckId(1_000_000 + number.0), FlipNumber(1), Event::Down, NOW, NOW);
        working.change(Change::Queued(Arc::new(row)));
    }
}
