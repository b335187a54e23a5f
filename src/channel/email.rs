//! Channels that send a mail.

use super::{Given, is_host_name};

/// Whom to send a mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Email {
    to: Box<str>,
}

impl Email {
    pub(super) const KEYS: &[&str] = &["to"];

    pub(super) fn parse(mut given: Given) -> Result<Self, String> {
        let to = given.remove("to").ok_or("to is missing; give to=ADDRESS")?;
        if !is_address(&to) {
            return Err("to is not one mail address like ops@example.org; give to=ADDRESS, without a name or brackets".into());
        }
        Ok(Self { to })
    }

    pub(super) fn given(&self) -> Given {
        Given::from([("to".into(), self.to.clone())])
    }
}

/// A dot-atom (RFC 5322, section 3.2.3) of at most 64 octets at a host name; 254 octets fit a path (RFC 5321, section 4.5.3.1.3).
fn is_address(text: &str) -> bool {
    let is_atom =
        |atom: &str| !atom.is_empty() && atom.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte));
    text.len() <= 254
        && text.split_once('@').is_some_and(|(local, host)| local.len() <= 64 && local.split('.').all(is_atom) && is_host_name(host))
}
