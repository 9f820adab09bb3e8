//! What a station does that takes over the state of a home which was put back: what goes, what is done again, what waits.

use super::forking::{assert_all_there, named, stay_connected, write};
use super::world::{HOME, World, big, name, small};
use crate::{Input, Neighbour, Output, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Change, Level};
use wayfs_types::{AttrChange, CommitNumber, FileId, Life, OriginId, RecordId, WallTime};
use wayfs_wire::{Down, Message, Stamp, Up, decode, encode};

const ROOT: FileId = FileId::ROOT;

/// A home in its first life, a station, and two clients of it.
struct Volume {
    world: World,
    station: usize,
    ann: usize,
    bob: usize,
}

impl Volume {
    fn new() -> Self {
        let mut world = World::new();
        world.restore(HOME, crate::testing::MemoryStore::new(), 3);
        world.settle();
        let station = world.add(Role::Station, "st@s");
        let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        stay_connected(&mut world, station, HOME);
        stay_connected(&mut world, ann, station);
        stay_connected(&mut world, bob, station);
        Self { world, station, ann, bob }
    }

    fn calm(&mut self) {
        self.world.pass(Duration::from_secs(3));
    }

    fn lose_home(&mut self) {
        let line = self.world.line_of(self.station);
        self.world.close(line);
    }

    /// Sessions begin again whenever they end, for as long as it takes.
    fn come_back(&mut self) {
        let Self { world, station, ann, bob } = self;
        for _ in 0..8 {
            for (child, parent) in [(*station, HOME), (*ann, *station), (*bob, *station)] {
                if !world.has_session(child) {
                    world.connect(child, parent);
                }
            }
            world.pass(Duration::from_secs(3));
        }
    }

    fn assert_names(&mut self, names: &[&str]) {
        for host in [HOME, self.station, self.ann, self.bob] {
            assert_eq!(self.world.names(host, ROOT).unwrap(), names, "host {host}");
        }
        self.world.check_tree(HOME);
        self.world.check_tree(self.station);
        self.world.assert_agrees(self.station);
    }

    fn unlink(&mut self, host: usize, text: &str) {
        self.world.change(host, Change::Unlink { parent: ROOT, name: name(text) }).unwrap();
    }
}

/// [S-home-put-back] What was removed, moved and changed since the copy was made is done again.
#[test]
fn removals_renames_and_attributes_that_the_home_lost_come_back() {
    let mut volume = Volume::new();
    let ann = volume.ann;
    let mut files = Vec::new();
    for text in ["gone", "here", "over", "moved", "under", "twice"] {
        let file = volume.world.create(ann, ROOT, text);
        volume.world.store(ann, file, small(text));
        files.push(file);
    }
    let (old, inner) = (volume.world.mkdir(ann, ROOT, "old"), volume.world.mkdir(ann, ROOT, "outer"));
    volume.world.create(ann, old, "in-old");
    volume.calm();
    let copy = volume.world.snapshot(HOME);
    volume.unlink(ann, "gone");
    // Its name is another's now.
    let gone = volume.world.create(ann, ROOT, "gone");
    volume.world.store(ann, gone, small("new"));
    volume.world.rename(ann, (ROOT, "here"), (ROOT, "over")).unwrap();
    volume.world.rename(ann, (ROOT, "moved"), (inner, "moved")).unwrap();
    let made = volume.world.mkdir(ann, inner, "made");
    volume.world.rename(ann, (ROOT, "under"), (made, "under")).unwrap();
    volume.world.change(ann, Change::Link { file: files[5], parent: made, name: name("link") }).unwrap();
    volume.world.change(ann, Change::Unlink { parent: old, name: name("in-old") }).unwrap();
    volume.world.change(ann, Change::Rmdir { parent: ROOT, name: name("old") }).unwrap();
    let change = AttrChange { mode: Some(0o600), ..AttrChange::default() };
    volume.world.change(ann, Change::SetAttr { file: files[5], change }).unwrap();
    volume.calm();
    volume.world.restore(HOME, copy, 4);
    volume.come_back();
    volume.assert_names(&["gone", "outer", "over", "twice"]);
    let world = &mut volume.world;
    assert_eq!(world.lookup(HOME, ROOT, "gone").unwrap().1.content, small("new"));
    assert_eq!(world.lookup(HOME, ROOT, "over").unwrap().1.content, small("here"));
    assert_eq!(world.lookup(HOME, inner, "moved").unwrap().1.content, small("moved"));
    let (made, _) = world.lookup(HOME, inner, "made").unwrap();
    assert_eq!(world.names(HOME, made).unwrap(), ["link", "under"]);
    let (twice, inode) = world.lookup(HOME, ROOT, "twice").unwrap();
    assert_eq!((inode.mode, inode.places.len(), twice), (0o600, 2, files[5]));
    assert_eq!(world.hosts[HOME].replica.conflicts(None, 10).unwrap(), [], "nothing met anything");
}

/// What somebody did at the home after it was put back stays, whatever the station had there.
#[test]
fn what_was_done_since_the_home_was_put_back_stays() {
    let mut volume = Volume::new();
    let (ann, bob) = (volume.ann, volume.bob);
    write(&mut volume.world, ann, &["a".into(), "b".into(), "c".into()]);
    volume.world.names(bob, ROOT).unwrap();
    volume.calm();
    let copy = volume.world.snapshot(HOME);
    volume.unlink(ann, "a");
    volume.world.rename(ann, (ROOT, "b"), (ROOT, "b-of-ann")).unwrap();
    volume.calm();
    volume.lose_home();
    volume.world.restore(HOME, copy, 4);
    let line = volume.world.line_of(bob);
    volume.world.close(line);
    let cid = volume.world.add(Role::Client, "cid@c");
    stay_connected(&mut volume.world, cid, HOME);
    let (a, _) = volume.world.lookup(cid, ROOT, "a").unwrap();
    volume.world.store(cid, a, small("since"));
    volume.world.rename(cid, (ROOT, "b"), (ROOT, "b-of-cid")).unwrap();
    volume.calm();
    volume.come_back();
    volume.assert_names(&["a", "b-of-cid", "c"]);
    assert_eq!(volume.world.lookup(HOME, ROOT, "a").unwrap().1.content, small("since"));
}

/// Seed 151 of `home-back`: a name that a station's clients had worked on upon what the home lost stayed at the station.
#[test]
fn a_name_that_the_home_lost_and_a_client_moved_meanwhile_goes_at_the_station() {
    let mut volume = Volume::new();
    let (ann, bob) = (volume.ann, volume.bob);
    write(&mut volume.world, ann, &["first".into()]);
    volume.calm();
    let copy = volume.world.snapshot(HOME);
    volume.world.rename(ann, (ROOT, "first"), (ROOT, "second")).unwrap();
    volume.calm();
    volume.lose_home();
    volume.world.rename(bob, (ROOT, "second"), (ROOT, "third")).unwrap();
    volume.calm();
    volume.world.restore(HOME, copy, 4);
    volume.come_back();
    volume.assert_names(&["third"]);
}

/// Seed 9602975 of `home-back`: a client had removed a file, and nobody had confirmed that, when the station took over what the home
/// named, that name among it. The station took the name for one that the home had lost, and lacked it for good once somebody had
/// written to the file: then it stays.
#[test]
fn a_name_that_the_home_has_and_a_client_removed_meanwhile_stays_with_what_was_written() {
    let mut volume = Volume::new();
    let (station, ann, bob) = (volume.station, volume.ann, volume.bob);
    let cid = volume.world.add(Role::Client, "cid@c");
    stay_connected(&mut volume.world, cid, HOME);
    write(&mut volume.world, ann, &["f".into()]);
    volume.calm();
    let (file, _) = volume.world.lookup(cid, ROOT, "f").unwrap();
    let copy = volume.world.snapshot(HOME);
    write(&mut volume.world, ann, &["lost".into()]);
    volume.calm();
    volume.lose_home();
    volume.world.lookup(bob, ROOT, "f").unwrap();
    volume.unlink(bob, "f");
    volume.calm();
    volume.world.restore(HOME, copy, 4);
    let is_over = |event: &Output| matches!(event, Output::Recovered { .. });
    while !volume.world.hosts[station].events.iter().any(is_over) {
        if !volume.world.has_session(station) {
            volume.world.connect(station, HOME);
        }
        volume.world.step();
    }
    volume.lose_home();
    stay_connected(&mut volume.world, cid, HOME);
    volume.world.store(cid, file, small("since"));
    volume.calm();
    volume.come_back();
    volume.assert_names(&["f", "lost"]);
    assert_eq!(volume.world.lookup(station, ROOT, "f").unwrap().1.content, small("since"));
}

#[test]
fn names_that_changed_places_since_the_copy_change_them_again() {
    let mut volume = Volume::new();
    let ann = volume.ann;
    write(&mut volume.world, ann, &["a".into(), "b".into(), "c".into()]);
    volume.calm();
    let files = ["a", "b", "c"].map(|name| volume.world.lookup(ann, ROOT, name).unwrap().0);
    let copy = volume.world.snapshot(HOME);
    for (one, other) in [("a", "b"), ("b", "c")] {
        volume.world.exchange(ann, (ROOT, one), (ROOT, other)).unwrap();
    }
    volume.calm();
    volume.lose_home();
    volume.world.restore(HOME, copy, 4);
    volume.come_back();
    volume.assert_names(&["a", "b", "c"]);
    let now = ["a", "b", "c"].map(|name| volume.world.lookup(HOME, ROOT, name).unwrap().0);
    assert_eq!(now, [files[1], files[2], files[0]]);
}

/// Seeds 127 and 69 of `home-back`: the station sent records of a member of whom the home had forgotten.
#[test]
fn records_of_a_member_that_the_home_forgot_come_by_the_station() {
    let mut volume = Volume::new();
    let copy = volume.world.snapshot(HOME);
    let cid = volume.world.add(Role::Client, "cid@c");
    volume.calm();
    stay_connected(&mut volume.world, cid, volume.station);
    volume.lose_home();
    write(&mut volume.world, cid, &named("cid", 3));
    volume.calm();
    let line = volume.world.line_of(cid);
    volume.world.close(line);
    volume.world.restore(HOME, copy, 4);
    volume.come_back();
    assert_all_there(&mut volume.world, HOME, &named("cid", 3));
    let is_refused = |event: &Output| matches!(event, Output::Disconnect { reason, .. } if reason.contains("not known") || reason.contains("left out"));
    for host in [HOME, volume.station] {
        assert!(!volume.world.hosts[host].events.iter().any(is_refused), "{:?}", volume.world.hosts[host].events);
    }
}

/// Seed 1829 of `home-back`: one cut confirms the records of one member, and shows that those of another are about what is lost.
#[test]
fn records_are_confirmed_and_written_again_by_one_cut() {
    let mut volume = Volume::new();
    let (ann, bob) = (volume.ann, volume.bob);
    let cid = volume.world.add(Role::Client, "cid@c");
    volume.calm();
    let line = stay_connected(&mut volume.world, cid, volume.station);
    let copy = volume.world.snapshot(HOME);
    write(&mut volume.world, ann, &["lost".into()]);
    volume.calm();
    volume.lose_home();
    volume.world.rename(bob, (ROOT, "lost"), (ROOT, "renamed")).unwrap();
    write(&mut volume.world, cid, &named("cid", 2));
    volume.calm();
    volume.world.close(line);
    volume.world.restore(HOME, copy, 4);
    // The home has his records by another way when the station comes.
    stay_connected(&mut volume.world, cid, HOME);
    volume.calm();
    assert_all_there(&mut volume.world, HOME, &named("cid", 2));
    volume.come_back();
    volume.assert_names(&["cid-0", "cid-1", "renamed"]);
}

/// Seed 9801692: a station told a home that was put back, before it had taken over its state, that it has contents of a record which the
/// home had forgotten, and let go of that name then. Their writer came with the record, by another way, and the home took its
/// word for the contents, which nobody has by this name.
#[test]
fn a_station_names_no_contents_before_it_knows_what_the_home_forgot() {
    let mut volume = Volume::new();
    let (station, ann) = (volume.station, volume.ann);
    let film = volume.world.create(ann, ROOT, "film");
    let version = volume.world.store(ann, film, big("film"));
    volume.calm();
    assert!(volume.world.hosts[station].chunks.contains(&big("film").root().unwrap()));
    assert_eq!(volume.world.hosts[station].replica.holder(film, version), Ok(crate::Holder::Here));
    volume.lose_home();
    let mut said = |input: Input| {
        volume.world.input(station, input);
        volume.world.settle();
        haves(std::mem::take(&mut volume.world.hosts[station].events))
    };
    let down = |down: Down| Input::Message { peer: STRANGER, bytes: encode(&Message::Down(down)) };
    assert_eq!(said(Input::PeerUp { peer: STRANGER, neighbour: Neighbour::Parent }), []);
    let (stamp, current) = (Stamp { origin: OriginId::GENESIS, born: WallTime::EPOCH, life: Life(4) }, CommitNumber(9));
    let (applied, ends) = (Vec::new(), Vec::new());
    let welcome = Down::Welcome { stamp, current, resume: false, applied, ends, went_back: true };
    assert_eq!(said(down(welcome)), [], "it does not know yet what was forgotten");
    let whole = Down::Images {
        serial: wayfs_wire::FrameSerial(1),
        through: current,
        more: false,
        images: Vec::new(),
        omitted: Vec::new(),
    };
    let named = said(down(whole));
    assert!(!named.is_empty() && !named.contains(&version), "by its new name only: {named:?}");
}

const STRANGER: PeerId = PeerId(9999);

/// Of which versions a child told this parent that it has their contents.
fn haves(events: Vec<Output>) -> Vec<RecordId> {
    let sent = events.into_iter().filter_map(|event| match event {
        Output::Send { peer: STRANGER, bytes } => decode(&bytes).ok(),
        _ => None,
    });
    let told =
        sent.filter_map(|message| if let Message::Up(Up::Have { versions }) = message { Some(versions) } else { None });
    told.flatten().collect()
}

/// What the station wrote again is not at the home yet when that is put back once more, to before what it is about.
#[test]
fn what_a_station_wrote_again_is_written_again_after_what_it_is_about() {
    let mut volume = Volume::new();
    let ann = volume.ann;
    volume.calm();
    let before = volume.world.snapshot(HOME);
    let directory = volume.world.mkdir(ann, ROOT, "d");
    volume.calm();
    let copy = volume.world.snapshot(HOME);
    let file = volume.world.create(ann, directory, "f");
    volume.world.store(ann, file, small("f"));
    volume.calm();
    for host in [volume.ann, volume.bob] {
        let line = volume.world.line_of(host);
        volume.world.close(line);
    }
    volume.world.restore(HOME, copy, 4);
    // What the station writes again waits for its period, and then the home is away.
    let station = volume.station;
    let is_over = |event: &Output| matches!(event, Output::Recovered { .. });
    while !volume.world.hosts[station].events.iter().any(is_over) {
        if !volume.world.has_session(station) {
            volume.world.connect(station, HOME);
        }
        volume.world.step();
    }
    volume.lose_home();
    volume.world.restore(HOME, before, 5);
    for _ in 0..6 {
        if !volume.world.has_session(station) {
            volume.world.connect(station, HOME);
        }
        volume.calm();
    }
    let (directory, _) = volume.world.lookup(HOME, ROOT, "d").unwrap();
    assert_eq!(volume.world.names(HOME, directory).unwrap(), ["f"]);
    assert_eq!(volume.world.names(HOME, ROOT).unwrap(), ["d"], "nothing is without its directory");
    assert_eq!(volume.world.lookup(HOME, directory, "f").unwrap().1.content, small("f"));
    volume.world.assert_agrees(station);
}

/// Seed 26 of `home-back`: a client's log keeps records until their contents are safe, and the home still has them.
#[test]
fn a_client_does_not_write_again_what_the_home_still_has() {
    let mut volume = Volume::new();
    let ann = volume.ann;
    let line = volume.world.line_of(ann);
    volume.world.close(line);
    let line = stay_connected(&mut volume.world, ann, HOME);
    volume.world.hold_pushes(line, true);
    let held = volume.world.create(ann, ROOT, "held");
    volume.world.store(ann, held, big("held"));
    let file = volume.world.create(ann, ROOT, "f");
    volume.world.store(ann, file, small("first"));
    volume.calm();
    let cid = volume.world.add(Role::Client, "cid@c");
    stay_connected(&mut volume.world, cid, HOME);
    volume.world.lookup(cid, ROOT, "f").unwrap();
    volume.world.store(cid, file, small("second"));
    volume.calm();
    let copy = volume.world.snapshot(HOME);
    write(&mut volume.world, ann, &["lost".into()]);
    volume.calm();
    volume.world.restore(HOME, copy, 4);
    for _ in 0..8 {
        for child in [ann, cid, volume.station] {
            if !volume.world.has_session(child) {
                volume.world.connect(child, HOME);
            }
        }
        volume.calm();
    }
    assert_eq!(volume.world.names(HOME, ROOT).unwrap(), ["f", "held", "lost"]);
    assert_eq!(volume.world.lookup(HOME, ROOT, "f").unwrap().1.content, small("second"));
    assert!(volume.world.hosts[HOME].chunks.contains(&big("held").root().unwrap()), "its contents came all the same");
    assert!(volume.world.wait(ann, Level::Stable).is_ok());
}

/// A client that is alone with its home makes something, which the home loses; meanwhile it stores into it and removes it.
fn removes_what_the_home_loses(is_safe: bool) {
    let mut volume = Volume::new();
    let ann = volume.ann;
    let line = volume.world.line_of(ann);
    volume.world.close(line);
    let line = stay_connected(&mut volume.world, ann, HOME);
    let copy = volume.world.snapshot(HOME);
    if !is_safe {
        // What is not safe keeps all that comes after it in the log.
        volume.world.hold_pushes(line, true);
        let held = volume.world.create(ann, ROOT, "held");
        volume.world.store(ann, held, big("held"));
    }
    let file = volume.world.create(ann, ROOT, "f");
    volume.calm();
    let line = volume.world.line_of(ann);
    volume.world.close(line);
    volume.world.store(ann, file, small("stored"));
    volume.unlink(ann, "f");
    volume.world.restore(HOME, copy, 4);
    let left: &[&str] = if is_safe { &[] } else { &["held"] };
    let goes_on = |event: &Output| matches!(event, Output::Renewed { .. });
    while !volume.world.hosts[ann].events.iter().any(goes_on) {
        if !volume.world.has_session(ann) {
            volume.world.connect(ann, HOME);
        }
        volume.world.pass(Duration::from_millis(20));
    }
    if !volume.world.has_session(ann) {
        assert!(volume.world.lookup(ann, ROOT, "f").is_err(), "before the next session");
    }
    for _ in 0..8 {
        if !volume.world.has_session(ann) {
            volume.world.connect(ann, HOME);
        }
        volume.calm();
    }
    for host in [HOME, ann] {
        assert_eq!(volume.world.names(host, ROOT).unwrap(), left, "host {host}");
    }
}

#[test]
fn what_was_to_be_removed_upon_a_lost_file_is_removed() {
    removes_what_the_home_loses(true);
}

/// Seed 560 of `home-back`: a log that had all of a file's life showed the file as the lost home had it.
#[test]
fn a_lost_file_that_was_made_and_removed_in_the_log_is_not_shown() {
    removes_what_the_home_loses(false);
}

/// Seed 30060540 of `home-back` with `station-back`: the home told of a name that a record of ours had taken away again already, in a cut
/// that changed nothing in the view. What it says later with its whole state takes that back, if it does not name it.
#[test]
fn a_name_that_the_home_told_of_in_passing_does_not_come_back() {
    let mut volume = Volume::new();
    let (ann, station) = (volume.ann, volume.station);
    volume.world.create(ann, ROOT, "first");
    volume.calm();
    let up = volume.world.line_of(station);
    volume.world.stall(up, true);
    volume.world.create(ann, ROOT, "old");
    volume.calm();
    // The home takes that alone, and the station hears of it when the name is another already.
    let is_there = |world: &mut World| world.lookup(HOME, ROOT, "old").is_ok();
    while !is_there(&mut volume.world) {
        volume.world.step_up(up, 1);
        volume.world.pass(Duration::from_millis(10));
    }
    volume.world.rename(ann, (ROOT, "old"), (ROOT, "new")).unwrap();
    volume.calm();
    volume.world.step_down(up);
    volume.calm();
    let copy = volume.world.snapshot(station);
    // All have passed that it went, so nobody keeps a trace of it, when the station is put back to before it heard.
    volume.world.stall(up, false);
    volume.calm();
    assert!(!is_there(&mut volume.world));
    volume.world.hosts[HOME].replica.keep_traces(0);
    for text in ["a", "b", "c"] {
        volume.world.create(ann, ROOT, text);
        volume.calm();
    }
    volume.lose_home();
    volume.world.restore(station, copy, 7);
    volume.come_back();
    volume.assert_names(&["a", "b", "c", "first", "new"]);
}
