//! TLS to etcd: trusted authorities, and the certificate of this client.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::url::EtcdConfigError;
use crate::outbound::pem_cause;

/// Settings of TLS.
#[derive(Clone, Default)]
pub(crate) struct EtcdTls {
    /// Certificates of the trusted authorities, in PEM. `None`: the authorities that the system
    /// trusts.
    pub(crate) authorities: Option<Vec<u8>>,
    /// Certificate of this client. `None`: etcd must not require one.
    pub(crate) identity: Option<EtcdIdentity>,
}

/// Certificate of a client of etcd.
#[derive(Clone)]
pub(crate) struct EtcdIdentity {
    /// Certificate, followed by the certificates of its issuers, in PEM.
    pub(crate) chain: Vec<u8>,
    /// Private key, in PEM.
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls")
            .field("has_authorities", &self.authorities.is_some())
            .field("has_identity", &self.identity.is_some())
            .finish()
    }
}

impl EtcdTls {
    /// Returns the configuration for connections.
    ///
    /// # Errors
    /// If a certificate or the key is not valid, or if they do not belong together.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, EtcdConfigError> {
        let roots = match &self.authorities {
            Some(pem) => given_roots(pem)?,
            None => system_roots(),
        };
        let unusable =
            |error: rustls::Error| EtcdConfigError(format!("TLS to etcd cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.chain, "client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| {
                    EtcdConfigError(format!(
                        "the key of the client certificate for etcd is not valid: {}; give the \
                         private key in PEM",
                        pem_cause(&error)
                    ))
                })?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    EtcdConfigError(format!(
                        "the client certificate for etcd cannot be used: {error}; give the \
                         certificate and its own key"
                    ))
                })?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Certificates of a PEM text, at least one. `name`: their name in errors.
fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, EtcdConfigError> {
    let parsed = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let cause = match parsed {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Ok(_) => "there is no CERTIFICATE section in it".into(),
        Err(error) => pem_cause(&error),
    };
    Err(EtcdConfigError(format!(
        "the {name} for etcd is not valid: {cause}; give the certificate in PEM"
    )))
}

fn given_roots(pem: &[u8]) -> Result<RootCertStore, EtcdConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "certificate of the authority")? {
        roots.add(certificate).map_err(|error| {
            EtcdConfigError(format!(
                "the certificate of the authority for etcd cannot be used: {error}; give the \
                 certificate of the authority that signed the certificates of the members"
            ))
        })?;
    }
    Ok(roots)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Unreadable system roots are skipped; the handshake then fails with an error.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
