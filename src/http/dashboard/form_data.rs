//! Fields of a submitted form.

use super::page_error::PageError;
use super::page_request::Query;
use crate::http::common::reply::HttpError;
use crate::http::common::request::form_pairs;
use crate::http::common::request_body::{self, BodyQuota, IncomingBody};
use crate::http::common::response_body::ResponseWriter;

/// Maximum size of a form in bytes. Larger ones are answered with 413.
const MAX_FORM_BYTES: usize = 256 << 10;
/// Maximum number of fields of a form. Our largest form has a thousand boxes and a few other
/// fields.
const MAX_FIELDS: usize = 2000;
/// Maximum size of a form that is parsed on the threads that answer pings, in bytes.
const INLINE_PARSE_BYTES: usize = 4 << 10;

/// Fields of a form, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct FormData(Query);

impl FormData {
    /// Reads the body of a request.
    pub(super) async fn read(
        body: IncomingBody<'_>,
        quota: BodyQuota<'_>,
        response_writer: &ResponseWriter,
    ) -> Result<Self, PageError> {
        let bytes = request_body::read_whole(body, MAX_FORM_BYTES, quota).await?;
        let is_short = bytes.len() <= INLINE_PARSE_BYTES;
        let read = response_writer
            .run_if_short(is_short, move || Self::parse(&bytes))
            .await?;
        read.ok_or_else(|| HttpError::BadRequest("the form data is invalid".into()).into())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let fields = form_pairs(text)
            .take(MAX_FIELDS + 1)
            .map(|(name, value)| name.zip(value))
            .collect::<Option<Vec<_>>>()?;
        (fields.len() <= MAX_FIELDS).then_some(Self(Query(fields)))
    }

    /// Last field of this name. Empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name)
    }

    /// All fields of this name.
    pub(crate) fn get_all<'f>(&'f self, name: &str) -> impl DoubleEndedIterator<Item = &'f str> {
        self.0.get_all(name)
    }

    /// True if there is such a field, for example a ticked box or the pressed button.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    /// All fields.
    pub(crate) fn fields(&self) -> &Query {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_bounded() {
        let form = FormData::parse(b"name=Nightly+backup&tag=a&tag=%C3%A4%26&on&x=").unwrap();
        assert_eq!(form.get("name"), "Nightly backup");
        assert_eq!(form.get_all("tag").collect::<Vec<_>>(), ["a", "ä&"]);
        assert_eq!(
            (form.get("tag"), form.get("on"), form.get("none")),
            ("ä&", "", "")
        );
        assert!(form.has("on") && form.has("x") && !form.has("none"));
        assert!(!FormData::parse(b"").unwrap().has(""));
        for bad in [&b"a=%ff"[..], b"\xff=1"] {
            assert!(FormData::parse(bad).is_none(), "{bad:?}");
        }
        assert!(FormData::parse("a=1&".repeat(MAX_FIELDS).as_bytes()).is_some());
        assert!(FormData::parse("a=1&".repeat(MAX_FIELDS + 1).as_bytes()).is_none());
    }

    #[test]
    fn fuzz_forms() {
        const EXAMPLES: &[&str] = &[
            "name=Nightly+backup&tag=a&tag=%C3%A4%26&on&x=",
            "check=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f&=1&&a=%e2%80%ae",
        ];
        crate::util::fuzzing::fuzz(EXAMPLES, |bytes| {
            if let Some(form) = FormData::parse(bytes) {
                assert!(
                    !form.has("name") || form.get_all("name").next_back() == Some(form.get("name"))
                );
            }
        });
    }
}
