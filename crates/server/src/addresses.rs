//! Where this machine can be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wayfs_net::Address;

/// Most addresses that a ticket holds.
const ADDRESSES_MAX: usize = wayfs_net::ADDRESSES_MAX;

/// The addresses to tell others: those given, or else those of this machine, the loopback ones last.
pub(crate) fn advertised(given: &[Address], bound: SocketAddr) -> Vec<Address> {
    let port = bound.port();
    let mut list: Vec<Address> = if !given.is_empty() {
        given.to_vec()
    } else if bound.ip().is_unspecified() {
        let mut ips =
            local_ips(&read("/proc/net/fib_trie"), bound.is_ipv6().then(|| read("/proc/net/if_inet6")).as_deref());
        ips.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
        ips.into_iter().map(|ip| SocketAddr::new(ip, port).into()).collect()
    } else {
        vec![SocketAddr::new(bound.ip().to_canonical(), port).into()]
    };
    list.truncate(ADDRESSES_MAX);
    list
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Global addresses, IPv4 first, by two tables of the kernel; those of IPv6 if its table is given.
pub(crate) fn local_ips(fib_trie: &str, if_inet6: Option<&str>) -> Vec<IpAddr> {
    let mut ips = Vec::new();
    let mut last = None;
    for line in fib_trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(ip) = last
            && !ip.is_loopback()
            && !ip.is_link_local()
            && !ips.contains(&IpAddr::V4(ip))
        {
            ips.push(IpAddr::V4(ip));
        }
    }
    for line in if_inet6.unwrap_or_default().lines() {
        let mut fields = line.split_whitespace();
        let (Some(hex), Some("00")) = (fields.next(), fields.nth(2)) else { continue };
        if let Ok(bits) = u128::from_str_radix(hex, 16) {
            ips.push(IpAddr::V6(Ipv6Addr::from_bits(bits)));
        }
    }
    ips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_in_the_kernels_tables() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n";
        let six =
            "fd000000000000000000000000000007 02 40 00 80 eth0\nfe800000000000000000000000000001 02 40 20 80 eth0\n";
        let ips = local_ips(trie, Some(six));
        assert_eq!(ips, ["10.1.2.3".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]);
        assert_eq!(local_ips(trie, None).len(), 1);
    }

    #[test]
    fn what_is_given_or_bound_is_taken() {
        let given: Address = "home.example.org:9".parse().unwrap();
        assert_eq!(advertised(std::slice::from_ref(&given), "[::]:5".parse().unwrap()), [given]);
        let bound: SocketAddr = "127.0.0.1:5".parse().unwrap();
        assert_eq!(advertised(&[], bound), [bound.into()]);
    }
}
