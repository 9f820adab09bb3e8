//! Traffic that measures a path: single packets with exact times, and bulk transfers.

mod bulk;
mod packets;
mod tcp_socket;
mod timestamp;

pub use bulk::{Bulk, Progress as BulkProgress, bulk};
pub use packets::{Planned, Probe, packets};
pub use tcp_socket::{TcpCounts, bound_window, connect_with_window, counts, set_congestion_control, set_max_segment};
