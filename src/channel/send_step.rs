//! What is to be sent, as plain values: whoever has sockets does it.

use std::fmt;

use serde_json::Value;

use crate::domain::timestamp::Timestamp;

/// One thing to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendStep {
    /// An HTTP request.
    Http(ChannelRequest),
    /// A mail by the server's relay.
    Mail(Box<AlertMail>),
    /// A command on this machine.
    Command(ShellInvocation),
    /// Nothing: the message cannot be made, for this reason.
    Unsendable(String),
}

/// The method of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the methods of RFC 9110 by their names")]
pub enum RequestMethod {
    Get,
    Post,
    Put,
}

impl RequestMethod {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    /// Its method.
    pub method: RequestMethod,
    /// The whole URL.
    pub url: String,
    /// Names as they are written, and values, all of whose characters Latin-1 has.
    pub headers: Vec<(String, String)>,
    /// The body; empty: none.
    pub body: Vec<u8>,
    /// Whether the URL is the owner's, so that redirects are followed.
    pub is_user_url: bool,
    /// Whether the receiver may take a minute.
    pub is_slow: bool,
    /// What the kind calls it, where one request follows another.
    pub role: &'static str,
}

/// A mail. Whoever sends it adds sender, `Date`, and the domain of message ids, which is the sender's.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertMail {
    /// Whom it goes to.
    pub to: Vec<String>,
    /// Its subject, on one line.
    pub subject: String,
    /// What names it, without a domain.
    pub message_id: String,
    /// What names the mail that it answers.
    pub in_reply_to: Option<String>,
    /// When it is written.
    pub date: Timestamp,
    /// Further headers; values are on one line, and may hold any characters.
    pub headers: Vec<(&'static str, String)>,
    /// The text.
    pub text: String,
    /// The same as HTML.
    pub html: String,
    /// A mail that it carries, as it came.
    pub attachment: Option<Vec<u8>>,
}

/// A command of `sh`.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellInvocation {
    /// What `sh -c` gets.
    pub command: String,
    /// Variables of its environment, beside `PATH`, `HOME` and `LANG`.
    pub environment: Vec<(String, String)>,
    /// Its standard input.
    pub input: Vec<u8>,
}

impl fmt::Debug for ChannelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        write!(f, "{} {origin}/... ({} bytes)", self.method.name(), self.body.len())
    }
}

impl fmt::Debug for AlertMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mail({}, {} recipients)", self.message_id, self.to.len())
    }
}

impl fmt::Debug for ShellInvocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shell(..)")
    }
}

impl ChannelRequest {
    /// A request without a body.
    pub(super) fn new(method: RequestMethod, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: Vec::new(), is_user_url: false, is_slow: false, role: "" }
    }

    pub(super) fn post(url: impl Into<String>) -> Self {
        Self::new(RequestMethod::Post, url)
    }

    /// Its URL is the owner's.
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

    /// A body as forms send it.
    pub(super) fn with_form(self, fields: &[(&str, &str)]) -> Self {
        let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value, ""))).collect();
        let mut request = self.with_header("Content-Type", "application/x-www-form-urlencoded");
        request.body = pairs.join("&").into_bytes();
        request
    }

    pub(super) fn with_bearer_token(self, token: &str) -> Self {
        self.with_header("Authorization", &format!("Bearer {token}"))
    }

    /// HTTP's own authentication with a password (RFC 7617).
    pub(super) fn with_basic_auth(self, user: &str, password: &str) -> Self {
        use base64::Engine as _;
        let pair = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.with_header("Authorization", &format!("Basic {pair}"))
    }

    /// The step that sends it.
    pub(super) fn into_steps(self) -> Vec<SendStep> {
        vec![SendStep::Http(self)]
    }
}

/// Puts a member into a JSON object.
pub(super) fn insert_member(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

/// A text as the value of a header: what Latin-1 does not have becomes `&#257;` and the like, control characters a blank.
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

/// A text with everything percent-encoded but letters, digits, `_.-~` and what is kept beside.
pub(super) fn percent_encode(text: &str, kept: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "_.-~".contains(c) || (byte.is_ascii() && kept.contains(c)) {
            encoded.push(c);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
