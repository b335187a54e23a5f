//! Metrics of the checks of a project, or of all projects, under the names that dashboards and
//! rules for Healthchecks expect, and three more. They are written in parts, one metric after the
//! other: each metric reads all checks again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::channels::alert_text::check_display_name;
use crate::domain::check::Check;
use crate::domain::ids::{ProjectId, UniqueKey};
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::Handle;
use crate::http::common::response_body::CHUNK_BYTES;
use crate::operations::check::{self, CheckDetails, CheckListCursor};

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

/// Checks that a text covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricsScope {
    /// Checks of a project, with the labels of Healthchecks.
    Project(ProjectId),
    /// All checks, with their project and slug.
    AllProjects,
}

/// Numbers of checks of a project.
#[derive(Clone, Copy, Default)]
struct CheckCounts {
    all: u64,
    down: u64,
}

/// Name, help text, and a function for the value.
type CountMetric = (&'static str, &'static str, fn(&CheckCounts) -> u64);

/// Label of a project in samples; `None` if the text is of one project.
type ProjectLabel = Option<Box<str>>;

/// Writer of the metrics text, with its progress.
pub(super) struct CheckMetricsText {
    handle: Handle,
    scope: MetricsScope,
    /// Time at which all values are taken.
    now: Timestamp,
    /// Index of the metric that is being written, and the position after the last written check.
    metric: usize,
    position: Option<CheckListCursor>,
    /// For each tag of a project, true if all checks with the tag are up.
    tags: BTreeMap<(ProjectLabel, Box<str>), bool>,
    counts: BTreeMap<ProjectLabel, CheckCounts>,
    has_begun_tags: bool,
}

impl CheckMetricsText {
    pub(super) fn new(handle: Handle, scope: MetricsScope) -> Self {
        let now = handle.now();
        let mut counts = BTreeMap::new();
        if scope != MetricsScope::AllProjects {
            // A project without checks has 0 of them.
            counts.insert(None, CheckCounts::default());
        }
        Self {
            handle,
            scope,
            now,
            metric: 0,
            position: None,
            tags: BTreeMap::new(),
            counts,
            has_begun_tags: false,
        }
    }

    /// Writes the next part. Returns false if it was the last one.
    pub(super) fn write(&mut self, out: &mut String) -> bool {
        let project = match self.scope {
            MetricsScope::Project(project) => Some(project),
            MetricsScope::AllProjects => None,
        };
        while let Some((name, help, value)) = CHECK_METRICS.get(self.metric) {
            if self.position.is_none() {
                write_header(out, name, help);
            }
            let page = check::list_page(&self.handle, project, self.position, CHECKS_PER_BATCH);
            for details in &page.0 {
                if self.metric == 0 {
                    self.count(details);
                }
                if let Some(value) = value(&details.check, self.now) {
                    write_sample(out, name, details, self.scope, &value);
                }
            }
            self.position = page.1;
            if self.position.is_none() {
                self.metric += 1;
            }
            if out.len() >= CHUNK_BYTES {
                return true;
            }
        }
        self.write_tags(out)
    }

    fn project_label(&self, details: &CheckDetails) -> ProjectLabel {
        match self.scope {
            MetricsScope::Project(_) => None,
            MetricsScope::AllProjects => Some(details.project.name.as_str().into()),
        }
    }

    fn count(&mut self, details: &CheckDetails) {
        let check = &details.check;
        let is_up = visible_status(check, self.now) != VisibleStatus::Down;
        let project = self.project_label(details);
        let counts = self.counts.entry(project.clone()).or_default();
        counts.all += 1;
        counts.down += u64::from(!is_up);
        for tag in check.settings.tags.as_str().split_whitespace() {
            let key = (project.clone(), tag.into());
            if let Some(all) = self.tags.get_mut(&key) {
                *all &= is_up;
            } else if self.tags.len() < MAX_TAGS {
                self.tags.insert(key, is_up);
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
        while let Some(((project, tag), is_up)) = self.tags.pop_first() {
            out.push_str("hc_tag_up{");
            if let Some(project) = project {
                write_label(out, "project", &project);
                out.push(',');
            }
            write_label(out, "tag", &tag);
            out.push_str(if is_up { "} 1\n" } else { "} 0\n" });
            if out.len() >= CHUNK_BYTES {
                return true;
            }
        }
        let totals: [CountMetric; 2] = [
            ("hc_checks_total", "Number of checks.", |counts| counts.all),
            (
                "hc_checks_down_total",
                "Number of checks that are down.",
                |counts| counts.down,
            ),
        ];
        for (name, help, value) in totals {
            write_header(out, name, help);
            for (project, counts) in &self.counts {
                out.push_str(name);
                if let Some(project) = project {
                    out.push('{');
                    write_label(out, "project", project);
                    out.push('}');
                }
                // Writing to a string does not fail.
                let _ = writeln!(out, " {}", value(counts));
            }
        }
        false
    }
}

fn write_header(out: &mut String, name: &str, help: &str) {
    out.extend(["# HELP ", name, " ", help, "\n# TYPE ", name, " gauge\n"]);
}

fn write_sample(
    out: &mut String,
    name: &str,
    details: &CheckDetails,
    scope: MetricsScope,
    value: &MetricValue,
) {
    let settings = &details.check.settings;
    out.extend([name, "{"]);
    match scope {
        MetricsScope::Project(_) => write_label(out, "name", settings.name.as_str()),
        MetricsScope::AllProjects => {
            write_label(out, "project", details.project.name.as_str());
            out.push(',');
            write_label(out, "name", &check_display_name(settings));
            out.push(',');
            write_label(out, "slug", settings.slug.as_str());
        }
    }
    out.push(',');
    write_label(out, "tags", settings.tags.as_str());
    let key = UniqueKey::of_check(details.check.uuid);
    // Writing to a string does not fail.
    let _ = match value {
        MetricValue::Bool(value) => writeln!(out, ",unique_key=\"{key}\"}} {}", u8::from(*value)),
        MetricValue::Micros(micros) => {
            writeln!(
                out,
                ",unique_key=\"{key}\"}} {}.{:06}",
                micros.div_euclid(MICROS_PER_SEC),
                micros.rem_euclid(MICROS_PER_SEC)
            )
        }
    };
}

fn write_label(out: &mut String, name: &str, value: &str) {
    out.extend([name, "=\""]);
    write_escaped(out, value);
    out.push('"');
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
