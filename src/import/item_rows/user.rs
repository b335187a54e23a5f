//! Rows of users of an import.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{decode_bytes, encode_bytes, parse_source, source_text};
use crate::domain::import_contents::ImportedUser;
use crate::domain::mail_address::MailAddress;
use crate::domain::project::SecretHash;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::user::passkey::{MAX_PASSKEYS, PasskeyId, PasskeyName, PasskeyPublicKey};
use crate::domain::user::preferences::{ListPreferences, SortOrder};
use crate::domain::user::saved_filters::{SavedFilter, SavedFilters};
use crate::domain::user::second_factor::TotpSecret;
use crate::domain::user::summary::{
    MAX_FAILURE_CHARS, MAX_SUMMARY_PROJECTS, SummaryInterval, SummarySettings, SummarySubscription,
};
use crate::domain::user::{
    ExternalIdentity, Membership, Passkey, SecondFactor, Theme, UserName, UserPreferences,
};
use crate::util::password;

/// A user that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::import_contents::ImportedUser`")]
pub struct ImportUserRow {
    name: String,
    password: Option<String>,
    second: Option<SecondFactorRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passkeys: Vec<PasskeyRow>,
    /// Issuer and subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<(String, String)>,
    owner: bool,
    projects: Vec<(Uuid, String)>,
    #[serde(rename = "taste")]
    preferences: PreferencesRow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<SummaryRow>,
    disabled: bool,
    created: i64,
    managed: Option<String>,
}

/// A second factor. The secret is in base32, the hashes of recovery codes are in base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecondFactorRow {
    secret: String,
    used: u64,
    recovery: Vec<String>,
}

/// A passkey. The identifier and the key are in base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PasskeyRow {
    id: String,
    name: String,
    key: String,
    counter: u32,
    created: i64,
    used: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreferencesRow {
    zone: Option<String>,
    theme: String,
    shortcuts: bool,
    sort: String,
    rows: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<Uuid>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<(String, String)>,
}

/// A subscription to summaries by mail.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SummaryRow {
    interval: String,
    address: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    projects: Vec<Uuid>,
    covered_until: i64,
    sent: Option<i64>,
    failure: Option<String>,
}

impl From<SummarySubscription> for SummaryRow {
    fn from(subscription: SummarySubscription) -> Self {
        let settings = subscription.settings;
        Self {
            interval: settings.interval.name().into(),
            address: settings.address.as_str().into(),
            projects: settings.projects.into(),
            covered_until: subscription.covered_until.micros(),
            sent: subscription.last_sent.map(Timestamp::micros),
            failure: subscription.failure.map(Into::into),
        }
    }
}

impl SummaryRow {
    fn into_subscription(self) -> Result<SummarySubscription, &'static str> {
        if self.projects.len() > MAX_SUMMARY_PROJECTS {
            return Err("the summary of a user has too many projects");
        }
        Ok(SummarySubscription {
            settings: SummarySettings {
                interval: SummaryInterval::parse(&self.interval)
                    .ok_or("unknown interval of a summary")?,
                address: MailAddress::parse(&self.address)?,
                projects: self.projects.into(),
            },
            covered_until: Timestamp::from_micros(self.covered_until),
            last_sent: self.sent.map(Timestamp::from_micros),
            failure: self.failure.map(|text| {
                text.chars()
                    .take(MAX_FAILURE_CHARS)
                    .collect::<String>()
                    .into()
            }),
        })
    }
}

impl From<UserPreferences> for PreferencesRow {
    fn from(preferences: UserPreferences) -> Self {
        Self {
            zone: preferences.zone.map(|zone| zone.name().into()),
            theme: preferences.theme.name().into(),
            shortcuts: preferences.shortcuts,
            sort: preferences.list.order.name(),
            rows: preferences.list.page_size,
            pinned: preferences.pinned.into(),
            filters: preferences
                .filters
                .iter()
                .map(|filter| (filter.name.as_ref().into(), filter.query.as_ref().into()))
                .collect(),
        }
    }
}

impl PreferencesRow {
    fn into_preferences(self) -> Result<UserPreferences, &'static str> {
        let zone = self
            .zone
            .map(|zone| Timezone::parse(&zone).map_err(|_| "unknown time zone of a user"))
            .transpose()?;
        let rows = ListPreferences::parse_page_size(&self.rows.to_string())
            .ok_or("invalid number of rows of a list")?;
        let list = ListPreferences {
            order: SortOrder::parse(&self.sort).ok_or("unknown sort order of a list")?,
            page_size: rows,
        };
        Ok(UserPreferences {
            zone,
            theme: Theme::parse(&self.theme).ok_or("unknown theme")?,
            shortcuts: self.shortcuts,
            list,
            pinned: self.pinned.into(),
            filters: self
                .filters
                .iter()
                .map(|(name, query)| SavedFilter::new(name, query))
                .collect::<Result<Vec<_>, _>>()
                .and_then(SavedFilters::from_stored)?,
        })
    }
}

impl From<SecondFactor> for SecondFactorRow {
    fn from(second: SecondFactor) -> Self {
        let recovery = second
            .recovery_hashes
            .iter()
            .map(|hash| encode_bytes(&hash.0))
            .collect();
        Self {
            secret: second.secret.to_base32(),
            used: second.last_used_step,
            recovery,
        }
    }
}

impl SecondFactorRow {
    fn into_second_factor(self) -> Result<SecondFactor, &'static str> {
        if self.recovery.len() > SecondFactor::RECOVERY_CODE_COUNT {
            return Err("a user has too many recovery codes");
        }
        let recovery = self
            .recovery
            .iter()
            .map(|text| decode_bytes(text).map(SecretHash))
            .collect::<Result<_, _>>()?;
        let secret = TotpSecret::parse(&self.secret).ok_or("invalid second factor of a user")?;
        Ok(SecondFactor {
            secret,
            last_used_step: self.used,
            recovery_hashes: recovery,
        })
    }
}

impl From<&Passkey> for PasskeyRow {
    fn from(passkey: &Passkey) -> Self {
        Self {
            id: passkey.id.to_text(),
            name: passkey.name.as_str().into(),
            key: BASE64_URL_SAFE_NO_PAD.encode(passkey.public_key.as_bytes()),
            counter: passkey.counter,
            created: passkey.created.micros(),
            used: passkey.last_used.map(Timestamp::micros),
        }
    }
}

impl PasskeyRow {
    fn into_passkey(self) -> Result<Passkey, &'static str> {
        let key = BASE64_URL_SAFE_NO_PAD.decode(&self.key).ok();
        let public_key = key.and_then(|key| PasskeyPublicKey::new(&key));
        Ok(Passkey {
            id: PasskeyId::parse(&self.id).ok_or("invalid passkey of a user")?,
            name: PasskeyName::parse(&self.name)?,
            public_key: public_key.ok_or("invalid key of a passkey")?,
            counter: self.counter,
            created: Timestamp::from_micros(self.created),
            last_used: self.used.map(Timestamp::from_micros),
        })
    }
}

impl From<ImportedUser> for ImportUserRow {
    fn from(user: ImportedUser) -> Self {
        Self {
            name: user.name.as_str().into(),
            password: user
                .password
                .as_ref()
                .map(|password| password.as_str().into()),
            second: user.second_factor.map(Into::into),
            passkeys: user.passkeys.iter().map(Into::into).collect(),
            identity: user
                .identity
                .map(|identity| (identity.issuer().into(), identity.subject().into())),
            owner: user.owner,
            projects: user
                .projects
                .into_iter()
                .map(|(uuid, membership)| (uuid, membership.name().into()))
                .collect(),
            preferences: user.preferences.into(),
            summary: user.summary.map(Into::into),
            disabled: user.disabled,
            created: user.created.micros(),
            managed: source_text(user.managed_by.as_ref()),
        }
    }
}

impl ImportUserRow {
    /// Converts the row to a user with this UUID.
    pub(super) fn into_user(self, uuid: Uuid) -> Result<ImportedUser, String> {
        if self.passkeys.len() > MAX_PASSKEYS {
            return Err("a user has too many passkeys".into());
        }
        let membership = |(uuid, word): (Uuid, String)| {
            Ok((uuid, Membership::parse(&word).ok_or("unknown membership")?))
        };
        let password =
            |text: String| password::parse(&text).ok_or("invalid password hash of a user");
        Ok(ImportedUser {
            uuid: Some(uuid),
            name: UserName::parse(&self.name)?,
            password: self.password.map(password).transpose()?,
            second_factor: self
                .second
                .map(SecondFactorRow::into_second_factor)
                .transpose()?,
            passkeys: self
                .passkeys
                .into_iter()
                .map(PasskeyRow::into_passkey)
                .collect::<Result<_, _>>()?,
            identity: self
                .identity
                .map(|(issuer, subject)| {
                    ExternalIdentity::new(&issuer, &subject).ok_or("invalid identity of a user")
                })
                .transpose()?,
            owner: self.owner,
            projects: self
                .projects
                .into_iter()
                .map(membership)
                .collect::<Result<_, &str>>()?,
            preferences: self.preferences.into_preferences()?,
            summary: self
                .summary
                .map(SummaryRow::into_subscription)
                .transpose()?,
            disabled: self.disabled,
            created: Timestamp::from_micros(self.created),
            managed_by: parse_source(self.managed.as_deref())?,
        })
    }
}
