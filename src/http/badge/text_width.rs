//! Width of text on a badge, so that its boxes fit without measuring a font.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

/// Advance widths of U+0020 to U+007E in Verdana, in thousandths of the font size. DejaVu Sans,
/// which replaces it on many systems, differs by little.
const ASCII_WIDTHS: [u32; 95] = [
    352, 394, 459, 818, 636, 1076, 727, 269, 454, 454, 636, 818, 364, 454, 364, 454, // to /
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 454, 454, 818, 818, 818, 545, // to ?
    1000, 684, 686, 698, 771, 632, 575, 775, 751, 421, 455, 693, 557, 843, 748, 787, // to O
    603, 787, 695, 684, 616, 732, 684, 989, 685, 615, 685, 454, 454, 454, 818, 636, // to _
    636, 601, 623, 521, 623, 596, 352, 623, 633, 274, 344, 592, 274, 973, 633, 607, // to o
    623, 623, 427, 521, 394, 633, 592, 818, 592, 592, 525, 635, 454, 635, 818, // to ~
];

/// Width of a letter of any other script, somewhat wider than a Latin one.
const LETTER_WIDTH: u32 = 650;

/// Width of a letter or mark of the scripts from Hebrew to Tibetan, which are narrow or stacked.
const NARROW_WIDTH: u32 = 450;

/// Width of a Chinese, Japanese or Korean character, or an emoji, which fills a square.
const SQUARE_WIDTH: u32 = 1000;

const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Returns the width of `text` in whole pixels, rounded up, at a font size of `size` pixels.
pub(super) fn width_in_pixels(text: &str, size: u32) -> u32 {
    let mut joined = false;
    // Decomposed, an accented letter is as wide as its base, and a Hangul syllable as its first
    // part.
    let thousandths: u32 = text
        .nfd()
        .map(|c| {
            // A character that is joined to an emoji is drawn as part of it.
            let width = if joined { 0 } else { advance_width(c) };
            joined = c == ZERO_WIDTH_JOINER;
            width
        })
        .fold(0, u32::saturating_add);
    thousandths.saturating_mul(size).div_ceil(1000)
}

fn advance_width(c: char) -> u32 {
    let code = u32::from(c);
    match code {
        0x20..=0x7e => code
            .checked_sub(0x20)
            .and_then(|at| ASCII_WIDTHS.get(at as usize))
            .copied()
            .unwrap_or(LETTER_WIDTH),
        // Later parts of Hangul syllables, joiners and marks of direction, variation selectors,
        // skin tones, tags.
        0x1160..=0x11ff
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x206f
        | 0xfe00..=0xfe0f
        | 0xfeff
        | 0x1f3fb..=0x1f3ff
        | 0xe0000..=0xe0fff => 0,
        // First parts of Hangul syllables, CJK radicals to Yi, compatibility and full-width forms,
        // emoji, the rarer ideographs.
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe4f
        | 0xff01..=0xff60
        | 0xffe0..=0xffe6 => SQUARE_WIDTH,
        0x1f300..=0x1faff | 0x20000..=0x3ffff => SQUARE_WIDTH,
        _ if canonical_combining_class(c) != 0 => 0,
        0x0590..=0x0fff => NARROW_WIDTH,
        _ => LETTER_WIDTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_the_script() {
        for (text, thousandths) in [
            ("", 0),
            (" ~", 352 + 818),
            ("up", 633 + 623),
            ("é", 596),
            ("e\u{301}\u{302}\u{303}", 596),
            ("ж", LETTER_WIDTH),
            ("שלום", 4 * NARROW_WIDTH),
            ("日本", 2 * SQUARE_WIDTH),
            ("한글", 2 * SQUARE_WIDTH),
            ("👩\u{200d}👩\u{200d}👧", SQUARE_WIDTH),
            ("👍🏽", SQUARE_WIDTH),
            ("\u{202e}\u{feff}", 0),
        ] {
            assert_eq!(width_in_pixels(text, 1000), thousandths, "{text}");
        }
        assert_eq!(width_in_pixels("up", 11), 14, "rounded up");
        assert_eq!(
            width_in_pixels(&"日".repeat(5_000_000), 11),
            u32::MAX.div_ceil(1000),
            "bounded"
        );
    }
}
