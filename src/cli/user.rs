//! `overdue user`: the flags of its subcommands.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args, Subcommand};

use super::shared::{Json, Yes};
use super::{Failure, Question, table};
use crate::admin::Request;
use crate::admin::user::{Granted, GrantedProject, LinkRow, OfUser, UserRow};
use crate::domain::user::{Membership, Password, PasswordHash, UserName};
use crate::password;
use crate::random::Random;

/// Bytes of a line with a password that are read: more than a password has.
const MOST_BYTES: u64 = 1024;

#[derive(Subcommand)]
pub(super) enum UserCommand {
    /// Make a user; without a password it prints a link by which the user chooses one
    #[command(group = ArgGroup::new("role").args(["owner", "member", "read_only"]).required(true).multiple(true))]
    Create {
        /// Its name, which no other user has
        #[arg(value_parser = UserName::parse)]
        name: UserName,

        #[command(flatten)]
        role: Role,

        #[command(flatten)]
        password: PasswordStdin,

        #[command(flatten)]
        json: Json,
    },
    /// List the users
    List {
        #[command(flatten)]
        json: Json,
    },
    /// Give a user another password, and end all its sessions
    #[command(group = ArgGroup::new("source").args(["password_stdin"]).required(true))]
    Passwd {
        /// Its name or UUID
        user: String,

        #[command(flatten)]
        password: PasswordStdin,
    },
    /// Print a link by which a user chooses its password; without a name one for the first owner, while there is no user
    Link {
        /// Its name or UUID
        user: Option<String>,

        #[command(flatten)]
        json: Json,
    },
    /// Change a user
    #[command(group = ArgGroup::new("change").args(["name", "owner", "member", "read_only", "disable", "enable"]).required(true).multiple(true))]
    Set {
        /// Its name or UUID
        user: String,

        /// Its new name
        #[arg(long, env = "OVERDUE_NAME", value_name = "NAME", value_parser = UserName::parse)]
        name: Option<UserName>,

        #[command(flatten)]
        role: Role,

        /// Let it sign in no more, and end all its sessions
        #[arg(long, env = "OVERDUE_DISABLE", value_parser = FalseyValueParser::new(), conflicts_with = "enable")]
        disable: bool,

        /// Let it sign in again
        #[arg(long, env = "OVERDUE_ENABLE", value_parser = FalseyValueParser::new())]
        enable: bool,
    },
    /// Take a user's second factor away, as when its app and its recovery codes are lost; its password alone signs in then
    ResetTotp {
        /// Its name or UUID
        user: String,
    },
    /// Delete a user
    Delete {
        /// Its name or UUID
        user: String,

        #[command(flatten)]
        yes: Yes,
    },
    /// End all sessions of a user
    SignOut {
        /// Its name or UUID
        user: String,
    },
}

/// What a user may do.
#[derive(Args)]
pub(super) struct Role {
    /// It may do everything, in every project
    #[arg(long, env = "OVERDUE_OWNER", value_parser = FalseyValueParser::new(), conflicts_with_all = ["member", "read_only"])]
    owner: bool,

    /// Name or UUID of a project that it may change; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_MEMBER", value_name = "PROJECT", value_delimiter = ',')]
    member: Vec<String>,

    /// Name or UUID of a project that it may look at; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_READ_ONLY", value_name = "PROJECT", value_delimiter = ',')]
    read_only: Vec<String>,
}

#[derive(Args)]
pub(super) struct PasswordStdin {
    /// Read its password from the first line of standard input: at least 10 characters
    #[arg(long, env = "OVERDUE_PASSWORD_STDIN", value_parser = FalseyValueParser::new())]
    password_stdin: bool,
}

impl Role {
    /// `None`: nothing was said of it.
    fn granted(self) -> Option<Granted> {
        let Self { owner, member, read_only } = self;
        if owner {
            return Some(Granted::Owner);
        }
        let of = |projects: Vec<String>, access| projects.into_iter().map(move |project| GrantedProject { project, access });
        let projects: Vec<_> = of(member, Membership::Member).chain(of(read_only, Membership::ReadOnly)).collect();
        (!projects.is_empty()).then_some(Granted::Projects(projects))
    }
}

impl PasswordStdin {
    /// The hash of the password, if one is to be read. The password itself goes nowhere.
    fn read(self, name: &str) -> Result<Option<PasswordHash>, Failure> {
        if !self.password_stdin {
            return Ok(None);
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // A reader that sees nothing still gets the password typed.
            let _ = write!(io::stderr(), "Password, which is shown while you type: ");
        }
        let mut line = Vec::new();
        stdin.lock().take(MOST_BYTES).read_until(b'\n', &mut line).map_err(Failure::other)?;
        let line = String::from_utf8(line).map_err(|_| Failure::usage("a password is text in UTF-8"))?;
        let name = UserName::parse(name).map_err(Failure::usage)?;
        let chosen = Password::parse(line.trim_end_matches(['\r', '\n']), &name).map_err(Failure::usage)?;
        password::hash(&chosen, Random::System.bytes()).map(Some).map_err(|_| Failure::other("there is no memory to hash the password"))
    }
}

impl UserCommand {
    /// What to ask. A password is read and hashed here.
    pub(super) fn question(self) -> Result<Question, Failure> {
        let of = |user, what| Request::OfUser { user, what };
        Ok(match self {
            Self::Create { name, role, password, json: Json { json } } => {
                let password = password.read(name.as_str())?;
                let grant = role.granted().ok_or_else(|| Failure::usage("say what the user may do"))?;
                Question::shown(Request::CreateUser { name, password, grant }, json)
            }
            Self::List { json: Json { json } } => Question::shown(Request::ListUsers {}, json),
            Self::Passwd { user, password } => {
                let hash = password.read(&user)?.ok_or_else(|| Failure::usage("give the password with --password-stdin"))?;
                of(user, OfUser::Password(hash)).into()
            }
            Self::Link { user: None, json: Json { json } } => Question::shown(Request::SetupLink {}, json),
            Self::Link { user: Some(user), json: Json { json } } => Question::shown(of(user, OfUser::Link), json),
            Self::Set { user, name, role, disable, enable } => {
                let disabled = (disable || enable).then_some(disable);
                of(user, OfUser::Set { name, grant: role.granted(), disabled }).into()
            }
            Self::ResetTotp { user } => of(user, OfUser::ResetTotp).into(),
            Self::Delete { user, yes: Yes { yes } } => {
                let deletes = (!yes).then(|| format!("the user {user:?}"));
                Question { deletes, ..of(user, OfUser::Delete).into() }
            }
            Self::SignOut { user } => of(user, OfUser::SignOut).into(),
        })
    }
}

/// The headings of the table.
pub(super) const HEADINGS: [&str; 7] = ["UUID", "NAME", "STATUS", "MAY", "SESSIONS", "SEEN", "CREATED"];

/// A row of the table.
pub(super) fn cells(row: &UserRow) -> [String; 7] {
    let may = match &row.grant {
        Granted::Owner => "everything".into(),
        Granted::Projects(projects) if projects.is_empty() => "nothing".into(),
        Granted::Projects(projects) => {
            let one = |granted: &GrantedProject| format!("{}: {}", granted.project, granted.access.name());
            projects.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    };
    let seen = row.seen.clone().unwrap_or_default();
    let status = if row.second_factor { format!("{}, second factor", row.status) } else { row.status.clone() };
    [row.uuid.to_string(), row.name.clone(), status, may, row.sessions.to_string(), seen, row.created.clone()]
}

/// Says what to do with links that are paths alone, since no server says what they begin with.
pub(super) fn tell_of_path<'a>(links: impl IntoIterator<Item = &'a LinkRow>) {
    if links.into_iter().any(|link| link.url.is_none()) {
        // Without a reader, the path is shown all the same.
        let _ = writeln!(io::stderr(), "overdue: no server with pages is running; open the path of the link at its address once one does");
    }
}

/// Shows a link. Without a server nobody knows the address that it begins with.
pub(super) fn show_link(row: &LinkRow, json: bool) -> io::Result<()> {
    if !json {
        tell_of_path([row]);
    }
    table::made(row.url.as_ref().unwrap_or(&row.path), row, json)
}
