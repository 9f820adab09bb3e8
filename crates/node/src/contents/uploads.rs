//! The queue of contents for the parent, driven: [`wayfs_transfer::uploads`] decides, tasks of the runtime push and repair.

use super::push::{self, PushError};
use super::repair::Repaired as Looked;
use crate::clock;
use crate::contents::ContentsError;
use crate::core::PushOrder;
use crate::volume::Volume;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tracing::{debug, warn};
use wayfs_proto::{Input as EngineInput, PeerId};
use wayfs_transfer::uploads::{Failure, Input, Output, Repaired};
use wayfs_types::Time;

/// The queue. A leaf in the order of locks.
pub(crate) struct Uploads {
    state: Mutex<State>,
}

struct State {
    queue: wayfs_transfer::Uploads<PeerId>,
    /// When the sleeper that was begun last wakes; none if it has woken.
    wakes_at: Option<Time>,
}

impl Uploads {
    pub(crate) fn new(at_once_max: usize) -> Self {
        Self { state: Mutex::new(State { queue: wayfs_transfer::Uploads::new(at_once_max), wakes_at: None }) }
    }

    pub(crate) fn stop(&self) {
        self.lock().queue.handle(clock::awake(), Input::Stop);
    }

    /// Pushes waiting and under way.
    pub(crate) fn len(&self) -> usize {
        self.lock().queue.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// When somebody is to be woken who is not on the way yet.
    fn arm(&mut self) -> Option<Time> {
        let due = self.queue.poll_timeout()?;
        if self.wakes_at.is_some_and(|at| at <= due) {
            return None;
        }
        self.wakes_at = Some(due);
        Some(due)
    }
}

impl Volume {
    /// The engine wants these at the parent.
    pub(crate) fn upload(&self, orders: Vec<PushOrder>) {
        if !orders.is_empty() {
            self.feed_uploads(orders.into_iter().map(Input::Order));
        }
    }

    /// A session ended: the engine orders again in the next one.
    pub(crate) fn forget_uploads(&self, peer: PeerId) {
        self.feed_uploads([Input::SessionEnded(peer)]);
    }

    fn feed_uploads(&self, inputs: impl IntoIterator<Item = Input<PeerId>>) {
        let now = clock::awake();
        let mut state = self.uploads.lock();
        inputs.into_iter().for_each(|input| state.queue.handle(now, input));
        let outputs: Vec<Output<PeerId>> = std::iter::from_fn(|| state.queue.poll_output()).collect();
        let wake = state.arm();
        drop(state);
        outputs.into_iter().for_each(|output| self.carry_out_upload(output));
        if let Some(due) = wake {
            self.settings.runtime.spawn(wake_uploads(Weak::clone(&self.me), due));
        }
    }

    fn carry_out_upload(&self, output: Output<PeerId>) {
        match output {
            Output::Begin(order) => drop(self.settings.runtime.spawn(push_one(Weak::clone(&self.me), order))),
            Output::Repair(order) => drop(self.settings.runtime.spawn(repair_one(Weak::clone(&self.me), order))),
            Output::Gone(PushOrder { file, version, content, .. }) => {
                self.metrics.contents_gone.add(1);
                self.step(EngineInput::ContentGone { file, version, content });
            }
        }
    }
}

async fn wake_uploads(volume: Weak<Volume>, due: Time) {
    tokio::time::sleep(due - clock::awake()).await;
    let Some(volume) = volume.upgrade() else { return };
    volume.uploads.lock().wakes_at = None;
    volume.feed_uploads([Input::Tick]);
}

async fn push_one(volume: Weak<Volume>, order: PushOrder) {
    let Some(volume) = volume.upgrade() else { return };
    let end = match try_push(&volume, &order).await {
        Ok(()) => {
            volume.note_pushed(order.version);
            Input::Pushed(order.id())
        }
        Err(failure) => Input::Failed(order.id(), failure),
    };
    volume.feed_uploads([end]);
}

async fn try_push(volume: &Arc<Volume>, order: &PushOrder) -> Result<(), Failure> {
    let session = volume.session(order.peer).filter(|session| session.broken.is_none());
    let session = session.ok_or(Failure::SessionOver)?;
    match push::push(volume, &session, order).await {
        Ok(()) => Ok(()),
        Err(PushError::Session(error)) => {
            debug!(version = %order.version, %error, "push interrupted");
            let is_over = session.connection.close_reason().is_some();
            Err(if is_over { Failure::SessionOver } else { Failure::Interrupted })
        }
        Err(PushError::Local(ContentsError::Missing(_) | ContentsError::Damaged(_))) => Err(Failure::ChunkLost),
        Err(error) => {
            warn!(version = %order.version, %error, "push failed: it is tried again");
            Err(Failure::Refused)
        }
    }
}

async fn repair_one(volume: Weak<Volume>, order: PushOrder) {
    let Some(volume) = volume.upgrade() else { return };
    let repaired = match volume.repair(order.file, order.version, &order.content).await {
        Looked::Whole => Repaired::Whole,
        Looked::Lacks(digest, error) => {
            warn!(version = %order.version, %digest, %error, "a chunk is damaged or gone");
            Repaired::Lacks
        }
        Looked::Failed(error) => {
            warn!(version = %order.version, %error, "contents cannot be read");
            Repaired::Unreadable
        }
    };
    volume.feed_uploads([Input::Repaired(order.id(), repaired)]);
}
