//! Network of a client, for limits of each address.

use std::net::{IpAddr, Ipv6Addr};

/// Network of a client: the key of limits per client. For IPv6 it is the network of 64 bits, since
/// a single client has as many addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClientNetwork(IpAddr);

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_are_one_network() {
        for (address, other, is_same) in [
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("2001:db8::1", "2001:db8::ffff:0:0:1", true),
            ("2001:db8::1", "2001:db8:0:0:1::", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            let [one, two] = [address, other]
                .map(|address| ClientNetwork::from(address.parse::<IpAddr>().unwrap()));
            assert_eq!(one == two, is_same, "{address} {other}");
        }
    }
}
