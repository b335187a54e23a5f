//! Texts of a check, each a type whose `parse` refuses what is over its limit: see [limits](crate::docs::limits).
//!
//! What is stored may be over the limits of today: tags and descriptions had none once, and an import keeps what the other server took. So
//! it is read by `from_stored`, which refuses nothing.

/// Why a text was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// More characters (code points) than the field takes.
    TooLong,
    /// A character that the field does not take.
    InvalidCharacter,
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}

text! {
    /// A check's name: at most 100 characters.
    Name;
    /// A check's slug: at most 100 of a-z, 0-9, hyphen, underscore; empty when unset.
    Slug;
    /// A check's tags: one text, kept as sent, of words between spaces.
    Tags;
    /// A check's description.
    Description;
    /// A comma-separated keyword list, kept as sent: at most 200 characters.
    Keywords;
}

fn check_length(text: &str, limit: usize) -> Result<(), TextError> {
    // Code points, not bytes; no text of fewer bytes has more of them.
    if text.len() > limit && text.chars().count() > limit { Err(TextError::TooLong) } else { Ok(()) }
}

impl Name {
    /// Characters that it may have.
    pub const MAX_CHARS: usize = 100;

    /// Refuses more than 100 characters.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        check_length(text, Self::MAX_CHARS)?;
        Ok(Self(text.into()))
    }

    /// Takes a stored name, which may be over the limit of today.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// True if it is within the limit.
    pub fn is_within_limit(&self) -> bool {
        check_length(&self.0, Self::MAX_CHARS).is_ok()
    }
}

impl Slug {
    /// Characters that it may have.
    pub const MAX_CHARS: usize = 100;

    /// Refuses more than 100 characters and anything but a-z, 0-9, hyphen and underscore.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        check_length(text, Self::MAX_CHARS)?;
        let slug = Self(text.into());
        if slug.has_allowed_characters() { Ok(slug) } else { Err(TextError::InvalidCharacter) }
    }

    /// True if it has only characters that a ping URL may have: a-z, 0-9, hyphen and underscore.
    fn has_allowed_characters(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_')
    }

    /// True if a ping URL can name the check by it. One that was imported may be longer than [`parse`](Self::parse) takes.
    pub fn is_pingable(&self) -> bool {
        !self.is_empty() && self.has_allowed_characters()
    }

    /// Takes a stored slug, which may be over the limit of today or have capital letters.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// True if [`parse`](Self::parse) takes it.
    pub fn is_within_limit(&self) -> bool {
        Self::parse(&self.0).is_ok()
    }

    /// Whether the check has no slug.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The slug that versions 1 and 2 of the API derive from a name: accents dropped, lower case, everything but letters, digits,
    /// underscore, hyphen and white space dropped, runs of white space and hyphens made one hyphen, hyphens and underscores trimmed.
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

/// White space: Unicode's, and the separators U+001C to U+001F, which Healthchecks counts among it too.
pub(super) fn is_white_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

impl Tags {
    /// Characters that they may have together.
    pub const MAX_CHARS: usize = 500;
    /// Tags that there may be.
    pub const MAX_TAGS: usize = 64;

    /// Refuses more than 500 characters and more than 64 tags.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let tags = Self(text.into());
        if tags.is_within_limit() { Ok(tags) } else { Err(TextError::TooLong) }
    }

    /// Takes what is stored, which may be over the limits of today.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether they are within the limits.
    pub fn is_within_limit(&self) -> bool {
        check_length(&self.0, Self::MAX_CHARS).is_ok() && self.iter().count() <= Self::MAX_TAGS
    }

    /// The tags in their order: the parts between spaces, white space at their ends dropped, empty ones left out.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').map(|part| part.trim_matches(is_white_space)).filter(|tag| !tag.is_empty())
    }

    /// Whether `tag` is one of the tags (exact, case-sensitive). The empty text never is.
    pub fn contains(&self, tag: &str) -> bool {
        self.iter().any(|own| own == tag)
    }
}

impl Description {
    /// Characters that it may have.
    pub const MAX_CHARS: usize = 16_384;

    /// Refuses more than 16,384 characters.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        check_length(text, Self::MAX_CHARS)?;
        Ok(Self(text.into()))
    }

    /// Takes what is stored, which may be over the limit of today.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether it is within the limit.
    pub fn is_within_limit(&self) -> bool {
        check_length(&self.0, Self::MAX_CHARS).is_ok()
    }
}

impl Keywords {
    /// Characters that it may have.
    pub const MAX_CHARS: usize = 200;

    /// Refuses more than 200 characters.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        check_length(text, Self::MAX_CHARS)?;
        Ok(Self(text.into()))
    }

    /// Takes a stored list, which may be over the limit of today.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// True if it is within the limit.
    pub fn is_within_limit(&self) -> bool {
        check_length(&self.0, Self::MAX_CHARS).is_ok()
    }

    /// Whether the list has no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How often in a row a check has to fail until that is told: 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailureThreshold(u8);

impl FailureThreshold {
    /// The first failure is told.
    pub const ONE: Self = Self(1);

    /// Refuses numbers outside 1 to 100.
    pub fn parse(number: u64) -> Result<Self, &'static str> {
        match u8::try_from(number) {
            Ok(number @ 1..=100) => Ok(Self(number)),
            _ => Err("give a number of failures from 1 to 100"),
        }
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// A number of whole seconds between 60 and 31,536,000 (365 days): a period or a grace time: see [limits](crate::docs::limits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seconds(u32);

/// Why a number of seconds was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondsError {
    /// Under 60.
    TooSmall,
    /// Over 31,536,000.
    TooLarge,
}

impl Seconds {
    /// The least there may be.
    pub const MIN: i64 = 60;
    /// The most there may be: 365 days.
    pub const MAX: i64 = 31_536_000;
    /// One day: the period of a check that names none.
    pub const DAY: Self = Self(86_400);
    /// One hour: the grace time of a check that names none.
    pub const HOUR: Self = Self(3_600);

    /// Refuses numbers outside 60 to 31,536,000.
    pub fn parse(number: i64) -> Result<Self, SecondsError> {
        match number {
            ..Self::MIN => Err(SecondsError::TooSmall),
            number if number > Self::MAX => Err(SecondsError::TooLarge),
            // In range, so it fits.
            _ => Ok(Self(number as u32)),
        }
    }

    /// The nearest number that is in range.
    pub fn clamped(number: i64) -> Self {
        Self(number.clamp(Self::MIN, Self::MAX) as u32)
    }

    /// The number of seconds.
    pub const fn get(self) -> i64 {
        self.0 as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_characters() {
        let hundred = "ž".repeat(100);
        assert!(Name::parse(&hundred).is_ok());
        assert_eq!(Name::parse(&format!("{hundred}x")), Err(TextError::TooLong));
        assert_eq!(Keywords::parse(&"x".repeat(201)), Err(TextError::TooLong));
    }

    #[test]
    fn tags_and_descriptions_have_limits_that_stored_ones_may_exceed() {
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
            assert_eq!(parsed, if fits { Ok(Tags::from_stored(&tags)) } else { Err(TextError::TooLong) }, "{tags}");
            assert_eq!(Tags::from_stored(&tags).as_str(), tags);
        }
        let (longest, longer) = ("ž".repeat(16_384), "ž".repeat(16_385));
        assert_eq!(Description::parse(&longest), Ok(Description::from_stored(&longest)));
        assert_eq!(Description::parse(&longer), Err(TextError::TooLong));
        assert_eq!(Description::from_stored(&longer).as_str(), longer);
    }

    #[test]
    fn slugs_take_few_characters() {
        for good in ["", "a", "a-b_9"] {
            assert!(Slug::parse(good).is_ok(), "{good}");
        }
        for bad in ["A", "a b", "a\n", "ž", "a.b"] {
            assert_eq!(Slug::parse(bad), Err(TextError::InvalidCharacter), "{bad}");
        }
        assert_eq!(Slug::parse(&"A".repeat(101)), Err(TextError::TooLong));
        for (stored, is_pingable) in [("a-b_9", true), (&*"a".repeat(200), true), ("", false), ("BackUp", false), ("a b", false)] {
            assert_eq!(Slug::from_stored(stored).is_pingable(), is_pingable, "{stored}");
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
            assert_eq!(Slug::from_name(&Name::parse(name).unwrap()).as_str(), slug, "{name}");
        }
    }

    #[test]
    fn tags_are_words_between_spaces() {
        let tags = Tags::from_stored("  prod\t db  Ä-1 a\tb ");
        assert_eq!(tags.iter().collect::<Vec<_>>(), ["prod", "db", "Ä-1", "a\tb"]);
        assert!(tags.contains("db") && !tags.contains("DB") && !tags.contains(""));
    }

    #[test]
    fn seconds_have_bounds() {
        for (number, parsed) in [
            (59, Err(SecondsError::TooSmall)),
            (i64::MIN, Err(SecondsError::TooSmall)),
            (60, Ok(60)),
            (31_536_000, Ok(31_536_000)),
            (31_536_001, Err(SecondsError::TooLarge)),
            (i64::MAX, Err(SecondsError::TooLarge)),
        ] {
            assert_eq!(Seconds::parse(number).map(Seconds::get), parsed, "{number}");
        }
    }
}
