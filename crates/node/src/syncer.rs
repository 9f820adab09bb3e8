//! The thread that makes things durable: one sync serves all who asked meanwhile.
//!
//! Contents are synced before metadata, so that no durable record names a content whose chunks
//! a crash could take. Whoever needs only contents durable (a push that arrived) shares the same syncs.
//! What nobody wants durable is handed to the system after a moment all the same, so that it outlives the process.

use crate::metrics::Histogram;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_types::{StorageError, Ticket};

type Done = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Most contents that may wait for one sync; the next ones are refused.
const WAITING_MAX: usize = 65_536;

/// How long commits that nobody wants durable stay in the memory of this process: that much a killed process may
/// lose of them. As long as a few syncs of a slow disk; less costs a wake-up and a write for each change.
const WRITE_AFTER: Duration = Duration::from_millis(10);

#[derive(Default)]
struct State {
    wanted: Ticket,
    durable: Ticket,
    contents: Vec<Done>,
    /// When the first commit came that was neither written nor synced.
    unwritten_since: Option<Instant>,
    /// The thread sleeps until it is woken. Else it looks by itself within [`WRITE_AFTER`].
    is_asleep: bool,
    failed: Option<StorageError>,
    stop: bool,
}

/// What is to be made durable. A leaf in the order of locks. Whoever wakes the thread has let go of the lock: the thread would
/// only run into it, and on a busy core its waker would not go on to release it for a while.
#[derive(Default)]
pub(crate) struct SyncQueue {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

/// One turn of the thread.
enum Turn {
    /// Someone waits for the disk.
    Sync { ticket: Option<Ticket>, contents: Vec<Done> },
    /// Nobody waits, and it is time to write what was committed.
    Write,
}

impl SyncQueue {
    /// Everything up to `ticket` is to be durable soon.
    pub(crate) fn want(&self, ticket: Ticket) {
        let is_new = {
            let mut state = self.lock();
            let is_new = ticket > state.wanted;
            state.wanted = state.wanted.max(ticket);
            is_new
        };
        if is_new {
            self.work.notify_one();
        }
    }

    /// Something was committed.
    pub(crate) fn note_commit(&self) {
        let is_first = {
            let mut state = self.lock();
            let is_first = state.unwritten_since.is_none();
            state.unwritten_since.get_or_insert_with(Instant::now);
            is_first && state.is_asleep
        };
        if is_first {
            self.work.notify_one();
        }
    }

    /// Calls back when all chunks put so far are durable.
    pub(crate) fn want_contents(&self, done: Done) {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            let error = error.clone();
            drop(state);
            return done(Err(error));
        }
        if state.stop || state.contents.len() >= WAITING_MAX {
            drop(state);
            return done(Err(StorageError::Io("the queue of the syncer is closed or full".into())));
        }
        state.contents.push(done);
        drop(state);
        self.work.notify_one();
    }

    /// Blocks until `ticket` is durable.
    pub(crate) fn wait(&self, ticket: Ticket, patience: Duration) -> Result<(), StorageError> {
        self.want(ticket);
        let end = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            if state.durable >= ticket {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let left = end.checked_duration_since(Instant::now());
            let Some(left) = left.filter(|_| !state.stop) else {
                return Err(StorageError::Io("the disk did not sync in time".into()));
            };
            state = self.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn stop(&self) {
        let left = {
            let mut state = self.lock();
            state.stop = true;
            std::mem::take(&mut state.contents)
        };
        self.work.notify_all();
        self.done.notify_all();
        for done in left {
            done(Err(StorageError::Io("the volume stopped".into())));
        }
    }

    fn next(&self) -> Option<Turn> {
        let mut state = self.lock();
        let mut is_drowsy = false;
        loop {
            if state.stop {
                return None;
            }
            let is_broken = state.failed.is_some();
            let ticket = (state.wanted > state.durable && !is_broken).then_some(state.wanted);
            if ticket.is_some() || !state.contents.is_empty() {
                if ticket.is_some() {
                    state.unwritten_since = None;
                }
                return Some(Turn::Sync { ticket, contents: std::mem::take(&mut state.contents) });
            }
            let Some(since) = state.unwritten_since.filter(|_| !is_broken) else {
                // Where something was committed, more is: to be woken for it would cost whoever commits more than to look
                // once more.
                if is_drowsy {
                    state.is_asleep = true;
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.is_asleep = false;
                } else {
                    let (next, waited) =
                        self.work.wait_timeout(state, WRITE_AFTER).unwrap_or_else(PoisonError::into_inner);
                    state = next;
                    is_drowsy = waited.timed_out();
                }
                continue;
            };
            let Some(left) = WRITE_AFTER.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                state.unwritten_since = None;
                return Some(Turn::Write);
            };
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn finished(&self, ticket: Option<Ticket>, result: &Result<(), StorageError>) {
        let mut state = self.lock();
        match (ticket, result) {
            (Some(ticket), Ok(())) => state.durable = state.durable.max(ticket),
            (None, Ok(())) => {}
            // Room may come back: the same is tried again with the next wish.
            (_, Err(StorageError::NoSpace)) => {}
            (_, Err(error)) => state.failed = Some(error.clone()),
        }
        drop(state);
        self.done.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a sync that found no room is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// What the thread works with.
pub(crate) struct Stores<C, W, R, P> {
    /// Makes all chunks durable.
    pub(crate) sync_chunks: C,
    /// Hands what is committed to the system.
    pub(crate) write_records: W,
    /// Makes what is committed durable, up to a ticket at least.
    pub(crate) sync_records: R,
    /// Prepares for the next sync, when those who waited for the last were told.
    pub(crate) make_ready: P,
}

/// Runs until [`SyncQueue::stop`]. How long each sync took goes to `took`.
pub(crate) fn run(
    queue: &Arc<SyncQueue>,
    mut stores: Stores<
        impl FnMut() -> Result<(), StorageError>,
        impl FnMut() -> Result<(), StorageError>,
        impl FnMut(Ticket) -> Result<(), StorageError>,
        impl FnMut(),
    >,
    took: &Histogram,
    mut stored: impl FnMut(Result<Ticket, StorageError>),
) {
    while let Some(turn) = queue.next() {
        let (ticket, contents) = match turn {
            Turn::Sync { ticket, contents } => (ticket, contents),
            Turn::Write => {
                let result = (stores.write_records)();
                queue.finished(None, &result);
                if let Err(error) = result {
                    stored(Err(error));
                }
                continue;
            }
        };
        let began = Instant::now();
        let chunks = (stores.sync_chunks)();
        let result = match (ticket, chunks.clone()) {
            (Some(ticket), Ok(())) => (stores.sync_records)(ticket),
            (_, chunks) => chunks,
        };
        took.observe(began.elapsed());
        queue.finished(ticket, &result);
        for done in contents {
            done(chunks.clone());
        }
        match (ticket, result) {
            (Some(ticket), Ok(())) => {
                stored(Ok(ticket));
                (stores.make_ready)();
            }
            (_, Err(StorageError::NoSpace)) => std::thread::sleep(RETRY),
            (_, Err(error)) => stored(Err(error)),
            (None, Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn contents_are_synced_before_records_and_asked_once() {
        let queue = Arc::new(SyncQueue::default());
        let (log, heard) = mpsc::channel();
        queue.want(Ticket(3));
        queue.want(Ticket(2));
        let (thread_queue, chunk_log, record_log, write_log) = (Arc::clone(&queue), log.clone(), log.clone(), log);
        let took = Arc::new(Histogram::default());
        let thread_took = Arc::clone(&took);
        let thread = std::thread::spawn(move || {
            run(
                &thread_queue,
                Stores {
                    sync_chunks: || {
                        let _ = chunk_log.send("chunks".to_owned());
                        Ok(())
                    },
                    write_records: || {
                        let _ = write_log.send("written".to_owned());
                        Ok(())
                    },
                    sync_records: |ticket| {
                        let _ = record_log.send(format!("records {ticket}"));
                        Ok(())
                    },
                    make_ready: || {},
                },
                &thread_took,
                |_| {},
            );
        });
        queue.wait(Ticket(3), Duration::from_secs(5)).unwrap();
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "chunks");
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "records 3");
        queue.note_commit();
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "written", "though nobody waits for it");
        queue.stop();
        thread.join().unwrap();
        assert_eq!(took.count(), 1, "a write is no sync");
    }

    #[test]
    fn whoever_waits_when_it_stops_is_told() {
        let queue = Arc::new(SyncQueue::default());
        let (send, receive) = mpsc::channel();
        queue.want_contents(Box::new(move |result| send.send(result.is_err()).unwrap()));
        queue.stop();
        assert!(receive.recv_timeout(Duration::from_secs(5)).unwrap());
        assert!(queue.wait(Ticket(1), Duration::from_millis(10)).is_err());
    }
}
