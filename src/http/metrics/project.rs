//! The metrics of a project under the names that dashboards and rules for Healthchecks expect, and three more. They are written piece by
//! piece, one metric after the other: each is another look at all checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId, UniqueKey};
use crate::domain::moment::{MICROS, Moment};
use crate::domain::status::VisibleStatus;
use crate::engine::Handle;
use crate::wire::outgoing::PIECE;

/// Checks that are copied at once.
const AT_ONCE: usize = 100;
/// Tags that are told of; others are left out. See [limits](crate::docs::limits).
const MOST_TAGS: usize = 10_000;

/// A value of a check in microseconds or whole numbers.
enum Value {
    Is(bool),
    Micros(i64),
}

/// Name, help, and the value of a check; `None`: it has none.
type Metric = (&'static str, &'static str, fn(&Check, Moment) -> Option<Value>);

const METRICS: [Metric; 7] = [
    ("hc_check_up", "Whether the check is not down (1 for yes, 0 for no).", |check, now| is(shown(check, now) != VisibleStatus::Down)),
    ("hc_check_started", "Whether a run is going on (1 for yes, 0 for no).", |check, _| is(check.state.run.is_some())),
    ("hc_check_grace", "Whether the check is late (1 for yes, 0 for no).", |check, now| is(shown(check, now) == VisibleStatus::Grace)),
    ("hc_check_paused", "Whether the check is paused (1 for yes, 0 for no).", |check, now| is(shown(check, now) == VisibleStatus::Paused)),
    ("overdue_check_last_ping_timestamp_seconds", "When the check was last pinged.", |check, _| {
        check.state.last_ping.map(|at| Value::Micros(at.micros()))
    }),
    ("overdue_check_last_duration_seconds", "How long the last run took that was measured.", |check, _| {
        check.state.last_duration.map(|micros| Value::Micros(micros.max(0)))
    }),
    ("overdue_check_deadline_timestamp_seconds", "When the check goes down unless it is pinged.", |check, _| {
        check.state.deadline(&check.settings).map(|at| Value::Micros(at.micros()))
    }),
];

#[allow(clippy::unnecessary_wraps, reason = "other values may be missing")]
fn is(value: bool) -> Option<Value> {
    Some(Value::Is(value))
}

fn shown(check: &Check, now: Moment) -> VisibleStatus {
    check.state.visible_status(&check.settings, now)
}

/// The text, as far as it is written.
pub(super) struct ProjectText {
    handle: Handle,
    project: ProjectId,
    /// All values are those of this moment.
    now: Moment,
    /// The metric that is being written, and the check that was written last.
    metric: usize,
    last: Option<CheckId>,
    /// Whether all checks with the tag are up.
    tags: BTreeMap<Box<str>, bool>,
    checks: u64,
    down: u64,
    tags_are_begun: bool,
}

impl ProjectText {
    pub(super) fn new(handle: Handle, project: ProjectId) -> Self {
        let now = handle.now();
        Self { handle, project, now, metric: 0, last: None, tags: BTreeMap::new(), checks: 0, down: 0, tags_are_begun: false }
    }

    /// Writes the next part; false: it was the last one.
    pub(super) fn write(&mut self, out: &mut String) -> bool {
        while let Some((name, help, value)) = METRICS.get(self.metric) {
            let checks = self.handle.some_checks(self.project, self.last, AT_ONCE);
            if self.last.is_none() {
                describe(out, name, help);
            }
            for check in &checks {
                if self.metric == 0 {
                    self.count(check);
                }
                if let Some(value) = value(check, self.now) {
                    write_line(out, name, check, &value);
                }
            }
            self.last = checks.last().map(|check| check.id);
            if checks.len() < AT_ONCE {
                (self.metric, self.last) = (self.metric + 1, None);
            }
            if out.len() >= PIECE {
                return true;
            }
        }
        self.write_tags(out)
    }

    fn count(&mut self, check: &Check) {
        let is_up = shown(check, self.now) != VisibleStatus::Down;
        self.checks += 1;
        self.down += u64::from(!is_up);
        for tag in check.settings.tags.as_str().split_whitespace() {
            if let Some(all) = self.tags.get_mut(tag) {
                *all &= is_up;
            } else if self.tags.len() < MOST_TAGS {
                self.tags.insert(tag.into(), is_up);
            }
        }
    }

    fn write_tags(&mut self, out: &mut String) -> bool {
        if !std::mem::replace(&mut self.tags_are_begun, true) {
            describe(out, "hc_tag_up", "Whether no check with this tag is down (1 for yes, 0 for no).");
        }
        while let Some((tag, is_up)) = self.tags.pop_first() {
            out.push_str("hc_tag_up{tag=\"");
            escape(out, &tag);
            out.push_str(if is_up { "\"} 1\n" } else { "\"} 0\n" });
            if out.len() >= PIECE {
                return true;
            }
        }
        for (name, help, value) in [
            ("hc_checks_total", "How many checks there are.", self.checks),
            ("hc_checks_down_total", "How many of them are down.", self.down),
        ] {
            describe(out, name, help);
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name} {value}");
        }
        false
    }
}

fn describe(out: &mut String, name: &str, help: &str) {
    out.extend(["# HELP ", name, " ", help, "\n# TYPE ", name, " gauge\n"]);
}

fn write_line(out: &mut String, name: &str, check: &Check, value: &Value) {
    out.extend([name, "{name=\""]);
    escape(out, check.settings.name.as_str());
    out.push_str("\",tags=\"");
    escape(out, check.settings.tags.as_str());
    let key = UniqueKey::of(check.uuid);
    // Writing to a string does not fail.
    let _ = match value {
        Value::Is(value) => writeln!(out, "\",unique_key=\"{key}\"}} {}", u8::from(*value)),
        Value::Micros(micros) => {
            writeln!(out, "\",unique_key=\"{key}\"}} {}.{:06}", micros.div_euclid(MICROS), micros.rem_euclid(MICROS))
        }
    };
}

/// Writes the value of a label: backslashes, quotes and ends of lines would end it.
fn escape(out: &mut String, value: &str) {
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
    fn labels_end_where_they_should() {
        let mut out = String::new();
        escape(&mut out, "a\\b\"c\nd é");
        assert_eq!(out, "a\\\\b\\\"c\\nd é");
    }
}
