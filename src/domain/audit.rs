//! Audit logs: changes with their authors and times. Each project has a log, and the server one of
//! its own. A log keeps its newest entries.

use std::fmt;
use std::net::IpAddr;

use super::ids::ProjectId;
use super::timestamp::Timestamp;

/// Maximum number of entries of one log: see [limits](crate::docs::limits).
pub const MAX_AUDIT_ENTRIES: u64 = 5_000;
/// Maximum number of names in an entry. Actions on further objects are only counted.
pub const MAX_AUDIT_NAMES: usize = 10;
/// Seconds for which equal actions of an actor are added to one entry.
const MERGE_SECS: i64 = 60;
/// Maximum number of characters of a name in an entry.
const MAX_NAME_CHARS: usize = 100;

/// Declares an enum whose variants have a number in the database, a word in JSON and a text for
/// people.
macro_rules! stored_words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $word:literal, $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),*
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Word in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            /// Text for people.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }

            /// Number in the database.
            pub fn number(self) -> u8 {
                match self {
                    $(Self::$variant => $number),*
                }
            }

            /// Returns the value with a number in the database.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.number() == number)
            }
        }
    };
}

stored_words! {
    /// Way by which an actor reached the server.
    ActorKind {
        /// User of the dashboard. Without sign-in it has no name.
        User = 0, "user", "user";
        /// Client of the API, by the name of its key.
        ApiKey = 1, "api_key", "API key";
        /// Command line on the machine.
        CommandLine = 2, "command_line", "command line";
        /// Server itself, for example when it applies its configuration file.
        Server = 3, "server", "server";
        /// Proxy that signs users in.
        Proxy = 4, "proxy", "proxy";
    }
}

stored_words! {
    /// Action of an actor.
    AuditAction {
        /// Created an object.
        Created = 0, "created", "created";
        /// Changed an object.
        Changed = 1, "changed", "changed";
        /// Deleted an object, or revoked a key.
        Deleted = 2, "deleted", "deleted";
        /// Paused a check.
        Paused = 3, "paused", "paused";
        /// Resumed a check.
        Resumed = 4, "resumed", "resumed";
        /// Returned a check to its state before it was paused or resumed.
        Restored = 5, "restored", "restored";
        /// Enabled a channel.
        Enabled = 6, "enabled", "enabled";
        /// Disabled a channel.
        Disabled = 7, "disabled", "disabled";
        /// Assigned a channel to checks, or removed the assignment.
        Assigned = 8, "assigned", "assigned";
        /// Signed in.
        SignedIn = 9, "signed_in", "signed in";
        /// Ended sessions.
        SignedOut = 10, "signed_out", "signed out";
        /// Created a link that sets a password.
        Linked = 11, "linked", "created a link for";
        /// Imported a project.
        Imported = 12, "imported", "imported";
        /// Ended the trial of an imported project.
        Released = 13, "released", "released";
        /// Sent an alert again.
        Retried = 14, "retried", "sent an alert again about";
        /// Set the password of a user.
        PasswordSet = 15, "password_set", "set the password of";
    }
}

stored_words! {
    /// Kind of the objects that an entry is about.
    AuditObject {
        /// A check.
        Check = 0, "check", "check";
        /// A channel.
        Channel = 1, "channel", "channel";
        /// A key of a project.
        Key = 2, "key", "key";
        /// A maintenance window.
        Window = 3, "window", "maintenance window";
        /// A status page.
        StatusPage = 4, "status_page", "status page";
        /// A project.
        Project = 5, "project", "project";
        /// A user.
        User = 6, "user", "user";
    }
}

/// Author of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// Way by which the actor reached the server.
    pub kind: ActorKind,
    /// Name of the user or key at the time. Empty if there is none.
    pub name: Box<str>,
    /// Address of the client, if it came through the network.
    pub address: Option<IpAddr>,
}

impl Actor {
    /// The server itself, which applies its configuration files.
    pub fn server() -> Self {
        Self::without_name(ActorKind::Server)
    }

    /// The command line on the machine.
    pub fn command_line() -> Self {
        Self::without_name(ActorKind::CommandLine)
    }

    /// The holder of the instance key, at this address.
    pub fn instance_key(address: IpAddr) -> Self {
        Self {
            kind: ActorKind::ApiKey,
            name: "of the instance".into(),
            address: Some(address),
        }
    }

    fn without_name(kind: ActorKind) -> Self {
        Self {
            kind,
            name: "".into(),
            address: None,
        }
    }
}

impl fmt::Display for Actor {
    /// Writes kind and name, such as `user anna`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &*self.name) {
            (ActorKind::User, "") => f.write_str("dashboard without sign-in"),
            (kind, "") => f.write_str(kind.text()),
            (kind, name) => write!(f, "{} {name}", kind.text()),
        }
    }
}

/// Log that an entry belongs to. Ordered, so that it can begin the key of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AuditScope {
    /// Users, sessions, and projects that are created or deleted.
    Server,
    /// A project and the objects that belong to it.
    Project(ProjectId),
}

impl AuditScope {
    /// Number in the database.
    pub fn number(self) -> u64 {
        match self {
            Self::Server => 0,
            Self::Project(project) => project.0,
        }
    }

    /// Returns the scope with a number in the database.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Server,
            project => Self::Project(ProjectId(project)),
        }
    }
}

/// Action to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEvent {
    /// Log that it belongs to.
    pub scope: AuditScope,
    /// Action of the actor.
    pub action: AuditAction,
    /// Kind of the object.
    pub object: AuditObject,
    /// Name of the object. Empty if it has none.
    pub name: Box<str>,
}

/// Entry of an audit log: equal actions of one actor within a minute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Log that it belongs to.
    pub scope: AuditScope,
    /// Number in that log, from 1.
    pub number: u64,
    /// Time of the first action.
    pub at: Timestamp,
    /// Author of the actions.
    pub actor: Actor,
    /// Action of the actor.
    pub action: AuditAction,
    /// Kind of the objects.
    pub object: AuditObject,
    /// Names of the objects, each once, at most [`MAX_AUDIT_NAMES`].
    pub names: Vec<Box<str>>,
    /// Number of actions.
    pub count: u32,
}

impl AuditEntry {
    /// Entry of a first action.
    pub fn new(number: u64, actor: Actor, event: AuditEvent, now: Timestamp) -> Self {
        Self {
            scope: event.scope,
            number,
            at: now,
            actor,
            action: event.action,
            object: event.object,
            names: vec![shortened(event.name)],
            count: 1,
        }
    }

    /// Returns the entry with one more action. `None` if the action is by another actor, of another
    /// kind, or later than a minute.
    pub fn merged(&self, actor: &Actor, event: &AuditEvent, now: Timestamp) -> Option<Self> {
        let is_equal = self.actor == *actor
            && self.scope == event.scope
            && self.action == event.action
            && self.object == event.object
            && self.at <= now
            && now < self.at.plus_secs(MERGE_SECS);
        if !is_equal {
            return None;
        }
        let mut entry = self.clone();
        entry.count = entry.count.saturating_add(1);
        let name = shortened(event.name.clone());
        if !entry.names.contains(&name) && entry.names.len() < MAX_AUDIT_NAMES {
            entry.names.push(name);
        }
        Some(entry)
    }

    /// Description of the actions, such as `paused 3 checks: a, b, c`.
    pub fn description(&self) -> String {
        let action = self.action.text();
        if self.action == AuditAction::SignedIn {
            // The actor is the object.
            return match self.count {
                1 => action.to_owned(),
                count => format!("{action} {count} times"),
            };
        }
        let object = self.object.text();
        let names = self.names.join(", ");
        let separated = |separator: &str| match names.is_empty() {
            true => String::new(),
            false => format!("{separator}{names}"),
        };
        match (self.count, self.names.len()) {
            (1, _) => format!("{action} {object}{}", separated(" ")),
            (count, 0 | 1) => format!("{action} {object}{}, {count} times", separated(" ")),
            (count, named) if count as usize == named => {
                format!("{action} {named} {object}s{}", separated(": "))
            }
            (count, MAX_AUDIT_NAMES) => {
                format!("{action} {object}s, {count} times, among them {names}")
            }
            (count, _) => format!("{action} {object}s{}, {count} times", separated(": ")),
        }
    }
}

fn shortened(name: Box<str>) -> Box<str> {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(name: &str) -> Actor {
        Actor {
            kind: ActorKind::User,
            name: name.into(),
            address: None,
        }
    }

    fn event(action: AuditAction, name: &str) -> AuditEvent {
        AuditEvent {
            scope: AuditScope::Project(ProjectId(3)),
            action,
            object: AuditObject::Check,
            name: name.into(),
        }
    }

    #[test]
    fn equal_actions_within_a_minute_become_one_entry() {
        let start = Timestamp::from_secs(1_700_000_000);
        let paused = event(AuditAction::Paused, "a");
        let first = AuditEntry::new(7, actor("anna"), paused.clone(), start);
        assert_eq!(first.description(), "paused check a");
        let again = first.merged(&actor("anna"), &paused, start).unwrap();
        assert_eq!(again.description(), "paused check a, 2 times");
        let mut entry = first.clone();
        for name in ["b", "c"] {
            entry = entry
                .merged(
                    &actor("anna"),
                    &event(AuditAction::Paused, name),
                    start.plus_secs(59),
                )
                .unwrap();
        }
        assert_eq!(entry.description(), "paused 3 checks: a, b, c");
        for n in 0..20 {
            let paused = event(AuditAction::Paused, &format!("check {n}"));
            entry = entry.merged(&actor("anna"), &paused, start).unwrap();
        }
        assert_eq!((entry.names.len(), entry.count), (MAX_AUDIT_NAMES, 23));
        assert!(
            entry
                .description()
                .starts_with("paused checks, 23 times, among them a, ")
        );
        for (actor, event, now) in [
            (actor("bert"), paused.clone(), start),
            (actor("anna"), event(AuditAction::Resumed, "a"), start),
            (actor("anna"), paused.clone(), start.plus_secs(60)),
            (actor("anna"), paused, start.plus_secs(-1)),
        ] {
            assert_eq!(first.merged(&actor, &event, now), None);
        }
    }

    #[test]
    fn stored_numbers_are_unique() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::from_number(action.number()), Some(*action));
        }
        for object in AuditObject::ALL {
            assert_eq!(AuditObject::from_number(object.number()), Some(*object));
        }
        for kind in ActorKind::ALL {
            assert_eq!(ActorKind::from_number(kind.number()), Some(*kind));
        }
    }

    #[test]
    fn long_names_are_shortened() {
        let long = "é".repeat(200);
        let entry = AuditEntry::new(
            1,
            actor("anna"),
            event(AuditAction::Created, &long),
            Timestamp::from_secs(0),
        );
        assert_eq!(entry.names[0].chars().count(), MAX_NAME_CHARS + 1);
    }
}
