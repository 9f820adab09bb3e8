//! Sites with the hop between a client and its station, and what is measured over it.

use super::LastHop;
use super::air::Air;
use crate::experiments::noise::noise;
use crate::link_tool::{Ends, TUN_MOBILE, Tool, ip};
use crate::peers::{Peer, PeerMount, PeerServer};
use crate::{Context, LabError, LinePlan, Sites, SitesPlan, client_of, line, station_of};
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Longest time of one transfer.
const CUT: Duration = Duration::from_secs(300);
/// Where the base of the link takes mobiles: the station's own address is reached over the link.
const DOOR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// Bytes of a small file.
const SMALL: usize = 2048;

/// How much is measured.
pub(super) struct Plan {
    pub(super) kilobytes: usize,
    pub(super) runs: u64,
    pub(super) tree: usize,
    pub(super) closes: usize,
}

/// Where something is measured.
pub(super) struct Setting {
    /// Name of the network.
    pub(super) part: String,
    /// `wayfs link` repairs it or does not run.
    pub(super) hop: LastHop,
    /// The hop, whose directions share the air or do not.
    pub(super) line: LinePlan,
}

/// Most tries of a run whose packets the emulator brings late.
const TRIES: usize = 4;

/// Seconds, and how many runs are not among them.
#[derive(Default)]
pub(super) struct Measured {
    write: Vec<f64>,
    read: Vec<f64>,
    tree: Vec<f64>,
    pub(super) safe: Vec<f64>,
    /// Runs that were made again since the emulator was late.
    pub(super) again: usize,
    /// Runs that are left out since it was late each time.
    pub(super) left_out: usize,
}

impl Measured {
    fn take(&mut self, other: Self) {
        let Self { write, read, tree, safe, .. } = other;
        self.write.extend(write);
        self.read.extend(read);
        self.tree.extend(tree);
        self.safe.extend(safe);
    }

    pub(super) fn all(&self) -> [(&'static str, &[f64]); 4] {
        [("write", &self.write), ("read", &self.read), ("tree", &self.tree), ("safe", &self.safe)]
    }

    pub(super) fn of(&self, what: &str) -> &[f64] {
        self.all().into_iter().find(|(name, _)| *name == what).map_or(&[], |(_, seconds)| seconds)
    }
}

/// What is mounted.
pub(super) struct Bench {
    // Mounts go first, then servers, then the network.
    peer: Option<(PeerMount, Box<dyn PeerServer>)>,
    /// `wayfs link` on the hop.
    tool: Option<Tool>,
    sites: Sites,
    seed: u64,
    files: u64,
}

impl Bench {
    /// WayFS with these keys in every configuration.
    pub(super) fn wayfs(context: &Context<'_>, setting: Setting, keys: &str) -> Result<Self, LabError> {
        let mut sites = Sites::network(context, &setting.part, context.seed(), plan(&setting.line)?)?;
        for host in ["home".to_owned(), station_of(0), station_of(1), client_of(0), client_of(1)] {
            let directory = sites.lab().directory(&host)?.join("config/wayfs");
            let doing = || LabError::io(format!("write the configuration of {host}"));
            std::fs::create_dir_all(&directory).map_err(doing())?;
            std::fs::write(directory.join("config.toml"), keys).map_err(doing())?;
        }
        let tool = (setting.hop == LastHop::Repaired).then(|| repair(&sites, context.program())).transpose()?;
        sites.start_home()?;
        for site in 0..2 {
            sites.start_station(site)?;
            sites.mount(site)?;
        }
        let mut bench = Self { peer: None, tool, sites, seed: context.seed(), files: 0 };
        bench.await_former_sessions()?;
        Ok(bench)
    }

    /// The other site's client may have looked at this station before it found its own. Whoever writes here waits for its lease
    /// then, which is no matter of the hop.
    fn await_former_sessions(&mut self) -> Result<(), LabError> {
        let (path, bytes) = self.next(SMALL);
        std::fs::write(&path, bytes).map_err(LabError::io(format!("write {}", path.display())))?;
        self.settle()
    }

    /// A peer, whose server is at home.
    pub(super) fn peer(context: &Context<'_>, setting: Setting, peer: &dyn Peer) -> Result<Self, LabError> {
        let sites = Sites::network(context, &setting.part, context.seed(), plan(&setting.line)?)?;
        let tool = (setting.hop == LastHop::Repaired).then(|| repair(&sites, context.program())).transpose()?;
        let mut server = peer.serve(&sites)?;
        let mount = server.mount(&sites, 0)?;
        Ok(Self { peer: Some((mount, server)), tool, sites, seed: context.seed(), files: 0 })
    }

    /// All runs over such a line.
    pub(super) fn measure(&mut self, air: &Air, plan: &Plan) -> Result<Measured, LabError> {
        let mut measured = Measured::default();
        for run in 0..plan.runs {
            for attempt in 1..=TRIES {
                self.spoil(air, run);
                let once = self.run(plan)?;
                if !self.sites.lab().take_lateness_of(self.sites.local(0)).is_rejected() {
                    measured.take(once);
                    break;
                }
                measured.again += usize::from(attempt < TRIES);
                measured.left_out += usize::from(attempt == TRIES);
            }
        }
        Ok(measured)
    }

    /// From now on the client's line is that, and draws what every carrier meets in that run.
    fn spoil(&self, air: &Air, run: u64) {
        let (lab, line) = (self.sites.lab(), self.sites.local(0));
        lab.reseed(line, air.seed(self.seed).wrapping_add(run));
        lab.shape(line, air.line());
        lab.take_lateness_of(line);
    }

    fn run(&mut self, plan: &Plan) -> Result<Measured, LabError> {
        let mut measured = Measured::default();
        let len = plan.kilobytes * 1024;
        measured.write.push(self.write(len)?);
        measured.read.push(self.read(len)?);
        let began = Instant::now();
        for _ in 0..plan.tree {
            let (path, bytes) = self.next(SMALL);
            let what = format!("write {}", path.display());
            self.bounded(&what, || std::fs::write(&path, bytes).map_err(LabError::io(what.clone())))?;
        }
        self.settle()?;
        measured.tree.push(began.elapsed().as_secs_f64());
        for _ in 0..plan.closes.div_ceil(usize::try_from(plan.runs).unwrap_or(usize::MAX)) {
            measured.safe.push(self.write(SMALL)?);
        }
        Ok(measured)
    }

    /// Writes a file until it is safe.
    fn write(&mut self, len: usize) -> Result<f64, LabError> {
        let (path, bytes) = self.next(len);
        let doing = || LabError::io(format!("write {}", path.display()));
        let began = Instant::now();
        self.bounded(&format!("write {}", path.display()), || {
            let mut file = File::create(&path).map_err(doing())?;
            file.write_all(&bytes).map_err(doing())?;
            if self.peer.is_none() && len > SMALL {
                // An fsync waits for a bounded time only, which a slow hop may pass.
                drop(file);
                return self.settle();
            }
            file.sync_all().map_err(doing())
        })?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Reads a file that somebody else wrote.
    fn read(&mut self, len: usize) -> Result<f64, LabError> {
        let (near, bytes) = self.next(len);
        let name = near.file_name().unwrap_or_default().to_owned();
        let there = match &self.peer {
            Some((_, server)) => server.tree().join(&name),
            None => self.sites.at(1).join(&name),
        };
        std::fs::write(&there, &bytes).map_err(LabError::io(format!("write {}", there.display())))?;
        if self.peer.is_none() {
            self.sites.sync(1, "stable", CUT)?;
        }
        let what = format!("{} to be seen", near.display());
        self.bounded(&what, || {
            let began = Instant::now();
            while std::fs::metadata(&near).map_or(0, |found| found.len()) != len as u64 {
                if began.elapsed() > CUT {
                    return Err(LabError::TimedOut { what: what.clone(), within: CUT });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        })?;
        let began = Instant::now();
        let what = format!("read {}", near.display());
        let read = self.bounded(&what, || std::fs::read(&near).map_err(LabError::io(what.clone())))?;
        let seconds = began.elapsed().as_secs_f64();
        if read == bytes { Ok(seconds) } else { Err(LabError::Experiment("other bytes than were written".into())) }
    }

    /// Does something on the client's mount. A file system that waits for its server for ever is taken from the kernel when a
    /// transfer may take no longer: what waits for it fails then.
    fn bounded<T>(&self, what: &str, work: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let mount = self.at();
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let is_late = waits.recv_timeout(CUT) == Err(RecvTimeoutError::Timeout);
                // What the command says is of no use: the kernel ends the waits also if it keeps the mount.
                is_late.then(|| Command::new("umount").arg("-f").arg(mount).output())
            });
            let result = work();
            drop(done);
            match watch.join() {
                Ok(Some(_)) => Err(LabError::TimedOut { what: what.to_owned(), within: CUT }),
                Ok(None) | Err(_) => result,
            }
        })
    }

    /// Until all that was written is safe.
    fn settle(&self) -> Result<(), LabError> {
        if self.peer.is_some() { Ok(()) } else { self.sites.sync(0, "safe", CUT) }
    }

    /// A new file on the client: its name and what is to be in it.
    fn next(&mut self, len: usize) -> (PathBuf, Vec<u8>) {
        self.files += 1;
        (self.at().join(format!("file-{}", self.files)), noise(self.seed ^ (self.files << 8), len))
    }

    fn at(&self) -> &Path {
        self.peer.as_ref().map_or_else(|| self.sites.at(0), |(mount, _)| mount.at())
    }

    pub(super) fn finish(self, context: &mut Context<'_>, part: &str) {
        let Self { peer, tool, sites, .. } = self;
        drop(peer);
        drop(tool);
        sites.finish(context, part);
    }
}

/// Runs the link between the first client and its station; everything of the client goes over it.
fn repair(sites: &Sites, program: &Path) -> Result<Tool, LabError> {
    let (mobile, base) = (client_of(0), station_of(0));
    let mobiles = [mobile.clone()];
    let ends = Ends { mobiles: &mobiles, base: &base, far: "home", scheme: "ours", door: Some(DOOR), place: 0 };
    let tool = Tool::start(sites.lab(), program, ends)?;
    let station = sites.lab().address(&base)?;
    ip(sites.lab(), &mobile, &format!("route replace {station}/32 dev {TUN_MOBILE}"))?;
    Ok(tool)
}

/// Two sites on fast lines; that of each client may become the hop.
fn plan(hop: &LinePlan) -> Result<SitesPlan, LabError> {
    let mut plan = SitesPlan::profiles(&["gigabit", "gigabit"])?;
    plan.local = LinePlan { config: line("gigabit")?.config, duplex: hop.duplex, schedule: Vec::new() };
    Ok(plan)
}
