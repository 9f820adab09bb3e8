//! How a request is run, parked, and run again.

use crate::api::Output;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::requests::{Attempt, FIRST_SESSION_MAX, On, Waiting};
use wayfs_types::request::{Outcome, Request, RequestId};
use wayfs_types::{FsError, MetaStore, StorageError, Time};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_request(&mut self, id: RequestId, request: Request, deadline: Time) {
        let waiting = Waiting {
            request: self.histories.as_called_now(&self.core, request),
            deadline,
            on: On::Session,
            patience: deadline,
            questions: 0,
            claims: 0,
            offline: false,
            listed: None,
            is_absent: false,
            rounds: 0,
            made: None,
        };
        self.run_request(id, waiting);
    }

    pub(crate) fn handle_cancel(&mut self, id: RequestId) {
        if self.cancel_lock(id) {
            return;
        }
        self.end_request(id, Err(FsError::Interrupted));
    }

    /// Ends a waiting request with an outcome.
    pub(crate) fn end_request(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(waiting) = self.requests.take(id) {
            if matches!(waiting.on, On::Lock | On::LockEnd) && outcome.is_err() {
                self.locks.locks_give_up(&mut self.core, &mut self.children, id);
                self.settle_requests();
            }
            self.answer_request(id, outcome);
        }
    }

    fn answer_request(&mut self, id: RequestId, outcome: Outcome) {
        self.end_claims(id);
        self.core.outputs.push_back(Output::Answer { id, outcome });
    }

    /// Tries a request; answers it or parks it.
    fn run_request(&mut self, id: RequestId, mut waiting: Waiting) {
        let attempt = match self.attempt(id, &mut waiting) {
            Ok(attempt) => attempt,
            Err(StepError::Storage(StorageError::NoSpace)) => {
                self.abandon();
                Attempt::Done(Err(FsError::NoSpace))
            }
            // Nothing was kept and nothing is broken: whoever asked may ask again.
            Err(StepError::Storage(StorageError::Busy(_))) => {
                self.abandon();
                Attempt::Done(Err(FsError::TimedOut))
            }
            Err(error) => {
                self.settle(Err(error));
                Attempt::Done(Err(FsError::Io))
            }
        };
        match attempt {
            Attempt::Done(outcome) => self.answer_request(id, outcome),
            Attempt::Park(on) if self.requests.len() >= self.core.config.requests_waiting_max => {
                if on == On::Lock {
                    self.locks.locks_give_up(&mut self.core, &mut self.children, id);
                    self.settle_requests();
                }
                self.answer_request(id, Err(FsError::TimedOut));
            }
            Attempt::Park(on) => {
                waiting.on = on;
                waiting.patience = match on {
                    On::Session => self.core.now + FIRST_SESSION_MAX,
                    On::FirstSession => self.core.opened + FIRST_SESSION_MAX,
                    On::Ask(_) | On::Level | On::Lock | On::LockEnd | On::Claim => waiting.deadline,
                };
                self.requests.park(id, waiting);
            }
        }
    }

    /// Looks again at requests whose time or condition came.
    pub(crate) fn retry_requests(&mut self) {
        self.call_waiting_by_new_names();
        self.check_deadlines();
        if self.requests.take_levels_moved() {
            let waiting: Vec<RequestId> = self.requests.on_level.iter().copied().collect();
            self.requests.ready.extend(waiting);
        }
        while let Some(id) = self.requests.ready.pop_first() {
            if let Some(waiting) = self.requests.take(id) {
                if self.failed {
                    self.answer_request(id, Err(FsError::Io));
                } else {
                    self.run_request(id, waiting);
                }
            }
        }
    }

    fn check_deadlines(&mut self) {
        while let Some((time, id)) = self.requests.deadlines.first().copied() {
            if time > self.core.now {
                return;
            }
            let Some(mut waiting) = self.requests.take(id) else {
                self.requests.deadlines.remove(&(time, id));
                continue;
            };
            let over = self.core.now >= waiting.deadline;
            let may_serve = matches!(waiting.on, On::Ask(_) | On::Session | On::FirstSession) && !waiting.offline;
            if may_serve {
                // What is cached is better than an error; what is not fails below.
                waiting.offline = true;
                self.run_request(id, waiting);
                continue;
            }
            if matches!(waiting.on, On::Lock | On::LockEnd) {
                self.locks.locks_give_up(&mut self.core, &mut self.children, id);
                self.settle_requests();
            }
            if waiting.on == On::LockEnd {
                self.answer_request(id, Err(FsError::Interrupted));
                continue;
            }
            let error = if over && self.core.has_parent() { FsError::TimedOut } else { FsError::Unreachable };
            let error = if self.core.orders() || waiting.on == On::Lock { FsError::TimedOut } else { error };
            self.answer_request(id, Err(error));
        }
    }
}
