//! Names become addresses without the C library's resolver: in a static binary that one loads modules of the system's own C library,
//! and two of them in one process crash it.
//!
//! In this order: an address as it stands, `localhost`, what was found out before, `/etc/hosts`, the name servers of `resolv.conf`, and
//! for what they do not know `getent`, a program of the system's own that may use whatever the system knows names by.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::dns::Told;
use self::resolv_conf::ResolvConf;
use super::error::{SendError, Stage};
use super::url::Host;
use crate::clock::Clock;
use crate::random::Random;

mod dns;
mod resolv_conf;

/// How long a name may take.
const TIME: Duration = Duration::from_secs(5);
/// Names that are remembered.
const MOST_NAMES: usize = 1024;
/// Addresses that are tried of one name.
const MOST_ADDRESSES: usize = 16;
/// The least and the most that an answer is believed, in seconds, whatever it says itself.
const BELIEVED: std::ops::RangeInclusive<u32> = 5..=300;
/// How long after that it still serves when no server answers: an alert matters more than its age.
const STALE: Duration = Duration::from_secs(3600);
/// How long what comes from a file or from `getent` is believed, in seconds.
const LOCAL: u32 = 5;
/// `getent`: how long it may take, how many run at once, and what is read of each.
const GETENT_TIME: Duration = Duration::from_secs(2);
const GETENT_AT_ONCE: usize = 4;
const GETENT_BYTES: u64 = 16_384;

/// Where names are looked up.
#[derive(Clone, Debug)]
pub struct NameSources {
    /// Addresses and names, a line each.
    pub hosts: PathBuf,
    /// The name servers.
    pub resolv_conf: PathBuf,
    /// The program that knows what they do not, if it is there.
    pub getent: OsString,
}

impl Default for NameSources {
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), resolv_conf: "/etc/resolv.conf".into(), getent: "getent".into() }
    }
}

pub(super) struct Names {
    sources: NameSources,
    clock: Clock,
    random: Random,
    known: Mutex<HashMap<String, Known>>,
    getent: Semaphore,
}

/// What is remembered of a name.
struct Known {
    addresses: Vec<IpAddr>,
    /// By the clock's uptime.
    fresh_until: Duration,
}

impl Names {
    pub(super) fn new(sources: NameSources, clock: Clock, random: Random) -> Self {
        Self { sources, clock, random, known: Mutex::default(), getent: Semaphore::new(GETENT_AT_ONCE) }
    }

    /// The addresses of a host: at least one, those of IPv6 first.
    pub(super) async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, SendError> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(_) if host.is_loopback() => return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]),
            Host::Name(name) => name,
        };
        if let Some(known) = self.recall(name, Duration::ZERO) {
            return Ok(known);
        }
        match timeout(TIME, self.find(name)).await.unwrap_or(Told::NoAnswer) {
            Told::Addresses(mut addresses, ttl) => {
                addresses.truncate(MOST_ADDRESSES);
                self.remember(name, &addresses, ttl);
                Ok(addresses)
            }
            Told::Nothing => Err(SendError::new(Stage::Resolve, format!("no address is known for {name}"))),
            Told::NoAnswer => self
                .recall(name, STALE)
                .ok_or_else(|| SendError::new(Stage::Resolve, format!("no name server answers that is asked for {name}"))),
        }
    }

    async fn find(&self, name: &str) -> Told {
        if let Some(addresses) = self.ask_hosts(name) {
            return Told::Addresses(addresses, LOCAL);
        }
        // Read each time: it is short, and changes when the machine changes its network.
        let conf = std::fs::read_to_string(&self.sources.resolv_conf).unwrap_or_default();
        let told = dns::look_up(&ResolvConf::parse(&conf), &self.random, name).await;
        let is_local = !name.trim_end_matches('.').contains('.') || name.trim_end_matches('.').ends_with(".local");
        match told {
            Told::Nothing => {}
            Told::NoAnswer if is_local => {}
            _ => return told,
        }
        let addresses = self.ask_getent(name).await;
        if addresses.is_empty() { told } else { Told::Addresses(addresses, LOCAL) }
    }

    fn ask_hosts(&self, name: &str) -> Option<Vec<IpAddr>> {
        let text = std::fs::read(&self.sources.hosts).ok()?;
        let text = String::from_utf8_lossy(&text);
        let name = name.trim_end_matches('.');
        let mut addresses: Vec<IpAddr> = Vec::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            if words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name)) && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses.sort_by_key(IpAddr::is_ipv4);
        (!addresses.is_empty()).then_some(addresses)
    }

    /// What `getent ahosts` prints, a line for each address and kind of socket; nothing if it is not there or takes too long.
    async fn ask_getent(&self, name: &str) -> Vec<IpAddr> {
        let run = async {
            let _permit = self.getent.acquire().await.ok()?;
            let mut command = Command::new(&self.sources.getent);
            // It needs nothing of the environment but the way to it, and a host's name never begins with a dash.
            command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
            command.args(["ahosts", name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
            let mut child = command.spawn().ok()?;
            let mut printed = String::new();
            child.stdout.take()?.take(GETENT_BYTES).read_to_string(&mut printed).await.ok()?;
            Some(printed)
        };
        let printed = timeout(GETENT_TIME, run).await.ok().flatten().unwrap_or_default();
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in printed.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// What was found out before and is not older than it says by more than this.
    fn recall(&self, name: &str, older: Duration) -> Option<Vec<IpAddr>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).filter(|known| self.clock.uptime() < known.fresh_until + older).map(|known| known.addresses.clone())
    }

    fn remember(&self, name: &str, addresses: &[IpAddr], ttl: u32) {
        let believed = Duration::from_secs(u64::from(ttl.clamp(*BELIEVED.start(), *BELIEVED.end())));
        let fresh_until = self.clock.uptime() + believed;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_NAMES && !known.contains_key(name) {
            let oldest = known.iter().min_by_key(|(_, known)| known.fresh_until).map(|(name, _)| name.clone());
            oldest.and_then(|name| known.remove(&name));
        }
        known.insert(name.to_owned(), Known { addresses: addresses.to_vec(), fresh_until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::moment::Moment;

    fn names(hosts: &str) -> (Names, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, hosts).unwrap();
        let sources = NameSources { hosts: path, resolv_conf: "/nowhere".into(), getent: "/nowhere/getent".into() };
        (Names::new(sources, Clock::Manual(ManualClock::at(Moment::from_secs(0))), Random::seeded(1)), directory)
    }

    #[tokio::test]
    async fn hosts_are_read_as_the_c_library_reads_them() {
        let (names, _directory) = names("# 10.0.0.9 box\n10.0.0.1 other box # box2\n::5 BOX.lan\tbox\nnonsense box\n10.0.0.1 box\n\u{0}\n");
        let of = async |name: &str| names.addresses(&Host::parse(name).unwrap()).await.map(|found| format!("{found:?}"));
        assert_eq!(of("box").await.unwrap(), "[::5, 10.0.0.1]");
        assert_eq!(of("Box.LAN.").await.unwrap(), "[::5]");
        assert_eq!(of("localhost").await.unwrap(), "[::1, 127.0.0.1]");
        assert_eq!(of("a.localhost.").await.unwrap(), "[::1, 127.0.0.1]");
        assert_eq!(of("192.0.2.1").await.unwrap(), "[192.0.2.1]");
        assert_eq!(of("[2001:db8::1]").await.unwrap(), "[2001:db8::1]");
    }

    #[test]
    fn so_many_names_are_remembered() {
        let (names, _directory) = names("");
        for number in 0..3 * MOST_NAMES {
            names.remember(&number.to_string(), &[Ipv4Addr::LOCALHOST.into()], 0);
        }
        assert_eq!(names.known.lock().unwrap().len(), MOST_NAMES);
    }
}
