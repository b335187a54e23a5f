//! Texts in the settings of a check. `parse` of each type rejects values over its
//! limit: see [limits](crate::docs::limits).
//!
//! Stored texts may be over the present limits: tags and descriptions once had none, and an import
//! keeps the texts that the other server accepted. Stored texts are read by `from_stored`, which
//! rejects nothing.

use super::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, TextRules, ValueProblem,
};

/// Reason for which a text was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// The text has more characters (code points) than the field allows.
    TooLong,
    /// The text has a character that the field does not allow.
    InvalidCharacter,
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(Box<str>);

        impl $name {
            /// Text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Reads a stored text, which may break the rules of `parse`.
            pub fn from_stored(text: &str) -> Self {
                Self(text.into())
            }
        }
    )*};
}

/// Implements the parsing of texts with a maximum number of characters.
macro_rules! limited_text {
    ($($name:ident: $max:literal;)*) => {$(
        impl $name {
            /// Maximum number of characters.
            pub const MAX_CHARS: usize = $max;

            /// Rejects a longer text.
            pub fn parse(text: &str) -> Result<Self, TextError> {
                validate_length(text, Self::MAX_CHARS)?;
                Ok(Self(text.into()))
            }

            /// True if the text is within the limit.
            pub fn is_within_limit(&self) -> bool {
                validate_length(&self.0, Self::MAX_CHARS).is_ok()
            }
        }
    )*};
}

text! {
    /// Name of a check: at most 100 characters.
    Name;
    /// Slug of a check: at most 100 of a-z, 0-9, hyphen, underscore; empty if unset.
    Slug;
    /// Tags of a check: one text, stored as sent, of words between spaces.
    Tags;
    /// Description of a check.
    Description;
    /// Comma-separated list of keywords, stored as sent: at most 200 characters.
    Keywords;
}

fn validate_length(text: &str, limit: usize) -> Result<(), TextError> {
    // Limits count code points. A text has at least as many bytes.
    if text.len() > limit && text.chars().count() > limit {
        Err(TextError::TooLong)
    } else {
        Ok(())
    }
}

limited_text! {
    Name: 100;
    Description: 16_384;
    Keywords: 200;
}

impl Slug {
    /// Maximum number of characters.
    pub const MAX_CHARS: usize = 100;
    /// Rules that schemas show.
    pub const RULES: TextRules = TextRules {
        max_chars: Some(Self::MAX_CHARS),
        pattern: Some("^[a-z0-9_-]*$"),
    };

    /// Rejects more than 100 characters and characters other than a-z, 0-9, hyphen and underscore.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        validate_length(text, Self::MAX_CHARS)?;
        let slug = Self(text.into());
        if slug.has_allowed_characters() {
            Ok(slug)
        } else {
            Err(TextError::InvalidCharacter)
        }
    }

    /// True if it has only characters that a ping URL allows: a-z, 0-9, hyphen and underscore.
    fn has_allowed_characters(&self) -> bool {
        self.0.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
        })
    }

    /// True if a ping URL can name the check by this slug. An imported slug may be longer than
    /// [`parse`](Self::parse) accepts.
    pub fn is_pingable(&self) -> bool {
        !self.is_empty() && self.has_allowed_characters()
    }

    /// True if [`parse`](Self::parse) accepts the slug.
    pub fn is_within_limit(&self) -> bool {
        Self::parse(&self.0).is_ok()
    }

    /// True if the check has no slug.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Derives a slug from a name, as versions 1 and 2 of the API do: accents dropped; lower case;
    /// everything but letters, digits, underscore, hyphen and white space dropped; runs of white
    /// space and hyphens replaced by one hyphen; hyphens and underscores trimmed.
    pub fn from_name(name: &Name) -> Self {
        use unicode_normalization::UnicodeNormalization as _;
        let mut slug = String::with_capacity(name.0.len());
        for c in name.0.nfkd().filter(char::is_ascii) {
            match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '_') => slug.push(c),
                c if (c == '-' || is_white_space(c)) && !slug.ends_with('-') => slug.push('-'),
                _ => {}
            }
        }
        // A name has at most 100 characters, but one character may decompose into several.
        let slug: String = slug.trim_matches(['-', '_']).chars().take(100).collect();
        Self(slug.into())
    }
}

/// True for white space: that of Unicode, and the separators U+001C to U+001F, which Healthchecks
/// counts too.
pub(super) fn is_white_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// True for invisible characters that hide or reverse text: direction marks, zero-width characters,
/// invisible line ends, tags.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// True if the text has a character that can be seen.
pub fn is_visible(text: &str) -> bool {
    // U+2800 is an empty Braille pattern.
    let is_blank =
        |c: char| is_white_space(c) || c.is_control() || is_invisible(c) || c == '\u{2800}';
    !text.chars().all(is_blank)
}

impl Tags {
    /// Maximum number of characters of all tags together.
    pub const MAX_CHARS: usize = 500;
    /// Maximum number of tags.
    pub const MAX_TAGS: usize = 64;

    /// Rejects more than 500 characters and more than 64 tags.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let tags = Self(text.into());
        if tags.is_within_limit() {
            Ok(tags)
        } else {
            Err(TextError::TooLong)
        }
    }

    /// True if the tags are within the limits.
    pub fn is_within_limit(&self) -> bool {
        validate_length(&self.0, Self::MAX_CHARS).is_ok() && self.iter().count() <= Self::MAX_TAGS
    }

    /// Tags in their order: the parts between spaces, with white space at their ends dropped, and
    /// empty ones left out.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0
            .split(' ')
            .map(|part| part.trim_matches(is_white_space))
            .filter(|tag| !tag.is_empty())
    }

    /// True if `tag` is one of the tags (exact, case-sensitive). Always false for the empty text.
    pub fn contains(&self, tag: &str) -> bool {
        self.iter().any(|item| item == tag)
    }
}

/// Implements the form of each type: with its maximum, the explanation of a text over it, and that
/// of a text with another character than the type allows.
macro_rules! text_value {
    ($($name:ident: $form:expr, $length:expr;)*) => {$(
        impl EditValue for $name {
            const FORM: CheckFieldType = $form;

            fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
                Self::parse(Self::text_of(value)?).map_err(|error| match error {
                    TextError::TooLong => InvalidValue::new(ValueProblem::TooLong, $length),
                    TextError::InvalidCharacter => {
                        InvalidValue::new(ValueProblem::InvalidCharacter, SLUG_CHARACTERS)
                    }
                })
            }

            fn from_stored(text: &str) -> Option<Self> {
                Some(Self::from_stored(text))
            }

            fn value(&self) -> CheckFieldValue<'_> {
                self.as_str().into()
            }
        }
    )*};
}

/// Characters of a slug, for people.
const SLUG_CHARACTERS: &str = "use only a to z, 0 to 9, hyphens and underscores";

text_value! {
    Name: CheckFieldType::Text(TextRules::limited(Self::MAX_CHARS)),
        format!("give at most {} characters", Self::MAX_CHARS);
    Slug: CheckFieldType::Text(Slug::RULES),
        format!("give at most {} characters", Self::MAX_CHARS);
    Tags: CheckFieldType::Words { separator: " ", max_chars: Self::MAX_CHARS },
        format!(
            "give at most {} characters and at most {} tags",
            Self::MAX_CHARS,
            Self::MAX_TAGS
        );
    Description: CheckFieldType::Text(TextRules::limited(Self::MAX_CHARS)),
        format!("give at most {} characters", Self::MAX_CHARS);
    Keywords: CheckFieldType::Words { separator: ",", max_chars: Self::MAX_CHARS },
        format!("give at most {} characters", Self::MAX_CHARS);
}

impl Keywords {
    /// True if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// True if the text is a host name (RFC 1123, section 2.1). Underscores are allowed, since names in
/// internal networks have them.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_invisible_characters_are_not_visible() {
        for text in [
            "",
            " ",
            "\u{3000}\t",
            "\u{200b}\u{feff}",
            "\u{2800}",
            "\u{202e}",
        ] {
            assert!(!is_visible(text), "{text:?}");
        }
        for text in ["a", " \u{200b}.", "漢"] {
            assert!(is_visible(text), "{text:?}");
        }
    }

    #[test]
    fn a_host_name_has_at_most_253_characters_in_labels_of_at_most_63() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        for (name, is_host) in [
            (longest.as_str(), true),
            (&format!("{longest}b"), false),
            (&label, true),
            (&format!("{label}a"), false),
            ("a..b", false),
            ("-a", false),
            ("a-", false),
        ] {
            assert_eq!(is_host_name(name), is_host, "{name}");
        }
    }

    #[test]
    fn lengths_count_characters() {
        let hundred = "ž".repeat(100);
        assert!(Name::parse(&hundred).is_ok());
        assert_eq!(Name::parse(&format!("{hundred}x")), Err(TextError::TooLong));
        assert_eq!(Keywords::parse(&"x".repeat(201)), Err(TextError::TooLong));
    }

    #[test]
    fn stored_tags_and_descriptions_may_exceed_the_limits() {
        for (tags, fits) in [
            ("ž".repeat(500), true),
            ("ž".repeat(501), false),
            (" ".repeat(500), true),
            (" ".repeat(501), false),
            ("a ".repeat(64), true),
            ("a ".repeat(65), false),
            (format!("{}\t", "a  ".repeat(64)), true),
        ] {
            let parsed = Tags::parse(&tags);
            assert_eq!(
                parsed,
                if fits {
                    Ok(Tags::from_stored(&tags))
                } else {
                    Err(TextError::TooLong)
                },
                "{tags}"
            );
            assert_eq!(Tags::from_stored(&tags).as_str(), tags);
        }
        let longest = "ž".repeat(16_384);
        let longer = "ž".repeat(16_385);
        assert_eq!(
            Description::parse(&longest),
            Ok(Description::from_stored(&longest))
        );
        assert_eq!(Description::parse(&longer), Err(TextError::TooLong));
        assert_eq!(Description::from_stored(&longer).as_str(), longer);
    }

    #[test]
    fn slugs_allow_few_characters() {
        for good in ["", "a", "a-b_9"] {
            assert!(Slug::parse(good).is_ok(), "{good}");
        }
        for bad in ["A", "a b", "a\n", "ž", "a.b"] {
            assert_eq!(Slug::parse(bad), Err(TextError::InvalidCharacter), "{bad}");
        }
        assert_eq!(Slug::parse(&"A".repeat(101)), Err(TextError::TooLong));
        for (stored, is_pingable) in [
            ("a-b_9", true),
            (&*"a".repeat(200), true),
            ("", false),
            ("BackUp", false),
            ("a b", false),
        ] {
            assert_eq!(
                Slug::from_stored(stored).is_pingable(),
                is_pingable,
                "{stored}"
            );
        }
    }

    #[test]
    fn slugs_derive_from_names() {
        for (name, slug) in [
            ("Nightly  Backup!", "nightly-backup"),
            ("Žofie Ünder_score", "zofie-under_score"),
            ("--_a - b_--", "a-b"),
            ("ﬁne ½", "fine-12"),
            ("☎", ""),
            ("a\u{a0}b", "a-b"),
        ] {
            assert_eq!(
                Slug::from_name(&Name::parse(name).unwrap()).as_str(),
                slug,
                "{name}"
            );
        }
    }

    #[test]
    fn tags_are_words_between_spaces() {
        let tags = Tags::from_stored("  prod\t db  Ä-1 a\tb ");
        assert_eq!(
            tags.iter().collect::<Vec<_>>(),
            ["prod", "db", "Ä-1", "a\tb"]
        );
        assert!(tags.contains("db") && !tags.contains("DB") && !tags.contains(""));
    }
}
