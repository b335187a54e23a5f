//! Ping URLs: check and action.

use uuid::Uuid;

use crate::domain::ids::{parse_path_uuid, write_uuid};
use crate::domain::project::PingKey;
use crate::domain::text::Slug;
use crate::http::common::request::BaseUrl;

/// Ping URL: check and action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PingPath {
    /// `/ping/<uuid>[/<action>]`
    Uuid(Uuid, PingAction),
    /// `/ping/<ping key>/<slug>[/<action>]`
    Slug(PingKey, Slug, PingAction),
    /// A slug with capital letters.
    BadSlug,
}

/// Last segment of a ping URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PingAction {
    /// No action segment.
    Success,
    Start,
    Fail,
    Log,
    /// 0 to 255; leading zeros are allowed.
    ExitStatus(u8),
    /// An exit status above 255.
    BadExitStatus,
}

impl PingPath {
    /// Parses the segments after `/ping/`.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let (first, rest) = segments.split_first()?;
        if let Some(uuid) = parse_path_uuid(first) {
            return match rest {
                [] | [""] => Some(Self::Uuid(uuid, PingAction::Success)),
                [action] => Some(Self::Uuid(uuid, PingAction::parse(action)?)),
                _ => None,
            };
        }
        let (slug, action) = match rest {
            [slug] => (slug, PingAction::Success),
            [slug, action] => (slug, PingAction::parse(action)?),
            _ => return None,
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if slug.is_empty() || !slug.bytes().all(fits) {
            return None;
        }
        if slug.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Some(Self::BadSlug);
        }
        // An imported check may have a slug longer than the limit here.
        Some(Self::Slug(
            PingKey::parse(first)?,
            Slug::from_stored(slug),
            action,
        ))
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("/ping/");
        match self {
            Self::Uuid(uuid, action) => {
                write_uuid(*uuid, out);
                action.write(out);
            }
            Self::Slug(key, slug, action) => {
                out.extend([key.as_str(), "/", slug.as_str()]);
                action.write(out);
            }
            Self::BadSlug => out.push_str("key/Slug"),
        }
    }
}

impl PingAction {
    pub(crate) fn parse(segment: &str) -> Option<Self> {
        Some(match segment {
            "start" => Self::Start,
            "fail" => Self::Fail,
            "log" => Self::Log,
            "" => return None,
            // A text of digits only is no u8 only if the number is too large.
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_or(Self::BadExitStatus, Self::ExitStatus)
            }
            _ => return None,
        })
    }

    fn write(self, out: &mut String) {
        match self {
            Self::Success => {}
            Self::Start => out.push_str("/start"),
            Self::Fail => out.push_str("/fail"),
            Self::Log => out.push_str("/log"),
            Self::ExitStatus(status) => out.extend(["/", &status.to_string()]),
            Self::BadExitStatus => out.push_str("/256"),
        }
    }
}

/// URL that creates a check with this slug, if none has it, and pings it.
pub fn creating_ping_url(base_url: &BaseUrl, key: PingKey, slug: Slug) -> String {
    let mut url = base_url.as_str().to_owned();
    PingPath::Slug(key, slug, PingAction::Success).write(&mut url);
    url + "?create=1"
}
