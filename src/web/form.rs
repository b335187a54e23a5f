//! What a form sends, as fields by name.

use super::error::Trouble;
use super::visit::Query;
use crate::wire::body::{self, Arriving, BodyBudget};
use crate::wire::outgoing::Outgoing;
use crate::wire::reply::Fault;
use crate::wire::request::pairs;

/// Bytes of a form; more are answered 413.
const FORM_BYTES: usize = 256 << 10;
/// Fields of a form: the most that a page of ours sends are a thousand boxes and what goes with them.
const MOST_FIELDS: usize = 2000;
/// Bytes that are read where pings are answered.
const FEW_BYTES: usize = 4 << 10;

/// The fields of a form, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Form(Query);

impl Form {
    /// Reads the body of a request.
    pub(super) async fn read(body: Arriving<'_>, budget: &BodyBudget, outgoing: &Outgoing) -> Result<Self, Trouble> {
        let bytes = body::whole(body, FORM_BYTES, budget).await?;
        let is_short = bytes.len() <= FEW_BYTES;
        let read = outgoing.short_or_not(is_short, move || Self::parse(&bytes)).await?;
        read.ok_or_else(|| Fault::BadRequest("this is not what a form of ours sends".into()).into())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let fields = pairs(text).take(MOST_FIELDS + 1).map(|(name, value)| name.zip(value)).collect::<Option<Vec<_>>>()?;
        (fields.len() <= MOST_FIELDS).then_some(Self(Query(fields)))
    }

    /// The last field of this name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name)
    }

    /// All fields of this name.
    pub(crate) fn all<'f>(&'f self, name: &str) -> impl DoubleEndedIterator<Item = &'f str> {
        self.0.all(name)
    }

    /// Whether there is such a field, as of a box that is ticked or of the button that was pressed.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    /// The fields.
    pub(crate) fn fields(&self) -> &Query {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_bounded() {
        let form = Form::parse(b"name=Nightly+backup&tag=a&tag=%C3%A4%26&on&x=").unwrap();
        assert_eq!(form.get("name"), "Nightly backup");
        assert_eq!(form.all("tag").collect::<Vec<_>>(), ["a", "ä&"]);
        assert_eq!((form.get("tag"), form.get("on"), form.get("none")), ("ä&", "", ""));
        assert!(form.has("on") && form.has("x") && !form.has("none"));
        assert!(!Form::parse(b"").unwrap().has(""));
        for bad in [&b"a=%ff"[..], b"\xff=1"] {
            assert!(Form::parse(bad).is_none(), "{bad:?}");
        }
        assert!(Form::parse("a=1&".repeat(MOST_FIELDS).as_bytes()).is_some());
        assert!(Form::parse("a=1&".repeat(MOST_FIELDS + 1).as_bytes()).is_none());
    }
}
