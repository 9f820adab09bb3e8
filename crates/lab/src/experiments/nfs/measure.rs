//! A server, a hop, and transfers over it.

use crate::nfs::{MOUNT_PORT, NFS_PORT, NfsServer};
use crate::{Context, LabError, Link, Topology, line};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wayfs_link::{BadPeriods, Durations};
use wayfs_nfs::Statistics;
use wayfs_nfs::calls::Place;
use wayfs_nfs::live::{Block, Export, LiveError, Options, Ports};
use wayfs_nfs::retry::Retry;

/// Transfers that take longer were cut, then and here.
const CUT: Duration = Duration::from_secs(300);
const FILE: &str = "file";

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

impl Way {
    pub(super) const BOTH: [Self; 2] = [Self::Read, Self::Write];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a transfer meets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    pub(super) way: Way,
    pub(super) good_ms: u64,
    pub(super) bad_ms: u64,
}

/// How a transfer went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) statistics: Statistics,
}

/// Hosts `mobile` and `server` with a hop between them.
pub(super) struct Bench {
    // Ends before its host does.
    server: NfsServer,
    lab: Topology,
    hop: Link,
    bytes: Vec<u8>,
}

impl Bench {
    pub(super) fn start(context: &Context<'_>, kilobytes: u32) -> Result<Self, LabError> {
        let mut lab = context.topology("hop", context.seed())?;
        for host in ["mobile", "server"] {
            lab.host(host)?;
        }
        let hop = lab.link("mobile", "server", line("wireless-1mb")?)?;
        let server = NfsServer::start(&lab, "server")?;
        // No two blocks are alike: one in the place of another would show.
        let bytes: Vec<u8> =
            (0..kilobytes * 256).flat_map(|word| word.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        let path = server.export().join(FILE);
        std::fs::write(&path, &bytes).map_err(LabError::io(format!("write {}", path.display())))?;
        Ok(Self { server, lab, hop, bytes })
    }

    /// Reads or writes the file once. The mount is not counted.
    pub(super) fn transfer(
        &self,
        condition: Condition,
        retry: Retry,
        block: Block,
        in_flight_max: usize,
    ) -> Result<Outcome, LabError> {
        let options = Options { retry, block, in_flight_max, interrupt: Arc::default(), ..Options::default() };
        self.lab.shape(self.hop, line("wireless-1mb")?);
        let address = IpAddr::from(self.lab.address("server")?);
        let path = self.server.export().to_string_lossy().into_owned();
        let ports = Ports::Fixed { nfs: NFS_PORT, mount: Some(MOUNT_PORT) };
        let result = self.lab.inside("mobile", || {
            let mut export = Export::connect(address, ports, &path, &options)?;
            let file = export.locate(FILE)?;
            export.take_statistics();
            self.spoil(condition);
            let stop = Arc::clone(&options.interrupt);
            let (done, ended) = std::sync::mpsc::channel::<()>();
            // Ends with the transfer: the sender is dropped then.
            let watch = std::thread::spawn(move || {
                if ended.recv_timeout(CUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    stop.store(true, Ordering::Relaxed);
                }
            });
            let began = Instant::now();
            let moved = self.move_bytes(condition.way, &mut export, &file.handle, file.attributes.size);
            let seconds = began.elapsed().as_secs_f64();
            drop(done);
            // It waits for nothing any more.
            let _ = watch.join();
            moved.map(|()| Outcome { seconds, statistics: export.take_statistics() })
        })?;
        result.map_err(|error| LabError::Experiment(format!("{} over the hop: {error}", condition.way.name())))
    }

    fn spoil(&self, condition: Condition) {
        let mut config = self.lab.config(self.hop);
        config.bad_periods = (condition.bad_ms > 0).then_some(BadPeriods {
            good_mean: Duration::from_millis(condition.good_ms),
            bad_mean: Duration::from_millis(condition.bad_ms),
            durations: Durations::Uniform,
        });
        self.lab.shape(self.hop, crate::LinePlan { config, ..crate::LinePlan::default() });
    }

    fn move_bytes(&self, way: Way, export: &mut Export, file: &wayfs_nfs::Handle, size: u64) -> Result<(), LiveError> {
        match way {
            Way::Read => {
                let mut right = 0;
                export.read_file(file, size, |offset, bytes| {
                    let from = usize::try_from(offset).map_err(std::io::Error::other)?;
                    if self.bytes.get(from..from + bytes.len()) != Some(bytes) {
                        return Err(std::io::Error::other("other bytes than were written"));
                    }
                    right += bytes.len();
                    Ok(())
                })?;
                if right == self.bytes.len() { Ok(()) } else { Err(short()) }
            }
            Way::Write => {
                let place = Place { directory: &export.root().clone(), name: b"written" };
                let made = export.create(place, 0o644)?;
                export.write_file(&made, &self.bytes[..], |_| ())?;
                let there = std::fs::read(self.server.export().join("written")).unwrap_or_default();
                if there == self.bytes { Ok(()) } else { Err(short()) }
            }
        }
    }

    pub(super) fn finish(self, context: &mut Context<'_>) {
        let Self { server, lab, .. } = self;
        drop(server);
        context.finish("hop", lab);
    }
}

fn short() -> LiveError {
    LiveError::Io { doing: "compare".into(), error: std::io::Error::other("other bytes than were sent") }
}
