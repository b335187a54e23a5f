//! JSON of checks, pings, flips and channels in the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::endpoints::{ApiResource, ApiVersion, Endpoint, PingNumber};
use super::json::{JsonObject, write_array, write_display};
use crate::domain::check::{Check, CheckSettings, OngoingRun};
use crate::domain::check_edit::field_value::CheckFieldValue;
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::flip::FlipDirection;
use crate::domain::ids::{ChannelId, UniqueKey, write_uuid};
use crate::domain::ping::{self, Ping, PingOrigin};
use crate::domain::project::Channel;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::http::common::badge_path::{BadgeFormat, BadgePath, BadgeStates};
use crate::http::common::ping_path::{PingAction, PingPath};
use crate::http::common::request::BaseUrl;

/// Channels of a project by id.
pub(crate) type ChannelMap = BTreeMap<ChannelId, Arc<Channel>>;

/// Rendering options of a response.
#[derive(Clone)]
pub(crate) struct ApiView {
    /// Base URL of the service.
    pub(crate) base_url: BaseUrl,
    /// Version of the API in the request.
    pub(crate) version: ApiVersion,
    /// True for a read-only key: omits everything by which a check could be pinged or changed.
    pub(crate) is_read_only: bool,
}

/// Members of a check that are written: see [protocol](crate::docs::protocol).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckMembers {
    /// Members in responses to list and get.
    Read,
    /// Adds `subject` and `subject_fail`, for responses to create, update, pause, resume and
    /// delete.
    Changed,
}

impl ApiView {
    /// Writes a check as it is at `now`; `channels` are the channels of its project.
    pub(crate) fn write_check(
        &self,
        out: &mut String,
        check: &Check,
        members: CheckMembers,
        channels: &ChannelMap,
        now: Timestamp,
    ) {
        let settings = &*check.settings;
        let state = &check.state;
        let mut object = JsonObject::begin(out);
        write_fields(&mut object, &fields::NAME_FIELDS, settings);
        write_fields(&mut object, &[&fields::GRACE], settings);
        object.number("n_pings", state.n_pings);
        object
            .text("status", self.status_word(check, now))
            .boolean("started", state.run.is_some());
        object.unescaped_or_null("last_ping", state.last_ping, Timestamp::write_rfc3339_secs);
        object.unescaped_or_null(
            "next_ping",
            state.next_ping(),
            Timestamp::write_rfc3339_secs,
        );
        if let Some(micros) = state.last_duration {
            // Whole seconds. If the clock was set back during the run, the duration is 0.
            object.number("last_duration", micros.max(0) / MICROS_PER_SEC);
        }
        write_fields(&mut object, &fields::PING_RULE_FIELDS, settings);
        if members == CheckMembers::Changed {
            let is_searched = settings.filters.subject;
            let searched = |keywords| if is_searched { keywords } else { "" };
            object.text("subject", searched(settings.success_kw.as_str()));
            object.text("subject_fail", searched(settings.failure_kw.as_str()));
        }
        write_fields(&mut object, &fields::KEYWORD_FIELDS, settings);
        self.write_urls(&mut object, check, channels);
        write_fields(&mut object, &fields::TIME_FIELDS, settings);
        write_fields(&mut object, &fields::LIMIT_FIELDS, settings);
        object.end();
    }

    /// Writes the URLs of a check and its channels. A read-only key gets the unique key in place of
    /// all members that contain the UUID.
    fn write_urls(&self, object: &mut JsonObject<'_>, check: &Check, channels: &ChannelMap) {
        let badge = BadgePath::Check {
            states: BadgeStates::Two,
            badge: check.badge,
            format: BadgeFormat::Svg,
        };
        self.write_url(object, "badge_url", |out| badge.write(out));
        if self.is_read_only {
            object.unescaped("unique_key", |out| {
                write_display(UniqueKey::of_check(check.uuid), out);
            });
            return;
        }
        object.unescaped("uuid", |out| write_uuid(check.uuid, out));
        let ping = PingPath::Uuid(check.uuid, PingAction::Success);
        self.write_url(object, "ping_url", |out| ping.write(out));
        for (name, resource) in [
            ("update_url", ApiResource::Check(check.uuid)),
            ("pause_url", ApiResource::Pause(check.uuid)),
            ("resume_url", ApiResource::Resume(check.uuid)),
        ] {
            let endpoint = Endpoint::new(self.version, resource);
            self.write_url(object, name, |out| endpoint.write(out));
        }
        object.unescaped("channels", |out| write_channels(out, check, channels));
    }

    fn write_url(
        &self,
        object: &mut JsonObject<'_>,
        name: &str,
        write_path: impl FnOnce(&mut String),
    ) {
        object.unescaped(name, |out| {
            out.push_str(self.base_url.as_str());
            write_path(out);
        });
    }

    /// Returns the status. Version 1 shows `started` for a check that is running and not overdue.
    fn status_word(&self, check: &Check, now: Timestamp) -> &'static str {
        let overdue = |run: OngoingRun| now >= run.start.plus_secs(check.settings.grace.get());
        match check.state.run {
            Some(run) if self.version == ApiVersion::V1 && !overdue(run) => "started",
            _ => check.state.visible_status(&check.settings, now).name(),
        }
    }

    /// Writes pings of a check, given newest first.
    pub(crate) fn write_pings(&self, out: &mut String, check: Uuid, newest_first: &[Ping]) {
        let pings = newest_first.iter().zip(ping::run_durations(newest_first));
        write_array(out, pings, |(ping, duration), out| {
            self.write_ping(out, check, ping, duration);
        });
    }

    fn write_ping(&self, out: &mut String, check: Uuid, ping: &Ping, duration: Option<i64>) {
        let PingOrigin {
            scheme,
            method,
            remote_addr,
            user_agent: ua,
        } = &ping.origin;
        let mut object = JsonObject::begin(out);
        object
            .text("type", ping.kind.name())
            .unescaped("date", |out| ping.at.write_rfc3339_micros(out))
            .number("n", ping.n);
        object.text("scheme", scheme.name()).unescaped_or_null(
            "remote_addr",
            *remote_addr,
            write_display,
        );
        object
            .text("method", method.name())
            .text("ua", ua)
            .unescaped_or_null("rid", ping.rid, write_uuid);
        if let Some(micros) = duration {
            // Seconds with two decimals.
            let hundredths = (micros.max(0) + MICROS_PER_SEC / 200) / (MICROS_PER_SEC / 100);
            object.member("duration", |out| {
                write_display(
                    format_args!("{}.{:02}", hundredths / 100, hundredths % 100),
                    out,
                );
            });
        }
        object.unescaped_or_null(
            "body_url",
            (ping.body_len > 0).then_some(ping.n),
            |n, out| {
                out.push_str(self.base_url.as_str());
                Endpoint::new(self.version, ApiResource::PingBody(check, PingNumber(n))).write(out);
            },
        );
        object.end();
    }
}

/// Writes the fields that have a meaning in the settings.
fn write_fields(object: &mut JsonObject<'_>, fields: &[&CheckField], settings: &CheckSettings) {
    for field in fields {
        // Matched where it is: moving each value of a long list costs a tenth of its time.
        match &field.used_value(settings) {
            Some(CheckFieldValue::Text(text)) => object.text(field.name, text),
            Some(CheckFieldValue::Number(number)) => object.number(field.name, *number),
            Some(CheckFieldValue::Flag(flag)) => object.boolean(field.name, *flag),
            None => continue,
        };
    }
}

/// Writes the UUIDs of a check's channels, sorted, separated by commas.
fn write_channels(out: &mut String, check: &Check, channels: &ChannelMap) {
    let uuids = check
        .settings
        .channels
        .iter()
        .filter_map(|id| channels.get(id))
        .map(|channel| channel.uuid);
    // UUIDs have the same order as their texts.
    let mut uuids: Vec<_> = uuids.collect();
    uuids.sort_unstable();
    for (index, uuid) in uuids.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_uuid(uuid, out);
    }
}

/// Writes a channel without its settings.
pub(crate) fn write_channel(out: &mut String, channel: &Channel) {
    let mut object = JsonObject::begin(out);
    object
        .unescaped("id", |out| write_uuid(channel.uuid, out))
        .text("name", channel.name.as_str())
        .text("kind", channel.settings.kind().name);
    object.end();
}

/// Writes a flip to up or down.
pub(crate) fn write_flip(out: &mut String, at: Timestamp, direction: FlipDirection) {
    let mut object = JsonObject::begin(out);
    object
        .unescaped("timestamp", |out| at.write_rfc3339_secs(out))
        .number("up", u8::from(direction == FlipDirection::Up));
    object.end();
}

#[cfg(test)]
mod tests;
