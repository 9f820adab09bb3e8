//! The replica: its state, and the order in which an input is worked off.
//!
//! ```text
//!   handle ─▶ work out in an overlay ─▶ commit one batch ─▶ route changes ─▶ pump neighbours ─▶ outputs
//!                    │ no room, or a peer that lies: drop the overlay, nothing happened
//! ```
//!
//! Words: an **image** is what a key is; the **view** is all images as this
//! replica shows them; what the parent **confirmed** is the view without our
//! **tentative** records, and for keys that those touched it is kept in a **shadow** row.

mod committing;
pub(crate) mod composition;
pub(crate) mod core;
pub(crate) mod errors;
mod opening;
mod reading;

use crate::api::{Input, Output, PeerId, PeerRole};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::Found;
use crate::histories::Histories;
use crate::locks::Locks;
use crate::members::Members;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::Requests;
use crate::requests::watches::Watches;
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use wayfs_types::{MetaStore, StorageError, Time, WallTime};
use wayfs_wire::Down;

/// One replica of one volume. See the crate's documentation for what drives it.
pub struct Replica<S> {
    pub(crate) core: Core<S>,
    pub(crate) failed: bool,
    pub(crate) peers: BTreeMap<PeerId, PeerRole>,
    pub(crate) children: Children,
    pub(crate) requests: Requests,
    pub(crate) watches: Watches,
    pub(crate) uplink: Uplink,
    pub(crate) contents: Contents,
    pub(crate) locks: Locks,
    pub(crate) members: Members,
    pub(crate) histories: Histories,
}

impl<S: MetaStore> Replica<S> {
    /// Works off one event. Effects wait in [`Replica::poll_output`].
    ///
    /// `now` must not run backwards; if it does, the newest seen counts.
    pub fn handle(&mut self, now: Time, wall: WallTime, input: Input) {
        if self.failed {
            return;
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        self.core.more_work = false;
        // First: what is asked is answered as things are at this time.
        self.locks.check_vouched(&mut self.core, &mut self.children);
        self.settle_requests();
        let outcome = self.dispatch(input).and_then(|()| Ok(self.commit()?));
        self.settle(outcome);
        let outcome = self.follow_up();
        self.settle(outcome);
        assert!(self.core.for_requests.is_empty(), "whoever calls a part works off what that has for requests");
    }

    fn dispatch(&mut self, input: Input) -> Result<(), StepError> {
        match input {
            Input::Request { id, request, deadline } => self.handle_request(id, request, deadline),
            Input::Cancel { id } => self.handle_cancel(id),
            Input::PeerUp { peer, neighbour } => self.handle_peer_up(peer, neighbour)?,
            Input::PeerDown { peer } => self.handle_peer_down(peer)?,
            Input::PeerLeft { peer } => self.handle_peer_left(peer),
            Input::Message { peer, bytes } => self.handle_message(peer, &bytes)?,
            Input::Stored { ticket } => {
                self.handle_stored(ticket)?;
            }
            Input::ContentsHere { tops } => self.handle_contents_here(&tops)?,
            Input::ContentGone { file, version, content } => {
                self.contents.handle_content_gone(&mut self.core, &mut self.children, file, version, &content)?
            }
            Input::Sought { file, version, content, is_here } => {
                let found = if is_here { Found::Here } else { Found::Nowhere };
                self.handle_found((file, version), content, found)?
            }
            Input::LookedHere { here, not_here } => {
                self.contents.handle_looked_here(&mut self.core, &mut self.children, &here, &not_here)?
            }
            Input::Pushed { versions } => self.handle_pushed(&versions)?,
            Input::Sent { version, bytes } if self.core.relays() => {
                self.children.tell(version.origin(), Down::Sent { version, bytes });
            }
            Input::Sent { .. } => {}
            Input::Propagate { file: _, version } => {
                self.contents.handle_propagate(&mut self.core, &mut self.children, version)
            }
            Input::Fetched { peer, file } => self.handle_fetched(peer, file),
            Input::MakeRoom => self.handle_make_room()?,
            Input::GivenBack { serial } => self.handle_given_back(serial),
            Input::Room { room } => self.handle_room(room),
            Input::Moved { peer } => self.uplink.note_moved(&self.core, peer),
            Input::Tick => {}
        }
        Ok(())
    }

    /// What follows from every input: timers, answers that became possible, messages.
    fn follow_up(&mut self) -> Result<(), StepError> {
        self.check_timers()?;
        self.settle_lost()?;
        self.purge()?;
        Members::limit_conflicts(&mut self.core)?;
        self.locks.tend_left_locks(&mut self.core, &mut self.children);
        self.settle_requests();
        self.contents.look_for_denied(&mut self.core)?;
        self.contents.look_at_rest(&mut self.core)?;
        self.commit()?;
        self.end_children();
        self.retry_requests();
        self.pump_rights();
        if self.core.orders() && self.contents.look_at_wants(&mut self.core, &mut self.children)? {
            self.core.more_work |= self.contents.has_wants();
        }
        self.pump_children()?;
        self.pump_parent()?;
        self.commit()?;
        self.core.ask_sync();
        Ok(())
    }

    /// Drops what could not be done, and says to whom it matters.
    pub(crate) fn settle(&mut self, outcome: Result<(), StepError>) {
        match outcome {
            Ok(()) => {}
            Err(StepError::Peer(peer, reason)) => {
                self.abandon();
                self.disconnect(peer, reason);
            }
            Err(StepError::Storage(error @ (StorageError::NoSpace | StorageError::Busy(_)))) => {
                self.abandon();
                // Peers send again in a new session; by then there may be room.
                let peers: Vec<PeerId> = self.peers.keys().copied().collect();
                for peer in peers {
                    self.disconnect(peer, error.to_string());
                }
            }
            Err(StepError::Storage(error)) => self.fail(&error),
        }
    }

    /// Forgets the uncommitted part of an input.
    pub(crate) fn abandon(&mut self) {
        self.core.state.abandon();
        self.contents.abandon(self.core.now);
        self.uplink.abandon();
        self.histories.abandon(&mut self.core);
        self.locks.abandon();
        self.requests.forget_answers();
        if let Some(watches) = self.watches.kept_mut()
            && let Err(error) = watches.abandon(self.core.state.store())
        {
            self.stop(&error);
        }
    }

    pub(crate) fn fail(&mut self, error: &StorageError) {
        self.abandon();
        self.stop(error);
    }

    fn stop(&mut self, error: &StorageError) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        tracing::error!(%error, "replica stopped: its store failed");
        self.core.outputs.push_back(Output::Failed { reason: error.to_string() });
    }

    /// Ends a session of our own accord.
    pub(crate) fn disconnect(&mut self, peer: PeerId, reason: String) {
        tracing::warn!(peer = peer.0, reason, "session ended by us");
        self.forget_peer(peer);
        self.core.outputs.push_back(Output::Disconnect { peer, reason });
    }

    /// The next effect; call until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.outputs.pop_front()
    }
}
