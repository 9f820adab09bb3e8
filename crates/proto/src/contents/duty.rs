//! What a replica does for contents beyond the rows that all keep, by where it stands on their way: chosen once, when it is opened.
//!
//! ```text
//!   author (client)            carrier (station)          keeper (home)
//!   answers for what it ─────▶ keeps what came until ───▶ has all that it lacks sought,
//!   wrote until it is stable   the next one has it        and decides what is lost
//! ```

use crate::contents::answers::Denial;
use crate::contents::named_looks::Named;
use crate::contents::own_looks::OwnLooks;
use crate::contents::replaced::Superseded;
use crate::contents::replacing::Replacing;
use crate::contents::seeking::Seeking;
use crate::replica::composition::Position;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{OriginId, RecordId, Time};
use wayfs_wire::AskId;

/// One of the three.
#[derive(Debug)]
pub(super) enum Duty {
    Keeps(Keeper),
    Carries(Carrier),
    Answers(Author),
}

impl Duty {
    /// That of who stands there.
    pub(super) fn at(position: Position) -> Self {
        match position {
            Position::Orders => Self::Keeps(Keeper::default()),
            Position::Relays => Self::Carries(Carrier::default()),
            Position::Writes => Self::Answers(Author::default()),
        }
    }
}

/// The end of the way: nobody above can be asked for what is missing here.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// Versions that left the view.
    pub(super) superseded: Vec<Superseded>,
    /// Stations that told that they have contents of records which have not come yet. A client that moves may be
    /// faster by its new station, and the former one has no reason to send the record then, nor to tell again.
    pub(super) early_haves: BTreeMap<RecordId, BTreeSet<OriginId>>,
    /// The same of those that could give contents.
    pub(super) early_spares: BTreeMap<RecordId, BTreeSet<OriginId>>,
    pub(super) replacing: Replacing,
    /// Versions that nobody has on record.
    pub(super) seeking: Seeking,
    /// Stations that said of what is missing that nobody below them has it any more. They are on record for it no more, and
    /// wait to hear what became of it. (After a restart they say so again, in their next sessions.)
    pub(super) said_gone: BTreeMap<RecordId, BTreeSet<OriginId>>,
    /// Versions that files show in place of lost ones, whose contents are missing under the record that brought them, and the
    /// children that have them by the version that is shown.
    pub(super) shown_instead: BTreeMap<RecordId, BTreeSet<OriginId>>,
}

impl Keeper {
    /// A station has contents of a record that has not come yet. Past the bound one is forgotten: it is told again
    /// in the station's next session.
    pub(super) fn note_early(&mut self, record: RecordId, child: OriginId) {
        note_early(&mut self.early_haves, record, child);
    }

    /// A station could give contents of a record that has not come yet. Past the bound one is forgotten, as above.
    pub(super) fn note_early_spare(&mut self, record: RecordId, child: OriginId) {
        note_early(&mut self.early_spares, record, child);
    }

    /// A record came: who has its contents already, and who could give them.
    pub(super) fn take_early(&mut self, record: RecordId) -> (BTreeSet<OriginId>, BTreeSet<OriginId>) {
        let (haves, spares) = (self.early_haves.remove(&record), self.early_spares.remove(&record));
        (haves.unwrap_or_default(), spares.unwrap_or_default())
    }

    /// A file shows a version whose contents are missing under a record that is older.
    pub(super) fn note_shown_instead(&mut self, version: RecordId) {
        self.shown_instead.insert(version, BTreeSet::new());
    }

    /// A child has contents by the version that is shown: it is told when they came. Answers whether they are missing so.
    pub(super) fn note_had_as_shown(&mut self, version: RecordId, child: OriginId) -> bool {
        self.shown_instead.get_mut(&version).is_some_and(|had_by| {
            had_by.insert(child);
            true
        })
    }
}

fn note_early(of: &mut BTreeMap<RecordId, BTreeSet<OriginId>>, record: RecordId, child: OriginId) {
    of.entry(record).or_default().insert(child);
    if of.len() > EARLY_MAX {
        of.pop_first();
    }
}

/// Between: what came from below is kept until the parent has it, and what the parent asks for is asked for below.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    /// Versions that are wanted and still below us: they take no room from what can be pushed.
    pub(super) wanted_below: BTreeSet<RecordId>,
    /// Those wanted for which the parent asked itself: it knows better than we whether their file is there.
    pub(super) called: BTreeSet<RecordId>,
    /// To be told to the parent: what we have.
    pub(super) haves: BTreeSet<RecordId>,
    /// And what somebody below could give.
    pub(super) spares: BTreeSet<RecordId>,
    /// Versions that were sent as cancelled in this session: nobody will ask for them.
    pub(super) cancelled: BTreeSet<RecordId>,
    /// Contents that the home named and that are looked for here.
    pub(super) named: Named,
    /// Contents that nobody below has by the records, and of which the home is told so when they were looked for here.
    pub(super) denied: BTreeMap<RecordId, Denial>,
    /// When to look which contents nobody below has who is there.
    pub(super) gone_at: Option<Time>,
}

/// The beginning: for what our user wrote nobody else answers before it is at the end.
#[derive(Debug, Default)]
pub(super) struct Author {
    /// `None`: there is no session with a parent.
    pub(super) said: Option<Said>,
    /// Contents of our own that are looked for.
    pub(super) own_looks: OwnLooks,
    /// Everything owed up to here was pushed in this session.
    pub(super) push_cursor: u64,
    /// And everything that is owed of our former origins.
    pub(super) former_pushed: bool,
    /// Bytes of what is lent that have gone on.
    pub(super) sent_home: BTreeMap<RecordId, u64>,
}

/// What the parent was told of our contents in this session.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Up to here the parent knows which contents of our own we still hold.
    pub(super) accounted: u64,
    /// Up to here the parent was told of what others have of us, and we, too.
    pub(super) lent: u64,
    /// And of those of our former origins, all.
    pub(super) former: bool,
    /// Our question what became of these.
    pub(super) former_ask: Option<AskId>,
    /// Former origins of which the parent was asked to bring home what we lent, and through which record.
    pub(super) former_wanted: BTreeMap<OriginId, u64>,
}

/// Most records that have not come and of which the home remembers who has contents.
const EARLY_MAX: usize = 65_536;
