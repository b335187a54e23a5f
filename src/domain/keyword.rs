//! What the text of a ping says about the job, where a check has keywords to tell.

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
        let occurs = |list: &str| {
            list.split(',').map(|keyword| keyword.trim_matches(is_blank)).any(|keyword| !keyword.is_empty() && text.contains(keyword))
        };
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

#[cfg(test)]
mod tests {
    use super::*;

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
