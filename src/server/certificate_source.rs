//! Sources of the certificates of the listeners.

use std::path::PathBuf;

use super::acme::AcmeConfig;

/// Source of the certificate for HTTP.
pub enum CertificateSource {
    /// Files that others maintain.
    Files(CertificateFiles),
    /// A certificate authority.
    Acme(AcmeConfig),
}

/// PEM files of a certificate.
pub struct CertificateFiles {
    /// File of the certificate and its chain.
    pub chain: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
}
