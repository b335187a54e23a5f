//! Sanitizes untrusted text for messages: no control characters, no terminal colors, no change of
//! text direction.

/// True for characters that change the direction of the text after them, up to a mark that may be
/// missing.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Puts a text on one line and trims it: control characters and line ends become single spaces.
pub fn to_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_bidi_control(*c)) {
        let ends_line = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        match if ends_line { ' ' } else { c } {
            ' ' if line.is_empty() || line.ends_with(' ') => {}
            c => line.push(c),
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Keeps the lines of a text. Line ends become LF; other control characters but tabs, and escape
/// sequences of terminals, are dropped.
pub fn clean_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' | '\n' | '\u{2028}' | '\u{2029}' => lines.push('\n'),
            '\u{1b}' if rest.peek() == Some(&'[') => {
                // A control sequence ends with the first byte from 0x40 on (ECMA-48, section 5.4).
                rest.next();
                while let Some(' '..='?') = rest.peek() {
                    rest.next();
                }
                rest.next_if(|c| matches!(c, '@'..='~'));
            }
            '\t' => lines.push('\t'),
            c if c.is_control() || is_bidi_control(c) => {}
            c => lines.push(c),
        }
    }
    lines.truncate(lines.trim_end().len());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_line() {
        for (text, line) in [
            ("Nightly backup", "Nightly backup"),
            ("a\r\nBcc: b@c", "a Bcc: b@c"),
            (" \0a\t\u{7f} b\u{2028}", "a b"),
            ("x\u{202e}gpj.exe", "xgpj.exe"),
            ("", ""),
        ] {
            assert_eq!(to_one_line(text), line, "{text:?}");
        }
    }

    #[test]
    fn output_keeps_its_lines_without_terminal_colors() {
        for (text, kept) in [
            ("a\r\nb\rc\n", "a\nb\nc"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}[", ""),
            ("a\tb\0c\u{1b}d", "a\tbcd"),
            ("\u{2066}x\u{2069}", "x"),
        ] {
            assert_eq!(clean_lines(text), kept, "{text:?}");
        }
    }
}
