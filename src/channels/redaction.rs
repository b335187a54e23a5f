//! Redaction of secrets in responses. Receivers repeat what they were sent, and errors are visible
//! to read-only users.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, ShellInvocation, percent_encode};
use crate::domain::channel::{ChannelSettings, MASK};

/// Maximum length of a quotation from a response, or from any other foreign text, in an error.
const EXCERPT_LIMIT: LengthLimit = LengthLimit(200, LengthUnit::Chars);
/// Shorter secrets are not searched for in responses: redacting them would hide ordinary words.
const MIN_SECRET_LENGTH: usize = 4;
/// Shorter path segments, query values and words of bodies are ordinary words.
const MIN_TOKEN_LENGTH: usize = 10;
/// Shorter words of commands are names of programs and files.
const MIN_COMMAND_TOKEN_LENGTH: usize = 16;

/// Returns a line, truncated to 200 characters. Does not redact.
pub(super) fn truncate_error(line: &str) -> String {
    truncate_line(line, EXCERPT_LIMIT)
}

/// Returns foreign text on one line, without the channel's secrets in any encoding that the step
/// used. The part of its URLs after the host is removed too: for some receivers it is all that a
/// sender needs.
pub(super) fn redact_secrets(text: &str, settings: &ChannelSettings, step: &SendStep) -> String {
    let mut secrets = RedactedSecrets(Vec::new());
    secrets.add_settings(settings);
    match step {
        SendStep::Http(request) => secrets.add_request(request, settings),
        SendStep::Command(shell) => secrets.add_command(shell),
        SendStep::Mail(_) | SendStep::Unsendable(_) => {}
    }
    let mut text = to_one_line(text);
    for secret in secrets.encodings() {
        text = text.replace(&secret, MASK);
    }
    text
}

/// Texts to search for.
struct RedactedSecrets(Vec<String>);

impl RedactedSecrets {
    fn add(&mut self, secret: &str) {
        if secret.len() >= MIN_SECRET_LENGTH {
            self.0.push(secret.to_owned());
        }
    }

    fn add_settings(&mut self, settings: &ChannelSettings) {
        for secret in settings.secrets() {
            self.add(secret);
            self.add_header(secret);
        }
        settings.urls().for_each(|url| self.add_url(url));
        // A topic of a public server is its password.
        let topics = settings
            .pairs()
            .filter(|(key, topic)| *key == "topic" && topic.len() >= MIN_TOKEN_LENGTH);
        topics.for_each(|(_, topic)| self.add(topic));
        for (_, body) in settings
            .pairs()
            .filter(|(key, _)| *key == "body" || key.ends_with("-body"))
        {
            self.add_body(body);
        }
    }

    fn add_request(&mut self, request: &ChannelRequest, settings: &ChannelSettings) {
        let is_configured = |name: &str| {
            settings.pairs().any(|(key, _)| {
                key.split_once("header.")
                    .is_some_and(|(_, configured)| configured.eq_ignore_ascii_case(name))
            })
        };
        for (name, value) in &request.headers {
            if name.eq_ignore_ascii_case("authorization") || is_configured(name) {
                self.add(value);
                self.add_header(value);
            }
        }
        if request.is_user_url {
            self.add_url(&request.url);
        }
    }

    /// Adds the part of a header value after the scheme, and the password in it (RFC 7617).
    fn add_header(&mut self, value: &str) {
        let Some(last) = value.split(' ').next_back() else {
            return;
        };
        self.add(last);
        let pair = BASE64_STANDARD
            .decode(last)
            .ok()
            .and_then(|pair| String::from_utf8(pair).ok());
        if let Some((pair, (_, password))) = pair
            .as_deref()
            .and_then(|pair| Some((pair, pair.split_once(':')?)))
        {
            self.add(pair);
            self.add(password);
        }
    }

    /// Adds the part of a URL after the host, and each value of its query. If it has placeholders,
    /// only the pieces between them are known.
    fn add_url(&mut self, url: &str) {
        let Some(path) = url
            .splitn(4, '/')
            .nth(3)
            .filter(|path| url.contains("://") && path.len() >= MIN_SECRET_LENGTH)
        else {
            return;
        };
        self.add(url);
        // The host name is no secret, even if the path repeats it: the error is about it.
        let host = url.split('/').nth(2).unwrap_or_default();
        let pieces = path.split(['/', '?', '&', '=', '#']);
        let pieces = pieces.filter(|piece| piece.len() >= MIN_TOKEN_LENGTH && !piece.contains('$'));
        pieces
            .chain([path])
            .filter(|piece| !host.contains(piece))
            .for_each(|piece| self.add(piece));
        if let Some((_, query)) = url.split_once('?') {
            self.add_form(query.split('#').next().unwrap_or_default(), host);
        }
    }

    /// Adds the values of a form that have no placeholder, encoded and decoded, unless they are
    /// part of the host name.
    fn add_form(&mut self, form: &str, host: &str) {
        let values = form
            .split('&')
            .filter_map(|pair| Some(pair.split_once('=')?.1.trim()));
        for value in values.filter(|value| !value.contains('$') && !host.contains(value)) {
            self.add(value);
            self.add(
                &percent_encoding::percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy(),
            );
        }
    }

    /// Adds secrets of a body: quoted texts that are no member names and have no placeholder, such
    /// values of a form, and other long words. Member names and placeholders are left out.
    fn add_body(&mut self, body: &str) {
        self.add_quoted(body);
        if !body.contains('"') {
            self.add_form(body, "");
        }
        let mut rest = body;
        while let Some(start) = rest.find(is_token_character) {
            let word = rest.get(start..).unwrap_or_default();
            let end = word.find(|c| !is_token_character(c)).unwrap_or(word.len());
            let is_placeholder = rest
                .get(..start)
                .is_some_and(|before| before.ends_with('$'));
            let after = word.get(end..).unwrap_or_default();
            let is_name = after
                .strip_prefix(['"', '\''])
                .unwrap_or(after)
                .trim_start()
                .starts_with([':', '=']);
            if let Some(word) = word
                .get(..end)
                .filter(|word| word.len() >= MIN_TOKEN_LENGTH && !is_placeholder && !is_name)
            {
                self.add(word);
            }
            rest = after;
        }
    }

    /// Adds the strings in JSON. Placeholders may make the body invalid JSON, so each string is
    /// parsed separately.
    fn add_quoted(&mut self, body: &str) {
        let mut rest = body;
        while let Some((_, quoted)) = rest.split_once('"') {
            let mut is_escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            let Some((text, after)) =
                end.and_then(|end| Some((quoted.get(..end)?, quoted.get(end + 1..)?)))
            else {
                return;
            };
            if !after.trim_start().starts_with(':') && !text.contains('$') {
                self.add(text);
                serde_json::from_str::<String>(&format!("\"{text}\""))
                    .iter()
                    .for_each(|text| self.add(text));
            }
            rest = after;
        }
    }

    /// Adds long words of a command that look random. A shell repeats a part of a command that it
    /// cannot parse.
    fn add_command(&mut self, shell: &ShellInvocation) {
        let looks_random = |word: &&str| {
            word.len() >= MIN_COMMAND_TOKEN_LENGTH
                && word.contains(|c: char| c.is_ascii_digit())
                && word.contains(|c: char| c.is_ascii_alphabetic())
        };
        shell
            .command
            .split(|c| !is_token_character(c))
            .filter(looks_random)
            .for_each(|word| self.add(word));
    }

    /// Every encoding in which a receiver may repeat the secrets, the longest first, so that no
    /// part of one remains.
    fn encodings(self) -> Vec<String> {
        let mut all = Vec::with_capacity(self.0.len() * 4);
        for secret in self.0 {
            let json = serde_json::to_string(&secret).unwrap_or_default();
            let json = json
                .strip_prefix('"')
                .and_then(|json| json.strip_suffix('"'))
                .unwrap_or_default()
                .to_owned();
            let percent = percent_encode(&secret, "");
            let decoded = percent_encoding::percent_decode_str(&secret)
                .decode_utf8_lossy()
                .into_owned();
            let html = secret
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;");
            let based = BASE64_STANDARD.encode(&secret);
            all.extend([
                json.replace('/', "\\/"),
                json,
                percent.replace("%20", "+"),
                percent.to_ascii_lowercase(),
                percent,
                decoded,
                html,
                based,
            ]);
            all.push(to_one_line(&secret));
            all.push(secret);
        }
        all.retain(|secret| secret.len() >= MIN_SECRET_LENGTH);
        all.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
        all
    }
}

/// True if the character may be part of a token that is one word.
fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.+/~".contains(c)
}
