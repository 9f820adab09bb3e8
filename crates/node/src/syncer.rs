//! The thread that makes things durable: one sync serves all who asked meanwhile.
//!
//! Contents are synced before metadata, so that no durable record names a content whose chunks
//! a crash could take. Whoever needs only contents durable (a push that arrived) shares the same syncs.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_types::{StorageError, Ticket};

type Done = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Most contents that may wait for one sync; the next ones are refused.
const WAITING_MAX: usize = 65_536;

#[derive(Default)]
struct State {
    wanted: Ticket,
    durable: Ticket,
    contents: Vec<Done>,
    failed: Option<StorageError>,
    stop: bool,
}

/// What is to be made durable. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct SyncQueue {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

/// One turn of the thread.
pub(crate) struct Turn {
    pub(crate) ticket: Option<Ticket>,
    contents: Vec<Done>,
}

impl SyncQueue {
    /// Everything up to `ticket` is to be durable soon.
    pub(crate) fn want(&self, ticket: Ticket) {
        let mut state = self.lock();
        if ticket > state.wanted {
            state.wanted = ticket;
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
        loop {
            if state.stop {
                return None;
            }
            let ticket = (state.wanted > state.durable && state.failed.is_none()).then_some(state.wanted);
            if ticket.is_some() || !state.contents.is_empty() {
                return Some(Turn { ticket, contents: std::mem::take(&mut state.contents) });
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
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
        self.done.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a sync that found no room is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Runs until [`SyncQueue::stop`].
pub(crate) fn run(
    queue: &Arc<SyncQueue>,
    mut sync_chunks: impl FnMut() -> Result<(), StorageError>,
    mut sync_records: impl FnMut(Ticket) -> Result<(), StorageError>,
    mut stored: impl FnMut(Result<Ticket, StorageError>),
) {
    while let Some(turn) = queue.next() {
        let chunks = sync_chunks();
        let result = match (turn.ticket, chunks.clone()) {
            (Some(ticket), Ok(())) => sync_records(ticket),
            (_, chunks) => chunks,
        };
        queue.finished(turn.ticket, &result);
        for done in turn.contents {
            done(chunks.clone());
        }
        match (turn.ticket, result) {
            (Some(ticket), Ok(())) => stored(Ok(ticket)),
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
        let (thread_queue, chunk_log, record_log) = (Arc::clone(&queue), log.clone(), log.clone());
        let thread = std::thread::spawn(move || {
            run(
                &thread_queue,
                || {
                    let _ = chunk_log.send("chunks".to_owned());
                    Ok(())
                },
                |ticket| {
                    let _ = record_log.send(format!("records {ticket}"));
                    Ok(())
                },
                |_| {},
            );
        });
        queue.wait(Ticket(3), Duration::from_secs(5)).unwrap();
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "chunks");
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)).unwrap(), "records 3");
        queue.stop();
        thread.join().unwrap();
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
