//! An authenticator and its browser in software: the results of Web Authentication, right or wrong.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Flags of authenticator data (Web Authentication, section 6.1).
pub const USER_PRESENT: u8 = 1;
pub const USER_VERIFIED: u8 = 1 << 2;
const HAS_CREDENTIAL: u8 = 1 << 6;

/// An authenticator with one key. Its fields are those of the next result.
pub struct Authenticator {
    pub key: KeyPair,
    pub id: Vec<u8>,
    pub user_handle: Vec<u8>,
    pub relying_party: String,
    pub origin: String,
    pub is_cross_origin: bool,
    pub flags: u8,
    pub counter: u32,
    /// Replaces the type of the client data.
    pub client_data_type: Option<&'static str>,
}

impl Authenticator {
    pub fn new(relying_party: &str, origin: &str, id: &[u8]) -> Self {
        Self {
            key: new_key(),
            id: id.to_vec(),
            user_handle: Vec::new(),
            relying_party: relying_party.into(),
            origin: origin.into(),
            is_cross_origin: false,
            flags: USER_PRESENT | USER_VERIFIED,
            counter: 0,
            client_data_type: None,
        }
    }

    /// Result of `navigator.credentials.create()`, as `toJSON()` writes it. Stores the user.
    pub fn create(&mut self, options: &Value) -> String {
        self.user_handle = decode(&options["user"]["id"]);
        let mut data = self.authenticator_data(HAS_CREDENTIAL);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.id.len()).unwrap().to_be_bytes());
        data.extend(&self.id);
        let client_data = self.client_data("webauthn.create", options);
        json!({
            "id": encode(&self.id),
            "rawId": encode(&self.id),
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {
                "authenticatorData": encode(&data),
                "clientDataJSON": encode(&client_data),
                "publicKey": encode(&self.key.subject_public_key_info()),
                "publicKeyAlgorithm": -7,
                "transports": ["internal"],
            },
        })
        .to_string()
    }

    /// Result of `navigator.credentials.get()`, as `toJSON()` writes it.
    pub fn get(&self, options: &Value) -> String {
        let client_data = self.client_data("webauthn.get", options);
        let data = self.authenticator_data(0);
        let mut signed = data.clone();
        signed.extend(Sha256::digest(&client_data));
        json!({
            "id": encode(&self.id),
            "rawId": encode(&self.id),
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {
                "authenticatorData": encode(&data),
                "clientDataJSON": encode(&client_data),
                "signature": encode(&self.key.sign(&signed).unwrap()),
                "userHandle": encode(&self.user_handle),
            },
        })
        .to_string()
    }

    fn authenticator_data(&self, flags: u8) -> Vec<u8> {
        let mut data = Sha256::digest(&self.relying_party).to_vec();
        data.push(self.flags | flags);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        json!({
            "type": self.client_data_type.unwrap_or(kind),
            "challenge": options["challenge"],
            "origin": self.origin,
            "crossOrigin": self.is_cross_origin,
        })
        .to_string()
        .into_bytes()
    }
}

pub fn new_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &Value) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text.as_str().unwrap())
        .unwrap()
}
