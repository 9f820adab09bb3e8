//! What a parent notes when a child says that it has contents.

use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::Offer;
use crate::contents::missing::HOLDERS_MAX;
use crate::histories::Histories;
use crate::replica::core::Core;
use crate::state::of_record::content_of;
use crate::state::tables::table::AWAITED;
use crate::state::tables::{pack, record_key, table};
use wayfs_types::{MetaStore, OriginId, Record, RecordId, StorageError};
use wayfs_wire::Down;

impl Contents {
    /// A child says that it has contents.
    pub(crate) fn handle_have<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        versions: &[RecordId],
    ) -> Result<(), StorageError> {
        for record in versions {
            match Self::missing(core, *record)? {
                Some(mut missing) => {
                    if let Some(keeper) = self.keeper_mut() {
                        keeper.replacing.note_told(*record, child);
                    }
                    missing.spares.retain(|spare| *spare != child);
                    missing.holders.retain(|holder| *holder != child);
                    missing.holders.push(child);
                    let is_server = children.is_station(child);
                    let was_safe = missing.safe.is_some();
                    missing.safe = missing.safe.or(is_server.then_some(core.wall));
                    let excess = missing.holders.len().saturating_sub(HOLDERS_MAX);
                    missing.holders.drain(..excess);
                    core.state.put_row(record_key(table::MISSING, *record), pack(&missing));
                    core.state.delete_row(record_key(AWAITED, *record));
                    core.state.stage_marks(record.origin());
                    if !was_safe && is_server && self.keeper().is_some() {
                        self.let_go_older(core, *record)?;
                    }
                    if self.keeper().is_some_and(|keeper| keeper.seeking.is_sought(*record)) {
                        // It may have been stable before it was lost here: it is not left to a policy.
                        children.tell(child, Down::Want { versions: vec![*record] });
                    }
                }
                None if self.is_revived(core, children, *record, child, Offer::Holds)? => {}
                None => {
                    let Some(keeper) = self.keeper_mut() else { continue };
                    // It may be missing by the record that brought it.
                    if keeper.note_had_as_shown(*record, child) {
                        continue;
                    }
                    if Histories::has_record(core, *record)? {
                        Self::tell_stable(children, child, *record);
                    } else {
                        keeper.replacing.note_told(*record, child);
                        keeper.note_early(*record, child);
                    }
                }
            }
        }
        Ok(())
    }

    /// A record came a second time, by a station that has its contents, or below which somebody has: it can be asked
    /// for them, but that makes nothing safe that another still has to push.
    pub(crate) fn note_other_holder<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        record: &Record,
        child: OriginId,
    ) -> Result<(), StorageError> {
        match Self::missing(core, record.id)? {
            Some(mut missing) if !missing.holders.contains(&child) && missing.holders.len() < HOLDERS_MAX => {
                missing.holders.insert(0, child);
                core.state.put_row(record_key(table::MISSING, record.id), pack(&missing));
                Ok(())
            }
            None if content_of(record).is_some_and(|(_, content)| content.root().is_some()) => {
                self.handle_have(core, children, child, &[record.id])
            }
            Some(_) | None => Ok(()),
        }
    }
}
