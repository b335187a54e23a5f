//! Flags of `overdue serve` for the dashboard.

use clap::Args;
use clap::builder::FalseyValueParser;

use super::common_args::number_parser;
use super::settings_file::{SecretFileContent, read_secret, read_settings_file};
use crate::config;
use crate::domain::timezone::Timezone;
use crate::domain::user::Membership;
use crate::domain::user::external_identity::IdentityProvider;
use crate::http::dashboard::{AuthMode, DashboardConfig, LogoutUrl, ProxyAuth};

#[derive(Args)]
#[command(next_help_heading = "Dashboard")]
pub(super) struct DashboardFlags {
    /// Sign-in to the dashboard: password, or none (every client on this machine or behind a
    /// trusted proxy is an owner)
    #[arg(
        long,
        env = "OVERDUE_AUTH",
        value_name = "MODE",
        default_value = "password",
        value_parser = parse_auth
    )]
    auth: AuthMode,

    /// Header in which a trusted proxy names the user, such as Remote-User; the proxy must remove
    /// it from requests of clients
    #[arg(
        long,
        env = "OVERDUE_AUTH_HEADER",
        value_name = "NAME",
        requires = "trusted_proxy"
    )]
    auth_header: Option<String>,

    /// File with the secret that the proxy must send in X-Overdue-Proxy-Secret; without it, the
    /// header that names the user is ignored
    #[arg(
        long,
        env = "OVERDUE_AUTH_HEADER_SECRET_FILE",
        value_name = "FILE",
        requires = "auth_header",
        value_parser = read_secret
    )]
    auth_header_secret_file: Option<SecretFileContent>,

    /// Access to all projects for users that the proxy names and that do not exist here: no (none),
    /// read-only or member
    #[arg(
        long,
        env = "OVERDUE_AUTH_NEW_USERS",
        value_name = "ACCESS",
        default_value = "no",
        value_parser = parse_new_users
    )]
    auth_new_users: NewUserAccess,

    /// URL to which users are redirected when they sign out, if the proxy signed them in
    #[arg(
        long,
        env = "OVERDUE_AUTH_LOGOUT_URL",
        value_name = "URL",
        requires = "auth_header",
        value_parser = LogoutUrl::parse
    )]
    auth_logout_url: Option<LogoutUrl>,

    /// File with OpenID Connect providers at which users sign in; see the chapter on the dashboard
    #[arg(
        long,
        env = "OVERDUE_OIDC",
        value_name = "FILE",
        value_parser = read_providers
    )]
    oidc: Option<ConfiguredProviders>,

    /// Days without use of the dashboard after which a session ends
    #[arg(
        long,
        env = "OVERDUE_SESSION_DAYS",
        value_name = "DAYS",
        default_value_t = 30,
        value_parser = number_parser::<u32>(1..=180),
        allow_negative_numbers = true
    )]
    session_days: u32,

    /// Disable the dashboard
    #[arg(long, env = "OVERDUE_NO_WEB", value_parser = FalseyValueParser::new())]
    no_web: bool,
}

/// Providers in a file.
#[derive(Clone)]
struct ConfiguredProviders(Vec<IdentityProvider>);

#[derive(Clone, Copy)]
struct NewUserAccess(Option<Membership>);

fn parse_auth(text: &str) -> Result<AuthMode, &'static str> {
    match text {
        "password" => Ok(AuthMode::Password),
        "none" => Ok(AuthMode::None),
        _ => Err("give password or none"),
    }
}

fn parse_new_users(text: &str) -> Result<NewUserAccess, &'static str> {
    match (text, Membership::parse(text)) {
        ("no", _) => Ok(NewUserAccess(None)),
        (_, Some(kind)) => Ok(NewUserAccess(Some(kind))),
        _ => Err("give no, read-only or member"),
    }
}

fn read_providers(path: &str) -> Result<ConfiguredProviders, String> {
    read_settings_file(path, config::parse_identity_providers).map(ConfiguredProviders)
}

impl DashboardFlags {
    /// True if the dashboard requires no sign-in.
    pub(super) fn is_unauthenticated(&self) -> bool {
        !self.no_web && matches!(self.auth, AuthMode::None)
    }

    /// Returns the configuration. `zone`: time zone for users that have chosen none.
    pub(super) fn config(self, zone: Timezone) -> Result<DashboardConfig, &'static str> {
        let secret = self
            .auth_header_secret_file
            .as_ref()
            .map(|secret| &*secret.0);
        if self.oidc.is_some() && self.auth == AuthMode::None {
            return Err("--oidc has no effect with --auth none: remove one of them");
        }
        let proxy_auth = self.auth_header.map(|header| {
            ProxyAuth::new(&header, secret, self.auth_new_users.0, self.auth_logout_url)
        });
        Ok(DashboardConfig {
            auth: self.auth,
            is_enabled: !self.no_web,
            session_days: self.session_days,
            proxy_auth: proxy_auth.transpose()?,
            providers: self.oidc.map_or_else(Vec::new, |file| file.0),
            outbound: None,
            default_zone: zone,
            backups: None,
            mail_domain: None,
        })
    }
}
