//! Floor 0: the words of WayFS as types.
//!
//! Identifiers, names, times, contents, records, images, the storage trait and
//! file-system requests. No input or output, no clock, no randomness.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod chain;
mod content;
mod errors;
mod facts;
mod ids;
mod image;
mod limits;
mod lives;
mod name;
mod record;
pub mod request;
mod seal;
mod storage;
mod time;

pub use chain::{Chain, ChainCheck};
pub use content::{Content, Digest, INLINE_MAX, Top};
pub use errors::FsError;
pub use facts::{Fact, Facts};
pub use ids::{AttrVersion, CommitNumber, FileId, IdError, NodeId, OriginId, RecordId, UserId, VolumeId};
pub use image::{Admitted, Conflict, ConflictKind, Entry, Image, Inode, Key, Kind, Origin, Place, Renewal, Standing};
pub use limits::{Limits, Quota, Squash};
pub use lives::{KnownLives, LIVES_MAX, Life, LifeSpan};
pub use name::{Name, NameError, XattrName};
pub use record::{AttrChange, Op, Record, Replaced};
pub use seal::Seal;
pub use storage::{Batch, MetaStore, Pairs, StorageError, Ticket};
pub use time::{Time, WallTime};
