//! The certificate that STARTTLS shows, read once at start.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate with its chain and its private key.
#[derive(Clone)]
pub struct Certificate(pub(super) TlsAcceptor);

/// Why a certificate cannot be used: the file, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateError(String);

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CertificateError {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

impl Certificate {
    /// Reads a certificate chain, the own certificate first, and its private key, both in PEM.
    ///
    /// # Errors
    /// When a file cannot be read, holds nothing of the kind, or the two do not belong together.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let told = |what: &str, path: &Path, error: &dyn fmt::Display| CertificateError(format!("{what} {}: {error}", path.display()));
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| told("cannot read the certificate", chain, &error))?;
        if certificates.is_empty() {
            return Err(told("cannot read the certificate", chain, &"there is no CERTIFICATE section in it"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| told("cannot read the private key", key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, private))
            .map_err(|error| told("cannot use the private key", key, &error))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}
