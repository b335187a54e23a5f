//! People who use the dashboard: what they are called, what they may do, how they prove who they are.

pub mod lookalike;
pub mod one_time_link;
pub mod preferences;
pub mod second_factor;
pub mod session;

use unicode_normalization::UnicodeNormalization as _;
use uuid::Uuid;

use super::ids::{ProjectId, UserId};
use super::timestamp::Timestamp;
pub use preferences::{Theme, UserPreferences};
pub use second_factor::SecondFactor;

/// Characters of a name: see [limits](crate::docs::limits).
const MAX_NAME_CHARS: usize = 100;

/// Somebody who may sign in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its number.
    pub id: UserId,
    /// Its UUID, which stands in addresses of pages.
    pub uuid: Uuid,
    /// What it is called.
    pub name: UserName,
    /// What its password is checked against; `None`: nobody can sign in with a password yet.
    pub password: Option<PasswordHash>,
    /// What it shows beside its password, if it wants to be asked for it.
    pub second_factor: Option<SecondFactor>,
    /// What it may do.
    pub grant: Grant,
    /// How pages look to it.
    pub preferences: UserPreferences,
    /// When it was made.
    pub created: Timestamp,
    /// It may not sign in.
    pub disabled: bool,
    /// Last change of its password or second factor, or end of its sessions. Browsers in which it signed in before then are not recognised.
    pub browsers_trusted_since: Timestamp,
}

impl User {
    /// Has no browser recognised in which the user has signed in so far.
    pub fn forget_browsers(&mut self, now: Timestamp) {
        // Later than before, also where the clock was set back.
        self.browsers_trusted_since = now.max(self.browsers_trusted_since.plus_micros(1));
    }
}

/// A user's name: 1 to 100 characters without control characters, and no white space at its ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserName(Box<str>);

impl UserName {
    /// Takes away white space at the ends, and refuses empty names, more than 100 characters and control characters; the message says
    /// which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("a user's name cannot be empty"),
            text if text.chars().count() > MAX_NAME_CHARS => Err("a user's name has at most 100 characters"),
            text if text.chars().any(char::is_control) => Err("a user's name has no control characters"),
            text => Ok(Self(text.into())),
        }
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What names are compared by: two that differ in case only, or in how Unicode spells them, are one.
    pub fn case_folded(&self) -> Box<str> {
        fold_case(&self.0)
    }
}

fn fold_case(text: &str) -> Box<str> {
    let lower: String = text.nfkc().flat_map(char::to_lowercase).collect();
    lower.nfkc().collect::<String>().into()
}

/// A password that may be chosen: at least 10 characters, at most 200 bytes, and not the name of its user.
pub struct Password(Box<str>);

impl Password {
    /// The fewest characters.
    pub const MIN_CHARS: usize = 10;
    /// The most bytes: what is hashed has to be bounded.
    pub const MAX_BYTES: usize = 200;

    /// Refuses what is too short, too long or the name of its user; the message says which.
    pub fn parse(text: &str, name: &UserName) -> Result<Self, &'static str> {
        match text {
            _ if text.chars().count() < Self::MIN_CHARS => Err("a password has at least 10 characters"),
            _ if text.len() > Self::MAX_BYTES => Err("a password has at most 200 bytes"),
            _ if fold_case(text.trim()) == name.case_folded() => Err("a password is not the name of its user"),
            _ => Ok(Self(text.into())),
        }
    }

    /// The password itself.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// What a password is checked against: a PHC string with its algorithm, parameters and salt.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// The hash of this PHC string. Whoever checks a password against something else finds that it is wrong.
    pub fn new(phc: &str) -> Self {
        Self(phc.into())
    }

    /// The PHC string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

/// What a member of a project may do there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Membership {
    /// Look at everything.
    ReadOnly,
    /// Change everything but limits and the project itself.
    Member,
}

impl Membership {
    /// Every kind, the lesser first.
    pub const ALL: [Self; 2] = [Self::ReadOnly, Self::Member];

    /// The word of pages and of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Member => "member",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// What a user may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Grant {
    /// Everything, in every project.
    Owner,
    /// What is said here, in these projects alone. Those that are gone may stand here until the grant is written again.
    Projects(ProjectMemberships),
}

/// Projects, each once and in order, with what a user may do there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectMemberships(Box<[(ProjectId, Membership)]>);

impl ProjectMemberships {
    /// Of a project that is given twice the greater membership counts.
    pub fn new(projects: impl IntoIterator<Item = (ProjectId, Membership)>) -> Self {
        let mut projects: Vec<_> = projects.into_iter().collect();
        projects.sort_unstable_by(|(a, least), (b, most)| a.cmp(b).then(most.cmp(least)));
        projects.dedup_by_key(|(id, _)| *id);
        Self(projects.into())
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ProjectId, Membership)> {
        self.0.iter().copied()
    }

    /// The same with another membership of one project, or with none.
    pub fn with_membership(&self, project: ProjectId, membership: Option<Membership>) -> Self {
        let others = self.iter().filter(|(id, _)| *id != project);
        Self::new(others.chain(membership.map(|membership| (project, membership))))
    }
}

impl Grant {
    /// Whether it allows everything.
    pub fn is_owner(&self) -> bool {
        *self == Self::Owner
    }

    /// What it allows in a project: for an owner the most that there is.
    pub fn membership_in(&self, project: ProjectId) -> Option<Membership> {
        match self {
            Self::Owner => Some(Membership::Member),
            Self::Projects(projects) => projects.iter().find(|(id, _)| *id == project).map(|(_, membership)| membership),
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
    fn a_name_is_one_short_line_whatever_its_case() {
        let (longest, longer) = ("ž".repeat(100), "ž".repeat(101));
        for (text, fits) in [("a b", true), (&longest, true), (&longer, false), ("a\nb", false), ("", false), (" \t", false)] {
            assert_eq!(UserName::parse(text).is_ok(), fits, "{text:?}");
        }
        assert_eq!(name(" Ann ").as_str(), "Ann");
        for (one, other) in [("Ann", "aNN"), ("Žofie", "žOFIE"), ("ž", "z\u{30c}"), ("Ａnn", "ann"), ("ΣΑΣ", "σασ")] {
            assert_eq!(name(one).case_folded(), name(other).case_folded(), "{one} {other}");
        }
        assert_ne!(name("ann").case_folded(), name("anne").case_folded());
    }

    #[test]
    fn passwords_are_long_and_not_the_name() {
        for (text, refusal) in [
            ("123456789", Some("a password has at least 10 characters")),
            ("ž23456789", Some("a password has at least 10 characters")),
            ("ž234567890", None),
            ("margarethe", Some("a password is not the name of its user")),
            (" MARGAREThe ", Some("a password is not the name of its user")),
            ("margarethe1", None),
        ] {
            assert_eq!(Password::parse(text, &name("Margarethe")).err(), refusal, "{text}");
        }
        assert!(Password::parse(&"x".repeat(200), &name("a")).is_ok() && Password::parse(&"x".repeat(201), &name("a")).is_err());
    }

    #[test]
    fn an_owner_may_everything_and_others_what_is_said() {
        use Membership::{Member, ReadOnly};
        let [one, two, three] = [1, 2, 3].map(ProjectId);
        let projects = ProjectMemberships::new([(two, ReadOnly), (one, ReadOnly), (two, Member), (two, ReadOnly)]);
        assert_eq!(projects.iter().collect::<Vec<_>>(), [(one, ReadOnly), (two, Member)]);
        let grant = Grant::Projects(projects.clone());
        assert_eq!([one, two, three].map(|id| grant.membership_in(id)), [Some(ReadOnly), Some(Member), None]);
        assert_eq!([one, two, three].map(|id| Grant::Owner.membership_in(id)), [Some(Member); 3]);
        assert!(Grant::Owner.is_owner() && !grant.is_owner());
        assert_eq!(
            projects.with_membership(one, Some(Member)).with_membership(two, None).with_membership(three, None),
            ProjectMemberships::new([(one, Member)])
        );
    }

    #[test]
    fn words_name_what_they_say() {
        assert!(Membership::ALL.into_iter().all(|kind| Membership::parse(kind.name()) == Some(kind)));
        assert_eq!(Membership::parse("owner"), None);
    }
}
