//! Authenticator data (Web Authentication, section 6.1): the server, flags and a counter, and after
//! the creation of a passkey its identifier.

const SERVER_HASH_LENGTH: usize = 32;
/// Flag of a user who confirmed.
const USER_PRESENT: u8 = 1;
/// Flag of a user whom the authenticator recognised.
const USER_VERIFIED: u8 = 1 << 2;
/// Flag of data that contains a new passkey.
const HAS_CREDENTIAL: u8 = 1 << 6;
/// Length of the number of the authenticator's model.
const MODEL_LENGTH: usize = 16;

/// Parsed authenticator data.
pub(super) struct AuthenticatorData<'a> {
    server_hash: &'a [u8; SERVER_HASH_LENGTH],
    flags: u8,
    counter: u32,
    rest: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    /// Parses the data; `None` if it is too short.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (server_hash, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first()?;
        let (counter, rest) = rest.split_first_chunk()?;
        Some(Self {
            server_hash,
            flags: *flags,
            counter: u32::from_be_bytes(*counter),
            rest,
        })
    }

    /// SHA-256 of the host name of the server.
    pub(super) fn server_hash(&self) -> &'a [u8; SERVER_HASH_LENGTH] {
        self.server_hash
    }

    /// Signature counter.
    pub(super) fn counter(&self) -> u32 {
        self.counter
    }

    /// True if the user confirmed, and the authenticator recognised the user.
    pub(super) fn is_user_verified(&self) -> bool {
        let both = USER_PRESENT | USER_VERIFIED;
        self.flags & both == both
    }

    /// Identifier of a new passkey, if the data contains one.
    pub(super) fn created_id(&self) -> Option<&'a [u8]> {
        if self.flags & HAS_CREDENTIAL == 0 {
            return None;
        }
        let (_, rest) = self.rest.split_first_chunk::<MODEL_LENGTH>()?;
        let (length, rest) = rest.split_first_chunk()?;
        rest.get(..usize::from(u16::from_be_bytes(*length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_read_and_short_data_is_refused() {
        let mut bytes = vec![9; SERVER_HASH_LENGTH];
        bytes.extend([USER_PRESENT | USER_VERIFIED | HAS_CREDENTIAL, 0, 0, 1, 2]);
        bytes.extend([0; MODEL_LENGTH]);
        bytes.extend([0, 3, 7, 8, 9, 0xa0]);
        let data = AuthenticatorData::parse(&bytes).unwrap();
        assert_eq!(
            (data.server_hash(), data.counter(), data.created_id()),
            (&[9; SERVER_HASH_LENGTH], 258, Some(&[7, 8, 9][..]))
        );
        for length in 0..bytes.len() {
            let data = AuthenticatorData::parse(&bytes[..length]);
            assert_eq!(data.is_some(), length >= 37, "{length}");
            let id = data.and_then(|data| data.created_id());
            assert_eq!(id.is_some(), length >= 58, "{length}");
        }
    }

    #[test]
    fn a_user_is_verified_by_both_flags() {
        for (flags, is_verified) in [
            (0, false),
            (USER_PRESENT, false),
            (USER_VERIFIED, false),
            (USER_PRESENT | USER_VERIFIED, true),
            (!HAS_CREDENTIAL, true),
        ] {
            let mut bytes = [0; 40];
            bytes[SERVER_HASH_LENGTH] = flags;
            let data = AuthenticatorData::parse(&bytes).unwrap();
            assert_eq!(data.is_user_verified(), is_verified, "{flags}");
            assert_eq!(data.created_id(), None, "{flags}");
        }
    }
}
