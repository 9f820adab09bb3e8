//! The numbers with which this crate closes connections.

use wayfs_net::CloseCode;

/// Number that a peer gets that broke the protocol.
pub(crate) const CLOSE_PROTOCOL: CloseCode = CloseCode::application(1);
/// Number that a parent gets whose child goes of its own accord: its engine trusts nothing any more that it was told in the session.
pub(crate) const CLOSE_LEFT: CloseCode = CloseCode::application(5);
/// Number that a peer gets that reads too slowly.
pub(crate) const CLOSE_SLOW: CloseCode = CloseCode::application(2);
/// Number that a peer gets when it was replaced by a newer session.
pub(crate) const CLOSE_REPLACED: CloseCode = CloseCode::application(3);
/// Number that a peer gets when the volume stops.
pub(crate) const CLOSE_STOPPING: CloseCode = CloseCode::application(4);
