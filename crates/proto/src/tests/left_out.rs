//! Contents that their record left out, and that a writer who was put back to an older copy brings all the same.

use super::forking::stay_connected;
use super::put_back::rejoin;
use super::put_back_contents::{ASKED, is_declared};
use super::world::{HOME, World, big};
use crate::Role;
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

const ROOT: FileId = FileId::ROOT;
/// Enough for what is under way.
const PAUSE: Duration = Duration::from_secs(3);

/// A client of a station, that wrote `first`, which is stable, then `kept` without a session, and then what `goes_on` says, the last of
/// which nobody has: it was put back to when it had written `kept`, and brings that to the station. Then the home hears of it all.
fn put_back_after_kept(goes_on: impl FnOnce(&mut Stage)) -> Stage {
    let mut world = World::new();
    let (station, writer) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, writer, station);
    let file = world.create(writer, ROOT, "film");
    let mut stage = Stage { world, station, writer, file };
    stage.write("first");
    assert_eq!(stage.world.wait(writer, Level::Stable), Ok(Answer::Reached));
    stage.part();
    stage.write("kept");
    let copy = stage.world.snapshot(writer);
    goes_on(&mut stage);
    stage.part();
    stage.write("last");
    let line = stage.world.connect(writer, station);
    stage.world.hold_pushes(line, true);
    stage.world.pass(PAUSE);
    stage.part();
    stage.world.hosts[writer].chunks.remove(&big("last").root().unwrap());
    stage.world.restore(writer, copy, 9);
    rejoin(&mut stage.world, &[(writer, station)]);
    assert!(stage.world.hosts[station].chunks.contains(&big("kept").root().unwrap()), "it brings what its copy has");
    rejoin(&mut stage.world, &[(station, HOME)]);
    stage.world.pass(ASKED);
    assert!(is_declared(&stage.world), "nobody has the newest bytes");
    assert_eq!(stage.world.wait(writer, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].replica.ledger().unwrap().home_lacks.is_nothing());
    stage
}

struct Stage {
    world: World,
    station: usize,
    writer: usize,
    file: FileId,
}

impl Stage {
    fn write(&mut self, text: &str) {
        self.world.store(self.writer, self.file, big(text));
        self.world.pass(PAUSE);
    }

    /// Nobody is connected.
    fn part(&mut self) {
        for host in [self.writer, self.station] {
            if self.world.has_session(host) {
                let line = self.world.line_of(host);
                self.world.close(line);
            }
        }
    }

    fn assert_shown(&self, text: &str) {
        let inode = self.world.hosts[HOME].replica.inode(self.file).unwrap().unwrap();
        assert_eq!(inode.content, big(text));
        assert!(self.world.can_read(HOME, self.file, &big(text)));
    }
}

/// Proves [S-losses]. Seed 178072086: the home had heard of its record without its contents, and had the station let these go; what was
/// shown in the end was older than what had been safe.
#[test]
fn what_was_left_out_and_came_after_all_is_the_last_whole_content() {
    put_back_after_kept(|_| {}).assert_shown("kept");
}

#[test]
fn what_was_left_out_and_came_after_all_is_older_than_what_is_whole() {
    let stage = put_back_after_kept(|stage| {
        rejoin(&mut stage.world, &[(stage.station, HOME), (stage.writer, stage.station)]);
        stage.write("newer");
        assert_eq!(stage.world.wait(stage.writer, Level::Stable), Ok(Answer::Reached));
    });
    stage.assert_shown("newer");
}

/// Proves [S-losses]. Seed 180112971: the same of a client that accounts for it when it comes, at the home itself or at a station that the
/// home has told of all; and whether a mark speaks of it or not, since what came before it is not at the home.
#[test]
fn what_was_left_out_is_taken_from_who_accounts_for_it() {
    for (has_station, is_marked) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new();
        let (station, writer) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
        stay_connected(&mut world, station, HOME);
        let parent = if has_station { station } else { HOME };
        stay_connected(&mut world, writer, parent);
        let (file, other) = (world.create(writer, ROOT, "film"), world.create(writer, ROOT, "other"));
        let mut stage = Stage { world, station: writer, writer, file };
        stage.write("first");
        assert_eq!(stage.world.wait(writer, Level::Stable), Ok(Answer::Reached));
        stage.part();
        if !is_marked {
            stage.world.store(writer, other, big("other"));
        }
        stage.write("older");
        stage.write("kept");
        let copy = stage.world.snapshot(writer);
        stage.write("last");
        let line = stage.world.connect(writer, parent);
        stage.world.hold_pushes(line, true);
        stage.world.pass(PAUSE);
        stage.part();
        stage.world.hosts[writer].chunks.remove(&big("last").root().unwrap());
        stage.world.restore(writer, copy, 9);
        rejoin(&mut stage.world, &[(writer, parent)]);
        let which = format!("has a station: {has_station}, marked: {is_marked}");
        assert_eq!(stage.world.wait(writer, Level::Safe), Ok(Answer::Reached), "{which}");
        assert!(stage.world.hosts[parent].chunks.contains(&big("kept").root().unwrap()), "{which}");
        stage.world.pass(ASKED);
        assert!(is_declared(&stage.world), "nobody has the newest bytes: {which}");
        stage.assert_shown("kept");
        assert_eq!(stage.world.wait(writer, Level::Stable), Ok(Answer::Reached), "{which}");
        for host in [HOME, station, writer] {
            assert!(stage.world.hosts[host].replica.ledger().unwrap().home_lacks.is_nothing(), "{host}: {which}");
        }
    }
}
