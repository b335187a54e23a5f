//! Flags that several subcommands have.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use clap::Args;
use clap::builder::FalseyValueParser;
use ipnet::IpNet;

/// Reads a whole number of a range; an error says which numbers are taken. The flag has to allow negative numbers, so that they get here.
pub(super) fn number<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A network, or a single address.
pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    let single = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| single()).map_err(|_| "give a network or an address, as in 10.0.0.0/8 or ::1")
}

/// The whole range of a `u32`.
pub(super) const ANY_U32: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// The flag of every list.
#[derive(Args)]
pub(super) struct Json {
    /// Print JSON
    #[arg(long, env = "OVERDUE_JSON", value_parser = FalseyValueParser::new())]
    pub(super) json: bool,
}

/// A project that something new will belong to.
#[derive(Args)]
pub(super) struct OneProject {
    /// Name or UUID of its project
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: String,
}

/// A project to look in.
#[derive(Args)]
pub(super) struct AnyProject {
    /// Name or UUID of the project to look in [default: all]
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: Option<String>,
}
