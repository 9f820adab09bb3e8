//! The thread that makes things durable: one sync serves all who asked meanwhile.
//!
//! Contents are synced before metadata, so that no durable record names a content whose chunks
//! a crash could take. And records are frozen before contents are synced: who puts a chunk and commits its record while the
//! chunks are being synced belongs to the next turn, since that sync may not have reached the chunk. Whoever needs only contents durable (a push that arrived) shares the same syncs.
//! What nobody wants durable is handed to the system after a moment all the same, so that it outlives the process.

use crate::metrics::Histogram;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;
use wayfs_types::{StorageError, Ticket};

type Done = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Most contents that may wait for one sync; the next ones are refused.
const WAITING_MAX: usize = 65_536;

/// How long contents wait for others that come at the same time, to share one sync: a sync costs more than what most contents are,
/// and whoever sends many waits for none of them alone.
const GATHER: Duration = Duration::from_millis(2);

/// How long commits that nobody wants durable stay in the memory of this process: that much a killed process may
/// lose of them. As long as a few syncs of a slow disk; less costs a wake-up and a write for each change.
const WRITE_AFTER: Duration = Duration::from_millis(10);

#[derive(Default)]
struct State {
    wanted: Ticket,
    durable: Ticket,
    contents: Vec<Done>,
    /// When the first of them came.
    contents_since: Option<Instant>,
    /// Contents that are on their way in.
    arriving: usize,
    /// When the first commit came that was neither written nor synced.
    unwritten_since: Option<Instant>,
    /// The thread sleeps until it is woken. Else it looks by itself within [`WRITE_AFTER`].
    is_asleep: bool,
    failed: Option<StorageError>,
    stop: bool,
}

impl State {
    /// How long contents still wait for others. One alone does not wait.
    fn gathers_for(&self, now: Instant) -> Option<Duration> {
        let since = self.contents_since.filter(|_| self.arriving + self.contents.len() > 1)?;
        GATHER.checked_sub(now.saturating_duration_since(since)).filter(|left| !left.is_zero())
    }
}

/// Contents that come in, until they wait for the disk themselves.
pub(crate) struct Arriving(Option<Arc<SyncQueue>>);

impl Arriving {
    fn came(mut self, state: &mut State) {
        state.arriving -= 1;
        self.0 = None;
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let Some(queue) = &self.0 else { return };
        let is_last = {
            let mut state = queue.lock();
            state.arriving -= 1;
            state.arriving == 0 && !state.contents.is_empty()
        };
        // Who was waited for does not come.
        if is_last {
            queue.work.notify_one();
        }
    }
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
    Sync { records: bool, contents: Vec<Done> },
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

    /// Calls back when all chunks put so far are durable, among them those that were arriving.
    pub(crate) fn want_contents(&self, arrived: Option<Arriving>, done: Done) {
        let mut state = self.lock();
        if let Some(arrived) = arrived {
            arrived.came(&mut state);
        }
        if let Some(error) = &state.failed {
            let error = error.clone();
            drop(state);
            return done(Err(error));
        }
        if state.stop || state.contents.len() >= WAITING_MAX {
            drop(state);
            return done(Err(StorageError::Io("the queue of the syncer is closed or full".into())));
        }
        // For the first the thread was woken, and since then it gathers, or looks again when its turn is over.
        let is_first = state.contents.is_empty();
        state.contents.push(done);
        state.contents_since.get_or_insert_with(Instant::now);
        drop(state);
        if is_first {
            self.work.notify_one();
        }
    }

    /// Contents come in, as long as the answer lives: those that came already may wait for them a moment.
    pub(crate) fn arriving(self: &Arc<Self>) -> Arriving {
        self.lock().arriving += 1;
        Arriving(Some(Arc::clone(self)))
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
            let records = state.wanted > state.durable && !is_broken;
            if records || !state.contents.is_empty() {
                if let Some(left) = state.gathers_for(Instant::now()).filter(|_| !records) {
                    state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
                if records {
                    state.unwritten_since = None;
                }
                state.contents_since = None;
                return Some(Turn::Sync { records, contents: std::mem::take(&mut state.contents) });
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

    /// What is on the disk. The engine hears of it after those who wait for it.
    #[cfg(test)]
    pub(crate) fn durable(&self) -> Ticket {
        self.lock().durable
    }

    /// A turn is over, and made everything durable up to a ticket, if records were asked for.
    fn finished(&self, result: &Result<Option<Ticket>, StorageError>) {
        let mut state = self.lock();
        match result {
            Ok(ticket) => state.durable = state.durable.max(ticket.unwrap_or_default()),
            // What was wanted is wanted still, and what was not written waits for the next turn.
            Err(error) if is_passing(error) => drop(state.unwritten_since.get_or_insert_with(Instant::now)),
            Err(error) => state.failed = Some(error.clone()),
        }
        drop(state);
        self.done.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error may be over with the next try: room and descriptors come back, and the disk catches up.
fn is_passing(error: &StorageError) -> bool {
    match error {
        StorageError::NoSpace | StorageError::Busy(_) => true,
        StorageError::Corrupt(_) | StorageError::Poisoned(_) | StorageError::Io(_) => false,
    }
}

/// Pause before what failed for a passing reason is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// What the thread works with.
pub(crate) struct Stores<F, C, W, R, P> {
    /// Closes what was committed so far, and names it.
    pub(crate) freeze: F,
    /// Makes all chunks durable that were put before.
    pub(crate) sync_chunks: C,
    /// Hands what is committed to the system.
    pub(crate) write_records: W,
    /// Makes what was frozen up to a ticket durable.
    pub(crate) sync_records: R,
    /// Prepares for the next sync, when those who waited for the last were told.
    pub(crate) make_ready: P,
}

/// Runs until [`SyncQueue::stop`]. How long each sync took goes to `took`.
pub(crate) fn run(
    queue: &Arc<SyncQueue>,
    mut stores: Stores<
        impl FnMut() -> Result<Ticket, StorageError>,
        impl FnMut() -> Result<(), StorageError>,
        impl FnMut() -> Result<(), StorageError>,
        impl FnMut(Ticket) -> Result<(), StorageError>,
        impl FnMut(),
    >,
    took: &Histogram,
    mut stored: impl FnMut(Result<Ticket, StorageError>),
) {
    while let Some(turn) = queue.next() {
        let (result, told) = match turn {
            Turn::Write => ((stores.write_records)().map(|()| None), Vec::new()),
            Turn::Sync { records, contents } => {
                let began = Instant::now();
                // Before the chunks: what is committed from here on may name some that their sync does not reach.
                let frozen = records.then(|| (stores.freeze)()).transpose();
                let chunks = (stores.sync_chunks)();
                let result = match (frozen, chunks.clone()) {
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                    (Ok(None), Ok(())) => Ok(None),
                    (Ok(Some(ticket)), Ok(())) => (stores.sync_records)(ticket).map(|()| Some(ticket)),
                };
                took.observe(began.elapsed());
                (result, contents.into_iter().map(|done| (done, chunks.clone())).collect())
            }
        };
        queue.finished(&result);
        for (done, chunks) in told {
            done(chunks);
        }
        match result {
            Ok(None) => {}
            Ok(Some(ticket)) => {
                stored(Ok(ticket));
                (stores.make_ready)();
            }
            Err(error) if is_passing(&error) => {
                warn!(%error, "not durable yet");
                std::thread::sleep(RETRY);
            }
            Err(error) => stored(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use wayfs_types::MetaStore as _;

    #[test]
    fn contents_wait_a_moment_for_others_and_never_alone() {
        let queue = Arc::new(SyncQueue::default());
        let nobody = || -> Done { Box::new(|_| {}) };
        let (gone, arriving) = (queue.arriving(), queue.arriving());
        queue.want_contents(None, nobody());
        let since = queue.lock().contents_since.unwrap();
        let left = |queue: &SyncQueue, past: Duration| queue.lock().gathers_for(since + past);
        assert_eq!(left(&queue, GATHER / 2), Some(GATHER / 2), "others are on their way");
        assert_eq!(left(&queue, GATHER), None);
        drop(gone);
        queue.want_contents(Some(arriving), nobody());
        let counted = |state: &State| (state.arriving, state.contents.len());
        assert_eq!(counted(&queue.lock()), (0, 2));
        assert_eq!(left(&queue, GATHER / 2), Some(GATHER / 2), "many come, and more may");
        assert_eq!(queue.lock().contents_since, Some(since), "the first waits no longer for it");
        queue.lock().contents.pop();
        assert_eq!(left(&queue, Duration::ZERO), None);
        queue.want(Ticket(1));
        assert!(matches!(queue.next(), Some(Turn::Sync { records: true, contents }) if contents.len() == 1));
        assert_eq!(queue.lock().contents_since, None);
    }

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
                    freeze: || Ok(Ticket(4)),
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
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "records 4");
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
        queue.want_contents(None, Box::new(move |result| send.send(result.is_err()).unwrap()));
        queue.stop();
        assert!(receive.recv_timeout(Duration::from_secs(5)).unwrap());
        assert!(queue.wait(Ticket(1), Duration::from_millis(10)).is_err());
    }

    /// Chunks as a disk has them: those that were put, and those that a sync reached.
    #[derive(Default)]
    struct ModelDisk {
        put: BTreeSet<u64>,
        durable: BTreeSet<u64>,
    }

    /// [S-fsync] What `fsync` promised is there after a power cut: also that of a store that came while the
    /// chunks of another were being synced.
    #[test]
    fn a_store_that_comes_while_chunks_are_synced_is_not_promised_with_them() {
        let scratch = tempfile::tempdir().unwrap();
        let data = wayfs_store::DataDir::open(scratch.path(), wayfs_store::Role::Client).unwrap();
        let store = wayfs_store::DiskMetaStore::open(&data, wayfs_store::MetaConfig::default()).unwrap();
        let syncer = store.syncer();
        let (store, disk) = (Mutex::new(store), Mutex::new(ModelDisk::default()));
        // What a store does: the chunk first, then the record that names it.
        let keep = |number: u64| {
            disk.lock().unwrap().put.insert(number);
            let mut batch = wayfs_types::Batch::default();
            batch.put(number.to_be_bytes().to_vec(), Vec::new());
            store.lock().unwrap().commit(batch).unwrap()
        };
        let queue = Arc::new(SyncQueue::default());
        let mut tickets = vec![(keep(0), 0)];
        queue.want(tickets[0].0);
        let (came, news) = mpsc::channel();
        let (reported, heard) = mpsc::channel();
        let mut late = 1..=4;
        std::thread::scope(|scope| {
            let (thread_queue, disk) = (Arc::clone(&queue), &disk);
            scope.spawn(move || {
                let stores = Stores {
                    freeze: || syncer.freeze(),
                    sync_chunks: || {
                        let reached = disk.lock().unwrap().put.clone();
                        // The disk is slow: another store comes before the sync of the chunks returns.
                        if let Some(number) = late.next() {
                            let ticket = keep(number);
                            thread_queue.want(ticket);
                            came.send((ticket, number)).unwrap();
                        }
                        disk.lock().unwrap().durable = reached;
                        Ok(())
                    },
                    write_records: || syncer.write(),
                    sync_records: |ticket| syncer.sync_to(ticket).map(drop),
                    make_ready: || {},
                };
                let stored = |result: Result<Ticket, StorageError>| {
                    reported.send((result.unwrap(), disk.lock().unwrap().durable.clone())).unwrap();
                };
                run(&thread_queue, stores, &Histogram::default(), stored);
            });
            let mut promised = Ticket::default();
            let mut missing: Vec<(Ticket, u64)> = Vec::new();
            while (tickets.len() < 5 || promised < tickets[4].0) && missing.is_empty() {
                let Ok((ticket, durable)) = heard.recv_timeout(Duration::from_secs(20)) else { break };
                promised = ticket;
                tickets.extend(news.try_iter());
                let told = tickets.iter().filter(|(ticket, _)| *ticket <= promised);
                missing.extend(told.filter(|(_, number)| !durable.contains(number)).copied());
            }
            queue.stop();
            assert!(missing.is_empty(), "promised up to {promised}, and these chunks are not on the disk: {missing:?}");
            assert!(tickets.len() == 5 && promised >= tickets[4].0, "all stores are promised in the end");
        });
    }

    #[test]
    fn what_passes_is_tried_again_and_fails_nothing() {
        let queue = Arc::new(SyncQueue::default());
        queue.want(Ticket(1));
        let (send, heard) = mpsc::channel();
        let thread_queue = Arc::clone(&queue);
        let mut errors = vec![StorageError::NoSpace, StorageError::Busy("no descriptors".into())];
        let thread = std::thread::spawn(move || {
            let stores = Stores {
                freeze: || Ok(Ticket(1)),
                sync_chunks: || Ok(()),
                write_records: || Ok(()),
                sync_records: |_| errors.pop().map_or(Ok(()), Err),
                make_ready: || {},
            };
            run(&thread_queue, stores, &Histogram::default(), |result| send.send(result).unwrap());
        });
        assert_eq!(heard.recv_timeout(Duration::from_secs(20)).unwrap(), Ok(Ticket(1)), "and no error before");
        queue.stop();
        thread.join().unwrap();
    }
}
