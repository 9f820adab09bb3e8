//! Contents: the local chunks, and how they move between nodes.
//!
//! A content is a tree of chunks ([`wayfs_content`]). It moves by four questions, each on a stream of its
//! own (`docs/format/content-stream.md`): *how much of this have you*, *take this chunk*, *now it is whole:
//! make it durable*, and *give me this chunk*. Who receives checks every hash; who lacks something that a
//! neighbour holds gets it from there while the asker waits (back-fetch), chunk by chunk. Over slow paths chunks
//! travel as differences to others that both sides have.

mod arrived;
mod bases;
mod chunks;
mod codec;
mod compression;
mod confined;
mod entitled;
mod fetch;
mod fetches;
mod former;
mod forward;
mod history;
mod inflow;
mod look_here;
pub(crate) mod message;
mod news;
mod pace;
mod passing;
mod presence;
mod protection;
pub(crate) mod push;
mod recent;
pub(crate) mod repair;
mod room;
mod search;
mod sent;
pub(crate) mod serve;
mod uploads;
mod wait;
mod want;

pub(crate) use chunks::DiskShortage;
pub use chunks::{Contents, ContentsError, Hold, LocalSink, Making};
pub(crate) use codec::{pack_difference, unpack as unpack_chunk};
pub use compression::ContentPacking;
pub(crate) use compression::Path;
pub(crate) use entitled::Entitled;
pub(crate) use fetches::Fetches;
pub(crate) use former::Former;
pub(crate) use history::History;
pub(crate) use news::News;
pub(crate) use presence::{CallOff, Walk, walk};
pub(crate) use protection::{Named, Shortage};
pub(crate) use room::RoomWanted;
pub(crate) use sent::Sent;
pub(crate) use uploads::Uploads;
pub use want::FetchError;
pub(crate) use want::Want;
