//! The certificate that doors show: read from files, and read again while the server runs, so that a renewed one counts without a restart.

use std::fmt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::outbound::pem_cause;

/// A certificate with its chain and its private key. Clones show the same one, also after it was read again.
#[derive(Clone)]
pub struct Certificate(Arc<CertificateState>);

struct CertificateState {
    chain: PathBuf,
    key: PathBuf,
    /// What the files were like when they were read last, whatever came of it.
    last_stamps: Mutex<[FileStamp; 2]>,
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

/// What changes with a file: when it was written, its length, and which one it is. `None`: there is none, or it cannot be looked at.
type FileStamp = Option<(SystemTime, u64, u64)>;

/// The one that the next handshake shows.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

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

/// What came of a second look at the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateReload {
    /// They are those that were read before.
    Unchanged,
    /// New connections see what is in them now.
    Replaced,
    /// They cannot be used. What was read before is still shown.
    Failed(CertificateError),
}

impl Certificate {
    /// Reads a certificate chain, the own certificate first, and its private key, both in PEM. It is shown by TLS 1.2 and 1.3, to clients
    /// that name protocols for one of these (ALPN, RFC 7301); with none of these, whatever clients name.
    ///
    /// # Errors
    /// When a file cannot be read, holds nothing of the kind, or the two do not belong together.
    pub fn read(chain: &Path, key: &Path, protocols: &[&[u8]]) -> Result<Self, CertificateError> {
        // Before they are read: what is written meanwhile is a change.
        let seen = Mutex::new([file_stamp(chain), file_stamp(key)]);
        let shown = Arc::new(CurrentCertificate(RwLock::new(Arc::new(load_key_pair(chain, key)?))));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| CertificateError(format!("TLS cannot be used: {error}")))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&shown) as _);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self(Arc::new(CertificateState { chain: chain.into(), key: key.into(), last_stamps: seen, current: shown, acceptor })))
    }

    /// Reads the files again if they have changed since they were read last, or if `even_if_same`.
    pub fn reload(&self, even_if_same: bool) -> CertificateReload {
        let CertificateState { chain, key, last_stamps: seen, current: shown, .. } = &*self.0;
        let now = [file_stamp(chain), file_stamp(key)];
        let before = std::mem::replace(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner), now);
        if before == now && !even_if_same {
            return CertificateReload::Unchanged;
        }
        match load_key_pair(chain, key) {
            Ok(pair) => {
                *shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                CertificateReload::Replaced
            }
            Err(error) => CertificateReload::Failed(error),
        }
    }

    /// The file of the chain.
    pub fn chain(&self) -> &Path {
        &self.0.chain
    }

    /// The file of the private key, if every user of the machine may read or write it.
    pub fn exposed_key(&self) -> Option<&Path> {
        let open = std::fs::metadata(&self.0.key).is_ok_and(|there| there.permissions().mode() & 0o006 != 0);
        open.then_some(&*self.0.key)
    }

    /// What agrees on TLS with clients.
    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.0.acceptor
    }
}

fn file_stamp(path: &Path) -> FileStamp {
    let there = std::fs::metadata(path).ok()?;
    Some((there.modified().ok()?, there.len(), there.ino()))
}

fn load_key_pair(chain: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let told = |what: &str, path: &Path, error: &dyn fmt::Display| CertificateError(format!("{what} {}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| told("cannot read the certificate", chain, &pem_cause(&error)))?;
    if certificates.is_empty() {
        return Err(told("cannot read the certificate", chain, &"there is no CERTIFICATE section in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| told("cannot read the private key", key, &pem_cause(&error)))?;
    CertifiedKey::from_der(certificates, private, &ring::default_provider())
        .map_err(|error| told("cannot use the private key", key, &error))
}
