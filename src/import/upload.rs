//! Uploaded file of another server, which is previewed and then imported.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::ops::ControlFlow;

use super::export_format::ExportReader;
use super::transfer::{ImportTarget, ImportTransfer};
use super::{
    ImportError, ImportLogEntry, ImportOptions, ImportProgress, ImportReport, ImportSource,
    SourceReader,
};
use crate::domain::channel::SettingsAuthor;
use crate::domain::import_contents::{ImportContents, ImportedSettings};
use crate::domain::timestamp::Timestamp;
use crate::engine::command::import::LocalChanges;
use crate::util::random::Random;

/// Reason why an uploaded file is not imported.
#[derive(Debug)]
pub enum UploadError<E> {
    /// The file cannot be imported. The text names the file and may have several lines.
    Source(String),
    /// The server refuses the import.
    Target(E),
}

impl<E> From<ImportError> for UploadError<E> {
    fn from(error: ImportError) -> Self {
        Self::Source(error.to_string())
    }
}

/// Uploaded file: a database or dump of Healthchecks, or an export of overdue.
pub struct UploadedSource {
    name: String,
    file: File,
    options: ImportOptions,
    random: Random,
}

/// Reader of an uploaded file, after its objects.
enum UploadReader<'a> {
    Healthchecks(SourceReader<'a>),
    Export(ExportReader),
}

impl UploadedSource {
    /// Creates a source from a file that was uploaded under a name.
    pub fn new(name: String, file: File, options: ImportOptions, random: Random) -> Self {
        Self {
            name,
            file,
            options,
            random,
        }
    }

    /// Reads everything, and asks the target what would be replaced. Nothing is imported. Returns
    /// the report with the answer, and the local changes that would be lost.
    ///
    /// # Errors
    /// If the file cannot be imported, or the target refuses it.
    pub fn preview<T: ImportTarget>(
        &mut self,
        target: T,
        now: Timestamp,
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<(ImportReport, LocalChanges), UploadError<T::Error>> {
        let random = self.random.clone();
        let (contents, report) =
            self.with_reader(now, on_progress, |mut reader, on_progress| {
                reader.read_logs(on_progress, &mut |_| ControlFlow::Continue(()))?;
                let (mut contents, report) = reader.finish(now);
                let left_out = restrict_to_user(&mut contents);
                Ok((contents, report.with_operator_channels(left_out)))
            })?;
        let begun = ImportTransfer::begin(target, &contents, now, random);
        let mut transfer = begun.map_err(UploadError::Target)?;
        let preview = transfer
            .send_objects(contents)
            .and_then(|()| transfer.dry_run(false));
        let (replaced, lost) = preview.map_err(UploadError::Target)?;
        Ok((report.with_replacement(replaced, lost), lost))
    }

    /// Imports everything. `is_live`: alerts are sent from now on. `replaces_changed`: projects
    /// whose checks were pinged or changed here are replaced, too. Returns the number of imported
    /// projects.
    ///
    /// # Errors
    /// If the file cannot be imported, or the target refuses it. Nothing is imported then.
    pub fn import<T: ImportTarget>(
        &mut self,
        target: T,
        (is_live, replaces_changed): (bool, bool),
        now: Timestamp,
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<usize, UploadError<T::Error>> {
        let random = self.random.clone();
        self.with_reader(now, on_progress, |mut reader, on_progress| {
            let mut numbered = reader.contents().clone();
            restrict_to_user(&mut numbered);
            let begun = ImportTransfer::begin(target, &numbered, now, random);
            drop(numbered);
            let mut transfer = begun.map_err(UploadError::Target)?;
            reader.read_logs(on_progress, &mut |entry| transfer.add_log_entry(entry))?;
            let (mut contents, _) = reader.finish(now);
            restrict_to_user(&mut contents);
            let project_count = contents.projects.len();
            let finished = transfer
                .send_objects(contents)
                .and_then(|()| transfer.finish(is_live, replaces_changed));
            finished.map(|_| project_count).map_err(UploadError::Target)
        })
    }

    /// Reads the objects of the file, and calls `use_reader` for the rest.
    fn with_reader<R, E>(
        &mut self,
        now: Timestamp,
        on_progress: &mut dyn FnMut(ImportProgress),
        use_reader: impl FnOnce(
            UploadReader<'_>,
            &mut dyn FnMut(ImportProgress),
        ) -> Result<R, UploadError<E>>,
    ) -> Result<R, UploadError<E>> {
        let name = &self.name;
        let unreadable = |error: std::io::Error| UploadError::Source(format!("{name}: {error}"));
        let mut file = self.file.try_clone().map_err(unreadable)?;
        if is_export(&mut file).map_err(unreadable)? {
            let projects = &self.options.projects;
            let reader = ExportReader::from_file(name.clone(), file, projects, on_progress);
            let reader = reader.map_err(UploadError::Source)?;
            return use_reader(UploadReader::Export(reader), on_progress);
        }
        let source = ImportSource::from_file(name, file, &self.random);
        let mut source = source.map_err(UploadError::Source)?;
        let reader = SourceReader::read_objects(&mut source, &self.options, now, on_progress)?;
        use_reader(UploadReader::Healthchecks(reader), on_progress)
    }
}

/// Leaves out the channels that only the operator may create, because a user has uploaded the file:
/// they run commands, or read files of this machine. The others get the rights of a user's
/// channels. Returns the names of the channels that are left out.
fn restrict_to_user(contents: &mut ImportContents) -> Vec<String> {
    let mut left_out = Vec::new();
    for project in &mut contents.projects {
        let mut removed = HashSet::new();
        project.channels.retain_mut(|channel| {
            channel.set_by_operator = false;
            if is_allowed_to_users(&channel.settings) {
                return true;
            }
            removed.insert(channel.uuid);
            let kind = match &channel.settings {
                ImportedSettings::Complete(settings) => settings.kind(),
                ImportedSettings::Incomplete { kind, .. } => kind,
            };
            left_out.push(format!(
                "{} {:?} of project {:?}",
                kind.name,
                channel.name.as_str(),
                project.name.as_str()
            ));
            false
        });
        if !removed.is_empty() {
            for check in &mut project.checks {
                let channels = check.channels.iter().copied();
                check.channels = channels.filter(|uuid| !removed.contains(uuid)).collect();
            }
        }
    }
    left_out
}

/// True if users may create a channel with these settings.
fn is_allowed_to_users(settings: &ImportedSettings) -> bool {
    match settings {
        ImportedSettings::Complete(settings) => {
            settings.validate_author(SettingsAuthor::Api).is_ok()
        }
        ImportedSettings::Incomplete { kind, settings, .. } => {
            let mut keys = settings.pairs().map(|(key, _)| key);
            !kind.operator_only && !keys.any(|key| kind.is_operator_key(key))
        }
    }
}

impl UploadReader<'_> {
    fn contents(&self) -> &ImportContents {
        match self {
            Self::Healthchecks(reader) => reader.contents(),
            Self::Export(reader) => reader.contents(),
        }
    }

    fn read_logs<E>(
        &mut self,
        on_progress: &mut dyn FnMut(ImportProgress),
        on_entry: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), UploadError<E>> {
        match self {
            Self::Healthchecks(reader) => Ok(reader.read_logs(on_progress, on_entry)?),
            Self::Export(reader) => reader
                .read_logs(on_progress, on_entry)
                .map_err(UploadError::Source),
        }
    }

    fn finish(self, now: Timestamp) -> (ImportContents, ImportReport) {
        match self {
            Self::Healthchecks(reader) => reader.finish(),
            Self::Export(reader) => reader.finish(now),
        }
    }
}

/// True if a file begins as an export of overdue does: with a JSON object.
fn is_export(file: &mut File) -> std::io::Result<bool> {
    let mut first = [0];
    file.rewind()?;
    let read = file.read(&mut first)?;
    file.rewind()?;
    Ok(read == 1 && first == *b"{")
}
