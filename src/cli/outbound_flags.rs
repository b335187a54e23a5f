//! Flags for outgoing messages: of the server, and of commands that send a test without one.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::FalseyValueParser;
use ipnet::IpNet;

use super::CliError;
use super::common_args::{number_parser, parse_network};
use super::session::this_program;
use crate::domain::timezone::Timezone;
use crate::notifier;
use crate::outbound::{
    AddressGuard, MailFrom, MailRelay, MailServer, NameSources, NetworkReach, Outbound,
    OutboundConfig, ProxyChoice,
};
use crate::server::machine_timezone;
use crate::util::clock::Clock;
use crate::util::random::Random;

#[derive(Args)]
#[command(next_help_heading = "Alerts")]
pub(super) struct OutboundFlags {
    /// Time zone of times in alerts about checks without a time zone of their own [default: that of
    /// the machine, else UTC]
    #[arg(long, env = "OVERDUE_TIME_ZONE", value_name = "ZONE", value_parser = parse_zone)]
    pub(super) time_zone: Option<Timezone>,

    /// Mail server for alerts: smtps://USER@HOST (TLS), smtp://USER@HOST (STARTTLS) or
    /// smtp+plain://HOST (no TLS); USER@ is optional
    #[arg(
        long,
        env = "OVERDUE_MAIL_SERVER",
        value_name = "URL",
        value_parser = MailServer::parse,
        requires = "mail_from"
    )]
    mail_server: Option<MailServer>,

    /// File whose first line is the password for the mail server
    #[arg(
        long,
        env = "OVERDUE_MAIL_PASSWORD_FILE",
        value_name = "FILE",
        requires = "mail_server"
    )]
    mail_password_file: Option<PathBuf>,

    /// Sender of alerts by mail, as in 'overdue <alerts@example.org>'
    #[arg(
        long,
        env = "OVERDUE_MAIL_FROM",
        value_name = "ADDRESS",
        value_parser = MailFrom::parse,
        requires = "mail_server"
    )]
    mail_from: Option<MailFrom>,

    /// Allow channels of kind shell to run their commands
    #[arg(long, env = "OVERDUE_ALLOW_SHELL", value_parser = FalseyValueParser::new())]
    allow_shell: bool,

    /// Addresses that channels created through the API may reach: private (public addresses and
    /// private networks) or public (public addresses only). Channels created at the command line
    /// may reach all addresses. If a proxy is used, host names cannot be checked, only addresses
    /// can
    #[arg(
        long,
        env = "OVERDUE_OUTBOUND",
        value_name = "SCOPE",
        default_value = "private",
        value_parser = parse_reach
    )]
    outbound: NetworkReach,

    /// Network that channels created through the API may also reach, such as 127.0.0.1; may be
    /// given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_OUTBOUND_ALLOW",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = parse_network
    )]
    outbound_allow: Vec<IpNet>,

    /// Network that channels created through the API may not reach. If several networks match an
    /// address, the smallest one applies; may be given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_OUTBOUND_DENY",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = parse_network
    )]
    outbound_deny: Vec<IpNet>,

    /// Proxy for alerts by HTTP: http://HOST:PORT, socks5://HOST:PORT, or none; NO_PROXY lists
    /// exceptions [default: from HTTPS_PROXY, HTTP_PROXY or ALL_PROXY]
    #[arg(
        long,
        env = "OVERDUE_OUTBOUND_PROXY",
        value_name = "URL",
        value_parser = ProxyChoice::parse,
        hide_env_values = true
    )]
    outbound_proxy: Option<ProxyChoice>,

    /// PEM file with certificate authorities to trust in addition to the system's
    #[arg(long, env = "OVERDUE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Maximum number of concurrent requests to one host and port
    #[arg(
        long,
        env = "OVERDUE_SEND_PER_HOST",
        value_name = "N",
        default_value_t = 8,
        value_parser = number_parser::<u8>(1..=64),
        allow_negative_numbers = true
    )]
    send_per_host: u8,
}

fn parse_zone(text: &str) -> Result<Timezone, &'static str> {
    Timezone::parse(text).map_err(|_| "give a time zone such as Europe/Riga or UTC")
}

fn parse_reach(text: &str) -> Result<NetworkReach, &'static str> {
    match text {
        "private" => Ok(NetworkReach::Private),
        "public" => Ok(NetworkReach::Public),
        _ => Err("give private or public"),
    }
}

impl OutboundFlags {
    /// Returns the configuration of a test that is sent without a running server.
    pub(super) fn notifier_config(self) -> Result<notifier::NotifierConfig, CliError> {
        let zone = self.time_zone.clone().unwrap_or_else(machine_timezone);
        let config = self.outbound_config().map_err(CliError::usage)?;
        let outbound =
            Outbound::new(config, &Clock::System, Random::System).map_err(CliError::usage)?;
        // A test is about no check, so none is shown.
        Ok(notifier::NotifierConfig {
            outbound,
            zone,
            host: "localhost".into(),
            render_check: Box::new(|_| String::new()),
            pages_url: None,
            unsubscribe_links: None,
            heartbeat: None,
            last_round: Arc::default(),
        })
    }

    /// Returns the configuration of outgoing messages.
    pub(super) fn outbound_config(self) -> Result<OutboundConfig, &'static str> {
        // Neither is given without the other.
        let relay = match self.mail_server.zip(self.mail_from) {
            Some((server, from)) => Some(MailRelay::new(server, self.mail_password_file, from)?),
            None => None,
        };
        Ok(OutboundConfig {
            mentions_tls_pin: true,
            guard: AddressGuard {
                reach: self.outbound,
                allow: self.outbound_allow,
                deny: self.outbound_deny,
            },
            proxy: self.outbound_proxy.unwrap_or_default(),
            ca_file: self.ca_file,
            relay,
            command_launcher: self.allow_shell.then(this_program),
            per_host: self.send_per_host.into(),
            names: NameSources::default(),
        })
    }
}
