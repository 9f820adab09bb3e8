//! What a station's propagation policy is told of its engine: the same live and simulated.
//!
//! The driver asks of each output what it means ([`Replica::propagation_news`]) and tells the policy's machine before it gives
//! the engine another input, so that the view is the one that the output is about. A machine that is opened is told first
//! what waits ([`Replica::recall_unsent`]).

use crate::api::Output;
use crate::contents::Contents;
use crate::contents::missing::Missing;
use crate::contents::owed::Owed;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::happenings::{Happening, What};
use crate::state::tables::{parse_record_key, record_key, table, unpack};
use std::time::Duration;
use wayfs_policy::{Access, Input};
use wayfs_types::{Content, FileId, MetaStore, RecordId, StorageError, WallTime};

/// How far a policy that began has been told what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    of: u8,
    from: Vec<u8>,
}

impl Default for Recall {
    fn default() -> Self {
        Self { of: table::OWED, from: vec![table::OWED] }
    }
}

impl<S: MetaStore> Replica<S> {
    /// Some more of what files show and our parent lacks, be it here or still below: at most `limit` versions are looked at. Ends
    /// with `None` in the place of `recall`.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn recall_unsent(
        &self,
        recall: &mut Option<Recall>,
        wall: WallTime,
        limit: usize,
    ) -> Result<Vec<Input>, StorageError> {
        let Some(Recall { of, from }) = recall.take().filter(|_| self.contents.carrier().is_some()) else {
            return Ok(Vec::new());
        };
        let rows = self.core.state.store().scan(&from, &[of + 1], limit)?;
        *recall = match (rows.last().filter(|_| rows.len() == limit), of) {
            (Some((last, _)), _) => Some(Recall { of, from: [last.as_slice(), &[0]].concat() }),
            (None, table::OWED) => Some(Recall { of: table::MISSING, from: vec![table::MISSING] }),
            (None, _) => None,
        };
        let mut unsent = Vec::new();
        for (key, value) in rows {
            let version = parse_record_key(&key)?;
            let (file, content) = match of {
                table::OWED => unpack::<Owed>(&value).map(|owed| (owed.file, owed.content))?,
                _ => unpack::<Missing>(&value).map(|missing| (missing.file, missing.content))?,
            };
            if let Some(Input::Written { file, version, .. }) = Contents::showing(&self.core, file, version, &content)?
            {
                let age = self.age(file, version, &content, wall)?;
                unsent.push(Input::Written { file, version, age });
            }
        }
        Ok(unsent)
    }

    /// How long a version has waited, by the clocks of its writer and its servers.
    fn age(
        &self,
        file: FileId,
        version: RecordId,
        content: &Content,
        wall: WallTime,
    ) -> Result<Duration, StorageError> {
        let facts = self.facts_of(version, Some(content))?;
        let since = self.core.state.waits_since(file, version, facts)?;
        let nanos = since.map_or(0, |since| wall.as_nanos().saturating_sub(since.as_nanos()));
        Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

impl Contents {
    /// What an output means to the propagation policy of this station. Other roles have none.
    pub(crate) fn propagation_news<S: MetaStore>(
        core: &Core<S>,
        output: &Output,
    ) -> Result<Option<Input>, StorageError> {
        if !core.relays() {
            return Ok(None);
        }
        Ok(match output {
            // Of several in one step the last is shown.
            Output::Applied { file, record, content: Some(content) } => Self::showing(core, *file, *record, content)?,
            Output::Owed { file, version } => Self::shown_owed(core, *file, *version)?,
            Output::Released { version } => Some(Input::Released { version: *version }),
            Output::Push { version, .. } => Some(Input::Sent { version: *version }),
            Output::Shared { file, version } => Some(Input::Shared { file: *file, version: *version }),
            Output::Happened(what) => Self::news_of(core, what)?,
            Output::Applied { content: None, .. }
            | Output::Answer { .. }
            | Output::Send { .. }
            | Output::Disconnect { .. }
            | Output::Sync { .. }
            | Output::InvalidateInode { .. }
            | Output::InvalidateEntry { .. }
            | Output::InvalidateAll
            | Output::Seek { .. }
            | Output::LookHere { .. }
            | Output::Conflict { .. }
            | Output::Lost { .. }
            | Output::Forked { .. }
            | Output::Renewed { .. }
            | Output::WentBack { .. }
            | Output::Recovered { .. }
            | Output::Rescued { .. }
            | Output::GiveBack { .. }
            | Output::RoomsAbove { .. }
            | Output::Failed { .. } => None,
        })
    }

    /// People are told what files show; a policy, whether that is to be sent.
    fn news_of<S: MetaStore>(core: &Core<S>, what: &Happening) -> Result<Option<Input>, StorageError> {
        let Happening { file, by: Some(by), is_directory: false, .. } = *what else { return Ok(None) };
        Ok(match what.what {
            // Without a maker it has other names.
            What::Removed => Some(Input::Removed { file }),
            // A copy was made of a version that waits.
            What::Created => Self::unsent_of(core, file)?,
            // An older version is shown again where a later one lost its place.
            What::Edited => match Self::unsent_of(core, file)? {
                Some(written) => Some(written),
                None if core.state.log().position_of(by).is_some() => Some(Input::Overwritten { file }),
                None => Some(Input::Elsewhere { file, access: Access::Write }),
            },
            What::Renamed { .. } | What::Attributes => None,
        })
    }

    /// The version that a file shows, if our parent lacks its contents.
    fn unsent_of<S: MetaStore>(core: &Core<S>, file: FileId) -> Result<Option<Input>, StorageError> {
        let Some(inode) = core.state.inode(file)?.filter(|inode| inode.content.root().is_some()) else {
            return Ok(None);
        };
        let version = inode.version;
        let has = |of| Ok::<_, StorageError>(core.state.store().get(&record_key(of, version))?.is_some());
        Ok((has(table::OWED)? || has(table::MISSING)?).then(|| written(file, version)))
    }

    /// A version which is owed, if a file shows it.
    fn shown_owed<S: MetaStore>(
        core: &Core<S>,
        file: FileId,
        version: RecordId,
    ) -> Result<Option<Input>, StorageError> {
        match core.state.store().get(&record_key(table::OWED, version))? {
            Some(row) => Self::showing(core, file, version, &unpack::<Owed>(&row)?.content),
            None => Ok(None),
        }
    }

    /// By their contents: where equal ones met the view has another name for them. Where the one that it shows waits, too (a file was
    /// stored again with the bytes that it had), that one is to be sent.
    fn showing<S: MetaStore>(
        core: &Core<S>,
        file: FileId,
        version: RecordId,
        content: &Content,
    ) -> Result<Option<Input>, StorageError> {
        for file in [file, FileId::made_by(version)] {
            if core.state.inode(file)?.is_some_and(|inode| !inode.is_removed() && inode.content == *content) {
                return Ok(Some(Self::unsent_of(core, file)?.unwrap_or_else(|| written(file, version))));
            }
        }
        Ok(None)
    }
}

fn written(file: FileId, version: RecordId) -> Input {
    Input::Written { file, version, age: Duration::ZERO }
}
