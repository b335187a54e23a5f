//! Metrics of a project under the names that dashboards and rules for Healthchecks expect, and
//! three more. They are written in parts, one metric after the other: each metric reads all checks
//! again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId, UniqueKey};
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::Handle;
use crate::http::common::response_body::CHUNK_BYTES;

/// Number of checks that are copied at once.
const CHECKS_PER_BATCH: usize = 100;
/// Maximum number of tags; others are left out. See [limits](crate::docs::limits).
const MAX_TAGS: usize = 10_000;

/// Value of a check: a boolean, or a time in microseconds.
enum MetricValue {
    Bool(bool),
    Micros(i64),
}

/// Name, help text, and a function for the value of a check; `None` if it has none.
type CheckMetric = (
    &'static str,
    &'static str,
    fn(&Check, Timestamp) -> Option<MetricValue>,
);

const CHECK_METRICS: [CheckMetric; 7] = [
    (
        "hc_check_up",
        "Whether the check is not down (1 for yes, 0 for no).",
        |check, now| bool_value(visible_status(check, now) != VisibleStatus::Down),
    ),
    (
        "hc_check_started",
        "Whether a run is in progress (1 for yes, 0 for no).",
        |check, _| bool_value(check.state.run.is_some()),
    ),
    (
        "hc_check_grace",
        "Whether the check is late (1 for yes, 0 for no).",
        |check, now| bool_value(visible_status(check, now) == VisibleStatus::Grace),
    ),
    (
        "hc_check_paused",
        "Whether the check is paused (1 for yes, 0 for no).",
        |check, now| bool_value(visible_status(check, now) == VisibleStatus::Paused),
    ),
    (
        "overdue_check_last_ping_timestamp_seconds",
        "Time of the last ping.",
        |check, _| {
            check
                .state
                .last_ping
                .map(|at| MetricValue::Micros(at.micros()))
        },
    ),
    (
        "overdue_check_last_duration_seconds",
        "Duration of the last measured run.",
        |check, _| {
            check
                .state
                .last_duration
                .map(|micros| MetricValue::Micros(micros.max(0)))
        },
    ),
    (
        "overdue_check_deadline_timestamp_seconds",
        "Time at which the check goes down unless it is pinged.",
        |check, _| {
            check
                .state
                .deadline(&check.settings)
                .map(|at| MetricValue::Micros(at.micros()))
        },
    ),
];

#[allow(clippy::unnecessary_wraps, reason = "other values may be missing")]
fn bool_value(value: bool) -> Option<MetricValue> {
    Some(MetricValue::Bool(value))
}

fn visible_status(check: &Check, now: Timestamp) -> VisibleStatus {
    check.state.visible_status(&check.settings, now)
}

/// Writer of the metrics text, with its progress.
pub(super) struct ProjectMetricsText {
    handle: Handle,
    project: ProjectId,
    /// Time at which all values are taken.
    now: Timestamp,
    /// Index of the metric that is being written, and the check that was written last.
    metric: usize,
    last_check: Option<CheckId>,
    /// For each tag, true if all checks with the tag are up.
    tags: BTreeMap<Box<str>, bool>,
    checks: u64,
    down: u64,
    has_begun_tags: bool,
}

impl ProjectMetricsText {
    pub(super) fn new(handle: Handle, project: ProjectId) -> Self {
        let now = handle.now();
        Self {
            handle,
            project,
            now,
            metric: 0,
            last_check: None,
            tags: BTreeMap::new(),
            checks: 0,
            down: 0,
            has_begun_tags: false,
        }
    }

    /// Writes the next part. Returns false if it was the last one.
    pub(super) fn write(&mut self, out: &mut String) -> bool {
        while let Some((name, help, value)) = CHECK_METRICS.get(self.metric) {
            let checks = self
                .handle
                .checks_page(self.project, self.last_check, CHECKS_PER_BATCH);
            if self.last_check.is_none() {
                write_header(out, name, help);
            }
            for check in &checks {
                if self.metric == 0 {
                    self.count(check);
                }
                if let Some(value) = value(check, self.now) {
                    write_sample(out, name, check, &value);
                }
            }
            self.last_check = checks.last().map(|check| check.id);
            if checks.len() < CHECKS_PER_BATCH {
                (self.metric, self.last_check) = (self.metric + 1, None);
            }
            if out.len() >= CHUNK_BYTES {
                return true;
            }
        }
        self.write_tags(out)
    }

    fn count(&mut self, check: &Check) {
        let is_up = visible_status(check, self.now) != VisibleStatus::Down;
        self.checks += 1;
        self.down += u64::from(!is_up);
        for tag in check.settings.tags.as_str().split_whitespace() {
            if let Some(all) = self.tags.get_mut(tag) {
                *all &= is_up;
            } else if self.tags.len() < MAX_TAGS {
                self.tags.insert(tag.into(), is_up);
            }
        }
    }

    fn write_tags(&mut self, out: &mut String) -> bool {
        if !std::mem::replace(&mut self.has_begun_tags, true) {
            write_header(
                out,
                "hc_tag_up",
                "Whether no check with this tag is down (1 for yes, 0 for no).",
            );
        }
        while let Some((tag, is_up)) = self.tags.pop_first() {
            out.push_str("hc_tag_up{tag=\"");
            write_escaped(out, &tag);
            out.push_str(if is_up { "\"} 1\n" } else { "\"} 0\n" });
            if out.len() >= CHUNK_BYTES {
                return true;
            }
        }
        for (name, help, value) in [
            ("hc_checks_total", "Number of checks.", self.checks),
            (
                "hc_checks_down_total",
                "Number of checks that are down.",
                self.down,
            ),
        ] {
            write_header(out, name, help);
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name} {value}");
        }
        false
    }
}

fn write_header(out: &mut String, name: &str, help: &str) {
    out.extend(["# HELP ", name, " ", help, "\n# TYPE ", name, " gauge\n"]);
}

fn write_sample(out: &mut String, name: &str, check: &Check, value: &MetricValue) {
    out.extend([name, "{name=\""]);
    write_escaped(out, check.settings.name.as_str());
    out.push_str("\",tags=\"");
    write_escaped(out, check.settings.tags.as_str());
    let key = UniqueKey::of_check(check.uuid);
    // Writing to a string does not fail.
    let _ = match value {
        MetricValue::Bool(value) => writeln!(out, "\",unique_key=\"{key}\"}} {}", u8::from(*value)),
        MetricValue::Micros(micros) => {
            writeln!(
                out,
                "\",unique_key=\"{key}\"}} {}.{:06}",
                micros.div_euclid(MICROS_PER_SEC),
                micros.rem_euclid(MICROS_PER_SEC)
            )
        }
    };
}

/// Writes the value of a label, with backslashes, quotes and line feeds escaped.
fn write_escaped(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = String::new();
        write_escaped(&mut out, "a\\b\"c\nd é");
        assert_eq!(out, "a\\\\b\\\"c\\nd é");
    }
}
