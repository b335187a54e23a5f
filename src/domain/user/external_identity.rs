//! Identity of a user at an OpenID Connect provider, and the providers that are configured.

use std::collections::BTreeMap;
use std::fmt;

use super::{Grant, Membership, ProjectMemberships};
use crate::domain::ids::ProjectId;

/// Maximum length of a subject in bytes (OpenID Connect Core, section 2), and of an issuer: see
/// [limits](crate::docs::limits).
pub const MAX_IDENTITY_BYTES: usize = 255;
/// Stands for all projects in the roles of a group.
const ALL_PROJECTS: &str = "*";

/// Identity of a user at a provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalIdentity {
    issuer: Box<str>,
    subject: Box<str>,
}

impl ExternalIdentity {
    /// Creates an identity. `None` if a part is empty or longer than 255 bytes.
    pub fn new(issuer: &str, subject: &str) -> Option<Self> {
        let fits = |text: &str| !text.is_empty() && text.len() <= MAX_IDENTITY_BYTES;
        (fits(issuer) && fits(subject)).then(|| Self {
            issuer: issuer.into(),
            subject: subject.into(),
        })
    }

    /// URL that identifies the provider.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Identifier of the user at the provider.
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// OpenID Connect provider whose users may sign in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentityProvider {
    /// Name on the sign-in page.
    pub name: Box<str>,
    /// URL that identifies the provider.
    pub issuer: Box<str>,
    /// Identifier of this server at the provider.
    pub client_id: Box<str>,
    /// Secret of this server at the provider. `None` for a public client.
    pub client_secret: Option<ClientSecret>,
    /// Scopes to request besides `openid`.
    pub scopes: Vec<String>,
    /// Claim that becomes the name of a user.
    pub name_claim: Box<str>,
    /// Claim with the groups of a user.
    pub groups_claim: Box<str>,
    /// True if an unknown user of the provider gets an account here.
    pub creates_users: bool,
    /// Permissions of groups.
    pub roles: GroupRoles,
}

/// Secret of this server at a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(pub Box<str>);

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(..)")
    }
}

/// Permissions of groups. Projects are given by name or UUID, or as `*` for all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupRoles {
    /// Groups whose members are owners.
    pub owners: Vec<String>,
    /// Projects that the members of a group may change.
    pub members: BTreeMap<String, Vec<String>>,
    /// Projects that the members of a group may see.
    pub read_only: BTreeMap<String, Vec<String>>,
}

impl GroupRoles {
    /// True if groups have no permissions, so that owners of this server give them.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.members.is_empty() && self.read_only.is_empty()
    }

    /// Permissions of a user in these groups. `projects` returns the projects of a name or UUID, or
    /// all projects if it is `None`.
    pub fn grant(
        &self,
        groups: &[String],
        projects: impl Fn(Option<&str>) -> Vec<ProjectId>,
    ) -> Grant {
        if self.owners.iter().any(|owner| groups.contains(owner)) {
            return Grant::Owner;
        }
        let memberships = |roles: &BTreeMap<String, Vec<String>>, membership: Membership| {
            let granted = roles.iter().filter(|(group, _)| groups.contains(group));
            let words = granted.flat_map(|(_, words)| words);
            let found = words.flat_map(|word| {
                projects(Some(word.as_str()).filter(|word| *word != ALL_PROJECTS))
            });
            found
                .map(|project| (project, membership))
                .collect::<Vec<_>>()
        };
        let mut all = memberships(&self.members, Membership::Member);
        all.extend(memberships(&self.read_only, Membership::ReadOnly));
        Grant::Projects(ProjectMemberships::new(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_two_parts_of_limited_length() {
        let longest = "x".repeat(255);
        for (issuer, subject, is_valid) in [
            ("https://id", "1", true),
            (longest.as_str(), longest.as_str(), true),
            ("", "1", false),
            ("https://id", "", false),
            ("https://id", &"x".repeat(256), false),
        ] {
            let identity = ExternalIdentity::new(issuer, subject);
            assert_eq!(identity.is_some(), is_valid, "{issuer} {subject}");
        }
    }

    #[test]
    fn groups_give_permissions_and_the_greatest_counts() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let roles = GroupRoles {
            owners: list(&["admins"]),
            members: BTreeMap::from([("ops".into(), list(&["web", "gone"]))]),
            read_only: BTreeMap::from([("staff".into(), list(&["*"]))]),
        };
        let projects = |word: Option<&str>| match word {
            None => vec![ProjectId(1), ProjectId(2)],
            Some("web") => vec![ProjectId(2)],
            Some(_) => Vec::new(),
        };
        use Membership::{Member, ReadOnly};
        for (groups, expected) in [
            (&[][..], Some(&[][..])),
            (&["Admins"], Some(&[])),
            (&["admins", "staff"], None),
            (&["ops"], Some(&[(2, Member)])),
            (&["staff"], Some(&[(1, ReadOnly), (2, ReadOnly)])),
            (&["staff", "ops"], Some(&[(1, ReadOnly), (2, Member)])),
        ] {
            let grant = roles.grant(&list(groups), projects);
            let expected = expected.map_or(Grant::Owner, |memberships| {
                let ids = memberships.iter().map(|(id, kind)| (ProjectId(*id), *kind));
                Grant::Projects(ProjectMemberships::new(ids))
            });
            assert_eq!(grant, expected, "{groups:?}");
        }
    }

    #[test]
    fn roles_of_any_group_are_permissions() {
        let none = GroupRoles::default;
        assert!(none().is_empty());
        let roles = BTreeMap::from([("ops".to_owned(), vec!["web".to_owned()])]);
        for given in [
            GroupRoles {
                owners: vec!["admins".into()],
                ..none()
            },
            GroupRoles {
                members: roles.clone(),
                ..none()
            },
            GroupRoles {
                read_only: roles.clone(),
                ..none()
            },
        ] {
            assert!(!given.is_empty(), "{given:?}");
        }
    }
}
