//! Limits the connections of each address, so that one client cannot take them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::util::sync::lock;

/// Open connections by address. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AddressLimit {
    max_per_address: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Counts a connection as open until it is dropped.
pub(crate) struct AddressPermit {
    limit: AddressLimit,
    address: IpAddr,
}

impl AddressLimit {
    /// Limit of `most` connections for each address.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            max_per_address: most,
            open: Arc::default(),
        }
    }

    /// Counts another connection of an address. `None` if the address has reached the limit.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<AddressPermit> {
        let address = client_network(address);
        let mut open = self.lock();
        let count = open.entry(address).or_default();
        if *count >= self.max_per_address {
            return None;
        }
        *count += 1;
        Some(AddressPermit {
            limit: self.clone(),
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.open)
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut open = self.limit.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// Address that a limit applies to. For IPv6 it is the network of 64 bits, since a single client
/// has as many addresses.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_of_an_address_are_limited() {
        let addresses = AddressLimit::new(2);
        let count = |address: &str| addresses.admit(address.parse().unwrap());
        let same = ["10.0.0.1", "::ffff:10.0.0.1"].map(|address| count(address).unwrap());
        assert!(count("10.0.0.1").is_none() && count("10.0.0.2").is_some());
        let network =
            ["2001:db8::1", "2001:db8::ffff:0:0:1"].map(|address| count(address).unwrap());
        assert!(count("2001:db8:0:0:1::").is_none() && count("2001:db8:0:1::1").is_some());
        drop((same, network));
        assert!(count("10.0.0.1").is_some() && count("2001:db8::1").is_some());
        assert!(addresses.lock().is_empty());
    }
}
