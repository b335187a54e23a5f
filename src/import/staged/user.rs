//! Users on their way into the database.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{bytes, managed, source, text};
use crate::domain::imported::ImportedUser;
use crate::domain::moment::Moment;
use crate::domain::project::KeyHash;
use crate::domain::timezone::Timezone;
use crate::domain::user::second_factor::TotpSecret;
use crate::domain::user::taste::{ListTaste, Order};
use crate::domain::user::{Membership, SecondFactor, Taste, Theme, UserName};
use crate::password;

/// A user that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::imported::ImportedUser`")]
pub struct StagedUserRow {
    name: String,
    password: Option<String>,
    second: Option<SecondRow>,
    owner: bool,
    projects: Vec<(Uuid, String)>,
    taste: TasteRow,
    disabled: bool,
    created: i64,
    managed: Option<String>,
}

/// A second factor; the secret is in base32, the hashes of codes for a lost app in base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecondRow {
    secret: String,
    used: u64,
    recovery: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TasteRow {
    zone: Option<String>,
    theme: String,
    shortcuts: bool,
    sort: String,
    rows: usize,
}

impl From<Taste> for TasteRow {
    fn from(taste: Taste) -> Self {
        Self {
            zone: taste.zone.map(|zone| zone.name().into()),
            theme: taste.theme.name().into(),
            shortcuts: taste.shortcuts,
            sort: taste.list.order.name(),
            rows: taste.list.rows,
        }
    }
}

impl TasteRow {
    fn taste(self) -> Result<Taste, &'static str> {
        let zone = self.zone.map(|zone| Timezone::parse(&zone).map_err(|_| "the zone of a user is unknown")).transpose()?;
        let rows = ListTaste::parse_rows(&self.rows.to_string()).ok_or("a list has no such number of rows")?;
        let list = ListTaste { order: Order::parse(&self.sort).ok_or("a list has no such order")?, rows };
        Ok(Taste { zone, theme: Theme::parse(&self.theme).ok_or("no such theme")?, shortcuts: self.shortcuts, list })
    }
}

impl From<SecondFactor> for SecondRow {
    fn from(second: SecondFactor) -> Self {
        let recovery = second.recovery.iter().map(|hash| text(&hash.0)).collect();
        Self { secret: second.secret.text(), used: second.used, recovery }
    }
}

impl SecondRow {
    fn second(self) -> Result<SecondFactor, &'static str> {
        if self.recovery.len() > SecondFactor::RECOVERY_CODES {
            return Err("a user has more codes for a lost app than there may be");
        }
        let recovery = self.recovery.iter().map(|text| bytes(text).map(KeyHash)).collect::<Result<_, _>>()?;
        let secret = TotpSecret::parse(&self.secret).ok_or("the second factor of a user cannot be read")?;
        Ok(SecondFactor { secret, used: self.used, recovery })
    }
}

impl From<ImportedUser> for StagedUserRow {
    fn from(user: ImportedUser) -> Self {
        Self {
            name: user.name.as_str().into(),
            password: user.password.as_ref().map(|password| password.as_str().into()),
            second: user.second.map(Into::into),
            owner: user.owner,
            projects: user.projects.into_iter().map(|(uuid, membership)| (uuid, membership.name().into())).collect(),
            taste: user.taste.into(),
            disabled: user.disabled,
            created: user.created.micros(),
            managed: managed(user.managed.as_ref()),
        }
    }
}

impl StagedUserRow {
    /// The user, who has or gets this UUID.
    pub(super) fn user(self, uuid: Uuid) -> Result<ImportedUser, String> {
        let membership = |(uuid, word): (Uuid, String)| Ok((uuid, Membership::parse(&word).ok_or("no such membership")?));
        let password = |text: String| password::parse(&text).ok_or("a user has what is not the hash of a password");
        Ok(ImportedUser {
            uuid: Some(uuid),
            name: UserName::parse(&self.name)?,
            password: self.password.map(password).transpose()?,
            second: self.second.map(SecondRow::second).transpose()?,
            owner: self.owner,
            projects: self.projects.into_iter().map(membership).collect::<Result<_, &str>>()?,
            taste: self.taste.taste()?,
            disabled: self.disabled,
            created: Moment::from_micros(self.created),
            managed: source(self.managed.as_deref())?,
        })
    }
}
