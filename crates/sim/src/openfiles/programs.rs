//! Programs of a client: what they do with files that others have open, too.

use super::event::OpenEvent;
use super::handle::{Handle, HandleNumber, Waits};
use super::side::AT_ONCE;
use super::view::ALL;
use crate::coverage::Branch;
use crate::host::{Expectation, name_of};
use crate::world::World;
use rand::Rng;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wayfs_openfiles::open_file::Extend;
use wayfs_openfiles::{Access, EarlyClose, OpenFile};
use wayfs_types::request::Request;
use wayfs_types::{FileId, FsError};

/// Most handles of a client.
const HANDLES_MAX: usize = 4;
/// What a disk has room for.
const ROOM: u64 = 1 << 30;

/// What became of a write.
pub(super) struct Sent {
    /// Where its first byte is.
    went: u64,
    /// What the file was before.
    before: Vec<u8>,
}

impl World {
    /// One step of a program, and the next one planned. In a healed world programs close what they have.
    pub(super) fn run_program(&mut self, index: usize) {
        if !self.healed || !self.is_all_closed(index) {
            let think = self.plan.think.as_micros() as u64;
            let next = Duration::from_micros(self.random.random_range(think / 4..think * 2));
            self.open_event_after(index, next, OpenEvent::Program);
        }
        if self.healed {
            return self.close_one(index);
        }
        self.step(index + 1, |world| {
            let one_in = world.plan.open_files.map_or(u32::MAX, |plan| plan.ends_one_in);
            if world.random.random_ratio(1, one_in) {
                let writes = world.random.random_range(1..8);
                if let Some(open) = world.hosts[index].open.as_ref() {
                    open.disk.end_after(writes);
                }
            }
            world.use_files(index);
        });
    }

    fn use_files(&mut self, index: usize) {
        let handles = self.hosts[index].open.as_ref().map_or(&[][..], |open| &open.handles);
        if handles.is_empty() || handles.len() < HANDLES_MAX && self.random.random_bool(0.15) {
            return self.open_a_file(index);
        }
        let number = handles[self.random.random_range(0..handles.len())].number;
        match self.random.random_range(0..24) {
            0..9 => {
                let offset = self.offset();
                self.write(index, number, offset);
            }
            9..11 => self.truncate(index, number),
            11 => self.zero(index, number),
            12..14 => self.sync_handle(index, number),
            14..18 => self.close(index, number),
            18 => self.read_part(index, number),
            _ => {
                let handle = self.handle(index, number, Access::Read);
                if let Some((open, access)) = handle.map(|handle| (Arc::clone(&handle.open), handle.access)) {
                    self.use_pages(index, &open, access);
                }
            }
        }
    }

    fn open_a_file(&mut self, index: usize) {
        let files = self.open_files().to_vec();
        let number = self.random.random_range(0..files.len().max(1));
        let Some(file) = files.get(number).copied() else { return };
        // The walk to its name: where the parent is to be asked, its answer comes with the next open.
        let walk = Request::Lookup { parent: FileId::ROOT, name: name_of(&format!("open{number}")) };
        self.ask(index, walk, Expectation::Nothing);
        if self.random.random_ratio(1, 20) {
            self.drop_inode(index, file);
        }
        let Some(inode) = self.inode(index, file) else { return };
        let access = if self.random.random_bool(0.7) { Access::Write } else { Access::Read };
        let empties = access == Access::Write && self.random.random_bool(0.2);
        let appends = access == Access::Write && !empties && self.random.random_bool(0.3);
        self.note(|| format!("host {index} opens {file}: {access:?}, empties {empties}, appends {appends}"));
        let is_here = self.on_table(index, |table| table.find(file).is_some());
        if is_here == Some(false) {
            self.observe(index, file);
            let engine = self.engine_bytes(index, file).unwrap_or_default();
            if let Some(view) = self.view(index, file) {
                (view.bytes, view.record, view.is_unknown) = (engine, None, false);
                (view.is_dirty, view.appended_at, view.taken_at) = (false, None, None);
            }
        }
        // The kernel may believe the size that it was told last.
        if self.random.random_bool(0.5) || self.pages(index, file).is_some_and(|pages| !pages.knows_size) {
            self.look_at_size(index, file);
        }
        let Some(open) = self.on_table(index, |table| table.open_file(file, &inode, access)) else { return };
        self.observe(index, file);
        if empties {
            self.empty(index, file, &open);
        }
        let way = self.open_in_kernel(index, &open, access);
        let (Some(way), Some(host)) = (way, self.hosts[index].open.as_mut()) else { return };
        host.handles_opened += 1;
        let number = HandleNumber(host.handles_opened);
        host.handles.push(Handle { number, file, open: Arc::clone(&open), access, appends, way, waits: Waits::No });
        if access == Access::Read && self.random.random_bool(0.5) {
            self.read_pages(index, file, &open, ALL);
        }
    }

    fn empty(&mut self, index: usize, file: FileId, open: &OpenFile) {
        let Some(view) = self.view(index, file) else { return };
        let before = view.emptied.clone().filter(|_| view.is_dirty).unwrap_or_else(|| view.bytes.clone());
        let is_only_emptied = !view.is_dirty || view.emptied.is_some();
        let was_unknown = view.is_unknown;
        view.begin(Vec::new());
        let done = self.on_table(index, |table| table.empty(open, 0));
        self.acknowledge(index, file, done, None);
        if let (Some(Ok(())), Some(pages)) = (done, self.pages(index, file)) {
            pages.resize(0);
        }
        if let Some(view) = self.view(index, file) {
            view.emptied = Some(before).filter(|_| is_only_emptied);
            // What it was before cannot be told.
            view.is_unsure |= was_unknown;
        }
    }

    /// A program that asked for a change is told what became of it.
    fn acknowledge(
        &mut self,
        index: usize,
        file: FileId,
        done: Option<Result<(), FsError>>,
        appended_at: Option<usize>,
    ) {
        let Some(host) = self.hosts[index].open.as_mut() else { return };
        let view = host.views.entry(file).or_default();
        match done {
            Some(Ok(())) => {
                view.appended_at = appended_at.filter(|_| !view.is_dirty || view.appended_at.is_some());
                view.taken_at = view.taken_at.filter(|_| appended_at.is_some());
                view.acknowledge();
                view.emptied = None;
                let bytes = view.bytes.clone();
                if let Some(running) = host.commits.get_mut(&file).filter(|running| !running.views.is_empty()) {
                    running.views.push(bytes);
                }
                self.observe(index, file);
            }
            Some(Err(_)) => {
                view.next = None;
                self.cover(Branch::WriteRefused);
                self.observe(index, file);
            }
            // Nobody was told: the next process shows the one or the other.
            None => {}
        }
    }

    /// A handle whose program waits for nothing, and that can write if that is asked for.
    fn handle(&self, index: usize, number: HandleNumber, access: Access) -> Option<&Handle> {
        let handle = self.hosts[index].open.as_ref()?.handles.iter().find(|handle| handle.number == number)?;
        (handle.waits == Waits::No && (access == Access::Read || handle.access == access)).then_some(handle)
    }

    fn offset(&mut self) -> u64 {
        let scale = self.plan.open_files.map_or(1, |plan| plan.scale);
        self.random.random_range(0..scale)
    }

    /// Bytes that nobody wrote before.
    fn fresh_bytes(&mut self) -> Vec<u8> {
        let len = if self.random.random_bool(0.3) { self.offset() + 1 } else { self.random.random_range(1..300) };
        self.open_files.writes += 1;
        let mut mixed = self.open_files.writes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut byte = || {
            mixed ^= mixed << 13;
            mixed ^= mixed >> 7;
            mixed ^= mixed << 17;
            mixed.to_le_bytes()[3]
        };
        (0..len).map(|_| byte()).collect()
    }

    fn write(&mut self, index: usize, number: HandleNumber, offset: u64) {
        let Some(handle) = self.handle(index, number, Access::Write) else { return };
        let (file, open, appends) = (handle.file, Arc::clone(&handle.open), handle.appends);
        let data = self.fresh_bytes();
        let Some(pages) = self.pages(index, file) else { return };
        let place = if appends { pages.size } else { offset };
        let Some(Sent { went, before }) = self.send_write(index, &open, (!appends).then_some(offset), &data) else {
            return;
        };
        let Some(pages) = self.pages(index, file) else { return };
        pages.wrote(place, &data, &before);
        if went != place {
            pages.mix(&(place..place + data.len() as u64));
            self.on_table(index, |table| table.pages_are_wrong(file));
            self.tell_kernel(index, file);
        }
    }

    /// A request to write, at a place or at the end. What became of it, unless it failed.
    pub(super) fn send_write(
        &mut self,
        index: usize,
        open: &Arc<OpenFile>,
        place: Option<u64>,
        data: &[u8],
    ) -> Option<Sent> {
        let file = open.id();
        let view = self.view(index, file)?;
        let before = view.bytes.clone();
        let start = place.map_or(before.len(), |place| usize::try_from(place).unwrap_or(before.len()));
        let appended_at = place.is_none().then(|| view.appended_at.unwrap_or(before.len()));
        let mut next = before.clone();
        next.resize(before.len().max(start + data.len()), 0);
        next[start..start + data.len()].copy_from_slice(data);
        view.begin(next);
        self.note(|| format!("host {index} writes {} bytes of {file} at {start}, {place:?}", data.len()));
        let done = self.on_table(index, |table| table.write(open, place, data, 0));
        let is_known = self.view(index, file).is_some_and(|view| !view.is_unknown);
        if let Some(Ok(went)) = done
            && went != start as u64
            && is_known
        {
            self.violate("an append goes to the end", format!("host {index}, {file}: to {went} and not {start}"));
        }
        self.acknowledge(index, file, done.map(|done| done.map(|_| ())), appended_at);
        Some(Sent { went: done?.ok()?, before })
    }

    /// What the kernel drops of a file whose bytes are to be zeros.
    fn drop_range(&mut self, index: usize, file: FileId, range: Range<u64>) {
        self.write_back(index, file);
        if let Some(pages) = self.pages(index, file) {
            let numbers = pages.numbers(&range);
            pages.pages.retain(|number, _| !numbers.contains(number));
        }
    }

    /// A read through the kernel, or a store through a mapping.
    fn use_pages(&mut self, index: usize, open: &Arc<OpenFile>, access: Access) {
        if access == Access::Write && self.random.random_bool(0.3) {
            return self.store_in_page(index, open.id(), open);
        }
        let start = self.offset();
        let end = start + self.offset();
        self.read_pages(index, open.id(), open, start..end);
    }

    fn truncate(&mut self, index: usize, number: HandleNumber) {
        let Some(handle) = self.handle(index, number, Access::Write) else { return };
        let (file, open) = (handle.file, Arc::clone(&handle.open));
        let size = self.offset();
        let Some(view) = self.view(index, file) else { return };
        let before = view.bytes.clone();
        let mut next = before.clone();
        next.resize(usize::try_from(size).unwrap_or(0), 0);
        view.begin(next);
        self.note(|| format!("host {index} makes {file} {size} bytes long"));
        let done = self.on_table(index, |table| table.truncate(&open, size, 0));
        let is_answered = done.is_some();
        self.acknowledge(index, file, done, None);
        if let (Some(Ok(())), Some(pages)) = (done, self.pages(index, file)) {
            pages.extend(size, &before);
            pages.resize(size);
        }
        if is_answered && self.random.random_bool(0.4) {
            // As who writes a file anew in part: between there is a hole, whatever was there before.
            let scale = self.plan.open_files.map_or(1, |plan| plan.scale);
            let further = self.random.random_range(size..size + scale);
            self.write(index, number, further);
        }
    }

    fn zero(&mut self, index: usize, number: HandleNumber) {
        let Some(handle) = self.handle(index, number, Access::Write) else { return };
        let (file, open) = (handle.file, Arc::clone(&handle.open));
        let (start, len) = (self.offset(), self.offset());
        self.drop_range(index, file, start..start + len);
        let Some(view) = self.view(index, file) else { return };
        let mut next = view.bytes.clone();
        let ends = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(next.len());
        let range = ends(start)..ends(start + len);
        if range.is_empty() {
            return;
        }
        next[range].fill(0);
        view.begin(next);
        let is_unknown = view.is_unknown;
        self.note(|| format!("host {index} zeros {len} bytes of {file} at {start}"));
        let done = self.on_table(index, |table| table.zero(&open, start..start + len, Extend::No));
        self.acknowledge(index, file, done, None);
        if let Some(view) = self.view(index, file) {
            // It may have ended before that range: then all that is uncommitted is appended still (seed 180013365).
            view.may_move |= is_unknown && view.is_dirty;
        }
    }

    fn read_part(&mut self, index: usize, number: HandleNumber) {
        let Some(handle) = self.handle(index, number, Access::Read) else { return };
        let (file, open) = (handle.file, Arc::clone(&handle.open));
        let start = self.offset();
        let read = self.on_table(index, |table| table.read(&open, start..ALL.end, AT_ONCE));
        self.observe(index, file);
        let Some(view) = self.view(index, file).filter(|view| !view.is_unknown) else { return };
        let wanted = view.bytes.get(usize::try_from(start).unwrap_or(usize::MAX)..).unwrap_or_default();
        if let Some(Ok(bytes)) = read
            && bytes != wanted
        {
            let line = format!("host {index}, {file} from {start} on: {} bytes for {}", bytes.len(), wanted.len());
            self.violate("a part reads as the whole", line);
        }
    }

    fn sync_handle(&mut self, index: usize, number: HandleNumber) {
        let Some(handle) = self.handle(index, number, Access::Write) else { return };
        let file = handle.file;
        self.note(|| format!("host {index} syncs {file}"));
        self.write_back(index, file);
        self.set_waits(index, number, Waits::Sync);
        self.begin_commit(index, file, Some(number));
    }

    fn close_one(&mut self, index: usize) {
        let is_idle = |handle: &Handle| handle.waits == Waits::No;
        let idle = self.hosts[index].open.as_ref().and_then(|open| open.handles.iter().find(|handle| is_idle(handle)));
        if let Some(number) = idle.map(|handle| handle.number) {
            self.close(index, number);
        }
    }

    /// A close, which may have to wait for a commit first.
    fn close(&mut self, index: usize, number: HandleNumber) {
        let Some(handle) = self.handle(index, number, Access::Read) else { return };
        let (file, open) = (handle.file, Arc::clone(&handle.open));
        let reads = handle.access == Access::Read;
        self.note(|| format!("host {index} closes {file}"));
        if !reads {
            self.write_back(index, file);
        }
        if reads || open.is_only_emptied() {
            return self.end_handle(index, number);
        }
        self.set_waits(index, number, Waits::Close);
        if !open.is_dirty() {
            return self.committed_for(index, number);
        }
        let most = self.plan.open_files.map_or(0, |plan| plan.inline_commit_max);
        if open.dirty_len() > most {
            let early = self.on_table(index, |table| table.close_early(&open, ROOM));
            if early == Some(EarlyClose::Noted) {
                self.cover(Branch::ClosedEarly);
            }
            match early {
                Some(EarlyClose::Noted) => {
                    let span = self.millis(0..=400);
                    self.open_event_after(index, span, OpenEvent::Commit(file));
                    return self.end_handle(index, number);
                }
                Some(EarlyClose::BehindAnother | EarlyClose::Unfit) => {}
                None => return,
            }
        }
        self.begin_commit(index, file, Some(number));
    }

    /// The last of a handle.
    fn end_handle(&mut self, index: usize, number: HandleNumber) {
        let Some(open) = self.hosts[index].open.as_mut() else { return };
        let Some(at) = open.handles.iter().position(|handle| handle.number == number) else { return };
        let Handle { file, open, access, way, .. } = open.handles.remove(at);
        self.on_table(index, |table| table.kernel_close(&open, access, way));
        self.observe(index, file);
        let missed = self.on_table(index, |table| table.catch_up(&open));
        self.observe(index, file);
        self.on_table(index, |table| table.close_file(&open, access));
        self.observe(index, file);
        if missed == Some(true) {
            self.tell_kernel(index, file);
        }
        let is_left = self.on_table(index, |table| open.is_dirty() && !table.is_closing(file));
        if is_left == Some(true) && access == Access::Write {
            self.begin_commit(index, file, None);
        }
    }

    fn set_waits(&mut self, index: usize, number: HandleNumber, waits: Waits) {
        let handles = self.hosts[index].open.as_mut().map(|open| &mut open.handles);
        if let Some(handle) = handles.and_then(|handles| handles.iter_mut().find(|handle| handle.number == number)) {
            handle.waits = waits;
        }
    }

    fn waits(&self, index: usize, number: HandleNumber) -> Option<Waits> {
        let handles = &self.hosts[index].open.as_ref()?.handles;
        handles.iter().find(|handle| handle.number == number).map(|handle| handle.waits)
    }

    /// What a program waited for is committed.
    pub(super) fn committed_for(&mut self, index: usize, number: HandleNumber) {
        match self.waits(index, number) {
            Some(Waits::Sync) => self.wait_until_durable(index, number),
            Some(Waits::Close) => {
                let open = self.hosts[index].open.as_ref();
                let handle = open.and_then(|open| open.handles.iter().find(|handle| handle.number == number));
                let Some(open) = handle.map(|handle| Arc::clone(&handle.open)) else { return };
                match self.on_table(index, |table| table.waits_for_the_disk(&open)) {
                    Some(true) => self.wait_until_durable(index, number),
                    Some(false) => {
                        if let Some(view) = self.view(index, open.id()) {
                            view.closed();
                        }
                        self.end_handle(index, number);
                    }
                    None => {}
                }
            }
            Some(Waits::No) | None => {}
        }
    }

    fn wait_until_durable(&mut self, index: usize, number: HandleNumber) {
        let through = self.hosts[index].disk.0.borrow().sync_point().ticket.0;
        let span = self.millis(1..=20);
        self.open_event_after(index, span, OpenEvent::Durable { handle: number, through });
    }

    /// It failed, and the program goes on all the same.
    pub(super) fn let_go_on(&mut self, index: usize, number: HandleNumber) {
        match self.waits(index, number) {
            Some(Waits::Close) => self.end_handle(index, number),
            Some(Waits::Sync | Waits::No) | None => self.set_waits(index, number, Waits::No),
        }
    }

    pub(super) fn look_whether_durable(&mut self, index: usize, handle: HandleNumber, through: u64) {
        if self.hosts[index].disk.0.borrow().records_durable().0 < through {
            self.sync_for_open_files(index);
            let span = self.millis(10..=20);
            return self.open_event_after(index, span, OpenEvent::Durable { handle, through });
        }
        if self.waits(index, handle) == Some(Waits::Close) {
            return self.end_handle(index, handle);
        }
        self.set_waits(index, handle, Waits::No);
        self.note(|| format!("host {index} synced through handle {handle:?}"));
        self.cover(Branch::OpenFileSynced);
    }
}
