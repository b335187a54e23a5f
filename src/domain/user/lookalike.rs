//! Detects names that look like other names (Unicode Technical Standard 39). A proxy may report
//! such a name. No user is created for it automatically.

use std::fmt;

use unicode_normalization::is_nfc;
use unicode_security::{
    GeneralSecurityProfile as _, RestrictionLevel, RestrictionLevelDetection as _,
};

use super::{UserName, fold_case};

/// Reason for which a name could be mistaken for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookalikeReason {
    /// The name has this character, which is invisible, unassigned, or not allowed in names.
    DisallowedCharacter(char),
    /// The name is not normalised (NFC): another sequence of characters looks the same.
    NotNormalised,
    /// The name mixes letters of scripts that are not written together, such as Latin and Cyrillic
    /// ones.
    MixedScripts,
}

impl fmt::Display for LookalikeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisallowedCharacter(c) => write!(
                f,
                "it contains the character U+{:04X}, which is not allowed in names",
                u32::from(*c)
            ),
            Self::NotNormalised => f.write_str("it is not in the Unicode normalization form NFC"),
            Self::MixedScripts => f.write_str("it mixes letters of several scripts"),
        }
    }
}

impl UserName {
    /// Returns the reason for which the name could be mistaken for another one. All names in
    /// printable ASCII are allowed. Other characters are allowed if the standard allows them in
    /// identifiers.
    pub fn lookalike_reason(&self) -> Option<LookalikeReason> {
        let is_allowed = |c: char| {
            if c.is_ascii() {
                !c.is_ascii_control()
            } else {
                c.identifier_allowed()
            }
        };
        if let Some(disallowed) = self.0.chars().find(|c| !is_allowed(*c)) {
            return Some(LookalikeReason::DisallowedCharacter(disallowed));
        }
        if !is_nfc(&self.0) {
            return Some(LookalikeReason::NotNormalised);
        }
        // Characters such as @ and + belong to every script.
        let letters: String = self
            .0
            .chars()
            .filter(|c| !c.is_ascii() || c.is_ascii_alphanumeric())
            .collect();
        (!letters.check_restriction_level(RestrictionLevel::HighlyRestrictive))
            .then_some(LookalikeReason::MixedScripts)
    }

    /// True if the name could be read as one of the others, regardless of case.
    pub fn looks_like_any<'n>(&self, others: impl IntoIterator<Item = &'n Self>) -> bool {
        let skeletons = self.skeletons();
        others.into_iter().any(|other| {
            other
                .skeletons()
                .iter()
                .any(|skeleton| skeletons.contains(skeleton))
        })
    }

    /// Returns values that are equal for names that look the same: the skeleton of the case-folded
    /// name, and that of the name as written. A capital I looks like a small L, which case folding
    /// hides.
    fn skeletons(&self) -> [String; 2] {
        let skeleton = |text: &str| unicode_security::skeleton(text).collect::<String>();
        [
            skeleton(&self.case_folded()),
            skeleton(&fold_case(&skeleton(&self.0))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    #[test]
    fn deceptive_names_are_found() {
        for (text, wanted) in [
            ("ann", None),
            ("ann.smith+x@example.org", None),
            ("DOMAIN\\ann", None),
            ("Žofie Nováková", None),
            ("анна@example.org", Some(LookalikeReason::MixedScripts)),
            ("анна", None),
            ("李小龍 Lee", None),
            ("\u{0430}nn", Some(LookalikeReason::MixedScripts)),
            (
                "ann\u{200b}",
                Some(LookalikeReason::DisallowedCharacter('\u{200b}')),
            ),
            (
                "\u{202e}nna",
                Some(LookalikeReason::DisallowedCharacter('\u{202e}')),
            ),
            (
                "a\u{ad}nn",
                Some(LookalikeReason::DisallowedCharacter('\u{ad}')),
            ),
            (
                "ann\u{e000}",
                Some(LookalikeReason::DisallowedCharacter('\u{e000}')),
            ),
            (
                "ann\u{378}",
                Some(LookalikeReason::DisallowedCharacter('\u{378}')),
            ),
            (
                "ann\u{e0041}",
                Some(LookalikeReason::DisallowedCharacter('\u{e0041}')),
            ),
            (
                "ann\u{fe0f}",
                Some(LookalikeReason::DisallowedCharacter('\u{fe0f}')),
            ),
            ("z\u{30c}ofie", Some(LookalikeReason::NotNormalised)),
            ("ａnn", Some(LookalikeReason::DisallowedCharacter('ａ'))),
        ] {
            assert_eq!(name(text).lookalike_reason(), wanted, "{text:?}");
        }
    }

    #[test]
    fn names_that_look_the_same_are_found() {
        for (one, other) in [
            ("ann", "аnn"),
            ("scope", "ѕсоре"),
            ("ANN", "ann"),
            ("userl", "user1"),
            ("sam", "sarn"),
            ("biII", "bill"),
            ("BiII", "bill"),
            ("Iars", "lars"),
            ("Iars", "LARS"),
            ("ΡΑUL", "paul"),
            ("0tto", "Otto"),
            ("WiIIiam", "wilIiarn"),
        ] {
            assert!(
                name(one).looks_like_any([&name(other)])
                    && name(other).looks_like_any([&name(one)]),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("ann", "anne"),
            ("bill", "bil"),
            ("ian", "lan"),
            ("mia", "mla"),
        ] {
            assert!(!name(one).looks_like_any([&name(other)]), "{one} {other}");
        }
    }
}
