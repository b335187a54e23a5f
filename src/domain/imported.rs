//! What an import brings: what another program kept, with the UUIDs, keys and times that it had there, and without the numbers that things
//! get here.

use uuid::Uuid;

use super::channel::{ChannelKind, ChannelSettings, GivenSettings};
use super::check::{CheckState, Settings};
use super::flip::Flip;
use super::moment::Moment;
use super::ping::{Kind, Origin};
use super::project::{Access, ChannelName, ProjectName, Secret};
use super::user::{Membership, PasswordHash, UserName};

/// All that an import brings but for logs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Imported {
    /// Projects, oldest first, each with another name.
    pub projects: Vec<ImportedProject>,
    /// Users, oldest first, each with another name.
    pub users: Vec<ImportedUser>,
    /// What [hashed keys](ImportedSecret::Hashed) are recognised with.
    pub secret: Option<ForeignSecret>,
    /// The latest moment in the source; `None`: nothing ever happened there.
    pub newest: Option<Moment>,
}

/// A project. It has no limit of checks.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedProject {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: ProjectName,
    /// The segment that names it in badge URLs.
    pub badge_key: Box<str>,
    /// What signs the badge URLs that it had; `None`: they are no longer known.
    pub old_badge: Option<OldBadge>,
    /// How many pings of each check are kept.
    pub ping_log_limit: u32,
    /// Its keys.
    pub keys: Vec<ImportedKey>,
    /// Its channels, oldest first.
    pub channels: Vec<ImportedChannel>,
    /// Its checks, oldest first.
    pub checks: Vec<ImportedCheck>,
}

/// A key of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedKey {
    /// What it is recognised by.
    pub secret: ImportedSecret,
    /// Its first four characters.
    pub hint: Box<str>,
}

/// What a key is recognised by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportedSecret {
    /// As keys are that were made here.
    Own(Secret),
    /// By a digest that only the other program's secret makes of it.
    Hashed {
        /// What it opens.
        access: Access,
        /// The digest.
        digest: KeyDigest,
    },
}

/// The HMAC-SHA-256 of an API key with a [`ForeignSecret`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(pub [u8; 32]);

/// The secret of another program's server.
#[derive(Clone, PartialEq, Eq)]
pub struct ForeignSecret(Box<[u8]>);

impl ForeignSecret {
    /// Bytes that it may have.
    pub const LONGEST: usize = 1_000;

    /// Refuses an empty secret and more than 1,000 bytes; the message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.len() {
            0 => Err("the secret is empty"),
            length if length > Self::LONGEST => Err("a secret has at most 1,000 bytes"),
            _ => Ok(Self(text.as_bytes().into())),
        }
    }

    /// The secret itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What an HMAC-SHA-1 is keyed with that signed the badge URLs of one project, made of its badge key and the other program's secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OldBadge(pub [u8; 20]);

impl OldBadge {
    /// That of a project.
    pub fn of(badge_key: &str, secret: &ForeignSecret) -> Self {
        use sha1::Digest as _;
        Self(sha1::Sha1::new().chain_update(badge_key).chain_update(secret.as_bytes()).finalize().into())
    }
}

macro_rules! masked {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}

masked!(KeyDigest ForeignSecret OldBadge);

/// A notification channel.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedChannel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: ChannelName,
    /// How it notifies.
    pub settings: ImportedSettings,
    /// Nothing is sent to it, for this reason.
    pub disabled: Option<Box<str>>,
}

/// What a channel is set to.
#[derive(Clone, PartialEq, Debug)]
pub enum ImportedSettings {
    /// All that its kind needs.
    Whole(ChannelSettings),
    /// Something is missing: the other program kept it elsewhere. Such a channel is disabled.
    Incomplete {
        /// Its kind.
        kind: &'static ChannelKind,
        /// What is there, each value one that the kind takes.
        given: GivenSettings,
        /// The keys that are missing.
        lacks: Box<[&'static str]>,
    },
}

/// A check.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedCheck {
    /// Its UUID.
    pub uuid: Uuid,
    /// What its badge URLs carry; `None`: it had none, and gets a new one.
    pub badge: Option<Uuid>,
    /// When it was made.
    pub created: Moment,
    /// What its owner has set. No channel and no parent stands there.
    pub settings: Settings,
    /// The channels of its project that are assigned to it, oldest first.
    pub channels: Box<[Uuid]>,
    /// What has become of it. No place in a log stands there.
    pub state: CheckState,
}

/// A flip of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedFlip {
    /// The UUID of the check.
    pub check: Uuid,
    /// The flip.
    pub flip: Flip,
}

/// A ping of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedPing {
    /// The UUID of the check.
    pub check: Uuid,
    /// Counts from 1 in each check.
    pub n: u64,
    /// When it was logged.
    pub at: Moment,
    /// What it means.
    pub kind: Kind,
    /// Where it came from.
    pub origin: Origin,
    /// The run it belongs to.
    pub rid: Option<Uuid>,
    /// The exit status that the job reported.
    pub exit: Option<u8>,
    /// What was sent with it.
    pub body: Box<[u8]>,
}

/// Somebody who may sign in.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedUser {
    /// What it is called.
    pub name: UserName,
    /// What its password is checked against; `None`: it needs a link to choose one.
    pub password: Option<PasswordHash>,
    /// It may do everything.
    pub owner: bool,
    /// UUIDs of projects, each once, with what it may do there; of an owner none.
    pub projects: Vec<(Uuid, Membership)>,
    /// It may not sign in.
    pub disabled: bool,
    /// When it was made.
    pub created: Moment,
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use hmac::{Hmac, KeyInit as _, Mac as _};

    use super::*;

    #[test]
    fn old_badge_urls_are_signed_as_the_other_server_signed_them() {
        let secret = ForeignSecret::parse("s3cret").unwrap();
        let OldBadge(key) = OldBadge::of("bk-1", &secret);
        let mac = Hmac::<sha1::Sha1>::new_from_slice(&key).unwrap().chain_update("x").finalize().into_bytes();
        assert_eq!(&BASE64_URL_SAFE_NO_PAD.encode(mac)[..8], "Wv_yDCgl");
        assert_eq!(format!("{secret:?} {:?} {:?}", OldBadge(key), KeyDigest([1; 32])), "ForeignSecret(..) OldBadge(..) KeyDigest(..)");
        assert!(ForeignSecret::parse("").is_err() && ForeignSecret::parse(&"x".repeat(1_001)).is_err());
    }
}
