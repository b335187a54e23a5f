//! Flips from the API of a Healthchecks server. It lists every status change, including pauses and
//! resumes, but shows only whether the check is up afterwards.

use serde_json::{Value as Json, json};

use super::dumpdata_rows::CheckLogSummary;

/// An entry of the list of flips.
struct ListedFlip {
    timestamp: Json,
    secs: i64,
    is_up: bool,
}

/// Returns the flips of the check with this number, oldest first, as rows of a dump. The additional
/// field `guessed`, which no database has, is true if the statuses are inferred.
///
/// An overdue server responds with an array of flips that are only between up and down. A
/// Healthchecks server wraps the array in an object and lists every change.
///
/// # Errors
/// Returns an error if the response is not such a list, or an entry has no time.
pub(super) fn flip_rows(
    answer: &Json,
    check: &Json,
    owner: u64,
    summary: &mut CheckLogSummary,
) -> Result<Vec<Json>, String> {
    let (list, has_all) = match answer.get("flips") {
        Some(list) => (list, true),
        None => (answer, false),
    };
    let list = list.as_array().ok_or("the response has no list of flips")?;
    let mut listed = Vec::with_capacity(list.len());
    for flip in list.iter().rev() {
        let at = flip.get("timestamp").cloned().unwrap_or_default();
        let secs = summary.record_time(&at)?.secs();
        let is_up = match flip.get("up").and_then(Json::as_u64) {
            Some(1) => true,
            Some(0) => false,
            _ => return Err("a flip is neither up nor down".into()),
        };
        listed.push(ListedFlip {
            timestamp: at,
            secs,
            is_up,
        });
    }
    let statuses = if has_all {
        infer_statuses(&listed, check, summary)
    } else {
        listed.iter().map(|flip| status_after(flip.is_up)).collect()
    };
    let mut before = None;
    let mut rows = Vec::with_capacity(listed.len());
    for (flip, (status, guessed)) in listed.into_iter().zip(statuses) {
        let first = match (flip.is_up, has_all) {
            (false, _) => "up",
            (true, true) => "new",
            (true, false) => "down",
        };
        let old = before.replace(status).unwrap_or(first);
        let reason = if status == "down" && summary.failure_secs.contains(&flip.secs) {
            "fail"
        } else {
            ""
        };
        // The old server has already sent its alerts for this flip, if any were due.
        rows.push(json!({
            "owner": owner,
            "created": flip.timestamp,
            "processed": flip.timestamp,
            "old_status": old,
            "new_status": status,
            "reason": reason,
            "guessed": guessed,
        }));
    }
    summary.status = before;
    Ok(rows)
}

fn status_after(is_up: bool) -> (&'static str, bool) {
    (if is_up { "up" } else { "down" }, false)
}

/// Returns the status after each flip, and true if it is a guess. Down, paused and new look the
/// same in the list. A check cannot go from down to down, so several such flips in a row are pauses
/// and resumes, except one whose cause is in the log.
fn infer_statuses(
    listed: &[ListedFlip],
    check: &Json,
    summary: &CheckLogSummary,
) -> Vec<(&'static str, bool)> {
    let number = |name: &str| check.get(name).and_then(Json::as_i64);
    let timeout = number("timeout");
    let grace = number("grace");
    let before =
        |secs: i64, length: Option<i64>| length.and_then(|length| secs.checked_sub(length));
    let is_overdue = |secs: i64| {
        let allowed = timeout
            .zip(grace)
            .and_then(|(timeout, grace)| timeout.checked_add(grace));
        before(secs, allowed).is_some_and(|end| summary.end_secs.contains(&end))
            || before(secs, grace).is_some_and(|start| summary.start_secs.contains(&start))
    };
    let is_down =
        |flip: &ListedFlip| summary.failure_secs.contains(&flip.secs) || is_overdue(flip.secs);
    let last = check.get("status").and_then(Json::as_str);
    let mut statuses = Vec::with_capacity(listed.len());
    for run in listed.chunk_by(|one, next| one.is_up == next.is_up) {
        let is_last = statuses.len() + run.len() == listed.len();
        // Known status of each flip of the run.
        let mut known_statuses: Vec<Option<&'static str>> = run
            .iter()
            .map(|flip| match flip.is_up {
                true => Some("up"),
                false => is_down(flip).then_some("down"),
            })
            .collect();
        if let ([.., end], false, true) = (
            &mut *known_statuses,
            run.first().is_some_and(|flip| flip.is_up),
            is_last,
        ) {
            // Releases before 2022 log no flip for a pause.
            *end = end.or(match last {
                Some("paused") => Some("paused"),
                Some("new") => Some("new"),
                Some("down") => Some("down"),
                _ => None,
            });
        }
        if let [.., before, Some("new")] = &mut *known_statuses {
            // Only a paused check becomes new.
            *before = Some("paused");
        }
        let mut before = "up";
        for (index, known_status) in known_statuses.iter().enumerate() {
            let next = known_statuses.get(index + 1).copied();
            let status = match (known_status, before, next) {
                (Some(status), ..) => status,
                // A single flip between two up flips is a downtime.
                (None, "up", None | Some(Some("paused"))) => "down",
                (None, "paused", next) if next != Some(Some("new")) => "new",
                (None, ..) => "paused",
            };
            statuses.push((status, known_status.is_none() && status != "down"));
            before = status;
        }
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statuses of flips at intervals of one minute, for a check with a timeout of one
    /// day.
    fn read(ups: &[u8], status: &str, failures: &[i64]) -> Vec<String> {
        let at = |place: usize| format!("2026-11-01T00:{place:02}:00+00:00");
        let list: Vec<_> = ups
            .iter()
            .enumerate()
            .map(|(place, up)| json!({ "timestamp": at(place), "up": up }))
            .rev()
            .collect();
        let mut seen = CheckLogSummary::default();
        let start = seen.record_time(&at(0).into()).unwrap().secs();
        seen.failure_secs
            .extend(failures.iter().map(|minute| start + minute * 60));
        let check = json!({ "status": status, "timeout": 86_400, "grace": 3_600 });
        let rows = flip_rows(&json!({ "flips": list }), &check, 1, &mut seen).unwrap();
        let word = |row: &Json, name: &str| row[name].as_str().unwrap().to_owned();
        let rows = rows.iter().map(|row| {
            let guess = if row["guessed"] == true { "?" } else { "" };
            format!(
                "{}-{}{guess}{}",
                word(row, "old_status"),
                word(row, "new_status"),
                if row["reason"] == "fail" { "!" } else { "" }
            )
        });
        rows.collect()
    }

    /// States of flips, status of the check, flips with a logged failure, and expected flips.
    type Case = (
        &'static [u8],
        &'static str,
        &'static [i64],
        &'static [&'static str],
    );

    #[test]
    fn pauses_are_not_downtimes() {
        let cases: [Case; 10] = [
            (&[1, 0, 1], "up", &[], &["new-up", "up-down", "down-up"]),
            (
                &[1, 0, 0, 1],
                "up",
                &[],
                &["new-up", "up-paused?", "paused-new?", "new-up"],
            ),
            (
                &[1, 0, 0, 1],
                "up",
                &[1],
                &["new-up", "up-down!", "down-paused?", "paused-up"],
            ),
            (
                &[1, 0, 0, 1],
                "grace",
                &[2],
                &["new-up", "up-paused?", "paused-down!", "down-up"],
            ),
            (&[1, 0], "paused", &[], &["new-up", "up-paused"]),
            (
                &[1, 0, 0],
                "paused",
                &[],
                &["new-up", "up-down", "down-paused"],
            ),
            (
                &[1, 0, 0],
                "new",
                &[],
                &["new-up", "up-paused", "paused-new"],
            ),
            (
                &[1, 0, 0, 0, 1],
                "up",
                &[3],
                &[
                    "new-up",
                    "up-paused?",
                    "paused-new?",
                    "new-down!",
                    "down-up",
                ],
            ),
            (
                &[1, 0, 0],
                "down",
                &[],
                &["new-up", "up-paused?", "paused-down"],
            ),
            (&[0, 1], "up", &[0], &["up-down!", "down-up"]),
        ];
        for (ups, status, failures, wanted) in cases {
            assert_eq!(read(ups, status, failures), wanted, "{ups:?} {status}");
        }
    }

    #[test]
    fn a_deadline_that_passed_is_a_downtime() {
        let mut seen = CheckLogSummary::default();
        let check = json!({ "status": "up", "timeout": 60, "grace": 60 });
        let first = seen
            .record_time(&"2026-11-01T00:00:30+00:00".into())
            .unwrap()
            .secs();
        seen.end_secs.insert(first);
        let times = ["00:09:00", "00:08:00", "00:02:30", "00:00:30"];
        let list: Vec<_> = times
            .iter()
            .zip([1, 0, 0, 1])
            .map(|(time, up)| json!({ "timestamp": format!("2026-11-01T{time}+00:00"), "up": up }))
            .collect();
        let rows = flip_rows(&json!({ "flips": list }), &check, 1, &mut seen).unwrap();
        let words: Vec<_> = rows
            .iter()
            .map(|row| row["new_status"].as_str().unwrap())
            .collect();
        assert_eq!(words, ["up", "down", "paused", "up"]);
    }

    #[test]
    fn a_plain_array_of_flips_is_taken_literally() {
        let list = json!([
            { "timestamp": "2026-11-01T00:01:00+00:00", "up": 0 },
            { "timestamp": "2026-11-01T00:00:00+00:00", "up": 1 },
        ]);
        let mut seen = CheckLogSummary::default();
        let rows = flip_rows(&list, &json!({ "status": "paused" }), 1, &mut seen).unwrap();
        assert_eq!(
            (&rows[0]["old_status"], &rows[1]["new_status"], seen.status),
            (&json!("down"), &json!("down"), Some("down"))
        );
        for (answer, part) in [
            (json!({ "flips": 1 }), "no list"),
            (json!({}), "no list"),
            (
                json!([{ "timestamp": "2026-11-01T00:00:00+00:00", "up": 2 }]),
                "neither",
            ),
            (json!({ "flips": [{ "up": 1 }] }), "no time"),
        ] {
            assert!(
                flip_rows(&answer, &json!({}), 1, &mut CheckLogSummary::default())
                    .unwrap_err()
                    .contains(part)
            );
        }
    }
}
