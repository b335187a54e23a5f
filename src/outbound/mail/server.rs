//! Mail server for all mail, as the command-line options name it.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::outbound::url::HostPort;

/// Mail server, with security and user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailServer {
    pub(super) host_port: HostPort,
    pub(super) security: MailSecurity,
    pub(super) user: Option<String>,
}

/// Encryption of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MailSecurity {
    /// TLS from the beginning.
    Tls,
    /// TLS after STARTTLS, and no mail without it.
    StartTls,
    None,
}

impl MailServer {
    /// Parses `smtps://USER@HOST:PORT`, `smtp://USER@HOST:PORT` or `smtp+plain://HOST:PORT`. User
    /// and port are optional.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let forms = "give smtps://USER@HOST (TLS), smtp://USER@HOST (STARTTLS) or \
                     smtp+plain://HOST (no TLS)";
        let (scheme, rest) = text.split_once("://").ok_or(forms)?;
        let (security, port) = match scheme {
            "smtps" => (MailSecurity::Tls, 465),
            "smtp" => (MailSecurity::StartTls, 587),
            "smtp+plain" => (MailSecurity::None, 25),
            _ => return Err(forms),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // A user may be a mail address.
        let (user, host_port) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(user, host_port)| (Some(user), host_port));
        let host_port = host_port
            .parse()
            .ok()
            .and_then(|host_port| HostPort::from_authority(&host_port, port))
            .ok_or(forms)?;
        if user.is_some_and(|user| user.contains(':')) {
            return Err(
                "the URL must not contain the password: give a file with it as \
                 --mail-password-file",
            );
        }
        if user.is_some() && security == MailSecurity::None && !host_port.host.is_loopback() {
            return Err(
                "a password is not sent without TLS, except to this machine: give smtps:// or \
                 smtp://, or remove the user",
            );
        }
        let user = user.map(|user| percent_decode_str(user).decode_utf8_lossy().into_owned());
        if user
            .as_ref()
            .is_some_and(|user| user.is_empty() || user.chars().any(char::is_control))
        {
            return Err(forms);
        }
        Ok(Self {
            host_port,
            security,
            user,
        })
    }
}

/// Sender of mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailFrom {
    pub(super) name: Option<String>,
    pub(super) address: String,
}

impl MailFrom {
    /// Parses `ADDRESS` or `NAME <ADDRESS>`.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected =
            "give an address, as in alerts@example.org or 'overdue <alerts@example.org>'";
        let (name, address) = match text.trim().strip_suffix('>') {
            Some(rest) => rest.rsplit_once('<').ok_or(expected)?,
            None => ("", text.trim()),
        };
        let name = name.trim().trim_matches('"');
        if !is_address(address) || name.chars().any(char::is_control) {
            return Err(expected);
        }
        Ok(Self {
            name: (!name.is_empty()).then(|| name.to_owned()),
            address: address.to_owned(),
        })
    }

    pub(super) fn domain(&self) -> &str {
        self.address
            .rsplit_once('@')
            .map_or("", |(_, domain)| domain)
    }
}

/// True if this is valid in `MAIL FROM:<>` and `RCPT TO:<>` and names one mailbox there.
pub(super) fn is_address(text: &str) -> bool {
    let is_plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | ',' | ';' | ':' | '\\' | '"');
    text.len() <= 254
        && text.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty()
                && !domain.is_empty()
                && !domain.contains('@')
                && local.chars().chain(domain.chars()).all(is_plain)
        })
}

/// Mail server, its password file and the sender address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailRelay {
    pub(super) server: MailServer,
    pub(super) password_file: Option<PathBuf>,
    pub(super) from: MailFrom,
}

impl MailRelay {
    /// Combines the options for mail.
    ///
    /// # Errors
    /// If there is a user without a password, or a password without a user.
    pub fn new(
        server: MailServer,
        password_file: Option<PathBuf>,
        from: MailFrom,
    ) -> Result<Self, &'static str> {
        match (&server.user, &password_file) {
            (Some(_), None) => Err("--mail-server has a user but no password: \
                                    give a file with the password as --mail-password-file"),
            (None, Some(_)) => Err("--mail-password-file requires a user in --mail-server, \
                                    as in smtps://USER@HOST"),
            _ => Ok(Self {
                server,
                password_file,
                from,
            }),
        }
    }

    /// Reads the password: the first line of the file.
    pub(in crate::outbound) fn password(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.password_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "cannot read the password of the mail server from {}: {error}",
                path.display()
            )
        })?;
        let line = text.lines().next().unwrap_or_default();
        if line.is_empty() {
            Err(format!("{} contains no password", path.display()))
        } else {
            Ok(Some(line.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_parsed() {
        for (text, place, security, user) in [
            (
                "smtps://mx.example.org",
                "mx.example.org:465",
                MailSecurity::Tls,
                None,
            ),
            (
                "smtps://me@example.org@mx.example.org:2465/",
                "mx.example.org:2465",
                MailSecurity::Tls,
                Some("me@example.org"),
            ),
            (
                "smtp://me%40x@MX",
                "mx:587",
                MailSecurity::StartTls,
                Some("me@x"),
            ),
            (
                "smtp+plain://10.0.0.1",
                "10.0.0.1:25",
                MailSecurity::None,
                None,
            ),
            (
                "smtp+plain://me@127.0.0.1:1025",
                "127.0.0.1:1025",
                MailSecurity::None,
                Some("me"),
            ),
            (
                "smtp+plain://me@[::1]",
                "[::1]:25",
                MailSecurity::None,
                Some("me"),
            ),
            (
                "smtp+plain://me@localhost",
                "localhost:25",
                MailSecurity::None,
                Some("me"),
            ),
        ] {
            let server = MailServer::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (
                    server.host_port.to_string().as_str(),
                    server.security,
                    server.user.as_deref()
                ),
                (place, security, user),
                "{text}"
            );
        }
        for (text, words) in [
            ("mx.example.org", "give smtps://"),
            ("http://mx", "give smtps://"),
            ("smtp://", "give smtps://"),
            ("smtp://@mx", "give smtps://"),
            ("smtp://a:99999", "give smtps://"),
            (
                "smtp://me:secret@mx",
                "the URL must not contain the password",
            ),
            ("smtp+plain://me@mx", "a password is not sent without TLS"),
        ] {
            assert!(
                MailServer::parse(text).unwrap_err().starts_with(words),
                "{text}"
            );
        }
    }

    #[test]
    fn senders_are_parsed() {
        let read = |text: &str| MailFrom::parse(text).map(|from| (from.name, from.address));
        assert_eq!(read("a@b"), Ok((None, "a@b".into())));
        assert_eq!(
            read(" overdue <a@b> "),
            Ok((Some("overdue".into()), "a@b".into()))
        );
        assert_eq!(
            read("\"Over, due\" <a@b>"),
            Ok((Some("Over, due".into()), "a@b".into()))
        );
        for wrong in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            "x <a@b",
            "a@b>",
            "x\ny <a@b>",
            "a\r\n@b",
            "ä@b",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn user_and_password_require_each_other() {
        let with = |url: &str, file: Option<&str>| {
            MailRelay::new(
                MailServer::parse(url).unwrap(),
                file.map(Into::into),
                MailFrom::parse("a@b").unwrap(),
            )
            .is_ok()
        };
        assert!(with("smtps://h", None) && with("smtps://me@h", Some("/x")));
        assert!(!with("smtps://me@h", None) && !with("smtps://h", Some("/x")));
    }
}
