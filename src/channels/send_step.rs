//! Steps to send, as plain values without access to the network.

use std::fmt;

use serde_json::Value;

use crate::domain::timestamp::Timestamp;

/// Single step of sending an alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendStep {
    /// HTTP request.
    Http(ChannelRequest),
    /// Mail through the server's relay.
    Mail(Box<AlertMail>),
    /// Command on this machine.
    Command(ShellInvocation),
    /// Nothing to send: the message cannot be created, for this reason.
    Unsendable(String),
}

/// Method of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the methods of RFC 9110 by their names")]
pub enum RequestMethod {
    Get,
    Post,
    Put,
}

impl RequestMethod {
    /// Name of the method in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// HTTP request of a channel.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    /// Method of the request.
    pub method: RequestMethod,
    /// Whole URL.
    pub url: String,
    /// Names as written, and values in Latin-1.
    pub headers: Vec<(String, String)>,
    /// Body; empty: none.
    pub body: Vec<u8>,
    /// True if the URL is the owner's, so that redirects are followed.
    pub is_user_url: bool,
    /// True if the receiver may take a minute.
    pub is_slow: bool,
    /// Name of the request within its kind, if one request follows another.
    pub role: &'static str,
}

/// Mail with an alert. The sender adds `From`, `Date`, and the domain of message ids, which is that
/// of its address.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertMail {
    /// Addresses of the recipients.
    pub to: Vec<String>,
    /// Subject, on one line.
    pub subject: String,
    /// Message id without a domain.
    pub message_id: String,
    /// Message id of the mail that it answers.
    pub in_reply_to: Option<String>,
    /// Time for `Date`.
    pub date: Timestamp,
    /// Further headers. Values are on one line and may contain any characters.
    pub headers: Vec<(&'static str, String)>,
    /// Plain text.
    pub text: String,
    /// The same content as HTML.
    pub html: String,
    /// Mail to attach unchanged.
    pub attachment: Option<Vec<u8>>,
}

/// Headers with an unsubscribe link (RFC 2369, RFC 8058).
pub fn unsubscribe_headers(link: Option<&str>) -> Vec<(&'static str, String)> {
    let Some(link) = link else {
        return Vec::new();
    };
    let mut headers = vec![("List-Unsubscribe", format!("<{link}>"))];
    if link.starts_with("https://") {
        // RFC 8058 permits no other scheme.
        headers.push(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".into()));
    }
    headers
}

/// Command for `sh`.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellInvocation {
    /// Argument of `sh -c`.
    pub command: String,
    /// Environment variables in addition to `PATH`, `HOME` and `LANG`.
    pub environment: Vec<(String, String)>,
    /// Standard input.
    pub input: Vec<u8>,
}

impl fmt::Debug for ChannelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self
            .url
            .splitn(4, '/')
            .take(3)
            .collect::<Vec<_>>()
            .join("/");
        write!(
            f,
            "{} {origin}/... ({} bytes)",
            self.method.name(),
            self.body.len()
        )
    }
}

impl fmt::Debug for AlertMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AlertMail({}, {} recipients)",
            self.message_id,
            self.to.len()
        )
    }
}

impl fmt::Debug for ShellInvocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShellInvocation(..)")
    }
}

impl ChannelRequest {
    /// Creates a request without a body.
    pub(super) fn new(method: RequestMethod, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            is_user_url: false,
            is_slow: false,
            role: "",
        }
    }

    pub(super) fn post(url: impl Into<String>) -> Self {
        Self::new(RequestMethod::Post, url)
    }

    /// Marks the URL as the owner's.
    pub(super) fn with_user_url(mut self) -> Self {
        self.is_user_url = true;
        self
    }

    pub(super) fn allow_slow(mut self) -> Self {
        self.is_slow = true;
        self
    }

    pub(super) fn with_role(mut self, role: &'static str) -> Self {
        self.role = role;
        self
    }

    pub(super) fn with_header(mut self, name: impl Into<String>, value: &str) -> Self {
        self.headers.push((name.into(), encode_latin1(value)));
        self
    }

    pub(super) fn with_json(self, value: &Value) -> Self {
        let mut request = self.with_header("Content-Type", "application/json");
        request.body = value.to_string().into_bytes();
        request
    }

    /// Sets a form-encoded body.
    pub(super) fn with_form(self, fields: &[(&str, &str)]) -> Self {
        let pairs: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", percent_encode(value, "")))
            .collect();
        let mut request = self.with_header("Content-Type", "application/x-www-form-urlencoded");
        request.body = pairs.join("&").into_bytes();
        request
    }

    pub(super) fn with_bearer_token(self, token: &str) -> Self {
        self.with_header("Authorization", &format!("Bearer {token}"))
    }

    /// Adds HTTP Basic authentication (RFC 7617).
    pub(super) fn with_basic_auth(self, user: &str, password: &str) -> Self {
        use base64::Engine as _;
        let pair = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.with_header("Authorization", &format!("Basic {pair}"))
    }

    /// Returns the single step that sends the request.
    pub(super) fn into_steps(self) -> Vec<SendStep> {
        vec![SendStep::Http(self)]
    }
}

/// Inserts a member into a JSON object.
pub(super) fn insert_member(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

/// Encodes a text as a header value: characters outside Latin-1 become `&#257;` and the like,
/// control characters a space.
pub(super) fn encode_latin1(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c) {
            _ if c.is_control() => value.push(' '),
            ..=0xff => value.push(c),
            number => value.push_str(&format!("&#{number};")),
        }
    }
    value
}

/// Percent-encodes a text, except for letters, digits, `_.-~` and the characters in `allowed`.
pub(super) fn percent_encode(text: &str, allowed: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric()
            || "_.-~".contains(c)
            || (byte.is_ascii() && allowed.contains(c))
        {
            encoded.push(c);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
