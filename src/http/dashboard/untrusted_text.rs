//! Makes untrusted text, such as the bodies of pings, safe to display: nothing in it can move, hide
//! or reverse other content of a page.

use std::fmt::Write as _;

use crate::domain::text::is_invisible;

/// Maximum number of bytes of a body that a page shows at first: see [limits](crate::docs::limits).
pub(crate) const PREVIEW_BYTES: usize = 20_000;
/// Maximum number of bytes of a body that a page shows on request: see
/// [limits](crate::docs::limits). An escaped character takes several times its size.
pub(crate) const MAX_SHOWN_BYTES: usize = 1 << 20;
/// Maximum number of characters of a line, above which it is folded: see
/// [limits](crate::docs::limits).
const MAX_LINE_CHARS: usize = 2_000;
/// Marks the end of a folded line.
const FOLD_MARK: char = '↩';

/// Handling of terminal escape sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EscapeHandling {
    /// Escape sequences are removed.
    Strip,
    /// Escape sequences are shown as their characters.
    Show,
}

/// A text that is safe to display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SanitizedText {
    /// Text with lines that end with LF.
    pub(crate) text: String,
    /// True if terminal escape sequences were removed.
    pub(crate) had_escapes: bool,
    /// True if the text was truncated.
    pub(crate) is_cut: bool,
}

/// Converts the first `most` bytes to text. Invalid UTF-8 is replaced, CR LF and CR end a line, and
/// invisible characters are escaped. An incomplete character at the end is removed.
pub(crate) fn sanitize(bytes: &[u8], most: usize, escapes: EscapeHandling) -> SanitizedText {
    let is_cut = bytes.len() > most;
    let mut end = most.min(bytes.len());
    // A UTF-8 character has at most three continuation bytes.
    let is_within = |end: usize| bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    if let Some(start) = (end.saturating_sub(3)..=end)
        .rev()
        .find(|end| !is_within(*end))
    {
        end = start;
    }
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let mut out = LineBuffer {
        text: String::with_capacity(text.len()),
        line_chars: 0,
    };
    let mut rest = &*text;
    let mut had_escapes = false;
    while let Some(c) = rest.chars().next() {
        if escapes == EscapeHandling::Strip
            && let Some(after) = skip_escape(rest)
        {
            (rest, had_escapes) = (after, true);
            continue;
        }
        rest = rest.strip_prefix(c).unwrap_or_default();
        match c {
            '\r' if rest.starts_with('\n') => {}
            '\r' | '\n' => out.end_line(),
            c => out.push(c),
        }
    }
    SanitizedText {
        text: out.text,
        had_escapes,
        is_cut,
    }
}

/// Converts a short untrusted text, such as a name in a sentence, to one line. Invisible characters
/// are escaped.
pub(crate) fn sanitize_line(text: &str) -> String {
    let mut out = LineBuffer {
        text: String::with_capacity(text.len()),
        line_chars: 0,
    };
    text.chars().for_each(|c| {
        out.push(if matches!(c, '\n' | '\r' | '\t') {
            ' '
        } else {
            c
        });
    });
    out.text
}

/// Part of a text: a link, or the text between links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextSpan {
    /// Displayed text, and the URL of a link.
    pub(crate) text: String,
    /// True if the part is a link.
    pub(crate) is_link: bool,
}

/// Splits a text into parts, with `http` and `https` URLs as links. Invisible characters are
/// escaped.
pub(crate) fn split_links(text: &str) -> Vec<TextSpan> {
    let text = sanitize(text.as_bytes(), usize::MAX, EscapeHandling::Show).text;
    let mut pieces = Vec::new();
    let mut rest = &*text;
    let mut push = |text: &str, is_link| {
        if !text.is_empty() {
            pieces.push(TextSpan {
                text: text.into(),
                is_link,
            });
        }
    };
    let start = |rest: &str| {
        ["http://", "https://"]
            .iter()
            .filter_map(|start| rest.find(start))
            .min()
    };
    while let Some(start) = start(rest) {
        let (before, from) = rest.split_at(start);
        let end = from
            .find(|c: char| c.is_whitespace() || "<>\"'`\u{fffd}".contains(c))
            .unwrap_or(from.len());
        // Punctuation at the end of a sentence is not part of the URL.
        let url = from
            .get(..end)
            .unwrap_or(from)
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', FOLD_MARK]);
        push(before, false);
        push(
            url,
            url.split_once("://")
                .is_some_and(|(_, host)| !host.is_empty()),
        );
        rest = from.get(url.len()..).unwrap_or_default();
    }
    push(rest, false);
    pieces
}

/// Builds the lines of a text.
struct LineBuffer {
    text: String,
    line_chars: usize,
}

impl LineBuffer {
    fn end_line(&mut self) {
        self.text.push('\n');
        self.line_chars = 0;
    }

    fn push(&mut self, c: char) {
        if self.line_chars == MAX_LINE_CHARS {
            self.text.push(FOLD_MARK);
            self.end_line();
        }
        self.line_chars += 1;
        match c {
            '\t' => self.text.push('\t'),
            // Control pictures have the same order as the control characters.
            '\0'..='\u{1f}' => self.text.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => self.text.push('\u{2421}'),
            c if c.is_control() || is_invisible(c) => {
                // Writing to memory does not fail.
                let _ = write!(self.text, "[U+{:04X}]", u32::from(c));
            }
            c => self.text.push(c),
        }
    }
}

/// Returns the text after an escape sequence. `None` if the text does not begin with a complete one
/// (ECMA-48, sections 5.3 to 5.6).
fn skip_escape(text: &str) -> Option<&str> {
    let mut rest = text.chars();
    let introducer = match (rest.next()?, rest.clone().next()) {
        ('\u{1b}', Some(c)) => {
            rest.next();
            c
        }
        ('\u{9b}', _) => '[',
        ('\u{9d}', _) => ']',
        _ => return None,
    };
    let rest = rest.as_str();
    match introducer {
        // Control sequence: parameters, intermediate characters, and a final character.
        '[' => {
            let rest = rest
                .trim_start_matches(|c| matches!(c, '0'..='?'))
                .trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '@'..='~'))
        }
        // String, such as a title or a link, up to its end on the same line.
        ']' | 'P' | 'X' | '^' | '_' => {
            let end = rest.find(['\u{7}', '\u{9c}', '\u{1b}', '\n', '\r'])?;
            let rest = rest.get(end..)?;
            rest.strip_prefix("\u{1b}\\")
                .or_else(|| rest.strip_prefix(['\u{7}', '\u{9c}']))
        }
        // Selection of a character set.
        ' '..='/' => rest
            .trim_start_matches(|c| matches!(c, ' '..='/'))
            .strip_prefix(|c| matches!(c, '0'..='~')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str) -> String {
        sanitize(text.as_bytes(), PREVIEW_BYTES, EscapeHandling::Strip).text
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, seen) in [
            ("plain text\n", "plain text\n"),
            ("a\r\nb\rc\n\nd", "a\nb\nc\n\nd"),
            ("a\tb\0c\u{8}\u{7f}", "a\tb␀c␈␡"),
            ("\u{1b}[1;31merror\u{1b}[0m", "error"),
            ("\u{9b}31mred", "red"),
            (
                "\u{1b}]8;;http://x.test/\u{1b}\\link\u{1b}]8;;\u{7}",
                "link",
            ),
            ("\u{1b}]0;title\u{9c}x", "x"),
            ("\u{1b}(Bx", "x"),
            // Incomplete sequences are shown.
            ("\u{1b}[12", "␛[12"),
            (
                "\u{1b}]0;title without an end\nnext",
                "␛]0;title without an end\nnext",
            ),
            ("\u{1b}", "␛"),
            ("\u{85}\u{9f}", "[U+0085][U+009F]"),
            ("invoice\u{202e}gpj.exe", "invoice[U+202E]gpj.exe"),
            (
                "a\u{200b}b\u{feff}c\u{2066}d\u{61c}",
                "a[U+200B]b[U+FEFF]c[U+2066]d[U+061C]",
            ),
            ("a\u{2028}b\u{e0041}", "a[U+2028]b[U+E0041]"),
            (
                "<script>alert(1)</script> {{x}} &lt;",
                "<script>alert(1)</script> {{x}} &lt;",
            ),
        ] {
            assert_eq!(plain(text), seen, "{text:?}");
        }
        assert_eq!(
            sanitize(b"\x1b[1mx", 100, EscapeHandling::Show).text,
            "␛[1mx"
        );
        assert!(sanitize(b"\x1b[1mx", 100, EscapeHandling::Strip).had_escapes);
        assert!(!sanitize(b"x", 100, EscapeHandling::Strip).had_escapes);
        assert_eq!(
            sanitize(b"a\xff\xfeb", 100, EscapeHandling::Strip).text,
            "a\u{fffd}\u{fffd}b"
        );
        assert_eq!(sanitize_line("a\r\nb\u{202e}c\td"), "a  b[U+202E]c d");
    }

    #[test]
    fn only_web_addresses_are_links() {
        let links = |text: &str| {
            let links: Vec<_> = split_links(text)
                .into_iter()
                .filter(|piece| piece.is_link)
                .map(|piece| piece.text)
                .collect();
            links.join(" ")
        };
        for (text, found) in [
            (
                "see https://example.org/a?b=c#d.",
                "https://example.org/a?b=c#d",
            ),
            (
                "(http://a.test), http://b.test/x;",
                "http://a.test http://b.test/x",
            ),
            (
                "javascript:alert(1) data:text/html,x ftp://x.test file:///etc/passwd",
                "",
            ),
            ("<a href=\"https://x.test/\">", "https://x.test/"),
            ("https:// http://", ""),
            ("xhttps://y.test", "https://y.test"),
        ] {
            assert_eq!(links(text), found, "{text}");
            let whole: String = split_links(text)
                .into_iter()
                .map(|piece| piece.text)
                .collect();
            assert_eq!(whole, text);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_long_lines_folded() {
        for (bytes, most, text, is_cut) in [
            ("abc", 3, "abc", false),
            ("abcd", 3, "abc", true),
            ("až€", 2, "a", true),
            ("až€", 3, "až", true),
            ("až€", 5, "až", true),
            ("až€", 6, "až€", false),
            ("😀x", 3, "", true),
            ("", 0, "", false),
        ] {
            let shown = sanitize(bytes.as_bytes(), most, EscapeHandling::Strip);
            assert_eq!(
                (shown.text.as_str(), shown.is_cut),
                (text, is_cut),
                "{bytes} {most}"
            );
        }
        let folded = plain(&"x".repeat(4_500));
        let lines: Vec<_> = folded.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lines, [2_001, 2_001, 500]);
        assert_eq!(
            plain(&format!("{}\ny", "x".repeat(2_000))).lines().count(),
            2
        );
    }

    proptest! {
        /// For any input, every character is visible, and no line is long.
        #[test]
        fn shown_text_is_visible(
            bytes in prop::collection::vec(
                prop_oneof![
                    any::<u8>(),
                    Just(0x1b),
                    Just(b'['),
                    Just(0xe2),
                    Just(0x80),
                    Just(0xae),
                ],
                0..3000,
            ),
            most in 0_usize..3000,
            keep in any::<bool>(),
        ) {
            let escapes = if keep { EscapeHandling::Show } else { EscapeHandling::Strip };
            let shown = sanitize(&bytes, most, escapes);
            let is_visible =
                |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c));
            prop_assert!(shown.text.chars().all(is_visible));
            // An escaped character has up to nine characters.
            let is_folded = |line: &str| line.chars().count() <= 9 * MAX_LINE_CHARS + 1;
            prop_assert!(shown.text.lines().all(is_folded));
            prop_assert_eq!(shown.is_cut, bytes.len() > most);
        }

        /// Plain text stays unchanged.
        #[test]
        fn plain_text_stays(text in "([a-zA-Z0-9<>&\"' äöü€漢字😀]{0,200}\n){0,5}") {
            let shown = sanitize(text.as_bytes(), usize::MAX, EscapeHandling::Strip);
            prop_assert_eq!(shown.text, text.clone());
        }
    }
}
