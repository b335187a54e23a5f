//! What the projects of a Healthchecks are here, with their keys, and its users.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::secret::{self, Proof};
use crate::domain::adopted::{ForeignSecret, HashedKey, KeyDigest, OldBadge};
use crate::domain::imported::{ImportedKey, ImportedProject, ImportedSecret, ImportedUser};
use crate::domain::moment::Moment;
use crate::domain::project::{Access, DEFAULT_PING_LOG_LIMIT, Key, KeyHash, KeyLabel, PingKey, ProjectName, Secret};
use crate::domain::user::{Membership, Taste, UserName};
use crate::import::Options;
use crate::import::report::{Tally, What};
use crate::import::rows::{Complaint, Row, unhex};
use crate::password;

/// Characters that a project's name may have.
const NAME_CHARS: usize = 100;
/// Characters of a name that the report shows.
const NAME_SHOWN: usize = 40;

/// What of its users counts for projects: mail addresses and log limits, by their numbers.
pub(super) struct Owners {
    addresses: HashMap<i64, String>,
    limits: HashMap<i64, i64>,
}

impl Owners {
    pub(super) fn read(users: &[Row], profiles: &[Row]) -> Result<Self, Complaint> {
        let address = |row: &Row| Ok((row.id("id")?, row.text("email")?.to_owned()));
        let limit = |row: &Row| Ok(row.integer("user_id")?.zip(row.integer("ping_log_limit")?));
        let addresses = users.iter().map(address).collect::<Result<_, Complaint>>()?;
        let limits = profiles.iter().map(limit).filter_map(Result::transpose).collect::<Result<_, Complaint>>()?;
        Ok(Self { addresses, limits })
    }
}

/// Reads rows of the table of projects.
pub(super) struct Projects<'a> {
    pub(super) options: &'a Options,
    pub(super) owners: &'a Owners,
    pub(super) secret: Option<&'a ForeignSecret>,
    /// What signatures say about it.
    pub(super) proof: Proof,
    /// Names that projects have already.
    pub(super) taken: BTreeSet<String>,
    /// What was asked for and is there.
    pub(super) met: HashSet<String>,
}

impl Projects<'_> {
    /// Reads a row; `None`: it is not asked for.
    pub(super) fn project(&mut self, row: &Row, tally: &mut Tally) -> Result<Option<ImportedProject>, Complaint> {
        let uuid = row.need("code", row.uuid("code"))?;
        let name = row.text("name")?;
        let owner = row.id("owner_id")?;
        let address = self.owners.addresses.get(&owner).map_or("", String::as_str);
        // It shows one without a name under the address of its owner.
        let shown = if name.is_empty() { address } else { name };
        let text = uuid.to_string();
        let chosen = self.options.projects.iter().find(|chosen| [name, shown, &text].contains(&chosen.old.as_str()));
        if chosen.is_none() && !self.options.projects.is_empty() {
            tally.dropped(What::Projects, 1, "not asked for");
            return Ok(None);
        }
        self.met.extend(chosen.map(|chosen| chosen.old.clone()));
        let wanted = chosen.and_then(|chosen| chosen.new.as_ref()).map_or(shown, ProjectName::as_str);
        if wanted.is_empty() {
            return Err(row.wrong(format!("it has no name, and its owner is not there; say --project {uuid}=NAME")));
        }
        let own = self.free(wanted);
        let parsed = ProjectName::parse(&own).map_err(|problem| row.wrong(format!("{problem}; say --project {uuid}=NAME")).of(name))?;
        tally.carried(What::Projects, 1);
        if own != name {
            tally.changed(What::Projects, 1);
            tally.note(What::Projects, None, format!("{:?} is called {:?}", short(name), short(&own)));
        }
        self.taken.insert(own);
        let badge_key = match row.text("badge_key")? {
            key if key.is_empty() || key.contains('/') => text.as_str(),
            key => key,
        };
        let limit = self.owners.limits.get(&owner).copied().unwrap_or(DEFAULT_PING_LOG_LIMIT.into());
        let ping_log_limit = u32::try_from(limit).unwrap_or_else(|_| {
            tally.note(What::Projects, Some(1), "with a log limit that is out of range: they get that of new projects");
            DEFAULT_PING_LOG_LIMIT
        });
        let old_badge = self.secret.map(|secret| OldBadge::of(badge_key, secret));
        if let Some((signature, badge)) = row.text("badge_signature").ok().zip(old_badge.as_ref()) {
            self.proof = self.proof.with(secret::signed_badge(signature, badge));
        }
        Ok(Some(ImportedProject {
            uuid,
            keys: self.keys(row, &parsed, tally)?,
            name: parsed,
            badge_key: badge_key.into(),
            old_badge,
            check_limit: None,
            ping_log_limit,
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        }))
    }

    /// A name of at most 100 characters that no other project has.
    fn free(&self, wanted: &str) -> String {
        let cut = |most: usize| wanted.chars().take(most).collect::<String>();
        let numbered = (2_usize..).map(|number| {
            let end = format!(" ({number})");
            cut(NAME_CHARS - end.len()) + &end
        });
        std::iter::once(cut(NAME_CHARS)).chain(numbered).find(|name| !self.taken.contains(name)).unwrap_or_default()
    }

    fn keys(&self, row: &Row, project: &ProjectName, tally: &mut Tally) -> Result<Vec<ImportedKey>, Complaint> {
        let mut keys = Vec::new();
        for (column, access) in [("api_key", Access::ReadWrite), ("api_key_readonly", Access::ReadOnly)] {
            let text = row.text(column)?;
            let secret = match text.split_once('.') {
                _ if text.is_empty() => continue,
                None => ImportedSecret::Own(match access {
                    Access::ReadOnly => Secret::ReadOnly(KeyHash::of(text.as_bytes())),
                    _ => Secret::ReadWrite(KeyHash::of(text.as_bytes())),
                }),
                Some((_, digest)) => {
                    let Some(digest) = unhex(digest).and_then(|digest| digest.try_into().ok()) else {
                        tally.dropped(What::ApiKeys, 1, "neither a key nor the digest of one");
                        continue;
                    };
                    if self.secret.is_none() {
                        let name = project.as_str();
                        tally.dropped(
                            What::ApiKeys,
                            1,
                            "hashed: give --env-file or --secret-key-file with the SECRET_KEY of the old server",
                        );
                        tally.note(What::ApiKeys, None, format!("or overdue key create --project {name:?} --access {}", access.name()));
                        continue;
                    }
                    let note = match self.proof {
                        Proof::Unknown => "hashed, known by the given SECRET_KEY if the old server ran with it",
                        Proof::Right => "hashed, known by the SECRET_KEY",
                        Proof::Wrong(_) => "hashed, refused unless the old server ran with the given SECRET_KEY",
                    };
                    tally.note(What::ApiKeys, Some(1), note);
                    ImportedSecret::Hashed { access, secret: 0, digest: KeyDigest(digest) }
                }
            };
            let hint = match text.split_once('.') {
                Some((start, _)) => HashedKey::prefix(access == Access::ReadOnly).to_owned() + start,
                None => text.chars().take(Key::HINT_LENGTH).collect(),
            };
            keys.push(key(secret, &hint));
            tally.carried(What::ApiKeys, 1);
        }
        match row.text("ping_key")? {
            "" => {}
            text => match PingKey::parse(text) {
                Some(key) => {
                    let hint: String = text.chars().take(Key::HINT_LENGTH).collect();
                    keys.push(self::key(ImportedSecret::Own(Secret::Ping(key)), &hint));
                    tally.carried(What::PingKeys, 1);
                }
                None => {
                    let most = PingKey::MOST_LENGTH;
                    tally.dropped(What::PingKeys, 1, format!("not 1 to {most} of A-Z, a-z, 0-9, hyphen and underscore, or a UUID"));
                }
            },
        }
        Ok(keys)
    }
}

/// A key of which nothing else is known but how it begins.
fn key(secret: ImportedSecret, hint: &str) -> ImportedKey {
    let hint = hint.chars().take(Key::LONGEST_HINT).collect();
    ImportedKey { secret, hint, label: KeyLabel::default(), created: None, used: None, managed: None }
}

/// As much of a name as a line has room for.
fn short(name: &str) -> String {
    let mut chars = name.chars();
    let start: String = chars.by_ref().take(NAME_SHOWN).collect();
    if chars.next().is_some() { start + "…" } else { start }
}

/// Reads a row of the table of users. `projects` are those that come along with what each user may do there, by the user's number.
pub(super) fn user(
    row: &Row,
    projects: &HashMap<i64, Vec<(Uuid, Membership)>>,
    taken: &mut BTreeSet<Box<str>>,
    now: Moment,
    tally: &mut Tally,
) -> Result<Option<ImportedUser>, Complaint> {
    let address = [row.text("email")?, row.text("username")?].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let stays = match UserName::parse(address) {
        Ok(name) if taken.insert(name.folded()) => Ok(name),
        Ok(_) => Err("another user has this address but for upper and lower case".to_owned()),
        Err(problem) => Err(problem.to_string()),
    };
    let name = match stays {
        Ok(name) => name,
        Err(why) => {
            tally.dropped(What::Users, 1, format!("{:?} stays behind: {why}", short(address)));
            return Ok(None);
        }
    };
    // A hash that nobody's password could be checked against is none: its user needs a link.
    let password = row.text("password")?.strip_prefix("argon2").and_then(password::parse);
    let owner = row.flag("is_superuser")?.unwrap_or(false);
    let mut projects = if owner { Vec::new() } else { projects.get(&row.id("id")?).cloned().unwrap_or_default() };
    // Of two the greater counts.
    projects.sort_unstable_by(|(a, least), (b, most)| a.cmp(b).then(most.cmp(least)));
    projects.dedup_by_key(|(uuid, _)| *uuid);
    tally.carried(What::Users, 1);
    if password.is_none() {
        tally.changed(What::Users, 1);
        tally.note(What::Users, Some(1), "without a password that can be taken over: overdue user link");
    }
    let disabled = !row.flag("is_active")?.unwrap_or(true);
    let created = row.moment("date_joined")?.unwrap_or(now).min(now);
    let (uuid, second, taste, managed) = (None, None, Taste::default(), None);
    Ok(Some(ImportedUser { uuid, name, password, second, owner, projects, taste, disabled, created, managed }))
}

/// What a row of the table of members lets its user do.
pub(super) fn membership(row: &Row) -> Result<Membership, Complaint> {
    let is_read_only = match row.text("role")? {
        "r" => true,
        "" => !row.flag("rw")?.unwrap_or(true),
        _ => false,
    };
    Ok(if is_read_only { Membership::ReadOnly } else { Membership::Member })
}

#[cfg(test)]
mod tests;
