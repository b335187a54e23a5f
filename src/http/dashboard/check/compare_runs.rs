//! Page that shows two runs of a check side by side, with the difference of their outputs.

use askama::Template;
use similar::{ChangeTag, TextDiff};

use super::CheckHeader;
use super::log::{MAX_PINGS_READ, ping_label};
use super::ping_details::{readable_body, visible_part};
use crate::domain::check::Check;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration, format_size};
use crate::domain::ping::{Ping, PingKind, run_durations};
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::http::dashboard::untrusted_text::{self, EscapeHandling};

/// Maximum number of bytes of an output that are compared: see [limits](crate::docs::limits).
const MAX_COMPARED_BYTES: usize = 100_000;
/// Maximum number of lines of an output that are compared: see [limits](crate::docs::limits).
const MAX_COMPARED_LINES: usize = 2_000;
/// Number of equal lines shown before and after a difference.
const CONTEXT_LINES: usize = 3;
/// Maximum number of runs in the menu of the other run.
const MENU_RUNS: usize = 50;

#[derive(Template)]
#[template(path = "compare_runs.html", config = "src/http/dashboard/askama.toml")]
struct CompareRunsPage {
    layout: Layout,
    top: CheckHeader,
    path: String,
    /// The other run and the run of the page.
    runs: [RunColumn; 2],
    /// Runs that can be chosen: number, description, and true for the chosen one.
    choices: Vec<(u64, String, bool)>,
    diff: OutputDiff,
}

/// A run as a column of the table.
struct RunColumn {
    n: u64,
    page: String,
    style: &'static str,
    word: String,
    ended: String,
    took: String,
    exit: String,
    output: String,
}

/// Difference of two outputs.
#[derive(PartialEq, Eq, Debug)]
struct OutputDiff {
    /// Sections of lines around the differences.
    lines: Vec<DiffLine>,
    /// True if only the beginning was compared.
    is_cut: bool,
}

/// Line of a difference.
#[derive(PartialEq, Eq, Debug)]
enum DiffLine {
    /// Only in the output of the other run.
    Removed(String),
    /// Only in the output of the run of the page.
    Added(String),
    /// In both.
    Equal(String),
    /// Description of equal lines that are left out.
    Omitted(String),
}

/// True if an earlier run can be compared with the one that this ping ended.
pub(super) fn has_earlier_run(
    request: &PageRequest,
    check: &Check,
    ping: &Ping,
) -> Result<bool, PageError> {
    if !is_completion(ping) {
        return Ok(false);
    }
    let pings = request.handle().newest_pings(check, MAX_PINGS_READ)?;
    Ok(pings
        .iter()
        .any(|other| other.n < ping.n && is_completion(other)))
}

fn is_completion(ping: &Ping) -> bool {
    matches!(ping.kind, PingKind::Success | PingKind::Fail)
}

/// Compares the run that ping `n` ended with the one in the query, or with the last success before
/// it.
pub(crate) fn show(request: &PageRequest, n: u64) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let pings = request.handle().newest_pings(check, MAX_PINGS_READ)?;
    let durations = run_durations(&pings);
    let runs: Vec<_> = pings
        .iter()
        .zip(durations)
        .filter(|(ping, _)| is_completion(ping))
        .collect();
    let run = runs
        .iter()
        .find(|(ping, _)| ping.n == n)
        .ok_or_else(PageError::not_found)?;
    let others = || runs.iter().filter(|(ping, _)| ping.n != n);
    let chosen = request.query.get("with").parse::<u64>().ok();
    let earlier = || others().filter(|(ping, _)| ping.n < n);
    let other = chosen
        .and_then(|with| others().find(|(ping, _)| ping.n == with))
        .or_else(|| earlier().find(|(ping, _)| ping.kind == PingKind::Success))
        .or_else(|| earlier().next())
        .or_else(|| others().next());
    let Some(other) = other else {
        // There is nothing to compare with.
        return Ok(PageResponse::Redirect(Page::Ping(check.uuid, n), None));
    };
    let times = request.time_formatter();
    let title = format!("Runs {} and {}", other.0.n, n);
    let choices = others()
        .take(MENU_RUNS)
        .map(|(ping, _)| {
            let words = format!("{}: {}, {}", ping.n, ping_label(ping).1, times.at(ping.at));
            (ping.n, words, ping.n == other.0.n)
        })
        .collect();
    let page = CompareRunsPage {
        layout: request.layout(title),
        top: CheckHeader::new(request)?,
        path: request.page_url(&request.page),
        diff: diff_outputs(
            &output_text(request, check, other.0)?,
            &output_text(request, check, run.0)?,
        ),
        runs: [other, run].map(|(ping, took)| run_column(request, check, ping, *took, &times)),
        choices,
    };
    Ok(HtmlPage::from_template(&page).into())
}

fn run_column(
    request: &PageRequest,
    check: &Check,
    ping: &Ping,
    took: Option<i64>,
    times: &TimeFormatter<'_>,
) -> RunColumn {
    let (style, word) = ping_label(ping);
    RunColumn {
        n: ping.n,
        page: request.page_url(&Page::Ping(check.uuid, ping.n)),
        style,
        word,
        ended: times.exact(ping.at),
        took: took.map_or_else(|| "–".into(), format_duration),
        exit: ping
            .exit_status
            .map_or_else(|| "–".into(), |status| status.to_string()),
        output: match ping.body_len {
            0 => "none".into(),
            bytes => format_size(u64::from(bytes)),
        },
    }
}

/// Output of a run as a text that is safe to show.
fn output_text(request: &PageRequest, check: &Check, ping: &Ping) -> Result<String, PageError> {
    let Some(body) = request.handle().body(check, ping.n)? else {
        return Ok(String::new());
    };
    let text = readable_body(ping, &body);
    let text = visible_part(request, check, &text);
    let shown = untrusted_text::sanitize(
        text.as_bytes(),
        MAX_COMPARED_BYTES + 1,
        EscapeHandling::Strip,
    );
    // Removed control characters may have split an address.
    Ok(visible_part(request, check, &shown.text).into_owned())
}

/// Compares two outputs by lines.
fn diff_outputs(old: &str, new: &str) -> OutputDiff {
    let beginning = |text: &str| {
        let lines = text.split_inclusive('\n').take(MAX_COMPARED_LINES);
        let mut bytes = 0;
        let fitting = lines.take_while(|line| {
            bytes += line.len();
            bytes <= MAX_COMPARED_BYTES
        });
        fitting.collect::<String>()
    };
    let old_part = beginning(old);
    let new_part = beginning(new);
    let diff = TextDiff::configure().diff_lines(old_part.as_str(), new_part.as_str());
    let mut lines = Vec::new();
    let omitted = |count: usize| DiffLine::Omitted(format_count(count, "equal line"));
    // Number of lines of the new output that are in `lines` or omitted.
    let mut next = 0;
    for section in diff.grouped_ops(CONTEXT_LINES) {
        let start = section.first().map_or(next, |op| op.new_range().start);
        if start > next {
            lines.push(omitted(start - next));
        }
        for op in &section {
            for change in diff.iter_changes(op) {
                let text = change.value().trim_end_matches('\n').to_owned();
                lines.push(match change.tag() {
                    ChangeTag::Equal => DiffLine::Equal(text),
                    ChangeTag::Delete => DiffLine::Removed(text),
                    ChangeTag::Insert => DiffLine::Added(text),
                });
            }
            next = op.new_range().end;
        }
    }
    let rest = new_part.split_inclusive('\n').count().saturating_sub(next);
    if rest > 0 {
        lines.push(omitted(rest));
    }
    OutputDiff {
        lines,
        is_cut: old_part.len() < old.len() || new_part.len() < new.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn differences_are_shown_with_three_lines_around_them() {
        let lines = |from: u32, changed: &str| {
            let line = |n: u32| match n {
                10 => changed.to_owned(),
                n => format!("line {n}"),
            };
            (from..30).map(line).collect::<Vec<_>>().join("\n")
        };
        let diff = diff_outputs(&lines(0, "ok"), &lines(0, "failed"));
        let mut expected = vec![DiffLine::Omitted("7 equal lines".into())];
        expected.extend((7..10).map(|n| DiffLine::Equal(format!("line {n}"))));
        expected.push(DiffLine::Removed("ok".into()));
        expected.push(DiffLine::Added("failed".into()));
        expected.extend((11..14).map(|n| DiffLine::Equal(format!("line {n}"))));
        expected.push(DiffLine::Omitted("16 equal lines".into()));
        assert_eq!(diff.lines, expected);
        assert!(!diff.is_cut);
        let same = diff_outputs("a\nb\n", "a\nb\n");
        assert_eq!(same.lines, [DiffLine::Omitted("2 equal lines".into())]);
        assert_eq!(diff_outputs("", "").lines, []);
        assert!(diff_outputs(&"a\n".repeat(3000), "a").is_cut);
    }

    proptest! {
        #[test]
        fn the_lines_contain_every_change(
            old in "([ab]\n){0,40}",
            new in "([ab]\n){0,40}",
        ) {
            let diff = diff_outputs(&old, &new);
            let count = |is_kind: fn(&DiffLine) -> bool| {
                diff.lines.iter().filter(|line| is_kind(line)).count()
            };
            let removed = count(|line| matches!(line, DiffLine::Removed(_)));
            let added = count(|line| matches!(line, DiffLine::Added(_)));
            let [old, new] = [&old, &new].map(|text| text.lines().count());
            prop_assert_eq!(old + added, new + removed);
        }
    }
}
