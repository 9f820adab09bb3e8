//! Contents of versions that a home forgot when it was put back: nobody will confirm them, and nobody asks for them.
//!
//! Who answers for them writes again what its view shows (`histories/restored.rs`). What was kept for the former name goes home by the
//! new one; what had been written over goes nowhere.

use crate::contents::Contents;
use crate::contents::losses::Vanished;
use crate::contents::owed::{Lent, Owed};
use crate::histories::Histories;
use crate::histories::written_over::Confirmed;
use crate::replica::Replica;
use crate::state::tables::table::VANISHED;
use crate::state::tables::{origin_range, parse_record_key, record_key, table, unpack};
use wayfs_types::{Content, MetaStore, OriginId, RecordId, StorageError};

impl<S: MetaStore> Replica<S> {
    /// The home lost our records after this one.
    pub(crate) fn take_over_lost(&mut self, former: OriginId, after: u64) -> Result<(), StorageError> {
        if self.contents.author().is_none() {
            return Ok(());
        }
        for of in [table::LENT, table::OWED] {
            let (from, until) = origin_range(of, former, after.saturating_add(1).min(RecordId::SEQUENCE_MAX));
            for (key, value) in self.core.state.tx().scan_raw(&from, &until, usize::MAX / 2)? {
                let content =
                    if of == table::LENT { unpack::<Lent>(&value)?.content } else { unpack::<Owed>(&value)?.content };
                self.take_over(parse_record_key(&key)?, &content)?;
            }
        }
        // Nor is anybody told that they are gone.
        let (from, until) = origin_range(VANISHED, former, after.saturating_add(1).min(RecordId::SEQUENCE_MAX));
        for (key, _) in self.core.state.tx().scan_raw(&from, &until, usize::MAX / 2)? {
            self.contents.take_vanished(&mut self.core, parse_record_key(&key)?)?;
        }
        Ok(())
    }

    /// A station took over the whole state of a home that was put back: what this does not have is not to be confirmed.
    pub(crate) fn take_over_forgotten(&mut self) -> Result<(), StorageError> {
        let mut known = Confirmed::default();
        if let Some(carrier) = self.contents.carrier_mut() {
            for version in carrier.named.looked_for() {
                if Histories::is_forgotten_there(&mut self.core, version, &mut known)? {
                    // What is found goes by the name under which it was written again, for which the driver looks, too.
                    carrier.named.call_off(version);
                }
            }
        }
        for of in [table::OWED, table::MISSING] {
            for (key, value) in self.core.state.tx().scan_raw(&[of], &[of + 1], usize::MAX / 2)? {
                let version = parse_record_key(&key)?;
                if !Histories::is_forgotten_there(&mut self.core, version, &mut known)? {
                    continue;
                }
                match of {
                    table::OWED => self.take_over(version, &unpack::<Owed>(&value)?.content)?,
                    _ => drop(self.let_go(version)?),
                }
            }
        }
        Ok(())
    }

    /// Nobody will ask for contents that are here by this name.
    fn take_over(&mut self, version: RecordId, content: &Content) -> Result<(), StorageError> {
        self.let_go(version)?;
        let Some(now) = self.histories.renamed_to(version) else { return Ok(()) };
        // The driver need not look for them.
        let file = if self.contents.author().is_some() {
            let looked_for = self.core.state.tx().get_raw(&record_key(VANISHED, now))?;
            let looked_for = looked_for.map(|bytes| unpack::<Vanished>(&bytes)).transpose()?;
            let Some(looked_for) = looked_for.filter(|looked_for| looked_for.content == *content) else {
                return Ok(());
            };
            self.contents.take_vanished(&mut self.core, now)?;
            looked_for.file
        } else {
            let Some(missing) = Contents::missing(&mut self.core, now)?.filter(|missing| missing.content == *content)
            else {
                return Ok(());
            };
            self.contents.settle_missing(&mut self.core, &mut self.children, now, &missing);
            missing.file
        };
        self.contents.owe(&mut self.core, now, file, content.clone())
    }
}
