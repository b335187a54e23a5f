//! URLs in a text, which chats turn into links.

/// Characters in the path of a URL, besides letters, digits and parentheses.
const PATH_CHARACTERS: &str = "-._~:/?#@!$&'*+,;=%";
/// Characters at the end of a URL that belong to the sentence around it.
const TRAILING_PUNCTUATION: [char; 10] = ['.', ',', ';', ':', '!', '?', '\'', '*', '_', '~'];
/// Upper bound for the length of an HTML entity in bytes, such as
/// `&CounterClockwiseContourIntegral;`.
const LONGEST_ENTITY: usize = 40;

/// Returns the `http` or `https` URL at the beginning of a text. Chats that turn URLs into links
/// include at least this part. Its host name is complete, parentheses are in pairs, and it contains
/// no bracket, backtick or user name.
pub(super) fn at_start(text: &str) -> Option<&str> {
    let after_scheme = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let host = authority(after_scheme)?;
    let begin = text.len() - after_scheme.len() + host.len();
    let rest = text.get(begin..)?;
    if !rest.starts_with(['/', '?', '#']) {
        return text.get(..begin);
    }
    let mut url = text
        .get(..begin + path_length(rest))?
        .trim_end_matches(TRAILING_PUNCTUATION);
    // Entities at the end also belong to the sentence.
    while text
        .get(url.len()..)
        .is_some_and(|after| after.starts_with(';'))
        && let Some(before) = begin_of_entity(url)
    {
        url = before.trim_end_matches(TRAILING_PUNCTUATION);
    }
    // Only such characters came after the host.
    text.get(..url.len().max(begin))
}

/// Length in bytes of `http:` or `https:`, in any case, at the beginning of a text if two slashes
/// follow; otherwise 0.
pub(super) fn scheme_length(text: &str) -> usize {
    let begins = |scheme: &&str| {
        text.get(..scheme.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    ["http://", "https://"]
        .iter()
        .find(|scheme| begins(scheme))
        .map_or(0, |scheme| scheme.len() - 2)
}

/// Host and port at the beginning of a text. `None`: it begins with another part, such as a user
/// name.
fn authority(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_' | ':'))
        .unwrap_or(text.len());
    let (found, rest) = text.split_at_checked(end)?;
    let found = found.trim_end_matches(['.', '-', '_', ':']);
    let (host, port) = found.split_once(':').unwrap_or((found, "0"));
    let is_name = host.starts_with(char::is_alphanumeric)
        && host.ends_with(char::is_alphanumeric)
        && !host.contains("..");
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_name && is_port && !rest.starts_with(['@', '%'])).then_some(found)
}

/// True if the host of a URL has a dot or is `localhost`.
pub(super) fn has_domain(url: &str) -> bool {
    let host = url
        .splitn(3, '/')
        .nth(2)
        .and_then(|after_scheme| after_scheme.split([':', '/', '?', '#']).next());
    host.is_some_and(|host| host == "localhost" || host.contains('.'))
}

/// Length in bytes of the path, query and fragment at the beginning of a text.
fn path_length(text: &str) -> usize {
    let is_in_path = |c: char| c.is_alphanumeric() || PATH_CHARACTERS.contains(c);
    let mut length = 0;
    let mut before = '/';
    while let Some(rest) = text.get(length..) {
        let Some(c) = rest.chars().next() else { break };
        let taken = match c {
            '(' if !matches!(before, '!' | ';' | ':' | '\'' | ',' | '?') => {
                let inside = rest.get(1..).unwrap_or_default();
                let end = inside
                    .find(|c| !is_in_path(c))
                    .filter(|end| inside.get(*end..).is_some_and(|end| end.starts_with(')')));
                end.map(|end| end + 2)
            }
            c => is_in_path(c).then_some(c.len_utf8()),
        };
        let Some(taken) = taken else { break };
        length += taken;
        before = if c == '(' { ')' } else { c };
    }
    length
}

/// Returns the text before a final `&name`, which a semicolon would turn into an HTML entity.
fn begin_of_entity(text: &str) -> Option<&str> {
    let (_, end) =
        text.split_at_checked(text.ceil_char_boundary(text.len().saturating_sub(LONGEST_ENTITY)))?;
    let (_, name) = end.rsplit_once('&')?;
    let name_only = name.strip_prefix('#').unwrap_or(name);
    let is_name =
        !name_only.is_empty() && name_only.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.get(..text.len() - name.len() - 1).filter(|_| is_name)
}

/// URL without mentions: an `@` that could be one becomes `%40`, which leads to the same resource.
pub(super) fn without_mentions(url: &str) -> String {
    let mut written = String::with_capacity(url.len());
    let mut before = ' ';
    for c in url.chars() {
        match c {
            '@' if !before.is_alphanumeric() => written.push_str("%40"),
            c => written.push(c),
        }
        before = c;
    }
    written
}

/// URL without marks that end emphasis in CommonMark and without entities, for readers that do not
/// turn it into a link. Such characters are percent-encoded.
pub(super) fn without_marks(url: &str) -> String {
    let mut written = String::with_capacity(url.len());
    let mut before = ' ';
    let mut rest = url;
    while let Some(mark) = rest.chars().next() {
        let length = rest.len() - rest.trim_start_matches(mark).len();
        let (run, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        // Its neighbors decide if a run of marks is right-flanking, and so ends emphasis
        // (CommonMark 0.31, section 6.2).
        let is_followed_by_mark = !after.starts_with(char::is_alphanumeric);
        let code = match mark {
            '_' if is_followed_by_mark => Some("%5F"),
            '*' if is_followed_by_mark || before.is_alphanumeric() => Some("%2A"),
            '~' if is_followed_by_mark || before.is_alphanumeric() => Some("%7E"),
            ';' if url
                .get(..url.len() - rest.len())
                .and_then(begin_of_entity)
                .is_some() =>
            {
                Some("%3B")
            }
            _ => None,
        };
        match code {
            Some(code) => written.push_str(&code.repeat(length)),
            None => written.push_str(run),
        }
        // A code ends with a letter, which a reader that does not turn the URL into a link sees.
        before = written.chars().next_back().unwrap_or(before);
        rest = after;
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_ends_before_the_punctuation_of_its_sentence() {
        for (text, url) in [
            ("https://x/run_1_a", Some("https://x/run_1_a")),
            (
                "http://x.example:8080/a?b=*c*&d=~e#f_g rest",
                Some("http://x.example:8080/a?b=*c*&d=~e#f_g"),
            ),
            ("https://x.example, and", Some("https://x.example")),
            ("https://x.example/a_b).", Some("https://x.example/a_b")),
            (
                "https://x.example/A_(b)_c",
                Some("https://x.example/A_(b)_c"),
            ),
            ("https://x.example/A_(b", Some("https://x.example/A")),
            ("https://x.example/a?(b)", Some("https://x.example/a")),
            ("https://x.example/a**", Some("https://x.example/a")),
            ("https://x.example/a&lt;", Some("https://x.example/a")),
            (
                "https://x.example/a&lt;.&#60;!",
                Some("https://x.example/a"),
            ),
            (
                "https://x.example/a?b&lt;c",
                Some("https://x.example/a?b&lt;c"),
            ),
            ("https://x.example/_", Some("https://x.example/")),
            ("https://x.example?", Some("https://x.example")),
            ("https://x.example/ž_ů”", Some("https://x.example/ž_ů")),
            ("https://x/a](https://y)", Some("https://x/a")),
            ("https://x/a|b", Some("https://x/a")),
            ("https://x/a`b`", Some("https://x/a")),
            ("https://x/a<b>", Some("https://x/a")),
            ("https://x/a\nb", Some("https://x/a")),
            ("https://user:password@x/", None),
            ("https://user@x/", None),
            ("https://my_host/", Some("https://my_host/")),
            ("https://_host/", None),
            ("https://[::1]/", None),
            ("https://x:y/", None),
            ("https://", None),
            ("HTTPS://x/", None),
            ("ftp://x/", None),
        ] {
            assert_eq!(at_start(text), url, "{text}");
        }
    }

    #[test]
    fn an_encoded_url_has_the_same_target() {
        assert_eq!(
            without_mentions("https://x/@all/a@b"),
            "https://x/%40all/a@b"
        );
        for (url, written) in [
            (
                "https://x/run_1_a/~me/_next/*a",
                "https://x/run_1_a/~me/_next/*a",
            ),
            ("https://x/__init__.py", "https://x/__init%5F%5F.py"),
            ("https://x/a*b", "https://x/a%2Ab"),
            ("https://x/a~b/~/*/c", "https://x/a%7Eb/%7E/%2A/c"),
            ("https://x/a?b&lt;c;d", "https://x/a?b&lt%3Bc;d"),
            ("https://x/~~a~~/b", "https://x/~~a%7E%7E/b"),
        ] {
            assert_eq!(without_marks(url), written, "{url}");
        }
    }
}
