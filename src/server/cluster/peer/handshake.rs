//! Handshake of two machines of a cluster. Each proves that it knows the shared secret, and neither
//! sends it.
//!
//! | sender | bytes |
//! | --- | --- |
//! | acceptor | [`MAGIC`], [`VERSION`], nonce of 32 bytes |
//! | connector | nonce of 32 bytes, length of the header as 2 bytes, header, proof |
//! | acceptor | status of 1 byte, proof |
//!
//! A proof is an HMAC-SHA-256 over a label of the sender, the nonces of the acceptor and of the
//! connector, and what the sender says: the header with its length, or the status. Nonces are used
//! once, so bytes of an earlier handshake prove nothing. A connector without the secret gets
//! [`REFUSED`] without a proof, so it learns nothing that depends on the secret.
//!
//! The bytes after the handshake are neither encrypted nor authenticated.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{PeerError, PeerHeader, PeerSecret, PeerService};

/// First bytes of an acceptor.
const MAGIC: [u8; 7] = *b"overdue";
/// Version of the handshake.
const VERSION: u8 = 2;
/// Length of a nonce in bytes.
pub(super) const NONCE_BYTES: usize = 32;
/// Length of a proof in bytes.
const PROOF_BYTES: usize = 32;
/// Maximum length of a header in bytes. It leaves space for fields of later releases.
pub(super) const MAX_HEADER_BYTES: usize = 256;

/// Label of the proof of a connector.
const CONNECTOR_LABEL: &[u8] = b"overdue peer connector 2";
/// Label of the proof of an acceptor.
const ACCEPTOR_LABEL: &[u8] = b"overdue peer acceptor 2";

/// Answer to a connector whose proof is wrong.
const REFUSED: u8 = 255;

/// Random bytes that are used for one handshake.
pub(super) type Nonce = [u8; NONCE_BYTES];

/// Answer of an acceptor to a connector that knows the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandshakeStatus {
    /// The bytes that follow belong to the service.
    Accepted = 0,
    /// The service runs only on the leader, which this machine is not.
    NotLeader = 1,
    /// This release does not know the service.
    UnknownService = 2,
}

/// Reason why an acceptor ended a handshake.
#[derive(Debug)]
pub(super) enum RefusedHandshake {
    /// The connection ended or failed.
    Io(io::Error),
    /// The connector does not follow the protocol.
    Malformed(&'static str),
    /// The connector does not know the secret.
    WrongSecret,
    /// TLS failed.
    Tls(io::Error),
}

impl From<io::Error> for RefusedHandshake {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Request of a connector that knows the secret.
pub(super) struct AuthenticatedRequest {
    /// Header; `None` if it names an unknown service.
    pub(super) header: Option<PeerHeader>,
    nonces: [Nonce; 2],
}

/// Reads and checks the request of a connector.
///
/// # Errors
/// If the connector does not know the secret, or the connection fails. The connector has been
/// answered then.
pub(super) async fn receive_request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: &PeerSecret,
    nonce: Nonce,
) -> Result<AuthenticatedRequest, RefusedHandshake> {
    let mut greeting = Vec::from(MAGIC);
    greeting.push(VERSION);
    greeting.extend_from_slice(&nonce);
    stream.write_all(&greeting).await?;
    let mut connector_nonce = [0; NONCE_BYTES];
    stream.read_exact(&mut connector_nonce).await?;
    let length = stream.read_u16().await?;
    if usize::from(length) > MAX_HEADER_BYTES {
        return Err(RefusedHandshake::Malformed("the header is too long"));
    }
    let mut header = vec![0; usize::from(length)];
    stream.read_exact(&mut header).await?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    let nonces = [nonce, connector_nonce];
    let expected = secret.proof(CONNECTOR_LABEL, &nonces, &[&length.to_be_bytes(), &header]);
    if expected.verify_slice(&proof).is_err() {
        stream.write_all(&[REFUSED]).await?;
        return Err(RefusedHandshake::WrongSecret);
    }
    match decode_header(&header) {
        DecodedHeader::Known(header) => Ok(AuthenticatedRequest {
            header: Some(header),
            nonces,
        }),
        DecodedHeader::UnknownService => Ok(AuthenticatedRequest {
            header: None,
            nonces,
        }),
        DecodedHeader::Malformed => Err(RefusedHandshake::Malformed("the header is not valid")),
    }
}

impl AuthenticatedRequest {
    /// Sends the status, with the proof of this machine.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) async fn answer<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        secret: &PeerSecret,
        status: HandshakeStatus,
    ) -> io::Result<()> {
        let status = [status as u8];
        let proof = secret.proof(ACCEPTOR_LABEL, &self.nonces, &[&status]);
        let mut answer = Vec::from(status);
        answer.extend_from_slice(&proof.finalize().into_bytes());
        stream.write_all(&answer).await
    }
}

/// Performs the handshake of a connector. Reads no byte beyond it.
///
/// # Errors
/// See [`PeerError`].
pub(super) async fn request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: &PeerSecret,
    nonce: Nonce,
    header: &PeerHeader,
) -> Result<(), PeerError> {
    let mut magic = [0; MAGIC.len() + 1];
    let mut acceptor_nonce = [0; NONCE_BYTES];
    stream.read_exact(&mut magic).await?;
    match magic.split_last() {
        Some((version, magic)) if *magic == MAGIC => {
            if *version != VERSION {
                return Err(PeerError::OtherVersion);
            }
        }
        _ => return Err(PeerError::NotPeerPort),
    }
    stream.read_exact(&mut acceptor_nonce).await?;
    let nonces = [acceptor_nonce, nonce];
    let header = encode_header(header);
    // A header has at most 20 bytes.
    let length = u16::try_from(header.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    let proof = secret.proof(CONNECTOR_LABEL, &nonces, &[&length, &header]);
    let mut message = Vec::from(nonce);
    message.extend_from_slice(&length);
    message.extend_from_slice(&header);
    message.extend_from_slice(&proof.finalize().into_bytes());
    stream.write_all(&message).await?;
    let status = stream.read_u8().await?;
    if status == REFUSED {
        return Err(PeerError::WrongSecret);
    }
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    let expected = secret.proof(ACCEPTOR_LABEL, &nonces, &[&[status]]);
    if expected.verify_slice(&proof).is_err() {
        return Err(PeerError::WrongSecret);
    }
    match status {
        0 => Ok(()),
        1 => Err(PeerError::NotLeader),
        _ => Err(PeerError::UnknownService),
    }
}

impl PeerSecret {
    /// Returns the HMAC of a proof. Compare it by `verify_slice`, whose time does not depend on the
    /// bytes.
    fn proof(&self, label: &[u8], nonces: &[Nonce; 2], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&(*self.0).into());
        mac.update(label);
        nonces.iter().for_each(|nonce| mac.update(nonce));
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

/// Result of decoding a header.
#[derive(PartialEq, Eq, Debug)]
enum DecodedHeader {
    Known(PeerHeader),
    UnknownService,
    Malformed,
}

/// Encodes a header: service, IP version, address, port.
fn encode_header(header: &PeerHeader) -> Vec<u8> {
    let mut bytes = vec![header.service as u8];
    match header.client.ip() {
        IpAddr::V4(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(6);
            bytes.extend_from_slice(&address.octets());
        }
    }
    bytes.extend_from_slice(&header.client.port().to_be_bytes());
    bytes
}

/// Decodes a header. Ignores bytes after the known fields.
fn decode_header(bytes: &[u8]) -> DecodedHeader {
    let Some((&service, rest)) = bytes.split_first() else {
        return DecodedHeader::Malformed;
    };
    let Some(service) = PeerService::from_byte(service) else {
        return DecodedHeader::UnknownService;
    };
    match decode_address(rest) {
        Some(client) => DecodedHeader::Known(PeerHeader { service, client }),
        None => DecodedHeader::Malformed,
    }
}

fn decode_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (version, rest) = bytes.split_first()?;
    let (address, rest): (IpAddr, _) = match version {
        4 => {
            let (octets, rest) = rest.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*octets).into(), rest)
        }
        6 => {
            let (octets, rest) = rest.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*octets).into(), rest)
        }
        _ => return None,
    };
    let port = rest.first_chunk()?;
    Some(SocketAddr::new(address, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const CONNECTOR_NONCE: Nonce = [1; NONCE_BYTES];

    fn secret() -> PeerSecret {
        PeerSecret::new(b"a shared secret of the cluster").unwrap()
    }

    fn header() -> PeerHeader {
        PeerHeader {
            service: PeerService::Smtp,
            client: "192.0.2.1:25".parse().unwrap(),
        }
    }

    /// Starts an acceptor on a connection, and returns the other end.
    fn accept(nonce: Nonce) -> (DuplexStream, impl Future<Output = (bool, String)>) {
        let (connector, mut acceptor) = duplex(4096);
        let accepting = async move {
            match receive_request(&mut acceptor, &secret(), nonce).await {
                Ok(request) => {
                    let status = match request.header {
                        Some(_) => HandshakeStatus::Accepted,
                        None => HandshakeStatus::UnknownService,
                    };
                    let answered = request.answer(&mut acceptor, &secret(), status).await;
                    (answered.is_ok(), format!("{:?}", request.header))
                }
                Err(error) => (false, format!("{error:?}")),
            }
        };
        (connector, accepting)
    }

    /// Returns the request of a connector whose acceptor has the given nonce.
    async fn record_request(acceptor_nonce: Nonce) -> Vec<u8> {
        let (mut connector, mut acceptor) = duplex(4096);
        let mut greeting = Vec::from(MAGIC);
        greeting.push(VERSION);
        greeting.extend_from_slice(&acceptor_nonce);
        acceptor.write_all(&greeting).await.unwrap();
        let mut request_bytes = vec![0; NONCE_BYTES + 2 + 8 + PROOF_BYTES];
        let secret = secret();
        let header = header();
        tokio::select! {
            _ = request(&mut connector, &secret, CONNECTOR_NONCE, &header) => panic!(),
            read = acceptor.read_exact(&mut request_bytes) => {
                read.unwrap();
            }
        }
        request_bytes
    }

    /// Sends bytes to an acceptor with the given nonce. Returns its result, and what it answers.
    async fn send(bytes: &[u8], nonce: Nonce) -> (bool, String, Vec<u8>) {
        let (mut connector, accepting) = accept(nonce);
        connector.write_all(bytes).await.unwrap();
        connector.shutdown().await.unwrap();
        let (is_accepted, text) = accepting.await;
        let mut answer = Vec::new();
        connector.read_to_end(&mut answer).await.unwrap();
        let answer = answer.split_off(MAGIC.len() + 1 + NONCE_BYTES);
        (is_accepted, text, answer)
    }

    #[tokio::test]
    async fn bytes_of_an_earlier_handshake_are_refused() {
        let recorded = record_request([2; NONCE_BYTES]).await;
        let (is_accepted, text, answer) = send(&recorded, [2; NONCE_BYTES]).await;
        assert!(is_accepted, "{text}");
        assert_eq!(answer.len(), 1 + PROOF_BYTES);
        let (is_accepted, text, answer) = send(&recorded, [3; NONCE_BYTES]).await;
        assert!(!is_accepted);
        assert_eq!(text, "WrongSecret");
        assert_eq!(answer, [REFUSED], "nothing that depends on the secret");
    }

    #[tokio::test]
    async fn changed_bytes_are_refused() {
        let recorded = record_request([2; NONCE_BYTES]).await;
        for position in 0..recorded.len() {
            let mut changed = recorded.clone();
            changed[position] ^= 1;
            let (is_accepted, text, _) = send(&changed, [2; NONCE_BYTES]).await;
            assert!(!is_accepted, "{position}: {text}");
        }
    }

    #[tokio::test]
    async fn a_header_that_is_too_long_is_not_read() {
        let mut bytes = vec![0; NONCE_BYTES];
        bytes.extend_from_slice(&257_u16.to_be_bytes());
        bytes.extend_from_slice(&[0; 257 + PROOF_BYTES]);
        let (is_accepted, text, answer) = send(&bytes, [2; NONCE_BYTES]).await;
        assert!(!is_accepted);
        assert_eq!(text, "Malformed(\"the header is too long\")");
        assert!(answer.is_empty());
    }

    #[tokio::test]
    async fn the_proof_of_an_acceptor_does_not_serve_as_that_of_a_connector() {
        let nonces = [[2; NONCE_BYTES], CONNECTOR_NONCE];
        let header = encode_header(&header());
        let length = [0, 8];
        for (label, is_right) in [(CONNECTOR_LABEL, true), (ACCEPTOR_LABEL, false)] {
            let proof = secret().proof(label, &nonces, &[&length, &header]);
            let proof = proof.finalize().into_bytes();
            let bytes = [&CONNECTOR_NONCE, &length[..], &header, &proof].concat();
            let (is_accepted, text, _) = send(&bytes, nonces[0]).await;
            assert_eq!(is_accepted, is_right, "{text}");
        }
    }

    #[tokio::test]
    async fn an_unknown_service_is_named_as_the_reason() {
        let nonces = [[2; NONCE_BYTES], CONNECTOR_NONCE];
        let header = [200];
        let length = [0, 1];
        let proof = secret().proof(CONNECTOR_LABEL, &nonces, &[&length, &header]);
        let proof = proof.finalize().into_bytes();
        let bytes = [&CONNECTOR_NONCE, &length[..], &header, &proof].concat();
        let (is_accepted, text, answer) = send(&bytes, nonces[0]).await;
        assert!(is_accepted);
        assert_eq!(text, "None");
        assert_eq!(answer[0], HandshakeStatus::UnknownService as u8);
    }

    #[tokio::test]
    async fn a_connector_names_what_is_wrong_with_an_acceptor() {
        let greeting = [&MAGIC[..], &[VERSION], &[2; NONCE_BYTES]].concat();
        let other_version = [&MAGIC[..], &[VERSION + 1], &[2; NONCE_BYTES]].concat();
        let invented_proof = [&greeting[..], &[0], &[3; PROOF_BYTES]].concat();
        let refusal = [&greeting[..], &[REFUSED]].concat();
        for (bytes, error) in [
            (&other_version[..], PeerError::OtherVersion),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", PeerError::NotPeerPort),
            (&invented_proof, PeerError::WrongSecret),
            (&refusal, PeerError::WrongSecret),
        ] {
            let (mut connector, mut acceptor) = duplex(4096);
            acceptor.write_all(bytes).await.unwrap();
            let result = request(&mut connector, &secret(), CONNECTOR_NONCE, &header()).await;
            assert_eq!(result, Err(error));
        }
        let (mut connector, acceptor) = duplex(4096);
        drop(acceptor);
        let result = request(&mut connector, &secret(), CONNECTOR_NONCE, &header()).await;
        assert!(matches!(result, Err(PeerError::Unreachable(_))));
    }

    #[test]
    fn a_header_is_decoded_as_it_was_encoded() {
        for client in ["192.0.2.1:1", "[2001:db8::1]:65535", "[::ffff:10.0.0.1]:80"] {
            for service in PeerService::ALL {
                let header = PeerHeader {
                    service,
                    client: client.parse().unwrap(),
                };
                let mut bytes = encode_header(&header);
                assert!(bytes.len() <= 20);
                assert_eq!(decode_header(&bytes), DecodedHeader::Known(header));
                bytes.push(0);
                assert_eq!(decode_header(&bytes), DecodedHeader::Known(header));
                bytes.truncate(bytes.len() - 2);
                assert_eq!(decode_header(&bytes), DecodedHeader::Malformed);
                bytes[0] = 100;
                assert_eq!(decode_header(&bytes), DecodedHeader::UnknownService);
            }
        }
        assert_eq!(decode_header(&[]), DecodedHeader::Malformed);
        assert_eq!(decode_header(&[0, 5, 1, 1]), DecodedHeader::Malformed);
    }
}
