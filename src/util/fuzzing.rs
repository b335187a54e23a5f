//! Inputs for fuzz tests: examples with random changes.
//!
//! A fuzz test is a test whose name begins with `fuzz_`. `cargo test` runs each on 500 inputs, and
//! always on the same ones. `.ci/fuzz` runs them for longer, with other inputs:
//!
//! - `OVERDUE_FUZZ_INPUTS`: number of inputs of each test.
//! - `OVERDUE_FUZZ_SECONDS`: time after which a test stops, whatever their number.
//! - `OVERDUE_SEED`: number that decides the inputs.
//!
//! A failing input is reduced and printed. It then becomes an example of its test.

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::util::clock::Clock;

/// Number of inputs of each test in `cargo test`.
const DEFAULT_INPUTS: u32 = 500;
/// Number of inputs between two readings of the clock.
const INPUTS_PER_ROUND: u32 = 2_000;
/// Maximum length of an input in bytes.
const MAX_INPUT_BYTES: usize = 16 << 10;

/// Bytes that parsers tend to handle wrongly.
const TOKENS: &[&[u8]] = &[
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r\n.\r\n",
    b"\r\n\r\n",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"%00",
    b"%",
    b"%e2%80%ae",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\xf0\x9f\x92\xa9",
    b"\xe1\xba\x9e\xcc\x81",
    b"0",
    b"-0",
    b"-1",
    b"1e999",
    b"00000000000000000000000000000001",
    b"127",
    b"255",
    b"256",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"true",
    b"null",
    b"NaN",
    b"[",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{",
    b"{\"\":",
    b"}",
    b"]",
    b",",
    b":",
    b";",
    b"=",
    b"&",
    b"*",
    b"/",
    b"*/0",
    b"..",
    b"../",
    b"~",
    b"--",
    b"@",
    b"<",
    b">",
    b"$",
    b"${",
    b"|",
    b"#",
    b" ",
    b"\t",
    b"                                                                ",
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    b"9999-12-31T23:59:59Z",
    b"-9999-01-01",
    b"1970-01-01T00:00:00+00:00",
    b"UTC",
    b"Europe/Lisbon",
];

/// A change of an input. Places are shares of its length.
#[derive(Clone, Debug)]
enum Mutation {
    /// Replaces a byte.
    Replace(u16, u8),
    /// Flips a bit.
    Flip(u16, u8),
    /// Inserts a byte.
    Insert(u16, u8),
    /// Inserts a token of [`TOKENS`].
    InsertToken(u16, usize),
    /// Replaces up to 16 bytes with a token.
    ReplaceWithToken(u16, u8, usize),
    /// Removes up to this number of bytes.
    Remove(u16, u8),
    /// Removes all bytes from here on.
    Truncate(u16),
    /// Copies bytes to another place, several times.
    Repeat(u16, u8, u16, u8),
    /// Inserts a part of another example.
    Splice(u16, usize, u16, u8),
}

impl Mutation {
    fn any() -> impl Strategy<Value = Self> {
        let at = any::<u16>;
        let token = || 0..TOKENS.len();
        prop_oneof![
            (at(), any::<u8>()).prop_map(|(place, byte)| Self::Replace(place, byte)),
            (at(), 0..8_u8).prop_map(|(place, bit)| Self::Flip(place, bit)),
            (at(), any::<u8>()).prop_map(|(place, byte)| Self::Insert(place, byte)),
            (at(), token()).prop_map(|(place, token)| Self::InsertToken(place, token)),
            (at(), 0..16_u8, token())
                .prop_map(|(place, count, token)| Self::ReplaceWithToken(place, count, token)),
            (at(), any::<u8>()).prop_map(|(place, count)| Self::Remove(place, count)),
            at().prop_map(Self::Truncate),
            (at(), any::<u8>(), at(), 1..40_u8)
                .prop_map(|(from, count, to, times)| Self::Repeat(from, count, to, times)),
            (at(), any::<usize>(), at(), any::<u8>()).prop_map(|(place, example, from, count)| {
                Self::Splice(place, example, from, count)
            }),
        ]
    }

    fn apply(&self, input: &mut Vec<u8>, examples: &[Vec<u8>]) {
        let place = |share: u16, len: usize| usize::from(share) * len / (usize::from(u16::MAX) + 1);
        let range = |share: u16, count: u8, len: usize| {
            let start = place(share, len);
            start..(start + usize::from(count)).min(len)
        };
        let len = input.len();
        match *self {
            Self::Replace(at, byte) => input
                .iter_mut()
                .skip(place(at, len))
                .take(1)
                .for_each(|b| *b = byte),
            Self::Flip(at, bit) => {
                input
                    .iter_mut()
                    .skip(place(at, len))
                    .take(1)
                    .for_each(|b| *b ^= 1 << bit);
            }
            Self::Insert(at, byte) => input.insert(place(at, len + 1), byte),
            Self::InsertToken(at, token) => {
                let at = place(at, len + 1);
                input.splice(at..at, TOKENS[token].iter().copied());
            }
            Self::ReplaceWithToken(at, count, token) => {
                input.splice(range(at, count, len), TOKENS[token].iter().copied());
            }
            Self::Remove(at, count) => drop(input.drain(range(at, count, len))),
            Self::Truncate(at) => input.truncate(place(at, len + 1)),
            Self::Repeat(from, count, to, times) => {
                let part = input[range(from, count, len)].repeat(times.into());
                let to = place(to, len + 1);
                input.splice(to..to, part);
            }
            Self::Splice(at, example, from, count) => {
                let other = &examples[example % examples.len()];
                let part = &other[range(from, count, other.len())];
                let at = place(at, len + 1);
                input.splice(at..at, part.iter().copied());
            }
        }
        input.truncate(MAX_INPUT_BYTES);
    }
}

/// An input, shown as a byte string.
#[derive(Clone)]
struct FuzzInput(Vec<u8>);

impl fmt::Debug for FuzzInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, which is not a number")),
    )
}

/// Runs `target` on examples and on changed examples. It fails if `target` panics, or takes longer
/// than `limit` for one input.
pub(crate) fn fuzz_within(limit: Duration, examples: &[impl AsRef<[u8]>], target: impl Fn(&[u8])) {
    let examples: Vec<Vec<u8>> = examples
        .iter()
        .map(|example| example.as_ref().to_vec())
        .collect();
    let uptime = || Clock::System.uptime();
    let run = |input: &[u8]| {
        let start = uptime();
        target(input);
        let time = uptime() - start;
        assert!(time < limit, "it took {time:?}");
    };
    examples.iter().for_each(|example| run(example));
    let seconds = number_from_env("OVERDUE_FUZZ_SECONDS").map(Duration::from_secs);
    let mut left = match number_from_env("OVERDUE_FUZZ_INPUTS") {
        Some(count) => u32::try_from(count).expect("too many inputs"),
        None if seconds.is_some() => u32::MAX,
        None => DEFAULT_INPUTS,
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number_from_env("OVERDUE_SEED").unwrap_or(1).to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mutated = (
        0..examples.len(),
        prop::collection::vec(Mutation::any(), 1..6),
    )
        .prop_map(|(example, mutations)| {
            let mut input = examples[example].clone();
            mutations
                .iter()
                .for_each(|mutation| mutation.apply(&mut input, &examples));
            FuzzInput(input)
        });
    let start = uptime();
    let mut done = 0_u64;
    while left > 0 && seconds.is_none_or(|seconds| uptime() - start < seconds) {
        let cases = left.min(INPUTS_PER_ROUND);
        left -= cases;
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 10_000,
            // Milliseconds.
            max_shrink_time: 60_000,
            ..Config::default()
        };
        let next = TestRng::from_seed(RngAlgorithm::ChaCha, &rng.random::<[u8; 32]>());
        let mut runner = TestRunner::new_with_rng(config, next);
        if let Err(failure) = runner.run(&mutated, |input| {
            run(&input.0);
            Ok(())
        }) {
            panic!("{failure}");
        }
        done += u64::from(cases);
    }
    println!("{done} inputs");
}

/// As [`fuzz_within`], with a limit that is far above what parsing takes.
pub(crate) fn fuzz(examples: &[impl AsRef<[u8]>], target: impl Fn(&[u8])) {
    fuzz_within(Duration::from_secs(2), examples, target);
}

/// As [`fuzz`], for text: invalid UTF-8 becomes replacement characters.
pub(crate) fn fuzz_text(examples: &[impl AsRef<[u8]>], target: impl Fn(&str)) {
    fuzz(examples, |bytes| target(&String::from_utf8_lossy(bytes)));
}
