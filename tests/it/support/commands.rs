//! Commands for tests, with defaults for the fields that do not matter.

use bytes::Bytes;
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::ProjectName;
use overdue::engine::command::{
    CheckUuids, Command, CreateCheckRequest, NewProject, PingRequest, PingSignal, PingTarget,
    PrecomputedMeaning,
};
use overdue::util::random::Random;
use uuid::Uuid;

/// Creates a project without a check limit.
pub(crate) fn create_project(random: &Random, name: &str, ping_log_limit: u32) -> Command {
    Command::CreateProject(Box::new(NewProject {
        uuid: random.uuid(),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit,
        badge_key: random.url_safe::<22>().into(),
    }))
}

/// Creates a check with this number as its UUID.
pub(crate) fn create_check(project: ProjectId, uuid: u128, edit: CheckEdit) -> Command {
    let names = CheckUuids {
        uuid: Uuid::from_u128(uuid),
        badge: Uuid::from_u128(uuid + (1 << 64)),
    };
    Command::CreateCheck(Box::new(CreateCheckRequest {
        project,
        edit,
        unique: Vec::new(),
        uuids: names,
    }))
}

/// A ping by POST to the check with this number as its UUID.
pub(crate) fn ping(uuid: u128, kind: PingKind, body: impl Into<Bytes>) -> Command {
    let origin = PingOrigin {
        scheme: PingScheme::Http,
        method: PingMethod::Post,
        remote_addr: Some([127, 0, 0, 1].into()),
        user_agent: "test".into(),
    };
    let target = PingTarget::Uuid(Uuid::from_u128(uuid));
    let signal = PingSignal::Http(kind);
    Command::Ping(Box::new(PingRequest {
        target,
        signal,
        origin,
        rid: None,
        body: body.into(),
    }))
}

/// Request that a mail to the check with this number as its UUID makes.
pub(crate) fn email_ping(
    uuid: u128,
    subject: &str,
    said: Option<PrecomputedMeaning>,
    body: impl Into<Bytes>,
) -> PingRequest {
    let origin = PingOrigin {
        scheme: PingScheme::Email,
        method: PingMethod::None,
        remote_addr: Some([127, 0, 0, 1].into()),
        user_agent: "test".into(),
    };
    let signal = PingSignal::Email {
        subject: subject.into(),
        text: "".into(),
        precomputed: said,
    };
    PingRequest {
        target: PingTarget::Uuid(Uuid::from_u128(uuid)),
        signal,
        origin,
        rid: None,
        body: body.into(),
    }
}
