//! What the link changes on its machine: addresses and MTU of the device, and routes. By the program `ip`, as an administrator would.

use crate::LinkError;
use crate::config::Addresses;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use tracing::warn;

/// Preferences of the rules of `--default`, and the table that they name.
const RULE_BASE: &str = "5200";
const RULE_MAIN: &str = "5201";
const RULE_LINK: &str = "5202";

/// Gives the device its addresses and takes it up.
pub(crate) fn set_up(tun: &str, addresses: &Addresses, mtu: u16) -> Result<(), LinkError> {
    ip(&["link", "set", "dev", tun, "mtu", &mtu.to_string(), "up"])?;
    ip(&["addr", "replace", &format!("{}/{}", addresses.v4, addresses.v4_prefix), "dev", tun])?;
    let v6 = format!("{}/{}", addresses.v6, addresses.v6_prefix);
    if let Err(error) = ip(&["-6", "addr", "replace", &v6, "dev", tun, "nodad"]) {
        // A machine may be without IPv6; the link carries IPv4 then.
        warn!(%error, "no IPv6 on the link");
    }
    Ok(())
}

/// Changes the MTU.
pub(crate) fn set_mtu(tun: &str, mtu: u16) -> Result<(), LinkError> {
    ip(&["link", "set", "dev", tun, "mtu", &mtu.to_string()])
}

/// Lets packets of the device go on to others.
pub(crate) fn forward() -> Result<(), LinkError> {
    let path = "/proc/sys/net/ipv4/ip_forward";
    if std::fs::read_to_string(path).is_ok_and(|now| now.trim() == "1") {
        return Ok(());
    }
    std::fs::write(path, "1\n")
        .map_err(|error| LinkError::Host { doing: format!("write 1 to {path}"), why: error.to_string() })
}

/// Everything goes over the link, but what is for the base itself, and what a route nearer than the default one has. Ends with this value.
#[derive(Debug)]
pub(crate) struct DefaultRoute {
    base: IpAddr,
}

impl DefaultRoute {
    /// Routes everything over the device.
    pub(crate) fn set(tun: &str, base: IpAddr) -> Result<Self, LinkError> {
        let route = Self { base };
        // What a former life may have left would come first.
        route.remove();
        let base = base.to_string();
        let family = if route.base.is_ipv6() { "-6" } else { "-4" };
        ip(&[family, "rule", "add", "to", &base, "lookup", "main", "pref", RULE_BASE])?;
        for family in ["-4", "-6"] {
            let result =
                ip(&[family, "rule", "add", "lookup", "main", "suppress_prefixlength", "0", "pref", RULE_MAIN])
                    .and_then(|()| ip(&[family, "route", "replace", "default", "dev", tun, "table", RULE_LINK]))
                    .and_then(|()| ip(&[family, "rule", "add", "lookup", RULE_LINK, "pref", RULE_LINK]));
            match result {
                Err(error) if family == "-6" => warn!(%error, "IPv6 does not go over the link"),
                result => result?,
            }
        }
        Ok(route)
    }

    fn remove(&self) {
        for family in ["-4", "-6"] {
            for rule in [RULE_BASE, RULE_MAIN, RULE_LINK] {
                // That it is not there is what is wanted.
                let _ = ip(&[family, "rule", "del", "pref", rule]);
            }
        }
    }
}

impl Drop for DefaultRoute {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Runs `ip` in the network namespace of the calling thread.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), LinkError> {
    let failed = |why: String| LinkError::Host { doing: format!("run `ip {}`", arguments.join(" ")), why };
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().chars().take(300).collect()))
}

/// The address by which this machine reaches another, and the longest packet on the first line towards it.
pub(crate) fn way_to(there: SocketAddr) -> Option<(IpAddr, u32)> {
    let any: SocketAddr = if there.is_ipv6() { ([0; 16], 0).into() } else { ([0; 4], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(there).ok()?;
    let here = socket.local_addr().ok()?.ip();
    let (level, name) =
        if there.is_ipv6() { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    let mut mtu: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and both pointers are of values of the sizes told.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut mtu).cast(), &raw mut len) };
    (result == 0).then_some((here, u32::try_from(mtu).unwrap_or(0)))
}

/// Lets the system cut datagrams that a line on the way cannot carry whole: slow, but nothing is lost while the MTU follows.
pub(crate) fn allow_fragments(socket: &UdpSocket) {
    let off: libc::c_int = 0;
    for (level, name) in [(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)] {
        // SAFETY: the descriptor is open, and the value is of the size told. A socket of the other family refuses, which is right.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                name,
                (&raw const off).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
}

/// Whether an error of sending says only that the way is closed for now.
pub(crate) fn is_of_the_way(error: &std::io::Error) -> bool {
    let errors = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::ADDRNOTAVAIL, Errno::CONNREFUSED];
    let others = [Errno::NOBUFS, Errno::PERM, Errno::MSGSIZE, Errno::INVAL, Errno::INTR];
    error.raw_os_error().is_some_and(|code| errors.iter().chain(&others).any(|known| known.raw_os_error() == code))
}
