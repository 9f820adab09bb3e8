//! Traffic that measures a path: single packets with exact times, and bulk transfers.

mod bulk;
mod packets;
mod timestamp;

pub use bulk::{Bulk, Progress as BulkProgress, bulk};
pub use packets::{Planned, Probe, packets};
