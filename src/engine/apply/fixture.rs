//! State without a file, for tests of commands.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::super::command::{
    CheckUuids, Command, CommandOutcome, CreateCheckRequest, NewChannel, NewProject, PingRequest,
    PingSignal, PingTarget,
};
use super::super::state::State;
use super::{AudienceStates, Effects, SequenceNumbers, WorkingState};
use crate::channels;
use crate::domain::channel::ChannelSettings;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use crate::domain::project::{ChannelName, ProjectName};
use crate::domain::timestamp::Timestamp;

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
pub(super) const MAIN_PROJECT: ProjectId = ProjectId(1);

/// State with one project.
pub(super) fn working_state() -> WorkingState {
    let numbers = SequenceNumbers {
        id: 1,
        arrival: 1,
        flip: 1,
        delivery: 1,
        body_bytes: 0,
    };
    let state = State::default();
    let effects = Effects::default();
    let upload_threshold_bytes = usize::MAX;
    let max_alert_rows = 1000;
    let projects_at_check_limit = BTreeSet::new();
    let mut working = WorkingState {
        state,
        numbers,
        effects,
        ping_body_limit: 100,
        accepts_pings: true,
        upload_threshold_bytes,
        max_alert_rows,
        audience_states: AudienceStates::default(),
        alert_rows_before: 0,
        unevaluated_checks: Vec::new(),
        projects_at_check_limit,
    };
    let name = ProjectName::parse("p").unwrap();
    let new = NewProject {
        uuid: Uuid::nil(),
        name,
        check_limit: None,
        ping_log_limit: 10,
        badge_key: "b".into(),
    };
    working
        .apply(Command::CreateProject(Box::new(new)), NOW)
        .unwrap();
    working
}

pub(super) fn add_channel(
    working: &mut WorkingState,
    kind: &str,
    settings: &[(&str, &str)],
) -> ChannelId {
    let settings =
        ChannelSettings::parse(channels::find_kind(kind).unwrap(), settings.iter().copied())
            .unwrap();
    let uuid = Uuid::from_u128(u128::from(working.numbers.id));
    let name = ChannelName::parse("").unwrap();
    let new = NewChannel {
        uuid,
        project: MAIN_PROJECT,
        name,
        settings,
        set_by_operator: true,
    };
    match working.apply(Command::CreateChannel(Box::new(new)), NOW) {
        Ok(CommandOutcome::Channel(channel)) => channel.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// Adds a check with this UUID, assigned to all channels.
pub(super) fn add_check(working: &mut WorkingState, uuid: u128) -> CheckId {
    let uuids = CheckUuids {
        uuid: Uuid::from_u128(uuid),
        badge: Uuid::from_u128(uuid + (1 << 64)),
    };
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        ..CheckEdit::default()
    };
    let new = CreateCheckRequest {
        project: MAIN_PROJECT,
        edit,
        unique: Vec::new(),
        uuids,
    };
    match working.apply(Command::CreateCheck(Box::new(new)), NOW) {
        Ok(CommandOutcome::CheckCreated(check)) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

pub(super) fn send_ping(working: &mut WorkingState, uuid: u128, kind: PingKind, now: Timestamp) {
    let origin = PingOrigin {
        scheme: PingScheme::Http,
        method: PingMethod::Get,
        remote_addr: None,
        user_agent: "".into(),
    };
    let target = PingTarget::Uuid(Uuid::from_u128(uuid));
    let signal = PingSignal::Http(kind);
    let ping = PingRequest {
        target,
        signal,
        origin,
        rid: None,
        body: Bytes::new(),
    };
    working.apply(Command::Ping(Box::new(ping)), now).unwrap();
}

/// Fills the outbox with rows for a channel, each about another check, up to the limit of its
/// project.
pub(super) fn fill_outbox(working: &mut WorkingState, channel: ChannelId) {
    use super::super::state::Change;
    use crate::domain::alert::{AlertEvent, OutboxRow};
    use crate::domain::ids::FlipNumber;
    while !working.state.outbox.is_full_for(MAIN_PROJECT) {
        let number = working.next_delivery_number();
        let row = OutboxRow::new(
            number,
            channel,
            CheckId(1_000_000 + number.0),
            FlipNumber(1),
            AlertEvent::Down,
            NOW,
            NOW,
        );
        working.record_change(Change::OutboxRow(Arc::new(row)));
    }
}
