//! Another machine on the LAN of a station, which looks at what the station has after a client was lost.

use super::workload::Workload;
use crate::sites::{PORT, VOLUME};
use crate::{Context, LabError, MountPoint, Process, Sites, line, station_of};
use std::path::Path;
use std::time::{Duration, Instant};

/// Its host.
const HOST: &str = "witness";
/// Longest time to mount, and to read everything: what nobody has is asked for in vain for a while, file by file.
const BOUND: Duration = Duration::from_secs(60);

/// Another machine on a station's LAN.
pub(super) struct Witness {
    // The mount goes before the process.
    mount: Option<MountPoint>,
    process: Option<Process>,
    station: String,
}

impl Witness {
    /// Puts it there; nothing runs on it yet.
    pub(super) fn on_the_lan_of(sites: &mut Sites, site: usize) -> Result<Self, LabError> {
        let station = station_of(site);
        sites.lab_mut().host(HOST)?;
        sites.lab_mut().link(HOST, &station, line("ethernet-100")?)?;
        Ok(Self { mount: None, process: None, station })
    }

    /// Mounts the volume by way of the station, and counts the files of a run that are whole.
    pub(super) fn count(
        &mut self,
        context: &Context<'_>,
        sites: &Sites,
        workload: &Workload,
        target: &str,
    ) -> Result<usize, LabError> {
        let tree = self.mount(context.program(), sites)?.join(target);
        let begin = Instant::now();
        Ok(workload.right(|path| (begin.elapsed() < BOUND).then(|| std::fs::read(tree.join(path)).ok()).flatten()))
    }

    fn mount(&mut self, program: &Path, sites: &Sites) -> Result<&Path, LabError> {
        let ticket = sites.wayfs("home", &["volume", "ticket", VOLUME], BOUND)?;
        let mount = sites.lab().mount_point(HOST)?;
        let mut command = sites.lab().wayfs(HOST, program)?;
        command.env("WAYFS_TICKET", ticket.trim()).arg("mount").arg(mount.path());
        self.process = Some(sites.lab().spawn(HOST, "mount", command)?);
        let mount = self.mount.insert(mount);
        let address = sites.lab().address(&self.station)?;
        let begin = Instant::now();
        loop {
            let mut usage = sites.lab().wayfs(HOST, program)?;
            usage.args(["station", "use", &format!("{address}:{PORT}")]).env("WAYFS_AT", mount.path());
            if mount.is_mounted() && sites.lab().run(HOST, usage, BOUND)?.status.success() {
                return Ok(mount.path());
            }
            if begin.elapsed() > BOUND {
                return Err(LabError::TimedOut { what: "the witness to mount".into(), within: BOUND });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
