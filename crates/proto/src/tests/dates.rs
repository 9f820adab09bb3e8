//! The time that a program gave a directory, while the parent tells what it made of the records before.
//!
//! `rsync` sets it when everything is in the directory. What the parent knows of it then is the time of the last file that was made
//! there, and that is later.

use super::world::{HOME, World, name};
use crate::{PeerId, Role};
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{AttrChange, FileId, WallTime};

/// When what is copied was changed where it comes from.
const THEN: WallTime = WallTime::from_nanos(1_000_000_000_000_000_000);

/// A writer with a directory that it copies files into, and somebody else who looks there.
struct Copying {
    world: World,
    writer: usize,
    other: usize,
    /// Where the writer's records go: on this line each message waits for the test.
    line: PeerId,
    directory: FileId,
}

impl Copying {
    /// Both at one parent: the home, or a station, whose own line to the home it is then that waits.
    fn at(role: Role) -> Self {
        let mut world = World::new();
        let parent = if role == Role::Home { HOME } else { world.add(role, "s@s") };
        if parent != HOME {
            world.connect(parent, HOME);
            world.settle();
        }
        let (writer, other) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        world.connect(writer, parent);
        world.connect(other, parent);
        world.pass(Duration::from_secs(2));
        let line = world.line_of(if parent == HOME { writer } else { parent });
        for host in [writer, parent] {
            world.configure(host, |config| config.records_per_message = 1);
        }
        let directory = world.mkdir(writer, FileId::ROOT, "d");
        world.pass(Duration::from_secs(2));
        world.lookup(other, FileId::ROOT, "d").unwrap();
        world.names(other, directory).unwrap();
        world.pass(Duration::from_secs(2));
        Self { world, writer, other, line, directory }
    }

    fn make(&mut self, host: usize, text: &str) {
        self.world.now = self.world.now + Duration::from_millis(10);
        self.world.create(host, self.directory, text);
    }

    fn set(&mut self, change: AttrChange) {
        self.world.now = self.world.now + Duration::from_millis(10);
        self.world.change(self.writer, Change::SetAttr { file: self.directory, change }).unwrap();
    }

    fn set_time(&mut self) {
        self.set(AttrChange { mtime: Some(THEN), ..AttrChange::default() });
    }

    fn time_at(&self, host: usize) -> WallTime {
        self.world.hosts[host].replica.core.state.inode_meant(self.directory).unwrap().unwrap().mtime
    }

    /// Lets one message after the other arrive on the line that waits, and looks at the time after each.
    fn tell(&mut self, mut look: impl FnMut(&Self)) {
        for _ in 0..200 {
            if self.world.waits_up(self.line) {
                self.world.step_up(self.line, 1);
            }
            self.world.pass(Duration::from_millis(10));
            self.world.step_down(self.line);
            self.world.settle();
            look(self);
        }
        self.world.stall(self.line, false);
        self.world.pass(Duration::from_secs(5));
    }

    /// The time that was set is what the writer sees all the while, and what all see in the end.
    fn assert_stays(mut self) {
        self.tell(|at| assert_eq!(at.time_at(at.writer), THEN));
        for host in [HOME, self.writer, self.other] {
            assert_eq!(self.time_at(host), THEN, "host {host}");
        }
    }
}

#[test]
fn a_time_stays_set_while_the_parent_tells_of_what_was_made_before() {
    let mut copying = Copying::at(Role::Home);
    copying.world.stall(copying.line, true);
    ["f", "g", "h"].into_iter().for_each(|text| copying.make(copying.writer, text));
    copying.set_time();
    copying.assert_stays();
}

#[test]
fn a_time_stays_set_with_other_attributes_that_are_set_after_it() {
    let mut copying = Copying::at(Role::Home);
    copying.world.stall(copying.line, true);
    copying.make(copying.writer, "f");
    copying.set_time();
    copying.set(AttrChange { mode: Some(0o700), ..AttrChange::default() });
    copying.assert_stays();
}

#[test]
fn a_time_stays_set_while_the_parent_tells_of_what_another_made() {
    let mut copying = Copying::at(Role::Home);
    copying.world.stall(copying.line, true);
    copying.make(copying.other, "of-another");
    copying.make(copying.writer, "f");
    copying.set_time();
    copying.assert_stays();
}

/// Whoever is below a station sees what that shows: it has the record, and the home has not.
#[test]
fn a_time_stays_set_at_a_station_while_the_home_tells_of_what_was_made_before() {
    let mut copying = Copying::at(Role::Station);
    copying.world.stall(copying.line, true);
    ["f", "g", "h"].into_iter().for_each(|text| copying.make(copying.writer, text));
    copying.set_time();
    copying.world.pass(Duration::from_millis(10));
    assert_eq!(copying.time_at(copying.other), THEN);
    copying.tell(|at| assert_eq!(at.time_at(at.other), THEN));
    assert_eq!(copying.time_at(HOME), THEN);
}

#[test]
fn a_time_stays_set_after_a_restart() {
    let mut copying = Copying::at(Role::Home);
    copying.world.stall(copying.line, true);
    ["f", "g", "h"].into_iter().for_each(|text| copying.make(copying.writer, text));
    copying.set_time();
    copying.world.pass(Duration::from_secs(1));
    copying.world.crash(copying.writer, 0);
    copying.line = copying.world.connect(copying.writer, HOME);
    copying.world.stall(copying.line, true);
    copying.assert_stays();
}

/// The record that set it is cancelled when a session begins: the one of the other attributes sets the time, too, and that after
/// what was made between them (an exception that cancellation makes: see `Canceller`).
#[test]
fn a_time_stays_set_by_the_record_that_took_the_place_of_the_first() {
    let mut copying = Copying::at(Role::Home);
    copying.world.close(copying.line);
    copying.make(copying.writer, "f");
    copying.set_time();
    copying.make(copying.writer, "g");
    copying.set(AttrChange { mode: Some(0o700), ..AttrChange::default() });
    copying.line = copying.world.connect(copying.writer, HOME);
    copying.world.stall(copying.line, true);
    copying.assert_stays();
}

/// The record that sets it names the directory that its writer made, and means the other from the moment on at which they become one.
#[test]
fn a_time_stays_set_in_a_directory_that_becomes_anothers() {
    let mut copying = Copying::at(Role::Home);
    copying.world.names(copying.writer, FileId::ROOT).unwrap();
    copying.world.close(copying.line);
    let others = copying.world.mkdir(copying.other, FileId::ROOT, "e");
    copying.directory = copying.world.mkdir(copying.writer, FileId::ROOT, "e");
    ["f", "g", "h"].into_iter().for_each(|text| copying.make(copying.writer, text));
    copying.set_time();
    copying.line = copying.world.connect(copying.writer, HOME);
    copying.world.stall(copying.line, true);
    copying.tell(|at| assert_eq!(at.time_at(at.writer), THEN));
    assert_eq!(copying.time_at(HOME), THEN);
    copying.directory = others;
    assert_eq!(copying.time_at(copying.other), THEN);
}

/// What is made after that changes the time again, for good.
#[test]
fn a_time_that_was_set_gives_way_to_what_is_made_later() {
    let mut copying = Copying::at(Role::Home);
    copying.world.stall(copying.line, true);
    copying.make(copying.writer, "f");
    copying.set_time();
    copying.make(copying.writer, "g");
    let made = copying.time_at(copying.writer);
    assert!(made > THEN);
    copying.tell(|at| assert_eq!(at.time_at(at.writer), made));
    assert_eq!(copying.time_at(HOME), made);
    let later = Change::Unlink { parent: copying.directory, name: name("g") };
    copying.world.stall(copying.line, true);
    copying.set_time();
    copying.world.now = copying.world.now + Duration::from_millis(10);
    copying.world.change(copying.other, later).unwrap();
    copying.tell(|at| assert!(at.time_at(at.writer) >= THEN));
    assert_eq!(copying.time_at(HOME), copying.time_at(copying.writer));
}

/// The count of subdirectories lies beside the times: what the parent tells of it has counted already what the view has, too.
#[test]
fn a_subdirectory_is_counted_once_while_the_parent_tells_of_it() {
    let mut copying = Copying::at(Role::Home);
    let directory = copying.directory;
    copying.world.mkdir(copying.writer, directory, "old");
    assert_eq!(copying.world.names(copying.writer, FileId::ROOT).unwrap(), ["d"]);
    copying.world.pass(Duration::from_secs(2));
    copying.world.stall(copying.line, true);
    copying.world.mkdir(copying.other, directory, "of-another");
    copying.world.mkdir(copying.writer, directory, "x");
    copying.make(copying.writer, "f");
    copying.world.rename(copying.writer, (directory, "old"), (FileId::ROOT, "old")).unwrap();
    copying.make(copying.writer, "g");
    let count = |at: &Copying, file| at.world.hosts[at.writer].replica.inode(file).unwrap().unwrap().subdirectories;
    assert_eq!((count(&copying, directory), count(&copying, FileId::ROOT)), (1, 2));
    let mut told = Vec::new();
    copying.tell(|at| told.push((count(at, directory), count(at, FileId::ROOT))));
    told.dedup();
    assert_eq!(told, [(2, 2)], "that of another comes with the first answer");
    copying.world.assert_agrees(copying.writer);
}
