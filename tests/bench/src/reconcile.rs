//! Reconciliation: what a home spends on the records that a station sends, on disk and all.
//!
//! Two engines over their real stores, joined in memory, so that only the home's own work is timed: taking the
//! messages in, and making them durable. Published for 500 records: under 1.1 s of server time.

use crate::table::Row;
use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};
use wayfs_proto::{Config, Input, Neighbour, Output, PeerId, Replica, Role};
use wayfs_store::{DataDir, DiskMetaStore, MetaConfig, Syncer};
use wayfs_types::request::{Change, Request, RequestId};
use wayfs_types::{Admitted, FileId, Kind, Name, NodeId, OriginId, Time, VolumeId, WallTime};

/// The session between the two.
const PEER: PeerId = PeerId(1);

/// Measures some sizes of backlog.
pub(crate) fn records() -> Result<Vec<Row>> {
    [100, 500, 100_000].into_iter().map(row).collect()
}

fn row(count: usize) -> Result<Row> {
    eprintln!("reconciliation of {count} records");
    let spent = home_time(count).with_context(|| format!("reconcile {count} records"))?;
    Ok(Row {
        what: format!("reconcile {count} records: home time"),
        unit: "ms",
        figures: [(count == 500).then_some(1100.0), None, Some(spent.as_secs_f64() * 1000.0)],
        limit: format!(
            "{:.0} records/s; published 1.1 s for 500 (column native); sight 10 ms for 500",
            count as f64 / spent.as_secs_f64()
        ),
        is_time: true,
    })
}

struct Host {
    replica: Replica<DiskMetaStore>,
    syncer: Syncer,
    start: Instant,
    spent: Duration,
    inbox: VecDeque<Input>,
}

impl Host {
    fn open(directory: &std::path::Path, role: Role, origin: OriginId, start: Instant) -> Result<Self> {
        let store = DiskMetaStore::open(&DataDir::open(directory, wayfs_store::Role::Server)?, MetaConfig::default())?;
        let syncer = store.syncer();
        let config = Config::new(VolumeId::from_bytes([1; 16]), role, origin, "bench@host".to_owned(), node(origin));
        let replica = Replica::open(config, store, Time::ZERO)?;
        Ok(Self { replica, syncer, start, spent: Duration::ZERO, inbox: VecDeque::new() })
    }

    /// Takes one input in and carries the outputs out; what goes to the other is returned.
    fn step(&mut self, input: Input) -> Result<Vec<Input>> {
        let begin = Instant::now();
        let now = Time::from_micros(u64::try_from(self.start.elapsed().as_micros())?);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        self.replica.handle(now, WallTime::from_nanos(i64::try_from(wall.as_nanos())?), input);
        let (mut sent, mut wanted) = (Vec::new(), None);
        while let Some(output) = self.replica.poll_output() {
            match output {
                Output::Send { bytes, .. } => sent.push(Input::Message { peer: PEER, bytes }),
                Output::Sync { ticket } => wanted = Some(ticket),
                Output::Failed { reason } => anyhow::bail!("the engine failed: {reason}"),
                Output::Disconnect { reason, .. } => anyhow::bail!("the engines parted: {reason}"),
                _ => {}
            }
        }
        if let Some(ticket) = wanted {
            let ticket = self.syncer.sync_to(ticket)?;
            self.inbox.push_back(Input::Stored { ticket });
        }
        self.spent += begin.elapsed();
        Ok(sent)
    }
}

fn node(origin: OriginId) -> NodeId {
    NodeId::from_bytes([origin.raw() as u8; 32])
}

/// Lets the two talk until the station has nothing left to send.
fn converse(home: &mut Host, station: &mut Host) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        ensure!(Instant::now() < end, "the station did not settle");
        let mut idle = true;
        for _ in 0..64 {
            if let Some(input) = home.inbox.pop_front() {
                let sent = home.step(input)?;
                station.inbox.extend(sent);
                idle = false;
            }
            if let Some(input) = station.inbox.pop_front() {
                let sent = station.step(input)?;
                home.inbox.extend(sent);
                idle = false;
            }
        }
        if idle {
            let progress = station.replica.progress();
            if progress.connected && progress.records_waiting == 0 {
                return Ok(());
            }
            // A timer is what both wait for; looking at the clock is not the home's work on records.
            let spent = home.spent;
            std::thread::sleep(Duration::from_millis(1));
            home.inbox.push_back(Input::Tick);
            station.inbox.push_back(Input::Tick);
            let sent = home.inbox.pop_front().map(|tick| home.step(tick)).transpose()?.unwrap_or_default();
            station.inbox.extend(sent);
            home.spent = spent;
        }
    }
}

fn home_time(count: usize) -> Result<Duration> {
    let scratch = tempfile::Builder::new().prefix("wayfs-bench-").tempdir()?;
    let start = Instant::now();
    let mut home = Host::open(&scratch.path().join("home"), Role::Home, OriginId::new(1)?, start)?;
    let wall = WallTime::from_nanos(1_800_000_000_000_000_000);
    let origin =
        home.replica.grant_origin(Time::ZERO, wall, node(OriginId::new(2)?), Admitted::Station, "bench@station")?;
    home.step(Input::Tick)?;
    let mut station = Host::open(&scratch.path().join("station"), Role::Station, origin, start)?;
    meet(&mut home, &mut station, origin)?;
    converse(&mut home, &mut station)?;
    home.inbox.clear();
    station.inbox.clear();
    home.step(Input::PeerDown { peer: PEER })?;
    station.step(Input::PeerDown { peer: PEER })?;
    for number in 0..count {
        let name = Name::new(format!("file-{number}"))?;
        let change = Change::Create { parent: FileId::ROOT, name, kind: Kind::File, mode: 0o644, uid: 0, gid: 0 };
        let id = RequestId(number as u64 + 1);
        let deadline = Time::from_micros(u64::MAX / 2);
        station.step(Input::Request { id, request: Request::Change { user: 0, change }, deadline })?;
    }
    while let Some(input) = station.inbox.pop_front() {
        station.step(input)?;
    }
    home.spent = Duration::ZERO;
    meet(&mut home, &mut station, origin)?;
    converse(&mut home, &mut station)?;
    let last = home.replica.entry(FileId::ROOT, &Name::new(format!("file-{}", count - 1))?)?;
    ensure!(last.is_some(), "the home does not have the last record");
    Ok(home.spent)
}

fn meet(home: &mut Host, station: &mut Host, origin: OriginId) -> Result<()> {
    let to_station = home.step(Input::PeerUp { peer: PEER, neighbour: Neighbour::ChildStation { origin } })?;
    station.inbox.extend(to_station);
    let to_home = station.step(Input::PeerUp { peer: PEER, neighbour: Neighbour::Parent })?;
    home.inbox.extend(to_home);
    Ok(())
}
