//! Sender of messages on an engine in memory that the test steps, for tests of parts of the
//! notifier.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::NotifierConfig;
use super::sender::MessageSender;
use crate::channels;
use crate::domain::channel::ChannelSettings;
use crate::domain::check::Check;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use crate::domain::project::{ChannelName, ProjectName};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::engine::command::{
    CheckUuids, Command, CommandOutcome, CreateCheckRequest, NewChannel, NewProject, PingRequest,
    PingSignal, PingTarget,
};
use crate::engine::{self, EngineConfig, Writer};
use crate::outbound::{Outbound, OutboundConfig};
use crate::store::Medium;
use crate::util::clock::{Clock, ManualClock};
use crate::util::random::Random;

pub(super) const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const MAIN_PROJECT: ProjectId = ProjectId(1);

pub(super) struct SenderFixture {
    pub(super) sender: MessageSender,
    pub(super) clock: Arc<ManualClock>,
    writer: Writer,
}

impl SenderFixture {
    /// Engine with one project.
    pub(super) fn new() -> Self {
        let clock = ManualClock::at(START);
        let config = EngineConfig {
            clock: Clock::Manual(Arc::clone(&clock)),
            random: Random::seeded(1),
            ..EngineConfig::new(Medium::memory(), 100)
        };
        let (handle, writer) = engine::open(config).unwrap();
        let outbound = OutboundConfig::default();
        let config = NotifierConfig {
            outbound: Outbound::new(outbound, &Clock::System, Random::System).unwrap(),
            zone: Timezone::utc(),
            host: "overdue.test".into(),
            heartbeat: None,
            last_round: Arc::default(),
            render_check: Box::new(|_| String::new()),
            pages_url: None,
            unsubscribe_links: None,
        };
        let sender = MessageSender::new(handle, config);
        let mut fixture = Self {
            sender,
            clock,
            writer,
        };
        fixture.execute(Command::CreateProject(Box::new(NewProject {
            uuid: Uuid::nil(),
            name: ProjectName::parse("Home").unwrap(),
            check_limit: None,
            ping_log_limit: 100,
            badge_key: "b".into(),
        })));
        fixture
    }

    pub(super) fn execute(&mut self, command: Command) -> CommandOutcome {
        let mut reply = self.sender.handle.submit(command).unwrap();
        self.writer.step(false).unwrap();
        reply.try_recv().unwrap().unwrap().unwrap()
    }

    pub(super) fn add_channel(&mut self, kind: &str, settings: &[(&str, &str)]) -> ChannelId {
        let kind = channels::find_kind(kind).unwrap();
        let settings = ChannelSettings::parse(kind, settings.iter().copied()).unwrap();
        let new = NewChannel {
            uuid: Uuid::from_u128(1),
            project: MAIN_PROJECT,
            name: ChannelName::parse("").unwrap(),
            settings,
            set_by_operator: true,
        };
        match self.execute(Command::CreateChannel(Box::new(new))) {
            CommandOutcome::Channel(channel) => channel.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Adds a check with this UUID, assigned to all channels.
    pub(super) fn add_check(&mut self, uuid: u128) {
        let edit = CheckEdit {
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        self.execute(Command::CreateCheck(Box::new(CreateCheckRequest {
            project: MAIN_PROJECT,
            edit,
            unique: Vec::new(),
            uuids: CheckUuids {
                uuid: Uuid::from_u128(uuid),
                badge: Uuid::from_u128(uuid + (1 << 64)),
            },
        })));
    }

    pub(super) fn read_check(&self, uuid: u128) -> Check {
        let uuid = Uuid::from_u128(uuid);
        let handle = &self.sender.handle;
        handle.with_state(|state| state.check_by_uuid(uuid).unwrap().clone())
    }

    pub(super) fn send_ping(&mut self, uuid: u128, kind: PingKind) {
        let origin = PingOrigin {
            scheme: PingScheme::Http,
            method: PingMethod::Get,
            remote_addr: None,
            user_agent: "".into(),
        };
        self.execute(Command::Ping(Box::new(PingRequest {
            target: PingTarget::Uuid(Uuid::from_u128(uuid)),
            signal: PingSignal::Http(kind),
            origin,
            rid: None,
            body: Bytes::new(),
        })));
    }
}
