//! Secrets of keys of an import.

use serde::{Deserialize, Serialize};

use super::{decode_bytes, encode_bytes};
use crate::domain::import_contents::ImportedKeySecret;
use crate::domain::legacy_keys::LegacyKeyDigest;
use crate::domain::project::{KeyAccess, KeySecret, PingKey, SecretHash};

/// Secret of a key; hashes and digests are in base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "see `domain::import_contents::ImportedKeySecret`"
)]
pub enum KeySecretRow {
    ReadWrite(String),
    ReadOnly(String),
    Ping(String),
    /// Access of the key, position of the secret, and digest.
    Hashed(String, u8, String),
}

impl From<ImportedKeySecret> for KeySecretRow {
    fn from(secret: ImportedKeySecret) -> Self {
        let hashed = |access: KeyAccess, secret, digest: &[u8]| {
            Self::Hashed(access.name().into(), secret, encode_bytes(digest))
        };
        match secret {
            ImportedKeySecret::Native(KeySecret::ReadWrite(SecretHash(hash))) => {
                Self::ReadWrite(encode_bytes(&hash))
            }
            ImportedKeySecret::Native(KeySecret::ReadOnly(SecretHash(hash))) => {
                Self::ReadOnly(encode_bytes(&hash))
            }
            ImportedKeySecret::Native(KeySecret::Ping(key)) => Self::Ping(key.as_str().into()),
            ImportedKeySecret::Native(own @ KeySecret::Legacy(key)) => {
                hashed(own.access(), key.secret_number, &key.digest.0)
            }
            ImportedKeySecret::Legacy {
                access,
                secret_index: secret,
                digest: LegacyKeyDigest(digest),
            } => hashed(access, secret, &digest),
        }
    }
}

impl KeySecretRow {
    /// Converts the row to the secret of a key.
    pub(super) fn into_secret(self) -> Result<ImportedKeySecret, &'static str> {
        let hash = |text: &str| decode_bytes(text).map(SecretHash);
        Ok(match self {
            Self::ReadWrite(text) => ImportedKeySecret::Native(KeySecret::ReadWrite(hash(&text)?)),
            Self::ReadOnly(text) => ImportedKeySecret::Native(KeySecret::ReadOnly(hash(&text)?)),
            Self::Ping(key) => ImportedKeySecret::Native(KeySecret::Ping(
                PingKey::parse(&key).ok_or("invalid ping key")?,
            )),
            Self::Hashed(access, secret, digest) => {
                let access = KeyAccess::parse(&access).ok_or("unknown access")?;
                ImportedKeySecret::Legacy {
                    access,
                    secret_index: secret,
                    digest: LegacyKeyDigest(decode_bytes(&digest)?),
                }
            }
        })
    }
}
