//! Open files: between the kernel's reads and writes and contents by name.
//!
//! One [`OpenFile`] stands for an inode that is open, or that holds bytes nobody committed yet, or
//! whose bytes lie ready in a plain file. It begins at a **base** (version and content as the
//! engine knows them) and gathers what is written as dirty ranges over it. A **commit** turns base
//! and dirty ranges into a new content at the cost of what was touched, and tells the engine.
//!
//! * [`ranges`]: sets of byte ranges;
//! * [`handle`]: what a program may do through a handle;
//! * [`body`]: the bytes on this machine, in memory or in a sparse file;
//! * [`body_files`]: the sparse files of a disk;
//! * [`open_file`]: one file: reading, writing, truncating;
//! * [`life`]: where its uncommitted bytes are, how far their commit is, and what may happen when, as one drawn table;
//! * [`state`]: its base and its size, and what is done to its body at each event of its life;
//! * [`base`]: the version that its uncommitted bytes lie over;
//! * [`loading`]: bytes of the base, chunk by chunk, from the chunk store or from afar;
//! * [`passthrough`]: what programs write into a body that they got from the kernel;
//! * [`closing`]: closed, and not cut and hashed yet;
//! * [`note`]: what the next daemon hears of that;
//! * [`journal`]: what a killed daemon leaves of files that were open;
//! * [`journaling`]: what goes there;
//! * [`generations`]: what is found there;
//! * [`recovery`]: what comes back from there;
//! * [`read_ahead`]: what is asked for ahead of a program that reads in order;
//! * [`mapped`]: what programs store into a body that they mapped by passthrough;
//! * [`commit`]: from dirty ranges to a store record;
//! * [`sharing`]: copies that take the content of another file for their base;
//! * [`kernel_way`]: the ways in which the kernel reads an inode;
//! * [`kernel_handles`]: which way each handle has;
//! * [`kernel_pages`]: of which version the kernel has pages;
//! * [`recently_removed`]: what was removed while an open may have been on its way;
//! * [`table`]: all of them, and its [`settings`];
//! * [`contents`]: the seam to the engine and the chunk store;
//! * [`host`]: the seam to the machine below;
//! * [`staging`]: the seam to the disk, and [`host_disk`] behind it;
//! * [`stir`]: what wakes whoever looks after the files.
//!
//! What is durable: only what a commit gave to the chunk store and the log. What was written and not committed survives
//! the daemon, not the machine: the journal and notes say which body files hold it, and all others are thrown away at start. A large file that is in active use takes up
//! to twice its size; body files nobody has open are bounded and go first. Those that were written and not opened to be read go a minute after
//! a server has what they hold.
//!
//! Lock order: `OpenFile::committing` or `OpenFile::following`, then `OpenFile::state`, then the table's map. No lock is held
//! while waiting for the network; a file's state is locked for the length of local disk operations.

mod append;
pub mod base;
pub mod body;
pub mod body_files;
pub mod closing;
pub mod commit;
pub mod contents;
mod follow;
mod generations;
mod handle;
pub mod host;
pub mod host_disk;
mod idle;
mod journal;
mod journaled;
mod journaling;
mod kernel_handles;
mod kernel_pages;
pub mod kernel_way;
mod life;
pub mod loading;
mod mapped;
mod note;
pub mod open_file;
mod passthrough;
pub mod ranges;
mod read_ahead;
mod recently_removed;
mod recovery;
mod removed_elsewhere;
mod seek;
mod settings;
pub mod sharing;
mod sketch;
pub mod staging;
mod state;
pub mod stir;
pub mod table;

pub use closing::EarlyClose;
pub use commit::{Commit, CommitResult, CommitStep, Committed};
pub use contents::{Contents, OldBase, OperationError, Store, Stored, WaitPolicy, Wanted};
pub use follow::Followed;
pub use handle::{Access, Writes};
pub use host_disk::HostDisk;
pub use kernel_pages::Renewal;
pub use life::illegal_count;
pub use open_file::{OpenFile, Overlay};
pub use seek::Seek;
pub use settings::TableSettings;
pub use staging::{StagingDisk, StagingFile};
pub use table::FileTable;

#[cfg(test)]
mod elsewhere_tests;
#[cfg(test)]
mod journal_any_tests;
#[cfg(test)]
mod journal_bench;
#[cfg(test)]
mod journal_model_tests;
#[cfg(test)]
mod journal_record_tests;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod life_model;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod passthrough_tests;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
