//! Floor 2: the replica engine, a deterministic machine without input or output.
//!
//! ```text
//! impl<S: MetaStore> Replica<S> {
//!     pub fn open(config: Config, store: S, now: Time) -> Result<Self, OpenError>;
//!     pub fn handle(&mut self, now: Time, wall: WallTime, input: Input);
//!     pub fn poll_output(&mut self) -> Option<Output>;
//!     pub fn poll_timeout(&self) -> Option<Time>;
//!     // reading
//!     pub fn inode(&self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError>;
//!     pub fn entry(&self, parent: FileId, name: &Name) -> Result<Option<Entry>, StorageError>;
//!     pub fn list(&self, directory: FileId, after: Option<&Name>, limit: usize) -> Result<Vec<(Name, Entry)>, StorageError>;
//!     pub fn path_of(&self, file: FileId) -> Result<Option<String>, StorageError>;
//!     pub fn images(&self, after: Option<&Key>, limit: usize) -> Result<Vec<(Key, Image)>, StorageError>; // the whole view, for checkers
//!     pub fn holder(&self, file: FileId, version: RecordId) -> Result<Holder, StorageError>;
//!     pub fn level(&self, file: FileId) -> Result<Option<VersionState>, StorageError>;
//!     pub fn progress(&self) -> Progress;
//!     pub fn queue(&self, after: LogPosition, limit: usize) -> Result<Vec<(LogPosition, QueueItem)>, StorageError>;
//!     pub fn conflicts(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<OpenConflict>, StorageError>;
//!     pub fn origins(&self) -> Result<Vec<(OriginId, Origin)>, StorageError>;
//!     pub fn admitted(&self, node: NodeId) -> Result<Vec<(OriginId, Origin)>, StorageError>;
//!     pub fn contents_in_use(&self, after: Option<FileId>, limit: usize) -> Result<ContentsPage, StorageError>;
//!     pub fn tops_announced(&self) -> Vec<Top>; // garbage collection must keep these, too
//!     pub fn is_settled(&self) -> bool;
//!     pub fn config(&self) -> &Config; store(), store_mut(), into_store()
//!     // home only
//!     pub fn grant_origin(&mut self, now: Time, wall: WallTime, node: NodeId, admitted: Admitted, label: &str) -> Result<OriginId, GrantError>;
//!     pub fn revoke(&mut self, now: Time, wall: WallTime, node: NodeId, held: Held) -> Result<usize, GrantError>;
//! }
//! // testing::MemoryStore: new(), sync(Ticket), newest(), crash(kept) -> Self, set_room(Option<usize>)
//! ```

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]
mod api;
mod children;
mod contents;
#[cfg(fuzzing)]
pub mod fuzzing;
mod histories;
mod inspect;
mod locks;
mod members;
mod mirror;
mod replica;
mod report;
mod requests;
mod sealer;
mod state;
pub mod testing;
#[cfg(any(test, fuzzing))]
mod tests;
mod timers;
mod upstream;

pub use api::*;
pub use contents::ledger::{Amount, Ledger};
pub use contents::lost::{GivenUp, is_waiting_for};
pub use contents::propagation::Recall;
pub use histories::successor::{Prospect, Succession};
pub use members::home::Held;
pub use members::usage_sums::Usage;
pub use members::word_kept::HomeWord;
pub use replica::Replica;
pub use replica::errors::{GrantError, OpenError};
pub use report::*;
pub use sealer::Sealer;
pub use state::happenings::{Happening, What as Happened};
pub use state::position::LogPosition;
pub use upstream::ahead::AHEAD_MAX;
pub use upstream::rights::Keeping;
pub use wayfs_wire::{Full, QuotaRoom, RecallId, Room, ServerRoom};
