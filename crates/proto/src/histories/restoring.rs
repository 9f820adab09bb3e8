//! Writing again what a parent lost.
//!
//! ```text
//!   a name is to stand:  its directory first ─▶ whatever stands there goes where it stood ─▶ made, moved or linked
//!   names in a circle:   what waits for the one that is moved changes places with it
//!   a name is to go:     what is in the directory goes where it stood ─▶ removed
//! ```
//!
//! All of it are plain records upon what the parent shows now: where something else was written meanwhile, the rules for
//! conflicts decide.

use crate::api::Output;
use crate::contents::Source;
use crate::histories::Histories;
use crate::histories::lost::{Lost, Moved};
use crate::histories::renamed::Again;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::log_entry::{Attached, LogEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_types::{
    AttrChange, AttrVersion, FileId, Image, Inode, Key, Kind, MetaStore, Name, Op, Place, Record, RecordId,
    StorageError, UserId,
};

/// Names that wait for one another at most: of longer chains some become conflict names.
const DEPTH_MAX: usize = 256;

/// Whose names are not yet as they were.
struct Names {
    gone: BTreeMap<FileId, Inode>,
    moved: BTreeMap<FileId, Moved>,
    /// Those that wait until what stands in their way is gone.
    waiting: BTreeSet<FileId>,
    written: u64,
}

impl Names {
    /// The directory in which something is to stand first.
    fn directory_of(&self, file: FileId) -> Option<FileId> {
        let gone = self.gone.get(&file).and_then(|inode| inode.places.first());
        let moved = || self.moved.get(&file).and_then(|moved| moved.to.first());
        gone.or_else(moved).map(|place| place.parent)
    }

    fn is_left(&self, file: FileId) -> bool {
        self.gone.contains_key(&file) || self.moved.contains_key(&file)
    }
}

impl<S: MetaStore> Replica<S> {
    /// Writes again what a parent lost. Answers how many records that took.
    pub(crate) fn write_lost(&mut self, lost: Lost) -> Result<u64, StorageError> {
        let Lost { gone, moved, older, changed, removed, .. } = lost;
        let files: Vec<FileId> = gone.keys().chain(moved.keys()).copied().collect();
        let mut names = Names { gone, moved, waiting: BTreeSet::new(), written: 0 };
        for file in files {
            self.put_name_back(file, &mut names, 0)?;
        }
        let mut count = names.written;
        for (file, (upon, inode)) in older {
            let op = Op::Store { file, base: upon, content: inode.content.clone(), mtime: inode.mtime };
            count += self.write_op(op, inode.uid, Some(inode.version))?;
        }
        for (file, (upon, inode)) in changed {
            count += self.set_again(file, upon, &inode)?;
        }
        // In the order in which it was done: what was in a directory goes before that.
        for (by, (op, user)) in removed {
            count += self.write_op(op, user, Some(by))?;
        }
        Ok(count)
    }

    /// Gives a file the names that it had, after the directories that these are in.
    fn put_name_back(&mut self, file: FileId, names: &mut Names, depth: usize) -> Result<(), StorageError> {
        if depth > DEPTH_MAX || !names.is_left(file) {
            return Ok(());
        }
        let mut chain = vec![file];
        while let Some(parent) = chain.last().and_then(|file| names.directory_of(*file))
            && names.is_left(parent)
            && !chain.contains(&parent)
        {
            chain.push(parent);
        }
        while let Some(file) = chain.pop() {
            if let Some(inode) = names.gone.remove(&file) {
                self.make_again(file, inode, names, depth)?;
            } else if let Some(moved) = names.moved.remove(&file) {
                self.move_back(file, moved, names, depth)?;
            }
        }
        Ok(())
    }

    /// What stands where something is to be put goes first, if it stood elsewhere.
    fn make_way(&mut self, place: &Place, names: &mut Names, depth: usize) -> Result<(), StorageError> {
        self.put_name_back(place.parent, names, depth + 1)?;
        let parent = self.histories.directory_now(&self.core, place.parent);
        if let Some(entry) = wayfs_tree::entry(&self.core.state.tx(), parent, &place.name)? {
            self.put_name_back(entry.file, names, depth + 1)?;
        }
        Ok(())
    }

    fn make_again(&mut self, file: FileId, inode: Inode, names: &mut Names, depth: usize) -> Result<(), StorageError> {
        let mut places = inode.places.into_iter();
        let Some(place) = places.next() else { return Ok(()) };
        self.make_way(&place, names, depth)?;
        let Place { parent, name } = place;
        let (mode, uid, gid) = (inode.mode, inode.uid, inode.gid);
        let op = match inode.kind {
            Kind::Directory => Op::Mkdir { parent, name, mode, uid, gid },
            kind @ (Kind::File
            | Kind::Symlink(_)
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharDevice(_)
            | Kind::BlockDevice(_)) => Op::Create { parent, name, kind, mode, uid, gid, content: inode.content },
        };
        names.written += self.write_op(op, uid, Some(file.maker()))?;
        // It was made with what had been stored into it: what was written upon that is upon this.
        if inode.version != file.maker()
            && let Ok(made) = RecordId::new(self.core.config.origin, self.core.state.sequence())
        {
            self.histories.note_renamed(&mut self.core, inode.version, Again { record: made, stored_into: None });
        }
        for place in places {
            self.make_way(&place, names, depth)?;
            let Place { parent, name } = place;
            names.written += self.write_op(Op::Link { file, parent, name }, uid, None)?;
        }
        for (name, value) in inode.xattrs {
            names.written += self.write_op(Op::SetXattr { file, name, value: Some(value) }, uid, None)?;
        }
        Ok(())
    }

    fn move_back(&mut self, file: FileId, moved: Moved, names: &mut Names, depth: usize) -> Result<(), StorageError> {
        let Some(now) = wayfs_tree::inode(&self.core.state.tx(), file)?.filter(|now| !now.is_removed()) else {
            return Ok(());
        };
        if moved.to.is_empty() && now.is_directory() {
            self.empty_again(file, names, depth)?;
        }
        let stood: Vec<Place> = moved
            .to
            .iter()
            .map(|place| Place { parent: self.histories.directory_now(&self.core, place.parent), ..place.clone() })
            .collect();
        for place in &stood {
            if !wayfs_tree::has_name(&self.core.state.tx(), file, &now, place)? {
                names.waiting.insert(file);
                self.make_way(place, names, depth)?;
                names.waiting.remove(&file);
            }
        }
        // What stood in the way may have changed places with this one.
        let Some(now) = wayfs_tree::inode(&self.core.state.tx(), file)? else { return Ok(()) };
        let mut stale = Histories::stale_names(&mut self.core, file, &now, moved.stale, &stood)?;
        for place in stood {
            if wayfs_tree::has_name(&self.core.state.tx(), file, &now, &place)? {
                continue;
            }
            let op = Histories::op_to_place(&mut self.core, file, stale.pop(), place, names)?;
            names.written += self.write_op(op, moved.user, None)?;
        }
        for Place { parent, name } in stale {
            let op = match now.kind {
                Kind::Directory => Op::Rmdir { parent, name, file },
                Kind::File
                | Kind::Symlink(_)
                | Kind::Fifo
                | Kind::Socket
                | Kind::CharDevice(_)
                | Kind::BlockDevice(_) => Op::Unlink { parent, name, file, version: now.version },
            };
            names.written += self.write_op(op, moved.user, None)?;
        }
        Ok(())
    }

    /// What is in a directory that was removed went before.
    fn empty_again(&mut self, directory: FileId, names: &mut Names, depth: usize) -> Result<(), StorageError> {
        let mut last: Option<Name> = None;
        while let Some(name) = wayfs_tree::View::first_entry(&self.core.state.tx(), directory)?
            && last.as_ref() != Some(&name)
        {
            if let Some(entry) = wayfs_tree::entry(&self.core.state.tx(), directory, &name)? {
                self.put_name_back(entry.file, names, depth + 1)?;
            }
            last = Some(name);
        }
        Ok(())
    }

    /// Sets attributes again.
    fn set_again(&mut self, file: FileId, upon: AttrVersion, inode: &Inode) -> Result<u64, StorageError> {
        let Some(now) = wayfs_tree::inode(&self.core.state.tx(), file)?.filter(|now| !now.is_removed()) else {
            return Ok(0);
        };
        let is_same_content = now.kind == Kind::File && now.content == inode.content;
        let change = AttrChange {
            mode: Some(inode.mode).filter(|mode| *mode != now.mode),
            uid: Some(inode.uid).filter(|uid| *uid != now.uid),
            gid: Some(inode.gid).filter(|gid| *gid != now.gid),
            mtime: Some(inode.mtime).filter(|mtime| is_same_content && *mtime != now.mtime),
        };
        let mut count = 0;
        if change != AttrChange::default() {
            count += self.write_op(Op::SetAttr { file, base: upon, change }, inode.uid, Some(inode.attr_version.0))?;
        }
        for name in now.xattrs.keys().filter(|name| !inode.xattrs.contains_key(*name)) {
            let op = Op::SetXattr { file, name: name.clone(), value: None };
            count += self.write_op(op, inode.uid, None)?;
        }
        for (name, value) in inode.xattrs.iter().filter(|(name, value)| now.xattrs.get(*name) != Some(*value)) {
            let op = Op::SetXattr { file, name: name.clone(), value: Some(value.clone()) };
            count += self.write_op(op, inode.uid, None)?;
        }
        Ok(count)
    }

    /// A client wrote again what the home lost, and may have let the contents go. Until its driver has looked it answers for
    /// nothing: they count as gone.
    pub(crate) fn look_for_own(&mut self, record: &Record) -> Result<(), StorageError> {
        if let Some((file, content)) =
            crate::state::of_record::content_of(record).filter(|(_, content)| content.root().is_some())
        {
            let (version, content) = (record.id, content.clone());
            self.contents.put_vanished(&mut self.core, version, file, content.clone())?;
            self.contents.look(&mut self.core, file, version, content);
        }
        Ok(())
    }

    /// Writes a record of our own. `former`: the record that it stands for.
    pub(crate) fn write_op(&mut self, op: Op, user: u32, former: Option<RecordId>) -> Result<u64, StorageError> {
        let Ok(id) = RecordId::new(self.core.config.origin, self.next_sequence()) else { return Ok(0) };
        let record = Record { id, time: self.core.wall, user: UserId(user), op };
        // It is made of a state: that is what it was seen upon, by whatever name.
        let names = |name| self.histories.written_now(&self.core, name);
        let record = crate::histories::renamed::renamed_record(record, id, &names, &names);
        self.skip_lost()?;
        self.core.state.set_sequence(id.sequence());
        if let Some(former) = former {
            self.histories.note_renamed(&mut self.core, former, Again::of(&record));
        }
        let effect = self.core.take_record(record.clone(), Attached::OWN)?;
        // Whether the bytes are here the driver knows.
        let content = if self.core.writes() {
            self.look_for_own(&record)?;
            None
        } else {
            let source = Source::Child { origin: self.core.config.origin, is_station: true, held: false };
            self.contents.note_content(&mut self.core, &mut self.children, &record, &effect, source)?
        };
        if let Some(file) = effect.file.or_else(|| crate::state::of_record::file_of(&record.op, id)) {
            self.core.state.stage_output(Output::Applied { file, record: id, content });
        }
        self.core.state.stage_marks(self.core.config.origin);
        Ok(1)
    }
}

/// A file that shows a version by the name of the one that the first record to be written again was made upon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandIn {
    file: FileId,
    name: RecordId,
    own: RecordId,
}

impl Histories {
    /// What a directory is called now that was made again.
    fn directory_now<S: MetaStore>(&self, core: &Core<S>, directory: FileId) -> FileId {
        self.written_now(core, directory.maker()).map_or(directory, FileId::made_by)
    }

    /// A client has what its parent lost in its view as confirmed: there it would be in the way of what is written again. Answers which
    /// files show a version by another name until that is done ([`call_as_before`](Self::call_as_before)).
    pub(crate) fn take_out_lost<S: MetaStore>(
        core: &mut Core<S>,
        lost: &Lost,
        entries: &[LogEntry],
    ) -> Result<Vec<StandIn>, StorageError> {
        for (file, inode) in &lost.gone {
            for Place { parent, name } in &inode.places {
                if wayfs_tree::entry(&core.state.tx(), *parent, name)?.is_some_and(|entry| entry.file == *file) {
                    core.state.put_image(Key::Entry(*parent, name.clone()), None)?;
                }
            }
            core.state.put_image(Key::Inode(*file), None)?;
        }
        let mut stand_ins = Vec::new();
        for (file, (_, inode)) in &lost.older {
            let first = entries.iter().find_map(|entry| {
                let Op::Store { file: stored, base, .. } = &entry.record.op else { return None };
                (stored == file).then_some(*base)
            });
            if let Some(version) = first {
                let before = Inode { version, ..(**inode).clone() };
                core.state.put_image(Key::Inode(*file), Some(Image::Inode(Arc::new(before))))?;
                stand_ins.push(StandIn { file: *file, name: version, own: inode.version });
            }
        }
        Ok(stand_ins)
    }

    /// What was written again went elsewhere (the version that it names had become a copy): the file shows what it showed, and that has its
    /// own name. By the other a program would build upon a version whose bytes it has not seen.
    pub(crate) fn call_as_before<S: MetaStore>(
        core: &mut Core<S>,
        stand_ins: Vec<StandIn>,
    ) -> Result<(), StorageError> {
        for StandIn { file, name, own } in stand_ins {
            if let Some(inode) = wayfs_tree::inode(&core.state.tx(), file)?.filter(|inode| inode.version == name) {
                let inode = Inode { version: own, ..Arc::unwrap_or_clone(inode) };
                core.state.put_image(Key::Inode(file), Some(Image::Inode(Arc::new(inode))))?;
            }
        }
        Ok(())
    }

    /// The names that a file has and had not.
    fn stale_names<S: MetaStore>(
        core: &mut Core<S>,
        file: FileId,
        now: &Inode,
        noted: Option<Vec<Place>>,
        stood: &[Place],
    ) -> Result<Vec<Place>, StorageError> {
        let stood: BTreeSet<&Place> = stood.iter().collect();
        let mut stale = Vec::new();
        for place in noted.unwrap_or_else(|| now.places.clone()) {
            if !stood.contains(&place) && wayfs_tree::has_name(&core.state.tx(), file, now, &place)? {
                stale.push(place);
            }
        }
        Ok(stale)
    }

    /// Moves a file to a place, or gives it one more.
    fn op_to_place<S: MetaStore>(
        core: &mut Core<S>,
        file: FileId,
        from: Option<Place>,
        to: Place,
        names: &Names,
    ) -> Result<Op, StorageError> {
        let Place { parent: to_parent, name: to_name } = to;
        let Some(Place { parent: from_parent, name: from_name }) = from else {
            return Ok(Op::Link { file, parent: to_parent, name: to_name });
        };
        let there = wayfs_tree::entry(&core.state.tx(), to_parent, &to_name)?.map(|entry| entry.file);
        Ok(match there.filter(|there| names.waiting.contains(there)) {
            Some(other) => Op::Exchange { from_parent, from_name, file, to_parent, to_name, other },
            None => Op::Rename { from_parent, from_name, file, to_parent, to_name, replaced: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::tests::world::{HOME, World, small};
    use wayfs_types::{Chain, Life, OriginId, WallTime};

    /// Seed 167300541 of `open-files`: the file showed the bytes of a version that the parent lost by the name of the one before it, of
    /// which the copy was gone into which all was written again, and a program built upon that name.
    #[test]
    fn what_is_written_again_elsewhere_leaves_the_file_its_version() {
        let mut world = World::new();
        let ann = world.add(Role::Client, "ann@a");
        world.connect(ann, HOME);
        world.settle();
        let file = world.create(ann, FileId::ROOT, "x");
        world.store(ann, file, small("mine"));
        world.settle();
        let shown = world.lookup(ann, FileId::ROOT, "x").unwrap().1;
        let copy = RecordId::new(OriginId::new(9).unwrap(), 7).unwrap();
        for is_written_here in [false, true] {
            let replica = &mut world.hosts[ann].replica;
            let mut lost = Lost::default();
            lost.add_older(file, shown.version, shown.clone());
            let (content, mtime) = (small("again"), WallTime::EPOCH);
            let op = Op::Store { file, base: copy, content: content.clone(), mtime };
            let id = RecordId::new(OriginId::new(8).unwrap(), 1).unwrap();
            let record = Record { id, time: WallTime::EPOCH, user: UserId(1), op };
            let (touched, before, chain) = (Vec::new(), Chain::START, Chain::START);
            let entry = LogEntry {
                record,
                held: false,
                structural: false,
                touched,
                before,
                chain,
                life: Life::NONE,
                seal: None,
            };
            let stand_ins = Histories::take_out_lost(&mut replica.core, &lost, &[entry]).unwrap();
            let now = |replica: &mut Replica<_>| wayfs_tree::inode(&replica.core.state.tx(), file).unwrap().unwrap();
            assert_eq!(now(replica).version, copy, "what is written again is upon what the file shows");
            if is_written_here {
                let written = Inode { version: id, content: content.clone(), ..(*shown).clone() };
                replica.core.state.put_image(Key::Inode(file), Some(Image::Inode(Arc::new(written)))).unwrap();
            }
            Histories::call_as_before(&mut replica.core, stand_ins).unwrap();
            let after = if is_written_here { (id, content) } else { (shown.version, small("mine")) };
            assert_eq!((now(replica).version, now(replica).content.clone()), after);
        }
    }
}
