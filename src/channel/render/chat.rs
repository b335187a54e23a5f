//! Text as chats show it unchanged, each by what it reads: not every backslash is an escape there.

use super::dialect::WORD_JOINER;

/// Zero or more characters of a line that lead to its text: blanks and the digits of a numbered list.
fn leads(leads: bool, c: char) -> bool {
    c == '\n' || (leads && (c == ' ' || c.is_ascii_digit()))
}

/// Discord: a backslash before any punctuation. Mentions are off by `allowed_mentions`.
pub(super) fn discord(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    let mut leading = true;
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '#' => escaped.extend(['\\', c]),
            '+' | '-' | '.' if leading => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
        leading = leads(leading, c);
    }
    escaped
}

/// Mattermost: a backslash before some marks. `\&`, `\<` and `\\` show their backslash. Links and mentions in the form of Slack
/// (`<http://…|text>`, `<!channel>`) are read as well.
pub(super) fn mattermost(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    let (mut leading, mut before) = (true, ' ');
    for (at, c) in text.char_indices() {
        let after = || text.get(at + c.len_utf8()..).unwrap_or_default();
        match c {
            '`' | '*' | '_' | '[' | ']' | '~' | '|' | '#' | '>' => escaped.extend(['\\', c]),
            '+' | '-' | '.' | ')' if leading => escaped.extend(['\\', c]),
            '=' if leading => escaped.extend([WORD_JOINER, c]),
            '&' if is_entity(after()) => escaped.push_str("&amp;"),
            '<' if after().starts_with(|c: char| c.is_ascii_alphabetic() || "!@#/".contains(c)) => escaped.extend([c, WORD_JOINER]),
            '@' if !before.is_alphanumeric() => escaped.extend([c, WORD_JOINER]),
            c => escaped.push(c),
        }
        (leading, before) = (leads(leading, c), c);
    }
    escaped
}

/// True if an `&` before this text would begin an entity of HTML.
fn is_entity(after: &str) -> bool {
    let name = after.strip_prefix('#').unwrap_or(after);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
    end > 0 && name.get(end..).is_some_and(|rest| rest.starts_with(';'))
}

/// Rocket.Chat: a backslash before six marks alone. What it would read otherwise is divided by a character that shows nothing.
pub(super) fn rocket_chat(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    let (mut leading, mut before) = (true, '\n');
    for c in text.chars() {
        match c {
            '*' | '_' | '~' | '`' | '#' => escaped.extend(['\\', c]),
            '.' if leading && before.is_ascii_digit() => escaped.extend(['\\', c]),
            '-' | '+' | '>' if leading => escaped.extend([WORD_JOINER, c]),
            '(' if before == ']' => escaped.extend([WORD_JOINER, c]),
            '|' | '$' if before == c => escaped.extend([WORD_JOINER, c]),
            '<' => escaped.extend([c, WORD_JOINER]),
            '@' if !before.is_alphanumeric() => escaped.extend([c, WORD_JOINER]),
            c => escaped.push(c),
        }
        (leading, before) = (leads(leading, c), c);
    }
    escaped
}

/// Text that is shown as it is but could call people.
pub fn without_mentions(text: &str) -> String {
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

/// Zulip, which knows no escapes: what it would read as marks stands in a span of code, from the first such word of a line to the last.
pub(super) fn zulip(text: &str) -> String {
    text.split('\n').map(zulip_line).collect::<Vec<_>>().join("\n")
}

fn zulip_line(line: &str) -> String {
    let marked = |word: &&str| is_mark_of_zulip(word);
    let words = || line.split(' ');
    let (Some(first), Some(last)) = (words().position(|word| marked(&word)), words().rev().position(|word| marked(&word))) else {
        // These are marks at the beginning of a line alone.
        let begins = line.trim_start().starts_with(['#', '>']);
        return if begins { code_span(line) } else { line.to_owned() };
    };
    let words: Vec<_> = words().collect();
    let end = words.len() - last;
    let part = |from: usize, to: usize| words.get(from..to).unwrap_or_default().join(" ");
    let (before, after) = (if first > 0 { part(0, first) + " " } else { String::new() }, part(end, words.len()));
    let blank = if end < words.len() { " " } else { "" };
    format!("{before}{}{blank}{after}", code_span(&part(first, end)))
}

/// True if a word has what could begin or end a mark of Zulip.
fn is_mark_of_zulip(word: &str) -> bool {
    let is_emoji =
        || word.split(':').skip(1).any(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) && word.matches(':').count() > 1;
    word.contains(['*', '`', '~', '[', ']', '|', '<', '&']) || word.contains("$$") || word.starts_with("!") || is_emoji()
}

/// A span of code with more backticks around it than stand in it.
fn code_span(text: &str) -> String {
    let marks = "`".repeat(super::dialect::longest_run(text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{marks}{blank}{text}{blank}{marks}")
}

/// Lines for a block between three backticks, where a longer fence is unknown: no three of them stand together, and none ends a line.
pub(super) fn block(text: &str) -> String {
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

    /// What stands in a text, and what is written so that each chat shows just that.
    #[test]
    fn each_chat_shows_what_was_written() {
        const J: &str = "\u{2060}";
        for (text, discord_, mattermost_, rocket_chat_, zulip_) in [
            ("R&D", "R&D".to_owned(), "R&D".to_owned(), "R&D".to_owned(), "`R&D`".to_owned()),
            ("a &lt; b", "a &lt; b".into(), "a &amp;lt; b".into(), "a &lt; b".into(), "a `&lt;` b".into()),
            ("db_main", "db\\_main".into(), "db\\_main".into(), "db\\_main".into(), "db_main".into()),
            ("*n* x", "\\*n\\* x".into(), "\\*n\\* x".into(), "\\*n\\* x".into(), "`*n*` x".into()),
            (
                "“*/7 3-5 */2 * 1-5”, 1 minute",
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "“\\*/7 3-5 \\*/2 \\* 1-5”, 1 minute".into(),
                "`“*/7 3-5 */2 *` 1-5”, 1 minute".into(),
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
                "\\<http://evil\\|x\\>".into(),
                format!("<{J}http://evil\\|x\\>"),
                format!("<{J}http://evil|x>"),
                "`<http://evil|x>`".into(),
            ),
            ("<!channel>", "\\<!channel\\>".into(), format!("<{J}!channel\\>"), format!("<{J}!channel>"), "`<!channel>`".into()),
            ("a\\b \\* ", "a\\\\b \\\\\\* ".into(), "a\\b \\\\* ".into(), "a\\b \\\\* ".into(), "a\\b `\\*` ".into()),
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
                "`# a`\n`> b`\n- c\n1. d".into(),
            ),
            ("a `b` ``", "a \\`b\\` \\`\\`".into(), "a \\`b\\` \\`\\`".into(), "a \\`b\\` \\`\\`".into(), "a ``` `b` `` ```".into()),
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
            assert_eq!(discord(text), discord_, "Discord: {text}");
            assert_eq!(mattermost(text), mattermost_, "Mattermost: {text}");
            assert_eq!(rocket_chat(text), rocket_chat_, "Rocket.Chat: {text}");
            assert_eq!(zulip(text), zulip_, "Zulip: {text}");
        }
    }

    #[test]
    fn no_line_ends_a_block_of_three_backticks() {
        for text in ["a\n```\n# b", "`````", "x`\ny``", "ssh root@host `date`"] {
            let block = block(text);
            assert!(!block.contains("``") && !block.ends_with('`') && !block.contains("`\n"), "{block:?}");
            assert_eq!(block.replace(WORD_JOINER, ""), text);
        }
    }
}
