//! Traffic that measures a path: single packets with exact times, and bulk transfers.

mod bulk;
mod packets;
mod tcp_socket;
mod timestamp;

pub use bulk::{Bulk, Progress as BulkProgress, bulk};
pub use packets::{Planned, Probe, packets};
pub(crate) use tcp_socket::bound_window;
pub(crate) use tcp_socket::connect_with_window;
pub(crate) use tcp_socket::set_congestion_control;
pub(crate) use tcp_socket::set_max_segment;
pub use tcp_socket::{TcpCounts, counts};
