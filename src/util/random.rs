//! The only place that draws random numbers.

use std::sync::Arc;

use uuid::Uuid;

use crate::util::sync::{Mutex, lock};

/// Source of randomness.
#[derive(Clone)]
pub enum Random {
    /// The operating system.
    System,
    /// Sequence determined by its seed, for tests.
    Seeded(Arc<Mutex<u64>>),
}

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

impl Random {
    /// Sequence of the given seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(seed)))
    }

    /// Returns `N` random bytes.
    ///
    /// # Panics
    /// If the operating system has no randomness: no secret could be drawn then.
    #[allow(
        clippy::panic,
        reason = "no secret can be generated without randomness"
    )]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match self {
            Self::System => {
                if let Err(error) = from_system(&mut bytes) {
                    panic!("the operating system provides no random bytes: {error}");
                }
            }
            Self::Seeded(state) => {
                let mut state = lock(state);
                for chunk in bytes.chunks_mut(8) {
                    let word = split_mix(&mut state).to_le_bytes();
                    chunk
                        .iter_mut()
                        .zip(word)
                        .for_each(|(byte, random)| *byte = random);
                }
            }
        }
        bytes
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// Text of `N` characters from `A-Za-z0-9_-`, each with six random bits.
    pub fn url_safe<const N: usize>(&self) -> String {
        self.bytes::<N>()
            .iter()
            .filter_map(|byte| URL_SAFE.get(usize::from(byte % 64)))
            .map(|byte| char::from(*byte))
            .collect()
    }
}

/// Calls the kernel: a static binary then needs no `/dev/urandom`, which is missing in an empty
/// container.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "this is the place")]
fn from_system(mut bytes: &mut [u8]) -> Result<(), rustix::io::Errno> {
    use rustix::rand::{GetRandomFlags, getrandom};
    while !bytes.is_empty() {
        let count = rustix::io::retry_on_intr(|| getrandom(&mut *bytes, GetRandomFlags::empty()))?;
        bytes = bytes.get_mut(count..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::disallowed_methods, reason = "this is the place")]
fn from_system(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    getrandom::fill(bytes)
}

/// SplitMix64 (Steele, Lea, Flood 2014): well distributed for any seed, including small ones.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
