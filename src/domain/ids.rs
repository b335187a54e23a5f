//! Numbers and UUIDs that identify objects. Each has a type of its own, so that they cannot be
//! confused.

use uuid::Uuid;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u64);
    )*};
}

id! {
    /// Number of a check. All ids come from one sequence and are never reused; "oldest first" is
    /// this order.
    CheckId;
    /// Number of a project.
    ProjectId;
    /// Number of a notification channel ("integration" in texts about Healthchecks).
    ChannelId;
    /// Number of an API key or ping key.
    KeyId;
    /// Number of a user of the dashboard.
    UserId;
    /// Number of a user's session.
    SessionId;
    /// Number of a one-time link.
    LinkId;
    /// Number of a maintenance window.
    WindowId;
    /// Position in the arrival log of pings; 0 means "before the first".
    Arrival;
    /// Position in the log of flips; 0 means "before the first".
    FlipNumber;
    /// Number of a message to a channel: its position in the outbox and then in the log of
    /// deliveries. Never reused.
    DeliveryNumber;
}

impl ChannelId {
    /// Stands for no channel, in the record of an alert that has none. Real ids begin with 1.
    pub const NONE: Self = Self(0);
}

/// Parses a UUID of the form 8-4-4-4-12, with digits in either case. Returns `None` for every other
/// form (braces, `urn:`, no hyphens).
pub fn parse_hyphenated_uuid(text: &str) -> Option<Uuid> {
    // `Uuid::try_parse` accepts other forms too. Of the forms with 36 characters only this one has
    // a hyphen at 8.
    (text.len() == 36 && text.as_bytes().get(8) == Some(&b'-'))
        .then(|| Uuid::try_parse(text).ok())
        .flatten()
}

/// Parses a UUID as it appears in paths: 8-4-4-4-12, lower case. Returns `None` for any other
/// spelling.
pub fn parse_path_uuid(text: &str) -> Option<Uuid> {
    parse_hyphenated_uuid(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

/// Writes a UUID as in paths and responses: 8-4-4-4-12, lower case.
pub fn write_uuid(uuid: Uuid, out: &mut String) {
    out.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
}

/// Identifier of a check that a read-only key sees in place of its UUID: 40 lower-case hexadecimal
/// digits, the SHA-1 of the text of the first 16 hexadecimal digits of the UUID. It is stable and
/// cannot be used for pinging.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UniqueKey([u8; 20]);

impl UniqueKey {
    /// Key that belongs to no check.
    pub const NONE: Self = Self([0; 20]);

    /// Computes the key of a check.
    pub fn of_check(check: Uuid) -> Self {
        use sha1::Digest as _;
        let mut digits = Uuid::encode_buffer();
        let digits = check.simple().encode_lower(&mut digits).as_bytes();
        Self(sha1::Sha1::digest(digits.get(..16).unwrap_or(digits)).into())
    }

    /// Creates a key from its bytes.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Bytes of the key.
    pub fn to_bytes(self) -> [u8; 20] {
        self.0
    }

    /// Parses 40 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 20];
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != key.len()
            || !odd.is_empty()
            || text.bytes().any(|byte| byte.is_ascii_uppercase())
        {
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
        assert!(
            parse_hyphenated_uuid(&good.to_uppercase()).is_some()
                && parse_path_uuid(&good.to_uppercase()).is_none()
        );
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
        assert_eq!(
            key,
            UniqueKey::of_check(uuid("00000000-0000-0000-ffff-ffffffffffff"))
        );
        // printf 0000000000000000 | sha1sum
        assert_eq!(key.to_string(), "b02132081808b493c61e86626ee6c2e29326a662");
        assert_eq!(UniqueKey::parse(&key.to_string()), Some(key));
        for bad in [
            &key.to_string().to_uppercase(),
            &"0".repeat(39),
            &"0".repeat(41),
            &"g".repeat(40),
            &"ä".repeat(20),
        ] {
            assert_eq!(UniqueKey::parse(bad), None, "{bad}");
        }
    }
}
