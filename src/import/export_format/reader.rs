//! Reader of an export. It reads the file twice: first it validates everything, then it passes on
//! the logs. Both passes refuse a truncated or altered file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::lines::{self, ExportExtraRow, ExportHeader, ExportLine, ExportTrailer, MAX_LINE_BYTES};
use crate::domain::import_contents::{
    ImportContents, ImportedFlip, ImportedKeySecret, ImportedProject,
};
use crate::domain::import_item::{ImportItem, NumberedFlip, NumberedPing};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::ping::MAX_BODY_BYTES;
use crate::domain::project::{BadgeSecret, KeySecret};
use crate::domain::timestamp::Timestamp;
use crate::import::item_rows::decode_bytes;
use crate::import::report::{ImportReport, ImportTally, LateCheck, ReportRemarks, ReportedKind};
use crate::import::{ImportLogEntry, ImportProgress, ProjectSelection, source};
use crate::util::random::Random;

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Content of a line; for a ping, with its whole body.
enum ExportEntry {
    BadgeSecret(BadgeSecret),
    LegacySecret(LegacySecret),
    Item(ImportItem),
    Flip(NumberedFlip),
    Ping(NumberedPing),
}

/// A validated export.
pub struct ExportReader {
    name: String,
    file: File,
    contents: ExportContents,
    /// Checksum in the last line. Another file that replaced this one meanwhile has a different
    /// checksum.
    checksum: String,
}

impl ExportReader {
    /// Reads a file, or standard input for `-`, to its end. `chosen` are the projects to import; if
    /// empty, all projects and the users.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not what was written, or lacks a selected
    /// project. The message names the line.
    pub fn open(
        path: &Path,
        chosen: &[ProjectSelection],
        random: &Random,
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Self, String> {
        let (name, file) = source::open_rereadable(path, random)?;
        Self::from_file(name, file, chosen, on_progress)
    }

    /// Reads a file that can be read more than once to its end, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(in crate::import) fn from_file(
        name: String,
        mut file: File,
        chosen: &[ProjectSelection],
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Self, String> {
        let mut contents = ExportContents::new(chosen);
        let read = read_lines(
            &mut file,
            &mut |done, total| {
                on_progress(ImportProgress {
                    is_reading_logs: false,
                    done,
                    total,
                });
            },
            &mut |item| contents.add_entry(item).map(ControlFlow::Continue),
        );
        let (head, sum) = read
            .and_then(|read| contents.validate().map(|()| read))
            .map_err(|problem| format!("{name}: {problem}"))?;
        contents.items.newest = Some(Timestamp::from_micros(head.at));
        Ok(Self {
            name,
            file,
            contents,
            checksum: sum.unwrap_or_default(),
        })
    }

    /// Returns the contents without the logs.
    pub fn contents(&self) -> &ImportContents {
        &self.contents.items
    }

    /// Reads the logs and calls `on_entry` with each entry to import, until it breaks.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has changed.
    pub fn read_logs(
        &mut self,
        on_progress: &mut dyn FnMut(ImportProgress),
        on_entry: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let checks = &self.contents.checks;
        let of = |check| checks.get(&check).copied().flatten();
        let read = read_lines(
            &mut self.file,
            &mut |done, total| {
                on_progress(ImportProgress {
                    is_reading_logs: true,
                    done,
                    total,
                });
            },
            &mut |item| {
                let entry = match item {
                    ExportEntry::Flip(NumberedFlip { check, flip }) => of(check.0)
                        .map(|check| ImportLogEntry::OrderedFlip(ImportedFlip { check, flip })),
                    ExportEntry::Ping(ping) => {
                        of(ping.check.0).map(|check| ImportLogEntry::Ping(ping.with_check(check)))
                    }
                    ExportEntry::BadgeSecret(_)
                    | ExportEntry::LegacySecret(_)
                    | ExportEntry::Item(_) => None,
                };
                Ok(entry.map_or(ControlFlow::Continue(()), &mut *on_entry))
            },
        );
        match read {
            Ok((_, Some(sum))) if sum != self.checksum => Err(format!(
                "{}: it was changed while it was being read",
                self.name
            )),
            read => read
                .map(drop)
                .map_err(|problem| format!("{}: {problem}", self.name)),
        }
    }

    /// Returns the contents without the logs, and the report.
    pub fn finish(self, now: Timestamp) -> (ImportContents, ImportReport) {
        let ExportContents {
            items: imported,
            tally,
            ..
        } = self.contents;
        let mut late = Vec::new();
        for project in &imported.projects {
            for check in &project.checks {
                let mut state = check.state;
                state.update_grace_start(&check.settings);
                if state
                    .deadline(&check.settings)
                    .is_some_and(|deadline| deadline <= now)
                {
                    let name = check.settings.display_name(check.uuid);
                    late.push(LateCheck {
                        project: project.name.as_str().to_owned(),
                        name,
                    });
                }
            }
        }
        let remarks = ReportRemarks {
            newest: imported.newest,
            late,
            ..ReportRemarks::default()
        };
        (
            imported,
            ImportReport::new((&self.name, "overdue"), tally, remarks),
        )
    }
}

/// Contents read so far, without the logs.
struct ExportContents {
    selected: Vec<ProjectSelection>,
    /// Positions of the selected projects that were found.
    matched: HashSet<usize>,
    items: ImportContents,
    /// Positions of projects by their numbers in the file; `None` for a project that is not
    /// imported.
    projects: HashMap<u64, Option<usize>>,
    /// UUIDs of checks by their numbers in the file; `None` for a check that is not imported.
    checks: HashMap<u64, Option<Uuid>>,
    tally: ImportTally,
}

/// Reason for leaving out an object.
const NOT_SELECTED: &str = "of projects that are not imported";

impl ExportContents {
    fn new(chosen: &[ProjectSelection]) -> Self {
        let imported = ImportContents::default();
        let tally = ImportTally::default();
        Self {
            selected: chosen.to_vec(),
            matched: HashSet::new(),
            items: imported,
            projects: HashMap::new(),
            checks: HashMap::new(),
            tally,
        }
    }

    fn add_entry(&mut self, item: ExportEntry) -> Result<(), String> {
        match item {
            ExportEntry::BadgeSecret(secret) => self.items.badge_secret = Some(secret),
            ExportEntry::LegacySecret(secret) => self.items.secrets.push(secret),
            ExportEntry::Item(item) => return self.add_item(item),
            ExportEntry::Flip(flip) => {
                let is_included = self.is_check_included(flip.check.0)?;
                self.tally_item(ReportedKind::Flips, is_included);
            }
            ExportEntry::Ping(ping) => {
                let is_included = self.is_check_included(ping.check.0)?;
                self.tally_item(ReportedKind::Pings, is_included);
                if !ping.body.is_empty() {
                    self.tally_item(ReportedKind::Bodies, is_included);
                }
            }
        }
        Ok(())
    }

    fn tally_item(&mut self, kind: ReportedKind, is_included: bool) {
        if is_included {
            self.tally.add_carried(kind, 1);
        } else {
            self.tally.add_dropped(kind, 1, NOT_SELECTED);
        }
    }

    /// True if the check with this number is imported.
    fn is_check_included(&self, check: u64) -> Result<bool, String> {
        self.checks
            .get(&check)
            .map(Option::is_some)
            .ok_or_else(|| format!("no earlier check has the number {check}"))
    }

    /// Returns the project with this number, if it is imported, and counts an object of it.
    fn included_project(
        &mut self,
        project: u64,
        kind: ReportedKind,
    ) -> Result<Option<&mut ImportedProject>, String> {
        let index = *self
            .projects
            .get(&project)
            .ok_or_else(|| format!("no earlier project has the number {project}"))?;
        self.tally_item(kind, index.is_some());
        Ok(index.and_then(|index| self.items.projects.get_mut(index)))
    }

    fn add_item(&mut self, item: ImportItem) -> Result<(), String> {
        let number = item.number();
        match item {
            ImportItem::Project { project, .. } => return self.add_project(number, *project),
            ImportItem::Key { project, key, .. } => {
                if let ImportedKeySecret::Legacy {
                    secret_index: secret,
                    ..
                } = key.secret
                    && usize::from(secret) >= self.items.secrets.len()
                {
                    return Err("it refers to a secret that does not exist".into());
                }
                let kind = match key.secret {
                    ImportedKeySecret::Native(KeySecret::Ping(_)) => ReportedKind::PingKeys,
                    _ => ReportedKind::ApiKeys,
                };
                if let Some(of) = self.included_project(project.0, kind)? {
                    of.keys.push(key);
                }
            }
            ImportItem::Channel {
                project, channel, ..
            } => {
                if let Some(of) = self.included_project(project.0, ReportedKind::Channels)? {
                    of.channels.push(*channel);
                }
            }
            ImportItem::Window {
                project, window, ..
            } => {
                if let Some(of) = self.included_project(project.0, ReportedKind::Windows)? {
                    of.windows.push(*window);
                }
            }
            ImportItem::Check { project, check, .. } => {
                let uuid = check.uuid;
                let is_included = self
                    .included_project(project.0, ReportedKind::Checks)?
                    .map(|of| of.checks.push(*check))
                    .is_some();
                if self
                    .checks
                    .insert(number, is_included.then_some(uuid))
                    .is_some()
                {
                    return Err(format!("another check has the number {number}"));
                }
            }
            ImportItem::User { user, .. } => {
                if self.selected.is_empty() {
                    self.tally.add_carried(ReportedKind::Users, 1);
                    if user.owner {
                        self.tally.add_note(
                            ReportedKind::Users,
                            None,
                            format!("{:?} is an owner", user.name.as_str()),
                        );
                    }
                    self.items.users.push(*user);
                } else {
                    self.tally.add_dropped(
                        ReportedKind::Users,
                        1,
                        "users are imported only together with all projects",
                    );
                }
            }
        }
        Ok(())
    }

    fn add_project(&mut self, number: u64, mut project: ImportedProject) -> Result<(), String> {
        let uuid = project.uuid.to_string();
        let selection = self.selected.iter().position(|chosen| {
            chosen.source_name == project.name.as_str() || chosen.source_name == uuid
        });
        let is_included = self.selected.is_empty() || selection.is_some();
        if let Some(chosen) = selection.and_then(|index| self.selected.get(index))
            && let Some(new) = &chosen.new_name
        {
            self.tally.add_changed(ReportedKind::Projects, 1);
            self.tally.add_note(
                ReportedKind::Projects,
                None,
                format!(
                    "{:?} is renamed to {:?}",
                    project.name.as_str(),
                    new.as_str()
                ),
            );
            project.name = new.clone();
        }
        self.matched.extend(selection);
        if is_included {
            self.tally.add_carried(ReportedKind::Projects, 1);
        } else {
            self.tally
                .add_dropped(ReportedKind::Projects, 1, "not selected");
        }
        if self
            .projects
            .insert(number, is_included.then_some(self.items.projects.len()))
            .is_some()
        {
            return Err(format!("another project has the number {number}"));
        }
        if is_included {
            self.items.projects.push(project);
        }
        Ok(())
    }

    /// Validates what can be checked only at the end.
    fn validate(&mut self) -> Result<(), String> {
        if let Some((_, missing)) = self
            .selected
            .iter()
            .enumerate()
            .find(|(index, _)| !self.matched.contains(index))
        {
            return Err(format!("it has no project {:?}", missing.source_name));
        }
        for project in &mut self.items.projects {
            // A check that was deleted during the export is not in the file.
            let check_uuids: HashSet<Uuid> =
                project.checks.iter().map(|check| check.uuid).collect();
            for check in &mut project.checks {
                check.parents = check
                    .parents
                    .iter()
                    .copied()
                    .filter(|parent| check_uuids.contains(parent))
                    .collect();
            }
        }
        Ok(())
    }
}

/// Reads all lines and verifies the last one. Calls `on_entry` with the content of each line until
/// it breaks.
fn read_lines(
    file: &mut File,
    on_progress: &mut dyn FnMut(u64, u64),
    on_entry: &mut dyn FnMut(ExportEntry) -> Result<ControlFlow<()>, String>,
) -> Result<(ExportHeader, Option<String>), String> {
    let total = file.metadata().map_err(|error| error.to_string())?.len();
    file.rewind().map_err(|error| error.to_string())?;
    let mut lines = ExportLineReader {
        reader: BufReader::with_capacity(BUFFER_BYTES, file),
        hash: Sha256::new(),
        number: 0,
        bytes_read: 0,
        line: Vec::new(),
    };
    if !lines.next_line()? {
        return Err("it is empty".into());
    }
    let head = lines::parse_header(&lines.line)?;
    lines.update_checksum();
    // A ping, with the number of its line, is passed on once its body is complete.
    let mut waiting: Option<(u64, NumberedPing)> = None;
    loop {
        on_progress(lines.bytes_read, total);
        if !lines.next_line()? {
            return Err(format!(
                "the end is missing after line {}: the file is truncated, or is still being \
                 written",
                lines.number
            ));
        }
        let mut item = None;
        let mut end = None;
        match lines.parse_current()? {
            ExportLine::Item(row) => item = Some(row.into_item().map(ExportEntry::Item)),
            ExportLine::Extra(row) => match *row {
                ExportExtraRow::Body { check, n, body } => {
                    let ping = waiting.as_mut().map(|(_, ping)| ping);
                    append_body_chunk(ping, (check, n), &body)
                        .map_err(|problem| lines.error_at_line(&problem))?;
                    lines.update_checksum();
                    continue;
                }
                ExportExtraRow::End(row) => end = Some(row),
                ExportExtraRow::Ping(row) => item = Some(row.into_ping().map(ExportEntry::Ping)),
                ExportExtraRow::Flip(row) => item = Some(row.into_flip().map(ExportEntry::Flip)),
                ExportExtraRow::Signing(text) => {
                    item = Some(
                        decode_bytes(&text)
                            .map(|secret| ExportEntry::BadgeSecret(BadgeSecret(secret)))
                            .map_err(str::to_owned),
                    );
                }
                ExportExtraRow::Secret(text) => {
                    item = Some(
                        LegacySecret::parse(&text)
                            .map(ExportEntry::LegacySecret)
                            .map_err(str::to_owned),
                    );
                }
            },
        }
        if let Some((number, ping)) = waiting.take()
            && on_entry(ExportEntry::Ping(ping))
                .map_err(|problem| format!("line {number}: {problem}"))?
                .is_break()
        {
            return Ok((head, None));
        }
        if let Some(end) = end {
            return lines
                .verify_trailer(&end)
                .map(|()| (head, Some(end.sha256)));
        }
        waiting = match item
            .transpose()
            .map_err(|problem| lines.error_at_line(&problem))?
        {
            Some(ExportEntry::Ping(ping)) => Some((lines.number, ping)),
            Some(item) => {
                let flow = on_entry(item).map_err(|problem| lines.error_at_line(&problem))?;
                if flow.is_break() {
                    return Ok((head, None));
                }
                None
            }
            None => None,
        };
        lines.update_checksum();
    }
}

/// Appends a part to the body of the previous ping.
fn append_body_chunk(
    ping: Option<&mut NumberedPing>,
    of: (u64, u64),
    chunk: &str,
) -> Result<(), String> {
    let ping = ping
        .filter(|ping| (ping.check.0, ping.n) == of)
        .ok_or("it continues a body, but not the body of the previous line")?;
    let chunk = STANDARD
        .decode(chunk)
        .map_err(|_| "a body is not valid base64")?;
    if ping.body.len() + chunk.len() > MAX_BODY_BYTES {
        return Err("a body is too long".into());
    }
    let mut body = Vec::from(std::mem::take(&mut ping.body));
    body.extend(chunk);
    ping.body = body.into();
    Ok(())
}

/// Reads the lines of a file one at a time, counts them and updates their checksum.
struct ExportLineReader<'f> {
    reader: BufReader<&'f mut File>,
    hash: Sha256,
    /// Number of the current line.
    number: u64,
    /// Number of bytes that have been read.
    bytes_read: u64,
    line: Vec<u8>,
}

impl ExportLineReader<'_> {
    /// Reads the next line. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, String> {
        self.line.clear();
        let read = (&mut self.reader)
            .take(MAX_LINE_BYTES as u64)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| error.to_string())?;
        if read == 0 {
            return Ok(false);
        }
        (self.number, self.bytes_read) = (self.number + 1, self.bytes_read + read as u64);
        match self.line.ends_with(b"\n") {
            true => Ok(true),
            false if read == MAX_LINE_BYTES => Err(self.error_at_line("it is too long")),
            false => Err(self.error_at_line(
                "it is incomplete: the file is truncated, or is still being written",
            )),
        }
    }

    fn parse_current(&self) -> Result<ExportLine, String> {
        lines::parse_line(&self.line).map_err(|problem| self.error_at_line(&problem))
    }

    /// Adds the current line to the checksum.
    fn update_checksum(&mut self) {
        self.hash.update(&self.line);
    }

    /// Verifies that the current line is an end that matches the lines before it, and that no line
    /// follows.
    fn verify_trailer(&mut self, end: &ExportTrailer) -> Result<(), String> {
        if (end.lines, &end.sha256) != (self.number - 1, &lines::checksum_hex(self.hash.clone())) {
            return Err(
                "the checksum at the end does not match: the file was changed, or lines are missing"
                    .into(),
            );
        }
        if self.next_line()? {
            Err("unexpected data after the end".into())
        } else {
            Ok(())
        }
    }

    fn error_at_line(&self, problem: &str) -> String {
        format!("line {}: {problem}", self.number)
    }
}
