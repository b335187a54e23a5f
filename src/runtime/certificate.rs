//! TLS certificate of the listeners. The files are read again while the server runs, so that a
//! renewed certificate needs no restart.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::outbound::pem_cause;
use crate::util::sync::{Mutex, RwLock, lock, read, write};

/// Certificate with its chain and its private key. Clones share it, and a reload applies to all of
/// them.
#[derive(Clone)]
pub struct Certificate(Arc<CertificateState>);

struct CertificateState {
    chain: PathBuf,
    key: PathBuf,
    /// Stamps of the files at the last read, successful or not.
    last_stamps: Mutex<[FileStamp; 2]>,
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

/// Modification time, length and inode of a file. `None`: the file does not exist or cannot be
/// examined.
type FileStamp = Option<(SystemTime, u64, u64)>;

/// Protocol of the challenge `tls-alpn-01` (RFC 8737): a certificate authority asks for a
/// certificate that proves control of a domain.
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// Certificate for the next handshake.
#[derive(Debug)]
struct CurrentCertificate {
    regular: RwLock<Arc<CertifiedKey>>,
    /// Answers to challenges, by domain in lower case.
    challenges: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

impl CurrentCertificate {
    fn new(regular: CertifiedKey) -> Arc<Self> {
        Arc::new(Self {
            regular: RwLock::new(Arc::new(regular)),
            challenges: RwLock::default(),
        })
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_challenge = hello
            .alpn()
            .is_some_and(|mut protocols| protocols.any(|protocol| protocol == ACME_PROTOCOL));
        if is_challenge {
            let domain = hello.server_name()?.to_ascii_lowercase();
            return read(&self.challenges).get(&domain).cloned();
        }
        Some(Arc::clone(&read(&self.regular)))
    }
}

/// Error that makes a certificate unusable: the file, and the problem.
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

/// Result of reading the files again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateReload {
    /// The files have not changed.
    Unchanged,
    /// New connections use the new certificate.
    Replaced,
    /// The files cannot be used. The previous certificate stays in use.
    Failed(CertificateError),
}

impl Certificate {
    /// Reads a certificate chain, with the server's own certificate first, and its private key,
    /// both in PEM. It serves TLS 1.2 and 1.3. Clients that offer protocols (ALPN, RFC 7301) must
    /// offer one of `protocols`, unless that list is empty.
    ///
    /// # Errors
    /// If a file cannot be read or contains no certificate or key, or if the two do not belong
    /// together.
    pub fn read(chain: &Path, key: &Path, protocols: &[&[u8]]) -> Result<Self, CertificateError> {
        // Taken before the files are read, so that a write in the meantime counts as a change.
        let last_stamps = Mutex::new([file_stamp(chain), file_stamp(key)]);
        let current = CurrentCertificate::new(load_key_pair(chain, key)?);
        Self::new((chain, key), last_stamps, current, protocols)
    }

    /// Reads a certificate and its key from one file that a certificate authority's client writes.
    /// Before it exists, `temporary` is used. Challenges of the authority are answered.
    ///
    /// # Errors
    /// If the file exists and cannot be used.
    pub fn read_managed(
        file: &Path,
        protocols: &[&[u8]],
        temporary: impl FnOnce() -> Result<CertifiedKey, CertificateError>,
    ) -> Result<Self, CertificateError> {
        let last_stamps = Mutex::new([file_stamp(file), file_stamp(file)]);
        let current = if file.exists() {
            load_key_pair(file, file)?
        } else {
            temporary()?
        };
        let protocols: Vec<_> = protocols.iter().copied().chain([ACME_PROTOCOL]).collect();
        Self::new(
            (file, file),
            last_stamps,
            CurrentCertificate::new(current),
            &protocols,
        )
    }

    fn new(
        (chain, key): (&Path, &Path),
        last_stamps: Mutex<[FileStamp; 2]>,
        current: Arc<CurrentCertificate>,
        protocols: &[&[u8]],
    ) -> Result<Self, CertificateError> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| CertificateError(format!("TLS cannot be used: {error}")))?;
        let mut config = config
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self(Arc::new(CertificateState {
            chain: chain.into(),
            key: key.into(),
            last_stamps,
            current,
            acceptor,
        })))
    }

    /// Reads the files again if they have changed since the last read, or if `even_if_same`.
    pub fn reload(&self, even_if_same: bool) -> CertificateReload {
        let CertificateState {
            chain,
            key,
            last_stamps,
            current,
            ..
        } = &*self.0;
        let now = [file_stamp(chain), file_stamp(key)];
        let before = std::mem::replace(&mut *lock(last_stamps), now);
        let is_missing = before == [None, None] && now == before;
        if before == now && (!even_if_same || is_missing) {
            return CertificateReload::Unchanged;
        }
        match load_key_pair(chain, key) {
            Ok(pair) => {
                *write(&current.regular) = Arc::new(pair);
                CertificateReload::Replaced
            }
            Err(error) => CertificateReload::Failed(error),
        }
    }

    /// Answers challenges for these domains, and for no others.
    pub fn set_challenges(&self, challenges: HashMap<String, Arc<CertifiedKey>>) {
        *write(&self.0.current.challenges) = challenges;
    }

    /// File of the chain.
    pub fn chain(&self) -> &Path {
        &self.0.chain
    }

    /// File of the private key, if every user of the machine may read or write it.
    pub fn exposed_key(&self) -> Option<&Path> {
        let is_exposed = std::fs::metadata(&self.0.key)
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o006 != 0);
        is_exposed.then_some(&*self.0.key)
    }

    /// Acceptor for TLS handshakes with clients.
    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.0.acceptor
    }
}

impl CertificateError {
    /// Creates an error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

fn file_stamp(path: &Path) -> FileStamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

fn load_key_pair(chain: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let file_error = |problem: &str, path: &Path, error: &dyn fmt::Display| {
        CertificateError(format!("{problem} {}: {error}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file_error("cannot read the certificate", chain, &pem_cause(&error)))?;
    if certificates.is_empty() {
        return Err(file_error(
            "cannot read the certificate",
            chain,
            &"there is no CERTIFICATE section in it",
        ));
    }
    let private_key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| file_error("cannot read the private key", key, &pem_cause(&error)))?;
    CertifiedKey::from_der(certificates, private_key, &ring::default_provider())
        .map_err(|error| file_error("cannot use the private key", key, &error))
}
