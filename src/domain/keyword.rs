//! What the text of a ping says about the job, where a check has keywords to tell.

use aho_corasick::AhoCorasick;

use super::check::Settings;
use super::flip::Cause;
use super::ping::Meaning;
use super::text::is_blank;

/// The keyword lists of a check: keywords between commas, in which white space at the ends and empty keywords do not count.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// `start_kw` of the API.
    pub start: &'a str,
    /// `success_kw` of the API.
    pub success: &'a str,
    /// `failure_kw` of the API.
    pub failure: &'a str,
    /// `filter_default_fail` of the API: a text without any keyword is a failure.
    pub default_fail: bool,
}

impl Rules<'_> {
    /// Searches the text for keywords as they are written, case and all: first those of failure, then of success, then of start.
    pub fn classify(&self, text: &str) -> Meaning {
        let occurs = |list: &str| occurs(list, text);
        if occurs(self.failure) {
            Meaning::Fail(Cause::Keyword)
        } else if occurs(self.success) {
            Meaning::Success
        } else if occurs(self.start) {
            Meaning::Start
        } else if self.default_fail {
            Meaning::Fail(Cause::NoKeyword)
        } else {
            Meaning::Ignored
        }
    }
}

/// Keywords of a list that are looked for one by one. More are looked for together, in one pass over the text.
const FEW: usize = 4;

fn occurs(list: &str, text: &str) -> bool {
    let keywords: Vec<_> = list.split(',').map(|keyword| keyword.trim_matches(is_blank)).filter(|keyword| !keyword.is_empty()).collect();
    let one_by_one = || keywords.iter().any(|keyword| text.contains(keyword));
    if keywords.len() <= FEW {
        return one_by_one();
    }
    // What cannot be made into one search, which is far longer than any list, is searched all the same.
    AhoCorasick::new(&keywords).map_or_else(|_| one_by_one(), |together| together.is_match(text))
}

impl Settings {
    /// What a text means to a check with these keywords.
    pub fn classify(&self, text: &str) -> Meaning {
        let rules = Rules {
            start: self.start_kw.as_str(),
            success: self.success_kw.as_str(),
            failure: self.failure_kw.as_str(),
            default_fail: self.filters.default_fail,
        };
        rules.classify(text)
    }

    /// What a mail means to a check with these settings.
    pub fn classify_mail(&self, subject: &str, text: &str) -> Meaning {
        match (self.filters.subject, self.filters.body) {
            (false, false) => Meaning::Success,
            (true, false) => self.classify(subject),
            (false, true) => self.classify(text),
            (true, true) => self.classify(&format!("{subject}\n{text}")),
        }
    }

    /// Whether texts mean the same to checks with these and with those settings.
    pub fn classifies_like(&self, other: &Self) -> bool {
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
    fn many_keywords_are_found_as_few_are() {
        let list = (0..60).map(|number| format!("k{number}")).collect::<Vec<_>>().join(" , ");
        assert!(list.split(',').count() > FEW);
        for (text, found) in [("", false), ("k", false), ("K7", false), ("xk7", true), ("k59", true), ("k 59 k60k61", true), ("k 9", false)]
        {
            assert_eq!(occurs(&list, text), found, "{text}");
        }
    }

    #[test]
    fn keywords_decide_failure_first_then_success_then_start() {
        use Meaning::{Ignored, Start, Success};
        const FAIL: Meaning = Meaning::Fail(Cause::Keyword);
        // Start, success and failure keywords, the text, and what it says unless no keyword means failure.
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
            let mut rules = Rules { start, success, failure, default_fail: false };
            assert_eq!(rules.classify(text), verdict, "{rules:?} {text}");
            rules.default_fail = true;
            assert_eq!(
                rules.classify(text),
                if verdict == Ignored { Meaning::Fail(Cause::NoKeyword) } else { verdict },
                "{rules:?} {text}"
            );
        }
    }
}
