//! Meaning of the text of a ping for a check with keywords.

use aho_corasick::AhoCorasick;

use super::check::CheckSettings;
use super::flip::FlipCause;
use super::ping::PingMeaning;
use super::text::is_white_space;

/// Keyword lists of a check. Keywords are separated by commas. White space at their ends and empty
/// keywords are ignored.
#[derive(Clone, Copy, Debug)]
pub struct KeywordRules<'a> {
    /// `start_kw` of the API.
    pub start: &'a str,
    /// `success_kw` of the API.
    pub success: &'a str,
    /// `failure_kw` of the API.
    pub failure: &'a str,
    /// `filter_default_fail` of the API: a text without any keyword is a failure.
    pub default_fail: bool,
}

impl KeywordRules<'_> {
    /// Searches the text for keywords, case-sensitively: first failure, then success, then start
    /// keywords.
    pub fn classify(&self, text: &str) -> PingMeaning {
        let occurs = |list: &str| contains_any_keyword(list, text);
        if occurs(self.failure) {
            PingMeaning::Fail(FlipCause::Keyword)
        } else if occurs(self.success) {
            PingMeaning::Success
        } else if occurs(self.start) {
            PingMeaning::Start
        } else if self.default_fail {
            PingMeaning::Fail(FlipCause::NoKeyword)
        } else {
            PingMeaning::Ignored
        }
    }
}

/// Number of keywords up to which they are searched one by one. More are searched together, in one
/// pass over the text.
const MAX_SEQUENTIAL_KEYWORDS: usize = 4;

fn contains_any_keyword(list: &str, text: &str) -> bool {
    let keywords: Vec<_> = list
        .split(',')
        .map(|keyword| keyword.trim_matches(is_white_space))
        .filter(|keyword| !keyword.is_empty())
        .collect();
    let one_by_one = || keywords.iter().any(|keyword| text.contains(keyword));
    if keywords.len() <= MAX_SEQUENTIAL_KEYWORDS {
        return one_by_one();
    }
    // Building one search fails only for lists far longer than allowed. Such a list is searched one
    // by one.
    AhoCorasick::new(&keywords).map_or_else(|_| one_by_one(), |together| together.is_match(text))
}

impl CheckSettings {
    /// Meaning of a text to a check with these keywords.
    pub fn classify(&self, text: &str) -> PingMeaning {
        let rules = KeywordRules {
            start: self.start_kw.as_str(),
            success: self.success_kw.as_str(),
            failure: self.failure_kw.as_str(),
            default_fail: self.filters.default_fail,
        };
        rules.classify(text)
    }

    /// Meaning of a mail to a check with these settings.
    pub fn classify_mail(&self, subject: &str, text: &str) -> PingMeaning {
        match (self.filters.subject, self.filters.body) {
            (false, false) => PingMeaning::Success,
            (true, false) => self.classify(subject),
            (false, true) => self.classify(text),
            (true, true) => self.classify(&format!("{subject}\n{text}")),
        }
    }

    /// True if texts mean the same to checks with these and with the other settings.
    pub fn classifies_same_as(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || self.filters == other.filters
                && self.start_kw == other.start_kw
                && self.success_kw == other.success_kw
                && self.failure_kw == other.failure_kw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keywords_match_like_few() {
        let list = (0..60)
            .map(|number| format!("k{number}"))
            .collect::<Vec<_>>()
            .join(" , ");
        assert!(list.split(',').count() > MAX_SEQUENTIAL_KEYWORDS);
        for (text, found) in [
            ("", false),
            ("k", false),
            ("K7", false),
            ("xk7", true),
            ("k59", true),
            ("k 59 k60k61", true),
            ("k 9", false),
        ] {
            assert_eq!(contains_any_keyword(&list, text), found, "{text}");
        }
    }

    #[test]
    fn keywords_decide_failure_first_then_success_then_start() {
        use PingMeaning::{Ignored, Start, Success};
        const FAIL: PingMeaning = PingMeaning::Fail(FlipCause::Keyword);
        // Start, success and failure keywords, the text, and its meaning unless no keyword means
        // failure.
        for (start, success, failure, text, verdict) in [
            ("A", "B", "C", "A B C", FAIL),
            ("A", "B", "C", "A B", Success),
            ("A", "B", "C", "xAx", Start),
            ("A", "B", "C", "", Ignored),
            ("A", "B", "C", "a b c", Ignored),
            ("", "ONE,TWO,THREE", "", "x THREE", Success),
            ("", " ONE\t,\u{a0}TWO ", "", "xTWOx", Success),
            ("", "\u{1f}", "", "\u{1f}", Ignored),
            ("", "a b", "", "a  b", Ignored),
            ("", "a b", "", "xa bx", Success),
            ("", "", "", "anything", Ignored),
            (",", ", ,", " ", "a, b", Ignored),
            ("", ",,x", "", "x", Success),
            ("", "", "[0-9]+|.*", "42", Ignored),
            ("", "", ".*", "a.*b", FAIL),
            ("", "é", "", "caf\u{e9}", Success),
            ("", "long keyword", "", "long", Ignored),
        ] {
            let mut rules = KeywordRules {
                start,
                success,
                failure,
                default_fail: false,
            };
            assert_eq!(rules.classify(text), verdict, "{rules:?} {text}");
            rules.default_fail = true;
            assert_eq!(
                rules.classify(text),
                if verdict == Ignored {
                    PingMeaning::Fail(FlipCause::NoKeyword)
                } else {
                    verdict
                },
                "{rules:?} {text}"
            );
        }
    }
}
