//! `overdue export`, `overdue diff`, `overdue apply` and `overdue schema`: configuration as files.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use super::common_args::JsonFlag;
use super::config_diff::{self, DiffTense};
use super::data_directory::assume_owner;
use super::{CliError, table, user};
use crate::admin::backup::ExportLines;
use crate::admin::config::{ApplyConfig, ChangeRow, ConflictRow, ExportConfig};
use crate::admin::{self, AdminClientError};
use crate::config::{self, ConfigLoadError, ConfigProblem, LoadedConfig, SecretResolver};
use crate::server::ConfigFiles;
use crate::store::owner::AssumedOwner;

/// Default maximum number of deletions.
const DEFAULT_PRUNE_LIMIT: &str = "10";
/// Exit status of `diff` if there are changes.
const EXIT_CHANGES_PENDING: u8 = 3;

/// Format of an export.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// For people, and for `apply`
    Toml,
    /// The same for programs
    Json,
    /// All data as JSON lines for another server, including keys, users, statuses and secrets
    Jsonl,
}

/// Logs in an export.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportedLogs {
    All,
    None,
}

#[derive(Args)]
pub(super) struct ExportArgs {
    /// File to write, readable by its owner only; `-` for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Name or UUID of the project to export [default: all projects, and users]
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    project: Option<String>,

    /// Format [default: by the extension of FILE, .toml, .json or .jsonl, else toml]
    #[arg(long, env = "OVERDUE_FORMAT", value_enum)]
    format: Option<ExportFormat>,

    /// Write secrets in plain text instead of names of variables
    #[arg(long, env = "OVERDUE_SECRETS", value_parser = FalseyValueParser::new())]
    secrets: bool,

    /// Include logs: pings with their bodies, and flips; only jsonl can contain them. none: no logs
    #[arg(
        long,
        env = "OVERDUE_LOGS",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "all"
    )]
    logs: ExportedLogs,
}

impl ExportFormat {
    /// Returns the format of a file name extension.
    fn from_file_name(file: &Path) -> Option<Self> {
        Self::from_str(file.extension()?.to_str()?, true).ok()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
        }
    }
}

impl ExportArgs {
    /// Returns the format of the flag or of the file name. They must agree.
    fn format(&self) -> Result<ExportFormat, CliError> {
        match (self.format, ExportFormat::from_file_name(&self.file)) {
            (Some(flag), Some(extension)) if flag != extension => Err(CliError::usage(format!(
                "{} ends with .{}, but --format is {}: rename the file, or omit --format",
                self.file.display(),
                extension.name(),
                flag.name(),
            ))),
            (flag, extension) => Ok(flag.or(extension).unwrap_or(ExportFormat::Toml)),
        }
    }

    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let to_stdout = self.file.as_os_str() == "-";
        let format = self.format()?;
        if self.has_logs() && format != ExportFormat::Jsonl {
            return Err(CliError::usage(
                "only the format jsonl can contain logs: give --format jsonl, or a FILE that ends \
                 with .jsonl",
            ));
        }
        // An export of everything always contains secrets.
        let has_secrets = self.secrets || format == ExportFormat::Jsonl;
        if has_secrets && to_stdout && io::stdout().is_terminal() {
            return Err(CliError::usage(
                "secrets cannot be written to a terminal: give a FILE, which only its owner can \
                 read",
            ));
        }
        if format == ExportFormat::Jsonl {
            return self.write_jsonl(data, to_stdout);
        }
        let request = ExportConfig {
            project: self.project.clone(),
            secrets: self.secrets,
        };
        let objects = super::send(data, request)?;
        let text = match format {
            ExportFormat::Toml => config::to_toml(&objects, config::HEADER_COMMENTS),
            ExportFormat::Json | ExportFormat::Jsonl => {
                for comment in objects.iter().flat_map(|object| &object.comments) {
                    let _ = writeln!(io::stderr(), "overdue: {}", table::sanitize(comment));
                }
                serde_json::to_string_pretty(&config::to_json(&objects)).map_err(CliError::other)?
                    + "\n"
            }
        };
        if to_stdout {
            let mut out = io::stdout().lock();
            return out
                .write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .map_err(CliError::output_failed);
        }
        write_private_file(&self.file, |file| Ok(file.write_all(text.as_bytes())?))
            .map_err(|error| self.write_failed(&*error))
    }

    /// Writes everything as it arrives.
    fn write_jsonl(&self, data: &Path, to_stdout: bool) -> Result<(), CliError> {
        let runtime = super::new_runtime()?;
        let request = ExportLines {
            project: self.project.clone(),
            logs: self.has_logs(),
        };
        if to_stdout {
            let _owner = assume_owner(data)?;
            let written =
                runtime.block_on(admin::receive_stream(data, request, io::stdout().lock()));
            return written.map_err(CliError::other);
        }
        let write = |file: &mut File| {
            let _owner = AssumedOwner::assume(data)?;
            Ok(runtime.block_on(admin::receive_stream(data, request, file))?)
        };
        write_private_file(&self.file, write).map_err(|error| self.write_failed(&*error))
    }

    fn has_logs(&self) -> bool {
        self.logs == ExportedLogs::All
    }

    fn write_failed(&self, error: &dyn Error) -> CliError {
        CliError::other(format!("cannot write {}: {error}", self.file.display()))
    }
}

/// Writes a file that only its owner can read, whatever the permissions of the existing one. The
/// existing file stays until the new one is complete. A special file, such as a pipe, is written
/// directly.
fn write_private_file(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    // A symbolic link stays, and leads to the new file.
    replace_private_file(
        &fs::canonicalize(path).unwrap_or_else(|_| path.into()),
        write,
    )
}

/// Writes a private file like [`write_private_file`], but also replaces a symbolic link.
pub(super) fn replace_private_file(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut partial = path.to_owned().into_os_string();
    partial.push(".partial");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let partial = partial.display();
                io::Error::other(format!(
                    "{partial} exists: remove it, unless another command is writing it now"
                ))
            }
            _ => error,
        })?;
    let written = write(&mut file)
        .and_then(|()| Ok(file.sync_all().and_then(|()| fs::rename(&partial, path))?));
    if written.is_err() {
        // A partial file would be in the way of the next attempt.
        let _ = fs::remove_file(&partial);
    }
    written
}

#[derive(Args)]
pub(super) struct ConfigFilesArgs {
    /// Configuration files, or directories with *.toml files, which are read as one; `-` for
    /// standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Delete objects that the source of the files created and no longer declares; at most 10
    /// objects unless a number is given
    #[arg(
        long,
        env = "OVERDUE_PRUNE",
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT_PRUNE_LIMIT
    )]
    prune: Option<usize>,

    /// Also change objects that belong to no source; they belong to the source of the files from
    /// then on
    #[arg(long, env = "OVERDUE_ADOPT", value_parser = FalseyValueParser::new())]
    adopt: bool,

    #[command(flatten)]
    json: JsonFlag,
}

#[derive(Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    files: ConfigFilesArgs,

    /// Only read the files and report errors in them; no database is needed
    #[arg(
        long,
        visible_alias = "check",
        env = "OVERDUE_CHECK_ONLY",
        value_parser = FalseyValueParser::new()
    )]
    check_only: bool,

    /// With --check-only, do not read the secrets that the files refer to; settings of their
    /// channels are then checked in part. For machines that do not have the secrets
    #[arg(
        long,
        env = "OVERDUE_NO_SECRETS",
        value_parser = FalseyValueParser::new(),
        requires = "check_only"
    )]
    no_secrets: bool,
}

/// Flags for a server that applies configuration files.
#[derive(Args)]
#[command(next_help_heading = "Configuration as files")]
pub(super) struct ConfigFileFlags {
    /// Configuration file or directory. It is applied before the server accepts requests, and again
    /// at SIGHUP; may be given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_APPLY",
        value_name = "FILE",
        value_delimiter = ','
    )]
    apply: Vec<PathBuf>,

    /// Delete objects that the source of these files created and no longer declares; at most 10
    /// objects unless a number is given
    #[arg(
        long,
        env = "OVERDUE_APPLY_PRUNE",
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT_PRUNE_LIMIT,
        requires = "apply"
    )]
    apply_prune: Option<usize>,
}

impl ConfigFileFlags {
    pub(super) fn applied_config(self) -> Option<ConfigFiles> {
        (!self.apply.is_empty()).then_some(ConfigFiles {
            files: self.apply,
            prune: self.apply_prune,
        })
    }
}

fn load_failed(error: ConfigLoadError) -> CliError {
    match error {
        ConfigLoadError::Files(error) => CliError::usage(error),
        ConfigLoadError::Problems(problems) => CliError::verbatim(2, problems),
    }
}

/// Reads the files, and prints their warnings.
fn prepare_files(files: &[PathBuf]) -> Result<LoadedConfig, CliError> {
    let prepared = config::load_config(
        files,
        &SecretResolver {
            read_variable: &|name| std::env::var(name).ok(),
        },
    )
    .map_err(load_failed)?;
    for warning in &prepared.warnings {
        let _ = writeln!(io::stderr(), "overdue: {warning}");
    }
    Ok(prepared)
}

impl ConfigFilesArgs {
    /// Returns the planned or applied changes.
    fn request_changes(&self, data: &Path, dry: bool) -> Result<Vec<ChangeRow>, CliError> {
        let LoadedConfig {
            document, declared, ..
        } = prepare_files(&self.files)?;
        if self.prune.is_some() && declared.source.is_none() {
            return Err(CliError::usage(
                "--prune deletes objects of a source: write source = \"NAME\" at the top of the \
                 file",
            ));
        }
        let config = serde_json::to_string(&document.root.to_json()).map_err(CliError::other)?;
        let request = ApplyConfig {
            document: config.into_bytes(),
            prune: self.prune,
            adopt: self.adopt,
            dry,
        };
        let _owner = assume_owner(data)?;
        let applied = super::new_runtime()?.block_on(admin::send_request(data, request, None));
        applied.map_err(|error| match error {
            AdminClientError::Refused(error) if error.has_conflicts() => {
                let problem = |ConflictRow { path, reason }| ConfigProblem {
                    location: document.find_location(&path),
                    path,
                    reason,
                };
                let problems: Vec<_> = error.into_conflicts().into_iter().map(problem).collect();
                CliError::verbatim(1, document.render_problems(&problems))
            }
            error => error.into(),
        })
    }

    fn print_changes(&self, rows: &[ChangeRow], tense: DiffTense) -> Result<(), CliError> {
        let lines = if self.json.json {
            vec![table::to_json(&config_diff::json_document(rows)).map_err(CliError::other)?]
        } else {
            config_diff::text_lines(
                rows,
                tense,
                io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            )
        };
        match table::print_lines(&lines) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(CliError::output_failed),
        }
    }

    pub(super) fn diff(&self, data: &Path) -> Result<ExitCode, CliError> {
        let rows = self.request_changes(data, true)?;
        self.print_changes(&rows, DiffTense::Planned)?;
        let has_changes = rows.iter().any(|row| row.op != "leave");
        Ok(if has_changes {
            ExitCode::from(EXIT_CHANGES_PENDING)
        } else {
            ExitCode::SUCCESS
        })
    }
}

impl ApplyArgs {
    pub(super) fn needs_data(&self) -> bool {
        !self.check_only
    }

    pub(super) fn check(&self) -> Result<(), CliError> {
        let files = &self.files.files;
        if self.no_secrets {
            config::check_without_secrets(files).map_err(load_failed)
        } else {
            prepare_files(files).map(drop)
        }
    }

    pub(super) fn run(&self, data: &Path) -> Result<(), CliError> {
        let rows = self.files.request_changes(data, false)?;
        let links = rows.iter().filter_map(|row| row.link.as_ref());
        if !self.files.json.json {
            user::print_link_hint(links);
        }
        self.files.print_changes(&rows, DiffTense::Applied)
    }
}

/// Prints the JSON Schema of files.
pub(super) fn print_schema() -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(&config::json_schema()).map_err(CliError::other)?;
    match table::print_lines(&[text]) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(CliError::output_failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn write_content(path: &Path, content: &[u8]) -> Result<(), Box<dyn Error>> {
        write_private_file(path, |file| Ok(file.write_all(content)?))
    }

    #[test]
    fn an_export_is_readable_by_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, partial] =
            ["all.toml", "link.toml", "all.toml.partial"].map(|name| directory.path().join(name));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&file, "old, and longer").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&file, &link).unwrap();
        write_content(&link, b"new").unwrap();
        assert_eq!(
            (
                fs::read(&file).unwrap().as_slice(),
                mode(&file),
                fs::read_link(&link).unwrap()
            ),
            (&b"new"[..], 0o600, file.clone())
        );
        // After any error, the existing file is still complete.
        fs::write(&partial, "").unwrap();
        let refused = write_content(&file, b"newer").unwrap_err().to_string();
        assert!(refused.contains("all.toml.partial exists"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), b"new");
        fs::remove_file(&partial).unwrap();
        write_content(&file, b"newer").unwrap();
        assert_eq!(
            (fs::read(&file).unwrap().as_slice(), partial.exists()),
            (&b"newer"[..], false)
        );
    }

    #[test]
    fn a_pipe_is_written_directly() {
        let (mut reader, writer) = io::pipe().unwrap();
        write_content(
            Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())),
            b"new",
        )
        .unwrap();
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "new");
    }
}
