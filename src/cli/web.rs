//! The flags of `overdue serve` for the dashboard.

use std::path::Path;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::shared::{number, read_at_most};
use crate::domain::timezone::Timezone;
use crate::domain::user::Membership;
use crate::store::access::refusal;
use crate::web::{Auth, Config, Forward, Logout};

#[derive(Args)]
#[command(next_help_heading = "Dashboard")]
pub(super) struct WebFlags {
    /// Who sees the dashboard: password (whoever signs in) or none (everybody on this machine and behind trusted proxies, as an owner)
    #[arg(long, env = "OVERDUE_AUTH", value_name = "HOW", default_value = "password", value_parser = auth)]
    auth: Auth,

    /// Header in which a trusted proxy names the user, such as Remote-User; the proxy has to take it off what comes from outside
    #[arg(long, env = "OVERDUE_AUTH_HEADER", value_name = "NAME", requires = "trusted_proxy")]
    auth_header: Option<String>,

    /// File with what the proxy has to send in X-Overdue-Proxy-Secret for its header to count
    #[arg(long, env = "OVERDUE_AUTH_HEADER_SECRET_FILE", value_name = "FILE", requires = "auth_header", value_parser = secret)]
    auth_header_secret_file: Option<Secret>,

    /// Access to all projects for users whom the proxy names and who were not added here: no (none), read-only or member
    #[arg(long, env = "OVERDUE_AUTH_NEW_USERS", value_name = "WHAT", default_value = "no", value_parser = new_users)]
    auth_new_users: NewUsers,

    /// URL to which users whom the proxy signed in are sent when they sign out
    #[arg(long, env = "OVERDUE_AUTH_LOGOUT_URL", value_name = "URL", requires = "auth_header", value_parser = Logout::parse)]
    auth_logout_url: Option<Logout>,

    /// Days after which whoever has not used the dashboard signs in again
    #[arg(long, env = "OVERDUE_SESSION_DAYS", value_name = "DAYS", default_value_t = 30, value_parser = number::<u32>(1..=180), allow_negative_numbers = true)]
    session_days: u32,

    /// Disable the dashboard
    #[arg(long, env = "OVERDUE_NO_WEB", value_parser = FalseyValueParser::new())]
    no_web: bool,
}

/// Bytes of a file with a secret: see [limits](crate::docs::limits). No header has more.
const MOST_SECRET: u64 = 16_384;

/// What a file holds, without the white space at its ends.
#[derive(Clone)]
pub(super) struct Secret(pub(super) Box<[u8]>);

#[derive(Clone, Copy)]
struct NewUsers(Option<Membership>);

fn auth(text: &str) -> Result<Auth, &'static str> {
    match text {
        "password" => Ok(Auth::Password),
        "none" => Ok(Auth::None),
        _ => Err("give password or none"),
    }
}

fn new_users(text: &str) -> Result<NewUsers, &'static str> {
    match (text, Membership::parse(text)) {
        ("no", _) => Ok(NewUsers(None)),
        (_, Some(kind)) => Ok(NewUsers(Some(kind))),
        _ => Err("give no, read-only or member"),
    }
}

pub(super) fn secret(path: &str) -> Result<Secret, String> {
    let path = Path::new(path);
    let bytes = read_at_most(path, MOST_SECRET).map_err(|error| refusal(path, &error))?;
    match bytes.trim_ascii() {
        [] => Err(format!("{} is empty", path.display())),
        secret => Ok(Secret(secret.into())),
    }
}

impl WebFlags {
    /// Whether nobody is asked who they are.
    pub(super) fn is_open(&self) -> bool {
        !self.no_web && matches!(self.auth, Auth::None)
    }

    /// `zone`: that of times for whoever has chosen none.
    pub(super) fn config(self, zone: Timezone) -> Result<Config, &'static str> {
        let secret = self.auth_header_secret_file.as_ref().map(|secret| &*secret.0);
        let forward = self.auth_header.map(|header| Forward::new(&header, secret, self.auth_new_users.0, self.auth_logout_url));
        Ok(Config {
            auth: self.auth,
            is_on: !self.no_web,
            session_days: self.session_days,
            forward: forward.transpose()?,
            zone,
            mail_domain: None,
        })
    }
}
