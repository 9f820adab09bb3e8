//! What the volume says: passed to the kernel's caches, the open files and the listeners.

use crate::events::{About, Events};
use crate::files::FileTable;
use crate::fs::FileSystem;
use crate::inotify::Watchers;
use crate::notices::{Notices, Stale};
use crate::pins::Pins;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use wayfs_control::EventKind;
use wayfs_node::{CachedNames, Hooks, SessionChange, SessionEvent, Volume};
use wayfs_proto::{Changed, Happening, Neighbour};
use wayfs_types::{FileId, Inode, Name, RecordId, Ticket};

/// The mount's ears.
pub struct MountHooks {
    pub(crate) notices: Arc<Notices>,
    pub(crate) events: Arc<Events>,
    pub(crate) pins: Arc<Pins>,
    table: OnceLock<Weak<FileTable>>,
    watchers: OnceLock<Arc<Watchers>>,
    volume: OnceLock<Weak<Volume>>,
    fs: OnceLock<Weak<FileSystem>>,
    failure: Mutex<Option<String>>,
    /// Hears that the volume failed.
    on_failure: OnceLock<OnFailure>,
}

/// Told why the volume failed.
type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

impl MountHooks {
    /// Hears nothing of importance until [`MountHooks::attach`].
    pub fn new(notices: Arc<Notices>, events: Arc<Events>, pins: Arc<Pins>) -> Arc<Self> {
        Arc::new(Self {
            notices,
            events,
            pins,
            table: OnceLock::new(),
            watchers: OnceLock::new(),
            volume: OnceLock::new(),
            fs: OnceLock::new(),
            failure: Mutex::default(),
            on_failure: OnceLock::new(),
        })
    }

    /// Who tells programs of changes by inotify.
    pub(crate) fn attach_watchers(&self, watchers: &Arc<Watchers>) {
        // Attached once; a second time would name the same.
        let _ = self.watchers.set(Arc::clone(watchers));
    }

    /// The open files and the volume, as soon as there are any.
    pub fn attach(&self, table: &Arc<FileTable>, volume: &Arc<Volume>) {
        // Attached once; a second time would name the same things.
        let _ = self.table.set(Arc::downgrade(table));
        let _ = self.volume.set(Arc::downgrade(volume));
    }

    /// The mount, as soon as there is one.
    pub(crate) fn attach_file_system(&self, fs: &Arc<FileSystem>) {
        // Attached once; a second time would name the same.
        let _ = self.fs.set(Arc::downgrade(fs));
    }

    /// Who hears that the volume failed; at once if it did already.
    pub(crate) fn attach_failure(&self, hear: impl Fn(&str) + Send + Sync + 'static) {
        // Attached once; a second time would name the same.
        let _ = self.on_failure.set(Box::new(hear));
        if let (Some(reason), Some(hear)) = (self.failure(), self.on_failure.get()) {
            hear(&reason);
        }
    }

    /// Why the volume failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn volume(&self) -> Option<Arc<Volume>> {
        self.volume.get().and_then(Weak::upgrade)
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        let inode = self.volume().and_then(|volume| volume.look(|replica| replica.inode(file)));
        inode.and_then(|inode| inode.ok().flatten())
    }
}

impl Hooks for MountHooks {
    fn room_is_short(&self) {
        if let Some(table) = self.table.get().and_then(Weak::upgrade) {
            table.make_room();
        }
    }

    fn written(&self, through: Ticket) {
        if let Some(table) = self.table.get().and_then(Weak::upgrade) {
            table.written(through.0);
        }
    }

    fn invalidate_inode(&self, file: FileId, changed: Changed) {
        let inode = self.inode(file);
        let is_directory = inode.as_ref().is_some_and(|inode| inode.is_directory());
        if let Some(watchers) = self.watchers.get() {
            match changed {
                Changed::Content => watchers.content(file),
                // Those of a directory change with each name in it, and that is told by itself.
                Changed::Attributes if is_directory => {}
                Changed::Attributes => watchers.attributes(file),
            }
        }
        let stale = match changed {
            Changed::Content => {
                // First the open file, then the kernel: what it asks after dropping its pages is new.
                if let Some(table) = self.table.get().and_then(Weak::upgrade) {
                    table.changed_elsewhere(file);
                }
                if let Some(fs) = self.fs.get().and_then(Weak::upgrade) {
                    fs.follow(file);
                    return fs.forget_pages(file);
                }
                Stale::Pages
            }
            // The kernel keeps listings as pages of the directory.
            Changed::Attributes if is_directory => Stale::Pages,
            Changed::Attributes => {
                if let (Some(inode), Some(table)) = (inode, self.table.get().and_then(Weak::upgrade)) {
                    table.know(file, &inode);
                }
                Stale::Attributes
            }
        };
        self.notices.inode(file, stale);
    }

    fn invalidate_entry(&self, parent: FileId, name: &Name) {
        self.notices.entry(parent, name.clone());
        self.notices.inode(parent, Stale::Pages);
        if let Some(watchers) = self.watchers.get() {
            watchers.entry(parent, name);
        }
    }

    fn invalidate_all(&self) {
        // At once, by whoever carries out what the engine says: what comes from the parent next may be that it vouches, and from
        // then on the kernel must show nothing of before.
        if let Some(fs) = self.fs.get().and_then(Weak::upgrade) {
            fs.expire_all();
        }
    }

    fn give_back(&self, serial: wayfs_proto::RecallId, directories: &[FileId], names: CachedNames) -> bool {
        let Some(fs) = self.fs.get().and_then(Weak::upgrade) else { return false };
        let volume = self.volume.get().cloned();
        fs.give_back(directories.to_vec(), names, move || {
            if let Some(volume) = volume.and_then(|volume| volume.upgrade()) {
                volume.given_back(serial);
            }
        })
    }

    fn happened(&self, what: &Happening) {
        if let Some(volume) = self.volume() {
            self.events.tell_of(&volume, what);
        }
    }

    fn conflict(&self, conflict: RecordId) {
        tracing::warn!(%conflict, "two updates met: see `wayfs conflicts list`");
        let detail = "two updates met: see `wayfs conflicts list`".to_owned();
        self.events.tell(EventKind::Conflict, About { record: Some(conflict), detail, ..About::default() });
    }

    fn attention(&self, what: &str) {
        tracing::warn!(what, "attention");
        self.events.tell(EventKind::Attention, About { detail: what.to_owned(), ..About::default() });
    }

    fn failed(&self, reason: &str) {
        tracing::error!(reason, "the volume stopped");
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        self.events.tell(EventKind::Attention, About { detail: reason.to_owned(), ..About::default() });
        if let Some(hear) = self.on_failure.get() {
            hear(reason);
        }
    }

    fn session_changed(&self, change: &SessionChange) {
        if change.neighbour != Neighbour::Parent {
            return;
        }
        let (kind, detail) = match &change.event {
            SessionEvent::Up => (EventKind::Connected, format!("connected to {}", change.node.short())),
            SessionEvent::Down(why) => (EventKind::Disconnected, format!("{}: {why}", change.node.short())),
        };
        tracing::info!(detail, "parent");
        self.events.tell(kind, About { detail, ..About::default() });
    }

    fn is_pinned(&self, file: FileId) -> bool {
        self.volume().is_some_and(|volume| self.pins.covers(&volume, file))
    }
}
