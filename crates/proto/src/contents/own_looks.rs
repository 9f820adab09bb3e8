//! What a client looks for of its own contents: those that its home may have lost ([`crate::contents::recount`]), and those for which
//! its server asks.
//!
//! The driver looks. What an input began and what it heard is taken back if the store does not take that input.

use crate::contents::rest::Rest;
use crate::mirror::Mirror;
use crate::state::tables::{KeyKind, kind_range, table};
use std::collections::BTreeMap;
use wayfs_types::{RecordId, Time};

/// How far a client has come with that.
#[derive(Debug, Default)]
pub(crate) struct OwnLooks {
    /// From which key on to look; `None`: for none.
    pub(crate) from: Mirror<Option<Vec<u8>>>,
    /// How often the driver looks for a version at present.
    looks: BTreeMap<RecordId, u32>,
    /// Those of before our history forked, of versions that were written again since: what they find is looked for by its new name.
    stale_looks: BTreeMap<RecordId, u32>,
    /// Looks that this input began, and whether it had an answer to one.
    begun: Vec<RecordId>,
    is_answered: bool,
    pub(crate) rest: Rest,
}

impl OwnLooks {
    pub(crate) fn is_under_way(&self) -> bool {
        self.from.is_some() || !self.looks.is_empty()
    }

    /// From where on to look now.
    pub(crate) fn due(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.rest.lasts(now) { None } else { self.from.clone() }
    }

    /// The driver is to look for a version.
    pub(crate) fn look_begun(&mut self, version: RecordId) {
        *self.looks.entry(version).or_default() += 1;
        self.begun.push(version);
    }

    /// It has looked. Whether nobody wants to know any more what it found.
    pub(crate) fn look_ended(&mut self, version: RecordId) -> bool {
        less(&mut self.looks, version);
        let is_stale = less(&mut self.stale_looks, version);
        self.is_answered |= !is_stale;
        is_stale
    }

    /// What the driver looks for by these names is nobody's business any more.
    pub(crate) fn call_off(&mut self, is_stale: impl Fn(RecordId) -> bool) {
        let looks = self.looks.iter().map(|(version, count)| (*version, *count));
        self.stale_looks.extend(looks.filter(|(version, _)| is_stale(*version)));
    }

    /// What an input did is in the store.
    pub(crate) fn committed(&mut self) {
        self.from.committed();
        self.begun.clear();
        self.is_answered = false;
        if !self.is_under_way() {
            self.rest.be_short();
        }
    }

    /// What an input did was dropped, and orders to look with it. What was found is looked for again, after a while.
    pub(crate) fn abandon(&mut self, now: Time) {
        self.from.abandon();
        for version in std::mem::take(&mut self.begun) {
            less(&mut self.looks, version);
        }
        if std::mem::take(&mut self.is_answered) {
            *self.from.as_stored() = Some(first_inode());
        }
        if self.from.is_some() {
            self.rest.begin(now);
        }
    }
}

/// Counts one less of a version; whether there was one.
fn less(looks: &mut BTreeMap<RecordId, u32>, version: RecordId) -> bool {
    let Some(count) = looks.get_mut(&version) else { return false };
    *count -= 1;
    if *count == 0 {
        looks.remove(&version);
    }
    true
}

/// Where looking begins.
pub(crate) fn first_inode() -> Vec<u8> {
    kind_range(table::VIEW, KeyKind::Inode).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wayfs_types::OriginId;

    fn version() -> RecordId {
        RecordId::new(OriginId::new(7).unwrap(), 1).unwrap()
    }

    /// Seed 167010246 with open files and full disks: `sync --until stable` waited for ever for looks of which the driver never heard.
    #[test]
    fn a_look_that_was_dropped_is_not_under_way() {
        let mut recount = OwnLooks::default();
        recount.look_begun(version());
        recount.committed();
        recount.look_begun(version());
        recount.abandon(Time::ZERO);
        assert!(recount.is_under_way(), "one was ordered");
        assert!(!recount.look_ended(version()));
        recount.committed();
        assert!(!recount.is_under_way());
    }

    #[test]
    fn what_an_answer_said_that_was_dropped_is_looked_for_again_after_a_while() {
        let mut recount = OwnLooks::default();
        recount.look_begun(version());
        recount.committed();
        recount.look_ended(version());
        recount.abandon(Time::ZERO);
        assert!(recount.is_under_way());
        assert_eq!(recount.due(Time::ZERO), None);
        assert_eq!(recount.due(Time::ZERO + Duration::from_secs(1)), Some(first_inode()));
    }

    #[test]
    fn a_page_that_was_dropped_is_gone_through_again() {
        let mut recount = OwnLooks::default();
        *recount.from.as_stored() = Some(first_inode());
        *recount.from.edit() = None;
        recount.abandon(Time::ZERO);
        assert_eq!(recount.due(Time::ZERO + Duration::from_secs(1)), Some(first_inode()));
    }

    #[test]
    fn what_is_called_off_is_nobodys_business_once_for_each_look() {
        let mut recount = OwnLooks::default();
        recount.look_begun(version());
        recount.call_off(|_| true);
        recount.look_begun(version());
        assert!(recount.look_ended(version()));
        assert!(!recount.look_ended(version()));
        assert!(!recount.is_under_way());
    }
}
