//! Pages of the channels of a project: the list with the state of each channel, and forms to
//! create, change, test, assign and delete them.
//!
//! The forms are generated from the tables of the channel kinds, like the help of the command line.
//! Settings that only the operator may change have no field here.

mod actions;
mod form;
mod form_fields;
mod setting_labels;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;

use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::Banner;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use super::time_display::DisplayTime;
use crate::channels;
use crate::channels::transport_reply::visible_error;
use crate::domain::channel::{ChannelKind, ChannelPurpose, ChannelSettings};
use crate::domain::formatting::format_count;
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::ChannelTestResult;
use crate::operations::OperationError;
use crate::operations::channel::{ChannelStatus, ChannelTestResults, MemberTestResult};
use crate::operations::delivery::last_delivered;
use setting_labels::capitalize;

pub(super) use actions::{delete_channel, enable_channel, send_test, set_checks, show_delete};
pub(super) use form::{create_channel, show_add, show_edit, update_channel};

#[derive(Template)]
#[template(path = "channels.html", config = "src/http/dashboard/askama.toml")]
struct ChannelListPage {
    layout: Layout,
    may_write: bool,
    rows: Vec<ChannelListRow>,
    /// Kinds that can be added: heading and kinds.
    kinds: Vec<(&'static str, Vec<ChannelKindTile>)>,
}

struct ChannelListRow {
    name: String,
    kind: &'static str,
    target: String,
    checks: String,
    style: &'static str,
    status: &'static str,
    since: Option<DisplayTime>,
    reason: String,
    /// Probable mistakes in the settings.
    warnings: Vec<String>,
    waiting: String,
    is_disabled: bool,
    links: ChannelLinks,
}

/// Targets of the buttons.
struct ChannelLinks {
    test: String,
    edit: String,
    enable: String,
    delete: String,
}

/// A channel kind that can be added.
struct ChannelKindTile {
    title: &'static str,
    /// Letters of its mark.
    mark: String,
    link: String,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, Vec::new())?.into())
}

/// Renders the page with these messages at the top.
fn render_page(request: &PageRequest, banners: Vec<Banner>) -> Result<HtmlPage, PageError> {
    let project = request.project()?;
    let channels = project_channels(request)?;
    let mut checks = 0;
    let mut assigned = BTreeMap::<ChannelId, usize>::new();
    request.handle().for_each_check(project.id, |check| {
        checks += 1;
        check
            .settings
            .channels
            .iter()
            .for_each(|channel| *assigned.entry(*channel).or_default() += 1);
    });
    let delivered = last_delivered(request.handle(), &channels)?;
    let row = |channel: &Arc<Channel>| {
        let of = assigned.get(&channel.id).copied().unwrap_or_default();
        channel_row(
            request,
            channel,
            of,
            checks,
            delivered.get(&channel.id).copied(),
        )
    };
    let tile = |kind: &'static ChannelKind| ChannelKindTile {
        title: kind.title,
        mark: kind.title.chars().take(2).collect(),
        link: request.page_url(&Page::AddChannel(project.uuid, kind)),
    };
    let may_write = request.is_allowed(RequiredRight::Write);
    let kinds_for = |purpose: ChannelPurpose| {
        let mut kinds: Vec<_> = channels::all_kinds()
            .filter(|kind| kind.purpose == purpose && !kind.operator_only)
            .map(tile)
            .collect();
        kinds.sort_by_key(|kind| kind.title.to_lowercase());
        (purpose.title(), kinds)
    };
    let kinds = match may_write {
        true => ChannelPurpose::ALL.into_iter().map(kinds_for).collect(),
        false => Vec::new(),
    };
    let rows = channels.iter().map(row).collect();
    let layout = banners
        .into_iter()
        .fold(request.layout("Channels"), |layout, banner| {
            layout.with_banner(Some(banner))
        });
    Ok(HtmlPage::from_template(&ChannelListPage {
        layout,
        may_write,
        rows,
        kinds,
    }))
}

fn project_channels(request: &PageRequest) -> Result<Vec<Arc<Channel>>, PageError> {
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        Ok(state
            .project(project)
            .into_iter()
            .flat_map(|project| project.channels.values().cloned())
            .collect())
    })
}

fn channel_row(
    request: &PageRequest,
    channel: &Channel,
    assigned: usize,
    checks: usize,
    delivered: Option<Timestamp>,
) -> ChannelListRow {
    let when = |at| Some(DisplayTime::relative(at, &request.time_formatter()));
    let transports = request.handle().transports();
    let may_write = request.is_allowed(RequiredRight::Write);
    let (status, waiting, shown) = request.handle().with_state(|state| {
        let shown = state.display_settings(channel).into_owned();
        (
            ChannelStatus::compute(state, channel, transports),
            state.outbox.row_count_of(channel.id),
            shown,
        )
    });
    let (since, reason) = status.reason(may_write);
    let (style, status_text, since) = match status {
        ChannelStatus::Disabled(..) => ("paused", "Disabled", since.and_then(when)),
        ChannelStatus::CannotDeliver(_) => ("down", "Cannot deliver", None),
        ChannelStatus::Failing(..) => ("down", "Failing, first error", since.and_then(when)),
        ChannelStatus::TestFailed(_) => ("down", "Test failed", None),
        ChannelStatus::Untested => ("new", "Untested", None),
        ChannelStatus::Ok => (
            if channel.health.refused.is_empty() {
                "up"
            } else {
                "late"
            },
            if delivered.is_some() {
                "Delivered"
            } else {
                "Ok"
            },
            delivered.and_then(when),
        ),
    };
    let refused = channel.health.refused.iter();
    let refused = refused.map(|refused| {
        format!(
            "Refused for {}: {}",
            refused.address,
            visible_error(&refused.reason, may_write)
        )
    });
    let unsubscribed = channel.health.unsubscribed.join(", ");
    let unsubscribed = if unsubscribed.is_empty() {
        String::new()
    } else {
        format!("Unsubscribed: {unsubscribed}")
    };
    let parts = [reason.unwrap_or_default().to_owned()]
        .into_iter()
        .chain(refused)
        .chain([unsubscribed]);
    let reason = parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(". ");
    let is_for_all_checks = channel.settings.common().all_checks;
    ChannelListRow {
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        target: destination_text(&shown, may_write),
        checks: if is_for_all_checks {
            "every check".into()
        } else {
            format!("{assigned} of {}", format_count(checks, "check"))
        },
        style,
        status: status_text,
        since,
        reason,
        warnings: channel.settings.warnings(),
        waiting: if waiting == 0 {
            String::new()
        } else {
            format!("{waiting} waiting to be sent")
        },
        is_disabled: channel.health.disabled.is_some() || !channel.health.unsubscribed.is_empty(),
        links: ChannelLinks {
            test: request.page_url(&Page::TestChannel(channel.uuid)),
            edit: request.page_url(&Page::EditChannel(channel.uuid)),
            enable: request.page_url(&Page::EnableChannel(channel.uuid)),
            delete: request.page_url(&Page::DeleteChannel(channel.uuid)),
        },
    }
}

/// Destination that distinguishes a channel from others of its kind.
fn destination_text(settings: &ChannelSettings, may_write: bool) -> String {
    settings
        .destination(may_write)
        .map(|value| value.chars().take(80).collect())
        .unwrap_or_default()
}

/// Result of a test as messages. For a group there is one message for each of its channels.
fn test_result_banners(tested: &ChannelTestResults) -> Vec<Banner> {
    let of_member = |MemberTestResult { channel, result }: &MemberTestResult| {
        let name = Some(channel.name.as_str())
            .filter(|name| !name.is_empty())
            .unwrap_or(channel.settings.kind().title);
        let banner = match result {
            Ok(result) => test_result_banner(result),
            Err(error) => missing_result_banner(error),
        };
        Banner {
            text: format!("{name}: {}", banner.text),
            ..banner
        }
    };
    match tested {
        ChannelTestResults::Channel(result) => vec![test_result_banner(result)],
        ChannelTestResults::Group(tests) => tests.iter().map(of_member).collect(),
    }
}

/// Message about a channel of a group that was not tested in time.
const NO_TIME_FOR_TEST_TEXT: &str =
    "Not tested: the time limit for all tests was reached. Test this channel separately.";

/// Reason why the test of a channel in a group has no result, as a message.
fn missing_result_banner(error: &OperationError) -> Banner {
    match error {
        OperationError::NoTestResult => {
            Banner::warning("No result yet; the test may still arrive.".to_owned())
        }
        OperationError::NoTimeForTest => Banner::warning(NO_TIME_FOR_TEST_TEXT.to_owned()),
        OperationError::DisabledByOperator => {
            Banner::warning("Not tested: the operator has disabled it.".to_owned())
        }
        error => Banner::error(format!("Not tested: {error}.")),
    }
}

/// Result of the test of one channel as a message.
fn test_result_banner(result: &ChannelTestResult) -> Banner {
    match (&result.error, &result.missed) {
        (Some(reason), _) => Banner::error(format!("Not delivered: {reason}")),
        (None, Some(missed)) => Banner::warning(format!("{}.", capitalize(missed))),
        (None, None) => Banner::info(format!("Delivered in {} ms.", result.duration.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_a_result_is_not_reported_as_skipped() {
        let text = |error| missing_result_banner(&error).text;
        assert_eq!(
            text(OperationError::NoTestResult),
            "No result yet; the test may still arrive."
        );
        assert_eq!(text(OperationError::NoTimeForTest), NO_TIME_FOR_TEST_TEXT);
        assert_eq!(
            text(OperationError::Removed),
            "Not tested: the object has been deleted in the meantime."
        );
    }
}
