//! Badges: status of a check, a tag or a whole project, for anyone who has the URL, as a picture or
//! as JSON.

mod count_cache;
mod svg;
mod text_width;

use std::sync::Arc;

use hyper::header::CONTENT_SECURITY_POLICY;
use serde_json::json;
use uuid::Uuid;

use super::ServerState;
use crate::domain::check::Check;
use crate::domain::ids::ProjectId;
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::http::common::badge_link::verified_tag;
use crate::http::common::badge_path::{BadgeFormat, BadgePath, BadgeStates};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::work_owner::WorkOwner;
pub(super) use count_cache::BadgeCountCache;

/// Label of the badge of a check without name and slug. The UUID is never shown, because every
/// reader of the badge could then ping the check.
const UNNAMED: &str = "unnamed";

/// Status on a badge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BadgeStatus {
    Up,
    Late,
    Down,
}

impl BadgeStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Late => "late",
            Self::Down => "down",
        }
    }

    /// Returns its color in a picture.
    fn color(self) -> &'static str {
        match self {
            Self::Up => "#4c1",
            Self::Late => "#fe7d37",
            Self::Down => "#e05d44",
        }
    }

    /// Returns its name in the format of shields.io.
    fn severity(self) -> &'static str {
        match self {
            Self::Up => "success",
            Self::Late => "important",
            Self::Down => "critical",
        }
    }
}

/// Number of checks that a badge covers, by status. New and paused checks count as up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct BadgeCounts {
    total: usize,
    grace: usize,
    down: usize,
}

impl BadgeCounts {
    fn add(&mut self, check: &Check, now: Timestamp) {
        self.total += 1;
        match check.state.visible_status(&check.settings, now) {
            VisibleStatus::Grace => self.grace += 1,
            VisibleStatus::Down => self.down += 1,
            VisibleStatus::New | VisibleStatus::Up | VisibleStatus::Paused => {}
        }
    }

    /// Returns the worst status of the checks; up if there are none.
    fn status(self, states: BadgeStates) -> BadgeStatus {
        match (self, states) {
            (Self { down: 1.., .. }, _) => BadgeStatus::Down,
            (Self { grace: 1.., .. }, BadgeStates::Three) => BadgeStatus::Late,
            _ => BadgeStatus::Up,
        }
    }
}

/// A badge to render.
struct Badge {
    label: String,
    counts: BadgeCounts,
    states: BadgeStates,
    format: BadgeFormat,
}

/// Responds to a request to a badge URL.
pub(super) async fn respond(server: &ServerState, path: BadgePath) -> Result<HttpReply, HttpError> {
    let handle = &server.handle;
    let (labeled_counts, states, format) = match path {
        BadgePath::Tag {
            badge_key,
            signature,
            states,
            tag,
            format,
        } => {
            let secret = handle.badge_secret().ok_or(HttpError::Unavailable)?;
            let project = handle.with_state(|state| {
                state
                    .project_by_badge_key(&badge_key)
                    .and_then(|id| state.project(id))
                    .map(|project_state| Arc::clone(&project_state.project))
            });
            let signed = project.and_then(|project| {
                let tag = verified_tag(
                    &secret,
                    project.legacy_badge.as_ref(),
                    &badge_key,
                    tag.as_deref(),
                    &signature,
                )?;
                Some((project.id, tag.map(Box::from)))
            });
            let labeled_counts = match signed {
                Some((project, tag)) => Some(project_counts(server, project, tag).await?),
                None => None,
            };
            (labeled_counts, states, format)
        }
        BadgePath::Check {
            states,
            badge,
            format,
        } => (check_counts(handle, badge), states, format),
        BadgePath::Unknown => return Err(HttpError::NotFound),
    };
    let (label, counts) = labeled_counts.ok_or(HttpError::NotFound)?;
    Ok(Badge {
        label,
        counts,
        states,
        format,
    }
    .to_reply())
}

/// Returns the label and the counts of a tag, or of all checks of a project. Counts again if
/// something may have changed.
async fn project_counts(
    server: &ServerState,
    project: ProjectId,
    tag: Option<Box<str>>,
) -> Result<(String, BadgeCounts), HttpError> {
    let label = tag
        .as_deref()
        .unwrap_or(&server.config.site_name)
        .to_owned();
    if let Some(counts) = server
        .badge_counts
        .get(&server.handle, project, tag.as_deref())
    {
        return Ok((label, counts));
    }
    let handle = server.handle.clone();
    let counted = Arc::clone(&server.badge_counts);
    let counts = server
        .response_writer
        .for_owner(WorkOwner::Project(project))
        .run_blocking(move || counted.count(&handle, project, tag))
        .await?;
    Ok((label, counts))
}

/// Returns the label and the counts of one check.
fn check_counts(handle: &Handle, badge: Uuid) -> Option<(String, BadgeCounts)> {
    handle.with_state(|state| {
        let check = state.check_by_badge(badge)?;
        let name = check.settings.name.as_str();
        let slug = check.settings.slug.as_str();
        let label = [name, slug]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or(UNNAMED)
            .to_owned();
        let mut counts = BadgeCounts::default();
        counts.add(check, handle.now());
        Some((label, counts))
    })
}

impl Badge {
    fn to_reply(&self) -> HttpReply {
        let Self {
            label,
            counts,
            states,
            format,
        } = self;
        let status = counts.status(*states);
        let reply = match format {
            BadgeFormat::Svg => {
                let picture = svg::draw(label, status.name(), status.color());
                let mut reply = reply::content("image/svg+xml", picture);
                // If it is opened as a page, it loads and runs nothing.
                reply::set_header(&mut reply, CONTENT_SECURITY_POLICY, "default-src 'none'");
                reply
            }
            BadgeFormat::Json => {
                let badge = json!({
                    "status": status.name(),
                    "total": counts.total,
                    "grace": counts.grace,
                    "down": counts.down,
                });
                reply::json(badge.to_string())
            }
            BadgeFormat::Shields => {
                let badge = json!({
                    "schemaVersion": 1,
                    "label": label,
                    "message": status.name(),
                    "color": status.severity(),
                });
                reply::json(badge.to_string())
            }
        };
        reply::with_no_store(reply)
    }
}
