//! What is said of contents that were given up: the ledger, marks and facts say one thing.

use super::world::{HOME, World, big};
use crate::{PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{FileId, RecordId};

/// Long enough for all who are there to be asked.
const ASKED: Duration = Duration::from_secs(150);

/// A home, a station, and a writer there.
struct Stage {
    world: World,
    station: usize,
    line: PeerId,
    writer: usize,
    session: PeerId,
}

fn stage() -> Stage {
    let mut world = World::new();
    let (station, writer) = (world.add(Role::Station, "s@s"), world.add(Role::Client, "ann@a"));
    let line = world.connect(station, HOME);
    world.settle();
    let session = world.connect(writer, station);
    world.pass(Duration::from_secs(2));
    Stage { world, station, line, writer, session }
}

impl Stage {
    /// A record that comes home while its contents stay at the writer, which goes then.
    fn written_and_left(&mut self) -> (FileId, RecordId) {
        let file = self.world.create(self.writer, FileId::ROOT, "f");
        self.world.hold_pushes(self.session, true);
        let version = self.world.store(self.writer, file, big("f"));
        self.world.pass(Duration::from_secs(2));
        self.world.close(self.session);
        (file, version)
    }

    fn come_back(&mut self) {
        self.session = self.world.connect(self.writer, self.station);
    }

    /// Nobody says that a version is safe or stable.
    fn assert_not_told(&self, version: RecordId) {
        for (host, at) in self.world.hosts.iter().enumerate() {
            let facts = at.replica.facts_of(version, Some(&big("f"))).unwrap();
            assert!(!facts.safe.holds() && !facts.stable.holds(), "host {host}: {facts:?}");
        }
    }

    /// Lets time pass, and looks after every single step.
    fn pass_looking(&mut self, span: Duration, look: impl Fn(&Self)) {
        let until = self.world.now + span;
        loop {
            while self.world.step() {
                look(self);
            }
            let next = self.world.hosts.iter().filter_map(|host| host.replica.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= until) else { return };
            self.world.now = self.world.now.max(next);
        }
    }
}

/// Seed 70001 of the checker of claims. The marks of its writer pass what is lost, and say nothing of it: no *safe* or *stable* of
/// it is told, be it in the moment between the home's word that nobody need wait for it and the report of why.
#[test]
fn what_was_declared_lost_is_never_said_to_be_safe_or_stable() {
    let mut stage = stage();
    let (file, version) = stage.written_and_left();
    stage.world.lose(stage.writer, &big("f"));
    stage.come_back();
    stage.pass_looking(ASKED, |stage| stage.assert_not_told(version));
    let lost = stage.world.hosts[stage.writer].replica.lost_contents(10).unwrap();
    assert!(lost.len() == 1 && lost[0].report.is_some(), "the home has declared it: {lost:?}");
    for host in [HOME, stage.station, stage.writer] {
        assert_eq!(stage.world.hosts[host].replica.is_declared_lost(version), Ok(true), "host {host}");
    }
    let later = stage.world.create(stage.writer, FileId::ROOT, "later");
    stage.world.store(stage.writer, later, big("later"));
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached), "it holds nothing up");
    stage.assert_not_told(version);
    stage.world.pass(Duration::from_secs(2));
    for host in [stage.writer, stage.station, HOME] {
        stage.world.crash(host, 0);
    }
    stage.line = stage.world.connect(stage.station, HOME);
    stage.come_back();
    stage.pass_looking(Duration::from_secs(5), |stage| stage.assert_not_told(version));
    // The report goes with what it is about.
    stage.world.lookup(stage.writer, FileId::ROOT, "f").unwrap();
    stage.world.store(stage.writer, file, big("anew"));
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[stage.writer].replica.lost_contents(10).unwrap().is_empty());
    stage.assert_not_told(version);
}
