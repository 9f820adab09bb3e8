//! What clients changed of names and contents where they take rights to change alone, each with the session in which that was.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_proto::PeerId;
use wayfs_types::request::Request;
use wayfs_types::{FileId, Name, RecordId, Time};

/// A request under way.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) at: Time,
    pub(crate) deadline: Time,
    pub(crate) moment: Option<Moment>,
}

/// The session in which a client vouches for what it shows, and what it had answered without until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) session: PeerId,
    pub(crate) parent: usize,
    pub(crate) unvouched: u64,
}

/// A name that was given or taken away.
#[derive(Debug, Clone)]
pub(crate) struct Touch {
    pub(crate) at: Time,
    pub(crate) before: Option<FileId>,
    pub(crate) after: Option<FileId>,
    /// `None`: it was changed without a station.
    pub(crate) moment: Option<Moment>,
}

/// A content that was stored.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) version: RecordId,
    pub(crate) at: Time,
    pub(crate) moment: Option<Moment>,
}

/// All that was changed.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) names: BTreeMap<(FileId, Name), Vec<Touch>>,
    pub(crate) stored: BTreeMap<FileId, Vec<Stored>>,
    /// When a host met a conflict last: with what somebody far away did.
    pub(crate) met: BTreeMap<usize, Time>,
    /// Files that a host had as copies beside others.
    copies: BTreeSet<(usize, FileId)>,
}

impl Sharing {
    /// A host met a conflict: what was done there before may have come to lie elsewhere.
    pub(crate) fn note_conflict(&mut self, index: usize, conflict: RecordId, at: Time) {
        self.met.insert(index, at);
        self.copies.insert((index, FileId::made_by(conflict)));
    }

    pub(crate) fn was_copy(&self, index: usize, file: FileId) -> bool {
        self.copies.contains(&(index, file))
    }

    pub(crate) fn met_since(&self, index: usize, at: Time) -> bool {
        self.met.get(&index).is_some_and(|met| *met >= at)
    }

    /// Whether a file had names, and then none, before a moment.
    pub(crate) fn was_nameless(&self, file: FileId, before: Time) -> bool {
        // Of one moment it is given names first: a rename leaves none out.
        let mut steps: BTreeSet<(Time, Step, &(FileId, Name))> = BTreeSet::new();
        for (key, touches) in &self.names {
            for touch in touches.iter().filter(|touch| touch.at < before) {
                steps.extend((touch.after == Some(file)).then_some((touch.at, Step::Given, key)));
                steps.extend((touch.before == Some(file)).then_some((touch.at, Step::Taken, key)));
            }
        }
        let mut names = BTreeSet::new();
        steps.into_iter().any(|(_, step, key)| match step {
            Step::Given => {
                names.insert(key);
                false
            }
            Step::Taken => names.remove(key) && names.is_empty(),
        })
    }
}

/// What happens to a name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Given,
    Taken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_nameless_once_its_last_name_went_and_not_while_it_is_renamed() {
        let file = FileId::made_by(RecordId::GENESIS);
        let mut sharing = Sharing::default();
        let key = |text: &str| (FileId::ROOT, Name::new(text).unwrap());
        let mut touch = |at, text: &str, (before, after): (Option<FileId>, Option<FileId>)| {
            let touch = Touch { at: Time::from_micros(at), before, after, moment: None };
            sharing.names.entry(key(text)).or_default().push(touch);
        };
        touch(1, "a", (None, Some(file)));
        touch(2, "a", (Some(file), None));
        touch(2, "b", (None, Some(file)));
        touch(3, "c", (None, Some(file)));
        touch(4, "b", (Some(file), None));
        touch(5, "c", (Some(file), None));
        touch(7, "d", (None, Some(file)));
        let was_nameless = |at| sharing.was_nameless(file, Time::from_micros(at));
        assert_eq!([1, 3, 5, 6, 8].map(was_nameless), [false, false, false, true, true]);
    }
}
