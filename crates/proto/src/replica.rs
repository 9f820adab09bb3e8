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
mod core;
mod opening;
mod reading;

pub(crate) use self::core::Core;

use crate::api::{Config, Input, Output, PeerId, Role};
use crate::children::Children;
use crate::contents::Contents;
use crate::histories::Histories;
use crate::locks::Locks;
use crate::members::Members;
use crate::requests::Requests;
use crate::requests::watches::Watches;
use crate::state::State;
use crate::state::tables::{image_key, table, unpack};
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_tree::View;
use wayfs_types::{FileId, Image, Key, MetaStore, Name, OriginId, StorageError, Ticket, Time, WallTime};
use wayfs_wire::Down;

/// Rows read at once when a table is gone through.
pub(crate) const PAGE: usize = 1024;

/// Why a replica cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The store holds another volume, origin or role than the settings say.
    #[error("this store belongs to {0}: open it with the settings it was made with")]
    Foreign(String),
}

/// Why an origin cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Only the home grants.
    #[error("only the home of a volume admits to it")]
    NotHome,
    /// All 8,388,607 are taken.
    #[error("no origin is left to grant")]
    Exhausted,
    /// The label is empty, longer than 64 bytes, or holds `/` or control characters.
    #[error("a label is 1 to 64 bytes of printable text without a slash")]
    Label,
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why an input had no effect.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The store failed.
    Storage(StorageError),
    /// The peer broke the protocol.
    Peer(PeerId, String),
}

impl From<StorageError> for StepError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

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

/// Who is at the other end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerRole {
    Parent,
    Child(OriginId),
}

impl<S: MetaStore> Replica<S> {
    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// The store, for drivers that own its syncing half.
    pub fn store(&self) -> &S {
        self.core.state.store()
    }

    /// The last ticket that the driver said is durable.
    pub fn stored(&self) -> Ticket {
        self.core.state.stored()
    }

    /// The store, for a driver that keeps it in the replica and syncs it there (the simulator).
    pub fn store_mut(&mut self) -> &mut S {
        self.core.state.store_mut()
    }

    /// Gives the store back: what is not durable is for the store to keep or lose.
    pub fn into_store(self) -> S {
        self.core.state.into_store()
    }

    /// How often tentative records had to be replayed since the replica was opened: for metrics.
    pub fn replays(&self) -> u64 {
        self.core.state.replays()
    }

    /// How often something was answered that the parent did not vouch for, or what it had vouched for before was given
    /// up. An answer before which it was the same as after it may be kept until a callback breaks it; any other is good
    /// for the moment only, since no callback will come.
    pub fn unvouched(&self) -> u64 {
        self.requests.unvouched()
    }

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
                self.handle_found((file, version), content, is_here)?
            }
            Input::LookedHere { here, not_here } => {
                self.contents.handle_looked_here(&mut self.core, &mut self.children, &here, &not_here)?
            }
            Input::Pushed { versions } => self.handle_pushed(&versions)?,
            Input::Sent { version, bytes } if self.core.config.role == Role::Station => {
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
        self.contents.look_at_rest(&mut self.core)?;
        self.commit()?;
        self.end_children();
        self.retry_requests();
        self.pump_rights();
        if self.core.config.role == Role::Home && self.contents.look_at_wants(&mut self.core, &mut self.children)? {
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
        self.contents.abandon();
        self.requests.forget_answers();
        if let Err(error) = self.watches.abandon(self.core.state.store()) {
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

    /// A file's inode in the view; of a removed or merged file its marker.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn inode(&self, file: FileId) -> Result<Option<Arc<wayfs_types::Inode>>, StorageError> {
        self.core.state.inode(file)
    }

    /// What a name stands for in the view.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn entry(&self, parent: FileId, name: &Name) -> Result<Option<wayfs_types::Entry>, StorageError> {
        self.core.state.entry(parent, name)
    }
}

impl<S: MetaStore> State<S> {
    /// Goes through the committed rows of a range, a page at a time.
    pub(crate) fn each(
        &self,
        from: &[u8],
        until: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut from = from.to_vec();
        loop {
            let pairs = self.store().scan(&from, until, PAGE)?;
            for (key, value) in &pairs {
                visit(key, value)?;
            }
            match pairs.last() {
                Some((last, _)) if pairs.len() == PAGE => {
                    from.clone_from(last);
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }

    /// A file's inode in the view; of a removed or merged file its marker.
    pub(crate) fn inode(&self, file: FileId) -> Result<Option<Arc<wayfs_types::Inode>>, StorageError> {
        Ok(match self.image(&Key::Inode(file))? {
            Some(Image::Inode(inode)) => Some(inode),
            _ => None,
        })
    }

    /// What a name stands for in the view.
    pub(crate) fn entry(&self, parent: FileId, name: &Name) -> Result<Option<wayfs_types::Entry>, StorageError> {
        Ok(match self.image(&Key::Entry(parent, name.clone()))? {
            Some(Image::Entry(entry)) => Some(entry),
            _ => None,
        })
    }

    /// What the parent has confirmed of an origin: of a home, what it applied.
    pub(crate) fn confirmed_applied(&mut self, origin: OriginId) -> Result<u64, StorageError> {
        let key = Key::Origin(origin);
        let tx = self.tx();
        let image = match tx.get_raw(&image_key(table::SHADOW, &key))? {
            Some(bytes) => unpack::<crate::state::log::Shadow>(&bytes)?.image,
            None => tx.image(&key)?,
        };
        Ok(match image {
            Some(Image::Origin(origin)) => origin.applied,
            _ => 0,
        })
    }
}
