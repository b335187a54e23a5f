//! DNS client for the servers of `resolv.conf`: UDP first, TCP for truncated answers, each server
//! in turn.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr as _;
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::message_builder::MessageBuilder;
use domain::base::{Message, Name};
use domain::rdata::{A, Aaaa};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

use super::resolv_conf::ResolvConf;
use crate::util::random::Random;

/// Maximum time that the addresses of one family wait for the other family.
const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_millis(300);

/// Result of a DNS lookup.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum DnsAnswer {
    /// Addresses, IPv6 first, and their lifetime in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The name has no addresses.
    NoAddresses,
    /// No server gave a usable answer.
    NoAnswer,
}

/// Looks up a name and its expansions by the search list.
pub(super) async fn resolve(conf: &ResolvConf, random: &Random, name: &str) -> DnsAnswer {
    let mut answer = DnsAnswer::NoAddresses;
    for candidate in conf.candidates(name) {
        match query_both_families(conf, random, &candidate).await {
            DnsAnswer::NoAddresses => {}
            DnsAnswer::NoAnswer => answer = DnsAnswer::NoAnswer,
            found => return found,
        }
    }
    answer
}

/// Queries IPv6 and IPv4 at the same time. If one answer has addresses, the other is awaited only
/// for [`OTHER_FAMILY_TIMEOUT`]: some servers drop one of the queries.
async fn query_both_families(conf: &ResolvConf, random: &Random, name: &str) -> DnsAnswer {
    let v6 = query_servers(conf, random, name, Rtype::AAAA);
    let v4 = query_servers(conf, random, name, Rtype::A);
    tokio::pin!(v6, v4);
    let (v6, v4) = tokio::select! {
        answer = &mut v6 => {
            let other = if has_addresses(&answer) {
                timeout(OTHER_FAMILY_TIMEOUT, v4)
                    .await
                    .unwrap_or(DnsAnswer::NoAnswer)
            } else {
                v4.await
            };
            (answer, other)
        }
        answer = &mut v4 => {
            let other = if has_addresses(&answer) {
                timeout(OTHER_FAMILY_TIMEOUT, v6)
                    .await
                    .unwrap_or(DnsAnswer::NoAnswer)
            } else {
                v6.await
            };
            (other, answer)
        }
    };
    match (v6, v4) {
        (DnsAnswer::Addresses(mut all, ttl), DnsAnswer::Addresses(more, other)) => {
            all.extend(more);
            DnsAnswer::Addresses(all, ttl.min(other))
        }
        (found @ DnsAnswer::Addresses(..), _) | (_, found @ DnsAnswer::Addresses(..)) => found,
        (DnsAnswer::NoAddresses, DnsAnswer::NoAddresses) => DnsAnswer::NoAddresses,
        _ => DnsAnswer::NoAnswer,
    }
}

fn has_addresses(answer: &DnsAnswer) -> bool {
    matches!(answer, DnsAnswer::Addresses(..))
}

/// Queries each server in turn, several times.
async fn query_servers(conf: &ResolvConf, random: &Random, name: &str, kind: Rtype) -> DnsAnswer {
    for _ in 0..conf.attempts {
        for server in &conf.servers {
            let Some(question) = build_query(random, name, kind) else {
                return DnsAnswer::NoAddresses;
            };
            let reply = timeout(conf.timeout, query_server(*server, &question, conf.use_vc)).await;
            let answer = reply
                .ok()
                .and_then(Result::ok)
                .map_or(DnsAnswer::NoAnswer, |reply| read_answer(&reply, kind));
            if answer != DnsAnswer::NoAnswer {
                return answer;
            }
        }
    }
    DnsAnswer::NoAnswer
}

/// Builds a query with an unpredictable id. `None`: the name is invalid.
fn build_query(random: &Random, name: &str, kind: Rtype) -> Option<Message<Vec<u8>>> {
    let name = Name::<Vec<u8>>::from_str(name).ok()?;
    let mut message = MessageBuilder::new_vec();
    message
        .header_mut()
        .set_id(u16::from_ne_bytes(random.bytes()));
    message.header_mut().set_rd(true);
    let mut message = message.question();
    message.push((name, kind)).ok()?;
    Some(message.into_message())
}

/// Queries a server. Every query uses its own port, which a forger would have to guess in addition
/// to the id.
async fn query_server(
    server: SocketAddr,
    question: &Message<Vec<u8>>,
    tcp: bool,
) -> io::Result<Message<Vec<u8>>> {
    if !tcp {
        let any: SocketAddr = if server.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        socket.send(question.as_slice()).await?;
        let mut buffer = vec![0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await?;
            let received = buffer.get(..length).unwrap_or_default().to_vec();
            // An answer to another query may be forged, and is ignored.
            match Message::from_octets(received) {
                Ok(answer) if answer.is_answer(question) && !answer.header().tc() => {
                    return Ok(answer);
                }
                Ok(answer) if answer.is_answer(question) => break,
                _ => {}
            }
        }
    }
    let socket = if server.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    let mut stream = socket.connect(server).await?;
    let length = u16::try_from(question.as_slice().len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), question.as_slice()].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    let answer = Message::from_octets(answer).map_err(io::Error::other)?;
    if answer.is_answer(question) {
        Ok(answer)
    } else {
        Err(io::Error::other("an answer to another question"))
    }
}

fn read_answer(answer: &Message<Vec<u8>>, kind: Rtype) -> DnsAnswer {
    match answer.header().rcode() {
        Rcode::NOERROR => address_records(answer, kind).unwrap_or(DnsAnswer::NoAnswer),
        Rcode::NXDOMAIN => DnsAnswer::NoAddresses,
        _ => DnsAnswer::NoAnswer,
    }
}

/// Addresses of the queried name, or of its canonical name.
fn address_records(answer: &Message<Vec<u8>>, kind: Rtype) -> Option<DnsAnswer> {
    let name = answer.canonical_name()?;
    let section = answer.answer().ok()?;
    let mut found: Vec<(IpAddr, u32)> = Vec::new();
    if kind == Rtype::A {
        for record in section
            .limit_to_in::<A>()
            .flatten()
            .filter(|record| *record.owner() == name)
        {
            found.push((record.data().addr().into(), record.ttl().as_secs()));
        }
    } else {
        for record in section
            .limit_to_in::<Aaaa>()
            .flatten()
            .filter(|record| *record.owner() == name)
        {
            found.push((record.data().addr().into(), record.ttl().as_secs()));
        }
    }
    let Some(ttl) = found.iter().map(|(_, ttl)| *ttl).min() else {
        return Some(DnsAnswer::NoAddresses);
    };
    Some(DnsAnswer::Addresses(
        found.into_iter().map(|(address, _)| address).collect(),
        ttl,
    ))
}
