//! Who serves a volume, and where: what the home and the servers themselves say of it, signed.
//!
//! * The **list** says which keys serve the volume. The home signs it and numbers it; nobody takes an older one, or one of
//!   another signer, and what the newest lacks is forgotten ([`ServerList`]).
//! * A **place** says where one server listens now. The server signs it itself, so that an address may change while the home
//!   is away; it counts only for a key that the list has ([`Place`]).
//! * Both go with every session in both directions, and to servers that cannot be reached otherwise ([`exchange`], [`reach`]).
//!
//! Addresses without a signature (of a ticket, given by hand, heard on the local network) are places to try: whoever answers
//! there must prove to have the key.

mod directory;
pub(crate) mod exchange;
mod info;
mod list;
mod news;
mod place;
pub(crate) mod reach;
mod rival;
mod signed;

pub use directory::Directory;
pub(crate) use info::SERVERS_MAX;
pub use info::{ADDRESSES_MAX, ServerInfo, ServerKind};
pub use list::{Entry, ServerList};
pub use news::{Have, News};
pub use place::Place;
pub use rival::{Rival, find_copy};
pub(crate) use rival::{is_of_another, watch as watch_rivals};
pub use signed::Signed;
