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
//!     pub fn queue(&self, after: u64, limit: usize) -> Result<Vec<(u64, QueueItem)>, StorageError>; // u64: place in the log, 0 from the start
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
mod admission;
mod ahead;
mod api;
mod kept_locks;
mod report;
pub mod testing;
pub use ahead::AHEAD_MAX;
pub use api::*;
pub use happenings::{Happening, What as Happened};
pub use home::Held;
pub use home_word::HomeWord;
pub use ledger::{Amount, Ledger};
pub use lost::{GivenUp, is_waiting_for};
pub use report::*;
pub use rights::Keeping;
pub use seals::Sealer;
pub use usage::Usage;
pub use wayfs_wire::{Full, QuotaRoom, Room, ServerRoom};

mod announced;
mod answers;
mod backwards;
mod believable;
mod cancel;
mod catching;
mod child_leases;
mod child_locks;
mod child_records;
mod child_rights;
mod children;
mod claims;
mod confirm;
mod contents;
mod declared;
mod empty_change;
mod fact_asks;
mod floors;
mod forgotten;
mod fork;
mod former;
mod found_lost;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gaps;
mod gathered;
mod happenings;
mod haves;
mod held;
mod history;
mod holders;
mod home;
mod home_key;
mod home_word;
mod identity;
mod inspect;
mod interest;
mod lapses;
mod ledger;
mod left_locks;
mod lent;
mod lives;
mod lock_delegations;
mod lock_grace;
mod lock_mail;
mod lock_relay;
mod lock_requests;
mod lock_rounds;
mod locks;
mod lost;
mod marks;
mod named;
mod names;
mod needs;
mod omitting;
mod overlay;
mod own_rows;
mod part;
mod previous;
mod pushing;
mod quota;
mod recount;
mod renamed;
mod replica;
mod reports_kept;
mod requests;
mod restored;
mod restoring;
mod returning;
mod rewriting;
mod rights;
mod rooms;
mod seals;
mod seen;
mod sending;
mod stream;
mod succession;
mod superseded;
mod tables;
mod taken_along;
mod taken_back;
mod takeover;
mod tentative;
#[cfg(any(test, fuzzing))]
mod tests;
mod timers;
mod told;
mod tombstones;
mod totals;
mod upstream;
mod usage;
mod vanished;
mod view_cache;
mod vouched;
mod waits;
mod watches;
mod welcome;
mod welcomed;
mod written_over;

pub use replica::{GrantError, OpenError, Replica};
pub use succession::{Prospect, Succession};
