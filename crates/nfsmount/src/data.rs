//! Opening, reading, writing, closing.

use crate::asker::{Asker, LOOK};
use crate::fail::Fail;
use crate::flushing::Until;
use crate::nodes::Node;
use crate::open_file::{Access, OpenFile, now};
use crate::vfs::{Vfs, is_stale};
use crate::workers::Work;
use crate::write_behind::Parts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;
use wayfs_fuse::{Errno, FileHandle, OpenFlags, Opened};
use wayfs_nfs::calls::{self, Place};
use wayfs_nfs::live::{Class, Outcome, Ticket};
use wayfs_nfs::operations::{self, Calls};
use wayfs_nfs::{Handle, Status, results};

/// Answers of a read that bring nothing new.
const EMPTY_MAX: u32 = 3;

impl Vfs {
    /// Opens a file after a look at its name: what others closed before is seen. A name that leads to another file now makes the
    /// kernel look the path up again.
    pub(crate) fn open(self: &Arc<Self>, asker: &mut Asker<'_>, node: &Arc<Node>, flags: i32) -> Result<Opened, Fail> {
        self.look_at_name(asker, node)?;
        let may_keep = self.may_keep_pages(node);
        let access = Access::of(flags);
        let mut opened = OpenFlags::default();
        if may_keep {
            opened = opened.with(OpenFlags::KEEP_CACHE);
        }
        if access == Access::Read {
            opened = opened.with(OpenFlags::NOFLUSH);
        }
        Ok(Opened::new(self.add_open(asker, node, access), opened))
    }

    fn look_at_name(self: &Arc<Self>, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<(), Fail> {
        let (name, is_silly, is_clean) = {
            let state = node.lock();
            (state.name.clone(), state.silly.is_some(), state.file.behind.is_clean())
        };
        let parent = name.as_ref().and_then(|(parent, _)| self.nodes.find(wayfs_fuse::Inode::new(*parent)));
        if !is_silly
            && is_clean
            && let (Some((_, name)), Some(parent)) = (&name, parent)
        {
            let found =
                self.on(asker, &parent, |asker, directory| operations::lookup(asker, Place { directory, name }));
            match found {
                Ok(found) if found.handle == node.handle() => {
                    self.learn(node, found.attributes)?;
                    return Ok(());
                }
                // After a restart, servers may call it by another handle.
                Ok(found) if found.attributes.file_id == node.lock().attributes.file_id => {
                    self.nodes.rebind(node, &found.handle);
                    self.learn(node, found.attributes)?;
                    return Ok(());
                }
                Ok(_) | Err(Fail(Errno::NOENT | Errno::STALE)) => return Err(Fail(Errno::STALE)),
                Err(fail) => return Err(fail),
            }
        }
        let attributes = self.on(asker, node, operations::attributes)?;
        self.learn(node, attributes)?;
        Ok(())
    }

    /// Notes that a program has it open.
    pub(crate) fn add_open(&self, asker: &Asker<'_>, node: &Node, access: Access) -> FileHandle {
        let handle = self.next_handle();
        let mut state = node.lock();
        state.opens += 1;
        if access == Access::Write {
            state.file.who = Some(Arc::clone(&asker.who));
        }
        let refusals = state.file.refusals;
        drop(state);
        self.files().insert(handle, Arc::new(OpenFile::new(node.inode(), access, refusals)));
        FileHandle::new(handle)
    }

    /// A program has closed it for the last time.
    pub(crate) fn release(self: &Arc<Self>, handle: FileHandle) {
        let Some(file) = self.files().remove(&handle.number()) else { return };
        let Some(node) = self.nodes.find(file.inode) else { return };
        let silly = {
            let mut state = node.lock();
            state.opens = state.opens.saturating_sub(1);
            if state.opens > 0 {
                return;
            }
            let silly = state.silly.take();
            if silly.is_some() {
                // Nobody can see it any more.
                state.file.behind.discard();
            }
            silly
        };
        if let Some(name) = silly {
            let vfs = Arc::clone(self);
            self.workers.push(Work::Job(Box::new(move || vfs.remove_silly(&name))));
        }
        self.nodes.settle(&node);
    }

    /// Takes in what a program writes; it leaves behind its back.
    pub(crate) fn write(
        self: &Arc<Self>,
        asker: &mut Asker<'_>,
        handle: FileHandle,
        (offset, bytes): (u64, &[u8]),
    ) -> Result<u32, Fail> {
        let file = self.file(handle)?;
        let node = self.node(file.inode)?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Fail(Errno::FBIG));
        }
        self.make_room(asker, &node)?;
        let mut state = node.lock();
        // A disk that is full is told of with the next write already.
        file.news(&state.file)?;
        state.file.behind.write(offset, bytes);
        state.file.written_at = Some(now());
        state.file.dirty_since.get_or_insert_with(Instant::now);
        // The kernel has pages of a version that nobody else knows.
        state.pages_of = None;
        drop(state);
        self.pump(&node, Parts::Full);
        Ok(u32::try_from(bytes.len()).unwrap_or(u32::MAX))
    }

    /// A program closes (or syncs): everything is on the server's disk afterwards, or the program hears why not.
    pub(crate) fn sync(self: &Arc<Self>, asker: &mut Asker<'_>, handle: FileHandle) -> Result<(), Fail> {
        let file = self.file(handle)?;
        let node = self.node(file.inode)?;
        if file.access == Access::Write || !node.lock().file.behind.is_clean() {
            self.flush(asker, &node, Until::Committed)?;
        }
        Ok(file.news(&node.lock().file)?)
    }

    /// Bytes of a file: in blocks, several calls in flight. Fewer only at its end.
    pub(crate) fn read(
        self: &Arc<Self>,
        asker: &mut Asker<'_>,
        node: &Arc<Node>,
        (offset, size): (u64, u32),
    ) -> Result<Vec<u8>, Fail> {
        if node.lock().file.behind.has_unwritten() {
            self.flush(asker, node, Until::Written)?;
        }
        let handle = node.handle();
        match self.read_from(asker, &handle, offset, size)? {
            Ok(bytes) => Ok(bytes),
            Err(status) if is_stale(status) => match self.look_again(asker, node, 64)? {
                Some(handle) => Ok(self.read_from(asker, &handle, offset, size)??),
                None => Err(Fail(Errno::STALE)),
            },
            Err(status) => Err(status.into()),
        }
    }

    fn read_from(
        &self,
        asker: &mut Asker<'_>,
        handle: &Handle,
        offset: u64,
        size: u32,
    ) -> Result<Result<Vec<u8>, Status>, Fail> {
        let mut reading = Reading::new(self, asker, handle, offset, size);
        let outcome = reading.run();
        reading.cancel();
        outcome
    }
}

/// A read in parts.
struct Reading<'a, 'b> {
    vfs: &'a Vfs,
    asker: &'a mut Asker<'b>,
    handle: &'a Handle,
    offset: u64,
    bytes: Vec<u8>,
    /// Bytes up to where the file ends, as far as is known.
    end: usize,
    in_flight: BTreeMap<u64, (Ticket, usize, u32)>,
    next: u64,
    empty: u32,
    jukebox: u32,
    sender: std::sync::mpsc::Sender<(u64, Outcome)>,
    receiver: Receiver<(u64, Outcome)>,
}

impl<'a, 'b> Reading<'a, 'b> {
    fn new(vfs: &'a Vfs, asker: &'a mut Asker<'b>, handle: &'a Handle, offset: u64, size: u32) -> Self {
        let (sender, receiver) = channel();
        let end = size as usize;
        Self {
            vfs,
            asker,
            handle,
            offset,
            bytes: vec![0; end],
            end,
            in_flight: BTreeMap::new(),
            next: 0,
            empty: 0,
            jukebox: 0,
            sender,
            receiver,
        }
    }

    fn run(&mut self) -> Result<Result<Vec<u8>, Status>, Fail> {
        let block = self.vfs.caller.read_block().max(512) as usize;
        let mut at = 0;
        while at < self.end {
            // Blocks end where multiples of their size do, so that two reads ask for the same ones.
            let len = (block - (self.offset as usize + at) % block).min(self.end - at);
            self.submit(at, len as u32);
            at += len;
        }
        while !self.in_flight.is_empty() {
            let (number, outcome) = self.next_answer()?;
            let Some((_, at, len)) = self.in_flight.remove(&number) else { continue };
            let (answer, _) = outcome?;
            match results::read(&answer, len)? {
                Err(Status::JUKEBOX) => {
                    self.jukebox += 1;
                    if !self.asker.wait_for_jukebox(self.jukebox)? {
                        return Ok(Err(Status::JUKEBOX));
                    }
                    self.submit(at, len);
                }
                Err(status) => return Ok(Err(status)),
                Ok(read) => self.take(at, len, &read)?,
            }
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(self.end);
        Ok(Ok(bytes))
    }

    fn take(&mut self, at: usize, len: u32, read: &results::ReadBytes<'_>) -> Result<(), Fail> {
        let bytes = read.bytes;
        let reached = at + bytes.len();
        self.bytes[at..reached].copy_from_slice(bytes);
        if read.is_end {
            self.end = self.end.min(reached);
        } else if (bytes.len() as u32) < len && reached < self.end {
            if bytes.is_empty() {
                self.empty += 1;
                if self.empty > EMPTY_MAX {
                    tracing::warn!("the server gives no bytes, and says that the file does not end");
                    return Err(Fail(Errno::IO));
                }
            }
            self.submit(reached, len - bytes.len() as u32);
        }
        Ok(())
    }

    fn submit(&mut self, at: usize, len: u32) {
        let number = self.next;
        self.next += 1;
        let sender = self.sender.clone();
        let call = calls::read(self.handle, self.offset + at as u64, len);
        let done = move |outcome| drop(sender.send((number, outcome)));
        let who = Arc::clone(&self.asker.who);
        let ticket = self.vfs.caller.submit(call, who, Class::Read(len), Box::new(done));
        self.in_flight.insert(number, (ticket, at, len));
    }

    fn next_answer(&self) -> Result<(u64, Outcome), Fail> {
        loop {
            match self.receiver.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if !self.asker.is_over() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(Fail(Errno::INTR)),
            }
        }
    }

    fn cancel(&mut self) {
        let tickets: Vec<Ticket> = self.in_flight.values().map(|(ticket, ..)| *ticket).collect();
        if !tickets.is_empty() {
            self.vfs.caller.cancel(&tickets);
        }
    }
}
