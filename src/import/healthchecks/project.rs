//! Conversion of projects with their keys, and of users.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::secret_verification::{self, SecretVerdict};
use crate::domain::import_contents::{
    ImportedKey, ImportedKeySecret, ImportedProject, ImportedUser,
};
use crate::domain::legacy_keys::{LegacyBadgeKey, LegacyKey, LegacyKeyDigest, LegacySecret};
use crate::domain::mail_address::MailAddress;
use crate::domain::project::{
    DEFAULT_PING_LOG_LIMIT, KeyAccess, KeyLabel, KeySecret, PingKey, ProjectKey, ProjectName,
    SecretHash,
};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::user::summary::{SummaryInterval, SummarySettings};
use crate::domain::user::{Membership, SummarySubscription, Theme, UserName, UserPreferences};
use crate::import::ImportOptions;
use crate::import::report::{ImportTally, ReportedKind};
use crate::import::source_row::{RowError, SourceRow, decode_hex};
use crate::util::password;

/// Maximum number of characters of a project's name.
const MAX_NAME_CHARS: usize = 100;
/// Number of characters of a name that the report shows.
const SHOWN_NAME_CHARS: usize = 40;

/// Mail addresses and profiles of users, by the numbers of the users.
pub(super) struct UserProfiles {
    addresses: HashMap<i64, String>,
    /// Log limits, which apply to the projects of a user.
    limits: HashMap<i64, i64>,
    preferences: HashMap<i64, UserPreferences>,
    summaries: HashMap<i64, SummaryInterval>,
}

impl UserProfiles {
    pub(super) fn from_rows(users: &[SourceRow], profiles: &[SourceRow]) -> Result<Self, RowError> {
        let address = |row: &SourceRow| Ok((row.id("id")?, row.text("email")?.to_owned()));
        let limit =
            |row: &SourceRow| Ok(row.integer("user_id")?.zip(row.integer("ping_log_limit")?));
        let addresses = users.iter().map(address).collect::<Result<_, RowError>>()?;
        let limits = profiles
            .iter()
            .map(limit)
            .filter_map(Result::transpose)
            .collect::<Result<_, RowError>>()?;
        let mut preferences = HashMap::new();
        let mut summaries = HashMap::new();
        for row in profiles {
            let Some(user) = row.integer("user_id")? else {
                continue;
            };
            preferences.insert(user, read_preferences(row)?);
            // Releases before 1.21 have monthly reports only.
            let is_monthly = row.boolean("reports_allowed")?.unwrap_or(false);
            let monthly = Some(SummaryInterval::Monthly).filter(|_| is_monthly);
            let interval = SummaryInterval::parse(row.text("reports")?).or(monthly);
            summaries.extend(interval.map(|interval| (user, interval)));
        }
        Ok(Self {
            addresses,
            limits,
            preferences,
            summaries,
        })
    }

    /// Subscription of a user to summaries, if the user had reports and has a mail address.
    fn summary_of(&self, user: i64, now: Timestamp) -> Option<SummarySubscription> {
        let settings = SummarySettings {
            interval: *self.summaries.get(&user)?,
            address: MailAddress::parse(self.addresses.get(&user)?).ok()?,
            projects: [].into(),
        };
        Some(SummarySubscription::new(settings, now))
    }
}

/// Time zone and theme in a profile. `UTC` is what a user has who has not chosen a zone.
fn read_preferences(row: &SourceRow) -> Result<UserPreferences, RowError> {
    let defaults = UserPreferences::default();
    Ok(UserPreferences {
        zone: Timezone::parse(row.text("tz")?)
            .ok()
            .filter(|zone| *zone != Timezone::utc()),
        theme: Theme::parse(row.text("theme")?).unwrap_or(defaults.theme),
        ..defaults
    })
}

/// Converter for rows of the table of projects.
pub(super) struct ProjectConverter<'a> {
    pub(super) options: &'a ImportOptions,
    pub(super) owners: &'a UserProfiles,
    pub(super) secret: Option<&'a LegacySecret>,
    /// Result of verifying the secret.
    pub(super) secret_verdict: SecretVerdict,
    /// Names that are already used.
    pub(super) used_names: BTreeSet<String>,
    /// Selected projects that were found.
    pub(super) matched: HashSet<String>,
}

impl ProjectConverter<'_> {
    /// Converts a row; `None` if the project is not selected.
    pub(super) fn convert_project(
        &mut self,
        row: &SourceRow,
        tally: &mut ImportTally,
    ) -> Result<Option<ImportedProject>, RowError> {
        let uuid = row.require("code", row.uuid("code"))?;
        let name = row.text("name")?;
        let owner = row.id("owner_id")?;
        let address = self.owners.addresses.get(&owner).map_or("", String::as_str);
        // Healthchecks shows a project without a name under the address of its owner.
        let display_name = if name.is_empty() { address } else { name };
        let text = uuid.to_string();
        let chosen = self
            .options
            .projects
            .iter()
            .find(|chosen| [name, display_name, &text].contains(&chosen.source_name.as_str()));
        if chosen.is_none() && !self.options.projects.is_empty() {
            tally.add_dropped(ReportedKind::Projects, 1, "not selected");
            return Ok(None);
        }
        self.matched
            .extend(chosen.map(|chosen| chosen.source_name.clone()));
        let requested_name = chosen
            .and_then(|chosen| chosen.new_name.as_ref())
            .map_or(display_name, ProjectName::as_str);
        if requested_name.is_empty() {
            return Err(row.error(format!(
                "it has no name and no owner; name it with --project {uuid}=NAME"
            )));
        }
        let unique_name = self.unique_name(requested_name);
        let project_name = ProjectName::parse(&unique_name).map_err(|problem| {
            row.error(format!("{problem}; rename it with --project {uuid}=NAME"))
                .with_name(name)
        })?;
        tally.add_carried(ReportedKind::Projects, 1);
        if unique_name != name {
            tally.add_changed(ReportedKind::Projects, 1);
            tally.add_note(
                ReportedKind::Projects,
                None,
                format!(
                    "{:?} is renamed to {:?}",
                    shorten_name(name),
                    shorten_name(&unique_name)
                ),
            );
        }
        self.used_names.insert(unique_name);
        let badge_key = match row.text("badge_key")? {
            key if key.is_empty() || key.contains('/') => text.as_str(),
            key => key,
        };
        let limit = self
            .owners
            .limits
            .get(&owner)
            .copied()
            .unwrap_or(DEFAULT_PING_LOG_LIMIT.into());
        let ping_log_limit = u32::try_from(limit).unwrap_or_else(|_| {
            tally.add_note(
                ReportedKind::Projects,
                Some(1),
                "with a log limit out of range, changed to the default",
            );
            DEFAULT_PING_LOG_LIMIT
        });
        let old_badge = self
            .secret
            .map(|secret| LegacyBadgeKey::for_project(badge_key, secret));
        if let Some((signature, badge)) = row.text("badge_signature").ok().zip(old_badge.as_ref()) {
            self.secret_verdict =
                self.secret_verdict
                    .with_signature(secret_verification::verify_badge_signature(
                        signature, badge,
                    ));
        }
        Ok(Some(ImportedProject {
            uuid,
            keys: self.convert_keys(row, &project_name, tally)?,
            name: project_name,
            badge_key: badge_key.into(),
            legacy_badge: old_badge,
            check_limit: None,
            ping_log_limit,
            allows_ping_settings: false,
            status_pages: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        }))
    }

    /// Returns a name of at most 100 characters that no other project has.
    fn unique_name(&self, name: &str) -> String {
        let cut = |max_chars: usize| name.chars().take(max_chars).collect::<String>();
        let numbered = (2_usize..).map(|number| {
            let end = format!(" ({number})");
            cut(MAX_NAME_CHARS - end.len()) + &end
        });
        std::iter::once(cut(MAX_NAME_CHARS))
            .chain(numbered)
            .find(|name| !self.used_names.contains(name))
            .unwrap_or_default()
    }

    fn convert_keys(
        &self,
        row: &SourceRow,
        project: &ProjectName,
        tally: &mut ImportTally,
    ) -> Result<Vec<ImportedKey>, RowError> {
        let mut keys = Vec::new();
        for (column, access) in [
            ("api_key", KeyAccess::ReadWrite),
            ("api_key_readonly", KeyAccess::ReadOnly),
        ] {
            let text = row.text(column)?;
            let secret = match text.split_once('.') {
                _ if text.is_empty() => continue,
                None => ImportedKeySecret::Native(match access {
                    KeyAccess::ReadOnly => KeySecret::ReadOnly(SecretHash::of(text.as_bytes())),
                    _ => KeySecret::ReadWrite(SecretHash::of(text.as_bytes())),
                }),
                Some((_, digest)) => {
                    let Some(digest) = decode_hex(digest).and_then(|digest| digest.try_into().ok())
                    else {
                        tally.add_dropped(
                            ReportedKind::ApiKeys,
                            1,
                            "neither a key nor a hash of a key",
                        );
                        continue;
                    };
                    if self.secret.is_none() {
                        let name = project.as_str();
                        tally.add_dropped(
                            ReportedKind::ApiKeys,
                            1,
                            "hashed: they need the SECRET_KEY of the old server; give it with \
                             --env-file or --secret-key-file",
                        );
                        tally.add_note(
                            ReportedKind::ApiKeys,
                            None,
                            format!(
                                "or create a new key: overdue key create --project {name:?} \
                                 --access {}",
                                access.name()
                            ),
                        );
                        continue;
                    }
                    let note = match self.secret_verdict {
                        SecretVerdict::Unknown => {
                            "hashed: they work if the old server used this SECRET_KEY"
                        }
                        SecretVerdict::Correct => "hashed, verified with the SECRET_KEY",
                        SecretVerdict::Incorrect(_) => {
                            "hashed: they are rejected unless the old server used this SECRET_KEY"
                        }
                    };
                    tally.add_note(ReportedKind::ApiKeys, Some(1), note);
                    ImportedKeySecret::Legacy {
                        access,
                        secret_index: 0,
                        digest: LegacyKeyDigest(digest),
                    }
                }
            };
            let hint = match text.split_once('.') {
                Some((start, _)) => {
                    LegacyKey::prefix(access == KeyAccess::ReadOnly).to_owned() + start
                }
                None => text.chars().take(ProjectKey::HINT_LENGTH).collect(),
            };
            keys.push(imported_key(secret, &hint));
            tally.add_carried(ReportedKind::ApiKeys, 1);
        }
        match row.text("ping_key")? {
            "" => {}
            text => match PingKey::parse(text) {
                Some(key) => {
                    let hint: String = text.chars().take(ProjectKey::HINT_LENGTH).collect();
                    keys.push(self::imported_key(
                        ImportedKeySecret::Native(KeySecret::Ping(key)),
                        &hint,
                    ));
                    tally.add_carried(ReportedKind::PingKeys, 1);
                }
                None => {
                    let max_length = PingKey::MAX_LENGTH;
                    tally.add_dropped(
                        ReportedKind::PingKeys,
                        1,
                        format!(
                            "not valid here: a ping key has 1 to {max_length} characters A-Z, a-z, \
                             0-9, hyphen or underscore and is not a UUID"
                        ),
                    );
                }
            },
        }
        Ok(keys)
    }
}

/// Returns a key with a secret and a hint; its other properties are unknown.
fn imported_key(secret: ImportedKeySecret, hint: &str) -> ImportedKey {
    let hint = hint
        .chars()
        .take(ProjectKey::MAX_IMPORTED_HINT_LENGTH)
        .collect();
    ImportedKey {
        secret,
        hint,
        label: KeyLabel::default(),
        created: None,
        last_use: None,
        managed_by: None,
    }
}

/// Cuts a name to the length that fits in a line.
fn shorten_name(name: &str) -> String {
    let mut chars = name.chars();
    let start: String = chars.by_ref().take(SHOWN_NAME_CHARS).collect();
    if chars.next().is_some() {
        start + "…"
    } else {
        start
    }
}

/// Converts a row of the table of users. `projects` are the imported projects with the membership
/// of each user, by the user's number.
pub(super) fn convert_user(
    row: &SourceRow,
    projects: &HashMap<i64, Vec<(Uuid, Membership)>>,
    profiles: &UserProfiles,
    used_names: &mut BTreeSet<Box<str>>,
    now: Timestamp,
    tally: &mut ImportTally,
) -> Result<Option<ImportedUser>, RowError> {
    let address = [row.text("email")?, row.text("username")?]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    let user_name = match UserName::parse(address) {
        Ok(name) if used_names.insert(name.case_folded()) => Ok(name),
        Ok(_) => Err("another user has the same address in different letter case".to_owned()),
        Err(problem) => Err(problem.to_string()),
    };
    let name = match user_name {
        Ok(name) => name,
        Err(reason) => {
            tally.add_dropped(
                ReportedKind::Users,
                1,
                format!("{:?} is not imported: {reason}", shorten_name(address)),
            );
            return Ok(None);
        }
    };
    // A hash that no password can be checked against is dropped: the user needs a link.
    let password = row
        .text("password")?
        .strip_prefix("argon2")
        .and_then(password::parse);
    let owner = row.boolean("is_superuser")?.unwrap_or(false);
    let mut projects = if owner {
        Vec::new()
    } else {
        projects.get(&row.id("id")?).cloned().unwrap_or_default()
    };
    // If there are two memberships, the greater one counts.
    projects.sort_unstable_by(|(a, least), (b, most)| a.cmp(b).then(most.cmp(least)));
    projects.dedup_by_key(|(uuid, _)| *uuid);
    tally.add_carried(ReportedKind::Users, 1);
    if password.is_none() {
        tally.add_changed(ReportedKind::Users, 1);
        tally.add_note(
            ReportedKind::Users,
            Some(1),
            "without a usable password: create a link with overdue user link",
        );
    }
    let disabled = !row.boolean("is_active")?.unwrap_or(true);
    let created = row.timestamp("date_joined")?.unwrap_or(now).min(now);
    let uuid = None;
    let second_factor = None;
    let number = row.id("id")?;
    let preferences = profiles.preferences.get(&number).cloned();
    let summary = profiles.summary_of(number, now);
    if let Some(SummarySubscription { settings, .. }) = &summary {
        tally.add_note(
            ReportedKind::Users,
            Some(1),
            format!(
                "with a {} summary by mail, as before; users change it on the account page",
                settings.interval.name()
            ),
        );
    }
    let managed_by = None;
    Ok(Some(ImportedUser {
        uuid,
        name,
        password,
        second_factor,
        passkeys: [].into(),
        identity: None,
        owner,
        projects,
        preferences: preferences.unwrap_or_default(),
        summary,
        disabled,
        created,
        managed_by,
    }))
}

/// Returns the imported projects with the membership of each user, by the user's number. `uuid` is
/// that of an imported project by its number.
pub(super) fn read_grants(
    projects: &[SourceRow],
    members: &[SourceRow],
    uuid: impl Fn(i64) -> Option<Uuid>,
) -> Result<HashMap<i64, Vec<(Uuid, Membership)>>, RowError> {
    let mut grants: HashMap<i64, Vec<(Uuid, Membership)>> = HashMap::new();
    for row in projects {
        let member = uuid(row.id("id")?).map(|uuid| (uuid, Membership::Member));
        grants
            .entry(row.id("owner_id")?)
            .or_default()
            .extend(member);
    }
    for row in members {
        // An invitation from before projects existed has no project.
        let Some(number) = row.integer("project_id")? else {
            continue;
        };
        let membership = read_membership(row)?;
        grants
            .entry(row.id("user_id")?)
            .or_default()
            .extend(uuid(number).map(|uuid| (uuid, membership)));
    }
    Ok(grants)
}

/// Returns the membership in a row of the table of members.
fn read_membership(row: &SourceRow) -> Result<Membership, RowError> {
    let is_read_only = match row.text("role")? {
        "r" => true,
        "" => !row.boolean("rw")?.unwrap_or(true),
        _ => false,
    };
    Ok(if is_read_only {
        Membership::ReadOnly
    } else {
        Membership::Member
    })
}

#[cfg(test)]
mod tests;
