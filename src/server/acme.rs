//! Certificate from a certificate authority by ACME (RFC 8555): obtained at the first start and
//! renewed in time. The authority verifies a domain with the challenge `tls-alpn-01` (RFC 8737) on
//! the same port as the server's clients, so no other port is needed.

mod order;
mod stored_certificate;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{CertificateSource, ServerConfig};
use crate::domain::formatting::format_duration;
use crate::domain::mail_address::MailAddress;
use crate::domain::text::is_host_name;
use crate::engine::Handle;
use crate::http::{ALPN_PROTOCOLS, BaseUrl, BaseUrlError};
use crate::metrics::Metrics;
use crate::outbound::{Outbound, host_port_of};
use crate::runtime::certificate::{Certificate, CertificateError};
use crate::util::clock::Clock;
use order::AcmeClient;
use stored_certificate::{CertificateFacts, ReplacementReason, generate_certificate};

/// Directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Maximum number of domains, as at Let's Encrypt: see [limits](crate::docs::limits).
const MAX_DOMAINS: usize = 100;
/// Interval at which the certificate is examined.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);
/// Maximum time of an attempt to get a certificate.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(300);
/// Number of failed attempts in a row after which channels with `notices=on` are notified.
const FAILURES_BEFORE_NOTICE: usize = 3;
/// Pauses after failed attempts; the last one repeats. Let's Encrypt accepts five failures in an
/// hour.
const RETRY_PAUSES: [Duration; 6] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(3600),
    Duration::from_secs(4 * 3600),
    Duration::from_secs(12 * 3600),
];

/// Certificate to get by ACME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeConfig {
    /// Domains in lower case; at least one.
    pub domains: Vec<String>,
    /// URL of the directory of the authority.
    pub directory: String,
    /// Mail address for the authority.
    pub contact: Option<String>,
}

impl AcmeConfig {
    /// Creates the configuration for these domains, each once. `None` without any.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(
        mut domains: Vec<String>,
        directory: String,
        contact: Option<String>,
    ) -> Result<Option<Self>, String> {
        let mut seen = BTreeSet::new();
        domains.retain(|domain| seen.insert(domain.clone()));
        if domains.len() > MAX_DOMAINS {
            return Err(format!("give at most {MAX_DOMAINS} domains"));
        }
        Ok((!domains.is_empty()).then_some(Self {
            domains,
            directory,
            contact,
        }))
    }

    /// Returns the domain in lower case.
    ///
    /// # Errors
    /// If it is not a name that an authority certifies by this challenge.
    pub fn parse_domain(text: &str) -> Result<String, &'static str> {
        let is_address = text.parse::<std::net::IpAddr>().is_ok();
        if text.starts_with("*.") {
            Err("a wildcard takes a challenge by DNS: use another client and --tls-cert")
        } else if is_address || !text.contains('.') || !is_host_name(text) {
            Err("give the name of a host, such as overdue.example.org")
        } else {
            Ok(text.to_ascii_lowercase())
        }
    }

    /// Checks a URL of a directory.
    ///
    /// # Errors
    /// If it is not an `https` URL.
    pub fn parse_directory(text: &str) -> Result<String, &'static str> {
        let is_https = text.starts_with("https://") && host_port_of(text).is_ok();
        is_https
            .then(|| text.to_owned())
            .ok_or("give an https:// URL")
    }

    /// Checks a mail address.
    ///
    /// # Errors
    /// If it is not a mail address.
    pub fn parse_contact(text: &str) -> Result<String, String> {
        MailAddress::parse(text)
            .map(|_| text.to_owned())
            .map_err(|error| error.to_string())
    }

    /// URL of the server at its first domain.
    pub(super) fn base_url(&self) -> Result<BaseUrl, BaseUrlError> {
        let domain = self.domains.first().map_or("", String::as_str);
        format!("https://{domain}").parse()
    }
}

/// Directory of the account and the certificate.
fn directory(data: &Path) -> PathBuf {
    data.join("acme")
}

/// File of the certificate and its key.
fn certificate_file(directory: &Path) -> PathBuf {
    directory.join("certificate.pem")
}

/// Reads the stored certificate. Until there is one, clients get a certificate that they do not
/// trust.
pub(super) fn read_certificate(
    config: &AcmeConfig,
    data: &Path,
) -> Result<Certificate, CertificateError> {
    let file = certificate_file(&directory(data));
    Certificate::read_managed(&file, ALPN_PROTOCOLS, || {
        generate_certificate(&config.domains, None)
    })
}

/// Starts a task that gets and renews the certificate of the listeners, unless it has another
/// source.
pub(super) fn start_if_configured(
    config: &ServerConfig,
    certificate: Option<Certificate>,
    outbound: &Outbound,
    handle: &Handle,
) {
    let (Some(CertificateSource::Acme(acme)), Some(certificate)) =
        (&config.certificate, certificate)
    else {
        return;
    };
    let client = AcmeClient {
        config: acme.clone(),
        directory: directory(&config.data_directory),
        certificate,
        outbound: outbound.clone(),
    };
    let handle = handle.clone();
    tokio::spawn(async move {
        let mut failures = 0;
        loop {
            let pause = client
                .next_step(&Clock::System, handle.metrics(), &mut failures)
                .await;
            sleep(pause).await;
        }
    });
}

impl AcmeClient {
    /// Gets or renews the certificate, if that is due. Returns the pause until the next step.
    async fn next_step(&self, clock: &Clock, metrics: &Metrics, failures: &mut usize) -> Duration {
        let file = certificate_file(&self.directory);
        let stored = CertificateFacts::read(&file);
        let reason = match &stored {
            Ok(Some(facts)) => facts.replacement_reason(&self.config.domains, clock.now()),
            Ok(None) => Some(ReplacementReason::Missing),
            Err(error) => {
                tracing::warn!("{}: {error}", file.display());
                Some(ReplacementReason::Unreadable)
            }
        };
        let Some(reason) = reason else {
            // The file may have been replaced by hand.
            *failures = 0;
            metrics.set_certificate_failure(None);
            return CHECK_INTERVAL;
        };
        let domains = self.config.domains.join(", ");
        tracing::info!("getting a certificate for {domains}: {}", reason.describe());
        let attempt = timeout(ATTEMPT_TIMEOUT, self.get_certificate(&file)).await;
        self.certificate.set_challenges(Default::default());
        let error = match attempt {
            Ok(Ok(())) => {
                *failures = 0;
                metrics.set_certificate_failure(None);
                tracing::info!("new connections use the new certificate for {domains}");
                return CHECK_INTERVAL;
            }
            Ok(Err(error)) => error,
            Err(_) => format!("it took longer than {} seconds", ATTEMPT_TIMEOUT.as_secs()),
        };
        let last = RETRY_PAUSES.len() - 1;
        let pause = RETRY_PAUSES
            .get((*failures).min(last))
            .copied()
            .unwrap_or(CHECK_INTERVAL);
        *failures += 1;
        let rest = match (reason, stored) {
            (ReplacementReason::ExpiresSoon, Ok(Some(facts))) => {
                let rest = facts.not_after.micros_since(clock.now());
                format!(
                    "the stored one is valid for another {}",
                    format_duration(rest)
                )
            }
            (ReplacementReason::Missing, _) => "clients get one that they do not trust".into(),
            (reason, _) => reason.describe().to_owned(),
        };
        let text = format!(
            "{domains}: {error}; {rest}; the next attempt is in {}",
            format_duration(pause.as_micros() as i64)
        );
        tracing::error!("NO CERTIFICATE for {text}");
        if *failures >= FAILURES_BEFORE_NOTICE {
            metrics.set_certificate_failure(Some(text));
        }
        pause
    }
}

/// Answer to the challenge for a domain: a certificate with a digest that only the holder of the
/// account knows.
fn challenge_answer(domain: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    generate_certificate(&[domain.to_owned()], Some(digest))
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_names_of_hosts() {
        for (text, expected) in [
            ("Overdue.Example.org", Some("overdue.example.org")),
            ("a.b", Some("a.b")),
            ("localhost", None),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
            ("*.example.org", None),
            ("exa mple.org", None),
            ("https://example.org", None),
            ("", None),
        ] {
            let parsed = AcmeConfig::parse_domain(text);
            assert_eq!(parsed.ok().as_deref(), expected, "{text}");
        }
        for (text, is_accepted) in [
            (LETS_ENCRYPT, true),
            ("https://localhost:14000/dir", true),
            ("http://localhost/dir", false),
            ("localhost", false),
        ] {
            assert_eq!(
                AcmeConfig::parse_directory(text).is_ok(),
                is_accepted,
                "{text}"
            );
        }
    }

    #[test]
    fn failures_stay_below_the_limit_of_an_hour() {
        let mut begin = Duration::ZERO;
        let mut attempts = vec![begin];
        for pause in RETRY_PAUSES {
            begin += pause;
            attempts.push(begin);
        }
        let hour = Duration::from_secs(3600);
        let in_hour = |from: &Duration| {
            let end = *from + hour;
            attempts
                .iter()
                .filter(|at| (*from..end).contains(*at))
                .count()
        };
        assert!(attempts.iter().map(in_hour).max() <= Some(4));
    }
}
