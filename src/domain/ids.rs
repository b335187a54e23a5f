//! Numbers and UUIDs that name things, each of a type of its own so that none can stand in for another.

use uuid::Uuid;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u64);
    )*};
}

id! {
    /// A check. All ids come from one sequence and are never reused; "oldest first" is this order.
    CheckId;
    /// A project.
    ProjectId;
    /// A notification channel ("integration" in texts about Healthchecks).
    ChannelId;
    /// An API key or ping key.
    KeyId;
    /// A user of the dashboard.
    UserId;
    /// A session of a user.
    SessionId;
    /// A link that is good once.
    LinkId;
    /// A maintenance window.
    WindowId;
    /// A place in the arrival log of pings; 0 stands for "before the first".
    Arrival;
    /// A place in the log of flips; 0 stands for "before the first".
    FlipNumber;
    /// Something that was to be told to a channel: its place in the outbox and then in the log of deliveries. Never given twice.
    DeliveryNumber;
}

/// Reads a UUID spelled 8-4-4-4-12; the digits may have either case. Everything else (braces, `urn:`, no hyphens) is `None`.
pub fn parse_hyphenated_uuid(text: &str) -> Option<Uuid> {
    // `Uuid::try_parse` takes other spellings too; among those of 36 characters only this one has a hyphen at 8.
    (text.len() == 36 && text.as_bytes().get(8) == Some(&b'-')).then(|| Uuid::try_parse(text).ok()).flatten()
}

/// Reads a UUID as it stands in paths: 8-4-4-4-12, lower case. Any other spelling is unknown.
pub fn parse_path_uuid(text: &str) -> Option<Uuid> {
    parse_hyphenated_uuid(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

/// Writes a UUID as paths and answers have it: 8-4-4-4-12, lower case.
pub fn write_uuid(uuid: Uuid, out: &mut String) {
    out.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
}

/// What a read-only key sees instead of a check's UUID: 40 lower case hexadecimal digits, the SHA-1 of the text of the first 16
/// hexadecimal digits of the UUID. Stable, and of no use for pinging.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UniqueKey([u8; 20]);

impl UniqueKey {
    /// The key of no check.
    pub const NONE: Self = Self([0; 20]);

    /// The key of a check.
    pub fn of_check(check: Uuid) -> Self {
        use sha1::Digest as _;
        let mut digits = Uuid::encode_buffer();
        let digits = check.simple().encode_lower(&mut digits).as_bytes();
        Self(sha1::Sha1::digest(digits.get(..16).unwrap_or(digits)).into())
    }

    /// The key of these bytes.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 20] {
        self.0
    }

    /// Reads 40 lower case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 20];
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != key.len() || !odd.is_empty() || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        for (byte, [high, low]) in key.iter_mut().zip(pairs) {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            *byte = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
        }
        Some(Self(key))
    }
}

impl std::fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_counts() {
        let good = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        assert!(parse_hyphenated_uuid(good).is_some() && parse_path_uuid(good).is_some());
        assert!(parse_hyphenated_uuid(&good.to_uppercase()).is_some() && parse_path_uuid(&good.to_uppercase()).is_none());
        for bad in [
            "",
            "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f",
            "{6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5}",
            "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5g",
            "6f3a0f6e-0c9b4-f0e-9b1b-0a1b2c3d4e5f",
            "urn:uuid:6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
        ] {
            assert_eq!(parse_hyphenated_uuid(bad), None, "{bad}");
        }
    }

    #[test]
    fn unique_keys_are_a_hash_of_the_first_half() {
        let uuid = |text: &str| parse_path_uuid(text).unwrap();
        let key = UniqueKey::of_check(uuid("00000000-0000-0000-0000-000000000000"));
        assert_eq!(key, UniqueKey::of_check(uuid("00000000-0000-0000-ffff-ffffffffffff")));
        // printf 0000000000000000 | sha1sum
        assert_eq!(key.to_string(), "b02132081808b493c61e86626ee6c2e29326a662");
        assert_eq!(UniqueKey::parse(&key.to_string()), Some(key));
        for bad in [&key.to_string().to_uppercase(), &"0".repeat(39), &"0".repeat(41), &"g".repeat(40), &"ä".repeat(20)] {
            assert_eq!(UniqueKey::parse(bad), None, "{bad}");
        }
    }
}
