//! What an operation owes to whoever asked: one result, now or later.
//!
//! A front end hands an operation a [`Reply`] and gets the result through it: on the thread that asks, if all that is needed is
//! known here, else later on another. The reply is a plain value that moves into the engine's callback or a worker's job, and
//! operations are generic over what is inside: so one that is answered at once allocates nothing for it, and no result is
//! built that a front end has to take apart again. A boxed closure would cost each request an allocation, a future would need
//! somebody to poll it, and `Result` or *later* as a return value would have each operation end in two places.

use super::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wayfs_types::FsError;

/// Whether a result reached whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It did.
    Delivered,
    /// Nobody waits for it any more: what it would have granted (an open handle) was not granted, and nobody will give it back.
    Gone,
}

/// The front end's side of a reply.
pub trait Respond: Send + 'static {
    /// Takes a refusal.
    fn refuse(self, error: Error);
}

/// A front end's side of a reply that can take results of this type.
pub trait RespondWith<T>: Respond {
    /// Takes the result.
    fn give(self, result: T) -> Delivery;
}

/// The right and the duty to answer one operation, once.
///
/// Dropped unanswered it refuses with `EIO`, so that nobody ever hangs on a lost one, and is counted ([`Unanswered`]).
pub struct Reply<R: Respond> {
    to: Option<R>,
    unanswered: Arc<Unanswered>,
}

/// How many replies were dropped.
#[derive(Debug, Default)]
pub struct Unanswered(AtomicU64);

impl Unanswered {
    /// The count since the start.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<R: Respond> Reply<R> {
    /// Owes an answer to whoever asked.
    pub fn new(to: R, unanswered: &Arc<Unanswered>) -> Self {
        Self { to: Some(to), unanswered: Arc::clone(unanswered) }
    }

    /// Answers with a result, whether or not anybody takes it.
    pub fn give<T>(self, result: T)
    where
        R: RespondWith<T>,
    {
        let _ = self.deliver(result);
    }

    /// Answers with a result, and says whether it was taken.
    #[must_use]
    pub fn deliver<T>(mut self, result: T) -> Delivery
    where
        R: RespondWith<T>,
    {
        self.to.take().map_or(Delivery::Gone, |to| to.give(result))
    }

    /// Answers with a refusal.
    pub fn refuse(mut self, error: impl Into<Error>) {
        if let Some(to) = self.to.take() {
            to.refuse(error.into());
        }
    }

    /// Answers with a result or a refusal.
    pub fn finish<T>(self, outcome: Result<T, impl Into<Error>>)
    where
        R: RespondWith<T>,
    {
        match outcome {
            Ok(result) => self.give(result),
            Err(error) => self.refuse(error),
        }
    }
}

impl<R: Respond> Drop for Reply<R> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            self.unanswered.0.fetch_add(1, Ordering::Relaxed);
            tracing::debug!("an operation ended without an answer");
            to.refuse(FsError::Io.into());
        }
    }
}

impl<R: Respond> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}
