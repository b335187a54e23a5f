//! TLS to etcd: trusted authorities, and the certificate of this client.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::super::pem::{parse_authorities, parse_certificates, parse_key};
use super::url::EtcdConfigError;

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
            Some(pem) => parse_authorities(pem, "certificate of the authority of etcd")
                .map_err(EtcdConfigError)?,
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
                let name = "client certificate for etcd";
                let chain = parse_certificates(&identity.chain, name).map_err(EtcdConfigError)?;
                let key = parse_key(&identity.key, name).map_err(EtcdConfigError)?;
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

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Unreadable system roots are skipped; the handshake then fails with an error.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
