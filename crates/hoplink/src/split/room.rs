//! One side of the base: a network namespace in which the addresses of the other side are local.

use super::{Plan, Side};
use crate::LinkError;
use crate::host;
use crate::tun::Tun;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tracing::warn;

/// The device; each room has a namespace of its own, so the name is free in it.
const DEVICE: &str = "room";
/// Buffers of a socket: least, at first, and at most. The last bounds what is owed over a hop whose round trip carries far less.
const RECEIVE_LENS: &str = "4096 65536 524288";
const SEND_LENS: &str = "4096 16384 524288";

/// One side.
#[derive(Debug)]
pub(super) struct Room {
    namespace: OwnedFd,
    /// What is written here arrives in the room; what is read here its kernel sent.
    pub(super) tun: Tun,
}

impl Room {
    /// A new one.
    pub(super) fn open(side: Side, plan: &Plan) -> Result<Self, LinkError> {
        let missing = |error: io::Error| LinkError::Scheme {
            scheme: if plan.selective { "split-sack" } else { "split" }.into(),
            why: format!(
                "needs network namespaces, which this machine does not give ({error}): take `snoop` or `ours`"
            ),
        };
        let namespace = std::thread::scope(|scope| scope.spawn(unshared).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let namespace = namespace.map_err(missing)?;
        let congestion = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok();
        let tun = inside(&namespace, || set_up(side, plan, congestion.as_deref())).map_err(missing)??;
        Ok(Self { namespace, tun })
    }

    /// Does something inside, on a thread of its own: sockets made there belong to the room for good.
    pub(super) fn inside<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        inside(&self.namespace, action)?
    }

    /// Changes the longest packet.
    pub(super) fn set_mtu(&self, mtu: u16) -> Result<(), LinkError> {
        let changed = inside(&self.namespace, || host::set_mtu(DEVICE, mtu));
        changed.map_err(LinkError::io("enter a network namespace"))?
    }
}

/// Moves this thread, which ends at once, into a new namespace.
fn unshared() -> io::Result<OwnedFd> {
    // SAFETY: `unshare` takes no pointers; a network namespace of its own concerns this short-lived thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

fn inside<T: Send>(namespace: &OwnedFd, action: impl FnOnce() -> T + Send) -> io::Result<T> {
    let enter = || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?;
        Ok(action())
    };
    match std::thread::scope(|scope| scope.spawn(enter).join()) {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Device, addresses and settings, of the room that the calling thread is in.
fn set_up(side: Side, plan: &Plan, congestion: Option<&str>) -> Result<Tun, LinkError> {
    let tun = Tun::create(DEVICE)?;
    // Whoever faces the mobile decides by its own setting what is offered to it; towards the wire all is as the kernel has it.
    let sack = if side == Side::Wire || plan.selective { "1" } else { "0" };
    for (name, value) in [
        ("tcp_sack", sack),
        ("tcp_rmem", RECEIVE_LENS),
        ("tcp_wmem", SEND_LENS),
        // The same two ends may meet again at once.
        ("tcp_tw_reuse", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/default/rp_filter", "0"),
        (&format!("conf/{DEVICE}/rp_filter"), "0"),
    ] {
        set(name, value)?;
    }
    if let Some(Err(error)) = congestion.map(|name| set("tcp_congestion_control", name.trim())) {
        warn!(%error, "joined connections have another congestion control than this machine");
    }
    host::ip(&["link", "set", "dev", "lo", "up"])?;
    host::ip(&["link", "set", "dev", DEVICE, "mtu", &plan.mtu.to_string(), "up"])?;
    let own = plan.pool.addresses(0);
    let v4 = (plan.pool.to_string(), format!("{}/32", own.v4), "-4");
    let v6 = (format!("{}/{}", plan.pool.network_v6(), own.v6_prefix), format!("{}/128", own.v6), "-6");
    for (mobiles, base, family) in [v4, v6] {
        let result = route(side, family, &mobiles, &base);
        match result {
            Err(error) if family == "-6" => warn!(%error, "connections of IPv6 are not joined on this machine"),
            result => result?,
        }
    }
    Ok(tun)
}

/// Facing the mobiles everything but them is local, and on the other side only they are. The base's own address is no mobile's.
/// The table `local` is asked first, and the nearest network of it counts.
fn route(side: Side, family: &str, mobiles: &str, base: &str) -> Result<(), LinkError> {
    let local = |network: &str| host::ip(&[family, "route", "add", "local", network, "dev", "lo", "table", "local"]);
    let away = |network: &str| host::ip(&[family, "route", "add", network, "dev", DEVICE, "table", "local"]);
    match side {
        Side::Mobile => {
            local("default")?;
            away(mobiles)?;
            local(base)
        }
        Side::Wire => {
            away("default")?;
            local(mobiles)?;
            away(base)
        }
    }
}

/// Sets a parameter of IPv4 (most of which hold for IPv6, too).
fn set(name: &str, value: &str) -> Result<(), LinkError> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&path, value)
        .map_err(|error| LinkError::Host { doing: format!("write {value} to {path}"), why: error.to_string() })
}
