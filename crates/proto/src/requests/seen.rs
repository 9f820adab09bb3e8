//! What a question names, so that its answer is not older than what was seen before.

use std::collections::BTreeMap;
use wayfs_types::{OriginId, RecordId};
use wayfs_wire::Question;

/// The newest of some records, by their origin: who knows of that knows of those before it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen(BTreeMap<OriginId, u64>);

impl Seen {
    pub(crate) fn note(&mut self, record: RecordId) {
        let sequence = self.0.entry(record.origin()).or_insert(0);
        *sequence = (*sequence).max(record.sequence());
    }

    /// What of this another one does not cover.
    pub(crate) fn beyond(mut self, other: &Self) -> Self {
        self.0.retain(|origin, sequence| other.0.get(origin).is_none_or(|covered| covered < sequence));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what was found missing. It comes first: a question has room for so many only.
    pub(crate) fn extended_by(mut self, missing: &Self) -> Self {
        let room = wayfs_wire::SEEN_MAX.saturating_sub(missing.0.len());
        self.0.retain(|origin, _| !missing.0.contains_key(origin));
        let kept = self.0.into_iter().take(room);
        Self(kept.chain(missing.0.clone()).collect()).bounded()
    }

    /// As much as a question has room for: what it does not name its answer need not know.
    pub(crate) fn bounded(self) -> Self {
        Self(self.0.into_iter().take(wayfs_wire::SEEN_MAX).collect())
    }

    /// As a question names them.
    pub(crate) fn records(&self) -> Vec<RecordId> {
        self.0.iter().filter_map(|(origin, sequence)| RecordId::new(*origin, *sequence).ok()).collect()
    }
}

/// A question that the parent has not answered yet.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) seen: Seen,
    /// How often it was put.
    pub(crate) times: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(origins: impl Iterator<Item = u32>, sequence: u64) -> Seen {
        let mut seen = Seen::default();
        origins.for_each(|origin| seen.note(RecordId::new(OriginId::new(origin).unwrap(), sequence).unwrap()));
        seen
    }

    #[test]
    fn what_a_question_has_no_room_for_is_not_named() {
        let room = u32::try_from(wayfs_wire::SEEN_MAX).unwrap();
        let all = seen(2..room + 12, 5);
        let named = all.clone().bounded();
        assert_eq!(named.records().len(), wayfs_wire::SEEN_MAX);
        let missing = all.beyond(&named);
        assert_eq!(missing.records().len(), 10);
        let again = named.extended_by(&missing);
        assert_eq!(again.records().len(), wayfs_wire::SEEN_MAX);
        assert!(missing.beyond(&again).is_empty(), "what was missing has room before the rest");
    }
}
