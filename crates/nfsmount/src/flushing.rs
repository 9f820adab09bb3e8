//! Writing behind: parts leave as soon as they are whole, everything when a program closes or syncs.

use crate::asker::{Asker, LOOK};
use crate::fail::Fail;
use crate::nodes::{Node, NodeState};
use crate::vfs::{Vfs, is_stale};
use crate::workers::Work;
use crate::write_behind::{Part, PartId, Parts};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wayfs_fuse::Errno;
use wayfs_nfs::calls::{self, Stability};
use wayfs_nfs::live::{Class, LiveError, Outcome};
use wayfs_nfs::operations::{self, jukebox_pause};
use wayfs_nfs::{Status, WaitPolicy, results};

/// Parts of one file in flight or waiting for the window; more would only be chosen too early.
const PARTS_MAX: usize = 32;
/// Bytes of a file in memory, and of them uncommitted: a writer waits beyond that.
const FILE_MAX: u64 = 16 << 20;
const UNSTABLE_MAX: u64 = 8 << 20;
/// What was not written to for so long is sent although its last block is not full.
const AGE: Duration = Duration::from_secs(2);
/// How often a server may lose what it has not committed while one sync waits.
const RESTARTS_MAX: u32 = 100;

/// How far a flush goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The server has it.
    Written,
    /// Its disk has it.
    Committed,
}

impl Vfs {
    /// Sends what may leave.
    pub(crate) fn pump(self: &Arc<Self>, node: &Arc<Node>, parts: Parts) {
        loop {
            let (part, handle, who) = {
                let mut state = node.lock();
                let file = &mut state.file;
                let must_wait = file.is_stale || file.not_before.is_some_and(|at| at > Instant::now());
                if must_wait || file.behind.sending() >= PARTS_MAX {
                    return;
                }
                let Some(part) = file.behind.take(self.caller.write_block(), parts) else { return };
                let who = file.who.clone().unwrap_or_else(|| Arc::clone(&self.own));
                (part, state.handle.clone(), who)
            };
            // A small file in one durable write needs no commit behind it.
            let stability =
                if parts == Parts::All && part.is_alone { Stability::FileSync } else { Stability::Unstable };
            let Part { id, offset, bytes, .. } = part;
            let len = bytes.len() as u32;
            let call = calls::write(&handle, offset, &bytes, stability);
            let (vfs, node) = (Arc::clone(self), Arc::clone(node));
            let done = move |outcome| vfs.written(&node, id, len, outcome);
            self.caller.submit(call, who, Class::Write(len), Box::new(done));
        }
    }

    /// A write was answered, or will not be. Runs on the thread of calls.
    fn written(self: &Arc<Self>, node: &Arc<Node>, id: PartId, len: u32, outcome: Outcome) {
        {
            let mut state = node.lock();
            match outcome.and_then(|(results, _)| Ok(results::write(&results, len)?)) {
                Ok(Ok(written)) => {
                    let verifier = (!written.is_durable).then_some(written.verifier);
                    state.file.behind.wrote(id, written.count, verifier);
                    state.file.jukebox_times = 0;
                    if let Some(attributes) = written.attributes {
                        state.learn_late(attributes);
                    }
                }
                Ok(Err(status)) => self.not_written(&mut state, id, status),
                // The mount ends: the bytes are counted there.
                Err(LiveError::Interrupted) => state.file.behind.again(id),
                Err(error) => self.refused(&mut state, id, Fail::from(error).0),
            }
            if !state.file.behind.has_unwritten() {
                state.file.dirty_since = None;
            }
        }
        node.changed.notify_all();
        self.pump(node, Parts::Full);
    }

    fn not_written(&self, state: &mut NodeState, id: PartId, status: Status) {
        let file = &mut state.file;
        if is_stale(status) && !file.is_stale {
            file.behind.again(id);
            file.is_stale = true;
        } else if is_stale(status) {
            file.behind.again(id);
        } else if status == Status::JUKEBOX {
            file.jukebox_times += 1;
            if matches!(self.caller.wait_policy(), WaitPolicy::Soft(most) if file.jukebox_times >= most) {
                return self.refused(state, id, Fail::from(status).0);
            }
            file.not_before = Some(Instant::now() + jukebox_pause(file.jukebox_times));
            file.behind.again(id);
        } else {
            self.refused(state, id, Fail::from(status).0);
        }
    }

    fn refused(&self, state: &mut NodeState, id: PartId, errno: Errno) {
        let bytes = state.file.behind.refused(id);
        tracing::warn!(file = state.attributes.file_id, bytes, %errno, "the server refuses what was written");
        self.lost.fetch_add(bytes, Ordering::Relaxed);
        state.file.refuse(errno);
    }

    /// Waits until everything that was written before is so far. What the server refuses is told by [`crate::open_file::OpenFile`].
    pub(crate) fn flush(self: &Arc<Self>, asker: &mut Asker<'_>, node: &Arc<Node>, until: Until) -> Result<(), Fail> {
        let mut restarts = 0;
        loop {
            if node.lock().file.is_stale {
                self.find_again(asker, node)?;
            }
            self.pump(node, Parts::All);
            let state = node.lock();
            let is_done = match until {
                Until::Written => !state.file.behind.has_unwritten(),
                Until::Committed => state.file.behind.is_clean(),
            };
            if is_done {
                return Ok(());
            }
            if state.file.behind.has_unwritten() || state.file.is_committing {
                drop(node.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner));
                if asker.is_over() {
                    return Err(Fail(Errno::INTR));
                }
                continue;
            }
            drop(state);
            restarts += 1;
            if restarts > RESTARTS_MAX {
                tracing::warn!("the server has another write verifier every time");
                return Err(Fail(Errno::IO));
            }
            self.commit(asker, node)?;
        }
    }

    /// The file of a stale handle is looked for; if it is gone, what was written to it is, too.
    fn find_again(&self, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<(), Fail> {
        let found = self.look_again(asker, node, 64)?;
        let mut state = node.lock();
        state.file.is_stale = false;
        if found.is_none() {
            let bytes = state.file.behind.discard();
            tracing::warn!(file = state.attributes.file_id, bytes, "the file is gone at the server");
            self.lost.fetch_add(bytes, Ordering::Relaxed);
            state.file.refuse(Errno::STALE);
        }
        Ok(())
    }

    fn commit(&self, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<(), Fail> {
        let (handle, point, who) = {
            let mut state = node.lock();
            if state.file.is_committing {
                return Ok(());
            }
            state.file.is_committing = true;
            let who = state.file.who.clone().unwrap_or_else(|| Arc::clone(&self.own));
            (state.handle.clone(), state.file.behind.commit_point(), who)
        };
        let mut asker = Asker { caller: asker.caller, who, waiter: asker.waiter.clone(), is_ending: asker.is_ending };
        let committed = operations::commit(&mut asker, &handle);
        let mut state = node.lock();
        state.file.is_committing = false;
        let result = match committed {
            Ok(Ok(verifier)) => {
                state.file.behind.committed(point, verifier);
                Ok(())
            }
            Ok(Err(status)) if is_stale(status) => {
                state.file.is_stale = true;
                Ok(())
            }
            // Whether its disk has it, nobody knows: it is kept, and goes to the server again with the next commit.
            Ok(Err(status)) => Err(Fail::from(status)),
            Err(fail) => Err(fail),
        };
        drop(state);
        node.changed.notify_all();
        result
    }

    /// Makes a writer wait while the file has too much in memory.
    pub(crate) fn make_room(self: &Arc<Self>, asker: &mut Asker<'_>, node: &Arc<Node>) -> Result<(), Fail> {
        let (len, unstable) = {
            let state = node.lock();
            (state.file.behind.len_in_memory(), state.file.behind.unstable_len())
        };
        if len > FILE_MAX || unstable > UNSTABLE_MAX {
            self.flush(asker, node, Until::Committed)?;
        }
        Ok(())
    }

    /// Once a second: what is old leaves, and what nobody has open any more is made durable.
    pub(crate) fn age(self: &Arc<Self>) {
        for node in self.nodes.all() {
            let is_due = {
                let state = node.lock();
                let file = &state.file;
                let is_old = file.dirty_since.is_some_and(|since| since.elapsed() > AGE);
                is_old || (state.opens == 0 && !file.behind.is_clean())
            };
            if !is_due {
                continue;
            }
            let vfs = Arc::clone(self);
            self.workers.push(Work::Job(Box::new(move || {
                let mut asker = vfs.asker(Arc::clone(&vfs.own), crate::users::Waiter::nobody());
                let until = if node.lock().opens == 0 { Until::Committed } else { Until::Written };
                // Whoever has it open is told of refusals; a wait ends with the mount only.
                let _ = vfs.flush(&mut asker, &node, until);
                vfs.nodes.settle(&node);
            })));
        }
    }

    /// Bytes that the server does not keep for sure.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.nodes.all().iter().map(|node| node.lock().file.behind.len_in_memory()).sum()
    }

    /// Files with such bytes.
    pub(crate) fn pending_files(&self) -> u64 {
        self.nodes.all().iter().filter(|node| !node.lock().file.behind.is_clean()).count() as u64
    }

    /// Makes all files durable, until a time.
    pub(crate) fn flush_all(self: &Arc<Self>, until: Instant) {
        while self.pending_bytes() > 0 && Instant::now() < until && !self.is_ending.load(Ordering::Relaxed) {
            for node in self.nodes.all() {
                let mut state = node.lock();
                if !state.file.behind.is_clean() {
                    // Old, as far as `age` is concerned.
                    state.file.dirty_since = Instant::now().checked_sub(AGE * 2).or(state.file.dirty_since);
                }
            }
            self.age();
            std::thread::sleep(LOOK);
        }
    }

    /// After the last request: what is left is written, names that waited for their files to be closed go; until a time, or not at all
    /// if the mount was ended by force.
    pub(crate) fn finish(self: &Arc<Self>, until: Instant) {
        let (sender, done) = std::sync::mpsc::channel::<()>();
        let vfs = Arc::clone(self);
        let limit = std::thread::spawn(move || {
            let left = until.saturating_duration_since(Instant::now());
            if done.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                vfs.is_ending.store(true, Ordering::SeqCst);
            }
        });
        let mut asker = self.asker(Arc::clone(&self.own), crate::users::Waiter::nobody());
        for node in self.nodes.all() {
            let silly = node.lock().silly.take();
            match silly {
                Some(name) => self.remove_silly(&name),
                // What the server refuses is counted where it is refused.
                None => drop(self.flush(&mut asker, &node, Until::Committed)),
            }
        }
        drop(sender);
        if limit.join().is_err() {
            tracing::error!("the thread that bounds the end panicked");
        }
    }
}
