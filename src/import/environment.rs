//! Configuration of the old server. Some settings apply to the whole server there and belong to
//! each channel here.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::outbound::{MailFrom, MailServer};

/// Maximum size of a file of variables in bytes: see [limits](crate::docs::limits).
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Environment variables of the old server. Most of them are secrets.
#[derive(Clone, Default)]
pub struct ServerEnvironment {
    variables: BTreeMap<String, String>,
    /// Variables with a `${…}` that the file does not define, with the name in it. They count as
    /// not set.
    unresolved: BTreeMap<String, String>,
}

/// Omits the values, because some of them are secrets.
impl std::fmt::Debug for ServerEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment(..)")
    }
}

impl ServerEnvironment {
    /// Parses lines of `NAME=VALUE`, as in the `.env` file of a compose project, or strings of a
    /// list, as in the output of `docker inspect`. A value may be quoted; later lines win.
    /// `${NAME}` outside of single quotes and lists is replaced by the value of NAME in the file.
    ///
    /// # Errors
    /// Returns an error if there is no such line, or if the text is longer than 1 MiB.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_FILE_BYTES {
            return Err("it is larger than 1 MiB");
        }
        let raw: BTreeMap<_, _> = text.lines().filter_map(parse_variable).collect();
        if raw.is_empty() {
            return Err("it has no line NAME=VALUE");
        }
        let mut environment = Self::default();
        for (name, value) in &raw {
            match resolve_references(&raw, value, MAX_REFERENCE_DEPTH) {
                Ok(value) => drop(environment.variables.insert(name.clone(), value)),
                Err(missing) => drop(environment.unresolved.insert(name.clone(), missing)),
            }
        }
        Ok(environment)
    }

    /// Returns a sentence for each relevant variable that is ignored because of a `${…}` that the
    /// file does not define.
    fn unresolved_warnings(&self) -> impl Iterator<Item = String> + '_ {
        let matters = |name: &str| {
            name == "SECRET_KEY"
                || RELEVANT_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
        };
        self.unresolved
            .iter()
            .filter(move |(name, _)| matters(name))
            .map(|(name, missing)| {
                let of = if name.chars().chain(missing.chars()).all(is_name_char) {
                    missing.as_str()
                } else {
                    "…"
                };
                format!(
                    "{name} is ignored: it refers to ${{{of}}}, which the file does not define; \
                     add a line {of}=… to the file"
                )
            })
    }

    /// Sets the `SECRET_KEY`, which was given separately.
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.unresolved.remove("SECRET_KEY");
        self.variables.insert("SECRET_KEY".into(), secret.into());
        self
    }

    /// Returns the value of a variable, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

/// Configuration of the old server as configuration of the new one.
#[derive(Default)]
pub(super) struct ServeFlags {
    /// Flags of `overdue serve`, ready to use.
    pub(super) flags: Vec<String>,
    /// Additional advice.
    pub(super) advice: Vec<String>,
}

/// Password file of the mail server that the report suggests.
const SUGGESTED_PASSWORD_FILE: &str = "/etc/overdue/mail-password";
/// Maximum value of `--ping-body-limit`, in bytes.
const MAX_BODY_BYTES: u32 = 10_000_000;

/// Returns the flags of `overdue serve` that correspond to the configuration of the old server.
pub(super) fn serve_flags(environment: &ServerEnvironment) -> ServeFlags {
    let mut serve = ServeFlags::default();
    let is = |name: &str, word: &str| {
        environment
            .get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    let site = environment
        .get("SITE_ROOT")
        .map(|site| site.trim_end_matches('/'));
    let is_url = |url: &&str| {
        ["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
    };
    if let Some(site) = site.filter(is_url) {
        serve.push_flag("--base-url", "SITE_ROOT", site);
    }
    if let Some(name) = environment
        .get("MASTER_BADGE_LABEL")
        .or(environment.get("SITE_NAME"))
    {
        serve.push_flag("--site-name", "SITE_NAME", name);
    }
    match environment
        .get("PING_BODY_LIMIT")
        .map(|limit| (limit, limit.parse::<u32>()))
    {
        Some((_, Ok(limit))) if limit <= MAX_BODY_BYTES => {
            serve.push_flag("--ping-body-limit", "PING_BODY_LIMIT", &limit.to_string());
        }
        Some((limit, read)) if read.is_ok() || limit == "None" => {
            serve.push_flag(
                "--ping-body-limit",
                "PING_BODY_LIMIT",
                &MAX_BODY_BYTES.to_string(),
            );
            serve.advice.push(format!(
                "its PING_BODY_LIMIT was {limit}: overdue keeps at most {MAX_BODY_BYTES} bytes of \
                 a body"
            ));
        }
        _ => {}
    }
    serve.add_incoming_mail(environment);
    serve.add_outgoing_mail(environment);
    if is("SHELL_ENABLED", "true") {
        serve.flags.push("--allow-shell".into());
    }
    if let Some(header) = environment.get("REMOTE_USER_HEADER") {
        let header = header
            .strip_prefix("HTTP_")
            .unwrap_or(header)
            .replace('_', "-");
        let advice = format!(
            "its proxy passed the user name in the header {header}: use --auth-header {header} \
             --trusted-proxy ADDRESS for the same"
        );
        serve.advice.push(advice);
    }
    if is("INTEGRATIONS_ALLOW_PRIVATE_IPS", "false") {
        serve.advice.push(
            "its integrations could not reach private addresses: use --outbound public for the \
             same with imported channels"
                .into(),
        );
    }
    let endpoint = environment
        .get("PING_ENDPOINT")
        .filter(|endpoint| site.is_some_and(|site| **endpoint != format!("{site}/ping/")));
    let through = |endpoint| {
        format!(
            "its ping URLs begin with {endpoint}: keep the proxy forwarding them to /ping/ on this \
             server"
        )
    };
    serve.advice.extend(endpoint.map(through));
    serve.advice.extend(environment.unresolved_warnings());
    serve
}

impl ServeFlags {
    /// Adds a flag with its value, quoted for a shell.
    fn push_flag(&mut self, flag: &str, name: &str, value: &str) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@+%".contains(&byte);
        match value {
            value if value.bytes().all(is_plain) => self.flags.push(format!("{flag} {value}")),
            // The text goes to a terminal, and from there perhaps into a shell.
            value if !value.chars().any(|c| c.is_control() || c == '\'') => {
                self.flags.push(format!("{flag} '{value}'"));
            }
            _ => self.advice.push(format!(
                "set {flag} to its {name}, which is not printed because of special characters"
            )),
        }
    }

    /// Adds flags for pings by mail, which the old server received if it had a port for them.
    fn add_incoming_mail(&mut self, environment: &ServerEnvironment) {
        let port = environment.get("SMTPD_PORT");
        let domain = environment.get("PING_EMAIL_DOMAIN").unwrap_or("localhost");
        match port.map(str::parse::<u16>) {
            Some(Ok(port)) => {
                self.push_flag("--ping-email-domain", "PING_EMAIL_DOMAIN", domain);
                self.flags.push(format!("--smtp-listen 0.0.0.0:{port}"));
            }
            _ if domain != "localhost" => self.advice.push(format!(
                "it had no SMTPD_PORT: if jobs ping by mail to {domain}, add --ping-email-domain \
                 {domain} --smtp-listen ADDRESS:PORT"
            )),
            _ => {}
        }
    }

    /// Adds flags for alerts by mail.
    fn add_outgoing_mail(&mut self, environment: &ServerEnvironment) {
        let Some(host) = environment.get("EMAIL_HOST") else {
            return;
        };
        let is = |name: &str, word: &str| {
            environment
                .get(name)
                .is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        let scheme = match () {
            () if is("EMAIL_USE_SSL", "true") => "smtps",
            () if is("EMAIL_USE_TLS", "false") => "smtp+plain",
            () => "smtp",
        };
        let port = environment.get("EMAIL_PORT").unwrap_or("587");
        // The user name is used only with a password.
        let user = environment
            .get("EMAIL_HOST_USER")
            .filter(|_| environment.get("EMAIL_HOST_PASSWORD").is_some());
        let with_user = user.map(|user| {
            format!(
                "{scheme}://{}@{host}:{port}",
                utf8_percent_encode(user, USERINFO_ESCAPES)
            )
        });
        let with_user = with_user.filter(|url| MailServer::parse(url).is_ok());
        let url = with_user
            .clone()
            .unwrap_or_else(|| format!("{scheme}://{host}:{port}"));
        let from = environment
            .get("DEFAULT_FROM_EMAIL")
            .unwrap_or("healthchecks@example.org");
        if MailServer::parse(&url).is_err() || MailFrom::parse(from).is_err() {
            self.advice.push(
                "its mail server or sender address cannot be converted to flags: see --mail-server \
                 and --mail-from"
                    .into(),
            );
            return;
        }
        self.push_flag("--mail-server", "EMAIL_HOST", &url);
        self.push_flag("--mail-from", "DEFAULT_FROM_EMAIL", from);
        if with_user.is_some() {
            self.flags
                .push(format!("--mail-password-file {SUGGESTED_PASSWORD_FILE}"));
            self.advice.push(format!(
                "write its EMAIL_HOST_PASSWORD to {SUGGESTED_PASSWORD_FILE}, readable only by the \
                 server"
            ));
        } else if user.is_some() {
            self.advice.push(
                "it sent the mail password without TLS, which overdue never does: see --mail-server"
                    .into(),
            );
        }
    }
}

/// Characters of a user name that have to be encoded in the URL of a mail server.
const USERINFO_ESCAPES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b':')
    .add(b'/')
    .add(b'%')
    .add(b'?')
    .add(b'#')
    .add(b'\'')
    .add(b'"');

/// Maximum depth of nested references.
const MAX_REFERENCE_DEPTH: usize = 8;

/// Prefixes of the names of relevant variables.
const RELEVANT_PREFIXES: [&str; 20] = [
    "DEFAULT_FROM_EMAIL",
    "DISCORD_",
    "EMAIL_",
    "INTEGRATIONS_",
    "MASTER_BADGE_LABEL",
    "MATRIX_",
    "PD_",
    "PING_",
    "PUSHBULLET_",
    "PUSHOVER_",
    "REMOTE_USER_HEADER",
    "SHELL_",
    "SIGNAL_",
    "SITE_",
    "SLACK_",
    "SMTPD_",
    "TELEGRAM_",
    "TRELLO_",
    "TWILIO_",
    "WHATSAPP_",
];

/// A value as written in the file.
struct RawVariable {
    text: String,
    /// True if the value contains no references.
    is_literal: bool,
}

/// Returns a value with `${NAME}`, `${NAME:-DEFAULT}` and `${NAME-DEFAULT}` replaced. The error is
/// a name that the file does not define. `$NAME` without braces is kept, because secrets may
/// contain a dollar sign.
fn resolve_references(
    raw: &BTreeMap<String, RawVariable>,
    value: &RawVariable,
    depth: usize,
) -> Result<String, String> {
    let mut resolved = String::new();
    let mut rest = value.text.as_str();
    while !value.is_literal
        && let Some((before, after)) = rest.split_once("${")
    {
        let Some((inner, after)) = after.split_once('}') else {
            break;
        };
        let end = inner.find(|c| !is_name_char(c)).unwrap_or(inner.len());
        let (name, default) = inner.split_at(end);
        let referenced = match depth.checked_sub(1) {
            Some(depth) => raw
                .get(name)
                .map(|value| resolve_references(raw, value, depth))
                .transpose()?,
            None => None,
        };
        let default = match (default.strip_prefix(":-"), default.strip_prefix('-')) {
            (Some(default), _) => {
                Some(default).filter(|_| referenced.as_ref().is_none_or(String::is_empty))
            }
            (None, Some(default)) => Some(default).filter(|_| referenced.is_none()),
            (None, None) => None,
        };
        resolved += before;
        resolved += &default
            .map(str::to_owned)
            .or(referenced)
            .ok_or_else(|| name.to_owned())?;
        rest = after;
    }
    Ok(resolved + rest)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Parses a line `NAME=VALUE` like compose: an unquoted value ends before ` #`, a quoted one at its
/// closing quote.
fn parse_variable(line: &str) -> Option<(String, RawVariable)> {
    let line = line.trim();
    if let Some(text) = line.strip_prefix('"') {
        let text: String =
            serde_json::from_str(&format!("\"{}", text.trim_end_matches(','))).ok()?;
        let (name, value) = text.split_once('=')?;
        return Some((
            name.into(),
            RawVariable {
                text: value.into(),
                is_literal: true,
            },
        ));
    }
    let (name, value) = line
        .strip_prefix("export ")
        .unwrap_or(line)
        .split_once('=')?;
    let name = name.trim();
    let value = value.trim();
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| {
        (
            name.into(),
            RawVariable {
                text: parse_unquoted(value),
                is_literal: value.starts_with('\''),
            },
        )
    })
}

fn parse_unquoted(value: &str) -> String {
    if let Some((text, _)) = value
        .strip_prefix('\'')
        .and_then(|rest| rest.split_once('\''))
    {
        return text.into();
    }
    if let Some(text) = value.strip_prefix('"').and_then(parse_double_quoted) {
        return text;
    }
    let mut before = ' ';
    let comment = value.char_indices().find(|(_, c)| {
        let begins = *c == '#' && before.is_whitespace();
        before = *c;
        begins
    });
    comment
        .and_then(|(at, _)| value.get(..at))
        .unwrap_or(value)
        .trim_end()
        .into()
}

/// Parses up to the closing quote; `None` if there is none.
fn parse_double_quoted(text: &str) -> Option<String> {
    let mut read = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(read),
            '\\' => match chars.next()? {
                'n' => read.push('\n'),
                'r' => read.push('\r'),
                't' => read.push('\t'),
                escaped @ ('"' | '\\' | '$') => read.push(escaped),
                other => read.extend(['\\', other]),
            },
            other => read.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
