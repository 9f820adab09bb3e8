//! What a station has without knowing it, when nobody below it has it by the records.

use super::put_back_contents::{ASKED, is_declared};
use super::world::{HOME, World, big};
use crate::testing::MemoryStore;
use crate::{Input, Output, PeerId, Role};
use std::time::Duration;
use wayfs_types::{FileId, OriginId, RecordId};

/// Long enough for who is away to be taken to stay away.
const AWAY: Duration = Duration::from_secs(40);

/// A home with a station, and a client of the station whose bytes go slowly.
struct Stage {
    world: World,
    station: usize,
    upper: PeerId,
    writer: usize,
    session: PeerId,
}

fn stage() -> Stage {
    let mut world = World::new();
    let (station, writer) = (world.add(Role::Station, "s@s"), world.add(Role::Client, "ann@a"));
    let upper = world.connect(station, HOME);
    world.settle();
    let session = world.connect(writer, station);
    world.pass(Duration::from_secs(2));
    world.hold_pushes(session, true);
    Stage { world, station, upper, writer, session }
}

impl Stage {
    /// The writer stores a file, of which only the record has come.
    fn store(&mut self, text: &str) -> (FileId, RecordId) {
        let file = self.world.create(self.writer, FileId::ROOT, text);
        let version = self.world.store(self.writer, file, big(text));
        self.world.pass(Duration::from_secs(2));
        (file, version)
    }

    /// All chunks of a push have come, and nobody asked whether that is so.
    fn chunks_come(&mut self, text: &str) {
        self.world.hosts[self.station].chunks.insert(big(text).root().unwrap());
    }

    /// The writer's disk is put back to an older copy, which has none of these bytes, and it comes again.
    fn put_writer_back(&mut self, copy: MemoryStore) {
        self.world.hosts[self.writer].chunks.clear();
        self.open_writer(copy, 9);
    }

    fn open_writer(&mut self, copy: MemoryStore, life: u32) {
        self.world.restore(self.writer, copy, life);
        self.session = self.world.connect(self.writer, self.station);
        self.world.hold_pushes(self.session, true);
        self.world.settle();
    }

    /// A version that its writer does not hold any more, as it says.
    fn let_go(&mut self) -> RecordId {
        let copy = self.world.snapshot(self.writer);
        let (_, version) = self.store("f");
        self.put_writer_back(copy);
        version
    }

    fn holds_looks(&mut self, held: bool) {
        self.world.hosts[self.station].holds_seeks = held;
    }

    /// The versions that the station has its driver look for.
    fn looks(&self) -> Vec<RecordId> {
        let looks = self.world.hosts[self.station].events.iter().filter_map(|output| match output {
            Output::LookHere { version, .. } => Some(*version),
            _ => None,
        });
        looks.collect()
    }

    fn answer_looks(&mut self, here: &[RecordId], not_here: &[RecordId]) {
        let input = Input::LookedHere { here: here.to_vec(), not_here: not_here.to_vec() };
        self.world.input(self.station, input);
        self.world.settle();
    }

    /// Who has a version on record at a server; `None`: nobody is missing it there.
    fn holders(&self, server: usize, version: RecordId) -> Option<Vec<OriginId>> {
        let missing = self.world.hosts[server].replica.contents_missing(None, 1000).unwrap();
        let row = missing.into_iter().find(|row| row.version == version)?;
        Some(row.holders.into_iter().map(|(holder, _)| holder).collect())
    }

    fn home_counts_on_station(&self, version: RecordId) -> bool {
        let station = self.world.hosts[self.station].origin;
        self.holders(HOME, version).unwrap().contains(&station)
    }

    fn at_station(&self) -> u64 {
        self.world.hosts[self.station].replica.ledger().unwrap().at_station.unwrap().versions
    }
}

/// Seed 169087905: a client is put back when its last chunk has come and before it asked whether all is there. The station said that
/// nobody had what its disk had whole, and was away when the home asked everybody.
#[test]
fn what_a_client_let_go_and_its_station_has_is_not_lost_when_the_station_is_away() {
    let mut stage = stage();
    let copy = stage.world.snapshot(stage.writer);
    let (file, version) = stage.store("f");
    stage.chunks_come("f");
    stage.put_writer_back(copy);
    assert!(stage.home_counts_on_station(version));
    stage.world.close(stage.upper);
    stage.world.close(stage.session);
    stage.world.connect(stage.writer, HOME);
    stage.world.pass(ASKED);
    assert!(!is_declared(&stage.world), "who has it is only away");
    stage.world.connect(stage.station, HOME);
    stage.world.pass(ASKED);
    stage.world.input(stage.station, Input::Propagate { file, version });
    stage.world.settle();
    assert!(!is_declared(&stage.world));
    assert!(stage.world.hosts[HOME].chunks.contains(&big("f").root().unwrap()), "it comes home");
}

/// Proves [S-losses]. What is nowhere is declared lost all the same.
#[test]
fn what_a_client_let_go_and_its_station_has_not_is_lost() {
    let mut stage = stage();
    let version = stage.let_go();
    assert_eq!(stage.holders(stage.station, version), None, "nobody is waited for there");
    assert_eq!(stage.at_station(), 0);
    stage.world.pass(ASKED);
    assert!(is_declared(&stage.world));
}

/// While the driver looks, nothing is said.
#[test]
fn a_station_says_no_of_nothing_while_it_looks() {
    let mut stage = stage();
    stage.holds_looks(true);
    let version = stage.let_go();
    assert_eq!(stage.looks(), [version]);
    assert!(stage.home_counts_on_station(version));
    assert_eq!(stage.at_station(), 1, "it may be here and nowhere else");
    stage.answer_looks(&[], &[version]);
    assert!(!stage.home_counts_on_station(version));
    assert_eq!(stage.at_station(), 0);
}

#[test]
fn a_station_looks_for_what_a_client_has_that_stays_away() {
    let mut stage = stage();
    let (_, version) = stage.store("f");
    stage.chunks_come("f");
    stage.holds_looks(true);
    stage.world.close(stage.session);
    stage.world.pass(AWAY);
    assert!(stage.home_counts_on_station(version));
    stage.answer_looks(&[version], &[]);
    assert!(stage.home_counts_on_station(version));
    assert_eq!(stage.at_station(), 1);
    assert_eq!(stage.holders(stage.station, version), None, "it is here");
}

/// Who is away may come back with it: it stays on record.
#[test]
fn what_a_client_has_that_stays_away_is_missing_until_that_comes() {
    let mut stage = stage();
    let (_, version) = stage.store("f");
    stage.world.close(stage.session);
    stage.world.pass(AWAY);
    assert!(!stage.home_counts_on_station(version));
    let writer = stage.world.hosts[stage.writer].origin;
    assert_eq!(stage.holders(stage.station, version), Some(vec![writer]));
}

#[test]
fn a_station_looks_for_what_is_gone_at_its_writer() {
    let mut stage = stage();
    let (file, version) = stage.store("f");
    stage.chunks_come("f");
    stage.holds_looks(true);
    stage.world.input(stage.writer, Input::ContentGone { file, version, content: big("f") });
    stage.world.settle();
    assert_eq!(stage.looks(), [version]);
    assert!(stage.home_counts_on_station(version));
    stage.answer_looks(&[version], &[]);
    assert!(stage.home_counts_on_station(version));
    stage.world.pass(ASKED);
    assert!(!is_declared(&stage.world));
    assert_eq!(stage.at_station(), 1);
}

/// Found while it was looked for: its client is put back to a copy that has it.
#[test]
fn a_client_that_comes_with_it_while_its_station_looks_is_on_record() {
    let mut stage = stage();
    let older = stage.world.snapshot(stage.writer);
    let (_, version) = stage.store("f");
    let newer = stage.world.snapshot(stage.writer);
    stage.holds_looks(true);
    stage.put_writer_back(older);
    assert_eq!(stage.looks(), [version]);
    stage.world.hosts[stage.writer].chunks.insert(big("f").root().unwrap());
    stage.open_writer(newer, 10);
    let writer = stage.world.hosts[stage.writer].origin;
    assert_eq!(stage.holders(stage.station, version), Some(vec![writer]));
    stage.answer_looks(&[], &[version]);
    assert_eq!(stage.holders(stage.station, version), Some(vec![writer]));
    assert!(stage.home_counts_on_station(version));
}

/// A crash forgets that somebody looks, and not what is looked for.
#[test]
fn a_restart_looks_again_for_what_a_client_let_go() {
    let mut stage = stage();
    stage.holds_looks(true);
    let version = stage.let_go();
    stage.chunks_come("f");
    stage.world.close(stage.session);
    stage.world.crash(stage.station, 100);
    stage.world.connect(stage.station, HOME);
    stage.holds_looks(false);
    stage.world.pass(AWAY);
    assert_eq!(stage.at_station(), 1);
    assert!(stage.home_counts_on_station(version));
}

#[test]
fn more_than_is_looked_for_together_is_looked_for_one_after_the_other() {
    let mut stage = stage();
    let versions: Vec<RecordId> = (0..300).map(|number| stage.store(&format!("f{number}")).1).collect();
    stage.holds_looks(true);
    stage.world.close(stage.session);
    stage.world.pass(AWAY);
    let first = stage.looks();
    assert_eq!(first, versions[..256]);
    stage.answer_looks(&[], &first);
    let rest = stage.looks().split_off(256);
    assert_eq!(rest, versions[256..]);
    stage.answer_looks(&rest, &[]);
    let counted = versions.iter().filter(|version| stage.home_counts_on_station(**version));
    assert_eq!(counted.copied().collect::<Vec<_>>(), rest);
}
