//! How many conflict reports a volume keeps.
//!
//! A report stays until somebody resolves it; a volume in which nobody does would gather them for ever, each
//! of them sent to every machine. So the home keeps at most [`crate::Config::conflicts_max`]. Beyond, an eighth of
//! them goes: first those that leave nothing to decide (no copy was made, or it is gone), then the others, in each case
//! the oldest in the home's order, and last those of contents that are lost. Only reports go: whatever somebody wrote stays, a copy under its conflict name.

use crate::members::Members;
use crate::replica::core::Core;
use crate::state::tables::{KeyKind, kind_range, parse_image_key, table, unpack_view};
use wayfs_types::{Conflict, FileId, Image, Key, MetaStore, StorageError};

/// Part of the reports that goes at a time, so that finding them is paid for by many.
const PART: u64 = 8;

impl Members {
    /// Drops reports beyond the bound.
    pub(crate) fn limit_conflicts<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        let open = u64::try_from(core.state.totals().conflicts).unwrap_or(0);
        let most = core.config.conflicts_max.max(1);
        if !core.orders() || open <= most {
            return Ok(());
        }
        let (from, until) = kind_range(table::VIEW, KeyKind::Conflict);
        let mut rows: Vec<(u8, u64, Key)> = Vec::new();
        core.state.each(&from, &until, |key, value| {
            let row = unpack_view(value)?;
            if let Image::Conflict(conflict) = &row.image {
                let matters = match conflict.is_loss() {
                    // By it everybody knows that a file cannot be read, or shows what is older.
                    true => 2,
                    false => u8::from(!Self::leaves_nothing_to_decide(core, conflict)?),
                };
                rows.push((matters, row.number.0, parse_image_key(key)?));
            }
            Ok(())
        })?;
        rows.sort_unstable();
        let going = usize::try_from(open - most + most / PART).unwrap_or(usize::MAX);
        tracing::warn!(reports = going.min(rows.len()), "too many conflict reports: those that matter least go");
        for (_, _, key) in rows.into_iter().take(going) {
            core.state.put_image(key, None)?;
        }
        Ok(())
    }

    fn leaves_nothing_to_decide<S: MetaStore>(core: &Core<S>, conflict: &Conflict) -> Result<bool, StorageError> {
        let is_there =
            |file: FileId| Ok::<_, StorageError>(core.state.inode(file)?.is_some_and(|inode| !inode.is_removed()));
        Ok(match conflict.copy {
            Some(copy) => !is_there(copy)? || !is_there(conflict.file)?,
            None => true,
        })
    }
}
