//! Certificates and keys in PEM, for TLS with etcd and between machines.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::outbound::pem_cause;

/// Parses certificates, at least one. `name`: their name in errors.
///
/// # Errors
/// Returns a sentence without a full stop.
pub(super) fn parse_certificates(
    pem: &[u8],
    name: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let cause = match parsed {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Ok(_) => "there is no CERTIFICATE section in it".into(),
        Err(error) => pem_cause(&error),
    };
    Err(format!(
        "the {name} is not valid: {cause}; give the certificate in PEM"
    ))
}

/// Parses a private key. `name`: name of its certificate in errors.
///
/// # Errors
/// Returns a sentence without a full stop.
pub(super) fn parse_key(pem: &[u8], name: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        format!(
            "the key of the {name} is not valid: {}; give the private key in PEM",
            pem_cause(&error)
        )
    })
}

/// Parses the certificates of trusted authorities, at least one. `name`: their name in errors.
///
/// # Errors
/// Returns a sentence without a full stop.
pub(super) fn parse_authorities(pem: &[u8], name: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(pem, name)? {
        roots.add(certificate).map_err(|error| {
            format!(
                "the {name} cannot be used: {error}; give the certificate of the authority that \
                 signed the others"
            )
        })?;
    }
    Ok(roots)
}
