//! The only place that hashes passwords, so that the cost is chosen once.
//!
//! Hashing and verifying take about a tenth of a second and 19 MB of memory each.

use argon2::password_hash::phc;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};

use crate::domain::user::{Password, PasswordHash};

/// Costs that OWASP recommends for Argon2id: KiB of memory, rounds and lanes.
const ARGON2_COSTS: (u32, u32, u32) = (19_456, 2, 1);
/// Length of a salt in bytes.
pub const SALT_LENGTH: usize = 16;
/// Maximum KiB of memory and rounds of an accepted hash. Verifying a hash with higher costs would
/// take too much memory or time.
const MAX_COSTS: (u32, u32) = (65_536, 10);

/// Error of hashing: memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashError;

/// Result of checking a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordMatch {
    /// The password does not match.
    Wrong,
    /// The password matches.
    Right {
        /// True if the hash has other parameters than new hashes and should be computed again.
        needs_rehash: bool,
    },
}

/// Hashes a password with a random salt.
///
/// # Errors
/// If memory is short.
pub fn hash(password: &Password, salt: [u8; SALT_LENGTH]) -> Result<PasswordHash, HashError> {
    let hash = argon2().and_then(|argon2| {
        argon2
            .hash_password_with_salt(password.as_bytes(), &salt)
            .ok()
    });
    hash.map(|hash: phc::PasswordHash| PasswordHash::new(&hash.to_string()))
        .ok_or(HashError)
}

/// Verifies a password against a hash. `None` stands for a user without a password and for an
/// unknown user: this takes as long and fails.
pub fn verify(password: &[u8], hash: Option<&PasswordHash>) -> PasswordMatch {
    let found = hash
        .and_then(|hash| phc::PasswordHash::new(hash.as_str()).ok())
        .filter(is_bounded);
    let Some(found) = found.filter(|_| password.len() <= Password::MAX_BYTES) else {
        // Does the same work and discards the result, so that both cases take equally long.
        let mut unused = [0; 32];
        let work = argon2()
            .map(|argon2| argon2.hash_password_into(b"nobody", &[0; SALT_LENGTH], &mut unused));
        std::hint::black_box((work.is_some(), unused));
        return PasswordMatch::Wrong;
    };
    match Argon2::default().verify_password(password, &found) {
        Ok(()) => PasswordMatch::Right {
            needs_rehash: Params::try_from(&found).ok().as_ref().map(costs_of)
                != Some(ARGON2_COSTS),
        },
        Err(_) => PasswordMatch::Wrong,
    }
}

/// Parses a PHC string from a file or an import. `None` if its costs are above the limits.
pub fn parse(phc: &str) -> Option<PasswordHash> {
    phc::PasswordHash::new(phc)
        .ok()
        .filter(is_bounded)
        .map(|_| PasswordHash::new(phc))
}

fn argon2() -> Option<Argon2<'static>> {
    let (memory, rounds, lanes) = ARGON2_COSTS;
    Some(Argon2::new(
        Algorithm::Argon2id,
        Version::V0x13,
        Params::new(memory, rounds, lanes, None).ok()?,
    ))
}

fn costs_of(params: &Params) -> (u32, u32, u32) {
    (params.m_cost(), params.t_cost(), params.p_cost())
}

fn is_bounded(hash: &phc::PasswordHash) -> bool {
    let costs = Params::try_from(hash).ok().as_ref().map(costs_of);
    hash.algorithm == argon2::ARGON2ID_IDENT
        && hash.hash.is_some()
        && costs.is_some_and(|(memory, rounds, lanes)| {
            memory <= MAX_COSTS.0 && rounds <= MAX_COSTS.1 && lanes == 1
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::user::UserName;

    fn password(text: &str) -> Password {
        Password::parse(text, &UserName::parse("ann").unwrap()).unwrap()
    }

    #[test]
    fn only_the_right_password_matches() {
        let hash = hash(&password("correct horse"), [7; SALT_LENGTH]).unwrap();
        assert!(
            hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{}",
            hash.as_str()
        );
        assert_eq!(
            verify(b"correct horse", Some(&hash)),
            PasswordMatch::Right {
                needs_rehash: false
            }
        );
        for wrong in [&b"correct hors"[..], b"", b"correct horse ", &[b'x'; 201]] {
            assert_eq!(verify(wrong, Some(&hash)), PasswordMatch::Wrong);
        }
        assert_eq!(verify(b"correct horse", None), PasswordMatch::Wrong);
        assert_eq!(parse(hash.as_str()), Some(hash));
    }

    #[test]
    fn a_hash_with_other_parameters_matches_and_is_outdated() {
        let cheap = Argon2::new(
            Algorithm::Argon2id,
            Version::V0x13,
            Params::new(1024, 1, 1, None).unwrap(),
        );
        let hash: phc::PasswordHash = cheap
            .hash_password_with_salt(b"correct horse", &[7; SALT_LENGTH])
            .unwrap();
        let hash = parse(&hash.to_string()).unwrap();
        assert_eq!(
            verify(b"correct horse", Some(&hash)),
            PasswordMatch::Right { needs_rehash: true }
        );
        assert_eq!(verify(b"correct donkey", Some(&hash)), PasswordMatch::Wrong);
    }

    #[test]
    fn hashes_with_high_costs_are_rejected() {
        let of = |params: &str| {
            let salt = "c29tZXNhbHRzb21lc2FsdA";
            let hash = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI";
            format!("$argon2id$v=19${params}${salt}${hash}")
        };
        assert!(parse(&of("m=19456,t=2,p=1")).is_some());
        for wrong in [
            of("m=1000000,t=2,p=1"),
            of("m=19456,t=11,p=1"),
            of("m=19456,t=2,p=4"),
            String::new(),
            "correct horse".into(),
        ] {
            assert_eq!(
                (
                    parse(&wrong),
                    verify(b"correct horse", Some(&PasswordHash::new(&wrong)))
                ),
                (None, PasswordMatch::Wrong),
                "{wrong}"
            );
        }
        let other = of("m=19456,t=2,p=1").replace("argon2id", "argon2i");
        assert_eq!(parse(&other), None);
    }
}
