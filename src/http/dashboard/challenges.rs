//! Challenges of sign-ins: a passkey signs one, and a provider returns one. A challenge names its
//! time and purpose and is authenticated, so nothing is stored for it until it is used: clients
//! that only ask for challenges take no memory.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::domain::ids::UserId;
use crate::util::random::Random;
use crate::util::sync::{Mutex, lock};

/// Time for which a passkey can sign a challenge: see [limits](crate::docs::limits).
const PASSKEY_LIFETIME: Duration = Duration::from_secs(300);
/// Time for a sign-in at a provider: see [limits](crate::docs::limits).
const PROVIDER_LIFETIME: Duration = Duration::from_secs(900);
/// Maximum number of used challenges that are remembered. Above it no challenge is accepted until
/// the oldest has expired: see [limits](crate::docs::limits).
const MAX_USED: usize = 10_000;
const NONCE_LENGTH: usize = 16;
const TIME_LENGTH: usize = 8;

/// Purpose of a challenge. It is not accepted for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChallengePurpose {
    /// Signing in with a passkey. The user is not known yet.
    SignIn,
    /// Adding a passkey to this user.
    Registration(UserId),
    /// Signing in at the provider with this number.
    ProviderSignIn(u64),
    /// Connecting this user with the provider of this number.
    ProviderConnection(u64, UserId),
}

impl ChallengePurpose {
    /// Bytes that identify the purpose.
    fn to_bytes(self) -> [u8; 17] {
        let (kind, provider, user) = match self {
            Self::SignIn => (0, 0, 0),
            Self::Registration(UserId(id)) => (1, 0, id),
            Self::ProviderSignIn(provider) => (2, provider, 0),
            Self::ProviderConnection(provider, UserId(id)) => (3, provider, id),
        };
        let mut bytes = [kind; 17];
        bytes[1..9].copy_from_slice(&provider.to_le_bytes());
        bytes[9..].copy_from_slice(&user.to_le_bytes());
        bytes
    }

    fn lifetime(self) -> Duration {
        match self {
            Self::SignIn | Self::Registration(_) => PASSKEY_LIFETIME,
            Self::ProviderSignIn(_) | Self::ProviderConnection(..) => PROVIDER_LIFETIME,
        }
    }
}

/// Reason for refusing a challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChallengeError {
    /// Forged, from before a restart, or for another purpose.
    Unknown,
    /// Older than its lifetime.
    Expired,
    /// Used before.
    Used,
    /// Too many challenges are in use.
    Busy,
}

/// Creates challenges, and accepts each of them once. Times are uptimes. A restart invalidates all
/// challenges.
pub(super) struct SignInChallenges {
    key: [u8; 64],
    /// Nonces of used challenges, with the time at which they expire.
    used: Mutex<HashMap<[u8; NONCE_LENGTH], Duration>>,
}

impl SignInChallenges {
    pub(super) fn new(random: &Random) -> Self {
        Self {
            key: random.bytes(),
            used: Mutex::default(),
        }
    }

    /// Creates a challenge: a nonce, the time and an authentication code.
    pub(super) fn create(
        &self,
        purpose: ChallengePurpose,
        random: &Random,
        now: Duration,
    ) -> Vec<u8> {
        let nonce: [u8; NONCE_LENGTH] = random.bytes();
        let time = now.as_secs().to_le_bytes();
        let code = self.mac(purpose, &nonce, time).finalize().into_bytes();
        [&nonce[..], &time, &code].concat()
    }

    /// Verifies a challenge of this purpose without using it up.
    pub(super) fn verify(
        &self,
        purpose: ChallengePurpose,
        challenge: &[u8],
        now: Duration,
    ) -> Result<(), ChallengeError> {
        self.read(purpose, challenge, now).map(|_| ())
    }

    /// Verifies a challenge of this purpose, and uses it up.
    pub(super) fn consume(
        &self,
        purpose: ChallengePurpose,
        challenge: &[u8],
        now: Duration,
    ) -> Result<(), ChallengeError> {
        let (nonce, expires) = self.read(purpose, challenge, now)?;
        let mut used = lock(&self.used);
        used.retain(|_, expires| now < *expires);
        if used.contains_key(&nonce) {
            return Err(ChallengeError::Used);
        }
        if used.len() >= MAX_USED {
            return Err(ChallengeError::Busy);
        }
        used.insert(nonce, expires);
        Ok(())
    }

    /// Secret that belongs to a challenge, for this use: 43 characters of URL-safe base64.
    pub(super) fn derive(&self, challenge: &[u8], usage: &str) -> String {
        // No MAC of a challenge begins with this byte, which is no purpose.
        let mac = Hmac::<Sha256>::new(&self.key.into())
            .chain_update([0xff])
            .chain_update(usage)
            .chain_update([0xff])
            .chain_update(challenge);
        BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    /// Returns the nonce of an authentic challenge, and the time at which it expires.
    fn read(
        &self,
        purpose: ChallengePurpose,
        challenge: &[u8],
        now: Duration,
    ) -> Result<([u8; NONCE_LENGTH], Duration), ChallengeError> {
        let (nonce, rest) = challenge
            .split_first_chunk()
            .ok_or(ChallengeError::Unknown)?;
        let (time, code) = rest.split_first_chunk().ok_or(ChallengeError::Unknown)?;
        let mac = self.mac(purpose, nonce, *time);
        mac.verify_slice(code)
            .map_err(|_| ChallengeError::Unknown)?;
        let expires = Duration::from_secs(u64::from_le_bytes(*time)) + purpose.lifetime();
        if now < expires {
            Ok((*nonce, expires))
        } else {
            Err(ChallengeError::Expired)
        }
    }

    fn mac(
        &self,
        purpose: ChallengePurpose,
        nonce: &[u8; NONCE_LENGTH],
        time: [u8; TIME_LENGTH],
    ) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&self.key.into())
            .chain_update(purpose.to_bytes())
            .chain_update(nonce)
            .chain_update(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGN_IN: ChallengePurpose = ChallengePurpose::SignIn;
    const ANN: ChallengePurpose = ChallengePurpose::Registration(UserId(1));
    const BOB: ChallengePurpose = ChallengePurpose::Registration(UserId(2));

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_challenge_is_accepted_once_for_its_purpose_within_five_minutes() {
        let random = Random::seeded(1);
        let challenges = SignInChallenges::new(&random);
        let challenge = challenges.create(SIGN_IN, &random, secs(1000));
        for (now, expected) in [
            (1000, Ok(())),
            (1299, Ok(())),
            (1300, Err(ChallengeError::Expired)),
        ] {
            assert_eq!(
                challenges.verify(SIGN_IN, &challenge, secs(now)),
                expected,
                "{now}"
            );
        }
        assert_eq!(challenges.consume(SIGN_IN, &challenge, secs(1001)), Ok(()));
        assert_eq!(
            challenges.consume(SIGN_IN, &challenge, secs(1002)),
            Err(ChallengeError::Used)
        );
        let of_ann = challenges.create(ANN, &random, secs(1000));
        let others = SignInChallenges::new(&random);
        assert_eq!(challenges.verify(ANN, &of_ann, secs(1000)), Ok(()));
        for (challenges, purpose) in [(&challenges, SIGN_IN), (&challenges, BOB), (&others, ANN)] {
            assert_eq!(
                challenges.verify(purpose, &of_ann, secs(1000)),
                Err(ChallengeError::Unknown),
                "{purpose:?}"
            );
        }
    }

    #[test]
    fn a_sign_in_at_a_provider_has_a_quarter_of_an_hour_and_secrets_of_its_own() {
        let random = Random::seeded(1);
        let challenges = SignInChallenges::new(&random);
        let purpose = ChallengePurpose::ProviderSignIn(1);
        let challenge = challenges.create(purpose, &random, secs(0));
        assert_eq!(challenges.verify(purpose, &challenge, secs(899)), Ok(()));
        assert_eq!(
            challenges.verify(purpose, &challenge, secs(900)),
            Err(ChallengeError::Expired)
        );
        for other in [
            ChallengePurpose::ProviderSignIn(2),
            ChallengePurpose::ProviderConnection(1, UserId(0)),
            SIGN_IN,
        ] {
            assert_eq!(
                challenges.verify(other, &challenge, secs(0)),
                Err(ChallengeError::Unknown),
                "{other:?}"
            );
        }
        let secret = challenges.derive(&challenge, "pkce");
        assert_eq!(secret.len(), 43);
        assert_eq!(secret, challenges.derive(&challenge, "pkce"));
        let another = challenges.create(purpose, &random, secs(0));
        for other in [
            challenges.derive(&challenge, "nonce"),
            challenges.derive(&another, "pkce"),
            SignInChallenges::new(&random).derive(&challenge, "pkce"),
        ] {
            assert_ne!(secret, other);
        }
    }

    #[test]
    fn no_other_bytes_are_accepted() {
        let random = Random::seeded(1);
        let challenges = SignInChallenges::new(&random);
        let challenge = challenges.create(SIGN_IN, &random, secs(1000));
        for index in 0..challenge.len() {
            let mut changed = challenge.clone();
            changed[index] ^= 1;
            for wrong in [&changed[..], &challenge[..index]] {
                assert_eq!(
                    challenges.verify(SIGN_IN, wrong, secs(1000)),
                    Err(ChallengeError::Unknown),
                    "{index}"
                );
            }
        }
    }

    #[test]
    fn used_challenges_are_forgotten_once_they_have_expired() {
        let random = Random::seeded(1);
        let challenges = SignInChallenges::new(&random);
        let use_one = |now| {
            let challenge = challenges.create(SIGN_IN, &random, secs(now));
            challenges.consume(SIGN_IN, &challenge, secs(now))
        };
        for _ in 0..MAX_USED {
            assert_eq!(use_one(1000), Ok(()));
        }
        assert_eq!(use_one(1299), Err(ChallengeError::Busy));
        assert_eq!(use_one(1300), Ok(()));
        assert_eq!(lock(&challenges.used).len(), 1);
    }
}
