//! The driver's half for contents: trees of chunks that are pushed, fetched and put piece by piece.
//!
//! Pushes go by the machines that ship (`uploads.rs`, `push.rs`). A fetch does what `node::contents` does: it asks whom the engine
//! names, each of which asks on in turn, and all on the way keep what passes.

use crate::coverage::Branch;
use crate::disk::Chunk;
use crate::planted::Bug;
use crate::world::{Event, World};
use rand::Rng;
use std::rc::Rc;
use std::time::Duration;
use wayfs_proto::{Holder, Input, Role};
use wayfs_transfer::Piece;
use wayfs_types::{Content, Digest, FileId, RecordId, Top};

/// Most pieces of a content: a list node and four chunks.
pub(crate) const PIECES_MAX: usize = 5;
/// Home, station, client, and back: a chunk is never further away.
pub(crate) const HOPS_MAX: usize = 5;
/// Bytes of each chunk.
pub(crate) const CHUNK_LEN: u64 = 10_000;
/// So long after the world was healed all sessions are up.
const CONNECTED: Duration = Duration::from_secs(60);
/// Looks for a chunk that cannot be had before a reader gives up.
const TRIES_MAX: u32 = 10;

/// A content that a reader gets piece by piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) host: usize,
    pub(crate) life: u32,
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) root: Digest,
    pub(crate) had: usize,
    pub(crate) tries: u32,
}

/// A piece, and what it is a part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) piece: Digest,
}

impl World {
    /// A content that nobody ever wrote before, of 1 to [`PIECES_MAX`] pieces.
    pub(crate) fn fresh_tree(&mut self) -> Content {
        let unique: u64 = self.random.random();
        let chunks = if self.random.random_bool(0.4) { 1 } else { self.random.random_range(2..PIECES_MAX) };
        let piece = |number: usize| Digest::of(&[unique.to_le_bytes(), (number as u64).to_le_bytes()].concat());
        let root = piece(0);
        let pieces: Rc<[Digest]> =
            if chunks == 1 { Rc::from([root]) } else { std::iter::once(root).chain((1..=chunks).map(piece)).collect() };
        self.trees.insert(root, pieces);
        Content::Tree { size: CHUNK_LEN * chunks as u64, root, depth: u8::from(chunks > 1), holes: 0 }
    }

    /// What an engine is told of a content.
    pub(crate) fn top(&self, root: Digest) -> Top {
        Top { root, depth: u8::from(self.pieces(root).len() > 1) }
    }

    /// The pieces of a content, its root first.
    pub(crate) fn pieces(&self, root: Digest) -> Rc<[Digest]> {
        self.trees.get(&root).cloned().unwrap_or_else(|| Rc::from([root]))
    }

    /// The chunks of a content below its list node.
    pub(crate) fn pieces_below(&self, root: Digest) -> Vec<Piece> {
        let chunk = |digest: &Digest| Piece { digest: *digest, level: 0, len: CHUNK_LEN };
        self.pieces(root).iter().skip(1).map(chunk).collect()
    }

    /// Whether a host has every piece, as far as it sees without reading the chunks.
    pub(crate) fn is_whole(&self, index: usize, root: Digest) -> bool {
        let disk = self.hosts[index].disk.0.borrow();
        disk.read_chunk(root) == Some(Chunk::Sound) && self.pieces(root).iter().all(|piece| disk.has_chunk(*piece))
    }

    /// Whether every piece would be read well from a host's disk after a power cut at this moment.
    pub(crate) fn is_whole_durable(&self, index: usize, root: Digest) -> bool {
        let disk = self.hosts[index].disk.0.borrow();
        self.pieces(root).iter().all(|piece| disk.is_chunk_durable(*piece))
    }

    /// Puts a chunk into a host's store. Whether there was room.
    pub(crate) fn put_piece(&mut self, index: usize, piece: Digest) -> bool {
        let now = self.now;
        self.hosts[index].touched.insert(piece, now);
        self.hosts[index].disk.0.borrow_mut().put_chunk(piece)
    }

    /// How long a sync takes.
    pub(crate) fn sync_span(&mut self) -> Duration {
        Duration::from_micros(self.random.random_range(50..8000))
    }

    /// The home has a new report: perhaps it declares something lost.
    pub(crate) fn note_declared(&mut self, index: usize) {
        if index != 0 {
            return;
        }
        let lost = self.hosts[0].replica.as_ref().and_then(|home| home.lost_contents(usize::MAX / 2).ok());
        for lost in lost.unwrap_or_default() {
            self.cover(Branch::Declared, true);
            let is_new = self.history.declared.insert(self.history.first(lost.version));
            let shown = lost.report.filter(|_| lost.shows_older).zip(self.inode(0, lost.file));
            if let Some((report, inode)) = shown.filter(|(report, inode)| inode.version == *report) {
                self.history.note_brought_back(report, &inode.content);
            }
            // With links that have been up for so long everybody was asked.
            if is_new && self.healed_at.is_some_and(|healed| self.now >= healed + CONNECTED) {
                self.check_nobody_has(lost.version, lost.file);
            }
        }
    }

    /// Reads all that a host answers for, and gets what is damaged or gone from others, or says that nobody has it.
    pub(crate) fn scrub(&mut self, index: usize) {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        let is_home = index == 0;
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let Ok(page) = replica.contents_in_use(after, 64) else { return };
            let kept = page.contents.into_iter().filter_map(|content| {
                let version = content.version?;
                let is_here = || replica.holder(content.file, version) == Ok(Holder::Here);
                (content.owed || is_home && is_here()).then_some((content.file, version, content.content))
            });
            all.extend(kept);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        for (file, version, content) in all {
            let Some(root) = content.root() else { continue };
            let is_had = self.pieces(root).iter().all(|piece| {
                let wanted = Wanted { file, version, piece: *piece };
                self.obtain(index, None, wanted, HOPS_MAX)
            });
            if !is_had {
                self.note(|| format!("host {index} finds that {version} of {file} is gone"));
                self.history.say_gone(version, self.now);
                self.feed(index, Input::ContentGone { file, version, content });
            }
        }
    }

    /// The home looks for a content: a host says whether it has every piece. A server asks all below it for what lacks.
    pub(crate) fn look_for(&mut self, index: usize, file: FileId, version: RecordId, content: Content) {
        let Some(root) = content.root() else { return };
        let is_here = self.pieces(root).iter().all(|piece| {
            let is_sound = self.hosts[index].disk.0.borrow().read_chunk(*piece) == Some(Chunk::Sound);
            let wanted = Wanted { file, version, piece: *piece };
            is_sound || !self.hosts[index].is_client() && self.obtain(index, self.parent_of(index), wanted, HOPS_MAX)
        });
        if is_here {
            let chunk_writes = self.hosts[index].disk.0.borrow().sync_point().chunk_writes;
            self.hosts[index].disk.0.borrow_mut().sync_chunks(chunk_writes);
        }
        self.cover(Branch::Sought, is_here);
        self.feed(index, Input::Sought { file, version, content, is_here });
    }

    pub(crate) fn plan_look_here(&mut self, index: usize, version: RecordId, content: &Content) {
        let Some(root) = content.root() else { return };
        let (later, life) = (self.millis(1, 50), self.hosts[index].life);
        self.after(later, Event::LookHere { host: index, life, version, root });
    }

    /// A station looks whether it has what its parent named.
    pub(crate) fn look_here(&mut self, index: usize, version: RecordId, root: Digest) {
        let is_here = self.is_whole(index, root);
        if is_here {
            let chunk_writes = self.hosts[index].disk.0.borrow().sync_point().chunk_writes;
            self.hosts[index].disk.0.borrow_mut().sync_chunks(chunk_writes);
        }
        self.cover(Branch::LookedHere, is_here);
        let (here, not_here) = if is_here { (vec![version], vec![]) } else { (vec![], vec![version]) };
        self.feed(index, Input::LookedHere { here, not_here });
    }

    /// If all of a content is at a server, it says so when that is durable.
    pub(crate) fn note_whole(&mut self, index: usize, root: Digest) {
        if self.hosts[index].is_client() || !self.is_whole(index, root) {
            return;
        }
        let (span, life) = (self.sync_span(), self.hosts[index].life);
        let chunk_writes = self.hosts[index].disk.0.borrow().sync_point().chunk_writes;
        self.after(span, Event::Whole { host: index, life, root, chunk_writes });
    }

    pub(crate) fn whole(&mut self, index: usize, root: Digest, chunk_writes: u64) {
        self.hosts[index].disk.0.borrow_mut().sync_chunks(chunk_writes);
        if self.is_whole(index, root) {
            self.feed(index, Input::ContentsHere { tops: vec![self.top(root)] });
        }
    }

    // Downward, and back from below.

    /// A user reads a file: piece by piece, from wherever it is.
    pub(crate) fn read_file(&mut self, index: usize, file: FileId) {
        let Some(inode) = self.inode(index, file) else { return };
        let Some(root) = inode.content.root() else { return };
        let (span, life) = (self.millis(1, 200), self.hosts[index].life);
        let fetch = Fetch { host: index, life, file, version: inode.version, root, had: 0, tries: 0 };
        self.after(span, Event::FetchStep(fetch));
    }

    pub(crate) fn fetch_step(&mut self, fetch: Fetch) {
        if self.hosts[fetch.host].life != fetch.life {
            return;
        }
        let Some(piece) = self.pieces(fetch.root).get(fetch.had).copied() else {
            return self.cover(Branch::FileRead, true);
        };
        let wanted = Wanted { file: fetch.file, version: fetch.version, piece };
        let next = if self.obtain(fetch.host, None, wanted, HOPS_MAX) {
            Fetch { had: fetch.had + 1, tries: 0, ..fetch }
        } else {
            Fetch { tries: fetch.tries + 1, ..fetch }
        };
        if next.tries < TRIES_MAX {
            let later = if next.tries == 0 { self.millis(1, 300) } else { Duration::from_secs(1) };
            self.after(later, Event::FetchStep(next));
        }
    }

    /// Reads all of a version at a host, in a calm world: whatever can be had is had at once.
    pub(crate) fn can_read(&mut self, index: usize, file: FileId, version: RecordId, root: Digest) -> bool {
        let pieces = self.pieces(root);
        pieces.iter().all(|piece| self.obtain(index, None, Wanted { file, version, piece: *piece }, HOPS_MAX))
    }

    /// Gets a piece into a host's store from whom its engine names; `asker` is not asked back. Whether it is there.
    pub(crate) fn obtain(&mut self, index: usize, asker: Option<usize>, wanted: Wanted, hops: usize) -> bool {
        let found = self.hosts[index].disk.0.borrow().read_chunk(wanted.piece);
        let now = self.now;
        match found {
            Some(Chunk::Sound) => {
                self.hosts[index].touched.insert(wanted.piece, now);
                return true;
            }
            Some(Chunk::Damaged) => {
                // It is put aside, and is not in the index any more.
                self.hosts[index].disk.0.borrow_mut().lose(wanted.piece);
                self.cover(Branch::DamageFound, true);
            }
            None => {}
        }
        if hops == 0 {
            return false;
        }
        for source in self.sources(index, asker, wanted) {
            if !self.obtain(source, Some(index), wanted, hops - 1) {
                continue;
            }
            if !self.put_piece(index, wanted.piece) {
                return false;
            }
            let is_child = self.parent_of(source) == Some(index);
            self.cover(if is_child { Branch::FetchedFromBelow } else { Branch::FetchedFromAbove }, true);
            if is_child {
                self.back_fetched(index, wanted);
            } else if let Some(peer) = self.hosts[index].parent_session {
                self.feed(source, Input::Fetched { peer, file: wanted.file });
            }
            return true;
        }
        false
    }

    /// A chunk came up from a child: perhaps the version is whole by now.
    fn back_fetched(&mut self, index: usize, wanted: Wanted) {
        let inode = self.inode(index, wanted.file).filter(|inode| inode.version == wanted.version);
        if let Some(root) = inode.and_then(|inode| inode.content.root()) {
            self.note_whole(index, root);
        }
    }

    /// Whom to ask for a version, as `node::contents::fetch` decides it.
    fn sources(&self, index: usize, asker: Option<usize>, wanted: Wanted) -> Vec<usize> {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return Vec::new() };
        let parent = self.parent_of(index).filter(|parent| Some(*parent) != asker && self.is_awake(*parent));
        let holders = replica.holders(wanted.file, wanted.version).unwrap_or_default();
        let mut sources: Vec<usize> = Vec::new();
        for holder in holders {
            let Holder::Child(origin, _) = holder else { continue };
            sources.extend(self.children_of(index, origin));
        }
        sources.extend(parent);
        // Who is on record has it not, or it is damaged or lost here: who wrote it or read it may have it.
        let children = (0..self.hosts.len()).filter(|child| self.parent_of(*child) == Some(index));
        sources.extend(children.filter(|child| self.is_awake(*child)));
        let mut seen = std::collections::BTreeSet::new();
        sources.retain(|source| Some(*source) != asker && seen.insert(*source));
        sources
    }

    fn is_awake(&self, index: usize) -> bool {
        self.hosts[index].replica.is_some() && self.hosts[index].asleep_until <= self.now
    }

    /// The host at the other end of a living session upward over a link that works.
    pub(crate) fn parent_of(&self, index: usize) -> Option<usize> {
        let session = self.sessions.get(&self.hosts[index].parent_session?)?;
        let whole = session.alive == [true; 2] && self.links[&(session.child, session.parent)].cut_since.is_none();
        whole.then_some(session.parent)
    }

    /// Hosts that are attached under an origin: one, or for a moment a store and its copy.
    fn children_of(&self, index: usize, origin: wayfs_types::OriginId) -> Vec<usize> {
        let is_child = |child: &usize| {
            self.hosts[*child].config.origin == origin && self.parent_of(*child) == Some(index) && self.is_awake(*child)
        };
        (0..self.hosts.len()).filter(is_child).collect()
    }

    /// Removes what a sweep of the live node would: chunks that nothing refers to, and at a client with a bounded
    /// cache those of others' contents that were read longest ago.
    pub(crate) fn sweep(&mut self, index: usize) {
        let Some(in_use) = self.contents_in_use(index) else { return };
        let (mut kept, mut cached) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let is_client = self.hosts[index].role() == Role::Client;
        for (root, is_owed) in in_use {
            let is_owed = is_owed && self.bug != Some(Bug::OwedEvicted);
            if self.bug == Some(Bug::DutyDroppedAtSafe) && is_client && !self.is_owed(index, root) {
                continue;
            }
            let marks = if is_owed || !is_client { &mut kept } else { &mut cached };
            marks.extend(self.pieces(root).iter().copied());
        }
        let host = &self.hosts[index];
        let grace = self.plan.sweep_grace;
        let is_fresh = |piece: &Digest| host.touched.get(piece).is_some_and(|at| *at + grace > self.now);
        let names = host.disk.0.borrow().chunk_names();
        let mut gone: Vec<Digest> =
            names.iter().filter(|p| !kept.contains(p) && !cached.contains(p) && !is_fresh(p)).copied().collect();
        let unnamed = gone.len();
        if let Some(max) = self.plan.cache_chunks_max.filter(|_| is_client) {
            let excess = (names.len() - gone.len()).saturating_sub(max);
            let mut clean: Vec<Digest> = cached.difference(&kept).filter(|p| names.contains(p)).copied().collect();
            clean.sort_by_key(|piece| host.touched.get(piece).copied());
            gone.extend(clean.into_iter().take(excess));
        }
        self.cover(Branch::SweptUnnamed, unnamed > 0);
        self.cover(Branch::Evicted, gone.len() > unnamed);
        let host = &mut self.hosts[index];
        if !gone.is_empty() {
            // As the live node: the disk has the records by which nothing refers to them.
            host.disk.0.borrow_mut().sync_all();
        }
        for piece in gone {
            host.disk.0.borrow_mut().remove_chunk(piece);
            host.touched.remove(&piece);
        }
    }

    /// Whether a content is not safe yet, for all that its host knows.
    fn is_owed(&self, index: usize, root: Digest) -> bool {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return true };
        let (origin, safe) = (self.hosts[index].config.origin, replica.progress().safe_through);
        self.history.updates.iter().any(|(record, update)| {
            update.content.root() == Some(root) && record.origin() == origin && record.sequence() > safe
        })
    }

    /// Whether a host has to keep contents, under whatever version's name.
    pub(crate) fn is_kept_at(&self, index: usize, root: Digest) -> bool {
        self.contents_in_use(index).is_some_and(|all| all.contains(&(root, true)))
    }

    /// Roots that the engine names, with whether they must stay.
    fn contents_in_use(&self, index: usize) -> Option<Vec<(Digest, bool)>> {
        let host = &self.hosts[index];
        let replica = host.replica.as_ref()?;
        let mut roots: Vec<(Digest, bool)> = replica.tops_announced().into_iter().map(|top| (top.root, true)).collect();
        roots.extend(host.promised_roots().map(|root| (root, true)));
        let mut after = None;
        loop {
            let page = replica.contents_in_use(after, 64).ok()?;
            roots.extend(page.contents.iter().filter_map(|content| Some((content.content.root()?, content.owed))));
            match page.next {
                Some(next) => after = Some(next),
                None => return Some(roots),
            }
        }
    }
}
