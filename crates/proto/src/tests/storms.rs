//! Random lives of a small volume, with crashes, lost sessions and moves: in the end all agree, the tree is a
//! tree, and everything that was acknowledged is there.

use super::world::{HOME, World, big, name, small};
use crate::{PeerId, Role};
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, RenameTarget, Request};
use wayfs_types::{AttrChange, FileId, Image, Key, Kind};

/// A small generator of our own, so that a seed gives one life for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % sides as u64).unwrap()
    }
}

struct Storm {
    world: World,
    dice: Dice,
    stations: Vec<usize>,
    clients: Vec<usize>,
    /// Session of each host with its parent, if it has one.
    sessions: BTreeMap<usize, PeerId>,
    next_content: u64,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut world = World::new();
        let stations = vec![world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
        let clients: Vec<usize> = ["ann@a", "bob@b", "cyd@c"].into_iter().map(|l| world.add(Role::Client, l)).collect();
        let mut storm = Self {
            world,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            stations,
            clients,
            sessions: BTreeMap::new(),
            next_content: 0,
        };
        storm.connect_all();
        storm.world.settle();
        for client in storm.clients.clone() {
            storm.world.names(client, FileId::ROOT).unwrap();
        }
        storm
    }

    fn connect_all(&mut self) {
        for station in self.stations.clone() {
            self.connect(station, HOME);
        }
        self.world.settle();
        for (index, client) in self.clients.clone().into_iter().enumerate() {
            let parent = [self.stations[0], self.stations[1], HOME][index % 3];
            self.connect(client, parent);
        }
    }

    fn connect(&mut self, child: usize, parent: usize) {
        if let Some(peer) = self.sessions.remove(&child) {
            self.world.close(peer);
        }
        let peer = self.world.connect(child, parent);
        self.sessions.insert(child, peer);
    }

    /// Something from the view of a host: directories and files with a name.
    fn pick(&mut self, host: usize, wants_directory: bool) -> Option<(FileId, FileId, String)> {
        let entries: Vec<(FileId, FileId, String)> = self
            .world
            .tree(host)
            .into_iter()
            .filter_map(|(key, image)| match (key, image) {
                (Key::Entry(parent, name), Image::Entry(entry)) => Some((entry.file, parent, name.to_string())),
                _ => None,
            })
            .filter(|(file, ..)| {
                let inode = self.world.hosts[host].replica.inode(*file).unwrap();
                inode.is_some_and(|inode| inode.is_directory() == wants_directory)
            })
            .collect();
        if entries.is_empty() { None } else { Some(entries[self.dice.roll(entries.len())].clone()) }
    }

    fn directory(&mut self, host: usize) -> FileId {
        if self.dice.roll(2) == 0 {
            FileId::ROOT
        } else {
            self.pick(host, true).map_or(FileId::ROOT, |(file, ..)| file)
        }
    }

    fn some_name(&mut self) -> String {
        format!("n{}", self.dice.roll(6))
    }

    fn random_change(&mut self, host: usize) -> Option<Change> {
        let parent = self.directory(host);
        let text = self.some_name();
        Some(match self.dice.roll(12) {
            0..=2 => Change::Create { parent, name: name(&text), kind: Kind::File, mode: 0o600, uid: 0, gid: 0 },
            3 => Change::Mkdir { parent, name: name(&text), mode: 0o700, uid: 0, gid: 0 },
            4 | 5 => {
                let directory = self.dice.roll(3) == 0;
                let (_, from_parent, from) = self.pick(host, directory)?;
                Change::Rename {
                    from_parent,
                    from_name: name(&from),
                    to_parent: parent,
                    to_name: name(&text),
                    target: RenameTarget::Replace,
                }
            }
            6 => {
                let (_, parent, text) = self.pick(host, false)?;
                Change::Unlink { parent, name: name(&text) }
            }
            7 => {
                let (_, parent, text) = self.pick(host, true)?;
                Change::Rmdir { parent, name: name(&text) }
            }
            8 => {
                let (file, ..) = self.pick(host, false)?;
                Change::SetAttr { file, change: AttrChange { mode: Some(0o640), ..AttrChange::default() } }
            }
            9 => {
                let (file, ..) = self.pick(host, false)?;
                Change::Link { file, parent, name: name(&text) }
            }
            _ => {
                let (file, ..) = self.pick(host, false)?;
                let base = self.world.hosts[host].replica.inode(file).unwrap()?.version;
                self.next_content += 1;
                let text = format!("content {}", self.next_content);
                let content = if self.dice.roll(2) == 0 { small(&text) } else { big(&text) };
                if let Some(root) = content.root() {
                    self.world.hosts[host].chunks.insert(root);
                }
                let mtime = self.world.wall();
                Change::Store { file, base, content, mtime }
            }
        })
    }

    fn turn(&mut self, faults: bool) {
        let client = self.clients[self.dice.roll(self.clients.len())];
        match self.dice.roll(if faults { 40 } else { 30 }) {
            0..=19 => {
                if let Some(change) = self.random_change(client) {
                    let id = self.world.request(client, Request::Change { user: 0, change });
                    if self.dice.roll(8) == 0 {
                        self.world.settle();
                        if matches!(self.world.answer(client, id), Some(Ok(Answer::Changed { .. }))) {
                            let until = if self.dice.roll(2) == 0 { Level::Safe } else { Level::Stable };
                            self.world.request(client, Request::Wait { record: None, until });
                        }
                    }
                }
            }
            20..=26 => {
                for _ in 0..self.dice.roll(20) {
                    self.world.step();
                }
            }
            27 => self.world.settle(),
            28 => self.world.pass(Duration::from_millis(700)),
            29 => {
                let directory = self.directory(client);
                self.world.request(client, Request::List { directory, after: None, limit: 100 });
            }
            30 | 31 => {
                let parent = [self.stations[0], self.stations[1], HOME][self.dice.roll(3)];
                self.connect(client, parent);
            }
            32 | 33 => {
                let station = self.stations[self.dice.roll(2)];
                self.connect(station, HOME);
            }
            34 => {
                if let Some(peer) = self.sessions.remove(&client) {
                    self.world.close(peer);
                }
            }
            35 => {
                let station = self.stations[self.dice.roll(2)];
                if let Some(peer) = self.sessions.remove(&station) {
                    self.world.close(peer);
                }
            }
            36 | 37 => {
                let kept = self.dice.roll(4);
                self.world.crash(client, kept);
            }
            38 => {
                let (station, kept) = (self.stations[self.dice.roll(2)], self.dice.roll(4));
                self.world.crash(station, kept);
            }
            _ => {
                let kept = self.dice.roll(4);
                self.world.crash(HOME, kept);
            }
        }
    }

    fn finish(&mut self, seed: u64) {
        self.connect_all();
        self.world.pass(Duration::from_secs(40));
        // Whoever was refused while its parent caught up tries again.
        self.connect_all();
        self.world.pass(Duration::from_secs(40));
        self.world.check_tree(HOME);
        for host in self.stations.clone().into_iter().chain(self.clients.clone()) {
            let replica = &self.world.hosts[host].replica;
            let last = self.world.hosts[host]
                .events
                .iter()
                .rev()
                .find(|event| matches!(event, crate::Output::Disconnect { .. }));
            assert!(
                replica.is_settled(),
                "seed {seed}: host {host} is not at rest: {:?}, {last:?}",
                replica.progress()
            );
            self.world.assert_agrees(host);
        }
        for station in self.stations.clone() {
            self.world.check_tree(station);
        }
        for client in self.clients.clone() {
            let written = self.world.hosts[client].replica.progress().last_record.map_or(0, |id| id.sequence());
            let origin = self.world.hosts[client].origin;
            match self.world.tree(HOME).get(&Key::Origin(origin)) {
                Some(Image::Origin(image)) => assert_eq!(image.applied, written, "seed {seed}: client {client}"),
                other => panic!("unexpected {other:?}"),
            }
        }
        let home = self.world.names(HOME, FileId::ROOT).unwrap();
        for client in self.clients.clone() {
            assert_eq!(self.world.names(client, FileId::ROOT).unwrap(), home, "seed {seed}: client {client}");
        }
        for (file, image) in self.world.tree(HOME) {
            if let (Key::Inode(file), Image::Inode(inode)) = (file, image)
                && let Some(root) = inode.content.root()
            {
                let held = self.world.hosts.iter().any(|host| host.chunks.contains(&root));
                let holder = self.world.hosts[HOME].replica.holder(file, inode.version).unwrap();
                assert!(held && holder != crate::Holder::Unknown, "seed {seed}: {file} has no holder");
            }
        }
    }
}

/// More seeds than in the test's own share: `WAYFS_STORMS=from..until`.
fn more_seeds() -> Option<std::ops::Range<u64>> {
    let text = std::env::var("WAYFS_STORMS").ok()?;
    let (from, until) = text.split_once("..")?;
    Some(from.parse().ok()?..until.parse().ok()?)
}

fn weather(seeds: std::ops::Range<u64>, turns: usize, faults: bool) {
    for seed in more_seeds().unwrap_or(seeds) {
        if more_seeds().is_some() {
            println!("seed {seed}");
        }
        let mut storm = Storm::new(seed);
        for _ in 0..turns {
            storm.turn(faults);
        }
        storm.finish(seed);
    }
}

#[test]
fn in_fair_weather_all_agree() {
    weather(0..30, 120, false);
}

#[test]
fn after_crashes_and_moves_all_agree() {
    weather(1000..1040, 150, true);
}
