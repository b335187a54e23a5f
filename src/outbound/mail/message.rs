//! Mail messages in their wire format.

use std::time::Duration;

use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;

use super::server::{MailFrom, is_address};
use crate::domain::timestamp::Timestamp;
use crate::outbound::error::{SendError, SendStage};

/// Mail to be sent. It has no `Debug`: its content is confidential.
#[derive(Clone)]
pub struct OutgoingMail {
    /// Addresses of the recipients, at least one.
    pub to: Vec<String>,
    /// Subject, not encoded.
    pub subject: String,
    /// Plain text, for programs that show no HTML.
    pub text: String,
    /// The same content as HTML.
    pub html: Option<String>,
    /// Local part of `Message-ID`: letters, digits, `-`, `.` and `_`. Every attempt to send the
    /// same mail uses the same one.
    pub id: String,
    /// `id` of the mail that this one answers.
    pub in_reply_to: Option<String>,
    /// Value of `Date`.
    pub date: Timestamp,
    /// Other headers. Control characters become spaces.
    pub headers: Vec<(String, String)>,
    /// Mail to attach unchanged.
    pub attachment: Option<Vec<u8>>,
    /// Maximum time to send, from when the mail has a permit.
    pub timeout: Duration,
}

impl OutgoingMail {
    /// Builds the whole message.
    pub(super) fn build(&self, from: &MailFrom) -> Result<Vec<u8>, SendError> {
        let message_error = |what: &str| SendError::new(SendStage::Request, what);
        if self.to.is_empty() || !self.to.iter().all(|address| is_address(address)) {
            return Err(message_error("a recipient's address is not valid"));
        }
        let name_of = |id: &str| format!("{id}@{}", from.domain());
        let is_id = |id: &String| {
            !id.is_empty()
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        };
        if !is_id(&self.id) || !self.in_reply_to.iter().all(is_id) {
            return Err(message_error("the id of a mail is not valid"));
        }
        let one_line = |text: &str| text.replace(char::is_control, " ");
        let to = self
            .to
            .iter()
            .map(|address| Address::new_address(None::<&str>, address.as_str()))
            .collect();
        let mut message = MessageBuilder::new()
            .from(Address::new_address(
                from.name.as_deref(),
                from.address.as_str(),
            ))
            .to(Address::new_list(to))
            .subject(one_line(&self.subject))
            .date(self.date.secs())
            .message_id(name_of(&self.id));
        if let Some(answers) = &self.in_reply_to {
            message = message
                .in_reply_to(name_of(answers))
                .references(name_of(answers));
        }
        for (name, value) in &self.headers {
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            {
                return Err(message_error("a header of the mail has an invalid name"));
            }
            let value = one_line(value);
            // URLs must stay unchanged. Values that are not ASCII are encoded.
            message = if value.is_ascii() {
                message.header(name.as_str(), Raw::new(value))
            } else {
                message.header(name.as_str(), Text::new(value))
            };
        }
        let text = MimePart::new("text/plain", self.text.as_str());
        let body = match &self.html {
            Some(html) => MimePart::new(
                "multipart/alternative",
                vec![text, MimePart::new("text/html", html.as_str())],
            ),
            None => text,
        };
        let body = match &self.attachment {
            // An attached mail permits no other encoding (RFC 2046).
            Some(attached) => {
                let encoding = if attached.is_ascii() { "7bit" } else { "8bit" };
                let attached = MimePart::new("message/rfc822", attached.as_slice())
                    .transfer_encoding(encoding);
                MimePart::new("multipart/mixed", vec![body, attached])
            }
            None => body,
        };
        message
            .body(body)
            .write_to_vec()
            .map_err(|_| message_error("the mail cannot be encoded"))
    }
}

#[cfg(test)]
mod tests {
    use mail_parser::{MessageParser, MimeHeaders as _};

    use super::*;

    fn mail() -> OutgoingMail {
        OutgoingMail {
            to: vec!["ann@example.org".into(), "bob@example.org".into()],
            subject: "DOWN | Säge\r\nBcc: eve@example.org".into(),
            text: "It is down.\n.\nReally.\n".into(),
            html: Some("<p>It is down: ä</p>".into()),
            id: "1a2b3c4d-7-8".into(),
            in_reply_to: Some("1a2b3c4d-7-5".into()),
            date: Timestamp::from_secs(1_795_168_800),
            headers: vec![
                (
                    "List-Unsubscribe".into(),
                    format!("<https://example.org/unsubscribe/{}>", "x".repeat(90)),
                ),
                (
                    "X-Overdue-Check".into(),
                    "Säge\nBcc: eve@example.org".into(),
                ),
            ],
            attachment: Some(b"Subject: inner\r\n\r\n\xff inner\r\n".to_vec()),
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_mail_contains_only_its_fields() {
        let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
        let bytes = mail()
            .build(&from)
            .unwrap_or_else(|error| panic!("{error}"));
        let read = MessageParser::default().parse(&bytes).unwrap();
        assert_eq!(read.subject(), Some("DOWN | Säge  Bcc: eve@example.org"));
        assert_eq!(read.message_id(), Some("1a2b3c4d-7-8@example.net"));
        assert_eq!(
            read.in_reply_to().as_text(),
            Some("1a2b3c4d-7-5@example.net")
        );
        assert_eq!(
            read.references().as_text(),
            Some("1a2b3c4d-7-5@example.net")
        );
        assert_eq!(read.date().unwrap().to_rfc3339(), "2026-11-20T10:00:00Z");
        assert_eq!(
            read.from().unwrap().first().unwrap().name(),
            Some("overdue")
        );
        assert_eq!(
            read.from().unwrap().first().unwrap().address(),
            Some("alerts@example.net")
        );
        assert_eq!(
            read.to()
                .unwrap()
                .iter()
                .filter_map(|to| to.address())
                .collect::<Vec<_>>(),
            ["ann@example.org", "bob@example.org"]
        );
        assert!(read.bcc().is_none());
        assert_eq!(
            read.header_raw("X-Overdue-Check")
                .map(|value| value.contains("Bcc: eve")),
            Some(false)
        );
        assert_eq!(
            read.header_raw("List-Unsubscribe").unwrap().trim(),
            format!("<https://example.org/unsubscribe/{}>", "x".repeat(90))
        );
        assert_eq!(
            read.body_text(0).unwrap().replace('\r', ""),
            "It is down.\n.\nReally.\n"
        );
        assert_eq!(read.body_html(0).as_deref(), Some("<p>It is down: ä</p>"));
        let attached = read.attachments().next().unwrap();
        assert!(attached.is_message(), "{:?}", attached.content_type());
        assert_eq!(attached.message().unwrap().subject(), Some("inner"));
    }

    #[test]
    fn invalid_mails_are_refused() {
        let from = MailFrom::parse("a@b").unwrap();
        let wrong = |change: fn(&mut OutgoingMail)| {
            let mut mail = mail();
            change(&mut mail);
            mail.build(&from)
                .is_err_and(|error| error.stage == SendStage::Request)
        };
        assert!(wrong(|mail| mail.to.clear()));
        assert!(wrong(|mail| mail.to.push("a@b>\r\nRCPT TO:<c@d".into())));
        assert!(wrong(|mail| mail.id = "a>b".into()));
        assert!(wrong(|mail| mail.in_reply_to = Some(String::new())));
        assert!(wrong(|mail| mail.headers.push(("X Y".into(), "z".into()))));
    }
}
