//! NFS version 3 as a client of servers that nobody may change, made for lossy last hops.
//!
//! All but [`live`] is pure: bytes and times go in, bytes and times come out. [`xdr`] and [`rpc`] are the codec, bounded
//! whatever a server sends; [`calls`] and [`results`] have a function per procedure; [`portmap`] and [`mount_protocol`] find the way
//! in. An [`Exchange`] keeps calls in flight and sends them again when its [`retry`] policy says so; [`replay`] says what an answer
//! to a call that was sent twice means; [`Window`] how many calls may be in flight, [`BlockSize`] how much each reads or writes.
//!
//! [`live`] drives an exchange over UDP or TCP, and has files, directories and whole transfers on top.

#![warn(missing_docs)]

mod attributes;
mod block_size;
pub mod calls;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
pub mod live;
pub mod mount_protocol;
pub mod operations;
pub mod portmap;
mod procedure;
mod record;
pub mod replay;
pub mod results;
pub mod retry;
pub mod rpc;
mod status;
#[doc(hidden)]
pub mod toy;
mod window;
pub mod xdr;

pub use attributes::{FileAttributes, FileKind, Handle, SetAttributes, SetTime, Timestamp, WriteVerifier};
pub use block_size::{BlockSize, Carrier, Sending};
pub use exchange::{Answer, Exchange, Notice, Statistics, WaitPolicy};
pub use procedure::{Kind, Procedure};
pub use record::{RecordError, Records, framed};
pub use status::Status;
pub use window::{AnsweredBlock, Window, learn};
