//! Readiness for a service manager: one datagram to the socket named by `NOTIFY_SOCKET`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tracing::debug;

/// Tells the service manager, if there is one. A failure is only logged: the daemon works without.
pub(crate) fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|n| !n.is_empty()) else { return };
    if let Err(error) = send(name.as_bytes(), state) {
        debug!(%error, "notify service manager");
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name)))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_gets_the_datagram() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        let mut buffer = [0; 32];
        let len = manager.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
    }
}
