//! Projects, their keys and their notification channels: what checks belong to and who may ask for them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use uuid::Uuid;

use super::alert::ChannelHealth;
use super::channel::{ChannelSettings, SettingsAuthor};
use super::ids::{ChannelId, KeyId, ProjectId, parse_hyphenated_uuid};
use super::import_item::ProjectImport;
use super::legacy_keys::{LegacyBadgeKey, LegacyKey};
use super::timestamp::Timestamp;

/// Pings that a check's log keeps unless its project says otherwise: see [limits](crate::docs::limits).
pub const DEFAULT_PING_LOG_LIMIT: u32 = 100;

/// A project: a set of checks with keys and channels of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    /// Its number.
    pub id: ProjectId,
    /// Its UUID, for people and scripts.
    pub uuid: Uuid,
    /// Its name, unique among projects.
    pub name: ProjectName,
    /// How many checks the API may create; auto-provisioning goes to twice as many. `None`: no limit.
    pub check_limit: Option<u32>,
    /// How many pings of each check are kept.
    pub ping_log_limit: u32,
    /// The segment that names the project in badge URLs.
    pub badge_key: Box<str>,
    /// What signed the badge URLs that it had at another server, which go on working.
    pub legacy_badge: Option<LegacyBadgeKey>,
    /// What there is to know of the import that brought it; `None`: it was made here.
    pub import: Option<ProjectImport>,
}

impl Project {
    /// Whether it is on trial: nobody is told anything of it.
    pub fn is_on_trial(&self) -> bool {
        self.import.as_ref().is_some_and(|import| import.is_on_trial)
    }
}

/// Characters of the name of a project or channel, and of the label of a key: see [limits](crate::docs::limits).
const MAX_NAME_CHARS: usize = 100;

/// A text that fits one line of a list, or one of the two reasons why it does not: too long, or a control character in it.
fn parse_one_line(text: &str, too_long: &'static str, control: &'static str) -> Result<Box<str>, &'static str> {
    match text {
        _ if text.chars().count() > MAX_NAME_CHARS => Err(too_long),
        _ if text.chars().any(char::is_control) => Err(control),
        _ => Ok(text.into()),
    }
}

/// A project's name: 1 to 100 characters without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProjectName(Box<str>);

impl ProjectName {
    /// Refuses empty names, more than 100 characters and control characters; the message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("a project's name cannot be empty");
        }
        parse_one_line(text, "a project's name has at most 100 characters", "a project's name has no control characters").map(Self)
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A channel's name: at most 100 characters without control characters. It may be empty and need not be unique.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelName(Box<str>);

impl ChannelName {
    /// Refuses more than 100 characters and control characters; the message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        parse_one_line(text, "a channel's name has at most 100 characters", "a channel's name has no control characters").map(Self)
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a key opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyAccess {
    /// The whole API.
    ReadWrite,
    /// Some reading endpoints, without the secrets of checks.
    ReadOnly,
    /// Pinging by slug; not the API.
    Ping,
}

impl KeyAccess {
    /// Every kind of access.
    pub const ALL: [Self; 3] = [Self::ReadWrite, Self::ReadOnly, Self::Ping];

    /// The word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::Ping => "ping",
        }
    }

    /// The access of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.name() == text)
    }
}

/// A ping key: 1 to 128 of `A-Za-z0-9_-`, but nothing of the form of a UUID, which stands in the same place of URLs. It is kept in the
/// clear, since it is shown again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PingKey(Box<str>);

impl PingKey {
    /// How many characters one has that is made here.
    pub const GENERATED_LENGTH: usize = 22;
    /// How many one may have that comes from elsewhere.
    pub const MAX_LENGTH: usize = 128;

    /// `None` if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_key = (1..=Self::MAX_LENGTH).contains(&text.len()) && text.bytes().all(fits) && parse_hyphenated_uuid(text).is_none();
        is_key.then(|| Self(text.into()))
    }

    /// The key itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PingKey(..)")
    }
}

/// The SHA-256 of an API key; the key itself is not kept. Keys are looked up by it, in maps: the time of that tells at most how near the hash of
/// a guess is to a stored hash, which helps nobody to guess better.
#[derive(Clone, Copy, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_slice(), &other.0).into()
    }
}

impl std::hash::Hash for KeyHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl KeyHash {
    /// How many characters an API key has.
    pub const KEY_LENGTH: usize = 32;

    /// The hash of an API key.
    pub fn of_key(key: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(key).into())
    }
}

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

/// What signs badge URLs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BadgeSecret(pub [u8; 32]);

impl std::fmt::Debug for BadgeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BadgeSecret(..)")
    }
}

/// What a key is recognised by, and what it opens with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySecret {
    /// An API key that may write.
    ReadWrite(KeyHash),
    /// An API key that may read.
    ReadOnly(KeyHash),
    /// A ping key.
    Ping(PingKey),
    /// An API key of another server that nobody has used here yet.
    Legacy(LegacyKey),
}

impl KeySecret {
    /// What the key opens.
    pub fn access(&self) -> KeyAccess {
        match self {
            Self::ReadWrite(_) => KeyAccess::ReadWrite,
            Self::ReadOnly(_) => KeyAccess::ReadOnly,
            Self::Ping(_) => KeyAccess::Ping,
            Self::Legacy(LegacyKey { read_only: true, .. }) => KeyAccess::ReadOnly,
            Self::Legacy(_) => KeyAccess::ReadWrite,
        }
    }
}

/// A key of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectKey {
    /// Its number, which is also its public name for list and revoke.
    pub id: KeyId,
    /// Whose key it is.
    pub project: ProjectId,
    /// What it is recognised by.
    pub secret: KeySecret,
    /// What its owner calls it; may be empty.
    pub label: KeyLabel,
    /// Its first four characters, by which people tell keys apart; empty for one made by release 0.1.
    pub hint: Box<str>,
    /// When it was made.
    pub created: Timestamp,
    /// When and from where it was last used. Of the uses within an hour only the first is noted.
    pub last_use: Option<KeyUse>,
}

impl ProjectKey {
    /// Characters of a key that are shown.
    pub const HINT_LENGTH: usize = 4;
    /// Characters that the hint of an imported key may have: of a hashed one the prefix and the eight that the other server shows.
    pub const MAX_IMPORTED_HINT_LENGTH: usize = 12;

    /// Whether it came from another server and nobody has used it since.
    pub fn is_unused_since_import(&self) -> bool {
        matches!(self.secret, KeySecret::Legacy(_))
    }

    /// Whether a use in the same hour as `now` is noted already.
    pub fn is_use_recorded(&self, now: Timestamp) -> bool {
        let hour = |moment: Timestamp| moment.secs().div_euclid(3600);
        self.last_use.is_some_and(|used| hour(used.at) == hour(now))
    }
}

/// A use of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// The first use within its hour.
    pub at: Timestamp,
    /// The address of the client.
    pub from: IpAddr,
}

/// What its owner calls a key: at most 100 characters without control characters; may be empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyLabel(Box<str>);

impl KeyLabel {
    /// Refuses more than 100 characters and control characters; the message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        parse_one_line(text, "a key's label has at most 100 characters", "a key's label has no control characters").map(Self)
    }

    /// The label as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A notification channel of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Its number.
    pub id: ChannelId,
    /// Its UUID.
    pub uuid: Uuid,
    /// Whose channel it is.
    pub project: ProjectId,
    /// Its name.
    pub name: ChannelName,
    /// How it notifies.
    pub settings: ChannelSettings,
    /// Its settings were given by whoever administers the service, and not by a key of the API.
    pub set_by_operator: bool,
    /// What sending to it has shown.
    pub health: ChannelHealth,
}

impl Channel {
    /// Gives it settings. Whoever gives other ones is their maker from then on, and what sending with the old ones has shown says nothing of
    /// the new ones.
    pub fn replace_settings(&mut self, settings: ChannelSettings, maker: SettingsAuthor) {
        if settings != self.settings {
            self.set_by_operator = maker == SettingsAuthor::Operator;
            let unsubscribed = std::mem::take(&mut self.health.unsubscribed);
            let unsubscribed = unsubscribed.into_iter().filter(|recipient| settings.recipients().any(|other| other == &**recipient));
            self.health = ChannelHealth { unsubscribed: unsubscribed.collect(), ..ChannelHealth::default() };
            self.settings = settings;
        }
    }

    /// Whether it is the same but for when and why something is wrong with it.
    pub fn looks_same_as(&self, other: &Self) -> bool {
        let health = |of: &ChannelHealth| {
            (of.disabled.is_some(), of.failing.is_some(), std::mem::discriminant(&of.proof), of.unsubscribed.len(), of.refused.len())
        };
        health(&self.health) == health(&other.health) && Self { health: other.health.clone(), ..self.clone() } == *other
    }

    /// Whether this is its name, or its UUID in lower case.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_str() == name || self.uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == name
    }
}

/// Replaces the names of members that groups list, as databases and exports of earlier releases do, by UUIDs. A name stands for every
/// channel of the project that has it; one that no channel has stays.
pub fn resolve_group_members(channels: &mut [Channel]) {
    let mut named: BTreeMap<(ProjectId, Box<str>), Vec<Uuid>> = BTreeMap::new();
    for channel in channels.iter() {
        named.entry((channel.project, channel.name.as_str().into())).or_default().push(channel.uuid);
    }
    for channel in channels {
        let project = channel.project;
        let known = channel.settings.with_member_uuids(|name| named.get(&(project, name.into())).cloned().unwrap_or_default());
        if let Cow::Owned(settings) = known {
            channel.settings = settings;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_one_short_line() {
        let (longest, longer) = ("ž".repeat(100), "ž".repeat(101));
        for (text, fits) in
            [("a b", true), (longest.as_str(), true), (&longer, false), ("a\nb", false), ("a\u{7f}", false), ("\u{85}", false)]
        {
            let parsed = [ProjectName::parse(text).is_ok(), ChannelName::parse(text).is_ok(), KeyLabel::parse(text).is_ok()];
            assert_eq!(parsed, [fits; 3], "{text:?}");
        }
        assert!(ProjectName::parse("").is_err() && ChannelName::parse("").is_ok() && KeyLabel::parse("").is_ok());
        assert_eq!(KeyLabel::parse(&longer), Err("a key's label has at most 100 characters"));
        assert_eq!(KeyLabel::parse("\t"), Err("a key's label has no control characters"));
    }

    #[test]
    fn a_use_is_noted_once_in_every_hour_of_the_clock() {
        let used = Some(KeyUse { at: Timestamp::from_secs(7_199), from: [192, 0, 2, 1].into() });
        let key = |used| ProjectKey {
            id: KeyId(1),
            project: ProjectId(1),
            secret: KeySecret::ReadOnly(KeyHash([0; 32])),
            label: KeyLabel::default(),
            hint: "abcd".into(),
            created: Timestamp::default(),
            last_use: used,
        };
        for (secs, noted) in [(3_599, false), (3_600, true), (7_199, true), (7_200, false), (-1, false)] {
            assert_eq!(key(used).is_use_recorded(Timestamp::from_secs(secs)), noted, "{secs}");
        }
        assert!(!key(None).is_use_recorded(Timestamp::default()));
    }

    #[test]
    fn a_ping_key_is_no_uuid() {
        for key in ["a", "-", "Nightly_1", "aZ09-_aZ09-_aZ09-_aZ09", &"x".repeat(128), "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f"] {
            assert_eq!(PingKey::parse(key).map(|key| key.as_str().to_owned()).as_deref(), Some(key));
        }
        let uuid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        for wrong in ["", "a b", "a+b", "a/b", "ž", &"x".repeat(129), uuid, &uuid.to_uppercase()] {
            assert_eq!(PingKey::parse(wrong), None, "{wrong}");
        }
    }
}
