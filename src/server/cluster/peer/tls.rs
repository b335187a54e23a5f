//! TLS between machines, in addition to the secret: each machine shows a certificate of an
//! authority that the others trust.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::super::pem::{parse_authorities, parse_certificates, parse_key};
use super::super::splice::Splice;
use crate::outbound::Outbound;

/// Certificates in PEM.
pub(crate) struct PeerTlsPem {
    /// Certificates of the authorities that issued the certificates of all machines.
    pub(crate) authorities: Vec<u8>,
    /// Certificate of this machine, followed by the certificates of its issuers.
    pub(crate) chain: Vec<u8>,
    /// Private key of that certificate.
    pub(crate) key: Vec<u8>,
}

/// TLS of both ends of connections between machines. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PeerTls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl PeerTls {
    /// Returns the configuration with these certificates.
    ///
    /// # Errors
    /// Returns a sentence without a full stop if they are not valid, or do not belong together.
    pub(crate) fn new(pem: &PeerTlsPem) -> Result<Self, String> {
        let name = "certificate of this machine for the cluster";
        let roots = parse_authorities(&pem.authorities, "authority of the cluster")?;
        let roots = Arc::new(roots);
        let chain = parse_certificates(&pem.chain, name)?;
        let unusable = |error: &dyn std::fmt::Display| {
            format!(
                "the {name} cannot be used: {error}; give the certificate, its own key and the \
                 authority that signed the certificates of all machines"
            )
        };
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| unusable(&error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), parse_key(&pem.key, name)?)
            .map_err(|error| unusable(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, parse_key(&pem.key, name)?)
            .map_err(|error| unusable(&error))?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Performs the TLS handshake of an acceptor.
    ///
    /// # Errors
    /// If the other side has no certificate of the authority.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<server::TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Performs the TLS handshake of a connector with the machine at an address, `HOST:PORT`.
    ///
    /// # Errors
    /// If the certificate of the machine is not valid for the host.
    pub(super) async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

/// Returns a connection within this machine that carries the bytes of an encrypted one: the servers
/// of clients take TCP connections.
///
/// # Errors
/// If the system gives no sockets.
pub(super) async fn bridge(
    mut encrypted: server::TlsStream<TcpStream>,
    outbound: &Outbound,
) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?.to_string();
    let near = outbound.connect(&address).await.map_err(io::Error::other)?;
    let own_address = near.local_addr()?;
    let mut far = loop {
        let (stream, address) = listener.accept().await?;
        // Another process of this machine could have been faster.
        if address == own_address {
            break stream;
        }
    };
    far.set_nodelay(true)?;
    tokio::spawn(async move {
        let (_keep_open, mut stop) = watch::channel(false);
        Splice::default()
            .run(&mut encrypted, &mut far, &mut stop)
            .await;
    });
    near.set_nodelay(true)?;
    Ok(near)
}
