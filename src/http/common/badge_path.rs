//! Badge URLs: badge, number of states and format. Signatures are verified elsewhere.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

use crate::domain::ids::{parse_path_uuid, write_uuid};

/// All but the unreserved characters of RFC 3986, section 2.3, so that every tag is one segment.
const TAG_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Length of a signature in bytes.
pub(crate) const SIGNATURE_LENGTH: usize = 8;

/// Suffix after the signature of a two-state badge.
const TWO_STATES_SUFFIX: &str = "-2";

/// Badge URL: see [protocol](crate::docs::protocol).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadgePath {
    /// `/badge/<badge key>/<signature>[-2]/<tag>.<format>`, for the whole project without the tag
    /// segment.
    Tag {
        /// Identifies the project.
        badge_key: Box<str>,
        /// [`SIGNATURE_LENGTH`] bytes.
        signature: Box<str>,
        states: BadgeStates,
        /// `None`: all checks of the project.
        tag: Option<Box<str>>,
        format: BadgeFormat,
    },
    /// `/b/<states>/<badge uuid>.<format>`
    Check {
        states: BadgeStates,
        badge: Uuid,
        format: BadgeFormat,
    },
    /// A path of either form that names no badge, such as one with an unknown format.
    Unknown,
}

/// Number of states that a badge distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadgeStates {
    /// Up and down; grace counts as up.
    Two,
    /// Up, late and down.
    Three,
}

/// Format of a badge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadgeFormat {
    Svg,
    /// Counts, for badges that other programs draw.
    Json,
    /// Input of the endpoint badge of shields.io.
    Shields,
}

impl BadgeFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Svg, Self::Json, Self::Shields];

    /// File name extension of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Json => "json",
            Self::Shields => "shields",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl BadgePath {
    /// Parses the segments after `/badge/`.
    pub(crate) fn parse_tag(segments: &[&str]) -> Option<Self> {
        let project = |badge_key, last: &str| {
            let (signed, format) = last.rsplit_once('.')?;
            Self::parse_signed(badge_key, signed, None, format)
        };
        let tag = |badge_key, signed, last: &str| {
            let (tag, format) = last.rsplit_once('.')?;
            let tag = percent_decode_str(tag).decode_utf8().ok()?;
            Self::parse_signed(badge_key, signed, Some(&tag), format)
        };
        let signed = match segments {
            [badge_key, last] => project(badge_key, last),
            [badge_key, signed, last] => tag(badge_key, signed, last),
            _ => return None,
        };
        Some(signed.unwrap_or(Self::Unknown))
    }

    fn parse_signed(
        badge_key: &str,
        signed: &str,
        tag: Option<&str>,
        format: &str,
    ) -> Option<Self> {
        // A signature may itself end in `-2`.
        let (signature, states) = match signed.split_at_checked(SIGNATURE_LENGTH)? {
            (signature, TWO_STATES_SUFFIX) => (signature, BadgeStates::Two),
            (signature, "") => (signature, BadgeStates::Three),
            _ => return None,
        };
        let badge_key = badge_key.into();
        let signature = signature.into();
        let tag = tag.map(Box::from);
        Some(Self::Tag {
            badge_key,
            signature,
            states,
            tag,
            format: BadgeFormat::parse(format)?,
        })
    }

    /// Parses the segments after `/b/`. `None` unless the first is `2` or `3`.
    pub(crate) fn parse_check(segments: &[&str]) -> Option<Self> {
        let (states, last) = match segments {
            ["2", last] => (BadgeStates::Two, last),
            ["3", last] => (BadgeStates::Three, last),
            _ => return None,
        };
        let named = || {
            let (badge, format) = last.rsplit_once('.')?;
            Some(Self::Check {
                states,
                badge: parse_path_uuid(badge)?,
                format: BadgeFormat::parse(format)?,
            })
        };
        Some(named().unwrap_or(Self::Unknown))
    }

    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Tag {
                badge_key,
                signature,
                states,
                tag,
                format,
            } => {
                let states = if *states == BadgeStates::Two {
                    TWO_STATES_SUFFIX
                } else {
                    ""
                };
                out.extend(["/badge/", badge_key, "/", signature, states]);
                if let Some(tag) = tag {
                    out.push('/');
                    out.extend(utf8_percent_encode(tag, TAG_ESCAPES));
                }
                out.extend([".", format.name()]);
            }
            Self::Check {
                states,
                badge,
                format,
            } => {
                out.push_str(if *states == BadgeStates::Two {
                    "/b/2/"
                } else {
                    "/b/3/"
                });
                write_uuid(*badge, out);
                out.extend([".", format.name()]);
            }
            Self::Unknown => out.push_str("/b/2/unknown"),
        }
    }
}
