//! What the log has after the tables on disk, applied to them.

use crate::error::OpenError;
use crate::index::Index;
use crate::log::inspection::{Inspection, Met, inspect};
use std::path::Path;
use wayfs_disk::Disk;
use wayfs_types::Ticket;

/// Applies to the index what the log has after it. Tables in memory end where files do, as they did when these were written.
pub(crate) fn replay(log: (&dyn Disk, &Path), index: &Index) -> Result<(Inspection, Ticket), OpenError> {
    let from = index.chain()?;
    let mut sealed_through = from.ticket;
    let inspection = inspect(log, from, &mut |met| match met {
        Met::Batch(items) => index.apply_read(items),
        Met::Turn(last) if last.ticket > sealed_through => {
            index.seal(last);
            sealed_through = last.ticket;
        }
        Met::Turn(_) => {}
    })?;
    Ok((inspection, sealed_through))
}
