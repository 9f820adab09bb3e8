//! Floor 3: a live replica.
//!
//! [`Volume`] drives the engine: one lock, a thread that syncs, one that looks at the clock, one that sweeps, one that scrubs,
//! and a task for each session. [`ParentLink`] keeps the session to the best parent; [`Host`] takes
//! sessions of children; [`join`] makes a machine a member. Contents move beside the engine ([`contents`]).
//!
//! What is deliberately absent: the kernel, the control socket of the tools, which policy a station has.

pub mod clock;
mod close_codes;
pub mod contents;
mod core;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod greet;
mod handshake;
mod hooks;
mod host;
mod join;
mod label;
mod level_watch;
mod link_below;
mod live_replica;
pub mod metrics;
pub mod nearby;
mod parent;
pub mod paths;
mod propagation;
mod relied_on;
pub mod repair;
mod room;
mod runtime;
mod scrub;
mod seals;
mod servers;
mod serving;
mod session;
mod settings;
mod succession;
mod sweep;
mod syncer;
pub mod testing;
mod timer;
mod torn;
mod volume;
mod waiter;

pub use contents::{ContentPacking, Contents, ContentsError, FetchError, Hold, LocalSink};
pub use error::{MemberError, OpenError};
pub use greet::GreetError;
pub use handshake::{ChildRole, Grant, Refusal};
pub use hooks::{CachedNames, Hooks, NoHooks, SessionChange, SessionEvent};
pub use host::{Admission, Host, JoinRequest, NoAdmission};
pub use join::{JoinError, join};
pub use level_watch::{LevelWatch, Reached};
pub use link_below::heed_links;
pub use live_replica::LiveReplica;
pub use parent::{CandidateStatus, LinkSettings, LinkState, LinkStatus, ParentLink, Throughput};
pub use runtime::runtime;
pub use scrub::{ScrubCounts, ScrubError, ScrubPosition};
pub use servers::{
    ADDRESSES_MAX, Directory, Entry, Have, News, Place, Rival, ServerInfo, ServerKind, ServerList, Signed, find_copy,
};
pub use session::SessionReport;
pub use settings::{Keys, SCRUB_PERIOD, VolumeSettings};
pub use succession::Elsewhere;
pub use volume::Volume;
pub use waiter::Callback;

#[cfg(test)]
mod tests;
