//! A home and clients in memory: clients build records on what they last saw,
//! the home applies them in whatever order they arrive.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part of the world")]

pub mod dice;

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_tree::{Author, BuildError, Effect, MemoryView, Outcome, View, ViewMut, apply, build, check, entry, inode};
use wayfs_types::request::{Change, RenameTarget};
use wayfs_types::{
    Admitted, Conflict, ConflictKind, Content, FileId, Image, Inode, Key, Kind, Name, NodeId, Op, Origin, OriginId,
    Record, RecordId, UserId, WallTime,
};

pub struct Client {
    pub origin: OriginId,
    pub view: MemoryView,
    pub pending: VecDeque<Record>,
    pub next: u64,
}

pub struct World {
    pub home: MemoryView,
    pub clients: Vec<Client>,
    pub ordered: Vec<Record>,
    /// Contents by the record that stored them.
    pub contents: BTreeMap<RecordId, Content>,
    pub clock: i64,
}

pub fn origin(number: usize) -> OriginId {
    OriginId::new(u32::try_from(number + 1).unwrap()).unwrap()
}

pub fn name(text: &str) -> Name {
    Name::try_from(text).unwrap()
}

pub fn text(text: &str) -> Content {
    Content::Inline(Bytes::copy_from_slice(text.as_bytes()))
}

/// A fresh volume that knows so many origins.
pub fn volume(clients: usize) -> MemoryView {
    let mut home = MemoryView::with_root();
    for number in 0..clients {
        let label = format!("user{number}@host{number}");
        let node = NodeId::from_bytes([u8::try_from(number).unwrap(); 32]);
        let image = Image::Origin(Origin::admitted(Admitted::Client, node, label).into());
        home.put(Key::Origin(origin(number)), Some(image)).unwrap();
    }
    home
}

impl World {
    pub fn new(clients: usize) -> Self {
        let home = volume(clients);
        let client = |number| Client { origin: origin(number), view: home.clone(), pending: VecDeque::new(), next: 1 };
        let clients = (0..clients).map(client).collect();
        Self { home, clients, ordered: Vec::new(), contents: BTreeMap::new(), clock: 1_000_000_000_000 }
    }

    /// Builds a record at a client, applies it there and puts it into the client's log.
    pub fn change(&mut self, client: usize, change: &Change) -> Result<Effect, BuildError> {
        self.clock += 1_000_000_000;
        let at = &mut self.clients[client];
        let id = RecordId::new(at.origin, at.next).unwrap();
        let author = Author { id, user: UserId(1000), time: WallTime::from_nanos(self.clock) };
        let record = build(&at.view, change, author)?;
        at.next += 1;
        let effect = apply(&mut at.view, &record).unwrap();
        self.contents.insert(id, content_of(&record.op));
        at.pending.push_back(record);
        Ok(effect)
    }

    /// The home takes a client's oldest record.
    pub fn send_one(&mut self, client: usize) -> Option<Effect> {
        let record = self.clients[client].pending.pop_front()?;
        let before = visible(&self.home);
        let effect = apply(&mut self.home, &record).unwrap();
        assert_eq!(check(self.home.iter()), [], "after {record:?}");
        self.check_nothing_lost(&before, &record, &effect);
        self.ordered.push(record);
        Some(effect)
    }

    /// The client sees the home's tree, its own unsent records on top.
    pub fn refresh(&mut self, client: usize) {
        let at = &mut self.clients[client];
        at.view = self.home.clone();
        for record in &at.pending {
            apply(&mut at.view, record).unwrap();
        }
        assert_eq!(check(at.view.iter()), []);
    }

    pub fn send_all(&mut self, client: usize) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(effect) = self.send_one(client) {
            effects.push(effect);
        }
        effects
    }

    pub fn refresh_all(&mut self) {
        (0..self.clients.len()).for_each(|client| self.refresh(client));
    }

    /// Invariant 1, step by step: what was visible and is no more, the record's writer had seen.
    fn check_nothing_lost(&self, before: &BTreeSet<Content>, record: &Record, effect: &Effect) {
        let after = visible(&self.home);
        let seen = match &record.op {
            Op::Store { base, .. } => Some(base),
            Op::Unlink { version, .. } => Some(version),
            Op::Rename { replaced: Some(replaced), .. } => Some(&replaced.version),
            _ => None,
        };
        let seen = seen.map(|version| self.contents.get(version).expect("no client invents a version"));
        for lost in before.difference(&after) {
            assert_eq!(Some(lost), seen, "lost by {record:?}");
        }
        if let Op::Store { content, .. } = &record.op {
            let Some(stored) = effect.stored else {
                let is_base = |earlier: &Record| matches!(earlier.op, Op::Store { base, .. } if base == record.id);
                assert!(
                    self.ordered.iter().any(is_base),
                    "a store stores somewhere, if nobody who saw it came first: {record:?}"
                );
                return;
            };
            let inode = inode(&self.home, stored.file).unwrap().unwrap();
            assert_eq!((&inode.content, inode.version), (content, stored.version));
            assert!(after.contains(content) || *content == Content::EMPTY, "not visible after {record:?}");
        }
    }

    // What people do, by path. Every step is done at one client and not yet sent.

    pub fn file(&self, client: usize, path: &str) -> FileId {
        walk(&self.clients[client].view, path).unwrap_or_else(|| panic!("{path} is not there"))
    }

    fn parent(&self, client: usize, path: &str) -> (FileId, Name) {
        let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
        (self.file(client, parent), name(last))
    }

    pub fn create(&mut self, client: usize, path: &str) {
        let (parent, name) = self.parent(client, path);
        let change = Change::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
        self.done(client, &change);
    }

    pub fn mkdir(&mut self, client: usize, path: &str) {
        let (parent, name) = self.parent(client, path);
        self.done(client, &Change::Mkdir { parent, name, mode: 0o755, uid: 1, gid: 1 });
    }

    pub fn write(&mut self, client: usize, path: &str, content: &str) {
        let file = self.file(client, path);
        let base = inode(&self.clients[client].view, file).unwrap().unwrap().version;
        let mtime = WallTime::from_nanos(self.clock + 1);
        self.done(client, &Change::Store { file, base, content: text(content), mtime });
    }

    pub fn unlink(&mut self, client: usize, path: &str) {
        let (parent, name) = self.parent(client, path);
        self.done(client, &Change::Unlink { parent, name });
    }

    pub fn rmdir(&mut self, client: usize, path: &str) {
        let (parent, name) = self.parent(client, path);
        self.done(client, &Change::Rmdir { parent, name });
    }

    pub fn exchange(&mut self, client: usize, from: &str, to: &str) {
        let (from_parent, from_name) = self.parent(client, from);
        let (to_parent, to_name) = self.parent(client, to);
        let target = RenameTarget::Exchange;
        self.done(client, &Change::Rename { from_parent, from_name, to_parent, to_name, target });
    }

    pub fn rename(&mut self, client: usize, from: &str, to: &str) {
        let (from_parent, from_name) = self.parent(client, from);
        let (to_parent, to_name) = self.parent(client, to);
        let target = RenameTarget::Replace;
        self.done(client, &Change::Rename { from_parent, from_name, to_parent, to_name, target });
    }

    pub fn link(&mut self, client: usize, from: &str, to: &str) {
        let file = self.file(client, from);
        let (parent, name) = self.parent(client, to);
        self.done(client, &Change::Link { file, parent, name });
    }

    fn done(&mut self, client: usize, change: &Change) {
        let effect = self.change(client, change).unwrap_or_else(|error| panic!("{change:?}: {error}"));
        assert_eq!(effect.outcome, Outcome::AsMeant, "{change:?}");
    }

    /// Everybody sends in order of number, and all see the outcome. Answers what the last one met.
    pub fn settle(&mut self) -> Vec<ConflictKind> {
        let mut met = Vec::new();
        for client in 0..self.clients.len() {
            met.extend(self.send_all(client).iter().filter_map(Effect::conflict));
        }
        self.refresh_all();
        met
    }

    /// The home's tree as sorted lines: directories with a slash, files with their content.
    pub fn listing(&self) -> Vec<String> {
        listing(&self.home)
    }

    pub fn reports(&self) -> Vec<Conflict> {
        let report = |(_, image): (&Key, &Image)| match image {
            Image::Conflict(conflict) => Some((**conflict).clone()),
            _ => None,
        };
        self.home.iter().filter_map(report).collect()
    }
}

pub fn walk(view: &MemoryView, path: &str) -> Option<FileId> {
    let mut at = FileId::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        at = entry(view, at, &name(part)).unwrap()?.file;
    }
    Some(at)
}

pub fn listing(view: &MemoryView) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, image) in view.iter() {
        let (Key::Entry(..), Image::Entry(entry)) = (key, image) else { continue };
        let inode = inode(view, entry.file).unwrap().unwrap();
        let Key::Entry(parent, name) = key else { continue };
        lines.push(format!("{}{name}{}", path(view, *parent), shown(&inode)));
    }
    lines.sort();
    lines
}

fn shown(inode: &Inode) -> String {
    match (&inode.kind, &inode.content) {
        (Kind::Directory, _) => "/".to_owned(),
        (Kind::File, Content::Inline(bytes)) => format!("={}", String::from_utf8_lossy(bytes)),
        (kind, _) => format!(" {kind:?}"),
    }
}

fn path(view: &MemoryView, directory: FileId) -> String {
    match inode(view, directory).unwrap().unwrap().places.first() {
        Some(place) => format!("{}{}/", path(view, place.parent), place.name),
        None => String::new(),
    }
}

pub fn content_of(op: &Op) -> Content {
    match op {
        Op::Create { content, .. } | Op::Store { content, .. } => content.clone(),
        _ => Content::EMPTY,
    }
}

/// All contents that a reader can reach, but the empty one.
pub fn visible(view: &impl Iterate) -> BTreeSet<Content> {
    view.inodes()
        .filter(|inode| !inode.is_removed())
        .map(|inode| inode.content.clone())
        .filter(|c| c.size() > 0)
        .collect()
}

pub trait Iterate: View {
    fn inodes(&self) -> Box<dyn Iterator<Item = &Inode> + '_>;
}

impl Iterate for MemoryView {
    fn inodes(&self) -> Box<dyn Iterator<Item = &Inode> + '_> {
        Box::new(self.iter().filter_map(|(_, image)| match image {
            Image::Inode(inode) => Some(&**inode),
            _ => None,
        }))
    }
}
