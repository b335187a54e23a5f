//! URLs stay intact in every dialect, and marks have no effect elsewhere. Each dialect is parsed
//! here by the rules of its own service.

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::render::{HOSTILE, named};
use super::sample::{attempt, down, of_check};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, render_text};
use crate::domain::flip::FlipCause;

const JOINER: char = '\u{2060}';

/// Pieces that are likely to interact badly.
const PIECES: [&str; 33] = [
    "https://x.example/a",
    "http://y",
    "https://u:p@x.example",
    "HTTPS://",
    "_b/",
    "*",
    "*c",
    "_",
    "~~",
    "~d",
    "`",
    "[",
    "](",
    ")",
    "(",
    "|",
    "<",
    ">",
    "@all",
    "\\",
    " ",
    "\n",
    "e",
    "&lt;",
    "#",
    "!",
    ":",
    ".",
    "“",
    "?",
    "=",
    "'",
    "ž",
];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&PIECES[..]).prop_map(String::from),
        "[ -~]"
    ]
}

/// Text before or after a URL.
fn surroundings() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&HOSTILE[..]).prop_map(String::from),
        "[ -~]{0,20}"
    ]
}

/// URL with all permitted characters, which ends with a letter or digit.
fn url() -> impl Strategy<Value = String> {
    "https?://[a-z]{1,8}(\\.[a-z]{2,4}){1,2}(:[1-9][0-9]{0,3})?(/[_~*]?[a-z0-9]{1,5}([_~*#=&%+.,:;!\
     '?-][a-z0-9]{1,4}){0,4}){1,4}(/[a-z]_\\([a-z]_[a-z]\\))?/[a-z0-9]"
}

/// True if a description with a URL, with marks and other text on both sides, shows the URL in a
/// dialect.
fn is_kept(dialect: Dialect, url: &str, written: &str) -> bool {
    let html = || url.replace('&', "&amp;");
    match dialect {
        Dialect::Telegram | Dialect::Pushover | Dialect::Html | Dialect::Slack => {
            written.contains(&html())
        }
        // Not every reader turns it into a link, so marks that could pair are percent-encoded.
        Dialect::Markdown => written
            .replace("%2A", "*")
            .replace("%7E", "~")
            .replace("%5F", "_")
            .replace("%3B", ";")
            .contains(url),
        _ => written.contains(url),
    }
}

/// Length in bytes of the link that a service makes of the beginning of a text; 0: none.
fn link_length(dialect: Dialect, text: &str) -> usize {
    let Some(host) = ["https://", "http://"].iter().find_map(|scheme| {
        text.get(..scheme.len())
            .filter(|begin| begin.eq_ignore_ascii_case(scheme))
            .and(text.get(scheme.len()..))
    }) else {
        return 0;
    };
    let end = match dialect {
        Dialect::Mattermost => mattermost_length(text),
        Dialect::RocketChat => text.find(char::is_whitespace).unwrap_or(text.len()),
        _ => text
            .find(|c: char| c.is_whitespace() || c == '<')
            .unwrap_or(text.len()),
    };
    if end == text.len() - host.len() {
        return 0;
    }
    let link = &text[..end];
    match dialect {
        Dialect::Discord => link
            .trim_end_matches(['.', ',', ':', ';', '"', '\'', ']'])
            .len(),
        Dialect::RocketChat => {
            let name = host.split([':', '/', '?', '#']).next().unwrap();
            if name.contains('.') {
                link.trim_end_matches(|c| ".,!%~*\"':;()=".contains(c))
                    .len()
            } else {
                0
            }
        }
        _ => {
            let link = link.trim_end_matches(|c| "?!.,:*_~'\"".contains(c));
            let unpaired = link.matches(')').count() > link.matches('(').count();
            if unpaired {
                link.trim_end_matches(')').len()
            } else {
                link.len()
            }
        }
    }
}

/// By the regular expression for URLs in Mattermost's fork of marked.
fn mattermost_length(text: &str) -> usize {
    let scheme = text.find("//").unwrap() + 2;
    let mut length = scheme;
    while let Some(c) = text[length..].chars().next() {
        let after = &text[length + c.len_utf8()..];
        let goes_on = !after.is_empty()
            && !after.starts_with(|c: char| c.is_whitespace() || "()<>".contains(c));
        length += match c {
            '(' => match after.find(|c: char| c.is_whitespace() || "()<>".contains(c)) {
                Some(end) if after[end..].starts_with(')') => end + 2,
                _ => break,
            },
            c if c.is_whitespace() || c == ')' => break,
            c if "`![]{;:'\",<>?«»“”‘’".contains(c) && !goes_on => break,
            c => c.len_utf8(),
        };
    }
    length
}

/// Text with each link that a service makes of a URL replaced by an `x`.
fn without_links(dialect: Dialect, written: &str) -> String {
    let mut text_without_links = String::new();
    let mut rest = written;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let may_begin = match dialect {
            Dialect::Discord => true,
            Dialect::RocketChat => before.is_whitespace() || "([".contains(before),
            _ => !before.is_ascii_alphabetic(),
        };
        let length = if may_begin {
            link_length(dialect, rest)
        } else {
            0
        };
        if length > 0 {
            text_without_links.push('x');
            rest = &rest[length..];
            before = 'x';
        } else {
            text_without_links.push(c);
            rest = &rest[c.len_utf8()..];
            before = c;
        }
    }
    text_without_links
}

/// Marks of a text that no backslash escapes.
fn bare_marks(dialect: Dialect, text: &str, marks: &str) -> Vec<char> {
    let mut bare = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let mut following = chars.clone();
        let next = following.next();
        let second = following.next();
        let is_pair = next == Some('\\')
            && match dialect {
                Dialect::RocketChat => false,
                Dialect::Mattermost => {
                    !second.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
                }
                _ => true,
            };
        match c {
            '\\' if is_pair || next.is_some_and(|next| marks.contains(next)) => _ = chars.next(),
            c if marks.contains(c) => bare.push(c),
            _ => {}
        }
    }
    bare
}

/// Text that a CommonMark reader shows, without marks. The error names the first mark.
fn shown_as_commonmark(written: &str) -> Result<String, String> {
    let mut shown = String::new();
    for event in Parser::new_ext(
        written,
        Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES,
    ) {
        match event {
            Event::Text(text) => shown.push_str(&text),
            Event::Start(Tag::Paragraph) | Event::End(_) | Event::SoftBreak | Event::HardBreak => {}
            mark => return Err(format!("{mark:?}")),
        }
    }
    Ok(shown)
}

/// Text without characters that escaping may add, and with encoded characters decoded.
fn letters(text: &str) -> String {
    // Line ends separate the characters of a code in some of the compared texts.
    text.replace(|c: char| c.is_whitespace() || c == JOINER, "")
        .replace("%2A", "*")
        .replace("%7E", "~")
        .replace("%5F", "_")
        .replace("%3B", ";")
        .replace("%40", "@")
}

/// Words of a line of Zulip outside code spans.
fn outside_code(line: &str) -> String {
    let mut outside = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let fence = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        outside.push_str(&rest[..at]);
        outside.push('C');
        let after = &rest[at + fence..];
        let closes = |at: &usize| {
            let run = after[*at..].len() - after[*at..].trim_start_matches('`').len();
            run == fence && !after[..*at].ends_with('`')
        };
        let end = after
            .match_indices('`')
            .map(|(at, _)| at)
            .find(closes)
            .unwrap_or_else(|| panic!("no end of a span in {line}"));
        rest = &after[end + fence..];
    }
    outside + rest
}

/// True if Zulip turns a word into a link, by its regular expression for URLs.
fn is_zulip_link(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '\'', '"', ',', ':']);
    let Some(after) = word
        .strip_prefix("https://")
        .or_else(|| word.strip_prefix("http://"))
    else {
        return false;
    };
    let host = after
        .find(|c: char| !c.is_alphanumeric() && !"_.:@-".contains(c))
        .unwrap_or(after.len());
    let rest = &after[host..];
    let path = rest.trim_end_matches(|c| "!:;?),.'\">".contains(c));
    host > 0
        && (path.is_empty()
            || (path.starts_with('/') && path.matches('(').count() <= 1 && !path.contains('"')))
}

proptest! {
    #[test]
    fn a_description_keeps_its_urls(
        url in url(),
        before in surroundings(),
        after in surroundings(),
    ) {
        let check = named(&format!("{before} {url} {after}"));
        let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
        for dialect in Dialect::ALL {
            let show = TextSections { facts: false, output: 0, ..TextSections::BELOW_TITLE };
            let limit = LengthLimit(50_000, LengthUnit::Bytes);
            let written = render_text(&alert, &attempt(), dialect, show, limit);
            prop_assert!(is_kept(dialect, &url, &written), "{dialect:?} {url}: {written}");
        }
    }

    #[test]
    fn marks_outside_of_urls_are_escaped(pieces in prop::collection::vec(piece(), 0..30)) {
        let text = pieces.concat();
        for (dialect, marks) in [
            (Dialect::Discord, "`*_[]<>~|#"),
            (Dialect::Mattermost, "`*_[]~|#>"),
            (Dialect::RocketChat, "`*_~#"),
            (Dialect::Markdown, "`*_[]<>~|#&"),
        ] {
            let outside = without_links(dialect, &dialect.escape(&text));
            let bare = bare_marks(dialect, &outside, marks);
            prop_assert_eq!(bare, Vec::<char>::new(), "{:?} {}", dialect, outside);
        }
        // For readers that turn URLs into links and for others.
        let written = Dialect::Markdown.escape(&text);
        let shown = shown_as_commonmark(&written);
        prop_assert_eq!(shown.as_deref().map(letters), Ok(letters(&text)), "{}", written);
        for dialect in [
            Dialect::Markdown,
            Dialect::Mattermost,
            Dialect::RocketChat,
            Dialect::Slack,
        ] {
            let written = dialect.escape(&text);
            for (at, _) in written.match_indices('@') {
                let before = written[..at].chars().next_back().unwrap_or(' ');
                prop_assert!(
                    before.is_alphanumeric() || written[at + 1..].starts_with(JOINER),
                    "{dialect:?} {written}"
                );
            }
        }
        for line in Dialect::Zulip.escape(&text).split('\n') {
            for word in outside_code(line).split(' ').filter(|word| !is_zulip_link(word)) {
                prop_assert!(
                    !word.contains(['*', '[', ']', '|', '<'])
                        && !word.contains("~~")
                        && !word.contains("$$"),
                    "{line}"
                );
            }
        }
    }
}

/// URLs in different positions of a sentence, and the text for each service.
#[test]
fn a_url_is_written_for_the_parser_of_each_service() {
    for (dialect, text, written) in [
        (
            Dialect::Discord,
            "see (https://x/run_1_a), a_b",
            "see (https://x/run_1_a), a\\_b",
        ),
        (
            Dialect::Discord,
            "https://x/*a*~b#c_d e",
            "https://x/*a*~b#c_d e",
        ),
        (
            Dialect::Discord,
            "[https://x/a_b](https://y/c_d)",
            "\\[https://x/a_b \\](https://y/c_d)",
        ),
        (
            Dialect::Discord,
            "**https://x/a_b**",
            "\\*\\*https://x/a_b \\*\\*",
        ),
        // Some of these would become links that include the backslashes.
        (
            Dialect::Discord,
            "ahttps://x/a_b",
            "ahttps:\u{2060}//x/a\\_b",
        ),
        (
            Dialect::Mattermost,
            "HTTPS://x/a_b",
            "HTTPS:\u{2060}//x/a\\_b",
        ),
        (
            Dialect::Markdown,
            "https://x/run_1_a?b=1&c=2",
            "https://x/run_1_a?b=1&c=2",
        ),
        (
            Dialect::Markdown,
            "https://x/a*b and c*d",
            "https://x/a%2Ab and c\\*d",
        ),
        (
            Dialect::Markdown,
            "https://x/@all @all",
            "https://x/%40all @\u{2060}all",
        ),
        (
            Dialect::Markdown,
            "https://user:a_b@x/",
            "https:\u{2060}//user:a\\_b@x/",
        ),
        (
            Dialect::Mattermost,
            "https://x/A_(b_c) <https://y/d_e>",
            "https://x/A_(b_c) <\u{2060}https://y/d_e \\>",
        ),
        (
            Dialect::RocketChat,
            "https://x.example/a_b~c",
            "https://x.example/a_b~c",
        ),
        // Its links do not end with these characters, so the marks among them would be parsed.
        (
            Dialect::RocketChat,
            "https://x.example/a*%=",
            "https://x.example/a \\*%=",
        ),
        // It turns none of these into a link, so their marks would be parsed.
        (Dialect::RocketChat, "https://x/a_b", "https://x/a\\_b"),
        (
            Dialect::RocketChat,
            "=https://x.example/a_b",
            "=https://x.example/a\\_b",
        ),
        (
            Dialect::Slack,
            "https://x/@here?a&b",
            "https://x/%40here?a&amp;b",
        ),
        (
            Dialect::Zulip,
            "R&D ~1 https://x/?a=1&b=~c *d*",
            "R&D ~1 https://x/?a=1&b=~c `*d*`",
        ),
        (
            Dialect::Zulip,
            "(https://x/*a*/~~b~~/&lt;c), a~~b",
            "(https://x/*a*/~~b~~/&lt;c), `a~~b`",
        ),
        (Dialect::Zulip, "*a* and *b* *c*", "`*a*` and `*b* *c*`"),
        (Dialect::Zulip, "host:port a&;b", "host:port a&;b"),
        (Dialect::Zulip, "a:smile: b&lt;c", "`a:smile: b&lt;c`"),
        // It parses these before URLs, or does not turn them into links.
        (
            Dialect::Zulip,
            "https://x/@**all** https://x?*a* b:https://x/*c*",
            "`https://x/@**all** https://x?*a* b:https://x/*c*`",
        ),
    ] {
        assert_eq!(dialect.escape(text), written, "{dialect:?} {text}");
    }
}
