//! What is said of contents that were given up, or looked for, and of a wait: the ledger, marks and facts say one thing.

use super::world::{HOME, World, big};
use crate::{Input, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Level, Request};
use wayfs_types::{Fact, FileId, RecordId};

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
    stage_of(World::new())
}

fn stage_of(mut world: World) -> Stage {
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

    /// Somebody who runs the volume gives up all that is waited for.
    fn accept_loss(&mut self) {
        let (now, wall) = (self.world.now, self.world.wall());
        let home = &mut self.world.hosts[HOME].replica;
        let all = home.contents_away(10).unwrap().iter().map(|away| away.version).collect();
        assert_eq!(home.accept_loss(now, wall, &all).unwrap().len(), 1);
        self.world.input(HOME, Input::Tick);
        self.world.pass(Duration::from_secs(2));
    }

    fn come_back(&mut self) {
        self.session = self.world.connect(self.writer, self.station);
    }

    /// A wait that ends at once if it ends.
    fn is_reached(&mut self, until: Level) -> bool {
        let id = self.world.request(self.writer, Request::Wait { record: None, until });
        self.world.settle();
        self.world.answer(self.writer, id) == Some(Ok(Answer::Reached))
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

/// Seed 34003 of the checker of claims, second run: the home had looked for what was at a writer that was away. What the station has
/// then is safe, and is counted as what the home lacks, though the home cannot be heard.
#[test]
fn what_was_looked_for_while_its_writer_was_away_is_safe_when_the_station_has_it() {
    let mut stage = stage();
    let (_, version) = stage.written_and_left();
    stage.world.pass(ASKED);
    stage.world.stall(stage.line, true);
    stage.come_back();
    stage.world.hold_pushes(stage.session, true);
    assert!(!stage.is_reached(Level::Safe), "it is here only");
    let ledger = stage.world.hosts[stage.writer].replica.ledger().unwrap();
    assert_eq!(ledger.not_safe.unwrap().versions, 1);
    stage.world.hold_pushes(stage.session, false);
    assert!(stage.is_reached(Level::Safe), "the station has it");
    let writer = &stage.world.hosts[stage.writer].replica;
    let ledger = writer.ledger().unwrap();
    assert!(ledger.not_safe.unwrap().is_nothing(), "what a wait says the ledger says: {ledger:?}");
    assert_eq!(ledger.at_station.unwrap().versions, 1);
    let facts = writer.facts_of(version, Some(&big("f"))).unwrap();
    assert!(facts.safe.holds() && facts.stable == Fact::No, "{facts:?}");
    stage.world.stall(stage.line, false);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.world.pass(ASKED);
    for host in [HOME, stage.station, stage.writer] {
        let ledger = stage.world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}

/// What was declared lost and is at its writer all the same is behind the marks: no wait ends before somebody else has it.
#[test]
fn no_wait_ends_while_a_row_behind_the_mark_says_otherwise() {
    let mut stage = stage();
    let (file, version) = stage.written_and_left();
    stage.world.pass(Duration::from_secs(60));
    stage.accept_loss();
    stage.come_back();
    stage.world.hold_pushes(stage.session, true);
    stage.world.pass(Duration::from_secs(2));
    // The marks have passed it, and those of what comes later do.
    stage.world.create(stage.writer, FileId::ROOT, "later");
    stage.world.pass(Duration::from_secs(2));
    let check = |stage: &Stage| {
        let writer = &stage.world.hosts[stage.writer].replica;
        let (progress, ledger) = (writer.progress(), writer.ledger().unwrap());
        let is_safe = progress.safe_through >= progress.last_record.unwrap().sequence();
        let is_stable = progress.stable_through >= progress.last_record.unwrap().sequence();
        assert!(!is_safe || ledger.not_safe.unwrap().is_nothing(), "{progress:?} {ledger:?}");
        assert!(!is_stable || ledger.home_lacks.is_nothing(), "{progress:?} {ledger:?}");
    };
    check(&stage);
    assert_eq!(stage.world.hosts[stage.writer].replica.ledger().unwrap().not_safe.unwrap().versions, 1);
    assert!(!stage.is_reached(Level::Safe) && !stage.is_reached(Level::Stable), "it is here only");
    let facts = stage.world.hosts[stage.writer].replica.facts_of(version, Some(&big("f"))).unwrap();
    assert!(!facts.safe.holds() && !facts.stable.holds(), "{facts:?}");
    stage.world.hold_pushes(stage.session, false);
    stage.pass_looking(ASKED, check);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.can_read(HOME, file, &big("f")));
    assert!(stage.world.hosts[stage.writer].replica.ledger().unwrap().home_lacks.is_nothing());
}

/// Seed 34039 of the checker of claims. A home that was put back lacks what a writer had written under its former number. No mark
/// tells of that, and no row before the writer has looked: a wait for *stable* waits for the look, and then for what it finds.
#[test]
fn a_wait_for_stable_waits_for_the_look_at_what_the_home_lost() {
    let mut stage = stage_of(super::put_back::first_life());
    let root = big("f").root().unwrap();
    stage.written_and_left();
    let copy = stage.world.snapshot(HOME);
    stage.come_back();
    stage.world.create(stage.writer, FileId::ROOT, "later");
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].chunks.contains(&root));
    stage.world.restore(HOME, copy, 4);
    // The station has it in nobody's name, and would be looked to as well.
    for host in [HOME, stage.station] {
        stage.world.hosts[host].chunks.remove(&root);
    }
    stage.world.hosts[stage.writer].holds_seeks = true;
    let former = stage.world.hosts[stage.writer].origin;
    super::put_back::rejoin(&mut stage.world, &[(stage.station, HOME), (stage.writer, stage.station)]);
    assert_ne!(stage.world.hosts[stage.writer].origin, former, "it goes on as another member");
    let lent = stage.world.hosts[stage.writer].replica.ledger().unwrap().home_lacks;
    assert!(lent.is_nothing() && !stage.world.hosts[HOME].chunks.contains(&root), "it has not looked yet: {lent:?}");
    let request = Request::Wait { record: None, until: Level::Stable };
    let id = stage.world.request_within(stage.writer, request, ASKED);
    stage.world.pass(Duration::from_secs(2));
    assert_eq!(stage.world.answer(stage.writer, id), None, "the home lacks it");
    stage.world.hosts[stage.writer].holds_seeks = false;
    for event in std::mem::take(&mut stage.world.hosts[stage.writer].events) {
        stage.world.output(stage.writer, event);
    }
    stage.world.pass(Duration::from_secs(60));
    assert_eq!(stage.world.answer(stage.writer, id), Some(Ok(Answer::Reached)));
    assert!(stage.world.hosts[HOME].chunks.contains(&root), "that is what was waited for");
}

/// A mark of before the home heard that bytes turned up says of them that they need not be kept.
#[test]
fn what_turned_up_is_not_let_go_by_a_mark_of_before() {
    let mut stage = stage();
    let (file, _) = stage.written_and_left();
    stage.world.lose(stage.writer, &big("f"));
    stage.come_back();
    stage.world.pass(ASKED);
    assert_eq!(stage.world.hosts[HOME].replica.lost_contents(10).unwrap().len(), 1, "it is declared lost");
    stage.world.close(stage.session);
    stage.world.find(stage.writer, &big("f"));
    stage.world.stall(stage.line, true);
    stage.come_back();
    stage.world.settle();
    stage.world.create(stage.writer, FileId::ROOT, "later");
    stage.world.settle();
    let lent = stage.world.hosts[stage.writer].replica.ledger().unwrap().home_lacks;
    assert_eq!(lent.versions, 1, "it answers for what the home lacks: {lent:?}");
    stage.world.stall(stage.line, false);
    stage.world.pass(ASKED);
    assert!(stage.world.can_read(HOME, file, &big("f")));
    for host in [HOME, stage.station, stage.writer] {
        let replica = &stage.world.hosts[host].replica;
        assert!(replica.ledger().unwrap().home_lacks.is_nothing(), "host {host}: {:?}", replica.ledger());
        assert!(replica.lost_contents(10).unwrap().is_empty(), "host {host}");
    }
}
