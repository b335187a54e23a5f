//! `overdue man`: manual pages, generated from the table of flags.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};

use super::{Cli, CliError};
use crate::store::{FILE_NAME, JOURNAL_NAME};

#[derive(Args)]
pub(super) struct ManArgs {
    /// Directory for the pages; it is created if it does not exist
    directory: PathBuf,
}

impl ManArgs {
    pub(super) fn run(&self) -> Result<(), CliError> {
        write_pages(&self.directory).map_err(|error| {
            CliError::other(format!(
                "cannot write to {}: {error}",
                self.directory.display()
            ))
        })
    }
}

/// Writes a page for each subcommand.
pub(super) fn write_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    // The commit is not in the pages, so that they are the same for the same flags.
    let mut command = Cli::command()
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    command.build();
    write_page(&command, "overdue", directory)
}

/// Writes the page of a command and the pages of its subcommands.
fn write_page(command: &clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_page(
            subcommand,
            &format!("{name}-{}", subcommand.get_name()),
            directory,
        )?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let (text, version) = page.split_at(page.find(".SH VERSION").unwrap_or(page.len()));
    // The words of a job follow two hyphens.
    let text = text.replace(
        "<\\fIURL\\fR> <\\fICOMMAND\\fR>",
        "<\\fIURL\\fR> \\fB\\-\\-\\fR <\\fICOMMAND\\fR>...",
    );
    fs::write(
        directory.join(format!("{name}.1")),
        format!("{text}{}{version}", extra_sections(name)),
    )
}

/// Exit statuses of commands that have others than 0, 1 and 2.
const EXIT_STATUSES: [(&str, &[(&str, &str)]); 4] = [
    (
        "overdue-run",
        &[
            ("N", "The exit status of the job."),
            ("124", "The job exceeded its time limit and then succeeded."),
            ("126", "The job cannot be executed."),
            ("127", "The job is not found."),
            ("128+N", "Signal N ended the job."),
        ],
    ),
    (
        "overdue-diff",
        &[
            ("0", "There are no changes."),
            ("1", "The command failed."),
            ("2", "The command line, a variable or a file is invalid."),
            ("3", "There are changes."),
        ],
    ),
    (
        "overdue-status",
        &[
            ("0", "All is well."),
            ("1", "The command failed."),
            ("2", "The command line or a variable is invalid."),
            (
                "3",
                "A check is down, a channel or a backup fails, or the server does not run.",
            ),
        ],
    ),
    (
        "overdue-health",
        &[
            ("0", "The server accepts pings."),
            ("1", "The server does not accept pings."),
            ("2", "The command line or a variable is invalid."),
        ],
    ),
];
const DEFAULT_EXIT_STATUSES: &[(&str, &str)] = &[
    ("0", "Success."),
    ("1", "The command failed."),
    ("2", "The command line, a variable or a file is invalid."),
];

/// Examples for the most used commands.
const EXAMPLES: [(&str, &[&str]); 7] = [
    (
        "overdue-status",
        &["overdue status", "overdue status --watch"],
    ),
    (
        "overdue-serve",
        &["overdue serve --listen 0.0.0.0:8000 --base-url http://192.168.1.5:8000"],
    ),
    (
        "overdue-run",
        &["overdue run https://checks.example.org/ping/UUID -- /usr/local/bin/backup --all"],
    ),
    (
        "overdue-ping",
        &["overdue ping --action fail https://checks.example.org/ping/UUID"],
    ),
    (
        "overdue-backup",
        &[
            "overdue backup /var/backups/overdue/today.zst",
            "overdue backup - | restic backup --stdin",
        ],
    ),
    (
        "overdue-apply",
        &[
            "overdue export > checks.toml",
            "overdue diff checks.toml",
            "overdue apply checks.toml",
        ],
    ),
    ("overdue-discover", &["overdue discover --write jobs"]),
];

/// Returns the sections that do not follow from the flags.
fn extra_sections(name: &str) -> String {
    let mut text = String::new();
    let of = |table: &[(&str, &'static [(&'static str, &'static str)])]| {
        table
            .iter()
            .find(|(page, _)| *page == name)
            .map(|(_, rows)| *rows)
    };
    text += &definition_list(
        "EXIT STATUS",
        of(&EXIT_STATUSES).unwrap_or(DEFAULT_EXIT_STATUSES),
    );
    if name == "overdue" {
        text += ".SH ENVIRONMENT\nEvery option has an environment variable: OVERDUE_ and the name \
                 of the option in capitals, with underscores for hyphens. An option on the \
                 command line overrides its variable, and a variable overrides the configuration \
                 file of the server. An empty variable counts as not set.\n";
    }
    if ["overdue", "overdue-serve"].contains(&name) {
        let database = format!("DIR/{FILE_NAME}");
        let journal = format!("DIR/{JOURNAL_NAME}");
        let files = [
            (database.as_str(), "The database in the data directory."),
            (
                journal.as_str(),
                "While a server runs, and after a kill: the newest pings and changes.",
            ),
            ("/etc/overdue/overdue.toml", "Settings of the server."),
            ("/etc/default/overdue", "Variables of the packaged service."),
        ];
        text += &definition_list("FILES", &files);
    }
    if let Some((_, lines)) = EXAMPLES.iter().find(|(page, _)| *page == name) {
        text += &format!(
            ".SH EXAMPLES\n.nf\n{}\n.fi\n",
            lines
                .iter()
                .map(|line| escape_roff(line))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
    let others = match name {
        "overdue" => "The chapters of the documentation are served at /docs/ of the dashboard.",
        "overdue-apply" | "overdue-diff" | "overdue-export" => {
            "overdue(1), overdue-schema(1), which prints the JSON Schema of the files"
        }
        "overdue-run" => "overdue(1), overdue-ping(1)",
        _ => "overdue(1)",
    };
    text + &format!(".SH \"SEE ALSO\"\n{}\n", escape_roff(others))
}

fn definition_list(heading: &str, rows: &[(&str, &str)]) -> String {
    let rows = rows.iter().map(|(term, text)| {
        format!(
            ".TP\n\\fB{}\\fR\n{}\n",
            escape_roff(term),
            escape_roff(text)
        )
    });
    format!(".SH \"{heading}\"\n{}", rows.collect::<String>())
}

/// Escapes text so that roff interprets no character of it.
fn escape_roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
