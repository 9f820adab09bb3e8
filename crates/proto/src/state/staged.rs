//! What becomes of an overlay in memory once it is committed.

use crate::api::Output;
use crate::contents::replaced::Superseded;
use crate::contents::weight::Weight;
use crate::histories::skipped::Gap;
use crate::requests::listed::Listed;
use crate::state::log::Applied;
use crate::state::log_item::LogItem;
use crate::state::position::LogPosition;
use crate::state::totals::Totals;
use std::collections::BTreeSet;
use wayfs_types::{FileId, Name, OriginId, RecordId};
use wayfs_wire::{AskId, Verdict};

/// In-memory consequences of an overlay: carried out once it is committed, dropped with it.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) appended: Vec<(LogPosition, LogItem)>,
    pub(crate) confirmed: Vec<RecordId>,
    pub(crate) forgotten: Vec<LogPosition>,
    pub(crate) outputs: Vec<Output>,
    /// Origins whose marks may have moved.
    pub(crate) marks: BTreeSet<OriginId>,
    /// Home: versions whose contents are missing from now on, with their files and roots.
    pub(crate) noted: Vec<(FileId, RecordId, wayfs_types::Top)>,
    /// Those of our own records did.
    pub(crate) marks_moved: bool,
    /// Records of the log whose contents changed because they were cancelled, and what they weigh.
    pub(crate) weighed: Vec<(LogPosition, Weight)>,
    /// Versions that were overwritten before they stood in the view.
    pub(crate) superseded: Vec<Superseded>,
    /// The record over lost numbers was written.
    pub(crate) gap: Option<Gap>,
    /// What of a takeover's findings is in the store.
    pub(crate) found: Vec<(crate::histories::lost::Kind, FileId)>,
    /// Records taken from a child client, whose change others must have heard of.
    pub(crate) taken: Vec<RecordId>,
    /// Tentative records that were replayed.
    pub(crate) replayed: Vec<(LogPosition, Applied)>,
    /// Changes of the number of open conflicts, of versions owed and missing.
    pub(crate) totals: Totals,
    /// Origins whose records this is: children that write under them are told of every changed key, by whatever
    /// way their records came, since they count on hearing what became of them.
    pub(crate) echo: BTreeSet<OriginId>,
    /// Questions that the parent answered. Whoever asked looks at what is stored: not before it is.
    pub(crate) answered: Vec<Answered>,
    pub(crate) kernel: KernelKnows,
}

/// What the kernel of a client need not be told of a change.
#[derive(Debug, Default)]
pub(crate) struct KernelKnows {
    /// It was made by our own user.
    pub(crate) own: bool,
    /// Names that an answer brings and of which nobody here was told anything yet: there is nothing that the kernel must forget.
    pub(crate) learned: BTreeSet<(FileId, Name)>,
}

/// A question, what its answer was found to be, and the page if it asked for one.
pub(crate) type Answered = (AskId, Verdict, Option<Listed>);
