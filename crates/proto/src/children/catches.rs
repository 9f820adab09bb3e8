//! Children that want to catch up with the home (`upstream/catching.rs`): each is answered when it was told all that the
//! home had when it asked.

use crate::children::catch::{Catch, Caught};
use crate::children::{ChildState, Children};
use crate::replica::core::Core;
use crate::upstream::Uplink;
use std::collections::VecDeque;
use wayfs_types::{CommitNumber, MetaStore, OriginId};
use wayfs_wire::{AskId, Down};

/// Most questions of one child that wait: of a station, as many as a few hundred clients have that open files to write in
/// exclusive directories.
pub(crate) const CATCHES_MAX: usize = 16_384;

impl Children {
    /// A child wants to catch up. Answers whether it asks too much.
    pub(crate) fn handle_catch<S: MetaStore>(&mut self, core: &mut Core<S>, child: OriginId, ask: AskId) -> bool {
        let waits = if core.orders() {
            Some(Catch::Told(core.state.change()))
        } else if core.is_trusted() {
            Uplink::ask_catch(core).map(Catch::Home)
        } else {
            None
        };
        let Some(row) = self.by_origin.get_mut(&child) else { return false };
        match waits {
            Some(_) if row.catches.len() >= CATCHES_MAX => return true,
            Some(waits) => row.catches.push_back((ask, waits)),
            None => self.tell(child, Down::Caught { ask, reached: false }),
        }
        false
    }

    /// The parent answered a question of ours: whoever waits for that is answered when it was told all that is here by now.
    pub(crate) fn note_caught<S: MetaStore>(&mut self, core: &Core<S>, ask: AskId, caught: Caught) {
        let change = core.state.change();
        let mut refused = Vec::new();
        for (origin, child) in &mut self.by_origin {
            for (theirs, waits) in &mut child.catches {
                if *waits == Catch::Home(ask) {
                    *waits = Catch::Told(change);
                    self.busy.insert(*origin);
                    if caught == Caught::CutOff {
                        refused.push((*origin, *theirs));
                    }
                }
            }
        }
        for (child, ask) in refused {
            self.refuse_catch(child, ask);
        }
    }

    /// The parent is gone: nobody can be told what the home has.
    pub(crate) fn refuse_catches(&mut self) {
        let mut refused = Vec::new();
        for (origin, child) in &self.by_origin {
            let of_home = child.catches.iter().filter(|(_, waits)| matches!(waits, Catch::Home(_)));
            refused.extend(of_home.map(|(ask, _)| (*origin, *ask)));
        }
        for (child, ask) in refused {
            self.refuse_catch(child, ask);
        }
    }

    fn refuse_catch(&mut self, child: OriginId, ask: AskId) {
        if let Some(row) = self.by_origin.get_mut(&child) {
            row.catches.retain(|(theirs, _)| *theirs != ask);
            self.tell(child, Down::Caught { ask, reached: false });
        }
    }

    /// Answers a child that was told all that it asked for.
    pub(crate) fn answer_catches<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        if child.catches.is_empty() {
            return;
        }
        let (next, is_station) = (child.next, child.is_station);
        let is_open = child.cut_is_open || (is_station && child.started) || !child.pending.is_empty();
        let is_told = |change: CommitNumber| {
            match child.state {
                ChildState::Live => !is_open && next >= change,
                ChildState::Scanning => !is_open && next >= change && is_station,
                // It wants to know how far its own records have come, which the marks said just now.
                ChildState::Ready => !is_station,
                ChildState::Greeting | ChildState::Detached => false,
            }
        };
        let done = |(_, waits): &(AskId, Catch)| matches!(waits, Catch::Told(change) if is_told(*change));
        let (told, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut child.catches).into_iter().partition(done);
        child.catches = left;
        for (ask, _) in told {
            self.send_child(core, origin, Down::Caught { ask, reached: true });
        }
    }
}
