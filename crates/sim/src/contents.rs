//! The driver's half for contents: trees of chunks that are pushed, fetched and put piece by piece.
//!
//! Pushes and looks go by the machines that ship (`uploads.rs`, `push.rs`, `search.rs`). All on the way keep what passes.

use crate::coverage::Branch;
use crate::disk::{Chunk, Kept, SYNC_MAX};
use crate::network::End;
use crate::planted::Bug;
use crate::world::{Event, World};
use rand::Rng;
use std::rc::Rc;
use std::time::Duration;
use wayfs_proto::{Holder, Input as EngineInput, PeerId, Role};
use wayfs_transfer::search::{Failure, Input, Look, Output, Scope};
use wayfs_transfer::{Patience, Piece, Search, Want};
use wayfs_types::{Content, Digest, FileId, RecordId, Top};

/// Most pieces of a content: a list node and four chunks.
pub(crate) const PIECES_MAX: usize = 5;
/// Bytes of each chunk.
pub(crate) const CHUNK_LEN: u64 = 10_000;
/// So long after the world was healed all sessions are up.
const CONNECTED: Duration = Duration::from_secs(60);
/// Patience of a look while the world stands still: more than the pause that ends it.
const STILL: Duration = Duration::from_secs(10);

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
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        disk.read_chunk(root) == Some(Chunk::Sound) && self.pieces(root).iter().all(|piece| disk.has_chunk(*piece))
    }

    /// Whether a host has of a content what its version did not take over from the one that it was stored upon. What it took over need
    /// never have come here: a commit reads and keeps what was touched ([S-edit-cost]). Another has it, or had it until its disk was
    /// damaged (seed 180419580).
    pub(crate) fn has_what_it_made(&self, index: usize, version: RecordId, root: Digest, kept: Kept) -> bool {
        let taken_over = self.pieces_of_base(version);
        let disk = self.hosts[index].disk.0.borrow();
        let has = |piece: Digest| disk.keeps(piece, kept);
        let is_elsewhere = |piece: Digest| self.hosts.iter().any(|host| host.disk.0.borrow().has_sound(piece));
        let was_hit = |piece: &Digest| self.hosts.iter().any(|host| host.hit.contains(piece));
        let is_taken_over = |piece: &Digest| taken_over.contains(piece) && (is_elsewhere(*piece) || was_hit(piece));
        self.pieces(root).iter().all(|piece| has(*piece) || is_taken_over(piece))
    }

    /// Whether all that a host lacks of a version it took over from what that was stored upon, which others replaced: servers keep it for
    /// a while only ([S-edit-cost]; seeds 165020175 and 179052286). The push finds that out, and the home is told.
    pub(crate) fn lacks_only_what_went_with_its_base(
        &self,
        index: usize,
        version: RecordId,
        root: Digest,
        kept: Kept,
    ) -> bool {
        let first = self.history.first(version);
        let Some(base) = self.history.updates.get(&first).and_then(|update| update.base) else { return false };
        let taken_over = self.pieces_of_base(version);
        let disk = self.hosts[index].disk.0.borrow();
        self.history.is_replaced_beside(base, first)
            && self.pieces(root).iter().all(|piece| disk.keeps(*piece, kept) || taken_over.contains(piece))
    }

    /// The pieces of what a version was stored upon.
    pub(crate) fn pieces_of_base(&self, version: RecordId) -> Rc<[Digest]> {
        let base = self.history.updates.get(&self.history.first(version)).and_then(|update| update.base);
        let base = base.and_then(|base| self.history.updates.get(&base)).and_then(|base| base.content.root());
        base.map(|base| self.pieces(base)).unwrap_or_default()
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

    /// Makes all chunks of a host durable. Whether they are: else its power failed.
    pub(crate) fn sync_chunks(&mut self, index: usize) -> bool {
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        let through = disk.sync_point().chunk_writes;
        disk.sync_chunks(through)
    }

    /// How long a sync takes.
    pub(crate) fn sync_span(&mut self) -> Duration {
        let longest = self.plan.open_files.filter(|_| !self.healed).map_or(SYNC_MAX, |plan| plan.sync_max);
        Duration::from_micros(self.random.random_range(50..longest.as_micros() as u64))
    }

    /// The home has a new report: perhaps it declares something lost.
    pub(crate) fn note_declared(&mut self, index: usize) {
        if index != 0 {
            return;
        }
        let lost = self.hosts[0].replica.as_ref().and_then(|home| home.lost_contents(usize::MAX / 2).ok());
        for lost in lost.unwrap_or_default() {
            self.cover(Branch::Declared);
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
                let wanted = Want { file, version, digest: *piece };
                self.obtain(index, None, wanted, self.scope_at(index))
            });
            if !is_had {
                self.note(|| format!("host {index} finds that {version} of {file} is gone"));
                self.history.say_gone(version, self.now);
                self.feed(index, EngineInput::ContentGone { file, version, content });
            }
        }
    }

    /// The home looks for a content: a host says whether it has every piece. A server asks all below it for what lacks.
    pub(crate) fn look_for(&mut self, index: usize, file: FileId, version: RecordId, content: Content) {
        let Some(root) = content.root() else { return };
        let (parent, scope) = (self.hosts[index].parent_session, Scope::of_all_below(self.sessions.len()));
        let is_here = self.pieces(root).iter().all(|piece| {
            let is_sound = self.hosts[index].disk.0.borrow_mut().read_chunk(*piece) == Some(Chunk::Sound);
            let wanted = Want { file, version, digest: *piece };
            is_sound || !self.hosts[index].is_client() && self.obtain(index, parent, wanted, scope)
        });
        if is_here {
            if !self.sync_chunks(index) {
                return;
            }
            self.cover(Branch::Sought);
        }
        self.feed(index, EngineInput::Sought { file, version, content, is_here });
    }

    pub(crate) fn plan_look_here(&mut self, index: usize, version: RecordId, content: &Content) {
        let Some(root) = content.root() else { return };
        let (later, life) = (self.millis(1..=50), self.hosts[index].life);
        self.after(later, Event::LookHere { host: index, life, version, root });
    }

    /// A station looks whether it has what its parent named.
    pub(crate) fn look_here(&mut self, index: usize, version: RecordId, root: Digest) {
        let is_here = self.is_whole(index, root);
        if is_here {
            if !self.sync_chunks(index) {
                return;
            }
            self.cover(Branch::LookedHere);
        }
        let (here, not_here) = if is_here { (vec![version], vec![]) } else { (vec![], vec![version]) };
        self.feed(index, EngineInput::LookedHere { here, not_here });
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
        let is_synced = self.hosts[index].disk.0.borrow_mut().sync_chunks(chunk_writes);
        if is_synced && self.is_whole(index, root) {
            self.feed(index, EngineInput::ContentsHere { tops: vec![self.top(root)] });
        }
    }

    // While the world stands still.

    /// Reads all of a version at a host, in a calm world: whatever can be had is had at once.
    pub(crate) fn can_read(&mut self, index: usize, file: FileId, version: RecordId, root: Digest) -> bool {
        let pieces = self.pieces(root);
        let scope = self.scope_at(index);
        pieces.iter().all(|piece| self.obtain(index, None, Want { file, version, digest: *piece }, scope))
    }

    /// Gets a piece into a host's store at this moment; `asker` is the session that it is got for. Whether it is there. The
    /// machine that ships decides whom to ask; what it would wait for does not come while the world stands still.
    fn obtain(&mut self, index: usize, asker: Option<PeerId>, wanted: Want, scope: Scope) -> bool {
        if self.read_piece(index, wanted.digest) {
            return true;
        }
        let look = Look { scope, writer: wanted.version.origin(), asker };
        let mut search = Search::new(look, Patience::new(STILL, self.now));
        while let Some(output) = search.poll_output() {
            let input = match output {
                Output::Look => Input::Sources(self.sources(index, wanted)),
                Output::Ask(peer) => self.obtain_from(index, peer, wanted),
                Output::Over(result) => return result.is_ok(),
            };
            search.handle(self.now, input);
        }
        false
    }

    fn obtain_from(&mut self, index: usize, peer: PeerId, wanted: Want) -> Input<PeerId> {
        let Some((source, from)) = self.other_end(index, peer) else { return Input::NotHad(Failure::Unreachable) };
        let scope = self.scope_at(source);
        if !self.obtain(source, Some(peer), wanted, scope) {
            return Input::NotHad(Failure::NotHeld);
        }
        if !self.take_piece(index, wanted, from) {
            return Input::NotHad(Failure::Local);
        }
        if from == End::Child {
            self.feed(source, EngineInput::Fetched { peer, file: wanted.file });
        }
        self.tell_policy_of_reader(source, from, wanted);
        Input::Had
    }

    /// The host at the other end of a session, if it would answer at this moment, and which end this one is.
    fn other_end(&self, index: usize, peer: PeerId) -> Option<(usize, End)> {
        let session = self.sessions.get(&peer)?;
        let end = if session.child == index { End::Child } else { End::Parent };
        let other = session.host(end.other());
        (session.alive == [true; 2] && !self.is_cut(peer) && self.is_awake(other)).then_some((other, end))
    }

    /// A chunk came up from a child: perhaps the version is whole by now.
    pub(crate) fn back_fetched(&mut self, index: usize, wanted: Want) {
        let inode = self.inode(index, wanted.file).filter(|inode| inode.version == wanted.version);
        if let Some(root) = inode.and_then(|inode| inode.content.root()) {
            self.note_whole(index, root);
        }
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
        // What somebody reads passes to him through memory, whatever the disk keeps of it ([S-cache]).
        kept.extend(self.hosts[index].wanted_by_open_files());
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
        if unnamed > 0 {
            self.cover(Branch::SweptUnnamed);
        }
        if gone.len() > unnamed {
            self.cover(Branch::Evicted);
        }
        let host = &mut self.hosts[index];
        if !gone.is_empty() {
            // As the live node: the disk has the records by which nothing refers to them.
            if !host.disk.0.borrow_mut().sync_all() {
                return;
            }
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
