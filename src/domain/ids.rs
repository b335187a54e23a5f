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
    /// A notification channel ("integration" in the contract).
    ChannelId;
    /// An API key or ping key.
    KeyId;
    /// A place in the arrival log of pings; 0 stands for "before the first".
    Arrival;
    /// A place in the log of flips; 0 stands for "before the first".
    FlipNumber;
}

/// Reads a UUID spelled 8-4-4-4-12; the digits may have either case. Everything else (braces, `urn:`, no hyphens) is `None`.
pub fn hyphenated_uuid(text: &str) -> Option<Uuid> {
    // `Uuid::try_parse` takes other spellings too; among those of 36 characters only this one has a hyphen at 8.
    (text.len() == 36 && text.as_bytes().get(8) == Some(&b'-')).then(|| Uuid::try_parse(text).ok()).flatten()
}

/// Reads a UUID as it stands in paths: 8-4-4-4-12, lower case. Any other spelling is unknown.
pub fn path_uuid(text: &str) -> Option<Uuid> {
    hyphenated_uuid(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_counts() {
        let good = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        assert!(hyphenated_uuid(good).is_some() && path_uuid(good).is_some());
        assert!(hyphenated_uuid(&good.to_uppercase()).is_some() && path_uuid(&good.to_uppercase()).is_none());
        for bad in [
            "",
            "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f",
            "{6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5}",
            "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5g",
            "6f3a0f6e-0c9b4-f0e-9b1b-0a1b2c3d4e5f",
            "urn:uuid:6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
        ] {
            assert_eq!(hyphenated_uuid(bad), None, "{bad}");
        }
    }
}
