//! `overdue user`: the flags of its subcommands.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args, Subcommand};

use super::common_args::{JsonFlag, YesFlag, confirm_deletion_on_terminal};
use super::{CliError, send, table};
use crate::admin::CreatedObject;
use crate::admin::users::{
    CreateLink, CreateSetupLink, CreateUser, CreatedUser, DeleteUser, EndSessions, GrantRow,
    LinkRow, ListUsers, ProjectGrantRow, RemoveIdentity, RemovePasskeys, RemoveSecondFactor,
    SetPassword, UpdateUser, UserRow,
};
use crate::domain::formatting::format_count;
use crate::domain::user::{Membership, Password, PasswordHash, UserName};
use crate::util::password;
use crate::util::random::Random;

/// Maximum bytes of a line with a password: more than a password has.
const MAX_PASSWORD_LINE_BYTES: u64 = 1024;

#[derive(Subcommand)]
pub(super) enum UserSubcommand {
    /// Create a user. Without a password, print a link for choosing one
    #[command(
        group = ArgGroup::new("role")
            .args(["owner", "member", "read_only"])
            .required(true)
            .multiple(true)
    )]
    Create {
        /// Name of the user; it must be unique
        #[arg(value_parser = UserName::parse)]
        name: UserName,

        #[command(flatten)]
        role: UserRoleArgs,

        #[command(flatten)]
        password: PasswordArgs,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the users
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Change a user's password, and end all sessions of the user
    #[command(group = ArgGroup::new("source").args(["password_stdin"]).required(true))]
    Passwd {
        /// Name or UUID of the user
        user: String,

        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Print a link for choosing a user's password. Without a name, print the link that creates the
    /// first owner, while there is no user
    Link {
        /// Name or UUID of the user
        user: Option<String>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Change a user
    #[command(
        group = ArgGroup::new("change")
            .args([
                "name",
                "owner",
                "member",
                "read_only",
                "disable",
                "enable",
                "summary",
                "summary_to",
            ])
            .required(true)
            .multiple(true)
    )]
    Set {
        /// Name or UUID of the user
        user: String,

        /// New name
        #[arg(long, env = "OVERDUE_NAME", value_name = "NAME", value_parser = UserName::parse)]
        name: Option<UserName>,

        #[command(flatten)]
        role: UserRoleArgs,

        /// Disable the user, and end all sessions of the user
        #[arg(
            long,
            env = "OVERDUE_DISABLE",
            value_parser = FalseyValueParser::new(),
            conflicts_with = "enable"
        )]
        disable: bool,

        /// Enable the user again
        #[arg(long, env = "OVERDUE_ENABLE", value_parser = FalseyValueParser::new())]
        enable: bool,

        /// Interval of summaries by mail
        #[arg(
            long,
            env = "OVERDUE_SUMMARY",
            value_name = "INTERVAL",
            value_parser = ["weekly", "monthly", "off"]
        )]
        summary: Option<String>,

        /// Mail address for summaries. Without it they go to the present one, or to the user's name
        /// if that is a mail address
        #[arg(long, env = "OVERDUE_SUMMARY_TO", value_name = "ADDRESS")]
        summary_to: Option<String>,
    },
    /// Remove a user's second factor, for example if the app and the recovery codes are lost. The
    /// user then signs in with the password alone
    ResetTotp {
        /// Name or UUID of the user
        user: String,
    },
    /// Remove all passkeys of a user, for example if a phone is lost or stolen. The user then signs
    /// in with the password
    ResetPasskeys {
        /// Name or UUID of the user
        user: String,
    },
    /// Disconnect a user from the provider at which the user signs in (see serve --oidc). The user
    /// then needs a password or another sign-in at the provider
    ResetIdentity {
        /// Name or UUID of the user
        user: String,
    },
    /// Delete a user
    Delete {
        /// Name or UUID of the user
        user: String,

        #[command(flatten)]
        yes: YesFlag,
    },
    /// End all sessions of a user
    SignOut {
        /// Name or UUID of the user
        user: String,
    },
}

/// Access of a user.
#[derive(Args)]
pub(super) struct UserRoleArgs {
    /// Full access to every project and to the server
    #[arg(
        long,
        env = "OVERDUE_OWNER",
        value_parser = FalseyValueParser::new(),
        conflicts_with_all = ["member", "read_only"]
    )]
    owner: bool,

    /// Name or UUID of a project that the user may change; may be given several times, with commas
    /// in the variable
    #[arg(
        long,
        env = "OVERDUE_MEMBER",
        value_name = "PROJECT",
        value_delimiter = ','
    )]
    member: Vec<String>,

    /// Name or UUID of a project that the user may only view; may be given several times, with
    /// commas in the variable
    #[arg(
        long,
        env = "OVERDUE_READ_ONLY",
        value_name = "PROJECT",
        value_delimiter = ','
    )]
    read_only: Vec<String>,
}

#[derive(Args)]
pub(super) struct PasswordArgs {
    /// Read the password from the first line of standard input; it has at least 10 characters
    #[arg(long, env = "OVERDUE_PASSWORD_STDIN", value_parser = FalseyValueParser::new())]
    password_stdin: bool,
}

impl UserRoleArgs {
    /// Returns the grant; `None` if no flag sets it.
    fn into_grant(self) -> Option<GrantRow> {
        let Self {
            owner,
            member,
            read_only,
        } = self;
        if owner {
            return Some(GrantRow::Owner);
        }
        let of = |projects: Vec<String>, access| {
            projects
                .into_iter()
                .map(move |project| ProjectGrantRow { project, access })
        };
        let projects: Vec<_> = of(member, Membership::Member)
            .chain(of(read_only, Membership::ReadOnly))
            .collect();
        (!projects.is_empty()).then_some(GrantRow::Projects(projects))
    }
}

impl PasswordArgs {
    /// Returns the hash of the password, if one is read. The password itself is never sent.
    fn read_hash(self, name: &str) -> Result<Option<PasswordHash>, CliError> {
        if !self.password_stdin {
            return Ok(None);
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // If the prompt is not visible, the password is read all the same.
            let _ = write!(io::stderr(), "Password (visible while you type): ");
        }
        let mut line = Vec::new();
        stdin
            .lock()
            .take(MAX_PASSWORD_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(CliError::other)?;
        let line = String::from_utf8(line)
            .map_err(|_| CliError::usage("a password must be UTF-8 text"))?;
        let name = UserName::parse(name).map_err(CliError::usage)?;
        let password =
            Password::parse(line.trim_end_matches(['\r', '\n']), &name).map_err(CliError::usage)?;
        password::hash(&password, Random::System.bytes())
            .map(Some)
            .map_err(|_| CliError::other("there is not enough memory to hash the password"))
    }
}

impl UserSubcommand {
    /// Sends the request and prints its reply. A password is read and hashed here.
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let printed = match self {
            Self::Create {
                name,
                role,
                password,
                json: JsonFlag { json },
            } => {
                let password = password.read_hash(name.as_str())?;
                let grant = role
                    .into_grant()
                    .ok_or_else(|| CliError::usage("give --owner, --member or --read-only"))?;
                let request = CreateUser {
                    name,
                    password,
                    grant,
                };
                let CreatedUser { uuid, link } = send(data, request)?;
                match link {
                    Some(link) => print_link(&link, json),
                    None => table::print_uuid(&CreatedObject { uuid }, json),
                }
            }
            Self::List {
                json: JsonFlag { json },
            } => table::print_list(&send(data, ListUsers {})?, json, &HEADINGS, cells),
            Self::Passwd { user, password } => {
                let password = password
                    .read_hash(&user)?
                    .ok_or_else(|| CliError::usage("give the password with --password-stdin"))?;
                return send(data, SetPassword { user, password });
            }
            Self::Link {
                user,
                json: JsonFlag { json },
            } => {
                let link = match user {
                    None => send(data, CreateSetupLink {})?,
                    Some(user) => send(data, CreateLink { user })?,
                };
                print_link(&link, json)
            }
            Self::Set {
                user,
                name,
                role,
                disable,
                enable,
                summary,
                summary_to,
            } => {
                let request = UpdateUser {
                    user,
                    name,
                    grant: role.into_grant(),
                    disabled: (disable || enable).then_some(disable),
                    summary,
                    summary_to,
                };
                return send(data, request);
            }
            Self::ResetTotp { user } => return send(data, RemoveSecondFactor { user }),
            Self::ResetPasskeys { user } => return send(data, RemovePasskeys { user }),
            Self::ResetIdentity { user } => return send(data, RemoveIdentity { user }),
            Self::Delete { user, yes } => {
                if !yes.yes {
                    confirm_deletion_on_terminal(&format!("the user {user:?}"))?;
                }
                return send(data, DeleteUser { user });
            }
            Self::SignOut { user } => return send(data, EndSessions { user }),
        };
        printed.map_err(CliError::output_failed)
    }
}

/// Headings of the table.
const HEADINGS: [&str; 7] = [
    "UUID",
    "NAME",
    "STATUS",
    "ACCESS",
    "SESSIONS",
    "LAST SEEN",
    "CREATED",
];

/// Returns a row of the table.
fn cells(row: &UserRow) -> [String; 7] {
    let access = match &row.grant {
        GrantRow::Owner => "everything".into(),
        GrantRow::Projects(projects) if projects.is_empty() => "nothing".into(),
        GrantRow::Projects(projects) => {
            let label =
                |grant: &ProjectGrantRow| format!("{}: {}", grant.project, grant.access.name());
            projects.iter().map(label).collect::<Vec<_>>().join(", ")
        }
    };
    let last_seen = row.seen.clone().unwrap_or_default();
    let mut status = row.status.clone();
    if row.second_factor {
        status.push_str(", second factor");
    }
    if row.passkeys > 0 {
        status.push_str(&format!(", {}", format_count(row.passkeys, "passkey")));
    }
    if let Some(issuer) = &row.issuer {
        status.push_str(&format!(", signs in at {issuer}"));
    }
    if let Some(interval) = &row.summary {
        status.push_str(&format!(", {interval} summary"));
    }
    [
        row.uuid.to_string(),
        row.name.clone(),
        status,
        access,
        row.sessions.to_string(),
        last_seen,
        row.created.clone(),
    ]
}

/// Explains links that are paths only, because no server is running that knows the address.
pub(super) fn print_link_hint<'a>(links: impl IntoIterator<Item = &'a LinkRow>) {
    if links.into_iter().any(|link| link.url.is_none()) {
        // If this cannot be written, the path is shown all the same.
        let _ = writeln!(
            io::stderr(),
            "overdue: no server with a dashboard is running; once one is, open the path of the \
             link at its address"
        );
    }
}

/// Prints a link. Without a server its base URL is unknown.
fn print_link(row: &LinkRow, json: bool) -> io::Result<()> {
    if !json {
        print_link_hint([row]);
    }
    table::print_created(row.url.as_ref().unwrap_or(&row.path), row, json)
}
