//! Asks name servers, as `resolv.conf` says: UDP first, TCP for what does not fit, each server in turn.

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
use crate::random::Random;

/// How long the addresses of one kind wait for those of the other.
const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_millis(300);

/// What name servers say of a name.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum DnsAnswer {
    /// Its addresses, IPv6 first, and how long that is true, in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// There are none.
    NoAddresses,
    /// No server gave an answer that can be used.
    NoAnswer,
}

/// Asks for a name and what it may be short for.
pub(super) async fn resolve(conf: &ResolvConf, random: &Random, name: &str) -> DnsAnswer {
    let mut told = DnsAnswer::NoAddresses;
    for candidate in conf.candidates(name) {
        match query_both_families(conf, random, &candidate).await {
            DnsAnswer::NoAddresses => {}
            DnsAnswer::NoAnswer => told = DnsAnswer::NoAnswer,
            found => return found,
        }
    }
    told
}

/// Asks for IPv6 and IPv4 at once. Who has an address of one kind waits for the other for a moment only: some servers drop one question.
async fn query_both_families(conf: &ResolvConf, random: &Random, name: &str) -> DnsAnswer {
    let (v6, v4) = (query_servers(conf, random, name, Rtype::AAAA), query_servers(conf, random, name, Rtype::A));
    tokio::pin!(v6, v4);
    let (v6, v4) = tokio::select! {
        told = &mut v6 => {
            let other = if has_addresses(&told) { timeout(OTHER_FAMILY_TIMEOUT, v4).await.unwrap_or(DnsAnswer::NoAnswer) } else { v4.await };
            (told, other)
        }
        told = &mut v4 => {
            let other = if has_addresses(&told) { timeout(OTHER_FAMILY_TIMEOUT, v6).await.unwrap_or(DnsAnswer::NoAnswer) } else { v6.await };
            (other, told)
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

fn has_addresses(told: &DnsAnswer) -> bool {
    matches!(told, DnsAnswer::Addresses(..))
}

/// Asks each server in turn, several times.
async fn query_servers(conf: &ResolvConf, random: &Random, name: &str, kind: Rtype) -> DnsAnswer {
    for _ in 0..conf.attempts {
        for server in &conf.servers {
            let Some(question) = build_query(random, name, kind) else { return DnsAnswer::NoAddresses };
            let asked = timeout(conf.timeout, query_server(*server, &question, conf.use_vc)).await;
            let told = asked.ok().and_then(Result::ok).map_or(DnsAnswer::NoAnswer, |answer| read_answer(&answer, kind));
            if told != DnsAnswer::NoAnswer {
                return told;
            }
        }
    }
    DnsAnswer::NoAnswer
}

/// A question with a number nobody can guess; `None`: this can be no name.
fn build_query(random: &Random, name: &str, kind: Rtype) -> Option<Message<Vec<u8>>> {
    let name = Name::<Vec<u8>>::from_str(name).ok()?;
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(u16::from_ne_bytes(random.bytes()));
    message.header_mut().set_rd(true);
    let mut message = message.question();
    message.push((name, kind)).ok()?;
    Some(message.into_message())
}

/// Has a server answer. Every question has a port of its own, which a forger would have to guess besides its number.
async fn query_server(server: SocketAddr, question: &Message<Vec<u8>>, tcp: bool) -> io::Result<Message<Vec<u8>>> {
    if !tcp {
        let any: SocketAddr = if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        socket.send(question.as_slice()).await?;
        let mut buffer = vec![0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await?;
            let received = buffer.get(..length).unwrap_or_default().to_vec();
            // Whatever answers another question was sent by somebody else.
            match Message::from_octets(received) {
                Ok(answer) if answer.is_answer(question) && !answer.header().tc() => return Ok(answer),
                Ok(answer) if answer.is_answer(question) => break,
                _ => {}
            }
        }
    }
    let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let mut stream = socket.connect(server).await?;
    let length = u16::try_from(question.as_slice().len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question.as_slice()].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    let answer = Message::from_octets(answer).map_err(io::Error::other)?;
    if answer.is_answer(question) { Ok(answer) } else { Err(io::Error::other("an answer to another question")) }
}

fn read_answer(answer: &Message<Vec<u8>>, kind: Rtype) -> DnsAnswer {
    match answer.header().rcode() {
        Rcode::NOERROR => address_records(answer, kind).unwrap_or(DnsAnswer::NoAnswer),
        Rcode::NXDOMAIN => DnsAnswer::NoAddresses,
        _ => DnsAnswer::NoAnswer,
    }
}

/// The addresses of the name that was asked for, or of the one that it stands for.
fn address_records(answer: &Message<Vec<u8>>, kind: Rtype) -> Option<DnsAnswer> {
    let name = answer.canonical_name()?;
    let section = answer.answer().ok()?;
    let mut found: Vec<(IpAddr, u32)> = Vec::new();
    if kind == Rtype::A {
        for record in section.limit_to_in::<A>().flatten().filter(|record| *record.owner() == name) {
            found.push((record.data().addr().into(), record.ttl().as_secs()));
        }
    } else {
        for record in section.limit_to_in::<Aaaa>().flatten().filter(|record| *record.owner() == name) {
            found.push((record.data().addr().into(), record.ttl().as_secs()));
        }
    }
    let Some(ttl) = found.iter().map(|(_, ttl)| *ttl).min() else { return Some(DnsAnswer::NoAddresses) };
    Some(DnsAnswer::Addresses(found.into_iter().map(|(address, _)| address).collect(), ttl))
}
