//! The small steps of which every operation is made. Each leaves entries,
//! places and counts in agreement.

use crate::conflict_name::conflict_name;
use crate::view::{NameCursor, ViewMut, entry, inode, resolve};
use crate::{Effect, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_types::AttrVersion;
use wayfs_types::{
    Conflict, ConflictKind, Content, Entry, FileId, Image, Inode, Key, Kind, Name, Place, Record, RecordId,
    StorageError, WallTime,
};

/// Tries at a numbered conflict name before the record's id, which nobody else has, goes into it.
const NUMBERED_MAX: u32 = 9;

/// The root directory of a fresh volume: mode 0755, owner and group 0.
pub fn root_inode() -> Inode {
    Inode {
        kind: Kind::Directory,
        mode: 0o755,
        uid: 0,
        gid: 0,
        content: Content::EMPTY,
        version: RecordId::GENESIS,
        attr_version: AttrVersion::GENESIS,
        mtime: WallTime::EPOCH,
        ctime: WallTime::EPOCH,
        btime: WallTime::EPOCH,
        places: Vec::new(),
        removed_from: None,
        merged_into: None,
        subdirectories: 0,
        xattrs: BTreeMap::new(),
        unlisted: 0,
    }
}

/// A time that is later than the last one, whatever the clocks say: what was
/// changed must look changed, also to a cache that compares times.
pub(crate) fn later(last: WallTime, now: WallTime) -> WallTime {
    if now > last { now } else { WallTime::from_nanos(last.as_nanos().saturating_add(1)) }
}

/// One record at work on a view.
pub(crate) struct Edit<'a, V> {
    pub(crate) view: &'a mut V,
    pub(crate) record: &'a Record,
    pub(crate) label: String,
}

impl<'a, V: ViewMut> Edit<'a, V> {
    pub(crate) fn new(view: &'a mut V, record: &'a Record, label: String) -> Self {
        Self { view, record, label }
    }

    /// The file that the record makes, if it makes one.
    pub(crate) fn own_file(&self) -> FileId {
        FileId::made_by(self.record.id)
    }

    pub(crate) fn new_inode(&self, kind: Kind, mode: u16, uid: u32, gid: u32, content: Content) -> Inode {
        let content = if kind == Kind::File { content } else { Content::EMPTY };
        let time = self.record.time;
        Inode {
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            content,
            version: self.record.id,
            attr_version: AttrVersion(self.record.id),
            mtime: time,
            ctime: time,
            btime: time,
            ..root_inode()
        }
    }

    pub(crate) fn new_directory(&self, mode: u16, uid: u32, gid: u32) -> Inode {
        self.new_inode(Kind::Directory, mode, uid, gid, Content::EMPTY)
    }

    pub(crate) fn inode(&self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        inode(self.view, file)
    }

    /// The inode unless the file is unknown, a marker or an alias.
    pub(crate) fn living(&self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        Ok(self.inode(file)?.filter(|inode| !inode.is_removed()))
    }

    pub(crate) fn resolve(&self, file: FileId) -> Result<FileId, StorageError> {
        resolve(self.view, file)
    }

    pub(crate) fn entry(&self, parent: FileId, name: &Name) -> Result<Option<Entry>, StorageError> {
        entry(self.view, parent, name)
    }

    pub(crate) fn put_inode(&mut self, file: FileId, inode: Inode) -> Result<(), StorageError> {
        self.view.put(Key::Inode(file), Some(Image::Inode(Arc::new(inode))))
    }

    /// Gives a file (whose inode is given, and written here) a place whose name is free.
    /// The directory is living.
    pub(crate) fn attach(&mut self, file: FileId, mut inode: Inode, place: Place) -> Result<(), StorageError> {
        inode.removed_from = None;
        inode.merged_into = None;
        add_name(&mut inode, &place);
        let is_directory = inode.is_directory();
        self.put_inode(file, inode)?;
        let entry = Entry { file, version: self.record.id };
        self.view.put(Key::Entry(place.parent, place.name), Some(Image::Entry(entry)))?;
        self.entries_changed(place.parent, i32::from(is_directory))
    }

    /// Takes a place from a file. The one that loses its last becomes a marker; answers it then.
    pub(crate) fn detach(&mut self, file: FileId, place: &Place) -> Result<Option<FileId>, StorageError> {
        let Some(inode) = self.inode(file)? else {
            return Ok(None);
        };
        let mut inode = Arc::unwrap_or_clone(inode);
        self.view.put(Key::Entry(place.parent, place.name.clone()), None)?;
        take_name(&mut inode, place);
        self.list_names(file, &mut inode)?;
        inode.ctime = later(inode.ctime, self.record.time);
        let is_directory = inode.is_directory();
        let removed = (inode.places.is_empty() && !inode.is_crowded()).then_some(file);
        if removed.is_some() {
            inode = marker(inode, place.clone(), self.record.id);
        }
        self.put_inode(file, inode)?;
        self.entries_changed(place.parent, -i32::from(is_directory))?;
        Ok(removed)
    }

    /// A file that lost all names that it listed lists others, as far as they are known here.
    fn list_names(&self, file: FileId, inode: &mut Inode) -> Result<(), StorageError> {
        if inode.places.is_empty() && inode.is_crowded() {
            let names = self.view.names_after(file, &NameCursor::START, Inode::LISTED_MAX)?;
            inode.unlisted = inode.unlisted.saturating_sub(u32::try_from(names.len()).unwrap_or(u32::MAX));
            inode.places = names;
        }
        Ok(())
    }

    /// Moves a file from a place to another whose name is free, in a living directory.
    pub(crate) fn relocate(&mut self, file: FileId, from: &Place, to: Place) -> Result<(), StorageError> {
        let Some(inode) = self.inode(file)? else {
            return Ok(());
        };
        let mut inode = Arc::unwrap_or_clone(inode);
        take_name(&mut inode, from);
        inode.ctime = later(inode.ctime, self.record.time);
        self.view.put(Key::Entry(from.parent, from.name.clone()), None)?;
        self.entries_changed(from.parent, -i32::from(inode.is_directory()))?;
        self.attach(file, inode, to)
    }

    /// Two files change places. Neither is a directory above the other.
    pub(crate) fn swap(&mut self, one: (FileId, Place), other: (FileId, Place)) -> Result<(), StorageError> {
        let mut directories = [0, 0];
        for (at, ((file, from), (_, to))) in [(&one, &other), (&other, &one)].into_iter().enumerate() {
            let Some(inode) = self.inode(*file)? else { continue };
            let mut inode = Arc::unwrap_or_clone(inode);
            take_name(&mut inode, from);
            add_name(&mut inode, to);
            inode.ctime = later(inode.ctime, self.record.time);
            directories[at] = i32::from(inode.is_directory());
            self.put_inode(*file, inode)?;
            let entry = Entry { file: *file, version: self.record.id };
            self.view.put(Key::Entry(to.parent, to.name.clone()), Some(Image::Entry(entry)))?;
        }
        let [moved, back] = directories;
        if one.1.parent == other.1.parent {
            return self.entries_changed(one.1.parent, 0);
        }
        self.entries_changed(one.1.parent, back - moved)?;
        self.entries_changed(other.1.parent, moved - back)
    }

    /// Leaves an alias: `id` means `target` from here on, and its version `stands_for` equals what
    /// the target holds at this moment.
    pub(crate) fn alias(&mut self, id: FileId, stands_for: RecordId, target: FileId) -> Result<(), StorageError> {
        let Some(equal) = self.inode(target)?.map(|inode| inode.version) else {
            return Ok(());
        };
        let mut inode = self.new_inode(Kind::File, 0, 0, 0, Content::EMPTY);
        inode.version = equal;
        inode.attr_version = AttrVersion(stands_for);
        inode.merged_into = Some(target);
        self.put_inode(id, inode)
    }

    /// The place itself if its name is free, else the nearest free conflict name beside it.
    pub(crate) fn free_place(&self, place: &Place) -> Result<Place, StorageError> {
        match self.entry(place.parent, &place.name)? {
            None => Ok(place.clone()),
            Some(_) => self.conflict_place(place),
        }
    }

    /// A free conflict name beside a place.
    pub(crate) fn conflict_place(&self, place: &Place) -> Result<Place, StorageError> {
        let id = self.record.id;
        let mut attempt = 1;
        loop {
            let suffix = match attempt {
                1 => String::new(),
                2..=NUMBERED_MAX => format!("-{attempt}"),
                _ => format!("-{id}-{attempt}"),
            };
            let name = conflict_name(&place.name, self.record.time, &self.label, &suffix);
            if self.entry(place.parent, &name)?.is_none() {
                return Ok(Place { parent: place.parent, name });
            }
            // A directory holds finitely many names, and every attempt is another.
            attempt += 1;
        }
    }

    /// Files a report under the record and gives the outcome that names it.
    pub(crate) fn report(&mut self, conflict: Met) -> Result<Outcome, StorageError> {
        let report = Conflict {
            kind: conflict.kind,
            file: conflict.file,
            copy: conflict.copy,
            winner: conflict.winner,
            record: self.record.id,
            user: self.record.user,
            time: self.record.time,
            place: conflict.place,
        };
        let image = Image::Conflict(Box::new(report));
        self.view.put(Key::Conflict(self.record.id), Some(image))?;
        Ok(Outcome::Conflict(conflict.kind))
    }

    /// Files a report of a record that changed nothing because of what stands at `file`.
    pub(crate) fn refuse(
        &mut self,
        kind: ConflictKind,
        file: FileId,
        place: Option<Place>,
    ) -> Result<Effect, StorageError> {
        let winner = self.inode(file)?.map_or(file.maker(), |inode| inode.version);
        let outcome = self.report(Met { kind, file, copy: None, winner, place })?;
        Ok(Effect::on(outcome, file))
    }

    /// The same for a record that gave a removed file a new place: if a store brings the file
    /// back, its writer finds it there.
    pub(crate) fn refuse_removed(
        &mut self,
        kind: ConflictKind,
        file: FileId,
        mut marker: Inode,
        wanted: Place,
    ) -> Result<Effect, StorageError> {
        if marker.merged_into.is_none() && !marker.is_directory() {
            marker.removed_from = Some(wanted.clone());
            self.put_inode(file, marker)?;
        }
        self.refuse(kind, file, Some(wanted))
    }

    fn entries_changed(&mut self, directory: FileId, subdirectories: i32) -> Result<(), StorageError> {
        let Some(inode) = self.inode(directory)? else {
            return Ok(());
        };
        let mut inode = Arc::unwrap_or_clone(inode);
        inode.mtime = later(inode.mtime, self.record.time);
        inode.ctime = later(inode.ctime, self.record.time);
        inode.subdirectories = inode.subdirectories.saturating_add_signed(subdirectories);
        self.put_inode(directory, inode)
    }
}

/// The part of a report that a rule decides.
pub(crate) struct Met {
    pub(crate) kind: ConflictKind,
    pub(crate) file: FileId,
    pub(crate) copy: Option<FileId>,
    pub(crate) winner: RecordId,
    pub(crate) place: Option<Place>,
}

/// A file gets a name that it has not got: listed, if there is room.
fn add_name(inode: &mut Inode, place: &Place) {
    match inode.places.binary_search(place) {
        Ok(_) => {}
        Err(at) if inode.places.len() < Inode::LISTED_MAX => inode.places.insert(at, place.clone()),
        Err(_) => inode.unlisted = inode.unlisted.saturating_add(1),
    }
}

/// A file loses a name that it has.
fn take_name(inode: &mut Inode, place: &Place) {
    match inode.places.binary_search(place) {
        Ok(at) => drop(inode.places.remove(at)),
        Err(_) => inode.unlisted = inode.unlisted.saturating_sub(1),
    }
}

/// What is kept of a removed file: enough for a late store to bring it back
/// with its rights, nothing that costs room. The store brings the content along. The removal counts as the last change
/// of its attributes: so whoever removed it is known.
fn marker(inode: Inode, last: Place, remover: RecordId) -> Inode {
    let kind = match inode.kind {
        Kind::Symlink(_) => Kind::Symlink(Default::default()),
        other @ (Kind::File
        | Kind::Directory
        | Kind::Fifo
        | Kind::Socket
        | Kind::CharDevice(_)
        | Kind::BlockDevice(_)) => other,
    };
    Inode {
        kind,
        content: Content::EMPTY,
        places: Vec::new(),
        removed_from: Some(last),
        attr_version: AttrVersion(remover),
        subdirectories: 0,
        xattrs: BTreeMap::new(),
        unlisted: 0,
        ..inode
    }
}
