//! Finds addresses in a text that would let its reader ping a check, and masks them.

use std::borrow::Cow;

use uuid::Uuid;

use super::ids::parse_hyphenated_uuid;

/// Replacement for a masked part.
const MASK: &str = "***";
/// Minimum length of a ping key that is masked everywhere. A shorter key may be a word, so it is
/// masked in addresses only.
const MIN_MASKED_KEY_LENGTH: usize = 16;

/// Masks ping addresses in a text: `UUID@DOMAIN`, `KEY+SLUG@DOMAIN`, `/ping/UUID` and
/// `/ping/KEY/SLUG`. Also masks the UUID of the check and the ping keys `keys` of its project
/// anywhere.
pub fn mask_ping_addresses<'t>(text: &'t str, check_uuid: Uuid, keys: &[&str]) -> Cow<'t, str> {
    let mut masked = mask_words(text, keys);
    for key in keys
        .iter()
        .filter(|key| key.len() >= MIN_MASKED_KEY_LENGTH && masked.contains(**key))
        .collect::<Vec<_>>()
    {
        masked = Cow::Owned(masked.replace(*key, MASK));
    }
    match mask_uuid(&masked, check_uuid) {
        Some(masked) => Cow::Owned(masked),
        None => masked,
    }
}

/// Masks words that are keys or UUIDs in addresses.
fn mask_words<'t>(text: &'t str, keys: &[&str]) -> Cow<'t, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut start = 0;
    while let Some(found) = text
        .get(start..)
        .and_then(|rest| rest.find(is_key_character))
    {
        let begin = start + found;
        let rest = text.get(begin..).unwrap_or_default();
        let word = rest
            .get(..rest.find(|c| !is_key_character(c)).unwrap_or(rest.len()))
            .unwrap_or_default();
        let before = text.get(..begin).unwrap_or_default();
        let after = rest.get(word.len()..).unwrap_or_default();
        if is_ping_credential(before, word, after, keys) {
            out.push_str(text.get(copied..begin).unwrap_or_default());
            out.push_str(MASK);
            copied = begin + word.len();
        }
        start = begin + word.len();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// True if a word between these texts is the part of an address that makes it a ping address.
fn is_ping_credential(before: &str, word: &str, after: &str, keys: &[&str]) -> bool {
    let is_uuid = parse_hyphenated_uuid(word).is_some();
    let is_key = keys.contains(&word);
    let is_in_url = before.ends_with("/ping/");
    let is_mailbox = || {
        let slug = after
            .strip_prefix('+')
            .map(|rest| rest.trim_start_matches(is_key_character));
        slug.is_some_and(|rest| rest.starts_with('@'))
    };
    if is_uuid {
        return is_in_url || after.starts_with('@');
    }
    (is_key && is_in_url) || ((is_key || word.len() >= MIN_MASKED_KEY_LENGTH) && is_mailbox())
}

/// True for characters that keys, slugs and UUIDs may have.
fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Masks a UUID with and without hyphens, in either case; `None` if it does not occur.
fn mask_uuid(text: &str, uuid: Uuid) -> Option<String> {
    let hyphenated = uuid.hyphenated().to_string();
    let simple = uuid.simple().to_string();
    let mut masked = None::<String>;
    for spelling in [hyphenated, simple] {
        let text = masked.as_deref().unwrap_or(text);
        // Lower-casing ASCII changes no lengths.
        let lower = text.to_ascii_lowercase();
        if !lower.contains(&spelling) {
            continue;
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (at, _) in lower.match_indices(&spelling) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(MASK);
            copied = at + spelling.len();
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        masked = Some(out);
    }
    masked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    const OTHER: &str = "00000000-0000-0000-0000-000000000001";
    const KEY: &str = "z-CPuIu0ex210FaObYCzhL";

    fn shown(text: &str) -> String {
        mask_ping_addresses(text, Uuid::try_parse(UUID).unwrap(), &[KEY, "home"]).into_owned()
    }

    #[test]
    fn ping_addresses_are_masked_and_others_are_not() {
        let upper = UUID.to_uppercase();
        for (text, wanted) in [
            (
                format!("To: {KEY}+by-key@hc.test"),
                "To: ***+by-key@hc.test",
            ),
            (
                format!("To: <{UUID}@hc.test>, {OTHER}@hc.test"),
                "To: <***@hc.test>, ***@hc.test",
            ),
            (
                format!("{upper}@hc.test {OTHER}"),
                "***@hc.test 00000000-0000-0000-0000-000000000001",
            ),
            (
                format!("+ curl -fsS https://hc.test/ping/{OTHER}/fail"),
                "+ curl -fsS https://hc.test/ping/***/fail",
            ),
            (
                format!("https://hc.test/ping/{KEY}/slug /ping/home/slug"),
                "https://hc.test/ping/***/slug /ping/***/slug",
            ),
            (
                format!("id={UUID}%40hc.test x{UUID}x {}", UUID.replace('-', "")),
                "id=***%40hc.test x***x ***",
            ),
            (
                format!("key {KEY} %2F{KEY}%2Bslug"),
                "key *** %2F***%2Bslug",
            ),
            // A short key is an ordinary word outside addresses.
            (
                "home sweet home+a@hc.test".to_owned(),
                "home sweet ***+a@hc.test",
            ),
            // A key of another project, or a key that no longer exists.
            (
                "abcdefghijklmnopqrstuv+nightly-backup@hc.test".to_owned(),
                "***+nightly-backup@hc.test",
            ),
            (
                "john+backup@example.org, root@host, a-b_c".to_owned(),
                "john+backup@example.org, root@host, a-b_c",
            ),
            (
                format!("žluť {OTHER}.log"),
                "žluť 00000000-0000-0000-0000-000000000001.log",
            ),
            (String::new(), ""),
        ] {
            assert_eq!(shown(&text), wanted);
        }
    }

    proptest! {
        #[test]
        fn no_ping_address_remains(before in ".{0,20}", after in ".{0,20}", upper: bool) {
            let uuid = if upper { UUID.to_uppercase() } else { UUID.to_owned() };
            let text = format!("{before}{uuid}{after} {KEY} {before}{KEY}+x@y{after}");
            let left = shown(&text);
            prop_assert!(!left.to_ascii_lowercase().contains(UUID), "{left}");
            prop_assert!(!left.contains(KEY), "{left}");
        }
    }
}
