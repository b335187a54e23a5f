//! Projects, their keys and their notification channels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use uuid::Uuid;

use super::alert::ChannelHealth;
use super::channel::{ChannelSettings, SettingsAuthor};
use super::ids::{ChannelId, KeyId, ProjectId, parse_hyphenated_uuid};
use super::import_item::ProjectImport;
use super::legacy_keys::{LegacyBadgeKey, LegacyKey};
use super::status_page::StatusPage;
use super::timestamp::Timestamp;

/// Default number of pings that are kept for each check: see [limits](crate::docs::limits).
pub const DEFAULT_PING_LOG_LIMIT: u32 = 100;

/// Project: a set of checks with keys and channels of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    /// Number of the project.
    pub id: ProjectId,
    /// UUID of the project, for people and scripts.
    pub uuid: Uuid,
    /// Name of the project, unique among projects.
    pub name: ProjectName,
    /// Maximum number of checks that the API may create; auto-provisioning may create twice as
    /// many. `None`: no limit.
    pub check_limit: Option<u32>,
    /// Number of pings that are kept for each check.
    pub ping_log_limit: u32,
    /// True if a ping that creates a check may give its settings in the URL.
    pub allows_ping_settings: bool,
    /// Segment of badge URLs that names the project.
    pub badge_key: Box<str>,
    /// Key that signed its badge URLs at another server. These URLs keep working.
    pub legacy_badge: Option<LegacyBadgeKey>,
    /// Data about the import of the project; `None` if it was created on this server.
    pub import: Option<ProjectImport>,
    /// Public status pages, oldest first.
    pub status_pages: Vec<StatusPage>,
}

impl Project {
    /// True if the project is on trial: no alerts are sent for it.
    pub fn is_on_trial(&self) -> bool {
        self.import
            .as_ref()
            .is_some_and(|import| import.is_on_trial)
    }
}

/// Maximum number of characters in the name of a project or channel, and in the label of a key: see
/// [limits](crate::docs::limits).
const MAX_NAME_CHARS: usize = 100;

/// Accepts a text for one line of a list. The error is one of the two given: too long, or a control
/// character.
fn parse_one_line(
    text: &str,
    too_long: &'static str,
    control: &'static str,
) -> Result<Box<str>, &'static str> {
    match text {
        _ if text.chars().count() > MAX_NAME_CHARS => Err(too_long),
        _ if text.chars().any(char::is_control) => Err(control),
        _ => Ok(text.into()),
    }
}

/// Name of a project: 1 to 100 characters without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProjectName(Box<str>);

impl ProjectName {
    /// Rejects empty names, more than 100 characters and control characters. The message says
    /// which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("a project's name cannot be empty");
        }
        parse_one_line(
            text,
            "a project's name has at most 100 characters",
            "a project's name has no control characters",
        )
        .map(Self)
    }

    /// Name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Name of a channel: at most 100 characters without control characters. It may be empty and need
/// not be unique.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelName(Box<str>);

impl ChannelName {
    /// Rejects more than 100 characters and control characters. The message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        parse_one_line(
            text,
            "a channel's name has at most 100 characters",
            "a channel's name has no control characters",
        )
        .map(Self)
    }

    /// Name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Access that a key gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyAccess {
    /// Whole API.
    ReadWrite,
    /// Some reading endpoints, without the secrets of checks.
    ReadOnly,
    /// Pinging by slug; no access to the API.
    Ping,
}

impl KeyAccess {
    /// Every kind of access.
    pub const ALL: [Self; 3] = [Self::ReadWrite, Self::ReadOnly, Self::Ping];

    /// Word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::Ping => "ping",
        }
    }

    /// Returns the access with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.name() == text)
    }
}

/// Ping key: 1 to 128 characters of `A-Za-z0-9_-`. A text of the form of a UUID is not allowed,
/// since URLs have a UUID in the same place. The key is stored in the clear, since it is shown
/// again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PingKey(Box<str>);

impl PingKey {
    /// Number of characters of a generated key.
    pub const GENERATED_LENGTH: usize = 22;
    /// Maximum number of characters of an imported or chosen key.
    pub const MAX_LENGTH: usize = 128;

    /// Parses a key; `None` if the text is not a ping key.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_key = (1..=Self::MAX_LENGTH).contains(&text.len())
            && text.bytes().all(fits)
            && parse_hyphenated_uuid(text).is_none();
        is_key.then(|| Self(text.into()))
    }

    /// Text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PingKey(..)")
    }
}

/// SHA-256 of a secret with enough randomness: an API key, a session token, a code. The secret
/// itself is not stored. Objects are looked up by it in maps. The timing shows at most how close
/// the hash of a guess is to a stored hash, which does not help to guess.
#[derive(Clone, Copy, Eq)]
pub struct SecretHash(pub [u8; 32]);

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_slice(), &other.0).into()
    }
}

impl std::hash::Hash for SecretHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl SecretHash {
    /// Computes the hash of a secret.
    pub fn of(secret: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(secret).into())
    }
}

impl std::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// Secret that signs badge URLs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BadgeSecret(pub [u8; 32]);

impl std::fmt::Debug for BadgeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BadgeSecret(..)")
    }
}

/// Stored form of a key, with the access that it gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySecret {
    /// API key with write access.
    ReadWrite(SecretHash),
    /// API key with read access.
    ReadOnly(SecretHash),
    /// Ping key.
    Ping(PingKey),
    /// API key of another server that has not been used on this server yet.
    Legacy(LegacyKey),
}

impl KeySecret {
    /// Number of characters of an API key.
    pub const KEY_LENGTH: usize = 32;

    /// Access that the key gives.
    pub fn access(&self) -> KeyAccess {
        match self {
            Self::ReadWrite(_) => KeyAccess::ReadWrite,
            Self::ReadOnly(_) => KeyAccess::ReadOnly,
            Self::Ping(_) => KeyAccess::Ping,
            Self::Legacy(LegacyKey {
                read_only: true, ..
            }) => KeyAccess::ReadOnly,
            Self::Legacy(_) => KeyAccess::ReadWrite,
        }
    }
}

/// Key of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectKey {
    /// Number of the key, which is also its public name for list and revoke.
    pub id: KeyId,
    /// Project of the key.
    pub project: ProjectId,
    /// Value by which the key is recognised.
    pub secret: KeySecret,
    /// Label that its owner has chosen; may be empty.
    pub label: KeyLabel,
    /// First four characters of the key, for people; empty for a key of release 0.1.
    pub hint: Box<str>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time and client address of the last use. Only the first use within an hour is recorded.
    pub last_use: Option<KeyUse>,
}

impl ProjectKey {
    /// Number of characters of a key that are shown.
    pub const HINT_LENGTH: usize = 4;
    /// Maximum number of characters in the hint of an imported key: for a hashed key, the prefix
    /// and the eight characters that the other server shows.
    pub const MAX_IMPORTED_HINT_LENGTH: usize = 12;

    /// Name of the key for people.
    pub fn display_name(&self) -> Box<str> {
        key_display_name(&self.label, &self.hint)
    }

    /// True if the key was imported and has not been used since.
    pub fn is_unused_since_import(&self) -> bool {
        matches!(self.secret, KeySecret::Legacy(_))
    }

    /// True if a use in the same hour as `now` is already recorded.
    pub fn is_use_recorded(&self, now: Timestamp) -> bool {
        let hour = |moment: Timestamp| moment.secs().div_euclid(3600);
        self.last_use.is_some_and(|used| hour(used.at) == hour(now))
    }
}

/// Use of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// Time of the first use within its hour.
    pub at: Timestamp,
    /// Address of the client.
    pub from: IpAddr,
}

/// Name of a key for people: its label, or its first characters. Empty if it has neither.
pub fn key_display_name(label: &KeyLabel, hint: &str) -> Box<str> {
    match (label.as_str(), hint) {
        ("", "") => "".into(),
        ("", hint) => format!("{hint}…").into(),
        (label, _) => label.into(),
    }
}

/// Label of a key: at most 100 characters without control characters; may be empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyLabel(Box<str>);

impl KeyLabel {
    /// Rejects more than 100 characters and control characters. The message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        parse_one_line(
            text,
            "a key's label has at most 100 characters",
            "a key's label has no control characters",
        )
        .map(Self)
    }

    /// Label as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Notification channel of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Number of the channel.
    pub id: ChannelId,
    /// UUID of the channel.
    pub uuid: Uuid,
    /// Project of the channel.
    pub project: ProjectId,
    /// Name of the channel.
    pub name: ChannelName,
    /// Settings of the channel.
    pub settings: ChannelSettings,
    /// True if the operator of the server gave the settings, not a client of the API.
    pub set_by_operator: bool,
    /// Health of the channel, as shown by its deliveries.
    pub health: ChannelHealth,
}

impl Channel {
    /// Replaces the settings. If they differ, `author` becomes their author and the health is
    /// reset, since deliveries with the old settings do not apply to the new ones.
    pub fn replace_settings(&mut self, settings: ChannelSettings, author: SettingsAuthor) {
        if settings != self.settings {
            self.set_by_operator = author == SettingsAuthor::Operator;
            let unsubscribed = std::mem::take(&mut self.health.unsubscribed);
            let unsubscribed = unsubscribed
                .into_iter()
                .filter(|recipient| settings.recipients().any(|other| other == &**recipient));
            self.health = ChannelHealth {
                unsubscribed: unsubscribed.collect(),
                ..ChannelHealth::default()
            };
            self.settings = settings;
        }
    }

    /// True if lists show both channels alike. They may differ in the times and reasons of their
    /// problems.
    pub fn has_same_listing_as(&self, other: &Self) -> bool {
        let health = |of: &ChannelHealth| {
            (
                of.disabled.is_some(),
                of.failing.is_some(),
                std::mem::discriminant(&of.proof),
                of.unsubscribed.len(),
                of.refused.len(),
            )
        };
        health(&self.health) == health(&other.health)
            && Self {
                health: other.health.clone(),
                ..self.clone()
            } == *other
    }
}

/// Replaces the names of group members, as in databases and exports of earlier releases, by UUIDs.
/// A name stands for every channel of the project that has it. A name without a channel stays.
pub fn resolve_stored_members(channels: &mut [Channel]) {
    let mut named: BTreeMap<(ProjectId, Box<str>), Vec<Uuid>> = BTreeMap::new();
    for channel in channels.iter() {
        named
            .entry((channel.project, channel.name.as_str().into()))
            .or_default()
            .push(channel.uuid);
    }
    for channel in channels {
        let project = channel.project;
        let known = channel.settings.with_member_uuids(|name| {
            named
                .get(&(project, name.into()))
                .cloned()
                .unwrap_or_default()
        });
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
        let longest = "ž".repeat(100);
        let longer = "ž".repeat(101);
        for (text, fits) in [
            ("a b", true),
            (longest.as_str(), true),
            (&longer, false),
            ("a\nb", false),
            ("a\u{7f}", false),
            ("\u{85}", false),
        ] {
            let parsed = [
                ProjectName::parse(text).is_ok(),
                ChannelName::parse(text).is_ok(),
                KeyLabel::parse(text).is_ok(),
            ];
            assert_eq!(parsed, [fits; 3], "{text:?}");
        }
        assert!(
            ProjectName::parse("").is_err()
                && ChannelName::parse("").is_ok()
                && KeyLabel::parse("").is_ok()
        );
        assert_eq!(
            KeyLabel::parse(&longer),
            Err("a key's label has at most 100 characters")
        );
        assert_eq!(
            KeyLabel::parse("\t"),
            Err("a key's label has no control characters")
        );
    }

    #[test]
    fn the_use_of_a_key_is_recorded_once_an_hour() {
        let used = Some(KeyUse {
            at: Timestamp::from_secs(7_199),
            from: [192, 0, 2, 1].into(),
        });
        let key = |used| ProjectKey {
            id: KeyId(1),
            project: ProjectId(1),
            secret: KeySecret::ReadOnly(SecretHash([0; 32])),
            label: KeyLabel::default(),
            hint: "abcd".into(),
            created: Timestamp::default(),
            last_use: used,
        };
        for (secs, noted) in [
            (3_599, false),
            (3_600, true),
            (7_199, true),
            (7_200, false),
            (-1, false),
        ] {
            assert_eq!(
                key(used).is_use_recorded(Timestamp::from_secs(secs)),
                noted,
                "{secs}"
            );
        }
        assert!(!key(None).is_use_recorded(Timestamp::default()));
    }

    #[test]
    fn a_uuid_is_not_a_ping_key() {
        for key in [
            "a",
            "-",
            "Nightly_1",
            "aZ09-_aZ09-_aZ09-_aZ09",
            &"x".repeat(128),
            "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f",
        ] {
            assert_eq!(
                PingKey::parse(key)
                    .map(|key| key.as_str().to_owned())
                    .as_deref(),
                Some(key)
            );
        }
        let uuid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        for wrong in [
            "",
            "a b",
            "a+b",
            "a/b",
            "ž",
            &"x".repeat(129),
            uuid,
            &uuid.to_uppercase(),
        ] {
            assert_eq!(PingKey::parse(wrong), None, "{wrong}");
        }
    }
}
