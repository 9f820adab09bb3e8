//! What a station is about to say that nobody has: it looks at its own chunk store first.
//!
//! A push can end when its last chunk has come and before anybody asked whether all is here: its client is put back to an older copy,
//! or is gone. By the records nobody below has the contents then, and the station has them all. The home believes for good who says
//! no, and does not wait for it when it is away, so a station says no of nothing that it has ([S-losses]).
//!
//! ```text
//!   nobody below is left ──▶ denied ──LookHere──▶ here: owed, and told to the home
//!                                        └──────▶ not here: Gone
//! ```
//!
//! The row of what is missing stays until the driver has looked: a crash in between forgets the question and not the row, and who is
//! there is looked at again in the next session (`Contents::retell_gone`).

use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::{ByWriter, Denial};
use crate::contents::duty::Carrier;
use crate::contents::missing::Missing;
use crate::replica::core::Core;
use crate::state::tables::{pack, record_key, table};
use wayfs_types::{MetaStore, RecordId, StorageError};

impl Contents {
    /// By the records nobody below us has contents: the parent is told so if they are not here either.
    pub(crate) fn deny(&mut self, version: RecordId, denial: Denial) {
        if let Some(carrier) = self.carrier_mut() {
            carrier.denied.insert(version, denial);
        }
    }

    /// Their client holds contents no more, and nobody else does.
    pub(super) fn deny_let_go<S: MetaStore>(&mut self, core: &mut Core<S>, version: RecordId, missing: Missing) {
        let missing = Missing { holders: Vec::new(), spares: Vec::new(), ..missing };
        core.state.put_row(record_key(table::MISSING, version), pack(&missing));
        self.deny(version, Denial::LetGo);
    }

    /// Has the driver look for what is denied, as much as there is room for.
    pub(crate) fn look_for_denied<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some(Carrier { named, denied, .. }) = self.carrier_mut().filter(|carrier| !carrier.denied.is_empty())
        else {
            return Ok(());
        };
        let room = named.room(core.now);
        let is_new = |version: &&RecordId| !named.is_under_way(**version);
        let next: Vec<RecordId> = denied.keys().filter(is_new).take(room).copied().collect();
        for version in next {
            match Self::missing(core, version)? {
                Some(missing) => self.begin_look(core, missing.file, version, missing.content),
                // It came, or the home has decided.
                None => drop(self.take_denial(version)),
            }
        }
        Ok(())
    }

    /// What was denied is not here either.
    pub(super) fn confirm_denial<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        version: RecordId,
    ) -> Result<(), StorageError> {
        let (Some(denial), Some(missing)) = (self.take_denial(version), Self::missing(core, version)?) else {
            return Ok(());
        };
        match denial {
            Denial::Missing(by) => self.note_gone(version, by),
            // Somebody may have come with it meanwhile.
            Denial::LetGo if missing.everybody().next().is_some() => {}
            Denial::LetGo => {
                self.settle_missing(core, children, version, &missing);
                // The home may have been told that somebody here holds it.
                self.note_gone(version, ByWriter::No);
            }
        }
        Ok(())
    }

    /// What was denied is here.
    pub(super) fn take_denial(&mut self, version: RecordId) -> Option<Denial> {
        self.carrier_mut()?.denied.remove(&version)
    }
}
