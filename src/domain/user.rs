//! Users of the dashboard: names, permissions and authentication.

pub mod external_identity;
pub mod lookalike;
pub mod one_time_link;
pub mod passkey;
pub mod preferences;
pub mod saved_filters;
pub mod second_factor;
pub mod session;
pub mod summary;

use unicode_normalization::UnicodeNormalization as _;
use uuid::Uuid;

use super::ids::{ProjectId, UserId};
use super::timestamp::Timestamp;
pub use external_identity::ExternalIdentity;
pub use passkey::Passkey;
pub use preferences::{Theme, UserPreferences};
pub use second_factor::SecondFactor;
pub use summary::SummarySubscription;

/// Maximum number of characters of a name: see [limits](crate::docs::limits).
const MAX_NAME_CHARS: usize = 100;

/// User of the dashboard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Number of the user.
    pub id: UserId,
    /// UUID of the user, for URLs of pages.
    pub uuid: Uuid,
    /// Name of the user.
    pub name: UserName,
    /// Hash of the password; `None` if the user cannot sign in with a password yet.
    pub password: Option<PasswordHash>,
    /// Second factor, if the user has turned it on.
    pub second_factor: Option<SecondFactor>,
    /// Passkeys, oldest first, at most [`MAX_PASSKEYS`](passkey::MAX_PASSKEYS).
    pub passkeys: Box<[Passkey]>,
    /// Identity at a provider by which the user signs in.
    pub identity: Option<ExternalIdentity>,
    /// Permissions of the user.
    pub grant: Grant,
    /// Display preferences.
    pub preferences: UserPreferences,
    /// Subscription to summaries by mail.
    pub summary: Option<SummarySubscription>,
    /// Time of creation.
    pub created: Timestamp,
    /// True if the user may not sign in.
    pub disabled: bool,
    /// Time of the last change of the password or second factor, or of the last end of all
    /// sessions. Browsers that signed in before are not recognised.
    pub browsers_trusted_since: Timestamp,
}

impl User {
    /// Forgets all browsers in which the user has signed in so far.
    pub fn forget_browsers(&mut self, now: Timestamp) {
        // Later than before, even if the clock was set back.
        self.browsers_trusted_since = now.max(self.browsers_trusted_since.plus_micros(1));
    }
}

/// Name of a user: 1 to 100 characters without control characters, and without white space at its
/// ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserName(Box<str>);

impl UserName {
    /// Trims white space, and rejects empty names, more than 100 characters and control characters.
    /// The message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("a user's name cannot be empty"),
            text if text.chars().count() > MAX_NAME_CHARS => {
                Err("a user's name has at most 100 characters")
            }
            text if text.chars().any(char::is_control) => {
                Err("a user's name has no control characters")
            }
            text => Ok(Self(text.into())),
        }
    }

    /// Text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Form of the name for comparison. Names that differ only in case or in their Unicode spelling
    /// are equal.
    pub fn case_folded(&self) -> Box<str> {
        fold_case(&self.0)
    }
}

fn fold_case(text: &str) -> Box<str> {
    let lower: String = text.nfkc().flat_map(char::to_lowercase).collect();
    lower.nfkc().collect::<String>().into()
}

/// New password: at least 10 characters, at most 200 bytes, and not the name of its user.
pub struct Password(Box<str>);

impl Password {
    /// Minimum number of characters.
    pub const MIN_CHARS: usize = 10;
    /// Maximum number of bytes, to bound the time of hashing.
    pub const MAX_BYTES: usize = 200;

    /// Rejects a password that is too short, too long or the name of its user. The message says
    /// which.
    pub fn parse(text: &str, name: &UserName) -> Result<Self, &'static str> {
        match text {
            _ if text.chars().count() < Self::MIN_CHARS => {
                Err("a password has at least 10 characters")
            }
            _ if text.len() > Self::MAX_BYTES => Err("a password has at most 200 bytes"),
            _ if fold_case(text.trim()) == name.case_folded() => {
                Err("a password must not be the name of its user")
            }
            _ => Ok(Self(text.into())),
        }
    }

    /// Bytes of the password.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Hash of a password: a PHC string with its algorithm, parameters and salt.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// Creates a hash from a PHC string. No password matches a string of another form.
    pub fn new(phc: &str) -> Self {
        Self(phc.into())
    }

    /// PHC string of the hash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

/// Permissions of a project's member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Membership {
    /// Read access to the project.
    ReadOnly,
    /// Permission to change everything but limits and the project itself.
    Member,
}

impl Membership {
    /// Every membership, the lesser first.
    pub const ALL: [Self; 2] = [Self::ReadOnly, Self::Member];

    /// Word of pages and of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Member => "member",
        }
    }

    /// Returns the membership with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Permissions of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Grant {
    /// All permissions, in every project.
    Owner,
    /// These memberships in these projects only. Deleted projects may be listed until the grant is
    /// written again.
    Projects(ProjectMemberships),
}

/// Memberships of a user, each project once and in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectMemberships(Box<[(ProjectId, Membership)]>);

impl ProjectMemberships {
    /// Creates the list. If a project is given twice, the greater membership counts.
    pub fn new(projects: impl IntoIterator<Item = (ProjectId, Membership)>) -> Self {
        let mut projects: Vec<_> = projects.into_iter().collect();
        projects.sort_unstable_by(|(a, in_a), (b, in_b)| a.cmp(b).then(in_b.cmp(in_a)));
        projects.dedup_by_key(|(id, _)| *id);
        Self(projects.into())
    }

    /// Projects with their memberships, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ProjectId, Membership)> {
        self.0.iter().copied()
    }

    /// Returns the list with another membership of one project, or without the project.
    pub fn with_membership(&self, project: ProjectId, membership: Option<Membership>) -> Self {
        let others = self.iter().filter(|(id, _)| *id != project);
        Self::new(others.chain(membership.map(|membership| (project, membership))))
    }
}

impl Grant {
    /// True if the grant allows everything.
    pub fn is_owner(&self) -> bool {
        *self == Self::Owner
    }

    /// Membership in a project. For an owner, the greatest.
    pub fn membership_in(&self, project: ProjectId) -> Option<Membership> {
        match self {
            Self::Owner => Some(Membership::Member),
            Self::Projects(projects) => projects
                .iter()
                .find(|(id, _)| *id == project)
                .map(|(_, membership)| membership),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    #[test]
    fn names_are_short_lines_and_ignore_case() {
        let longest = "ž".repeat(100);
        let longer = "ž".repeat(101);
        for (text, fits) in [
            ("a b", true),
            (&longest, true),
            (&longer, false),
            ("a\nb", false),
            ("", false),
            (" \t", false),
        ] {
            assert_eq!(UserName::parse(text).is_ok(), fits, "{text:?}");
        }
        assert_eq!(name(" Ann ").as_str(), "Ann");
        for (one, other) in [
            ("Ann", "aNN"),
            ("Žofie", "žOFIE"),
            ("ž", "z\u{30c}"),
            ("Ａnn", "ann"),
            ("ΣΑΣ", "σασ"),
        ] {
            assert_eq!(
                name(one).case_folded(),
                name(other).case_folded(),
                "{one} {other}"
            );
        }
        assert_ne!(name("ann").case_folded(), name("anne").case_folded());
    }

    #[test]
    fn passwords_are_long_and_not_the_name() {
        for (text, refusal) in [
            ("123456789", Some("a password has at least 10 characters")),
            ("ž23456789", Some("a password has at least 10 characters")),
            ("ž234567890", None),
            (
                "margarethe",
                Some("a password must not be the name of its user"),
            ),
            (
                " MARGAREThe ",
                Some("a password must not be the name of its user"),
            ),
            ("margarethe1", None),
        ] {
            assert_eq!(
                Password::parse(text, &name("Margarethe")).err(),
                refusal,
                "{text}"
            );
        }
        assert!(
            Password::parse(&"x".repeat(200), &name("a")).is_ok()
                && Password::parse(&"x".repeat(201), &name("a")).is_err()
        );
    }

    #[test]
    fn owners_have_all_permissions_and_others_their_memberships() {
        use Membership::{Member, ReadOnly};
        let [one, two, three] = [1, 2, 3].map(ProjectId);
        let projects = ProjectMemberships::new([
            (two, ReadOnly),
            (one, ReadOnly),
            (two, Member),
            (two, ReadOnly),
        ]);
        assert_eq!(
            projects.iter().collect::<Vec<_>>(),
            [(one, ReadOnly), (two, Member)]
        );
        let grant = Grant::Projects(projects.clone());
        assert_eq!(
            [one, two, three].map(|id| grant.membership_in(id)),
            [Some(ReadOnly), Some(Member), None]
        );
        assert_eq!(
            [one, two, three].map(|id| Grant::Owner.membership_in(id)),
            [Some(Member); 3]
        );
        assert!(Grant::Owner.is_owner() && !grant.is_owner());
        assert_eq!(
            projects
                .with_membership(one, Some(Member))
                .with_membership(two, None)
                .with_membership(three, None),
            ProjectMemberships::new([(one, Member)])
        );
    }

    #[test]
    fn each_name_is_parsed_back() {
        assert!(
            Membership::ALL
                .into_iter()
                .all(|kind| Membership::parse(kind.name()) == Some(kind))
        );
        assert_eq!(Membership::parse("owner"), None);
    }
}
