//! Second factors: a code that an app generates every half minute (RFC 6238), or a recovery code
//! for a lost app.

use std::fmt;

use totp_rs::{Builder, Secret};

use super::super::project::SecretHash;
use super::super::timestamp::Timestamp;
use super::one_time_link::LinkCode;

/// Secret that the app and the server share. Codes are computed from it and the time.
#[derive(Clone, PartialEq, Eq)]
pub struct TotpSecret([u8; Self::LENGTH]);

impl TotpSecret {
    /// Length of a secret in bytes, as RFC 4226 recommends (section 4, R6).
    pub const LENGTH: usize = 20;

    /// Creates a secret from random bytes.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Parses the output of [`to_base32`](Self::to_base32); spaces are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let secret = Secret::try_from_base32(text).ok()?;
        secret.as_ref().try_into().ok().map(Self)
    }

    /// Secret in base32 (RFC 4648), for apps.
    pub fn to_base32(&self) -> String {
        Secret::from(self.0).to_base32()
    }

    /// Bytes of the secret.
    pub fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// Half minute in which the app showed this code: that of `now`, the one before, or the one
    /// after. `None` if the code belongs to none of them.
    pub fn matching_time_step(&self, code: &str, now: Timestamp) -> Option<u64> {
        let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        let totp = Builder::new().with_secret(self.0).build().ok()?;
        totp.check(&code, u64::try_from(now.secs()).ok()?)
    }

    /// Code that the app shows at `now`.
    pub fn code_at(&self, now: Timestamp) -> Option<String> {
        let totp = Builder::new().with_secret(self.0).build().ok()?;
        Some(totp.generate(u64::try_from(now.secs()).ok()?).to_string())
    }
}

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret(..)")
    }
}

/// Second factor of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecondFactor {
    /// Secret that codes are computed from.
    pub secret: TotpSecret,
    /// Half minute of the last used code, counted since 1970. Codes of that half minute or earlier
    /// are no longer accepted.
    pub last_used_step: u64,
    /// Hashes of the recovery codes that are not used yet.
    pub recovery_hashes: Box<[SecretHash]>,
}

/// Proof that a user has the second factor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecondFactorProof {
    /// Code that was computed from this secret in this half minute.
    Code {
        /// Secret that the code was checked against.
        secret: TotpSecret,
        /// Half minute of the code: see [`TotpSecret::matching_time_step`].
        step: u64,
    },
    /// Recovery code for a lost app.
    Recovery(SecretHash),
}

impl SecondFactor {
    /// Number of recovery codes that are generated at once.
    pub const RECOVERY_CODE_COUNT: usize = 10;

    /// Verifies a typed code; `None` if it is neither a code of the app nor a recovery code, or was
    /// used before.
    pub fn verify_code(&self, code: &str, now: Timestamp) -> Option<SecondFactorProof> {
        let by_app =
            self.secret
                .matching_time_step(code, now)
                .map(|step| SecondFactorProof::Code {
                    secret: self.secret.clone(),
                    step,
                });
        let proof = by_app.or_else(|| {
            LinkCode::parse(code).map(|code| SecondFactorProof::Recovery(code.hash()))
        })?;
        self.consume_proof(&proof).map(|_| proof)
    }

    /// Returns the second factor after this proof was used; `None` if it was used before, or
    /// belongs to another secret.
    pub fn consume_proof(&self, proof: &SecondFactorProof) -> Option<Self> {
        match proof {
            SecondFactorProof::Code { secret, step } => {
                (*secret == self.secret && *step > self.last_used_step).then(|| Self {
                    last_used_step: *step,
                    ..self.clone()
                })
            }
            SecondFactorProof::Recovery(hash) => {
                let remaining: Box<[_]> = self
                    .recovery_hashes
                    .iter()
                    .filter(|stored| *stored != hash)
                    .copied()
                    .collect();
                (remaining.len() < self.recovery_hashes.len()).then(|| Self {
                    recovery_hashes: remaining,
                    ..self.clone()
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 6238, appendix B: their last six digits.
    #[test]
    fn codes_agree_with_the_standard() {
        let secret = TotpSecret::new(*b"12345678901234567890");
        for (secs, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_234_567_890, "005924"),
            (20_000_000_000, "353130"),
        ] {
            let now = Timestamp::from_secs(secs);
            assert_eq!(secret.code_at(now).as_deref(), Some(code));
            assert_eq!(
                secret.matching_time_step(code, now),
                Some(secs.unsigned_abs() / 30)
            );
        }
        assert_eq!(secret.to_base32(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(
            TotpSecret::parse("GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ"),
            Some(secret.clone())
        );
        for wrong in [
            "",
            "GEZDGNBVGY3TQOJQ",
            "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJ1",
            "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQGEZDGNBV",
        ] {
            assert_eq!(TotpSecret::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{secret:?}"), "TotpSecret(..)");
    }

    #[test]
    fn a_code_is_valid_for_a_short_time_and_once() {
        let secret = TotpSecret::new([7; 20]);
        let codes: Vec<_> = (0..3)
            .map(|number| LinkCode::from_random([number; LinkCode::LENGTH]))
            .collect();
        let recovery = codes.iter().map(LinkCode::hash).collect();
        let factor = SecondFactor {
            secret: secret.clone(),
            last_used_step: 0,
            recovery_hashes: recovery,
        };
        let at = |secs: i64| Timestamp::from_secs(3_000_000 + secs);
        let code = secret.code_at(at(0)).unwrap();
        for (secs, is_good) in [
            (-31, false),
            (-30, true),
            (0, true),
            (29, true),
            (59, true),
            (60, false),
        ] {
            assert_eq!(
                factor.verify_code(&code, at(secs)).is_some(),
                is_good,
                "{secs}"
            );
        }
        let (first, second) = code.split_at(3);
        let proof = factor
            .verify_code(&format!(" {first} {second}"), at(0))
            .unwrap();
        let used = factor.consume_proof(&proof).unwrap();
        assert_eq!(
            (used.consume_proof(&proof), used.verify_code(&code, at(0))),
            (None, None)
        );
        // A code that the app showed before the used one is not accepted either.
        assert_eq!(
            used.verify_code(&secret.code_at(at(-30)).unwrap(), at(0)),
            None
        );
        assert!(
            used.verify_code(&secret.code_at(at(30)).unwrap(), at(30))
                .is_some()
        );
        // Verified before the secret was replaced.
        let other = SecondFactor {
            secret: TotpSecret::new([8; 20]),
            ..factor.clone()
        };
        assert_eq!(other.consume_proof(&proof), None);

        let proof = used
            .verify_code(&codes[1].to_string().to_lowercase(), at(0))
            .unwrap();
        let left = used.consume_proof(&proof).unwrap();
        assert_eq!(
            (left.recovery_hashes.len(), left.consume_proof(&proof)),
            (2, None)
        );
        for wrong in ["", "1", "000000", "12345678", "0000-0000-0000-0009", "ž"] {
            assert_eq!(factor.verify_code(wrong, at(5_000_000)), None, "{wrong}");
        }
        assert_eq!(factor.verify_code(&code, Timestamp::from_secs(-5)), None);
    }
}
