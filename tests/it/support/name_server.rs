//! A name server that answers by a script, over UDP and TCP on one port.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use overdue::outbound::NameSources;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

/// Reply for a name.
#[derive(Clone, Debug)]
pub enum DnsReply {
    /// Addresses, and their time to live in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The name is an alias of another, which has these addresses.
    Alias(&'static str, Vec<IpAddr>),
    /// Addresses over TCP only: UDP answers are truncated.
    TcpOnly(Vec<IpAddr>),
    /// The name does not exist.
    NoSuchName,
    /// An error code, such as 2 for SERVFAIL.
    ErrorCode(u8),
    NoReply,
}

pub fn addresses(texts: &[&str]) -> DnsReply {
    DnsReply::Addresses(ips(texts), 60)
}

pub fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The server. It ends with the runtime of the test.
pub struct NameServer {
    pub address: SocketAddr,
    queries: Arc<Mutex<Vec<(String, bool)>>>,
    directory: tempfile::TempDir,
}

impl NameServer {
    /// Starts a server. `reply_to` gets each queried name in lower case, and the number of earlier
    /// queries for it over both protocols.
    pub async fn start(reply_to: impl Fn(&str, usize) -> DnsReply + Send + Sync + 'static) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let server = Self {
            address: udp.local_addr().unwrap(),
            queries: Arc::default(),
            directory: tempfile::tempdir().unwrap(),
        };
        let queries = Arc::clone(&server.queries);
        let answer = Arc::new(move |query: &[u8], tcp: bool| {
            let (name, kind) = parse_question(query);
            let mut queries = queries.lock().unwrap();
            // A client queries both address families, which counts once.
            let before = queries
                .iter()
                .filter(|(own, is_v4)| *own == name && *is_v4 == (kind == 1))
                .count();
            queries.push((name.clone(), kind == 1));
            encode_answer(query, kind, &reply_to(&name, before), tcp)
        });
        let by_tcp = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
                if let Some(answer) = answer(&buffer[..length], false) {
                    // A forged answer comes first and is ignored.
                    let mut forged = answer.clone();
                    forged[1] ^= 1;
                    udp.send_to(&forged, from).await.unwrap();
                    udp.send_to(&answer, from).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = tcp.accept().await.unwrap();
                let mut query = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut query).await.unwrap();
                let answer = by_tcp(&query, true).unwrap();
                stream
                    .write_u16(answer.len().try_into().unwrap())
                    .await
                    .unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        });
        server
    }

    /// Sources with this server after the ones in `resolv_conf`, and with an empty hosts file.
    pub fn sources(&self, resolv_conf: &str) -> NameSources {
        let path = |name: &str| -> PathBuf { self.directory.path().join(name) };
        std::fs::write(path("hosts"), "").unwrap();
        std::fs::write(
            path("resolv.conf"),
            format!("{resolv_conf}nameserver {}\n", self.address),
        )
        .unwrap();
        NameSources {
            hosts: path("hosts"),
            resolv_conf: path("resolv.conf"),
            getent: path("getent").into(),
        }
    }

    /// Number of IPv4 queries for the name.
    pub fn query_count(&self, name: &str) -> usize {
        self.queries
            .lock()
            .unwrap()
            .iter()
            .filter(|(own, is_v4)| own == name && *is_v4)
            .count()
    }
}

/// Parses the name and the type of a query.
fn parse_question(query: &[u8]) -> (String, u16) {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8(query[at + 1..end].to_ascii_lowercase()).unwrap());
        at = end;
    }
    (
        labels.join("."),
        u16::from_be_bytes([query[at + 1], query[at + 2]]),
    )
}

/// Encodes an answer (RFC 1035).
fn encode_answer(query: &[u8], kind: u16, reply_to: &DnsReply, tcp: bool) -> Option<Vec<u8>> {
    let (records, code, cut) = match reply_to {
        DnsReply::Addresses(addresses, ttl) => (
            records_of_type(kind, addresses, *ttl, &[0xc0, 12]),
            0,
            false,
        ),
        DnsReply::Alias(name, addresses) => {
            let name: Vec<u8> = name
                .split('.')
                .chain([""])
                .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat())
                .collect();
            let alias = encode_record(&[0xc0, 12], 5, 60, &name);
            (
                [vec![alias], records_of_type(kind, addresses, 60, &name)].concat(),
                0,
                false,
            )
        }
        DnsReply::TcpOnly(_) if !tcp => (Vec::new(), 0, true),
        DnsReply::TcpOnly(addresses) => {
            (records_of_type(kind, addresses, 60, &[0xc0, 12]), 0, false)
        }
        DnsReply::NoSuchName => (Vec::new(), 3, false),
        DnsReply::ErrorCode(code) => (Vec::new(), *code, false),
        DnsReply::NoReply => return None,
    };
    let flags = 0x8180 | u16::from(cut) << 9 | u16::from(code);
    let mut bytes = query[..2].to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend((records.len() as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(&query[12..]);
    bytes.extend(records.concat());
    Some(bytes)
}

fn records_of_type(kind: u16, addresses: &[IpAddr], ttl: u32, name: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for address in addresses {
        match address {
            IpAddr::V4(address) if kind == 1 => {
                records.push(encode_record(name, kind, ttl, &address.octets()));
            }
            IpAddr::V6(address) if kind == 28 => {
                records.push(encode_record(name, kind, ttl, &address.octets()));
            }
            _ => {}
        }
    }
    records
}

fn encode_record(name: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(ttl.to_be_bytes());
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}
