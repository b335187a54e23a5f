//! Frame with changes as sent to pages: the same text for all clients, whatever their filter, time
//! zone or page. Pure.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;

use super::snapshot::StatusCounts;
use crate::domain::check::Check;
use crate::domain::ids::CheckId;
use crate::domain::timestamp::Timestamp;
use crate::http::dashboard::check_list::{DisplayStatus, Next, last_run_duration};

/// Maximum number of rows in a frame. Above it, each page requests the rows that it shows. See
/// [limits](crate::docs::limits).
pub(super) const MAX_ROWS: usize = 250;

/// Content of a frame.
#[derive(Debug)]
pub(super) struct FrameDraft {
    pub(super) now: Timestamp,
    /// Number of checks with each status, if known.
    pub(super) counts: Option<StatusCounts>,
    /// Changed checks, as rows of a list.
    pub(super) rows: Vec<(CheckId, String)>,
    /// Checks that are new or have new settings: clients have to request their rows.
    pub(super) edited: Vec<CheckId>,
    pub(super) deleted: Vec<CheckId>,
    /// True if everything may have changed.
    pub(super) reload_all: bool,
}

/// A frame, ready to be sent.
#[derive(Debug)]
pub(super) struct UpdateFrame {
    pub(super) number: u64,
    /// The event (HTML Standard, section 9.2).
    pub(super) event: Bytes,
    /// Range of its data.
    data: Range<usize>,
    /// Checks in the frame, sorted. `None`: all.
    checks: Option<Box<[CheckId]>>,
}

/// Row of a check as JSON: `[17,"down",1795163402,"11 min","e",1795163402,"5555555d"]`. The
/// elements are its id, its status, its last ping, the duration of that run, its next event with
/// the time, and its last outcomes.
pub(super) fn row_json(check: &Check, now: Timestamp) -> String {
    let settings = &check.settings;
    let state = &check.state;
    let shown =
        DisplayStatus::from_status(state.visible_status(settings, now), state.run.is_some());
    let (waits, at) = match Next::of(shown, check, now) {
        Next::Nothing => ("", None),
        Next::Expected(at) => ("e", Some(at)),
        Next::Overdue(at) => ("o", Some(at)),
        Next::Running(at) => ("r", Some(at)),
    };
    let secs =
        |at: Option<Timestamp>| at.map_or_else(|| "null".to_owned(), |at| at.secs().to_string());
    let id = check.id.0;
    let last = secs(state.last_ping);
    let took = last_run_duration(state).unwrap_or_default();
    let bits = state.outcomes.bits();
    // No element contains untrusted text, so nothing has to be escaped.
    format!(
        r#"[{id},"{}",{last},"{took}","{waits}",{},"{bits:x}"]"#,
        shown.name(),
        secs(at)
    )
}

impl FrameDraft {
    /// Empty draft.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            now,
            counts: None,
            rows: Vec::new(),
            edited: Vec::new(),
            deleted: Vec::new(),
            reload_all: false,
        }
    }

    /// True if there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.edited.is_empty()
            && self.deleted.is_empty()
            && !self.reload_all
    }

    /// Builds the frame of this number.
    pub(super) fn into_frame(mut self, epoch: u32, number: u64) -> UpdateFrame {
        self.reload_all |= self.rows.len() + self.edited.len() + self.deleted.len() > MAX_ROWS;
        let mut text = format!("id: {}\nevent: checks\ndata: ", frame_id(epoch, number));
        let from = text.len();
        self.write_json(&mut text);
        let data = from..text.len();
        text.push_str("\n\n");
        let touched = (!self.reload_all).then(|| {
            let ids = self
                .rows
                .iter()
                .map(|(id, _)| id)
                .chain(&self.edited)
                .chain(&self.deleted);
            let mut ids: Vec<_> = ids.copied().collect();
            ids.sort_unstable();
            ids.into()
        });
        UpdateFrame {
            number,
            event: text.into(),
            data,
            checks: touched,
        }
    }

    fn write_json(&self, out: &mut String) {
        let ids = |ids: &[CheckId]| {
            ids.iter()
                .map(|id| id.0.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        // Writing to memory does not fail.
        let _ = write!(out, "{{\"now\":{}", self.now.secs());
        if let Some(counts) = self.counts {
            let counts = DisplayStatus::ALL
                .iter()
                .zip(counts)
                .map(|(shown, count)| format!("\"{}\":{count}", shown.name()));
            let _ = write!(
                out,
                ",\"counts\":{{{}}}",
                counts.collect::<Vec<_>>().join(",")
            );
        }
        if self.reload_all {
            out.push_str(",\"whole\":true}");
            return;
        }
        let rows = self
            .rows
            .iter()
            .map(|(_, row)| row.as_str())
            .collect::<Vec<_>>()
            .join(",");
        let _ = write!(
            out,
            r#","rows":[{rows}],"edited":[{}],"gone":[{}]}}"#,
            ids(&self.edited),
            ids(&self.deleted)
        );
    }
}

impl UpdateFrame {
    /// Data of the event, as JSON.
    pub(super) fn data(&self) -> &[u8] {
        self.event.get(self.data.clone()).unwrap_or_default()
    }

    /// True if the frame contains this check.
    pub(super) fn concerns(&self, id: CheckId) -> bool {
        self.checks
            .as_ref()
            .is_none_or(|touched| touched.binary_search(&id).is_ok())
    }
}

/// Id of a frame in events and URLs: the epoch of its hub, and its number.
pub(super) fn frame_id(epoch: u32, number: u64) -> String {
    format!("{epoch:08x}.{number}")
}

/// Parses the output of [`frame_id`].
pub(super) fn parse_frame_id(text: &str) -> Option<(u32, u64)> {
    let (epoch, number) = text.split_once('.')?;
    let is_hex = epoch.len() == 8 && epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((
        u32::from_str_radix(epoch, 16).ok().filter(|_| is_hex)?,
        number.parse().ok()?,
    ))
}

/// Event that reports a change of a single check, without details.
pub(super) fn check_changed_event(epoch: u32, number: u64) -> Bytes {
    format!(
        "id: {}\nevent: checks\ndata: {{}}\n\n",
        frame_id(epoch, number)
    )
    .into()
}

/// Event that reports that everything may have changed.
pub(super) fn reload_all_event(epoch: u32, number: u64) -> Bytes {
    format!(
        "id: {}\nevent: checks\ndata: {{\"whole\":true}}\n\n",
        frame_id(epoch, number)
    )
    .into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::check::CheckState;
    use crate::domain::ids::ProjectId;
    use crate::domain::ping::PingKind;
    use crate::util::random::Random;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_168_800 + secs)
    }

    fn check() -> Check {
        let random = Random::seeded(1);
        let id = CheckId(17);
        let state = CheckState::new(at(0));
        Check {
            id,
            uuid: random.uuid(),
            badge: random.uuid(),
            project: ProjectId(1),
            settings: Arc::default(),
            state,
            alerted_labels: None,
        }
    }

    #[test]
    fn a_row_contains_the_values_that_a_list_shows() {
        let settings = check().settings;
        let mut check = check();
        assert_eq!(row_json(&check, at(0)), r#"[17,"new",null,"","",null,"0"]"#);
        check.state.apply_ping(
            &settings,
            PingKind::Start.into(),
            None,
            at(10),
            &mut Vec::new(),
        );
        assert_eq!(
            row_json(&check, at(11)),
            r#"[17,"running",null,"","r",1795168810,"0"]"#
        );
        check.state.apply_ping(
            &settings,
            PingKind::Success.into(),
            None,
            at(190),
            &mut Vec::new(),
        );
        assert_eq!(
            row_json(&check, at(191)),
            r#"[17,"up",1795168990,"3 minutes","e",1795255390,"1"]"#
        );
        assert_eq!(
            row_json(&check, at(190 + 86_400)),
            r#"[17,"late",1795168990,"3 minutes","o",1795255390,"1"]"#
        );
        check.state.apply_ping(
            &settings,
            PingKind::Fail.into(),
            None,
            at(200),
            &mut Vec::new(),
        );
        assert_eq!(
            row_json(&check, at(201)),
            r#"[17,"down",1795169000,"","",null,"6"]"#
        );
    }

    #[test]
    fn a_frame_is_an_event_with_the_changes() {
        let mut draft = FrameDraft::new(at(5));
        assert!(draft.is_empty());
        draft.counts = Some([1, 0, 0, 2, 0, 0]);
        draft.rows.push((CheckId(17), row_json(&check(), at(5))));
        draft.edited.push(CheckId(4));
        draft.deleted.extend([CheckId(9), CheckId(2)]);
        let frame = draft.into_frame(0xab, 7);
        let data = concat!(
            r#"{"now":1795168805,"counts":{"down":1,"late":0,"running":0,"#,
            r#""up":2,"new":0,"paused":0},"#,
            r#""rows":[[17,"new",null,"","",null,"0"]],"edited":[4],"gone":[9,2]}"#
        );
        assert_eq!(frame.data(), data.as_bytes());
        assert_eq!(
            frame.event,
            format!("id: 000000ab.7\nevent: checks\ndata: {data}\n\n")
        );
        assert_eq!(
            [17, 4, 9, 2, 3].map(|id| frame.concerns(CheckId(id))),
            [true, true, true, true, false]
        );
    }

    #[test]
    fn a_frame_with_too_many_rows_reports_that_everything_changed() {
        let mut draft = FrameDraft::new(at(5));
        draft.rows = vec![(CheckId(1), row_json(&check(), at(5))); MAX_ROWS + 1];
        let frame = draft.into_frame(1, 2);
        assert_eq!(frame.data(), br#"{"now":1795168805,"whole":true}"#);
        assert!(frame.concerns(CheckId(5)));
    }

    #[test]
    fn a_written_frame_id_is_parsed_as_the_same_id() {
        for (epoch, number) in [(0, 0), (u32::MAX, u64::MAX), (0x5f0c_21aa, 1042)] {
            assert_eq!(
                parse_frame_id(&frame_id(epoch, number)),
                Some((epoch, number))
            );
        }
        for text in [
            "",
            ".",
            "5f0c21aa",
            "5f0c21aa.",
            "5f0c21aa.-1",
            "+f0c21aa.1",
            "5f0c21aa1.1",
            "x.1",
        ] {
            assert_eq!(parse_frame_id(text), None, "{text}");
        }
    }
}
