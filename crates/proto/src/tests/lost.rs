//! Contents that nobody has any more: who is asked, who says so, and what is left to read.

use super::world::{HOME, World, big};
use crate::{GivenUp, Held, Input, LostContent, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level};
use wayfs_types::{Content, Fact, FileId, RecordId};

/// Long enough for all who are there to be asked.
const ASKED: Duration = Duration::from_secs(150);

/// A home, stations, a writer at the first of them, and a reader at the home.
struct Stage {
    world: World,
    stations: [usize; 2],
    writer: usize,
    session: PeerId,
    reader: usize,
}

fn stage() -> Stage {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let (writer, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    for station in stations {
        world.connect(station, HOME);
    }
    world.settle();
    let session = world.connect(writer, stations[0]);
    world.connect(reader, HOME);
    world.pass(Duration::from_secs(2));
    Stage { world, stations, writer, session, reader }
}

impl Stage {
    /// A file whose bytes are at their writer only, and are lost there.
    fn lost_at_writer(&mut self, text: &str) -> (FileId, RecordId) {
        let file = self.world.create(self.writer, FileId::ROOT, text);
        (file, self.write_and_lose(file, text))
    }

    fn write_and_lose(&mut self, file: FileId, text: &str) -> RecordId {
        self.world.hold_pushes(self.session, true);
        let version = self.world.store(self.writer, file, big(text));
        self.world.pass(Duration::from_secs(2));
        self.world.lose(self.writer, &big(text));
        self.world.close(self.session);
        self.session = self.world.connect(self.writer, self.stations[0]);
        version
    }

    fn stable_file(&mut self, text: &str) -> FileId {
        let file = self.world.create(self.writer, FileId::ROOT, text);
        self.world.store(self.writer, file, big(text));
        assert_eq!(self.world.wait(self.writer, Level::Stable), Ok(Answer::Reached));
        file
    }

    /// The writer is away, and what waits for it is given up by word.
    fn leave_and_be_given_up(&mut self) -> Vec<GivenUp> {
        self.world.close(self.session);
        self.world.pass(Duration::from_secs(60));
        let (now, wall) = (self.world.now, self.world.wall());
        let home = &mut self.world.hosts[HOME].replica;
        let sought = home.contents_away(10).unwrap().iter().map(|away| away.version).collect();
        home.accept_loss(now, wall, &sought).unwrap()
    }

    fn lost_at(&self, host: usize) -> Vec<LostContent> {
        self.world.hosts[host].replica.lost_contents(100).unwrap()
    }

    fn content_at(&self, host: usize, file: FileId) -> Content {
        self.world.hosts[host].replica.inode(file).unwrap().unwrap().content.clone()
    }

    fn everybody(&self) -> [usize; 5] {
        [HOME, self.stations[0], self.stations[1], self.writer, self.reader]
    }

    fn assert_nothing_waits(&self) {
        for host in self.everybody() {
            let ledger = self.world.hosts[host].replica.ledger().unwrap();
            assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
        }
    }
}

/// Proves [S-losses]. One content that is gone does not stop what comes after it.
#[test]
fn what_is_gone_at_its_writer_is_declared_lost_and_everybody_hears_of_it() {
    let mut stage = stage();
    let (file, version) = stage.lost_at_writer("f");
    let later = stage.world.create(stage.writer, FileId::ROOT, "later");
    stage.world.store(stage.writer, later, big("later"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached), "what is gone holds nothing up");
    assert_eq!(stage.world.hosts[stage.writer].replica.progress().versions_lost, 1, "and is said at once");
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    for host in stage.everybody() {
        let lost = stage.lost_at(host);
        assert_eq!(lost.len(), 1, "host {host}: {lost:?}");
        assert_eq!((lost[0].file, lost[0].version, lost[0].shows_older), (file, version, false));
        assert!(lost[0].report.is_some());
        assert_eq!(stage.world.hosts[host].replica.progress().versions_lost, 1);
        if let Some(state) = stage.world.hosts[host].replica.level(file).unwrap() {
            assert!(!state.facts.safe.holds() && state.facts.stable == Fact::No, "host {host}: {state:?}");
            assert!(stage.world.hosts[host].replica.is_lost(state.version).unwrap());
            let holder = stage.world.hosts[host].replica.holder(file, state.version).unwrap();
            assert_ne!(holder, crate::Holder::Here, "host {host}");
        }
    }
    stage.assert_nothing_waits();
}

/// Proves [S-losses]. The file shows the last content that is whole, and whoever goes on from the lost one meets nobody.
#[test]
fn the_last_whole_content_comes_back_when_the_newer_one_is_lost() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.write_and_lose(file, "new");
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("old"));
    assert!(stage.world.can_read(stage.reader, file, &big("old")));
    assert!(stage.lost_at(stage.reader)[0].shows_older);
    let state = stage.world.hosts[HOME].replica.level(file).unwrap().unwrap();
    assert!(state.facts.stable.holds(), "what is shown is whole: {state:?}");
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

/// What was kept in case the newer bytes are lost is read before it is shown: it may be gone, too.
#[test]
fn what_was_kept_and_is_gone_meanwhile_is_not_shown() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    for host in stage.everybody() {
        stage.world.hosts[host].chunks.remove(&big("old").root().unwrap());
    }
    stage.write_and_lose(file, "new");
    stage.world.pass(ASKED);
    let shown = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap();
    assert_eq!(shown.content, big("new"), "nothing whole is left that could be shown");
    assert_eq!(stage.world.hosts[HOME].replica.is_lost(shown.version), Ok(true), "and whoever reads it is told so");
    assert!(!stage.lost_at(stage.reader)[0].shows_older);
    stage.assert_nothing_waits();
}

/// The home keeps what the newest bytes are to replace, through any number of versions.
#[test]
fn what_is_brought_back_is_the_last_whole_content_of_many() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.hold_pushes(stage.session, true);
    for text in ["one", "two", "three"] {
        stage.world.store(stage.writer, file, big(text));
        stage.world.pass(Duration::from_secs(2));
    }
    let page = stage.world.hosts[HOME].replica.contents_in_use(None, 100).unwrap();
    assert!(page.contents.iter().any(|kept| kept.owed && kept.content == big("old")), "kept by the home: {page:?}");
    for text in ["one", "two", "three"] {
        stage.world.lose(stage.writer, &big(text));
    }
    stage.world.close(stage.session);
    stage.session = stage.world.connect(stage.writer, stage.stations[0]);
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("old"));
    stage.assert_nothing_waits();
}

/// Seed 331543: written and written over without a session, and the newer bytes are gone before anybody was sent either.
#[test]
fn what_lost_bytes_took_the_place_of_is_sent_all_the_same() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.close(stage.session);
    stage.world.store(stage.writer, file, big("whole"));
    let version = stage.world.store(stage.writer, file, big("gone"));
    stage.world.lose(stage.writer, &big("gone"));
    stage.world.input(stage.writer, Input::ContentGone { file, version, content: big("gone") });
    stage.session = stage.world.connect(stage.writer, stage.stations[0]);
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("whole"));
    assert!(stage.world.can_read(stage.reader, file, &big("whole")));
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

/// Proves [S-losses]. What is safe at a station is not let go for bytes that are at their writer only.
#[test]
fn what_a_station_has_comes_back_when_the_newer_one_is_lost() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.store(stage.writer, file, big("whole"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached));
    stage.world.pass(Duration::from_secs(2));
    stage.write_and_lose(file, "new");
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("whole"));
    let state = stage.world.hosts[HOME].replica.level(file).unwrap().unwrap();
    assert!(state.facts.safe.holds() && state.facts.stable == Fact::No, "a station has it: {state:?}");
    assert!(stage.world.can_read(stage.reader, file, &big("whole")));
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

/// Seed 162003819: the version that is shown has a number of the home's, and its bytes are missing under the record that brought them.
/// The station that has them was told that it need not keep them, and called them stable.
#[test]
fn what_comes_back_is_not_called_stable_before_the_home_has_it() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.store(stage.writer, file, big("whole"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached));
    stage.world.pass(Duration::from_secs(2));
    stage.write_and_lose(file, "new");
    stage.world.pass(ASKED);
    let root = big("whole").root().unwrap();
    assert!(!stage.world.hosts[HOME].chunks.contains(&root));
    let station = stage.stations[0];
    let at_station = |stage: &Stage| {
        let replica = &stage.world.hosts[station].replica;
        let version = replica.inode(file).unwrap().unwrap().version;
        let page = replica.contents_in_use(None, 100).unwrap();
        let is_owed = page.contents.iter().any(|kept| kept.owed && kept.version == Some(version));
        (replica.level(file).unwrap().unwrap().facts.stable, is_owed)
    };
    let (stable, is_owed) = at_station(&stage);
    assert!(!stable.holds() && is_owed, "{stable:?}, owed: {is_owed}");
    // And after a restart of the home.
    stage.world.crash(HOME, 0);
    for station in stage.stations {
        stage.world.connect(station, HOME);
    }
    stage.world.connect(stage.reader, HOME);
    stage.world.pass(Duration::from_secs(2));
    let (stable, is_owed) = at_station(&stage);
    assert!(!stable.holds() && is_owed, "{stable:?}, owed: {is_owed}");
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].chunks.contains(&root));
    let (stable, is_owed) = at_station(&stage);
    assert!(stable.holds() && !is_owed, "{stable:?}, owed: {is_owed}");
    stage.assert_nothing_waits();
}

/// However many were written after it, and whatever else of the home's is forgotten by a crash.
#[test]
fn what_a_station_has_comes_back_when_many_newer_ones_are_lost() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.store(stage.writer, file, big("whole"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached));
    stage.world.hold_pushes(stage.session, true);
    for text in ["one", "two", "three"] {
        stage.world.store(stage.writer, file, big(text));
        stage.world.pass(Duration::from_secs(2));
    }
    stage.world.crash(HOME, 0);
    for station in stage.stations {
        stage.world.connect(station, HOME);
    }
    stage.world.connect(stage.reader, HOME);
    stage.world.pass(Duration::from_secs(2));
    for text in ["one", "two", "three"] {
        stage.world.lose(stage.writer, &big(text));
    }
    stage.world.close(stage.session);
    stage.session = stage.world.connect(stage.writer, stage.stations[0]);
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("whole"));
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].chunks.contains(&big("whole").root().unwrap()));
    stage.assert_nothing_waits();
}

/// What nobody will miss is not kept: the newer bytes are at a server.
#[test]
fn what_a_station_has_goes_when_the_newer_one_is_safe() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    for text in ["first", "second", "third"] {
        stage.world.store(stage.writer, file, big(text));
        stage.world.pass(Duration::from_secs(2));
    }
    for host in [HOME, stage.stations[0]] {
        let ledger = stage.world.hosts[host].replica.ledger().unwrap();
        assert_eq!(ledger.home_lacks.versions, 1, "host {host}: {ledger:?}");
    }
}

/// Its writer wrote over what it had lost, and lost that, too.
#[test]
fn what_was_whole_before_two_losses_comes_back() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.write_and_lose(file, "one");
    stage.world.pass(Duration::from_secs(2));
    stage.write_and_lose(file, "two");
    stage.world.pass(ASKED);
    assert_eq!(stage.content_at(HOME, file), big("old"));
    stage.assert_nothing_waits();
}

#[test]
fn a_writer_that_goes_on_from_lost_bytes_makes_no_conflict() {
    let mut stage = stage();
    let (file, _) = stage.lost_at_writer("f");
    stage.world.close(stage.session);
    stage.world.pass(ASKED);
    // It has not heard of the declaration.
    stage.world.store(stage.writer, file, big("again"));
    stage.session = stage.world.connect(stage.writer, stage.stations[0]);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.world.pass(ASKED);
    assert!(stage.world.can_read(stage.reader, file, &big("again")));
    for host in stage.everybody() {
        assert_eq!(stage.world.hosts[host].replica.progress().conflicts_open, 0, "host {host}");
        assert_eq!(stage.world.hosts[host].replica.progress().versions_lost, 0, "host {host}");
    }
}

/// Proves [S-losses]. A machine that is away may have the bytes: it is waited for until it is turned away.
#[test]
fn what_died_with_its_writer_is_waited_for_until_that_is_revoked() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.hold_pushes(stage.session, true);
    stage.world.store(stage.writer, file, big("new"));
    stage.world.pass(Duration::from_secs(2));
    stage.world.destroy(stage.writer);
    stage.world.pass(Duration::from_secs(3600));
    assert!(stage.lost_at(HOME).is_empty(), "the writer may come back");
    let away = stage.world.hosts[HOME].replica.contents_away(10).unwrap();
    let writer = stage.world.hosts[stage.writer].origin;
    assert_eq!((away.len(), &away[0].waits_for[..]), (1, &[writer][..]), "{away:?}");
    let (now, wall) = (stage.world.now, stage.world.wall());
    let node = stage.world.hosts[stage.writer].replica.config().node;
    stage.world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken).unwrap();
    stage.world.input(HOME, Input::Tick);
    stage.world.pass(ASKED);
    assert_eq!(stage.lost_at(HOME).len(), 1);
    assert_eq!(stage.content_at(HOME, file), big("old"));
    for host in [HOME, stage.stations[0], stage.stations[1]] {
        let ledger = stage.world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host} counts no longer what is lost: {ledger:?}");
    }
}

/// Proves [S-losses]. Somebody who runs the volume need not wait.
#[test]
fn a_loss_is_accepted_by_word_and_taken_back_when_the_bytes_turn_up() {
    for with_older in [false, true] {
        let mut stage = stage();
        let file = match with_older {
            true => stage.stable_file("old"),
            false => stage.world.create(stage.writer, FileId::ROOT, "f"),
        };
        stage.world.hold_pushes(stage.session, true);
        stage.world.store(stage.writer, file, big("new"));
        stage.world.pass(Duration::from_secs(2));
        let given_up = stage.leave_and_be_given_up();
        assert_eq!(given_up.len(), 1, "{given_up:?}");
        assert_eq!((given_up[0].file, given_up[0].has_older), (file, with_older));
        stage.world.input(HOME, Input::Tick);
        stage.world.pass(Duration::from_secs(2));
        assert_eq!(stage.lost_at(stage.reader).len(), 1);
        assert_eq!(stage.content_at(HOME, file) == big("old"), with_older);
        stage.session = stage.world.connect(stage.writer, stage.stations[0]);
        stage.world.pass(ASKED);
        assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
        assert!(stage.world.can_read(stage.reader, file, &big("new")), "with an older one: {with_older}");
        for host in stage.everybody() {
            assert!(stage.lost_at(host).is_empty(), "host {host} with an older one: {with_older}");
        }
        stage.assert_nothing_waits();
    }
}

/// Seed 101000431: what turned up is no longer called lost, though something was stored over what was shown instead. It comes beside that.
#[test]
fn what_turns_up_beside_something_newer_is_not_called_lost() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    stage.world.hold_pushes(stage.session, true);
    stage.world.store(stage.writer, file, big("new"));
    stage.world.pass(Duration::from_secs(2));
    assert_eq!(stage.leave_and_be_given_up().len(), 1);
    stage.world.input(HOME, Input::Tick);
    stage.world.pass(Duration::from_secs(2));
    stage.world.lookup(stage.reader, FileId::ROOT, "old").unwrap();
    stage.world.store(stage.reader, file, big("newer"));
    assert_eq!(stage.world.wait(stage.reader, Level::Stable), Ok(Answer::Reached));
    assert_eq!(stage.lost_at(stage.reader).len(), 1, "it is still lost");
    stage.session = stage.world.connect(stage.writer, stage.stations[0]);
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert_eq!(stage.content_at(HOME, file), big("newer"));
    assert_eq!(stage.world.names(stage.reader, FileId::ROOT).unwrap().len(), 2, "what was lost is beside it");
    for host in stage.everybody() {
        assert!(stage.lost_at(host).is_empty(), "host {host}");
        assert_eq!(stage.world.hosts[host].replica.progress().versions_lost, 0, "host {host}");
    }
    stage.assert_nothing_waits();
}

/// [S-losses] Nor is it shown by word, if whoever looked for it says that it is nowhere.
#[test]
fn what_was_kept_and_is_gone_is_not_shown_when_a_loss_is_accepted() {
    let mut stage = stage();
    let file = stage.stable_file("old");
    // Its writer has no station, and is away for a moment only: the home does not look for it yet.
    let writer = stage.reader;
    stage.world.lookup(writer, FileId::ROOT, "old").unwrap();
    let line = stage.world.line_of(writer);
    stage.world.hold_pushes(line, true);
    let version = stage.world.store(writer, file, big("new"));
    stage.world.pass(Duration::from_secs(2));
    stage.world.close(line);
    stage.world.pass(Duration::from_secs(5));
    let away = stage.world.hosts[HOME].replica.contents_away(10).unwrap();
    let known: Vec<_> = away.iter().map(|away| (away.version, away.has_older, away.instead.clone())).collect();
    assert_eq!(known, [(version, true, Some(big("old")))], "that is to be looked for");
    stage.world.input(HOME, Input::Sought { file, version, content: big("old"), is_here: false });
    let (now, wall) = (stage.world.now, stage.world.wall());
    let given_up = stage.world.hosts[HOME].replica.accept_loss(now, wall, &[version].into()).unwrap();
    assert!(given_up.len() == 1 && !given_up[0].has_older, "{given_up:?}");
    stage.world.input(HOME, Input::Tick);
    stage.world.pass(Duration::from_secs(2));
    let shown = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap();
    assert_eq!(stage.world.hosts[HOME].replica.is_lost(shown.version), Ok(true), "whoever reads it is told so");
    assert!(!stage.lost_at(stage.writer)[0].shows_older);
}

/// Seed 130044119: a client looked for contents at one station's wish and found them when it was at another, which has not heard of
/// their record. It offers them when that has.
#[test]
fn what_is_found_at_another_station_is_offered_when_that_has_the_record() {
    let mut stage = stage();
    let line = stage.world.line_of(stage.stations[1]);
    stage.world.stall(line, true);
    let file = stage.stable_file("f");
    let version = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap().version;
    stage.world.lose(HOME, &big("f"));
    stage.world.lose(stage.stations[0], &big("f"));
    stage.world.close(stage.session);
    let session = stage.world.connect(stage.writer, stage.stations[1]);
    stage.world.settle();
    stage.world.input(stage.writer, Input::Sought { file, version, content: big("f"), is_here: true });
    stage.world.settle();
    assert!(stage.world.is_open(session), "its station has nothing to object to");
    stage.world.stall(line, false);
    stage.world.input(HOME, Input::ContentGone { file, version, content: big("f") });
    stage.world.pass(ASKED);
    assert!(stage.world.hosts[HOME].chunks.contains(&big("f").root().unwrap()), "the home has them again");
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

/// Seed 142104948: the station that asks for it for the home has not heard of the record either.
#[test]
fn what_is_lent_is_offered_to_another_station_when_that_has_the_record() {
    let mut stage = stage();
    let line = stage.world.line_of(stage.stations[1]);
    stage.world.stall(line, true);
    let file = stage.world.create(stage.writer, FileId::ROOT, "f");
    let version = stage.world.store(stage.writer, file, big("f"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached));
    stage.world.close(stage.session);
    let session = stage.world.connect(stage.writer, stage.stations[1]);
    stage.world.settle();
    let held = wayfs_wire::HeldVersion { version, file, content: big("f") };
    let seek = wayfs_wire::Message::Down(wayfs_wire::Down::Seek { versions: vec![held] });
    stage.world.input(stage.writer, Input::Message { peer: session, bytes: wayfs_wire::encode(&seek) });
    stage.world.settle();
    assert!(stage.world.is_open(session), "its station has nothing to object to");
    stage.world.stall(line, false);
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

/// What a station held is got from its writer, which keeps its copy until the home has one.
#[test]
fn what_is_damaged_at_a_station_comes_from_its_writer() {
    let mut stage = stage();
    let file = stage.world.create(stage.writer, FileId::ROOT, "f");
    let version = stage.world.store(stage.writer, file, big("f"));
    assert_eq!(stage.world.wait(stage.writer, Level::Safe), Ok(Answer::Reached));
    stage.world.pass(Duration::from_secs(2));
    stage.world.lose(stage.stations[0], &big("f"));
    stage.world.input(stage.stations[0], Input::ContentGone { file, version, content: big("f") });
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.can_read(stage.reader, file, &big("f")));
    assert!(stage.lost_at(HOME).is_empty());
}

/// What a home lost on its own disk is got from whoever has it: here a station that nobody has on record.
#[test]
fn what_is_damaged_at_the_home_comes_from_a_former_holder() {
    for is_at_station in [true, false] {
        let mut stage = stage();
        let file = stage.stable_file("f");
        let version = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap().version;
        stage.world.lose(HOME, &big("f"));
        stage.world.lose(stage.writer, &big("f"));
        if !is_at_station {
            stage.world.lose(stage.stations[0], &big("f"));
        }
        stage.world.input(HOME, Input::ContentGone { file, version, content: big("f") });
        stage.world.pass(ASKED);
        assert_eq!(stage.lost_at(HOME).is_empty(), is_at_station);
        assert_eq!(stage.world.can_read(stage.reader, file, &big("f")), is_at_station);
        // It comes back with a machine that had been away.
        stage.world.find(stage.stations[0], &big("f"));
    }
}

/// Who read it is on no record, and is asked before it is declared lost: at the home, and below a station.
#[test]
fn what_only_a_reader_has_is_not_lost() {
    for at in [HOME, 2] {
        let mut stage = stage();
        let file = stage.stable_file("f");
        let version = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap().version;
        let reader = stage.world.add(Role::Client, "cas@c");
        stage.world.connect(reader, at);
        stage.world.find(reader, &big("f"));
        for host in [HOME, stage.stations[0], stage.writer] {
            stage.world.lose(host, &big("f"));
        }
        stage.world.input(HOME, Input::ContentGone { file, version, content: big("f") });
        stage.world.pass(ASKED);
        assert!(stage.lost_at(HOME).is_empty(), "at {at}");
        assert!(stage.world.can_read(stage.reader, file, &big("f")), "at {at}");
        stage.assert_nothing_waits();
    }
}

/// Somebody writes the same as what is lost, `after` the writer said that it is.
fn written_by_another(after: Duration) -> (Stage, usize, PeerId, FileId) {
    let mut stage = stage();
    let file = stage.stable_file("old");
    let other = stage.world.add(Role::Client, "cas@c");
    let line = stage.world.connect(other, HOME);
    stage.world.pass(Duration::from_secs(2));
    stage.world.lookup(other, FileId::ROOT, "old").unwrap();
    stage.world.close(line);
    stage.world.store(other, file, big("new"));
    let version = stage.write_and_lose(file, "new");
    stage.world.pass(after);
    let line = stage.world.connect(other, HOME);
    stage.world.hold_pushes(line, true);
    stage.world.pass(Duration::from_millis(200));
    if stage.lost_at(HOME).is_empty() {
        let shown = stage.world.hosts[HOME].replica.inode(file).unwrap().unwrap();
        assert_eq!((shown.version, &shown.content), (version, &big("new")), "equal contents are one");
    }
    (stage, other, line, file)
}

/// Seed 23100068 with `clone`: the bytes were gone under the name that they had first, and another machine had them under a name of its own,
/// whose file had become one with the first. They were declared lost, and who had them was told that they are no more wanted.
#[test]
fn what_another_has_under_a_name_of_its_own_is_not_lost() {
    for after in (0..100).map(Duration::from_secs) {
        let (mut stage, other, line, file) = written_by_another(after);
        let was_late = !stage.lost_at(HOME).is_empty();
        stage.world.pass(ASKED);
        assert!(was_late || stage.lost_at(HOME).is_empty(), "after {after:?}: {:?}", stage.lost_at(HOME));
        stage.world.hold_pushes(line, false);
        stage.world.pass(ASKED);
        let names = stage.world.names(HOME, FileId::ROOT).unwrap();
        let mut held = names.iter().map(|name| stage.world.lookup(HOME, FileId::ROOT, name).unwrap());
        let (kept, _) = held.find(|(_, inode)| inode.content == big("new")).expect("somebody had it all the time");
        assert!(was_late || kept == file, "after {after:?}: {names:?}");
        assert!(stage.world.can_read(stage.reader, kept, &big("new")), "after {after:?}");
        assert_eq!(stage.world.wait(other, Level::Stable), Ok(Answer::Reached));
        stage.assert_nothing_waits();
    }
}

/// As above, and it is gone there, too: then nobody is left to wait for.
#[test]
fn what_is_gone_under_both_names_is_lost() {
    let (mut stage, other, line, file) = written_by_another(Duration::from_secs(2));
    stage.world.lose(other, &big("new"));
    stage.world.close(line);
    stage.world.connect(other, HOME);
    stage.world.pass(ASKED * 2);
    assert_eq!(stage.content_at(HOME, file), big("old"));
    assert_eq!(stage.lost_at(HOME).len(), 1);
    assert_eq!(stage.world.wait(other, Level::Stable), Ok(Answer::Reached));
    stage.assert_nothing_waits();
}

#[test]
fn only_a_home_declares_and_only_a_writer_speaks_for_itself() {
    use super::liars::{is_refused, record};
    use wayfs_types::{Op, WallTime};
    use wayfs_wire::Up;
    let lost = |file, version| Op::Lost { file, version, instead: None, mtime: WallTime::EPOCH };
    assert!(is_refused(|own, other| {
        let of = RecordId::new(other, 1).unwrap();
        vec![super::liars::hello(7), Up::Records { records: vec![record(own, 1, lost(FileId::made_by(of), of))] }]
    }));
    assert!(is_refused(|_, other| {
        let of = RecordId::new(other, 1).unwrap();
        vec![super::liars::hello(7), Up::Gone { versions: vec![of], writer: true }]
    }));
    assert!(!is_refused(|own, _| {
        let of = RecordId::new(own, 1).unwrap();
        vec![super::liars::hello(7), Up::Gone { versions: vec![of], writer: true }]
    }));
}

/// A removed file needs no bytes, and a report of it nobody.
#[test]
fn a_file_whose_bytes_are_lost_can_be_removed() {
    let mut stage = stage();
    let (file, _) = stage.lost_at_writer("f");
    stage.world.pass(ASKED);
    assert_eq!(stage.lost_at(stage.reader).len(), 1);
    let change = Change::Unlink { parent: FileId::ROOT, name: super::world::name("f") };
    stage.world.lookup(stage.reader, FileId::ROOT, "f").unwrap();
    stage.world.change(stage.reader, change).unwrap();
    stage.world.pass(Duration::from_secs(4));
    assert!(stage.world.hosts[HOME].replica.inode(file).unwrap().is_none_or(|inode| inode.is_removed()));
    assert!(stage.lost_at(HOME).is_empty());
}
