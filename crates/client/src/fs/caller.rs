//! Who asks for an operation.

use super::ids::Token;
use crate::engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells whether a caller got a signal. Cheap to clone and to ask; set by the front end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether a signal came.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl From<Arc<AtomicBool>> for Interrupt {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// On whose behalf a front end asks.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// By which the operation can be interrupted.
    pub token: Token,
    /// User, by his number on this machine.
    pub uid: u32,
    /// Group, by its number on this machine.
    pub gid: u32,
    /// The thread that waits; zero if it is not known here. Of a thread that is known it is looked up which signal it got.
    pub pid: u32,
    /// Whether it got a signal.
    pub interrupt: Interrupt,
}

/// Who asks, and when.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) token: Token,
    /// His number on this machine, by which he has rights; in the volume he has [`super::FileSystem::user`].
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) pid: u32,
    pub(super) interrupt: Interrupt,
    /// How often the replica had changed when the request came: what it is answered with is of then or later.
    pub(super) since: u64,
    /// How often something had been answered by then for which nobody vouched.
    pub(super) unvouched: u64,
}

impl Caller {
    /// Who asks now.
    pub fn new(credentials: Credentials, engine: &dyn Engine) -> Self {
        let Credentials { token, uid, gid, pid, interrupt } = credentials;
        Self { token, uid, gid, pid, interrupt, since: engine.changes(), unvouched: engine.unvouched() }
    }

    /// The thread that waits; zero if it is not known here.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}
