//! Commands as tests submit them, where what they hold beside the essential does not matter.

use bytes::Bytes;
use overdue::domain::edit::Edit;
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::ProjectName;
use overdue::engine::command::{CheckNames, Command, CreateCheck, NewProject, PingRequest, Said, Signal, Target};
use overdue::random::Random;
use uuid::Uuid;

/// Makes a project without a check limit.
pub(crate) fn create_project(random: &Random, name: &str, ping_log_limit: u32) -> Command {
    Command::CreateProject(Box::new(NewProject {
        uuid: random.uuid(),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit,
        badge_key: random.url_safe::<22>().into(),
    }))
}

/// Makes a check whose UUID is this number.
pub(crate) fn create_check(project: ProjectId, uuid: u128, edit: Edit) -> Command {
    let names = CheckNames { uuid: Uuid::from_u128(uuid), badge: Uuid::from_u128(uuid + (1 << 64)) };
    Command::CreateCheck(Box::new(CreateCheck { project, edit, unique: Vec::new(), names }))
}

/// A ping by POST to the check whose UUID is this number.
pub(crate) fn ping(uuid: u128, kind: Kind, body: impl Into<Bytes>) -> Command {
    let origin = Origin { scheme: Scheme::Http, method: Method::Post, remote_addr: Some([127, 0, 0, 1].into()), ua: "test".into() };
    let (target, signal) = (Target::Uuid(Uuid::from_u128(uuid)), Signal::Http(kind));
    Command::Ping(Box::new(PingRequest { target, signal, origin, rid: None, body: body.into() }))
}

/// What a mail to the check whose UUID is this number asks for.
pub(crate) fn email(uuid: u128, subject: &str, said: Option<Said>, body: impl Into<Bytes>) -> PingRequest {
    let origin = Origin { scheme: Scheme::Email, method: Method::None, remote_addr: Some([127, 0, 0, 1].into()), ua: "test".into() };
    let signal = Signal::Email { subject: subject.into(), text: "".into(), said };
    PingRequest { target: Target::Uuid(Uuid::from_u128(uuid)), signal, origin, rid: None, body: body.into() }
}
