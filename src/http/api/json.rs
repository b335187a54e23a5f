//! JSON writer that appends to the text of a response. Lists are long, so no tree of values is
//! built first.

use std::fmt::{Display, Write as _};

/// An object that is being written. Members are written in the order of the calls.
///
/// Punctuation that stands together is appended together: lists have many short members.
pub(crate) struct JsonObject<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> JsonObject<'a> {
    /// Begins an object at the end of a text.
    pub(crate) fn begin(out: &'a mut String) -> Self {
        Self {
            out,
            is_empty: true,
        }
    }

    /// Ends the object.
    pub(crate) fn end(self) {
        self.out.push_str(if self.is_empty { "{}" } else { "}" });
    }

    /// Writes the name of a member, which is a constant and needs no escapes, and the text from the
    /// end of the name to the value.
    fn name(&mut self, name: &str, colon: &str) -> &mut String {
        let is_first = std::mem::take(&mut self.is_empty);
        self.out.push_str(if is_first { "{\"" } else { ",\"" });
        self.out.push_str(name);
        self.out.push_str(colon);
        self.out
    }

    /// Writes a member with a value written by `write`. The name needs no escapes.
    pub(crate) fn member(&mut self, name: &str, write: impl FnOnce(&mut String)) -> &mut Self {
        write(self.name(name, "\":"));
        self
    }

    /// Writes a member with a text value.
    pub(crate) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.unescaped(name, |out| write_escaped(out, value))
    }

    /// Writes a member with a text that needs no escapes, such as a timestamp or a UUID.
    pub(crate) fn unescaped(&mut self, name: &str, write: impl FnOnce(&mut String)) -> &mut Self {
        let out = self.name(name, "\":\"");
        write(out);
        out.push('"');
        self
    }

    /// Like [`unescaped`](Self::unescaped) for an optional value; `None` becomes null.
    pub(crate) fn unescaped_or_null<T>(
        &mut self,
        name: &str,
        value: Option<T>,
        write: impl FnOnce(T, &mut String),
    ) -> &mut Self {
        match value {
            Some(value) => self.unescaped(name, |out| write(value, out)),
            None => {
                self.name(name, "\":null");
                self
            }
        }
    }

    /// Writes a member with a whole number.
    pub(crate) fn number(&mut self, name: &str, value: impl itoa::Integer) -> &mut Self {
        self.member(name, |out| out.push_str(itoa::Buffer::new().format(value)))
    }

    /// Writes a member with `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name, if value { "\":true" } else { "\":false" });
        self
    }
}

/// Writes an array. `write` writes each item.
pub(crate) fn write_array<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

/// Writes a text in quotation marks.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

/// Writes a text with the escapes that JSON requires between quotation marks (RFC 8259, section 7).
fn write_escaped(out: &mut String, text: &str) {
    let mut rest = text;
    // Only ASCII is escaped, so every split is between characters.
    while let Some((plain, special)) = rest
        .bytes()
        .position(|byte| matches!(byte, ..b' ' | b'"' | b'\\'))
        .and_then(|at| rest.split_at_checked(at))
    {
        out.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some(mark @ ('"' | '\\')) => out.extend(['\\', mark]),
            Some('\n') => out.push_str("\\n"),
            Some(control) => write_display(format_args!("\\u{:04x}", u32::from(control)), out),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

/// Writes a value that implements `Display`.
pub(crate) fn write_display(value: impl Display, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::write_uuid;
    use proptest::prelude::*;
    use uuid::Uuid;

    proptest! {
        #[test]
        fn texts_are_read_back_unchanged(text in "(?s).{0,40}", ascii in "[\\x00-\\x7f]{0,40}") {
            for text in [text, ascii] {
                let mut out = String::new();
                write_string(&mut out, &text);
                prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            }
        }
    }

    #[test]
    fn members_follow_each_other() {
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object
            .text("a", "\"")
            .number("b", -1)
            .boolean("c", true)
            .unescaped_or_null("d", None, write_uuid);
        object
            .unescaped_or_null("e", Some(Uuid::nil()), write_uuid)
            .member("f", |out| {
                write_array(out, [1, 2], |n, out| {
                    out.push_str(if n == 1 { "1" } else { "2" });
                });
            });
        object.end();
        assert_eq!(
            out,
            concat!(
                r#"{"a":"\"","b":-1,"c":true,"d":null,"#,
                r#""e":"00000000-0000-0000-0000-000000000000","f":[1,2]}"#
            )
        );
    }
}
