//! What the old server was configured with: some settings lie there once for a whole server that here belong to each channel.

use std::collections::BTreeMap;

/// Bytes of a file of variables: see [limits](crate::docs::limits).
pub const LONGEST_FILE: usize = 1 << 20;

/// Variables of the old server. Most of them are secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// Without the values, some of which are secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment(..)")
    }
}

impl Environment {
    /// Reads `NAME=VALUE` in lines, as in the `.env` of a compose file, or as strings of a list, as `docker inspect` shows them. A value
    /// may stand in quotes; later lines win.
    ///
    /// # Errors
    /// When there is no such line, or more than 1 MiB.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST_FILE {
            return Err("it has more than 1 MiB");
        }
        let variables: BTreeMap<_, _> = text.lines().filter_map(variable).collect();
        if variables.is_empty() { Err("there is no line NAME=VALUE in it") } else { Ok(Self(variables)) }
    }

    /// The same with a secret that stands elsewhere.
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.0.insert("SECRET_KEY".into(), secret.into());
        self
    }

    /// The value of a variable, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The flags of `overdue serve` that stand for what the old server was configured with, and what else there is to know.
pub(super) fn serve(environment: &Environment) -> (Vec<String>, Vec<String>) {
    // What is shown goes to a terminal, and from there perhaps into a shell.
    let is_plain = |value: &&str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/@+".contains(&byte));
    let get = |name: &str| environment.get(name).filter(is_plain);
    let is = |name: &str, word: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let mut flags = Vec::new();
    let site = get("SITE_ROOT").map(|site| site.trim_end_matches('/'));
    flags.extend(site.map(|site| format!("--base-url {site}")));
    flags.extend(get("PING_BODY_LIMIT").filter(|limit| limit.parse::<u32>().is_ok()).map(|limit| format!("--ping-body-limit {limit}")));
    flags.extend(get("PING_EMAIL_DOMAIN").map(|domain| format!("--ping-email-domain {domain}")));
    flags.extend(get("SMTPD_PORT").map(|port| format!("--smtp-listen 0.0.0.0:{port}")));
    if let Some(host) = get("EMAIL_HOST") {
        let scheme = match () {
            () if is("EMAIL_USE_SSL", "true") => "smtps",
            () if is("EMAIL_USE_TLS", "false") => "smtp+plain",
            () => "smtp",
        };
        let user = get("EMAIL_HOST_USER").map_or(String::new(), |user| format!("{user}@"));
        let port = get("EMAIL_PORT").map_or(String::new(), |port| format!(":{port}"));
        flags.push(format!("--mail-server {scheme}://{user}{host}{port}"));
    }
    flags.extend(get("DEFAULT_FROM_EMAIL").map(|from| format!("--mail-from {from}")));
    let endpoint = get("PING_ENDPOINT").filter(|endpoint| site.is_some_and(|site| **endpoint != format!("{site}/ping/")));
    let advice = endpoint.map(|endpoint| format!("its ping URLs begin with {endpoint}: let the proxy go on sending them to /ping/ here"));
    (flags, advice.into_iter().collect())
}

fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if let Some(text) = line.strip_prefix('"') {
        let text: String = serde_json::from_str(&format!("\"{}", text.trim_end_matches(','))).ok()?;
        let (name, value) = text.split_once('=')?;
        return Some((name.into(), value.into()));
    }
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    is_name.then(|| (name.into(), quoted.unwrap_or(value).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_server_follow() {
        let serve = |text: &str| serve(&Environment::parse(text).unwrap());
        let text = "SITE_ROOT=https://hc.example.org/\nPING_ENDPOINT=https://hc.example.org/ping/\nPING_BODY_LIMIT=10000\nSMTPD_PORT=2525\n\
            PING_EMAIL_DOMAIN=hc.example.org\nEMAIL_HOST=mx\nEMAIL_PORT=587\nEMAIL_HOST_USER=me\nDEFAULT_FROM_EMAIL=a@b";
        let flags = "--base-url https://hc.example.org --ping-body-limit 10000 --ping-email-domain hc.example.org \
            --smtp-listen 0.0.0.0:2525 --mail-server smtp://me@mx:587 --mail-from a@b";
        assert_eq!((serve(text).0.join(" "), serve(text).1), (flags.to_owned(), Vec::new()));
        let (flags, advice) = serve("SITE_ROOT=https://a\nPING_ENDPOINT=https://hc-ping.example.org/\nEMAIL_HOST=x;y\n");
        assert_eq!((flags.join(" "), advice.len()), ("--base-url https://a".to_owned(), 1));
    }

    #[test]
    fn variables_stand_in_lines_or_in_a_list() {
        let text = "# a comment=1\n A=1\nexport B=\"two words\"\nC='3'\nD=\nE=a=b\nno line\n        \"F=\\\"6\",\n\"G=7\"\nA=last\n";
        let variables = Environment::parse(text).unwrap();
        for (name, value) in [
            ("A", Some("last")),
            ("B", Some("two words")),
            ("C", Some("3")),
            ("D", None),
            ("E", Some("a=b")),
            ("F", Some("\"6")),
            ("G", Some("7")),
        ] {
            assert_eq!(variables.get(name), value, "{name}");
        }
        assert_eq!(variables.with_secret("s").get("SECRET_KEY"), Some("s"));
        for bad in ["", "a\nb\n", &"A=1\n".repeat(300_000)] {
            assert!(Environment::parse(bad).is_err());
        }
        assert_eq!(format!("{:?}", Environment::parse(text).unwrap()), "Environment(..)");
    }
}
