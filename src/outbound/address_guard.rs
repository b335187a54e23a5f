//! Rules for the addresses that may be connected to. They depend on the address and on the creator
//! of the channel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Authority that chose the destination of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trust {
    /// Operator of the server, at the command line. May reach every address that belongs to a
    /// single host.
    Operator,
    /// Holder of a key of the HTTP API. May not reach addresses that only the server's own machine
    /// can reach.
    Api,
}

/// Addresses that channels created through the HTTP API reach by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NetworkReach {
    /// Public addresses and private networks.
    #[default]
    Private,
    /// Public addresses only.
    Public,
}

/// Rules for addresses. [Limits](crate::docs::limits) explains them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AddressGuard {
    /// Addresses that channels of the API reach by default.
    pub reach: NetworkReach,
    /// Networks that they reach in addition. If several networks contain an address, the smallest
    /// one decides.
    pub allow: Vec<IpNet>,
    /// Networks that they do not reach. Takes precedence if `allow` names the same network.
    pub deny: Vec<IpNet>,
}

/// Class of an address, as far as the rules need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AddressScope {
    /// Belongs to no single host.
    NotSingleHost,
    Loopback,
    LinkLocal,
    Private,
    Public,
}

/// An address was refused. Contains the words after "ADDRESS is".
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AddressRefusal(String);

impl AddressRefusal {
    pub(super) fn reason(&self) -> &str {
        &self.0
    }
}

impl AddressGuard {
    /// True if channels created through the API reach this address only if `--outbound-allow` names
    /// it: an address of this machine or its link.
    pub fn requires_outbound_allow(address: IpAddr) -> bool {
        let guard = Self::default();
        guard.check(address, Trust::Operator).is_ok() && guard.check(address, Trust::Api).is_err()
    }

    /// Checks if this address may be connected to.
    pub(super) fn check(&self, address: IpAddr, trust: Trust) -> Result<(), AddressRefusal> {
        let target = embedded_address(address);
        let scope = scope_of(target);
        if scope == AddressScope::NotSingleHost {
            return Err(AddressRefusal("not the address of a single host".into()));
        }
        if trust == Trust::Operator {
            return Ok(());
        }
        let smallest = |networks: &[IpNet]| {
            let matching = networks
                .iter()
                .filter(|network| network.contains(&address) || network.contains(&target));
            matching
                .map(|network| network.max_prefix_len() - network.prefix_len())
                .min()
        };
        let reason = match (smallest(&self.allow), smallest(&self.deny), scope) {
            (Some(allow), Some(deny), _) if allow < deny => return Ok(()),
            (_, Some(_), _) => {
                return Err(AddressRefusal(
                    "in a network that --outbound-deny names".into(),
                ));
            }
            (Some(_), None, _) | (None, None, AddressScope::Public) => return Ok(()),
            (None, None, AddressScope::Private) if self.reach == NetworkReach::Private => {
                return Ok(());
            }
            (None, None, AddressScope::Private) => {
                "private, and the server was started with --outbound public"
            }
            (None, None, AddressScope::LinkLocal) => "link-local",
            (None, None, _) => "a loopback address",
        };
        Err(AddressRefusal(format!(
            "{reason}: to let channels created through the API reach it, start the server with \
             --outbound-allow {target}"
        )))
    }
}

/// Address where a packet to this one ends, as far as the address itself shows: some IPv6 forms
/// embed an IPv4 address.
fn embedded_address(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 =
        |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        // IPv4-mapped (RFC 4291), and IPv4-compatible, which it replaced. `::` and `::1` stay as
        // they are.
        (0, 0, 0, 0, 0, 0xffff) => v4(g, h),
        (0, 0, 0, 0, 0, 0) if (g, h) > (0, 1) => v4(g, h),
        // IPv4-translated (RFC 2765).
        (0, 0, 0, 0, 0xffff, 0) => v4(g, h),
        // NAT64 (RFC 6052, RFC 8215).
        (0x64, 0xff9b, 0 | 1, ..) => v4(g, h),
        // 6to4 (RFC 3056).
        (0x2002, ..) => v4(b, c),
        // Teredo (RFC 4380): the client's address, each bit inverted.
        (0x2001, 0, ..) => v4(!g, !h),
        _ => address,
    }
}

fn scope_of(address: IpAddr) -> AddressScope {
    match address {
        IpAddr::V4(address) => scope_v4(address),
        IpAddr::V6(address) => scope_v6(address),
    }
}

fn scope_v4(address: Ipv4Addr) -> AddressScope {
    match address.octets() {
        [0, ..] | [224..=239, ..] | [255, 255, 255, 255] => AddressScope::NotSingleHost,
        [127, ..] => AddressScope::Loopback,
        // Cloud providers serve a machine's credentials at addresses in all three ranges.
        [169, 254, ..] | [192, 0, 0, _] | [100, 100, 100, 200] => AddressScope::LinkLocal,
        // The last two are reserved; in practice they are used only within private networks.
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [198, 18..=19, ..]
        | [240..=255, ..] => AddressScope::Private,
        _ => AddressScope::Public,
    }
}

fn scope_v6(address: Ipv6Addr) -> AddressScope {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xff00..=0xffff, ..] => AddressScope::NotSingleHost,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressScope::Loopback,
        // At the last one, a cloud serves the machine's own credentials.
        [0xfe80..=0xfebf, ..] | [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => AddressScope::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => AddressScope::Private,
        _ => AddressScope::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(reach: NetworkReach, allow: &[&str], deny: &[&str]) -> AddressGuard {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        AddressGuard {
            reach,
            allow: networks(allow),
            deny: networks(deny),
        }
    }

    fn allows(guard: &AddressGuard, address: &str, trust: Trust) -> bool {
        guard.check(address.parse().unwrap(), trust).is_ok()
    }

    #[test]
    fn addresses_are_allowed_by_scope_and_creator() {
        let private = guard(NetworkReach::Private, &[], &[]);
        let public = guard(NetworkReach::Public, &[], &[]);
        // Address; allowed for the operator, through the API, through the API with `--outbound
        // public`.
        let table = [
            ("93.184.216.34", true, true, true),
            ("2606:2800:220:1::1", true, true, true),
            ("8.8.8.8", true, true, true),
            ("10.1.2.3", true, true, false),
            ("172.15.0.1", true, true, true),
            ("172.16.0.1", true, true, false),
            ("172.31.255.255", true, true, false),
            ("172.32.0.1", true, true, true),
            ("192.168.1.1", true, true, false),
            ("100.64.0.1", true, true, false),
            ("100.127.255.255", true, true, false),
            ("100.128.0.1", true, true, true),
            ("198.18.0.1", true, true, false),
            ("240.0.0.1", true, true, false),
            ("fc00::1", true, true, false),
            ("fdff::1", true, true, false),
            ("127.0.0.1", true, false, false),
            ("127.255.255.254", true, false, false),
            ("::1", true, false, false),
            ("169.254.169.254", true, false, false),
            ("fe80::1", true, false, false),
            ("febf::1", true, false, false),
            ("100.100.100.200", true, false, false),
            ("192.0.0.192", true, false, false),
            ("fd00:ec2::254", true, false, false),
            ("0.0.0.0", false, false, false),
            ("0.1.2.3", false, false, false),
            ("::", false, false, false),
            ("224.0.0.251", false, false, false),
            ("ff02::fb", false, false, false),
            ("255.255.255.255", false, false, false),
            // By the embedded address.
            ("::ffff:127.0.0.1", true, false, false),
            ("::ffff:10.0.0.1", true, true, false),
            ("::ffff:8.8.8.8", true, true, true),
            ("::ffff:0.0.0.0", false, false, false),
            ("::127.0.0.1", true, false, false),
            ("::ffff:0:127.0.0.1", true, false, false),
            ("::ffff:0:169.254.169.254", true, false, false),
            ("::ffff:0:8.8.8.8", true, true, true),
            ("64:ff9b::7f00:1", true, false, false),
            ("64:ff9b::808:808", true, true, true),
            ("64:ff9b:1::a9fe:a9fe", true, false, false),
            ("2002:7f00:1::1", true, false, false),
            ("2002:a00:1::1", true, true, false),
            ("2002:808:808::1", true, true, true),
            ("2001:0:808:808:0:0:80ff:fffe", true, false, false),
            ("2001:0:808:808:0:0:f7f7:f7f7", true, true, true),
            ("2001:db8::1", true, true, true),
        ];
        for (address, operator, api, api_public) in table {
            assert_eq!(
                allows(&private, address, Trust::Operator),
                operator,
                "{address}, by the operator"
            );
            assert_eq!(
                allows(&public, address, Trust::Operator),
                operator,
                "{address}, by the operator, public"
            );
            assert_eq!(
                allows(&private, address, Trust::Api),
                api,
                "{address}, by the API"
            );
            assert_eq!(
                allows(&public, address, Trust::Api),
                api_public,
                "{address}, by the API, public"
            );
        }
    }

    #[test]
    fn the_smallest_matching_network_decides() {
        let guard = guard(
            NetworkReach::Public,
            &[
                "10.1.0.0/16",
                "127.0.0.1/32",
                "192.168.0.0/16",
                "224.0.0.0/4",
            ],
            &["10.1.2.0/24", "192.168.0.0/16"],
        );
        for (address, api) in [
            ("10.1.1.1", true),
            ("10.1.2.1", false),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("2002:a01:101::1", true),
            ("127.0.0.2", false),
            ("192.168.1.1", false),
            ("224.0.0.1", false),
        ] {
            assert_eq!(allows(&guard, address, Trust::Api), api, "{address}");
        }
        assert!(allows(&guard, "10.1.2.1", Trust::Operator));
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let refused = |guard: &AddressGuard, address: &str| {
            guard
                .check(address.parse().unwrap(), Trust::Api)
                .unwrap_err()
                .0
        };
        let private = guard(NetworkReach::Private, &[], &[]);
        let denying = guard(NetworkReach::Private, &[], &["8.0.0.0/8"]);
        let public = guard(NetworkReach::Public, &[], &[]);
        assert_eq!(
            refused(&private, "::ffff:127.0.0.1"),
            "a loopback address: to let channels created through the API reach it, start the \
             server with --outbound-allow 127.0.0.1"
        );
        assert!(refused(&private, "169.254.169.254").starts_with("link-local: "));
        assert!(
            refused(&public, "10.0.0.1")
                .starts_with("private, and the server was started with --outbound public: ")
        );
        assert_eq!(
            refused(&denying, "8.8.8.8"),
            "in a network that --outbound-deny names"
        );
        assert_eq!(
            refused(&private, "0.0.0.0"),
            "not the address of a single host"
        );
    }
}
