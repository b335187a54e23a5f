//! Trust of TLS connections: the system's roots and the roots in `--ca-file`, or a single
//! certificate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};

use super::error::{SendError, SendStage};
use super::url::Host;
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};

/// Minimum time between two reads of the roots.
const MIN_RELOAD_INTERVAL: Duration = Duration::from_secs(600);

/// SHA-256 fingerprint of a certificate that is trusted regardless of its issuer, name and dates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CertificatePin([u8; 32]);

impl CertificatePin {
    /// Creates the pin of this fingerprint.
    pub fn from_bytes(fingerprint: [u8; 32]) -> Self {
        Self(fingerprint)
    }

    fn matches(&self, certificate: &CertificateDer<'_>) -> bool {
        <[u8; 32]>::from(Sha256::digest(certificate)) == self.0
    }
}

/// Trusted roots, read when they are first needed.
pub(super) struct TrustedRoots {
    ca_file: Option<PathBuf>,
    clock: Clock,
    loaded: Mutex<Option<LoadedRoots>>,
}

struct LoadedRoots {
    config: Arc<ClientConfig>,
    /// By the clock's uptime.
    at: Duration,
}

impl TrustedRoots {
    pub(super) fn new(extra: Option<PathBuf>, clock: Clock) -> Self {
        Self {
            ca_file: extra,
            clock,
            loaded: Mutex::default(),
        }
    }

    /// TLS configuration that trusts this certificate only, or the roots if there is none.
    pub(super) fn config(
        &self,
        pin: Option<CertificatePin>,
    ) -> Result<Arc<ClientConfig>, SendError> {
        let mut read = lock(&self.loaded);
        match (pin, &*read) {
            (Some(pin), _) => pin_config(pin).map_err(|error| {
                SendError::new(SendStage::Tls, format!("TLS cannot be used: {error}"))
            }),
            (None, Some(read)) => Ok(Arc::clone(&read.config)),
            (None, None) => {
                let config = self.load()?;
                *read = Some(LoadedRoots {
                    config: Arc::clone(&config),
                    at: self.clock.uptime(),
                });
                Ok(config)
            }
        }
    }

    /// Reads the roots again, unless that was done recently. True if they may have changed.
    pub(super) fn reload(&self) -> bool {
        let mut read = lock(&self.loaded);
        let now = self.clock.uptime();
        if read
            .as_ref()
            .is_some_and(|read| now < read.at + MIN_RELOAD_INTERVAL)
        {
            return false;
        }
        let Ok(config) = self.load() else {
            return false;
        };
        *read = Some(LoadedRoots { config, at: now });
        true
    }

    fn load(&self) -> Result<Arc<ClientConfig>, SendError> {
        let mut roots = RootCertStore::empty();
        // Unreadable system roots are skipped; the handshake then fails with an error.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let mut operator_certificates = Vec::new();
        if let Some(path) = &self.ca_file {
            operator_certificates =
                read_authorities(path).map_err(|error| SendError::new(SendStage::Setup, error))?;
            roots.add_parsable_certificates(operator_certificates.iter().cloned());
        }
        roots_config(roots, operator_certificates)
            .map(Arc::new)
            .map_err(|error| SendError::new(SendStage::Tls, format!("TLS cannot be used: {error}")))
    }
}

/// Returns the error of a PEM file in words that users know.
pub(crate) fn pem_cause(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it contains no such section".into(),
        error => error.to_string(),
    }
}

/// Certificates of a file of `--ca-file`, at least one.
pub(super) fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file_error = |error: &dyn fmt::Display| {
        format!(
            "cannot read the certificates of {}: {error}",
            path.display()
        )
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file_error(&pem_cause(&error)))?;
    if certificates.is_empty() {
        return Err(file_error(&"there is no CERTIFICATE section in it"));
    }
    Ok(certificates)
}

/// Error of a TLS handshake with this host, as a sentence. `mentions_tls_pin`: the request is for a
/// channel, which has `tls-pin`.
pub(super) fn handshake_error(
    host: &Host,
    error: &std::io::Error,
    mentions_tls_pin: bool,
) -> SendError {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let or_pin = if mentions_tls_pin {
        ", or set its fingerprint as tls-pin of the channel"
    } else {
        ""
    };
    let sentence = match inner {
        Some(Error::InvalidCertificate(wrong)) => match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {host} is not signed by a trusted authority: give the \
                 authority or the certificate itself as --ca-file{or_pin}"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {host} is not valid yet")
            }
            // Certificates of old appliances have their name only in the subject.
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                format!(
                    "the certificate of {host} has no subjectAltName, and the name in its subject \
                     is ignored: install a certificate with a subjectAltName{or_pin}"
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "the certificate of {host} is for another name: use a URL with a name of the \
                     certificate{or_pin}"
                )
            }
            CertificateError::ApplicationVerificationFailure => {
                format!("the certificate of {host} does not match tls-pin")
            }
            other if is_authority(other) => {
                format!(
                    "the certificate of {host} is self-signed and not trusted; to trust it, set \
                     --ca-file{or_pin}"
                )
            }
            other if mentions_tls_pin => {
                format!(
                    "the certificate of {host} is not valid: {other:?}; to accept it anyway, set \
                     its fingerprint as tls-pin of the channel"
                )
            }
            other => format!("the certificate of {host} is not valid: {other:?}"),
        },
        Some(other) => format!("TLS with {host} failed: {other}"),
        None => format!("TLS with {host} failed: {}", error.kind()),
    };
    SendError::new(SendStage::Tls, sentence)
        .with_is_permanent(matches!(inner, Some(Error::InvalidCertificate(_))))
}

/// True if the server ended the handshake, or answered it with something else than TLS.
pub(super) fn is_without_tls(error: &std::io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    error.kind() == std::io::ErrorKind::UnexpectedEof
        || matches!(inner, Some(Error::InvalidMessage(_)))
}

/// True if the certificate was refused because its issuer is unknown, or has the name of a known
/// one but another key. Roots that were added since may include it.
pub(super) fn is_unknown_issuer(error: &std::io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => true,
        Some(Error::InvalidCertificate(wrong)) => is_authority(wrong),
        _ => false,
    }
}

fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Configuration that trusts certificates signed by these roots. It also trusts the certificates
/// that the operator named, even if a server presents one of them as its own.
fn roots_config(
    roots: RootCertStore,
    operator_certificates: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let by_roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider())
        .build()
        .map_err(|error| error.to_string())?;
    Ok(config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(RootsVerifier {
            inner: by_roots,
            operator_certificates,
        }))
        .with_no_client_auth())
}

/// True if a server presented the certificate of an authority as its own, such as a certificate
/// from `openssl req -x509`.
fn is_authority(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else {
        return false;
    };
    other.0.to_string().contains("CaUsedAsEndEntity")
}

/// Verifies with the roots. They refuse the certificate of an authority as a server certificate.
/// Such a certificate is accepted for its names if the operator has named it. Its dates have been
/// checked by then.
#[derive(Debug)]
struct RootsVerifier {
    inner: Arc<WebPkiServerVerifier>,
    operator_certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for RootsVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self
            .inner
            .verify_server_cert(certificate, chain, name, ocsp, now)
        {
            Err(Error::InvalidCertificate(wrong))
                if is_authority(&wrong)
                    && self
                        .operator_certificates
                        .iter()
                        .any(|named| named == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn pin_config(pin: CertificatePin) -> Result<Arc<ClientConfig>, Error> {
    let provider = crypto_provider();
    let verifier = Arc::new(PinVerifier {
        pin,
        algorithms: provider.signature_verification_algorithms,
    });
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(
        config
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth(),
    ))
}

/// Accepts one certificate, if its owner has the key. Checks nothing else.
#[derive(Debug)]
struct PinVerifier {
    pin: CertificatePin,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.pin.matches(certificate) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
