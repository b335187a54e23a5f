//! `overdue serve`: its flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use ipnet::IpNet;
use tracing::level_filters::LevelFilter;

use super::backup_flags::BackupFlags;
use super::cluster::ClusterFlags;
use super::common_args::{ANY_U32, number_parser, parse_network};
use super::config_files::ConfigFileFlags;
use super::dashboard_flags::DashboardFlags;
use super::outbound_flags::OutboundFlags;
use super::settings_file::{SecretFileContent, read_instance_key, read_secret};
use crate::domain::project::SecretHash;
use crate::http::{ApiRate, BaseUrl};
use crate::notifier::Heartbeat;
use crate::outbound::host_port_of;
use crate::server::{
    AcmeConfig, CertificateFiles, CertificateSource, DEFAULT_LISTEN, LETS_ENCRYPT, LogFormat,
    MailPingConfig, ServerConfig, machine_timezone,
};
use crate::smtp::address::MailDomain;

#[derive(Args)]
pub(super) struct ServeArgs {
    /// TOML file with values of these flags, such as site-name = "nas". A flag overrides its
    /// variable, and a variable the file [default: /etc/overdue/overdue.toml, if it exists]
    #[arg(long, env = "OVERDUE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the settings that result from flags, variables and the file, with their sources, and
    /// exit
    #[arg(long, env = "OVERDUE_PRINT_CONFIG", value_parser = FalseyValueParser::new())]
    pub(super) print_config: bool,

    /// Address and port on which to accept HTTP requests, such as 0.0.0.0:8000 for all addresses of
    /// this machine; may be given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_LISTEN",
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        default_value = DEFAULT_LISTEN,
        value_parser = parse_address
    )]
    listen: Vec<SocketAddr>,

    #[command(flatten)]
    tls: TlsArgs,

    /// URL at which clients reach the server, with its path if it has one [default: the first
    /// listen address]
    #[arg(long, env = "OVERDUE_BASE_URL", value_name = "URL")]
    base_url: Option<BaseUrl>,

    /// Name of the site, shown on the badges of whole projects
    #[arg(
        long,
        env = "OVERDUE_SITE_NAME",
        value_name = "NAME",
        default_value = "overdue",
        value_parser = parse_site_name
    )]
    site_name: Box<str>,

    /// Network of proxies whose X-Forwarded-For, X-Forwarded-Proto and Forwarded headers are
    /// trusted; may be given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_TRUSTED_PROXY",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = parse_network
    )]
    trusted_proxy: Vec<IpNet>,

    /// Maximum number of bytes of a ping's body to store
    #[arg(
        long,
        env = "OVERDUE_PING_BODY_LIMIT",
        value_name = "BYTES",
        default_value_t = 100_000,
        value_parser = number_parser::<u32>(0..=10_000_000),
        allow_negative_numbers = true
    )]
    ping_body_limit: u32,

    #[command(flatten)]
    mail: SmtpArgs,

    /// Maximum number of API requests a minute for each key; 0 for no limit
    #[arg(
        long,
        env = "OVERDUE_API_RATE",
        value_name = "N",
        default_value_t = 100,
        value_parser = number_parser::<u32>(ANY_U32),
        allow_negative_numbers = true
    )]
    api_rate: u32,

    /// Maximum number of API requests that a key may make at once after a pause
    #[arg(
        long,
        env = "OVERDUE_API_BURST",
        value_name = "N",
        default_value_t = 1000,
        value_parser = number_parser::<u32>(ANY_U32),
        allow_negative_numbers = true
    )]
    api_burst: u32,

    /// Maximum number of HTTP connections from one address; IPv6 addresses count by /64 network.
    /// Trusted proxies are not limited
    #[arg(
        long,
        env = "OVERDUE_CONNECTIONS_PER_ADDRESS",
        value_name = "N",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    connections_per_address: u32,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    web: DashboardFlags,

    /// Log level: off, error, warn, info, debug or trace
    #[arg(
        long,
        env = "OVERDUE_LOG",
        value_name = "LEVEL",
        default_value = "info",
        value_parser = parse_log_level,
        help_heading = "Log and metrics"
    )]
    log: LevelFilter,

    /// Format of the log: text, or json (one object on each line)
    #[arg(
        long,
        env = "OVERDUE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text",
        value_parser = parse_log_format,
        help_heading = "Log and metrics"
    )]
    log_format: LogFormat,

    /// Log every HTTP request, with *** in place of possible secrets in its path
    #[arg(
        long,
        env = "OVERDUE_ACCESS_LOG",
        value_parser = FalseyValueParser::new(),
        help_heading = "Log and metrics"
    )]
    access_log: bool,

    /// Address and port on which to serve /metrics for Prometheus, without a key; may be given
    /// several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_METRICS_LISTEN",
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        value_parser = parse_address,
        help_heading = "Log and metrics"
    )]
    metrics_listen: Vec<SocketAddr>,

    /// File with a token for /metrics at the addresses of --listen; clients send it as
    /// Authorization: Bearer TOKEN
    #[arg(
        long,
        env = "OVERDUE_METRICS_TOKEN_FILE",
        value_name = "FILE",
        value_parser = read_secret,
        help_heading = "Log and metrics"
    )]
    metrics_token_file: Option<SecretFileContent>,

    /// File with the instance key, at least 22 characters: clients that send it as X-Api-Key manage
    /// projects, keys and users below /api/overdue/v1
    #[arg(
        long,
        env = "OVERDUE_INSTANCE_KEY_FILE",
        value_name = "FILE",
        value_parser = read_instance_key,
        help_heading = None::<&'static str>
    )]
    instance_key_file: Option<SecretFileContent>,

    /// Journal next to the database: on or off. With on, a ping is written to it, and the database
    /// is synced later. With off, each batch of pings syncs the database
    #[arg(
        long,
        env = "OVERDUE_JOURNAL",
        value_name = "MODE",
        default_value = "on",
        // A flag of this type takes no value otherwise.
        action = ArgAction::Set,
        value_parser = parse_on_or_off,
        // Without this the heading of the flags before applies.
        help_heading = None::<&'static str>,
    )]
    journal: bool,

    /// Alerts about missed pings that may have been lost in an outage of the server: hold (until
    /// the job has had time to report again) or at-once
    #[arg(
        long,
        env = "OVERDUE_AFTER_OUTAGE",
        value_name = "MODE",
        default_value = "hold",
        value_parser = parse_after_outage,
        help_heading = "Alerts"
    )]
    after_outage: AfterOutageMode,

    /// URL to request regularly while the server works, such as a ping URL of another server, which
    /// then alerts if the requests stop
    #[arg(
        long,
        env = "OVERDUE_HEARTBEAT_URL",
        value_name = "URL",
        value_parser = parse_heartbeat_url,
        hide_env_values = true,
        help_heading = "Alerts"
    )]
    heartbeat_url: Option<String>,

    /// Seconds between two requests of the heartbeat URL
    #[arg(
        long,
        env = "OVERDUE_HEARTBEAT_EVERY",
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = number_parser::<u32>(10..=86_400),
        allow_negative_numbers = true,
        help_heading = "Alerts"
    )]
    heartbeat_every: u32,

    #[command(flatten)]
    backups: BackupFlags,

    #[command(flatten)]
    declared: ConfigFileFlags,

    #[command(flatten)]
    outbound: OutboundFlags,
}

#[derive(Args)]
struct TlsArgs {
    /// PEM file with a certificate and its chain. The server then accepts HTTP over TLS only. The
    /// file is read again when it changes, and at SIGHUP
    #[arg(
        long,
        env = "OVERDUE_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key
    #[arg(
        long,
        env = "OVERDUE_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,

    /// Domain for which to get and renew a certificate by ACME, instead of --tls-cert; may be given
    /// several times, with commas in the variable. Port 443 of the domain must lead to this server.
    /// The terms of the certificate authority apply
    #[arg(
        long,
        env = "OVERDUE_ACME_DOMAIN",
        value_name = "DOMAIN",
        value_delimiter = ',',
        value_parser = AcmeConfig::parse_domain,
        conflicts_with_all = ["tls_cert", "cluster"]
    )]
    acme_domain: Vec<String>,

    /// Directory URL of the certificate authority
    #[arg(
        long,
        env = "OVERDUE_ACME_DIRECTORY",
        value_name = "URL",
        default_value = LETS_ENCRYPT,
        value_parser = AcmeConfig::parse_directory
    )]
    acme_directory: String,

    /// Mail address that the certificate authority may write to
    #[arg(
        long,
        env = "OVERDUE_ACME_CONTACT",
        value_name = "ADDRESS",
        value_parser = AcmeConfig::parse_contact,
        requires = "acme_domain"
    )]
    acme_contact: Option<String>,
}

impl TlsArgs {
    fn source(self) -> Result<Option<CertificateSource>, String> {
        let acme = AcmeConfig::new(self.acme_domain, self.acme_directory, self.acme_contact)?;
        let files = certificate_files(self.tls_cert, self.tls_key).map(CertificateSource::Files);
        Ok(acme.map(CertificateSource::Acme).or(files))
    }
}

#[derive(Args)]
struct SmtpArgs {
    /// Address and port on which to accept pings by SMTP; may be given several times, with commas
    /// in the variable
    #[arg(
        long,
        env = "OVERDUE_SMTP_LISTEN",
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        value_parser = parse_address,
        requires = "ping_email_domain"
    )]
    smtp_listen: Vec<SocketAddr>,

    /// Domain of the mail addresses for pings: UUID@DOMAIN and PINGKEY+SLUG@DOMAIN
    #[arg(
        long,
        env = "OVERDUE_PING_EMAIL_DOMAIN",
        value_name = "DOMAIN",
        value_parser = MailDomain::parse
    )]
    ping_email_domain: Option<MailDomain>,

    /// PEM file with a certificate and its chain, with which SMTP offers STARTTLS
    #[arg(
        long,
        env = "OVERDUE_SMTP_TLS_CERT",
        value_name = "FILE",
        requires = "smtp_tls_key",
        requires = "ping_email_domain"
    )]
    smtp_tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key
    #[arg(
        long,
        env = "OVERDUE_SMTP_TLS_KEY",
        value_name = "FILE",
        requires = "smtp_tls_cert"
    )]
    smtp_tls_key: Option<PathBuf>,
}

/// Maximum characters of the name of the site.
const MAX_SITE_NAME_CHARS: usize = 100;

fn parse_site_name(text: &str) -> Result<Box<str>, &'static str> {
    let fits = !text.is_empty()
        && text.chars().count() <= MAX_SITE_NAME_CHARS
        && !text.chars().any(char::is_control);
    if fits {
        Ok(text.into())
    } else {
        Err("give 1 to 100 characters on one line")
    }
}

fn parse_heartbeat_url(text: &str) -> Result<String, &'static str> {
    host_port_of(text)
        .map(|_| text.to_owned())
        .map_err(|_| "give an http:// or https:// URL")
}

fn parse_on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off"),
    }
}

/// Treatment of alerts after an outage.
#[derive(Clone, Copy)]
enum AfterOutageMode {
    Hold,
    AtOnce,
}

fn parse_after_outage(text: &str) -> Result<AfterOutageMode, &'static str> {
    match text {
        "hold" => Ok(AfterOutageMode::Hold),
        "at-once" => Ok(AfterOutageMode::AtOnce),
        _ => Err("give hold or at-once"),
    }
}

fn parse_log_level(text: &str) -> Result<LevelFilter, &'static str> {
    text.parse()
        .map_err(|_| "give off, error, warn, info, debug or trace")
}

fn parse_log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("give text or json"),
    }
}

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "give an IP address and a port, as in 127.0.0.1:8000 or [::]:8000")
}

impl ServeArgs {
    /// Returns the configuration of the server, or an error about the combination of flags.
    pub(super) fn config(self, data: PathBuf, program: &Path) -> Result<ServerConfig, String> {
        let mut warnings = Vec::new();
        if self.web.is_unauthenticated() {
            warnings.push(
                "--auth none: every client on this machine or behind a trusted proxy is an owner, \
                 and so is every client of a proxy on this machine"
                    .into(),
            );
        }
        let mail = self.mail.config();
        let mut dashboard = self.web.config(
            self.outbound
                .time_zone
                .clone()
                .unwrap_or_else(machine_timezone),
        )?;
        dashboard.mail_domain = mail.as_ref().map(|mail| mail.domain.as_str().into());
        Ok(ServerConfig {
            data_directory: data,
            program: program.into(),
            listen: self.listen,
            certificate: self.tls.source()?,
            base_url: self.base_url,
            site_name: self.site_name,
            trusted_proxies: self.trusted_proxy,
            // A u32 fits a usize on every target with sockets.
            ping_body_limit: self.ping_body_limit as usize,
            api_rate: ApiRate {
                per_minute: self.api_rate,
                burst: self.api_burst,
            },
            connections_per_address: self.connections_per_address as usize,
            dashboard,
            mail,
            zone: self.outbound.time_zone.clone(),
            outbound: self.outbound.outbound_config()?,
            heartbeat: self.heartbeat_url.map(|url| Heartbeat {
                url,
                interval: Duration::from_secs(self.heartbeat_every.into()),
            }),
            backups: self.backups.backup_schedule(),
            cluster: self.cluster.config()?,
            declared: self.declared.applied_config(),
            uses_journal: self.journal,
            holds_after_outage: matches!(self.after_outage, AfterOutageMode::Hold),
            log: self.log,
            log_format: self.log_format,
            access_log: self.access_log,
            metrics_listen: self.metrics_listen,
            instance_key: self.instance_key_file.map(|key| SecretHash::of(&key.0)),
            metrics_token: self
                .metrics_token_file
                .map(|token| SecretHash::of(&token.0)),
            warnings,
        })
    }
}

impl SmtpArgs {
    fn config(self) -> Option<MailPingConfig> {
        let domain = self.ping_email_domain?;
        Some(MailPingConfig {
            listen: self.smtp_listen,
            domain,
            certificate: certificate_files(self.smtp_tls_cert, self.smtp_tls_key),
        })
    }
}

/// Returns both files. clap requires both or neither.
fn certificate_files(chain: Option<PathBuf>, key: Option<PathBuf>) -> Option<CertificateFiles> {
    chain
        .zip(key)
        .map(|(chain, key)| CertificateFiles { chain, key })
}
