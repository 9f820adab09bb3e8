//! Handles of the kernel: in which way each reads, and which pages of the inode the kernel may have.

use super::body::Body;
use super::handle::{Access, Writes};
use super::kernel_pages::Renewal;
use super::kernel_way::{BackingId, KernelOpens, KernelWay, PASSTHROUGH_MIN, Register};
use super::open_file::OpenFile;
use super::state::Refreshed;
use super::table::FileTable;
use std::sync::Arc;
use wayfs_types::{FileId, RecordId};

impl FileTable {
    /// Decides how the kernel reads through a new handle; [`FileTable::kernel_close`] takes it back.
    pub fn kernel_open(&self, file: &OpenFile, access: Access, writes: Writes, register: &Register<'_>) -> KernelWay {
        let mut guard = file.state();
        let state = &mut *guard;
        let complete = match state.life.body() {
            Some(Body::Disk { file, present }) if present.contains(&(0..state.size)) => Some(file),
            Some(_) | None => None,
        };
        match &mut state.opens {
            KernelOpens::Passthrough { file: served, backing, count, .. } => {
                let is_same = complete.is_some_and(|complete| Arc::ptr_eq(complete, served));
                *count += 1;
                let backing = *backing;
                if access == Access::Read && is_same {
                    return KernelWay::Passthrough(backing);
                }
                if access == Access::Write {
                    if is_same && writes == Writes::Passthrough && state.try_join_passthrough() {
                        state.journal_image(&*self.contents, &self.files);
                        return KernelWay::Passthrough(backing);
                    }
                    state.watch_mappings();
                }
                return KernelWay::Direct(backing);
            }
            KernelOpens::Cached(count) => *count += 1,
            KernelOpens::None => {
                if access == Access::Read
                    && state.size >= PASSTHROUGH_MIN
                    && let Some(complete) = complete
                    && let Some(backing) = register(complete)
                {
                    state.opens =
                        KernelOpens::Passthrough { file: Arc::clone(complete), backing, count: 1, behind: None };
                    drop(guard);
                    // Pages that the kernel has from before are not kept right while reads pass them by.
                    self.map().pages.mix(file.id());
                    return KernelWay::Passthrough(backing);
                }
                if writes == Writes::Passthrough
                    && let Some((body, backing)) = state.hand_over(&self.files, register)
                {
                    state.opens = KernelOpens::Passthrough { file: body, backing, count: 1, behind: None };
                    state.journal_image(&*self.contents, &self.files);
                    drop(guard);
                    self.map().pages.mix(file.id());
                    return KernelWay::Passthrough(backing);
                }
                state.opens = KernelOpens::Cached(1);
            }
        }
        let version = state.base.version;
        drop(guard);
        let keep = self.map().pages.open(file.id(), version);
        KernelWay::Cached { keep }
    }

    /// Ends a handle's way of reading; returns the registration to take back after the last one.
    pub fn kernel_close(&self, file: &OpenFile, access: Access, way: KernelWay) -> Option<BackingId> {
        let mut state = file.state();
        if let (KernelWay::Passthrough(_), Access::Write) = (way, access) {
            state.life.passthrough_ended();
        }
        match (&mut state.opens, way) {
            (KernelOpens::Cached(count), KernelWay::Cached { .. }) => {
                *count -= 1;
                if *count == 0 {
                    state.opens = KernelOpens::None;
                }
                let was_behind = state.life.shows_its_own();
                drop(state);
                if was_behind {
                    // What was read through the handle is not what others are told that the file is.
                    self.map().pages.mix(file.id());
                }
                None
            }
            (KernelOpens::Passthrough { count, backing, .. }, KernelWay::Passthrough(_) | KernelWay::Direct(_)) => {
                *count -= 1;
                let backing = *backing;
                if *count > 0 {
                    return None;
                }
                state.opens = KernelOpens::None;
                state.end_watch();
                if access == Access::Write {
                    // The journal may say that the bytes are there.
                    let former = state.life.body().cloned();
                    state.take_in_small();
                    state.tend_journal(&*self.contents, &self.files);
                    drop(former);
                }
                Some(backing)
            }
            _ => None,
        }
    }

    /// Looks after files that programs may have mapped by passthrough; called once a second or so. Answers which of them took
    /// in news that had come meanwhile: the kernel may have read their old bytes again since it was told.
    pub fn watch_mappings(&self) -> Vec<FileId> {
        let mut caught_up = Vec::new();
        let files: Vec<Arc<OpenFile>> = self.map().entries.values().map(|entry| Arc::clone(&entry.file)).collect();
        for file in files {
            // First the lock, then the question: see [`FileTable::open_file`].
            let mut state = file.state();
            if !state.life.is_watched() {
                continue;
            }
            state.end_watch();
            let missed = state.life.has_missed_news();
            let inode = self.contents.inode(file.id()).filter(|_| !state.life.is_watched());
            let refreshed = inode.map_or(Refreshed::No, |inode| state.refresh(&inode));
            if missed && !state.life.has_missed_news() {
                caught_up.push(file.id());
            }
            drop(state);
            self.note_refresh(file.id(), refreshed);
            self.settle(&mut self.map(), file.id());
        }
        caught_up
    }

    /// The kernel dropped its inode, and its pages with it.
    pub fn kernel_forgot(&self, file: FileId) {
        let mut map = self.map();
        // It may have asked for it again before we hear of it.
        match map.entries.get(&file).is_some_and(|entry| entry.handles > 0) {
            true => map.pages.mix(file),
            false => map.pages.forget(file),
        }
    }

    /// The kernel put bytes into its pages where they are not.
    pub fn pages_are_wrong(&self, file: FileId) {
        self.map().pages.mix(file);
    }

    /// Which pages the kernel is to forget before it is told of a version of a file; `None`: it has none of another one.
    pub fn pages_to_renew(&self, file: FileId, shown: RecordId) -> Option<Renewal> {
        let are_of_it = self.map().pages.are_of(file, shown)?;
        let open = self.find(file);
        if are_of_it && open.as_ref().is_none_or(|open| open.state().base.version == shown) {
            return None;
        }
        // The engine may know of a change of which it has not told yet: what is read when the pages are gone is to be new.
        self.changed_elsewhere(file);
        self.pages_of_others(file)
    }

    /// Which pages of other versions than the one that it reads here the kernel may have.
    pub fn pages_of_others(&self, file: FileId) -> Option<Renewal> {
        if !self.map().pages.may_be_there(file) {
            return None;
        }
        let version = match self.find(file) {
            Some(open) => open.state().base.version,
            None => self.contents.inode(file)?.version,
        };
        self.map().pages.renewal(file, version)
    }

    /// The kernel forgot them.
    pub fn pages_renewed(&self, renewal: &Renewal) {
        self.map().pages.renewed(renewal);
    }
}
