//! The Linux FUSE protocol, spoken directly over `/dev/fuse`.
//!
//! This crate owns the mount, the decoding of kernel requests, the encoding of answers, the
//! interrupts, the notifications (cache invalidation) and passthrough. It knows nothing of volumes,
//! replicas or the network: whoever implements [`Handler`] does.
//!
//! A request arrives as an owned [`Request`] together with an owned [`Reply`]; both may travel to
//! another thread, so nothing slow ever needs to hold a thread that reads from the kernel.
//!
//! ```no_run
//! use std::sync::Arc;
//! use wayfs_fuse::{Config, Errno, Handler, Mount, MountOptions, Operation, Reply, Request, Session};
//!
//! struct Empty;
//! impl Handler for Empty {
//!     fn handle(&self, request: Request, reply: Reply) {
//!         match request.operation() {
//!             Operation::StatFs => reply.error(Errno::NOSYS),
//!             _ => reply.error(Errno::NOENT),
//!         };
//!     }
//! }
//! let mount = Mount::new(&MountOptions::new("/mnt/empty"))?;
//! Session::new(mount, Config::default()).run(Arc::new(Empty), 2)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: paths (the kernel speaks inode numbers), permission checks (the kernel makes
//! them when mounted with `default_permissions`), any cache.

// The three device ioctls, leases and the preparation of the helper process have no safe form in the
// libraries that we use; each block says why it is sound.
#![allow(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod buffer;
mod cursor;
mod decode;
mod device;
mod directory;
mod errno;
mod flag_set;
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod ids;
mod init;
mod interrupts;
pub mod lock_table;
pub mod loopback;
mod mount;
mod notify;
mod open_flags;
mod operation;
mod passthrough;
mod reply;
mod request;
mod session;
mod uapi;

pub use attributes::{Attributes, Entry, FileSystemStatistics, Timestamp};
pub use decode::DecodeError;
pub use directory::{DirectoryBuffer, DirectoryEntry, FileKind, Pushed};
pub use errno::Errno;
pub use handler::Handler;
pub use ids::{BackingId, FileHandle, Inode, LockOwner, Unique};
pub use init::{Config, Granted, InitError, InitFlags};
pub use interrupts::InterruptFlag;
pub use mount::{Mount, MountError, MountMethod, MountOptions, UmountError, UmountMode, Unmounter};
pub use notify::{Notifier, NotifyError};
pub use open_flags::{OpenFlags, Opened};
pub use operation::{
    FileLock, LockKind, LockRange, LockScope, LockWait, Operation, RenameFlags, SeekWhence, SetAttributes, TimeChange,
};
pub use passthrough::{PassthroughError, is_held_elsewhere};
pub use reply::{Delivery, Reply};
pub use request::Request;
pub use session::{BackgroundSession, Session, SessionError};
