//! Reduces HTML to its visible text, so that keywords are found across tags.
//!
//! Tags and comments are removed without replacement, `script` and `style` together with their
//! contents. Character references are decoded. White space is collapsed. (`mail_parser`'s
//! `html_to_text` also drops the head, treats a `<` between spaces as a tag, and ends a tag at a
//! `>` inside a quoted attribute.)

use mail_parser::decoders::html::add_html_token;

/// Maximum number of characters of a reference between `&` and `;`, such as
/// `CounterClockwiseContourIntegral`.
const MAX_REFERENCE_LENGTH: usize = 32;

/// Returns the first `most` bytes of the text of an HTML document or fragment. Takes time in
/// proportion to the length of the HTML, for any content.
pub(super) fn html_to_text(html: &str, most: usize) -> String {
    let mut text = CollapsedText {
        max_bytes: most,
        ..CollapsedText::default()
    };
    let mut rest = html;
    while text.out.len() < most
        && let Some((plain, from)) = rest
            .find(['<', '&'])
            .and_then(|at| rest.split_at_checked(at))
    {
        text.push(plain);
        rest = match from.strip_prefix('<') {
            Some(after) => skip_markup(after).unwrap_or_else(|| {
                text.push("<");
                after
            }),
            None => decode_reference(from, &mut text),
        };
    }
    text.push(rest);
    text.out.truncate(text.out.floor_char_boundary(most));
    text.out
}

#[derive(Default)]
struct CollapsedText {
    out: String,
    /// Maximum length of `out` in bytes.
    max_bytes: usize,
    /// True if white space followed the last character.
    has_pending_space: bool,
}

impl CollapsedText {
    fn push(&mut self, piece: &str) {
        for c in piece.chars() {
            if self.out.len() >= self.max_bytes {
                return;
            }
            if c.is_whitespace() {
                self.has_pending_space = true;
                continue;
            }
            if std::mem::take(&mut self.has_pending_space) && !self.out.is_empty() {
                self.out.push(' ');
            }
            self.out.push(c);
        }
    }
}

/// Returns the text after the tag, comment or declaration whose `<` has been read. `None` if the
/// `<` was a plain character. Markup without an end extends to the end of the document.
fn skip_markup(after: &str) -> Option<&str> {
    if let Some(comment) = after.strip_prefix("!--") {
        return Some(text_after(comment, "-->"));
    }
    if after.starts_with(['!', '?']) {
        return Some(text_after(after, ">"));
    }
    let closing = after.strip_prefix('/');
    let named = closing.unwrap_or(after);
    if !named.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return closing.map(|closing| text_after(closing, ">"));
    }
    let (name, attributes) = named.split_at(
        named
            .find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>')
            .unwrap_or(named.len()),
    );
    let content = skip_tag(attributes);
    let is_hidden = closing.is_none()
        && ["script", "style"]
            .iter()
            .any(|hidden| name.eq_ignore_ascii_case(hidden));
    Some(if is_hidden {
        skip_hidden_content(content, name)
    } else {
        content
    })
}

fn text_after<'x>(text: &'x str, end: &str) -> &'x str {
    text.split_once(end).map_or("", |(_, after)| after)
}

/// Returns the text after the `>` that ends a tag. A `>` inside a quoted value does not end it.
fn skip_tag(attributes: &str) -> &str {
    let mut rest = attributes;
    while let Some((before, after)) = rest.split_once(['>', '=']) {
        if rest.as_bytes().get(before.len()) == Some(&b'>') {
            return after;
        }
        let value = after.trim_ascii_start();
        rest = match value.strip_prefix(['"', '\'']) {
            Some(quoted) => text_after(quoted, value.get(..1).unwrap_or_default()),
            None => value
                .find(|c: char| c.is_ascii_whitespace() || c == '>')
                .map_or("", |end| value.split_at(end).1),
        };
    }
    ""
}

/// Returns the text after the closing tag of `name`, whose contents are hidden.
fn skip_hidden_content<'x>(content: &'x str, name: &str) -> &'x str {
    let mut rest = content;
    while let Some((_, after)) = rest.split_once("</") {
        if let Some((closing, attributes)) = after.split_at_checked(name.len())
            && closing.eq_ignore_ascii_case(name)
            && !attributes.starts_with(|c: char| c.is_ascii_alphanumeric())
        {
            return skip_tag(attributes);
        }
        rest = after;
    }
    ""
}

/// Adds the character of the reference at the start of `from`, or `&` if it is not a reference.
/// Returns the text after it.
fn decode_reference<'x>(from: &'x str, text: &mut CollapsedText) -> &'x str {
    let name = from
        .bytes()
        .skip(1)
        .take(MAX_REFERENCE_LENGTH)
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'#')
        .count();
    if let Some((reference, after)) = from
        .split_at_checked(name + 2)
        .filter(|(reference, _)| reference.ends_with(';'))
    {
        let mut decoded = String::new();
        add_html_token(&mut decoded, reference.as_bytes(), false);
        text.push(&decoded);
        return after;
    }
    text.push("&");
    from.get(1..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn html_is_converted_to_its_visible_text() {
        for (html, text) in [
            ("<p>BRO<b>KEN</b></p>", "BROKEN"),
            ("no markup", "no markup"),
            ("", ""),
            (
                "<HTML><head><title>T</title><Style \
                 type='x'>OK</STYLE></head><body>a<br>b</body></html>",
                "Tab",
            ),
            ("a<script>if (a</b) 'OK</scripty>' </script x='>'>b", "ab"),
            ("<style>OK", ""),
            ("<style/>OK</style>x", "x"),
            ("</script>OK", "OK"),
            ("<styles>OK</styles>", "OK"),
            ("a<!-- OK > -- -->b<!--x", "ab"),
            ("<!DOCTYPE html><?xml ?>a<![CDATA[x]]>b</>c</ OK>d", "abcd"),
            ("load < 5 & 3 <4 <> a<", "load < 5 & 3 <4 <> a<"),
            (r#"<a title="x>OK" href='a>b' id = z>link</a >"#, "link"),
            ("<a title=x\">yes</a><a b\">no", "yesno"),
            ("<a href=\"open>OK", ""),
            ("<a", ""),
            ("  one \r\n\t two&nbsp;three  ", "one two three"),
            ("one<b> </b>two <i> three", "one two three"),
            (
                "&lt;OK&gt; &amp;amp; &#66;&#x52;&#X4f;&eacute;&auml;",
                "<OK> &amp; BROéä",
            ),
            (
                "AT&T &nope; &#xfffffff; &#; &;&&amp",
                "AT&T &nope; � &#; &;&&amp",
            ),
            ("&CounterClockwiseContourIntegral;&žlut;", "∳&žlut;"),
            (
                "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;",
                "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;",
            ),
            ("č<b>ů</b>\u{2003}ž", "čů ž"),
            ("a\0b", "a\0b"),
        ] {
            assert_eq!(html_to_text(html, usize::MAX), text, "{html:?}");
        }
    }

    proptest! {
        #[test]
        fn white_space_is_collapsed_and_nothing_fails(
            html in "([<>&;/!=\"' a-z\r\n\u{a0}č-]|script|<!--|-->|</script>|&#[0-9]{1,9};){0,60}",
        ) {
            let text = html_to_text(&html, usize::MAX);
            prop_assert!(!text.contains("  ") && text.trim() == text, "{text:?}");
            prop_assert!(text.chars().count() <= html.chars().count());
        }

        #[test]
        fn words_between_tags_stay(
            words in prop::collection::vec("[a-z]{1,8}", 1..8),
            tag in "(b|i|span|td class='a>b'|font color=red|br /)",
        ) {
            let html: String = words
                .iter()
                .map(|word| format!("<{tag}>{word}</{}>", &tag[..1]))
                .collect();
            prop_assert_eq!(html_to_text(&html, usize::MAX), words.concat());
        }
    }
}
