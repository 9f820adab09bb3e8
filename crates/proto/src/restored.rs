//! A parent that was put back to an older copy: what it lost is written again by whoever still has it.
//!
//! ```text
//!   home (older copy)   ──Welcome: went back──▶ station
//!                       ──its whole state─────▶ station: what differs from what the home had said before
//!   home                ◀──records of the station's own: files made again, contents stored again
//! ```
//!
//! A station holds the whole metadata, so it finds what the home lost by comparing: files and directories that the home
//! had and does not name any more are made again; files of which it names an older version get the newer contents. A
//! client finds what it wrote itself and still has in its cache. What was removed, renamed or changed in attributes only
//! since the copy was taken stays as the copy has it.

use crate::api::{Output, Role};
use crate::contents::Source;
use crate::history::is_among;
use crate::replica::Replica;
use crate::tables::{KeyKind, kind_range, parse_image_key, table, unpack_view};
use crate::tentative::LogEntry;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use wayfs_types::{
    FileId, Image, Inode, Key, Kind, MetaStore, Op, Origin, OriginId, Place, Record, RecordId, StorageError, UserId,
};
use wayfs_wire::KeyImage;

/// What a parent lost, as far as this replica has it.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Files and directories that it does not name any more.
    gone: BTreeMap<FileId, Box<Inode>>,
    /// Files of which it has an older version: upon which version ours is to be stored.
    older: BTreeMap<FileId, (RecordId, Box<Inode>)>,
}

impl Lost {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.older.is_empty()
    }

    /// Without what records that are written again anyway made or stored.
    pub(crate) fn without(mut self, entries: &[LogEntry]) -> Self {
        for entry in entries {
            self.gone.remove(&FileId::made_by(entry.record.id));
            self.older.retain(|_, (_, inode)| inode.version != entry.record.id);
        }
        self
    }

    pub(crate) fn add_gone(&mut self, file: FileId, inode: Box<Inode>) {
        if !inode.is_removed() && !inode.places.is_empty() {
            self.gone.insert(file, inode);
        }
    }

    pub(crate) fn add_older(&mut self, file: FileId, upon: RecordId, inode: Box<Inode>) {
        self.older.insert(file, (upon, inode));
    }
}

impl<S: MetaStore> Replica<S> {
    /// Says, once in a life, that a child knows more of us than we do.
    pub(crate) fn note_went_back(&mut self, child: OriginId) {
        if !std::mem::replace(&mut self.lives.went_back, true) {
            tracing::warn!(%child, "this store was put back to an older copy: a child knows more than it");
            self.staged.outputs.push(Output::WentBack { child });
            self.tell_who_came_before();
        }
    }

    /// Whoever came from another server before we knew, and saw there what is lost, begins anew and is told so.
    fn tell_who_came_before(&mut self) {
        let came = self.children.by_origin.values().filter(|child| child.came_from_another);
        let peers: Vec<_> = came.filter_map(|child| child.peer).collect();
        for peer in peers {
            self.disconnect(peer, crate::lives::BEGIN_ANEW.to_owned());
        }
    }

    /// Files of which the parent, that was put back, has an older version than it had.
    pub(crate) fn find_older(&mut self, cut: &[KeyImage]) -> Result<(), StorageError> {
        if self.config.role != Role::Station || !self.counters.rescues {
            return Ok(());
        }
        for pair in cut {
            let (Key::Inode(file), Some(Image::Inode(now))) = (&pair.key, &pair.image) else { continue };
            let before = match self.aside(&pair.key)? {
                Some(aside) => aside.image,
                None => wayfs_tree::View::image(&self.tx(), &pair.key)?,
            };
            let Some(Image::Inode(before)) = before else { continue };
            if before.kind != Kind::File || before.is_removed() || before.content == now.content {
                continue;
            }
            let known = self.confirmed_applied(now.version.origin())?;
            let is_known = now.version.origin() == OriginId::GENESIS || now.version.sequence() <= known;
            // A version that we never heard of was made since: then ours goes beside it.
            let upon = if is_known && !now.is_removed() { now.version } else { before.version };
            self.fork.lost.add_older(*file, upon, before);
        }
        Ok(())
    }

    /// Without what the parent has heard of: what it does not name of that any more was removed, and what it has otherwise
    /// was written over, by somebody of whom we had not heard.
    pub(crate) fn without_known(&mut self, lost: Lost) -> Result<Lost, StorageError> {
        let Lost { mut gone, mut older } = lost;
        let mut known: BTreeMap<OriginId, Option<Origin>> = BTreeMap::new();
        for record in gone.keys().map(|file| file.maker()).chain(older.values().map(|(_, inode)| inode.version)) {
            if let Entry::Vacant(unknown) = known.entry(record.origin()) {
                unknown.insert(self.confirmed_origin(record.origin())?);
            }
        }
        let has = |record: RecordId| {
            let image = known.get(&record.origin()).and_then(Option::as_ref);
            record.origin() == OriginId::GENESIS || image.is_some_and(|image| is_among(image, record.sequence()))
        };
        gone.retain(|file, _| !has(file.maker()));
        older.retain(|_, (_, inode)| !has(inode.version));
        Ok(Lost { gone, older })
    }

    /// A key that the parent, that was put back, does not name any more.
    pub(crate) fn find_gone(&mut self, key: &Key) -> Result<(), StorageError> {
        if self.counters.rescues
            && let Key::Inode(file) = key
            && let Some(inode) = wayfs_tree::inode(&self.tx(), *file)?
        {
            self.fork.lost.add_gone(*file, inode);
        }
        Ok(())
    }

    /// What a client made or stored itself after a record, and has in its cache.
    pub(crate) fn find_own_lost(&mut self, after: u64) -> Result<Lost, StorageError> {
        let own = self.config.origin;
        let is_lost = |record: RecordId| record.origin() == own && record.sequence() > after;
        let mut lost = Lost::default();
        let (from, until) = kind_range(table::VIEW, KeyKind::Inode);
        self.each(&from, &until, |key, value| {
            let Key::Inode(file) = parse_image_key(key)? else { return Ok(()) };
            let Image::Inode(inode) = unpack_view(value)?.image else { return Ok(()) };
            if is_lost(file.maker()) {
                lost.add_gone(file, inode);
            } else if inode.kind == Kind::File && !inode.is_removed() && is_lost(inode.version) {
                lost.add_older(file, inode.version, inode);
            }
            Ok(())
        })?;
        Ok(lost)
    }

    /// Writes again what a parent lost. Answers how many records that took.
    pub(crate) fn write_lost(&mut self, lost: Lost) -> Result<u64, StorageError> {
        let mut count = 0;
        for (file, inode) in &lost.gone {
            // A client has them in its view as confirmed; there they would be in the way of what is made now.
            for Place { parent, name } in &inode.places {
                if wayfs_tree::entry(&self.tx(), *parent, name)?.is_some_and(|entry| entry.file == *file) {
                    self.put_image(Key::Entry(*parent, name.clone()), None)?;
                }
            }
            self.put_image(Key::Inode(*file), None)?;
        }
        let mut left = lost.gone;
        while let Some((file, inode)) = left.pop_first() {
            count += self.make_again(file, *inode, &mut left)?;
        }
        for (file, (upon, inode)) in lost.older {
            let op = Op::Store { file, base: upon, content: inode.content, mtime: inode.mtime };
            count += self.write_op(op, inode.uid, Some(inode.version))?;
        }
        Ok(count)
    }

    /// Makes a file or directory again, after the directories that it is in.
    fn make_again(
        &mut self,
        file: FileId,
        inode: Inode,
        left: &mut BTreeMap<FileId, Box<Inode>>,
    ) -> Result<u64, StorageError> {
        let mut chain = vec![(file, inode)];
        while let Some(parent) = chain.last().and_then(|(_, inode)| inode.places.first()).map(|place| place.parent)
            && let Some(inode) = left.remove(&parent)
        {
            chain.push((parent, *inode));
        }
        let mut count = 0;
        while let Some((file, inode)) = chain.pop() {
            let mut places = inode.places.into_iter();
            let Some(Place { parent, name }) = places.next() else { continue };
            let (mode, uid, gid) = (inode.mode, inode.uid, inode.gid);
            let op = match inode.kind {
                Kind::Directory => Op::Mkdir { parent, name, mode, uid, gid },
                kind => Op::Create { parent, name, kind, mode, uid, gid, content: inode.content },
            };
            count += self.write_op(op, uid, Some(file.maker()))?;
            // It was made with what had been stored into it: what was written upon that is upon this.
            if inode.version != file.maker()
                && let Ok(made) = RecordId::new(self.config.origin, self.counters.sequence)
            {
                self.note_renamed(inode.version, made);
            }
            for Place { parent, name } in places {
                count += self.write_op(Op::Link { file, parent, name }, uid, None)?;
            }
            for (name, value) in inode.xattrs {
                count += self.write_op(Op::SetXattr { file, name, value: Some(value) }, uid, None)?;
            }
        }
        Ok(count)
    }

    /// A client wrote again what the home lost, and may have let the contents go. Until its driver has looked it answers for
    /// nothing: they count as gone.
    pub(crate) fn look_for_own(&mut self, record: &Record) -> Result<(), StorageError> {
        if let Some((file, content)) =
            crate::contents::content_of(record).filter(|(_, content)| content.root().is_some())
        {
            let (version, content) = (record.id, content.clone());
            self.put_vanished(version, file, content.clone())?;
            self.staged.outputs.push(Output::Seek { file, version, content });
        }
        Ok(())
    }

    /// Writes a record of our own. `former`: the record that it stands for.
    pub(crate) fn write_op(&mut self, op: Op, user: u32, former: Option<RecordId>) -> Result<u64, StorageError> {
        let Ok(id) = RecordId::new(self.config.origin, self.next_sequence()) else { return Ok(0) };
        let record = Record { id, time: self.wall, user: UserId(user), op };
        let record = crate::renamed::renamed_record(record, id, &|name| self.fork.renamed.get(&name).copied());
        self.skip_lost()?;
        self.counters.sequence = id.sequence();
        if let Some(former) = former {
            self.note_renamed(former, id);
        }
        let effect = self.take_record(record.clone(), true)?;
        // Whether the bytes are here the driver knows.
        let content = if self.config.role == Role::Client {
            self.look_for_own(&record)?;
            None
        } else {
            let source = Source::Child { origin: self.config.origin, is_station: true, held: false };
            self.note_content(&record, &effect, source)?
        };
        if let Some(file) = effect.file.or_else(|| crate::inspect::file_of(&record.op, id)) {
            self.staged.outputs.push(Output::Applied { file, record: id, content });
        }
        self.staged.marks.insert(self.config.origin);
        Ok(1)
    }
}
