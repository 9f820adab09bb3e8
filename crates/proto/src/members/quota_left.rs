//! What quotas leave, and what was written since that was told.

use crate::members::usage_sums::{Change, Usage};
use std::collections::{BTreeMap, VecDeque};
use wayfs_types::{OriginId, Quota};
use wayfs_wire::QuotaRoom;

/// Changes of its own that a client remembers apart.
const GROWN_MAX: usize = 4096;

/// What a server keeps in mind of quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// All together.
    pub(crate) of_volume: Quota,
    /// What was used of it when all clients were told.
    pub(super) told: Usage,
    /// Clients that went beyond theirs, and what these left then: of their own, and of the volume's.
    pub(super) refused: BTreeMap<OriginId, [Left; 2]>,
}

/// What a quota leaves; the largest number where it sets no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

impl Left {
    pub(super) fn of(quota: Quota, used: Usage) -> Self {
        let left = |max: Option<u64>, used: u64| max.map_or(u64::MAX, |max| max.saturating_sub(used));
        Self { bytes: left(quota.bytes, used.bytes), files: left(quota.files, used.files) }
    }

    pub(super) fn is_none(self) -> bool {
        self.bytes == 0 || self.files == 0
    }
}

/// What our own records took up since a server counted.
#[derive(Debug, Default)]
pub(crate) struct Grown {
    /// A server refused what we sent; nothing was removed here since.
    pub(super) is_held: bool,
    records: VecDeque<(u64, Growth)>,
    pub(super) sum: Growth,
}

/// For whoever wrote it, and for the volume.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Growth {
    pub(super) own: Change,
    pub(super) all: Change,
}

impl Growth {
    fn shrinks(&self) -> bool {
        [self.own, self.all].iter().any(|change| change.bytes < 0 || change.files < 0)
    }

    pub(super) fn grows(&self) -> bool {
        [self.own, self.all].iter().any(|change| change.bytes > 0 || change.files > 0)
    }

    fn add(&mut self, other: Self, sign: i64) {
        for (sum, more) in [(&mut self.own, other.own), (&mut self.all, other.all)] {
            sum.bytes = sum.bytes.saturating_add(more.bytes.saturating_mul(sign));
            sum.files = sum.files.saturating_add(more.files.saturating_mul(sign));
        }
    }
}

impl Grown {
    pub(super) fn note(&mut self, sequence: u64, growth: Growth) {
        self.sum.add(growth, 1);
        self.is_held &= !growth.shrinks();
        let is_many = self.records.len() >= GROWN_MAX;
        match self.records.back_mut() {
            // Then the two are forgotten together, a little later.
            Some((last, known)) if is_many => {
                *last = sequence;
                known.add(growth, 1);
            }
            _ => self.records.push_back((sequence, growth)),
        }
    }

    pub(crate) fn counted_through(&mut self, sequence: u64) {
        while let Some((at, growth)) = self.records.front().copied()
            && at <= sequence
        {
            self.records.pop_front();
            self.sum.add(growth, -1);
        }
    }

    pub(super) fn of(&self, quota: &QuotaRoom) -> Change {
        if quota.is_members { self.sum.own } else { self.sum.all }
    }
}
