//! nfs-ganesha on a host, with its own port mapper.
//!
//! Packages on Debian: `nfs-ganesha`, `nfs-ganesha-vfs`, `rpcbind`. The two write into `/run`; each server gets one of its
//! own in a mount namespace, so that several run at a time and none meets the machine's.

use super::rpc::{Caller, Procedure, Retry, Transport};
use crate::{LabError, Process, Topology};
use nfs3_types::nfs3;
use nfs3_types::xdr_codec::Void;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the server serves files.
pub const NFS_PORT: u16 = 2049;
/// Where it lets clients mount.
pub const MOUNT_PORT: u16 = 20_048;
/// Programs that must be there.
const PROGRAMS: [&str; 4] = ["ganesha.nfsd", "rpcbind", "unshare", "mount"];
/// Longest time for the server to answer.
const READY: Duration = Duration::from_secs(60);

/// Makes a private `/run`, starts the port mapper, and becomes the server. Copies of mounts would keep their daemons from
/// ending.
const START: &str = "umount --all --lazy --types fuse.wayfs || :
mount -t tmpfs tmpfs /run || exit 1
rpcbind -f &
mapper=$!
until [ -S /run/rpcbind.sock ]; do kill -0 $mapper || exit 1; sleep 0.02; done
exec ganesha.nfsd -F -L STDERR -f \"$1\" -p /run/ganesha.pid";

/// A running server with one export. Dropping it ends it.
#[derive(Debug)]
pub struct NfsServer {
    process: Process,
    export: PathBuf,
}

impl NfsServer {
    /// Whether this machine has what it takes.
    pub fn is_installed() -> bool {
        PROGRAMS.iter().all(|program| is_installed(program))
    }

    /// Starts a server on a host and waits until it answers. It exports an empty directory over UDP and TCP.
    ///
    /// # Errors
    /// [`LabError`] if it is not installed or does not answer in time.
    pub fn start(lab: &Topology, host: &str) -> Result<Self, LabError> {
        let own = lab.directory(host)?.join("ganesha");
        let (export, state) = (own.join("export"), own.join("state"));
        for directory in [&export, &state] {
            std::fs::create_dir_all(directory).map_err(LabError::io(format!("make {}", directory.display())))?;
        }
        let file = own.join("ganesha.conf");
        std::fs::write(&file, configuration(&export, &state))
            .map_err(LabError::io(format!("write {}", file.display())))?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", START, "ganesha"]).arg(&file);
        let process = lab.spawn(host, "ganesha", command)?;
        let mut server = Self { process, export };
        server.until_it_answers(lab, host)?;
        Ok(server)
    }

    /// The exported directory: what is put there is served. Also the name by which clients mount it.
    pub fn export(&self) -> &Path {
        &self.export
    }

    /// The server's process.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn until_it_answers(&mut self, lab: &Topology, host: &str) -> Result<(), LabError> {
        let address = SocketAddr::new(lab.address(host)?.into(), NFS_PORT);
        let null = Procedure { program: nfs3::PROGRAM, version: nfs3::VERSION, number: 0 };
        let retry = Retry { timeouts: vec![Duration::from_millis(100)] };
        let start = Instant::now();
        loop {
            let answered = lab.inside(host, || {
                let caller = Caller::connect(Transport::Udp, address, retry.clone());
                caller.is_ok_and(|mut caller| caller.call(null, &Void).is_ok())
            })?;
            if answered {
                return Ok(());
            }
            if let Some(status) = self.process.ended() {
                let message = format!("{status}: {}", self.process.output().trim());
                return Err(LabError::Tool { tool: "ganesha.nfsd".into(), message });
            }
            if start.elapsed() > READY {
                return Err(LabError::TimedOut { what: "an answer of ganesha.nfsd".into(), within: READY });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One export by its path; no locks, no quotas, no other protocol than version 3.
fn configuration(export: &Path, state: &Path) -> String {
    format!(
        r#"NFS_CORE_PARAM {{
    Protocols = 3;
    Bind_addr = 0.0.0.0;
    NFS_Port = {NFS_PORT};
    MNT_Port = {MOUNT_PORT};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = true;
}}
NFSV4 {{ RecoveryRoot = "{state}"; }}
EXPORT_DEFAULTS {{
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 3;
    Transports = "UDP", "TCP";
}}
EXPORT {{
    Export_Id = 1;
    Path = "{export}";
    Pseudo = "/export";
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = EVENT; }}
"#,
        state = state.display(),
        export = export.display(),
    )
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
