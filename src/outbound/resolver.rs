//! Name resolution without the C library's resolver: in a static binary that one loads modules of
//! the system's own C library, and two C libraries in one process crash it.
//!
//! In this order: a literal address, `localhost`, the cache, `/etc/hosts`, the name servers of
//! `resolv.conf`, and for names that these do not know `getent`, a program of the system that may
//! use any source of names that the system has.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::dns::DnsAnswer;
use self::resolv_conf::ResolvConf;
use super::error::{SendError, SendStage};
use super::url::Host;
use crate::util::clock::Clock;
use crate::util::random::Random;
use crate::util::sync::{Mutex, lock};

mod dns;
mod resolv_conf;

/// Maximum time to resolve a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of cached names.
const MAX_CACHED_NAMES: usize = 1024;
/// Maximum number of addresses for one name.
const MAX_ADDRESSES: usize = 16;
/// Range to which the lifetime of an answer is clamped, in seconds.
const TTL_RANGE: std::ops::RangeInclusive<u32> = 5..=300;
/// Time after expiry for which a cached answer still serves if no server answers: sending the alert
/// matters more than a fresh answer.
const MAX_STALENESS: Duration = Duration::from_secs(3600);
/// Lifetime of answers from a file or from `getent`, in seconds.
const LOCAL_TTL: u32 = 5;
/// Limits for `getent`: run time, concurrent processes, and bytes read from each.
const GETENT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_GETENT_PROCESSES: usize = 4;
const MAX_GETENT_BYTES: u64 = 16_384;

/// Sources of name resolution.
#[derive(Clone, Debug)]
pub struct NameSources {
    /// File of addresses and names, such as `/etc/hosts`.
    pub hosts: PathBuf,
    /// File that names the name servers, such as `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Program for names that the others do not know. It may be missing.
    pub getent: OsString,
}

impl Default for NameSources {
    fn default() -> Self {
        Self {
            hosts: "/etc/hosts".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            getent: "getent".into(),
        }
    }
}

pub(super) struct Resolver {
    sources: NameSources,
    clock: Clock,
    random: Random,
    cache: Mutex<HashMap<String, CachedName>>,
    getent_permits: Semaphore,
}

/// Cached addresses of a name.
struct CachedName {
    addresses: Vec<IpAddr>,
    /// By the clock's uptime.
    fresh_until: Duration,
}

impl Resolver {
    pub(super) fn new(sources: NameSources, clock: Clock, random: Random) -> Self {
        Self {
            sources,
            clock,
            random,
            cache: Mutex::default(),
            getent_permits: Semaphore::new(MAX_GETENT_PROCESSES),
        }
    }

    /// Resolves a host to at least one address, IPv6 first.
    pub(super) async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, SendError> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(_) if host.is_loopback() => {
                return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
            }
            Host::Name(name) => name,
        };
        if let Some(known) = self.cached(name, Duration::ZERO) {
            return Ok(known);
        }
        match timeout(LOOKUP_TIMEOUT, self.look_up(name))
            .await
            .unwrap_or(DnsAnswer::NoAnswer)
        {
            DnsAnswer::Addresses(mut addresses, ttl) => {
                addresses.truncate(MAX_ADDRESSES);
                self.store_in_cache(name, &addresses, ttl);
                Ok(addresses)
            }
            DnsAnswer::NoAddresses => Err(SendError::new(
                SendStage::Resolve,
                format!("no address is known for {name}"),
            )),
            DnsAnswer::NoAnswer => self.cached(name, MAX_STALENESS).ok_or_else(|| {
                SendError::new(
                    SendStage::Resolve,
                    format!("no name server answered the query for {name}"),
                )
            }),
        }
    }

    async fn look_up(&self, name: &str) -> DnsAnswer {
        if let Some(addresses) = self.look_up_in_hosts(name) {
            return DnsAnswer::Addresses(addresses, LOCAL_TTL);
        }
        // Read each time: it is short, and changes when the machine changes its network.
        let conf = std::fs::read_to_string(&self.sources.resolv_conf).unwrap_or_default();
        let answer = dns::resolve(&ResolvConf::parse(&conf), &self.random, name).await;
        let is_local = !name.trim_end_matches('.').contains('.')
            || name.trim_end_matches('.').ends_with(".local");
        match answer {
            DnsAnswer::NoAddresses => {}
            DnsAnswer::NoAnswer if is_local => {}
            _ => return answer,
        }
        let addresses = self.look_up_by_getent(name).await;
        if addresses.is_empty() {
            answer
        } else {
            DnsAnswer::Addresses(addresses, LOCAL_TTL)
        }
    }

    fn look_up_in_hosts(&self, name: &str) -> Option<Vec<IpAddr>> {
        let text = std::fs::read(&self.sources.hosts).ok()?;
        let text = String::from_utf8_lossy(&text);
        let name = name.trim_end_matches('.');
        let mut addresses: Vec<IpAddr> = Vec::new();
        for line in text.lines() {
            let mut words = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
                continue;
            };
            if words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name))
                && !addresses.contains(&address)
            {
                addresses.push(address);
            }
        }
        addresses.sort_by_key(IpAddr::is_ipv4);
        (!addresses.is_empty()).then_some(addresses)
    }

    /// Runs `getent ahosts`, which prints a line for each address and socket type. Returns no
    /// addresses if the program is missing or takes too long.
    async fn look_up_by_getent(&self, name: &str) -> Vec<IpAddr> {
        let run = async {
            let _permit = self.getent_permits.acquire().await.ok()?;
            let mut command = Command::new(&self.sources.getent);
            // It needs only `PATH`, and a host name never begins with a dash.
            command
                .env_clear()
                .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
            command
                .args(["ahosts", name])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true);
            let mut child = command.spawn().ok()?;
            let mut printed = String::new();
            child
                .stdout
                .take()?
                .take(MAX_GETENT_BYTES)
                .read_to_string(&mut printed)
                .await
                .ok()?;
            Some(printed)
        };
        let printed = timeout(GETENT_TIMEOUT, run)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in printed
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Cached addresses that expired at most `max_staleness` ago.
    fn cached(&self, name: &str, max_staleness: Duration) -> Option<Vec<IpAddr>> {
        let cache = lock(&self.cache);
        cache
            .get(name)
            .filter(|entry| self.clock.uptime() < entry.fresh_until + max_staleness)
            .map(|entry| entry.addresses.clone())
    }

    fn store_in_cache(&self, name: &str, addresses: &[IpAddr], ttl: u32) {
        let lifetime =
            Duration::from_secs(u64::from(ttl.clamp(*TTL_RANGE.start(), *TTL_RANGE.end())));
        let fresh_until = self.clock.uptime() + lifetime;
        let mut cache = lock(&self.cache);
        if cache.len() >= MAX_CACHED_NAMES && !cache.contains_key(name) {
            let oldest = cache
                .iter()
                .min_by_key(|(_, entry)| entry.fresh_until)
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| cache.remove(&name));
        }
        cache.insert(
            name.to_owned(),
            CachedName {
                addresses: addresses.to_vec(),
                fresh_until,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::util::clock::ManualClock;

    fn names(hosts: &str) -> (Resolver, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, hosts).unwrap();
        let sources = NameSources {
            hosts: path,
            resolv_conf: "/nowhere".into(),
            getent: "/nowhere/getent".into(),
        };
        (
            Resolver::new(
                sources,
                Clock::Manual(ManualClock::at(Timestamp::from_secs(0))),
                Random::seeded(1),
            ),
            directory,
        )
    }

    #[tokio::test]
    async fn hosts_are_parsed_like_the_c_library_does() {
        let (names, _directory) = names(
            "# 10.0.0.9 box\n10.0.0.1 other box # box2\n::5 BOX.lan\tbox\nnonsense box\n10.0.0.1 \
             box\n\u{0}\n",
        );
        let of = async |name: &str| {
            names
                .addresses(&Host::parse(name).unwrap())
                .await
                .map(|found| format!("{found:?}"))
        };
        assert_eq!(of("box").await.unwrap(), "[::5, 10.0.0.1]");
        assert_eq!(of("Box.LAN.").await.unwrap(), "[::5]");
        assert_eq!(of("localhost").await.unwrap(), "[::1, 127.0.0.1]");
        assert_eq!(of("a.localhost.").await.unwrap(), "[::1, 127.0.0.1]");
        assert_eq!(of("192.0.2.1").await.unwrap(), "[192.0.2.1]");
        assert_eq!(of("[2001:db8::1]").await.unwrap(), "[2001:db8::1]");
    }

    #[test]
    fn the_name_cache_is_bounded() {
        let (names, _directory) = names("");
        for number in 0..3 * MAX_CACHED_NAMES {
            names.store_in_cache(&number.to_string(), &[Ipv4Addr::LOCALHOST.into()], 0);
        }
        assert_eq!(names.cache.lock().unwrap().len(), MAX_CACHED_NAMES);
    }
}
