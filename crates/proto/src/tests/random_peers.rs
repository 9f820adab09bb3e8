//! Whole sessions of messages that are well-formed and mean nothing, against each role from below and from above: nobody
//! panics, nobody waits for ever, the tree stays a tree, and honest peers are served as ever afterwards.

use super::arbitrary::Dice;
use super::liars::hello;
use super::world::{HOME, World, big, small};
#[cfg(fuzzing)]
use crate::Replica;
use crate::{Input, Neighbour, Output, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::Request;
#[cfg(fuzzing)]
use wayfs_types::request::RequestId;
use wayfs_types::{Admitted, CommitNumber, FileId, Key, Life, OriginId, WallTime};
#[cfg(fuzzing)]
use wayfs_types::{Batch, MetaStore as _};
use wayfs_wire::{Down, Message, Stamp, Up, encode};

const LIAR: PeerId = PeerId(u64::MAX);
/// Messages in one world.
const MESSAGES: u32 = 120;

/// Worlds of each kind; `WAYFS_RANDOM_PEERS=COUNT` runs more.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("WAYFS_RANDOM_PEERS").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    1..1 + count
}

/// A home, a station, a client of each, and some files.
struct Stage {
    world: World,
    station: usize,
    far: usize,
    near: usize,
}

impl Stage {
    fn new() -> Self {
        let mut world = World::new();
        let station = world.add(Role::Station, "st@s");
        let (far, near) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        world.connect(station, HOME);
        world.settle();
        world.connect(far, station);
        world.connect(near, HOME);
        world.settle();
        let directory = world.mkdir(far, FileId::ROOT, "f0");
        for (at, text) in [(FileId::ROOT, "f1"), (directory, "f2"), (directory, "f3")] {
            let file = world.create(far, at, text);
            world.store(far, file, small(text));
        }
        world.settle();
        world.names(near, FileId::ROOT).unwrap();
        Self { world, station, far, near }
    }

    /// Numbers of files, records and origins that are there.
    fn known(&self) -> Vec<u64> {
        let tree = self.world.tree(HOME);
        let files = tree.keys().filter_map(|key| match key {
            Key::Inode(file) => Some(file.inode_number()),
            _ => None,
        });
        let origins = self.world.hosts.iter().map(|host| u64::from(host.origin.raw()));
        files.chain(origins).chain([FileId::ROOT.inode_number()]).collect()
    }

    /// Gives something to a replica; tells whether it ended the liar's session.
    fn give(&mut self, host: usize, input: Input) -> bool {
        let (now, wall) = (self.world.now, self.world.wall());
        self.world.hosts[host].replica.handle(now, wall, input);
        let mut is_over = false;
        while let Some(output) = self.world.hosts[host].replica.poll_output() {
            match output {
                Output::Send { peer: LIAR, .. } => {}
                Output::Disconnect { peer: LIAR, .. } => is_over = true,
                Output::Failed { reason } => panic!("host {host} failed: {reason}"),
                // A liar's tree has contents that nobody has.
                Output::Push { .. } | Output::Seek { .. } => {}
                other => self.world.output(host, other),
            }
        }
        is_over
    }

    /// Time passes for one host alone, in small steps: its session with the liar lives on.
    fn pass(&mut self, host: usize, span: Duration) {
        self.world.now = self.world.now + span;
        self.give(host, Input::Tick);
    }

    /// Honest peers go on: what they write arrives, and everybody shows one tree.
    fn goes_on(mut self) {
        for (child, parent) in [(self.station, HOME), (self.far, self.station), (self.near, HOME)] {
            if !self.world.has_session(child) {
                self.world.connect(child, parent);
            }
        }
        self.world.pass(Duration::from_secs(90));
        self.world.check_tree(HOME);
        for host in [self.far, self.near] {
            if !self.world.has_session(host) {
                let parent = if host == self.far { self.station } else { HOME };
                self.world.connect(host, parent);
            }
            self.world.pass(Duration::from_secs(30));
            let file = self.world.create(host, FileId::ROOT, &format!("honest-{host}"));
            self.world.store(host, file, big("bytes"));
            self.world.pass(Duration::from_secs(30));
            let there = self.world.hosts[HOME].replica.inode(file).unwrap();
            assert_eq!(there.map(|inode| inode.content.clone()), Some(big("bytes")), "what host {host} wrote");
        }
        for host in [self.station, self.far, self.near] {
            self.world.assert_agrees(host);
        }
        self.world.crash(HOME, 100_000);
        self.world.check_tree(HOME);
    }
}

fn up(stage: &mut Stage, dice: &mut Dice, host: usize, neighbour: &Neighbour) {
    let mut is_over = true;
    for _ in 0..MESSAGES {
        if dice.is_spent() {
            break;
        }
        if is_over {
            stage.give(host, Input::PeerUp { peer: LIAR, neighbour: neighbour.clone() });
            stage.give(host, said(Message::Up(hello(7))));
            stage.give(host, said(Message::Up(Up::Start)));
        }
        let message = Message::Up(dice.draw());
        is_over = stage.give(host, said(message));
        if !is_over && dice.below(8) == 0 {
            let span = Duration::from_millis(dice.below(400));
            stage.pass(host, span);
        }
        if is_over {
            stage.give(host, Input::PeerDown { peer: LIAR });
        }
    }
    stage.give(host, Input::PeerDown { peer: LIAR });
}

fn said(message: Message) -> Input {
    Input::Message { peer: LIAR, bytes: encode(&message) }
}

/// What a station or client of ours hears first from a parent that it never saw.
fn welcome(origin: OriginId) -> Message {
    let stamp = Stamp { origin, born: WallTime::from_nanos(77), life: Life::default() };
    Message::Down(Down::Welcome {
        stamp,
        current: CommitNumber(9),
        resume: false,
        applied: Vec::new(),
        ends: Vec::new(),
        went_back: false,
    })
}

fn down(stage: &mut Stage, dice: &mut Dice, host: usize) {
    let origin = OriginId::new(1).unwrap();
    let mut is_over = true;
    for _ in 0..MESSAGES {
        if dice.is_spent() {
            break;
        }
        if is_over {
            stage.give(host, Input::PeerUp { peer: LIAR, neighbour: Neighbour::Parent });
            is_over = stage.give(host, said(welcome(origin)));
        }
        if !is_over {
            let message = Message::Down(dice.draw());
            is_over = stage.give(host, said(message));
        }
        if is_over {
            stage.give(host, Input::PeerDown { peer: LIAR });
        } else if dice.below(8) == 0 {
            let span = Duration::from_millis(dice.below(400));
            stage.pass(host, span);
        }
    }
    stage.give(host, Input::PeerDown { peer: LIAR });
}

#[cfg(fuzzing)]
/// Changes in a store of which a replica is opened.
const CHANGES: u32 = 4;

#[cfg(fuzzing)]
/// Rows of a store are cut, altered, exchanged, removed: the replica says so, or goes on; nobody panics.
pub(crate) fn rows_change(dice: impl FnOnce(Vec<u64>) -> Dice) {
    let mut stage = Stage::new();
    let known = stage.known();
    let mut dice = dice(known.clone());
    let host = [HOME, stage.station, stage.far, stage.near][usize::try_from(dice.below(4)).unwrap()];
    let mut store = stage.world.snapshot(host);
    let rows = store.scan(&[], &[], usize::MAX).unwrap();
    if rows.is_empty() {
        return;
    }
    let mut batch = Batch::default();
    for _ in 0..1 + dice.below(u64::from(CHANGES)) {
        change_row(&mut dice, &rows, &mut batch);
    }
    store.commit(batch).unwrap();
    let config = stage.world.hosts[host].replica.config().clone();
    let Ok(mut replica) = Replica::open(config, store, stage.world.now) else { return };
    let files = known.into_iter().filter_map(|raw| FileId::from_inode_number(raw).ok());
    let mut inputs = vec![Input::Tick, Input::PeerUp { peer: LIAR, neighbour: Neighbour::Parent }];
    for (number, file) in (1..).zip(files) {
        let (id, request) = (RequestId(number), Request::Attributes { file });
        inputs.push(Input::Request { id, request, deadline: stage.world.now + Duration::from_secs(60) });
    }
    for input in inputs {
        stage.world.now = stage.world.now + Duration::from_secs(1);
        replica.handle(stage.world.now, stage.world.wall(), input);
        while let Some(output) = replica.poll_output() {
            if matches!(output, Output::Failed { .. }) {
                return;
            }
        }
    }
}

#[cfg(fuzzing)]
fn change_row(dice: &mut Dice, rows: &[(Vec<u8>, Vec<u8>)], batch: &mut Batch) {
    let mut row = || &rows[usize::try_from(dice.below(rows.len() as u64)).unwrap()];
    let ((key, value), other) = (row(), row());
    let mut value = value.clone();
    let at = usize::try_from(dice.below(value.len() as u64 + 1)).unwrap();
    match dice.below(5) {
        0 => return batch.delete(key.clone()),
        1 => value.truncate(at),
        2 => value.clone_from(&other.1),
        3 => value.insert(at, dice.byte()),
        _ if at < value.len() => value[at] = dice.byte(),
        _ => value.push(dice.byte()),
    }
    batch.put(key.clone(), value);
}

/// A client says anything at all to a home or a station.
pub(crate) fn client_says(to_home: bool, dice: impl FnOnce(Vec<u64>) -> Dice) {
    let mut stage = Stage::new();
    let origin = stage.world.admit(Admitted::Client, "liar@l");
    stage.world.settle();
    let mut dice = dice(stage.known());
    dice.also_knows([u64::from(origin.raw()), u64::from(origin.raw()) << 40]);
    let host = if to_home { HOME } else { stage.station };
    up(&mut stage, &mut dice, host, &Neighbour::ChildClient { origin });
    stage.goes_on();
}

/// A station says anything at all to its home.
pub(crate) fn station_says(dice: impl FnOnce(Vec<u64>) -> Dice) {
    let mut stage = Stage::new();
    let origin = stage.world.admit(Admitted::Station, "liar@l");
    stage.world.settle();
    let mut dice = dice(stage.known());
    dice.also_knows([u64::from(origin.raw()), u64::from(origin.raw()) << 40]);
    up(&mut stage, &mut dice, HOME, &Neighbour::ChildStation { origin });
    stage.goes_on();
}

/// A parent says anything at all to a client or a station.
pub(crate) fn parent_says(to_client: bool, dice: impl FnOnce(Vec<u64>) -> Dice) {
    let mut stage = Stage::new();
    let mut dice = dice(stage.known());
    let host = if to_client { stage.near } else { stage.station };
    let line = stage.world.line_of(host);
    stage.world.close(line);
    stage.world.settle();
    down(&mut stage, &mut dice, host);
    // It answers, whatever it was told.
    for file in stage.known().into_iter().filter_map(|raw| FileId::from_inode_number(raw).ok()) {
        let id = stage.world.request(host, Request::Attributes { file });
        stage.world.pass(Duration::from_secs(11));
        let answer = stage.world.answer(host, id);
        assert!(answer.is_some(), "file {file}");
    }
    stage.world.crash(host, 100_000);
    let root = stage.world.hosts[host].replica.inode(FileId::ROOT).unwrap();
    assert!(root.is_none_or(|root| root.is_directory()));
}

#[test]
fn a_client_that_says_anything_at_all_harms_nobody_at_a_home_or_a_station() {
    for seed in seeds() {
        client_says(seed % 2 == 0, |known| Dice::new(seed, known));
    }
}

#[test]
fn a_station_that_says_anything_at_all_leaves_a_tree_and_harms_no_session() {
    for seed in seeds() {
        station_says(|known| Dice::new(seed, known));
    }
}

#[test]
fn a_parent_that_says_anything_at_all_does_not_end_its_children() {
    for seed in seeds() {
        parent_says(seed % 2 == 0, |known| Dice::new(seed, known));
    }
}
