//! A certificate authority for tests, and its certificates.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Replaces a file atomically, as renewal of certificates does.
pub fn put(path: &Path, text: &str) -> PathBuf {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&new, path).unwrap();
    path.into()
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate of a server, with its key.
pub struct ServerCertificate {
    pub acceptor: TlsAcceptor,
    /// Its SHA-256.
    pub fingerprint: [u8; 32],
}

impl Authority {
    /// Creates an authority with a unique name.
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!(
            "authority {}",
            COUNT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Creates a self-signed certificate that is marked as an authority, like one by `openssl req
    /// -x509`.
    pub fn self_signed(name: &str) -> (Self, ServerCertificate) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let server_certificate = ServerCertificate::of(certificate.der(), &key);
        (
            Self {
                pem: certificate.pem(),
                issuer: Issuer::new(params, key),
            },
            server_certificate,
        )
    }

    /// Writes a file for `--ca-file`.
    pub fn file(&self, directory: &tempfile::TempDir) -> PathBuf {
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, &self.pem).unwrap();
        path
    }

    /// Writes files with a certificate for a name or an address and its private key, replacing
    /// existing ones.
    pub fn write(&self, name: &str, directory: &Path) -> [PathBuf; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        [
            ("server.pem", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ]
        .map(|(file, text)| put(&directory.join(file), &text))
    }

    /// Creates a client that trusts only this authority.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap();
        config.with_root_certificates(roots).with_no_client_auth()
    }

    /// Issues a certificate as old appliances have it, with its name only in the subject.
    pub fn issue_without_names(&self, common_name: &str) -> ServerCertificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        self.sign(&params)
    }

    /// Issues a certificate for a name or an address.
    pub fn issue(&self, name: &str) -> ServerCertificate {
        self.sign(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// Issues a certificate that expired in 2020.
    pub fn issue_expired(&self, name: &str) -> ServerCertificate {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> ServerCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> =
            params.signed_by(&key, &self.issuer).unwrap().der().clone();
        ServerCertificate::of(&certificate, &key)
    }
}

impl ServerCertificate {
    fn of(certificate: &CertificateDer<'static>, key: &KeyPair) -> Self {
        let fingerprint: [u8; 32] = Sha256::digest(certificate).into();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate.clone()], private)
            })
            .unwrap();
        Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            fingerprint,
        }
    }
}
