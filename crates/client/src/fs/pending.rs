//! Requests that are answered later, so that a signal can end the wait.

use super::ids::Token;
use super::reply::{Reply, Respond};
use super::signals::is_asked_to_end;
use crate::engine::Engine;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_types::FsError;
use wayfs_types::request::RequestId;

/// A reply that two may want to answer: who does the work, and a signal.
pub struct ReplySlot<R: Respond>(Mutex<Option<Reply<R>>>);

/// A wait that a signal can end.
trait Interruptible: Send + Sync {
    /// Refuses with `EINTR`, if nobody answered yet.
    fn interrupt(&self);
}

impl<R: Respond> Interruptible for ReplySlot<R> {
    fn interrupt(&self) {
        if let Some(reply) = self.take() {
            reply.refuse(FsError::Interrupted);
        }
    }
}

impl<R: Respond> ReplySlot<R> {
    /// Puts a reply in.
    pub fn new(reply: Reply<R>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(reply))))
    }

    /// Takes the reply, if nobody answered yet.
    pub fn take(&self) -> Option<Reply<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a waiting request waits for.
enum Waiting {
    /// The engine, which is told to give up.
    Engine(RequestId),
    /// A worker, which goes on without a caller.
    Worker(Arc<dyn Interruptible>),
}

/// Which signals end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Any, as POSIX has it of locks.
    AnySignal,
    /// One that asks the program to end; see [`super::signals`].
    WishToEnd,
}

struct Row {
    waits: Waiting,
    /// The thread that called.
    caller: u32,
    ended_by: EndedBy,
    /// It got a signal and goes on waiting.
    was_signalled: bool,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The wait is over, or was.
    Over,
    /// It goes on, as others do: somebody looks at them.
    GoesOn,
    /// It goes on, and nobody looks yet.
    First,
}

#[derive(Default)]
struct Rows {
    rows: HashMap<Token, Row>,
    /// Somebody looks at those who go on waiting.
    is_watched: bool,
}

/// All waiting requests. Bounded by what the kernel has in flight.
#[derive(Default)]
pub struct Pending {
    waiting: Mutex<Rows>,
}

impl Pending {
    fn waiting(&self) -> MutexGuard<'_, Rows> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request of a thread waits for the engine.
    pub(crate) fn wait_for_engine(&self, (token, caller): (Token, u32), id: RequestId, ended_by: EndedBy) {
        let row = Row { waits: Waiting::Engine(id), caller, ended_by, was_signalled: false };
        self.waiting().rows.insert(token, row);
    }

    /// A request of a thread waits for a worker.
    pub(crate) fn wait_for_worker<R: Respond>(&self, (token, caller): (Token, u32), slot: &Arc<ReplySlot<R>>) {
        let slot: Arc<ReplySlot<R>> = Arc::clone(slot);
        let waits = Waiting::Worker(slot);
        let row = Row { waits, caller, ended_by: EndedBy::WishToEnd, was_signalled: false };
        self.waiting().rows.insert(token, row);
    }

    /// It waits no longer.
    pub fn done(&self, token: Token) {
        self.waiting().rows.remove(&token);
    }

    /// A worker has done its part; the request may have gone on to wait for the engine.
    pub(crate) fn worker_done(&self, token: Token) {
        let mut waiting = self.waiting();
        if matches!(waiting.rows.get(&token), Some(Row { waits: Waiting::Worker(_), .. })) {
            waiting.rows.remove(&token);
        }
    }

    /// Its caller got a signal: if that asks it to end, it is answered.
    pub(crate) fn signalled(&self, token: Token, engine: &dyn Engine) -> Told {
        let Some((caller, ended_by)) = self.waiting().rows.get(&token).map(|row| (row.caller, row.ended_by)) else {
            return Told::Over;
        };
        if ended_by == EndedBy::AnySignal || is_asked_to_end(caller) {
            self.interrupt(token, engine);
            return Told::Over;
        }
        let mut waiting = self.waiting();
        let Some(row) = waiting.rows.get_mut(&token) else { return Told::Over };
        row.was_signalled = true;
        if std::mem::replace(&mut waiting.is_watched, true) { Told::GoesOn } else { Told::First }
    }

    /// Answers those who went on waiting after a signal and are asked to end by now. Answers whether others are left: if not, nobody
    /// looks any more.
    pub(crate) fn interrupt_signalled(&self, engine: &dyn Engine, is_asked: impl Fn(u32) -> bool) -> bool {
        let signalled: Vec<(Token, u32)> = {
            let waiting = self.waiting();
            let signalled = waiting.rows.iter().filter(|(_, row)| row.was_signalled);
            signalled.map(|(token, row)| (*token, row.caller)).collect()
        };
        for (token, caller) in signalled {
            if is_asked(caller) {
                self.interrupt(token, engine);
            }
        }
        let mut waiting = self.waiting();
        waiting.is_watched = waiting.rows.values().any(|row| row.was_signalled);
        waiting.is_watched
    }

    fn interrupt(&self, token: Token, engine: &dyn Engine) {
        let row = self.waiting().rows.remove(&token);
        match row.map(|row| row.waits) {
            Some(Waiting::Engine(id)) => engine.cancel(id),
            Some(Waiting::Worker(slot)) => {
                slot.interrupt();
            }
            None => {}
        }
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.waiting().rows.len()
    }
}
