//! Escapes text for chats so that they show it unchanged. Each chat has its own rules: a backslash
//! is not always an escape.

use super::dialect::WORD_JOINER;
use super::url;

/// URLs that a chat turns into links.
#[derive(Clone, Copy)]
enum LinkRule {
    /// URLs after any character but letters and digits, and some after these.
    Everywhere,
    /// URLs after whitespace or one of the characters of `after` only, without the characters of
    /// `never_last` at their end.
    After {
        after: &'static str,
        never_last: &'static [char],
    },
}

impl LinkRule {
    /// True if every URL after this character becomes a link.
    fn begin_after(self, c: char) -> bool {
        match self {
            Self::Everywhere => !c.is_ascii_alphanumeric(),
            Self::After { after, .. } => c.is_whitespace() || after.contains(c),
        }
    }

    /// Returns the URL at the beginning of a text that becomes a link after this character.
    fn url_at_start(self, before: char, text: &str) -> Option<&str> {
        let found = url::at_start(text).filter(|_| self.begin_after(before))?;
        Some(match self {
            Self::Everywhere => found,
            Self::After { never_last, .. } => found.trim_end_matches(never_last),
        })
    }

    /// Length in bytes of the scheme with its colon at the beginning of a text, if a link may begin
    /// there; otherwise 0.
    fn scheme_length(self, before: char, text: &str) -> usize {
        let length = url::scheme_length(text);
        if matches!(self, Self::Everywhere) || self.begin_after(before) {
            length
        } else {
            0
        }
    }
}

/// Character of a text and its surroundings.
struct Position<'a> {
    c: char,
    before: char,
    after: &'a str,
    /// True if only whitespace and the digits of a numbered list precede it on its line.
    is_at_line_start: bool,
}

/// Escape for a character that shows it unchanged.
enum EscapeStyle {
    AsItIs,
    AfterBackslash,
    AfterJoiner,
    BeforeJoiner,
    As(&'static str),
}

/// Returns a text with each character escaped by `write`, and each URL by `show`. An escaped
/// character would become part of a URL in front of it, so a space separates the two. It would also
/// become part of a text that only resembles a URL, so that text must not become a link.
fn escape_text(
    text: &str,
    links: LinkRule,
    show: impl Fn(&str) -> String,
    write: impl Fn(&Position<'_>) -> EscapeStyle,
) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    let mut is_at_line_start = true;
    let mut before = '\n';
    let mut is_after_url = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(found) = links.url_at_start(before, rest) {
            escaped.push_str(&show(found));
            rest = rest.get(found.len()..).unwrap_or_default();
            is_at_line_start = false;
            before = found.chars().next_back().unwrap_or(before);
            is_after_url = true;
            continue;
        }
        if let Some((scheme, after)) = rest
            .split_at_checked(links.scheme_length(before, rest))
            .filter(|(scheme, _)| !scheme.is_empty())
        {
            escaped.push_str(scheme);
            escaped.push(WORD_JOINER);
            rest = after;
            is_at_line_start = false;
            before = ':';
            continue;
        }
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let written = write(&Position {
            c,
            before,
            after,
            is_at_line_start,
        });
        if is_after_url && !matches!(written, EscapeStyle::AsItIs | EscapeStyle::As(_)) {
            escaped.push(' ');
            is_after_url = false;
        }
        match written {
            EscapeStyle::AsItIs => escaped.push(c),
            EscapeStyle::AfterBackslash => escaped.extend(['\\', c]),
            EscapeStyle::AfterJoiner => escaped.extend([WORD_JOINER, c]),
            EscapeStyle::BeforeJoiner => escaped.extend([c, WORD_JOINER]),
            EscapeStyle::As(other) => escaped.push_str(other),
        }
        is_at_line_start = c == '\n' || (is_at_line_start && (c == ' ' || c.is_ascii_digit()));
        is_after_url &= !c.is_whitespace();
        before = c;
        rest = after;
    }
    escaped
}

/// CommonMark as in GitHub, Trello, Gotify, ntfy, Teams and the targets of Apprise. Some of them
/// turn URLs into links and some do not.
pub(super) fn escape_markdown(text: &str) -> String {
    let show = |url: &str| url::without_marks(&url::without_mentions(url));
    escape_text(text, LinkRule::Everywhere, show, |at| match at.c {
        // Two spaces make a hard line break.
        '\n' => EscapeStyle::As("  \n"),
        '@' if !at.before.is_alphanumeric() => EscapeStyle::BeforeJoiner,
        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '&' | '#' => {
            EscapeStyle::AfterBackslash
        }
        '+' | '-' | '=' | '.' | ')' if at.is_at_line_start => EscapeStyle::AfterBackslash,
        _ => EscapeStyle::AsItIs,
    })
}

/// Discord: a backslash before any punctuation. `allowed_mentions` turns mentions off.
pub(super) fn escape_discord(text: &str) -> String {
    escape_text(text, LinkRule::Everywhere, str::to_owned, |at| match at.c {
        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '#' => {
            EscapeStyle::AfterBackslash
        }
        '+' | '-' | '.' if at.is_at_line_start => EscapeStyle::AfterBackslash,
        _ => EscapeStyle::AsItIs,
    })
}

/// Mattermost: a backslash before some marks; two of them are one unless a letter or digit follows.
/// `\&` and `\<` show their backslash. It also parses links and mentions in the format of Slack
/// (`<http://…|text>`, `<!channel>`).
pub(super) fn escape_mattermost(text: &str) -> String {
    escape_text(
        text,
        LinkRule::Everywhere,
        url::without_mentions,
        |at| match at.c {
            '`' | '*' | '_' | '[' | ']' | '~' | '|' | '#' | '>' => EscapeStyle::AfterBackslash,
            '+' | '-' | '.' | ')' if at.is_at_line_start => EscapeStyle::AfterBackslash,
            '\\' if !at.after.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
                EscapeStyle::AfterBackslash
            }
            '=' if at.is_at_line_start => EscapeStyle::AfterJoiner,
            '&' if is_entity(at.after) => EscapeStyle::As("&amp;"),
            '<' if at
                .after
                .starts_with(|c: char| c.is_ascii_alphabetic() || "!@#/".contains(c)) =>
            {
                EscapeStyle::BeforeJoiner
            }
            '@' if !at.before.is_alphanumeric() => EscapeStyle::BeforeJoiner,
            _ => EscapeStyle::AsItIs,
        },
    )
}

/// True if an `&` before this text would begin an HTML entity.
fn is_entity(after: &str) -> bool {
    let name = after.strip_prefix('#').unwrap_or(after);
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(name.len());
    end > 0 && name.get(end..).is_some_and(|rest| rest.starts_with(';'))
}

/// Rocket.Chat: a backslash before six marks only. Other marks are broken up by an invisible
/// character. It makes a link only of a URL whose host has a dot, or is `localhost`.
pub(super) fn escape_rocket_chat(text: &str) -> String {
    const MARKS: [char; 5] = ['*', '_', '~', '`', '#'];
    let links = LinkRule::After {
        after: "([",
        never_last: &[
            '.', ',', '!', '%', '~', '*', '"', '\'', ':', ';', '(', ')', '=',
        ],
    };
    let show = |url: &str| {
        let shown = url::without_mentions(url);
        if url::has_domain(url) {
            shown
        } else {
            MARKS.into_iter().fold(shown, |shown, mark| {
                shown.replace(mark, &format!("\\{mark}"))
            })
        }
    };
    escape_text(text, links, show, |at| match at.c {
        c if MARKS.contains(&c) => EscapeStyle::AfterBackslash,
        '.' if at.is_at_line_start && at.before.is_ascii_digit() => EscapeStyle::AfterBackslash,
        '-' | '+' | '>' if at.is_at_line_start => EscapeStyle::AfterJoiner,
        '(' if at.before == ']' => EscapeStyle::AfterJoiner,
        '|' | '$' if at.before == at.c => EscapeStyle::AfterJoiner,
        '<' => EscapeStyle::BeforeJoiner,
        '@' if !at.before.is_alphanumeric() => EscapeStyle::BeforeJoiner,
        _ => EscapeStyle::AsItIs,
    })
}

/// Slack where it parses no marks: three characters are written as entities, and mentions are
/// disarmed.
pub(super) fn escape_slack(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + text.len() / 8);
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let found = url::at_start(rest).filter(|_| !before.is_alphanumeric());
        let length = found.map_or(c.len_utf8(), str::len);
        match found {
            Some(found) => written.push_str(&url::without_mentions(found).replace('&', "&amp;")),
            None if c == '&' => written.push_str("&amp;"),
            None if c == '<' => written.push_str("&lt;"),
            None if c == '>' => written.push_str("&gt;"),
            None if c == '@' && !before.is_alphanumeric() => written.extend([c, WORD_JOINER]),
            None => written.push(c),
        }
        before = found
            .and_then(|found| found.chars().next_back())
            .unwrap_or(c);
        rest = rest.get(length..).unwrap_or_default();
    }
    written
}

/// Disarms mentions in a text that is shown unchanged.
pub fn disarm_mentions(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        written.push(c);
        if c == '@' && !before.is_alphanumeric() {
            written.push(WORD_JOINER);
        }
        before = c;
    }
    written
}

/// Zulip, which has no escapes: words with possible marks are in code spans, consecutive ones in
/// one span.
pub(super) fn escape_zulip(text: &str) -> String {
    text.split('\n')
        .map(escape_zulip_line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn escape_zulip_line(line: &str) -> String {
    let first = line.split(' ').position(|word| !word.is_empty());
    // These are marks only at the beginning of a line.
    let begins = |place: usize, word: &str| Some(place) == first && word.starts_with(['#', '>']);
    let words: Vec<_> = line
        .split(' ')
        .enumerate()
        .map(|(place, word)| (word, begins(place, word) || has_zulip_markup(word)))
        .collect();
    let spans = words
        .chunk_by(|(_, one), (_, next)| one == next)
        .map(|span| {
            let text = span
                .iter()
                .map(|(word, _)| *word)
                .collect::<Vec<_>>()
                .join(" ");
            if span.first().is_some_and(|(_, is_mark)| *is_mark) {
                code_span(&text)
            } else {
                text
            }
        });
    spans.collect::<Vec<_>>().join(" ")
}

/// True if a word contains a character that could begin or end a mark of Zulip.
fn has_zulip_markup(word: &str) -> bool {
    if is_link_of_zulip(word) {
        return false;
    }
    let is_emoji = || {
        word.split(':')
            .skip(1)
            .any(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
            && word.matches(':').count() > 1
    };
    let has_entity = || word.split('&').skip(1).any(is_entity);
    word.contains(['*', '`', '[', ']', '|', '<'])
        || word.contains("~~")
        || word.contains("$$")
        || word.starts_with('!')
        || has_entity()
        || is_emoji()
}

/// True if Zulip turns a word into a link before it parses most marks: a URL with a path, or with
/// nothing after its host, between punctuation. It must not contain the marks that Zulip parses
/// earlier.
fn is_link_of_zulip(word: &str) -> bool {
    const EARLIER: [&str; 5] = ["***", "@*", "@_", "#*", "$$"];
    let begin = word.trim_start_matches(['(', '\'', '"', ',', ':']);
    let Some(found) = url::at_start(begin) else {
        return false;
    };
    let after_scheme = found.splitn(3, '/').nth(2).unwrap_or_default();
    let has_path_first = !after_scheme
        .split('/')
        .next()
        .unwrap_or_default()
        .contains(['?', '#']);
    let is_end = |after: &str| after.chars().all(|c| "!:;?),.'\"".contains(c));
    has_path_first
        && begin.get(found.len()..).is_some_and(is_end)
        && !EARLIER.into_iter().any(|mark| found.contains(mark))
}

/// Code span with more backticks around it than in it.
fn code_span(text: &str) -> String {
    let marks = "`".repeat(super::dialect::longest_backtick_run(text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{marks}{blank}{text}{blank}{marks}")
}

/// Lines for a block between three backticks, for chats without longer fences: no three of them are
/// adjacent, and none ends a line.
pub(super) fn escape_code_block(text: &str) -> String {
    let mut block = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        block.push(c);
        if c == '`' && rest.peek().is_none_or(|next| matches!(next, '`' | '\n')) {
            block.push(WORD_JOINER);
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, and how it is escaped so that each chat shows exactly that.
    #[test]
    fn each_chat_shows_the_text_unchanged() {
        const J: &str = "\u{2060}";
        for (text, discord_, mattermost_, rocket_chat_, zulip_) in [
            (
                "R&D ~x a~b",
                "R&D \\~x a\\~b".to_owned(),
                "R&D \\~x a\\~b".to_owned(),
                "R&D \\~x a\\~b".to_owned(),
                "R&D ~x a~b".to_owned(),
            ),
            (
                "a &lt; b",
                "a &lt; b".into(),
                "a &amp;lt; b".into(),
                "a &lt; b".into(),
                "a `&lt;` b".into(),
            ),
            (
                "db_main",
                "db\\_main".into(),
                "db\\_main".into(),
                "db\\_main".into(),
                "db_main".into(),
            ),
            (
                "*n* x",
                "\\*n\\* x".into(),
                "\\*n\\* x".into(),
                "\\*n\\* x".into(),
                "`*n*` x".into(),
            ),
            (
                "“*/7 3-5 */2 * 1-5”, 1 minute",
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "`“*/7` 3-5 `*/2 *` 1-5”, 1 minute".into(),
            ),
            (
                "[x](http://evil)",
                "\\[x\\](http://evil)".into(),
                "\\[x\\](http://evil)".into(),
                format!("[x]{J}(http://evil)"),
                "`[x](http://evil)`".into(),
            ),
            (
                "<http://evil|x>",
                "\\<http://evil \\|x\\>".into(),
                format!("<{J}http://evil \\|x\\>"),
                format!("<{J}http://evil|x>"),
                "`<http://evil|x>`".into(),
            ),
            (
                "<!channel>",
                "\\<!channel\\>".into(),
                format!("<{J}!channel\\>"),
                format!("<{J}!channel>"),
                "`<!channel>`".into(),
            ),
            (
                "a\\b \\* ",
                "a\\\\b \\\\\\* ".into(),
                "a\\b \\\\\\* ".into(),
                "a\\b \\\\* ".into(),
                "a\\b `\\*` ".into(),
            ),
            (
                "@all a@b @**all**",
                "@all a@b @\\*\\*all\\*\\*".into(),
                format!("@{J}all a@b @{J}\\*\\*all\\*\\*"),
                format!("@{J}all a@b @{J}\\*\\*all\\*\\*"),
                "@all a@b `@**all**`".into(),
            ),
            (
                "# a\n> b\n- c\n1. d",
                "\\# a\n\\> b\n\\- c\n1\\. d".into(),
                "\\# a\n\\> b\n\\- c\n1\\. d".into(),
                format!("\\# a\n{J}> b\n{J}- c\n1\\. d"),
                "`#` a\n`>` b\n- c\n1. d".into(),
            ),
            (
                "a `b` ``",
                "a \\`b\\` \\`\\`".into(),
                "a \\`b\\` \\`\\`".into(),
                "a \\`b\\` \\`\\`".into(),
                "a ``` `b` `` ```".into(),
            ),
            (
                "||x|| $$y$$ ~~z~~",
                "\\|\\|x\\|\\| $$y$$ \\~\\~z\\~\\~".into(),
                "\\|\\|x\\|\\| $$y$$ \\~\\~z\\~\\~".into(),
                format!("|{J}|x|{J}| ${J}$y${J}$ \\~\\~z\\~\\~"),
                "`||x|| $$y$$ ~~z~~`".into(),
            ),
            (
                "at 03:30:15 :tada: x",
                "at 03:30:15 :tada: x".into(),
                "at 03:30:15 :tada: x".into(),
                "at 03:30:15 :tada: x".into(),
                "at 03:30:15 `:tada:` x".into(),
            ),
        ] {
            assert_eq!(escape_discord(text), discord_, "Discord: {text}");
            assert_eq!(escape_mattermost(text), mattermost_, "Mattermost: {text}");
            assert_eq!(
                escape_rocket_chat(text),
                rocket_chat_,
                "Rocket.Chat: {text}"
            );
            assert_eq!(escape_zulip(text), zulip_, "Zulip: {text}");
        }
    }

    #[test]
    fn no_line_ends_a_block_of_three_backticks() {
        for text in ["a\n```\n# b", "`````", "x`\ny``", "ssh root@host `date`"] {
            let block = escape_code_block(text);
            assert!(
                !block.contains("``") && !block.ends_with('`') && !block.contains("`\n"),
                "{block:?}"
            );
            assert_eq!(block.replace(WORD_JOINER, ""), text);
        }
    }
}
