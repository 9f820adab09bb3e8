//! A server, and many hops to it that do not touch each other: transfers run side by side, each over a channel of its own.
//!
//! A hop of 1 Mb/s costs a machine little, so many fit; what shows whether they did is how late the emulator was over each.

use super::plan::{Condition, Hop, Row, Way, bad_periods};
use crate::link_tool::{Ends, Tool};
use crate::nfs::{MOUNT_PORT, NFS_PORT, NfsServer};
use crate::{Context, LabError, Lateness, LinePlan, Link, Topology, line};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use wayfs_link::BadPeriods;
use wayfs_nfs::calls::Place;
use wayfs_nfs::live::{Export, LiveError, Options, Ports};
use wayfs_nfs::{Handle, Statistics};

/// Transfers that take longer were cut and run again, then and here.
pub(super) const CUT: Duration = Duration::from_secs(300);
const FILE: &str = "file";
/// The line of the hop.
const HOP: &str = "wireless-1mb";
/// The wire between base station and server, where there is a base station.
const WIRE: &str = "ethernet-100";

/// How a transfer of one client went.
#[derive(Debug, Clone)]
pub(super) struct Transferred {
    pub(super) seconds: f64,
    pub(super) statistics: Statistics,
    /// When how many bytes were there.
    pub(super) progress: Vec<(f64, u64)>,
}

/// How a run went.
#[derive(Debug)]
pub(super) enum Ran {
    /// All clients are through.
    Through(Vec<Transferred>, Lateness),
    /// One took longer than [`CUT`].
    Cut,
}

/// A run to make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) row: &'a Row,
    pub(super) condition: Condition,
    pub(super) model: BadPeriods,
    pub(super) seed: u64,
}

/// A channel and who is on it.
#[derive(Debug)]
pub(super) struct Seat {
    mobiles: Vec<String>,
    hops: Vec<Link>,
    /// `wayfs link` at both ends of each hop, if it runs here.
    tools: Vec<Tool>,
    number: usize,
}

/// Server and seats.
pub(super) struct Room {
    // Ends before its host does.
    server: NfsServer,
    pub(super) seats: Vec<Seat>,
    lab: Topology,
    bytes: Vec<u8>,
}

/// What all seats of a room have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Furniture {
    pub(super) clients: usize,
    /// The scheme of `wayfs link`, if it runs.
    pub(super) scheme: Option<&'static str>,
}

impl Furniture {
    pub(super) fn of(row: &Row, condition: &Condition) -> Self {
        let scheme = match row.hop {
            Hop::Tool(scheme) => Some(scheme),
            Hop::Bare | Hop::Held => None,
        };
        Self { clients: condition.clients, scheme }
    }

    /// Name of its part in reports and logs.
    pub(super) fn name(&self) -> String {
        let tool = self.scheme.map(|scheme| format!("-link-{scheme}")).unwrap_or_default();
        format!("{}-clients{tool}", self.clients)
    }
}

impl Room {
    pub(super) fn start(
        context: &Context<'_>,
        furniture: Furniture,
        seats: usize,
        kilobytes: u32,
    ) -> Result<Self, LabError> {
        let mut lab = context.topology(&furniture.name(), context.seed())?;
        lab.host("server")?;
        let mut list = Vec::new();
        for number in 0..seats {
            list.push(Seat::furnish(&mut lab, furniture, number)?);
        }
        lab.route()?;
        let server = NfsServer::start(&lab, "server")?;
        // No two blocks are alike: one in the place of another would show.
        let bytes: Vec<u8> =
            (0..kilobytes * 256).flat_map(|word| word.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        let path = server.export().join(FILE);
        std::fs::write(&path, &bytes).map_err(LabError::io(format!("write {}", path.display())))?;
        if let Some(scheme) = furniture.scheme {
            for seat in &mut list {
                seat.repair(&lab, context.program(), scheme)?;
            }
        }
        Ok(Self { server, seats: list, lab, bytes })
    }

    /// Carries a run out on a seat.
    pub(super) fn run(&self, seat: &Seat, run: Run<'_>) -> Result<Ran, LabError> {
        for hop in &seat.hops {
            self.lab.shape(*hop, line(HOP)?);
        }
        let begin = Barrier::new(seat.mobiles.len());
        let results: Vec<Result<Option<Transferred>, LabError>> = std::thread::scope(|scope| {
            let client = |place: usize| {
                let begin = &begin;
                scope.spawn(move || self.client(seat, place, run, begin))
            };
            let clients: Vec<_> = (0..seat.mobiles.len()).map(client).collect();
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
        });
        let lateness = self.lab.take_lateness_of(seat.hops[0]);
        let results: Vec<Option<Transferred>> = results.into_iter().collect::<Result<_, _>>()?;
        Ok(results.into_iter().collect::<Option<Vec<_>>>().map_or(Ran::Cut, |all| Ran::Through(all, lateness)))
    }

    /// One client of a run; `None` if it was cut.
    fn client(
        &self,
        seat: &Seat,
        place: usize,
        run: Run<'_>,
        begin: &Barrier,
    ) -> Result<Option<Transferred>, LabError> {
        let client = run.row.client;
        let interrupt: Arc<AtomicBool> = Arc::default();
        let options = Options {
            retry: client.retry,
            block: client.block,
            in_flight_max: client.in_flight_max,
            interrupt: Arc::clone(&interrupt),
            ..Options::default()
        };
        let address = IpAddr::from(self.lab.address("server")?);
        let path = self.server.export().to_string_lossy().into_owned();
        let ports = Ports::Fixed { nfs: NFS_PORT, mount: Some(MOUNT_PORT) };
        let target = format!("written-{}-{place}", seat.number);
        // What an earlier run wrote must not pass for what this one writes.
        let there = self.server.export().join(&target);
        std::fs::File::create(&there).map_err(LabError::io(format!("empty {}", there.display())))?;
        let result = self.lab.inside(&seat.mobiles[place], || {
            let ready = Export::connect(address, ports, &path, &options).and_then(|mut export| {
                let file = export.locate(FILE)?;
                let made =
                    export.create(Place { directory: &export.root().clone(), name: target.as_bytes() }, 0o644)?;
                export.take_statistics();
                Ok((export, file, made))
            });
            // Everybody waits for everybody, whether ready or failed, so that nobody waits in vain.
            begin.wait();
            let (mut export, file, made) = ready?;
            self.spoil(seat.hops[place], place, run)?;
            let watch = Watch::over(Arc::clone(&interrupt));
            let began = Instant::now();
            let mut progress = Vec::new();
            let moved = match run.condition.way {
                Way::Read => {
                    self.read(&mut export, &file.handle, |len| progress.push((began.elapsed().as_secs_f64(), len)))
                }
                Way::Write => self.write(&mut export, &made, &target, |len| {
                    progress.push((began.elapsed().as_secs_f64(), len));
                }),
            };
            let seconds = began.elapsed().as_secs_f64();
            match (moved, watch.end()) {
                (Err(_), Ended::Cut) => Ok(None),
                (Err(error), Ended::InTime) => Err(error),
                (Ok(()), _) => Ok(Some(Transferred { seconds, statistics: export.take_statistics(), progress })),
            }
        })?;
        let doing = format!("{} over the hop, {}", run.condition.way.name(), run.row.name);
        result.map_err(|error| LabError::Experiment(format!("{doing}: {error}")))
    }

    /// Makes the hop what the run wants; the same seed is the same bad periods, whoever runs.
    fn spoil(&self, hop: Link, place: usize, run: Run<'_>) -> Result<(), LiveError> {
        let io = |error: LabError| LiveError::Io { doing: "shape the hop".into(), error: std::io::Error::other(error) };
        let mut config = line(HOP).map_err(io)?.config;
        config.bad_periods = bad_periods(run.row.hop, run.condition.bad_ms, run.model);
        config.down.receiver = run.row.buffer.receiver();
        self.lab.reseed(hop, run.seed.wrapping_add(place as u64));
        self.lab.shape(hop, LinePlan { config, ..LinePlan::default() });
        Ok(())
    }

    fn read(&self, export: &mut Export, file: &Handle, mut progress: impl FnMut(u64)) -> Result<(), LiveError> {
        let mut right = 0;
        export.read_file(file, self.bytes.len() as u64, |offset, bytes| {
            let from = usize::try_from(offset).map_err(std::io::Error::other)?;
            if self.bytes.get(from..from + bytes.len()) != Some(bytes) {
                return Err(std::io::Error::other("other bytes than were written"));
            }
            right += bytes.len();
            progress(right as u64);
            Ok(())
        })?;
        if right == self.bytes.len() { Ok(()) } else { Err(other_bytes()) }
    }

    fn write(
        &self,
        export: &mut Export,
        made: &Handle,
        target: &str,
        progress: impl FnMut(u64),
    ) -> Result<(), LiveError> {
        export.write_file(made, &self.bytes[..], progress)?;
        let there = std::fs::read(self.server.export().join(target)).unwrap_or_default();
        if there == self.bytes { Ok(()) } else { Err(other_bytes()) }
    }

    /// Ends everything; the tools before their hosts.
    pub(super) fn finish(self, context: &mut Context<'_>, part: &str) {
        let Self { server, seats, lab, .. } = self;
        drop(server);
        drop(seats);
        context.finish(part, lab);
    }
}

impl Seat {
    fn furnish(lab: &mut Topology, furniture: Furniture, number: usize) -> Result<Self, LabError> {
        let mobiles: Vec<String> = (0..furniture.clients).map(|n| format!("m{number}x{n}")).collect();
        for mobile in &mobiles {
            lab.host(mobile)?;
        }
        let names: Vec<&str> = mobiles.iter().map(String::as_str).collect();
        let hop = line(HOP)?;
        let hops = if furniture.scheme.is_some() {
            let base = format!("b{number}");
            lab.host(&base)?;
            lab.join(&[base.as_str()], "server", line(WIRE)?)?;
            lab.join(&names, &base, hop)?
        } else {
            lab.join(&names, "server", hop)?
        };
        Ok(Self { mobiles, hops, tools: Vec::new(), number })
    }
}

impl Seat {
    /// Starts `wayfs link` at both ends of its hops.
    fn repair(&mut self, lab: &Topology, program: &std::path::Path, scheme: &str) -> Result<(), LabError> {
        let base = format!("b{}", self.number);
        let ends = Ends { mobiles: &self.mobiles, base: &base, far: "server", scheme, door: None, place: self.number };
        self.tools.push(Tool::start(lab, program, ends)?);
        Ok(())
    }
}

/// Ends a transfer that takes too long.
struct Watch {
    ended: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    InTime,
    Cut,
}

impl Watch {
    fn over(interrupt: Arc<AtomicBool>) -> Self {
        let (ended, end) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let late = end.recv_timeout(CUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if late {
                interrupt.store(true, Ordering::Relaxed);
            }
            late
        });
        Self { ended, thread }
    }

    fn end(self) -> Ended {
        drop(self.ended);
        if self.thread.join().unwrap_or(false) { Ended::Cut } else { Ended::InTime }
    }
}

fn other_bytes() -> LiveError {
    LiveError::Io { doing: "compare".into(), error: std::io::Error::other("other bytes than were sent") }
}
