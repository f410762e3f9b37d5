//! The network interface by which an address is reached, as the kernel's main routing table has it.
//!
//! Other tables, which rules of policy routing select, are not read. Routes by the loopback
//! interface are left out: it has no node.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::kernel_file;

/// Flags of a route, RTF_UP and RTF_REJECT of `linux/route.h`.
const UP: u32 = 0x0001;
const REJECT: u32 = 0x0200;

/// Returns the interface of the longest prefix that an address has; of several, of the least
/// metric. `None` where no route leads, or the address is that of the loopback interface.
pub fn interface(root: &Path, address: IpAddr) -> Option<String> {
    let (file, parse): (_, fn(&str) -> Option<Route<'_>>) = match address {
        IpAddr::V4(_) => ("proc/net/route", v4),
        IpAddr::V6(_) => ("proc/net/ipv6_route", v6),
    };
    let table = kernel_file::read_to_string(root.join(file)).ok()?;
    let routes = table.lines().filter_map(parse).filter(|route| route.reaches(address));
    let best = routes.min_by_key(|route| (Reverse(route.prefix_bits), route.metric))?;
    (best.flags & REJECT == 0).then(|| best.interface.to_owned())
}

/// A route: the addresses that begin with these bits leave by this interface.
#[derive(Debug, PartialEq, Eq)]
struct Route<'a> {
    interface: &'a str,
    /// As a number of 128 bits; addresses of IPv4 as they are mapped to IPv6.
    to: u128,
    prefix_bits: u32,
    metric: u32,
    flags: u32,
}

impl Route<'_> {
    fn reaches(&self, address: IpAddr) -> bool {
        let is_used = self.flags & UP != 0 && self.interface != "lo";
        let differs = (self.to ^ bits(address)).leading_zeros() < self.prefix_bits;
        is_used && !differs && !address.is_loopback()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A line of `/proc/net/route`: interface, destination, gateway, flags, two counters, metric, mask.
/// Addresses are numbers whose bytes in memory are those of the address.
fn v4(line: &str) -> Option<Route<'_>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [interface, to, _, flags, _, _, metric, mask, ..] = fields[..] else { return None };
    let address = Ipv4Addr::from(hex(to)?.to_ne_bytes());
    Some(Route {
        interface,
        to: bits(address.into()),
        // The 96 bits before are the same for all.
        prefix_bits: 96 + hex(mask)?.count_ones(),
        metric: metric.parse().ok()?,
        flags: hex(flags)?,
    })
}

/// A line of `/proc/net/ipv6_route`: destination, bits of it, source, bits of it, next hop, metric,
/// two counters, flags, interface. All are hexadecimal.
fn v6(line: &str) -> Option<Route<'_>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [to, prefix, _, _, _, metric, _, _, flags, interface] = fields[..] else { return None };
    Some(Route {
        interface,
        to: Ipv6Addr::from(u128::from_str_radix(to, 16).ok()?).to_bits(),
        prefix_bits: hex(prefix)?,
        metric: hex(metric)?,
        flags: hex(flags)?,
    })
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As the kernel would print two interfaces and an unreachable network, where the least
    /// significant byte comes first.
    const V4: &str = "\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 100 00000000 0 0 0
eth1 00000000 010300C0 0003 0 0 600 00000000 0 0 0
eth0 000200C0 00000000 0001 0 0 100 00FFFFFF 0 0 0
eth1 0000000A 00000000 0001 0 0 0 000000FF 0 0 0
* 0000010A 00000000 0201 0 0 0 0000FFFF 0 0 0
";

    /// Destination, bits of it, metric, flags, and interface.
    const V6: [[&str; 5]; 3] = [
        ["fd000000000000000000000000000000", "40", "00000100", "00000001", "eth0"],
        ["00000000000000000000000000000000", "00", "00000400", "00000003", "eth1"],
        ["fd000000000000000000000000000005", "80", "00000000", "80200001", "lo"],
    ];

    fn v6_table() -> String {
        let none = "0".repeat(32);
        let line = |[to, bits, metric, flags, interface]: [&str; 5]| {
            format!("{to} {bits} {none} 00 {none} {metric} 1 0 {flags} {interface:>8}")
        };
        V6.map(line).join("\n")
    }

    fn found(address: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/net")).unwrap();
        fs::write(root.path().join("proc/net/route"), V4).unwrap();
        fs::write(root.path().join("proc/net/ipv6_route"), v6_table()).unwrap();
        interface(root.path(), address.parse().unwrap())
    }

    /// Goal: the longest prefix decides, then the metric; an own address is where its network is.
    #[test]
    fn addresses_are_reached_by_the_longest_prefix() {
        for (address, by) in [
            ("192.0.2.7", "eth0"),
            ("10.200.0.1", "eth1"),
            ("198.51.100.1", "eth0"),
            ("fd00::7", "eth0"),
            ("fd00::5", "eth0"),
            ("2001:db8::1", "eth1"),
        ] {
            assert_eq!(found(address).as_deref(), Some(by), "{address}");
        }
    }

    /// Goal: the loopback interface and unreachable networks are nowhere, and lines that are no
    /// routes are left out.
    #[test]
    fn what_is_no_route_is_left_out() {
        for address in ["127.0.0.1", "::1", "10.1.2.3"] {
            assert_eq!(found(address), None, "{address}: loopback, or unreachable");
        }
        for line in ["", "eth0", "eth0 x 0 1 0 0 0 0 0 0 0"] {
            assert_eq!(v4(line), None, "{line}");
        }
        for line in ["", "eth0 0 0 1 0 0 0 0 0 0 0", "x 0 0 0 0 0 0 0 0 eth0"] {
            assert_eq!(v6(line), None, "{line}");
        }
    }
}
