//! Machines whose stores are those that ship lose power.

use super::End;
use super::alone::exercise;
use crate::coverage::Branch;
use crate::world::World;
use rand::Rng;

/// The promise.
const KEPT: &str = "stores keep what they said is durable";
/// Chance that a machine that is to crash loses power at one of its next writes, rather than between two.
const AT_A_WRITE: f64 = 0.6;

/// What the stores of a seed are given to do before there are machines.
const ACTS_ALONE: usize = 200;

impl World {
    /// The stores by themselves, as this seed has them.
    pub(crate) fn exercise_stores(&mut self) {
        let Some(plan) = self.plan.stores else { return };
        if let Some(fault) = exercise((plan, self.plan.seed), ACTS_ALONE).fault {
            self.violate(KEPT, fault);
        }
    }

    /// Whether a machine that is to crash does so at one of its next writes.
    pub(crate) fn plan_power_cut(&mut self, index: usize) -> bool {
        if self.plan.stores.is_none() || self.healed || !self.random.random_bool(AT_A_WRITE) {
            return false;
        }
        self.note(|| format!("the power of host {index} fails at one of its next writes"));
        if let Some(stores) = self.hosts[index].disk.0.borrow_mut().stores() {
            stores.plan_power_cut();
        }
        true
    }

    /// After each event: whoever lost power meanwhile ends, and what is wrong with stores breaks a promise.
    pub(crate) fn look_at_stores(&mut self) {
        if self.plan.stores.is_none() {
            return;
        }
        for index in 0..self.hosts.len() {
            if self.hosts[index].disk.0.borrow().is_off() {
                self.lose_power(index);
            }
            let fault = self.hosts[index].disk.0.borrow_mut().stores().and_then(|stores| stores.take_fault());
            if let Some(fault) = fault {
                self.violate(KEPT, format!("host {index}: {fault}"));
            }
        }
    }

    fn lose_power(&mut self, index: usize) {
        self.crash_stores(index, End::PowerCut);
        self.cover(Branch::PowerFailed);
        self.end_and_come_back(index);
    }

    /// Ends the process above the stores that ship and opens these again. Whether there are any.
    pub(crate) fn crash_stores(&mut self, index: usize, end: End) -> bool {
        let risk = self.hosts[index].disk.0.borrow().at_risk();
        let Some(left) = self.hosts[index].disk.0.borrow_mut().crash_stores(end) else { return false };
        self.note(|| format!("host {index}, {end:?}: of {risk:?} its stores have {left:?}"));
        if left.is_torn {
            self.cover(Branch::Torn);
        }
        if left.batches < risk.batches {
            self.cover(Branch::Lost);
        }
        self.hosts[index].is_harmed |= left.is_torn;
        true
    }
}
