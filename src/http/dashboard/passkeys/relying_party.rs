//! This server as a relying party of Web Authentication (level 3): creates the options of a
//! browser's calls, and verifies their results.
//!
//! A user may choose any authenticator, so its origin is not verified (attestation "none"). The
//! key is taken in the form in which the browser reports it, and `webpki` verifies the signatures,
//! as in TLS. Libraries for Web Authentication lack RS256, the algorithm of Windows Hello, or bring
//! a hundred further crates for attestations.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustls::pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use webpki::RawPublicKeyEntity;

use super::super::browser_security::origin_text;
use super::super::challenges::{ChallengeError, ChallengePurpose, SignInChallenges};
use super::authenticator_data::AuthenticatorData;
use crate::domain::user::User;
use crate::domain::user::passkey::{Passkey, PasskeyId, PasskeyPublicKey};
use crate::http::common::request::BaseUrl;
use crate::util::random::Random;

/// Name that authenticators show.
const NAME: &str = "overdue";
/// Milliseconds for which the browser waits for the user.
const TIMEOUT_MS: u32 = 120_000;
/// Accepted algorithms with their numbers in COSE, the preferred one first.
const ALGORITHMS: [(i32, &dyn SignatureVerificationAlgorithm); 3] = [
    (-8, webpki::ring::ED25519),
    (-7, webpki::ring::ECDSA_P256_SHA256),
    (-257, webpki::ring::RSA_PKCS1_2048_8192_SHA256),
];

/// Reason for refusing the result of a browser's call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PasskeyError {
    /// The text is not such a result.
    Malformed,
    /// The challenge is refused.
    Challenge(ChallengeError),
    /// The result is for another call.
    WrongType,
    /// The page that called is not one of this server, or was in a frame of another site.
    WrongOrigin,
    /// The authenticator signed for another server.
    WrongServer,
    /// The user did not confirm, or the authenticator did not recognise its user.
    NotVerified,
    /// The key has another algorithm.
    UnsupportedKey,
    /// The signature is not of this passkey.
    WrongSignature,
    /// The counter did not grow: the authenticator was copied.
    WrongCounter,
}

impl fmt::Display for PasskeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the answer of the browser is malformed",
            Self::Challenge(ChallengeError::Unknown) => {
                "the challenge is not one that this server created since its start"
            }
            Self::Challenge(ChallengeError::Expired) => "the challenge has expired",
            Self::Challenge(ChallengeError::Used) => "the challenge was used before",
            Self::Challenge(ChallengeError::Busy) => "too many challenges are in use",
            Self::WrongType => "the answer is for another call of the browser",
            Self::WrongOrigin => "the page was at another address, or in a frame of another site",
            Self::WrongServer => "the authenticator answered another server",
            Self::NotVerified => "the authenticator did not verify its user",
            Self::UnsupportedKey => "the key is not of Ed25519, ES256 or RS256",
            Self::WrongSignature => "the signature is wrong",
            Self::WrongCounter => "the counter of the authenticator did not grow",
        })
    }
}

/// Relying party of a base URL.
pub(super) struct RelyingParty {
    /// Host name, to which passkeys belong.
    id: String,
    /// Origin of our pages.
    origin: String,
}

/// Passkey that a browser has created.
pub(super) struct CreatedPasskey {
    pub(super) id: PasskeyId,
    pub(super) public_key: PasskeyPublicKey,
    pub(super) counter: u32,
}

/// Result of `navigator.credentials.create()`, as `toJSON()` writes it.
#[derive(Deserialize)]
struct Attestation {
    id: String,
    response: AttestationPart,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttestationPart {
    authenticator_data: String,
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    /// `SubjectPublicKeyInfo`. `None` if the browser does not know the algorithm.
    public_key: Option<String>,
}

/// Result of `navigator.credentials.get()`, as `toJSON()` writes it.
#[derive(Deserialize)]
pub(super) struct Assertion {
    id: String,
    response: AssertionPart,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionPart {
    authenticator_data: String,
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    signature: String,
    user_handle: Option<String>,
}

/// Data about a call, which the browser adds and the authenticator signs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

impl Assertion {
    /// Parses the result of the browser's call.
    pub(super) fn parse(text: &str) -> Result<Self, PasskeyError> {
        serde_json::from_str(text).map_err(|_| PasskeyError::Malformed)
    }

    /// UUID of the user, as the authenticator stores it.
    pub(super) fn user(&self) -> Option<Uuid> {
        let handle = self.response.user_handle.as_deref()?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(handle).ok()?;
        Uuid::from_slice(&bytes).ok()
    }

    /// Identifier of the passkey.
    pub(super) fn passkey(&self) -> Option<PasskeyId> {
        PasskeyId::parse(&self.id)
    }
}

impl RelyingParty {
    /// Returns the relying party of a base URL. `None` if browsers allow no passkeys there: they
    /// require a name, no address, and HTTPS unless the host is this machine.
    pub(super) fn of(base_url: &BaseUrl) -> Option<Self> {
        let id = base_url.host().to_ascii_lowercase();
        let is_local = id == "localhost" || id.ends_with(".localhost");
        let is_secure = base_url.is_https() || is_local;
        if !is_secure || id.parse::<IpAddr>().is_ok() {
            return None;
        }
        let origin = origin_text(base_url)?;
        Some(Self { id, origin })
    }

    /// Options of `navigator.credentials.create()` in JSON.
    pub(super) fn creation_options(
        &self,
        user: &User,
        challenges: &SignInChallenges,
        random: &Random,
        now: Duration,
    ) -> String {
        let purpose = ChallengePurpose::Registration(user.id);
        let credential =
            |passkey: &Passkey| json!({ "type": "public-key", "id": passkey.id.to_text() });
        let existing: Vec<_> = user.passkeys.iter().map(credential).collect();
        json!({
            "rp": { "id": self.id, "name": NAME },
            "user": {
                "id": encode(user.uuid.as_bytes()),
                "name": user.name.as_str(),
                "displayName": user.name.as_str(),
            },
            "challenge": encode(&challenges.create(purpose, random, now)),
            "pubKeyCredParams":
                ALGORITHMS.map(|(number, _)| json!({ "type": "public-key", "alg": number })),
            "timeout": TIMEOUT_MS,
            "excludeCredentials": existing,
            // The authenticator stores the user: the sign-in page does not ask for a name.
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": true,
                "userVerification": "required",
            },
            "attestation": "none",
        })
        .to_string()
    }

    /// Options of `navigator.credentials.get()` in JSON.
    pub(super) fn request_options(
        &self,
        challenges: &SignInChallenges,
        random: &Random,
        now: Duration,
    ) -> String {
        let challenge = challenges.create(ChallengePurpose::SignIn, random, now);
        json!({
            "rpId": self.id,
            "challenge": encode(&challenge),
            "timeout": TIMEOUT_MS,
            "userVerification": "required",
        })
        .to_string()
    }

    /// Verifies the result of `navigator.credentials.create()` (section 7.1).
    ///
    /// # Errors
    /// If the result is not for this user and this server, or was used before.
    pub(super) fn verify_creation(
        &self,
        text: &str,
        user: &User,
        challenges: &SignInChallenges,
        now: Duration,
    ) -> Result<CreatedPasskey, PasskeyError> {
        let Attestation { id, response } =
            serde_json::from_str(text).map_err(|_| PasskeyError::Malformed)?;
        let id = PasskeyId::parse(&id).ok_or(PasskeyError::Malformed)?;
        let client_data = decode(&response.client_data)?;
        let challenge = self.verify_client_data(&client_data, "webauthn.create")?;
        let purpose = ChallengePurpose::Registration(user.id);
        challenges
            .verify(purpose, &challenge, now)
            .map_err(PasskeyError::Challenge)?;
        let bytes = decode(&response.authenticator_data)?;
        let data = self.verify_authenticator_data(&bytes)?;
        if data.created_id() != Some(id.as_bytes()) {
            return Err(PasskeyError::Malformed);
        }
        let key = response.public_key.ok_or(PasskeyError::UnsupportedKey)?;
        let key = decode(&key)?;
        let is_supported = ALGORITHMS
            .iter()
            .any(|(_, algorithm)| verify_signature(&key, *algorithm, b"", b"").is_known());
        let public_key = PasskeyPublicKey::new(&key)
            .filter(|_| is_supported)
            .ok_or(PasskeyError::UnsupportedKey)?;
        challenges
            .consume(purpose, &challenge, now)
            .map_err(PasskeyError::Challenge)?;
        Ok(CreatedPasskey {
            id,
            public_key,
            counter: data.counter(),
        })
    }

    /// Verifies the result of `navigator.credentials.get()` for a passkey of the user that the
    /// result names (section 7.2). Returns the counter of the signature.
    ///
    /// # Errors
    /// If the signature is not of this passkey and for this server, or was used before.
    pub(super) fn verify_assertion(
        &self,
        assertion: &Assertion,
        passkey: &Passkey,
        challenges: &SignInChallenges,
        now: Duration,
    ) -> Result<u32, PasskeyError> {
        let response = &assertion.response;
        let client_data = decode(&response.client_data)?;
        let challenge = self.verify_client_data(&client_data, "webauthn.get")?;
        let purpose = ChallengePurpose::SignIn;
        challenges
            .verify(purpose, &challenge, now)
            .map_err(PasskeyError::Challenge)?;
        let mut signed = decode(&response.authenticator_data)?;
        let counter = self.verify_authenticator_data(&signed)?.counter();
        signed.extend(Sha256::digest(&client_data));
        let signature = decode(&response.signature)?;
        let key = passkey.public_key.as_bytes();
        let is_right = ALGORITHMS.iter().any(|(_, algorithm)| {
            verify_signature(key, *algorithm, &signed, &signature) == Verification::Right
        });
        if !is_right {
            return Err(PasskeyError::WrongSignature);
        }
        if !passkey.accepts_counter(counter) {
            return Err(PasskeyError::WrongCounter);
        }
        challenges
            .consume(purpose, &challenge, now)
            .map_err(PasskeyError::Challenge)?;
        Ok(counter)
    }

    /// Verifies the type and the origin of the client data. Returns the challenge, which is not
    /// verified yet.
    fn verify_client_data(&self, bytes: &[u8], kind: &str) -> Result<Vec<u8>, PasskeyError> {
        let data: ClientData =
            serde_json::from_slice(bytes).map_err(|_| PasskeyError::Malformed)?;
        if data.kind != kind {
            return Err(PasskeyError::WrongType);
        }
        if data.origin != self.origin || data.cross_origin {
            return Err(PasskeyError::WrongOrigin);
        }
        decode(&data.challenge)
    }

    /// Verifies the server and the user of authenticator data.
    fn verify_authenticator_data<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<AuthenticatorData<'a>, PasskeyError> {
        let data = AuthenticatorData::parse(bytes).ok_or(PasskeyError::Malformed)?;
        if data.server_hash()[..] != Sha256::digest(&self.id)[..] {
            return Err(PasskeyError::WrongServer);
        }
        if !data.is_user_verified() {
            return Err(PasskeyError::NotVerified);
        }
        Ok(data)
    }
}

/// Result of verifying a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verification {
    Right,
    Wrong,
    /// The key is malformed, or has another algorithm.
    OtherKey,
}

impl Verification {
    /// True if the key has the algorithm.
    fn is_known(self) -> bool {
        self != Self::OtherKey
    }
}

/// Verifies a signature by a key, which is a `SubjectPublicKeyInfo`.
fn verify_signature(
    key: &[u8],
    algorithm: &dyn SignatureVerificationAlgorithm,
    signed: &[u8],
    signature: &[u8],
) -> Verification {
    let key = SubjectPublicKeyInfoDer::from(key);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
        return Verification::OtherKey;
    };
    match key.verify_signature(algorithm, signed, signature) {
        Ok(()) => Verification::Right,
        Err(webpki::Error::InvalidSignatureForPublicKey) => Verification::Wrong,
        Err(_) => Verification::OtherKey,
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>, PasskeyError> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| PasskeyError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key of 2,048 bits that signed the text "signed" with RS256, as `openssl` writes it.
    const RSA_KEY: &str = concat!(
        "30820122300d06092a864886f70d01010105000382010f003082010a02820101009fc9f882abd81e",
        "a7a8acd8172df4bf3aadfc57fa312b7277484ead0f78f168256241b133b9665ea47c852f6a8bc8ce",
        "bd1c08e34ffd15f48b1776ed23bfdc315d5e416fbe4eef4ec714da168001d0196e15c1a0700eae8c",
        "a0b82e55c6c48f2337fe35d7227c509f5450465fde070020003179ad02b32cf5612d13a8829ff202",
        "46bf9657d5bac624cbe88986feca9667b94bfea219d462359c5da1320b2fa2341509b60128e6c037",
        "6e486d20f2cc2f86e9148f397e2c56b7b5314ec00d4e6186937c52c56539461e0d264725bb1badc1",
        "746d1300c2caf237793cfaf52074f8ea547919191530b2b94501ada4e21b86092c429c006184cfd7",
        "12cda9fcd0bd0f14470203010001",
    );
    const RSA_SIGNATURE: &str = concat!(
        "105b0a28f6a556ed41a397c903cd5efae5368ffb1101256d9e42d93dfa21dac2db28402d7eae819f",
        "10b177b74c26c5823898fcae089c140b93e575d31b65ed346fb9836f378d25dfc424821ec241daaf",
        "0cc6e879b1d6fd1fb83f5592756684b305d4c4fe7376edb1733ce66ae3711e224761decb71821fee",
        "8dac6c5389d09f2c8354891dbf8e74de23adc6d26cc6cd7c50513acd23a0f83154d68d52145396ef",
        "778f13e9a9bbb97fab44a10868773855add4a4d58207d780d3faf1f3790b974458b2a1a4e7648260",
        "8a780e2c5a333c01863808d5ec10f8c322a8b3c95572bbde454ea8aaf3d72227114062dd77ec4bd3",
        "987cdb3b0fa38f379d6b3e5cfb1be226",
    );

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn a_signature_of_rs256_is_verified_with_its_algorithm_only() {
        let [key, signature] = [RSA_KEY, RSA_SIGNATURE].map(bytes);
        let results = |signed: &[u8], signature: &[u8]| {
            ALGORITHMS.map(|(number, algorithm)| {
                (number, verify_signature(&key, algorithm, signed, signature))
            })
        };
        let expected = |result| {
            [
                (-8, Verification::OtherKey),
                (-7, Verification::OtherKey),
                (-257, result),
            ]
        };
        assert_eq!(
            results(b"signed", &signature),
            expected(Verification::Right)
        );
        for (signed, signature) in [
            (&b"Signed"[..], &signature[..]),
            (b"signed", &signature[1..]),
            (b"signed", b""),
        ] {
            assert_eq!(results(signed, signature), expected(Verification::Wrong));
        }
        for wrong in [&key[1..], &key[..100], b""] {
            let result = verify_signature(wrong, ALGORITHMS[2].1, b"signed", &signature);
            assert_eq!(result, Verification::OtherKey);
        }
    }
}
