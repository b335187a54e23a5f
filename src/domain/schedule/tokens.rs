//! Tokens of both kinds of expression: words between blanks, and numbers.

use crate::domain::text::is_white_space;

/// Words between blanks.
pub(super) fn split_words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(is_white_space).filter(|word| !word.is_empty())
}

/// Parses ASCII digits with any number of leading zeros. A number that does not fit becomes the
/// largest number: as a value it is rejected, as a step it skips all values but the first.
pub(super) fn parse_digits(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| {
        text.bytes().fold(0, |value: u16, digit| {
            value
                .saturating_mul(10)
                .saturating_add(u16::from(digit - b'0'))
        })
    })
}
