//! Channels that send a text message to a phone.

use super::Given;

/// Whom to send a text message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sms {
    to: Box<str>,
}

impl Sms {
    pub(super) const KEYS: &[&str] = &["to"];

    pub(super) fn parse(mut given: Given) -> Result<Self, String> {
        let to = given.remove("to").ok_or("to is missing; give to=NUMBER")?;
        if !is_number(&to) {
            return Err("to is not a phone number like +37120000000; give + and 7 to 15 digits, country code first".into());
        }
        Ok(Self { to })
    }

    pub(super) fn given(&self) -> Given {
        Given::from([("to".into(), self.to.clone())])
    }
}

/// An international number (ITU-T E.164: at most 15 digits, no country code begins with 0); shorter ones than 7 digits reach no phone.
fn is_number(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0')
    })
}
