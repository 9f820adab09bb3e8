//! NFS version 3 as others serve it: nfs-ganesha on a host of the laboratory, and a client of our own over UDP or TCP.
//!
//! The client is a measuring instrument, not a file system: a call is a call on the wire, nothing is cached, and when a
//! call is sent again is the experiment's to say ([`Retry`]). Message types come from the crate `nfs3_types`.

mod client;
mod rpc;
mod server;

pub use client::{Handle, NfsClient, NfsError, Stability};
pub use rpc::{CallStatistics, Retry, RpcError, Transport};
pub use server::{MOUNT_PORT, NFS_PORT, NfsServer};
