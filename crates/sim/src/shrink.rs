//! From a seed that fails to a short script: faults and requests are left out, and what the seed drew is made usual, as
//! long as the same promise is broken.
//!
//! Each fault and each request draws from a stream of its own (`World::step`), so that one that is left out does not change
//! what the others are; only delays shift. What is left is not always the least, but short enough to be read.

use crate::plan::{Limits, Plan, Step};
use crate::run::{Report, run_scripted};
use std::time::Duration;

/// What is left of a seed.
#[derive(Debug)]
pub struct Shrunk {
    /// The plan, with what is left out.
    pub plan: Plan,
    /// How it ends, with its script.
    pub report: Report,
    /// Steps that the whole seed took.
    pub steps_before: usize,
    /// Runs that it took.
    pub runs: usize,
}

/// Shrinks a plan whose run breaks a promise, within a number of runs. `None`: it breaks none.
pub fn shrink(plan: Plan, runs_max: usize) -> Option<Shrunk> {
    let report = run_scripted(plan.clone());
    let promise = report.violations.first()?.promise;
    let steps_before = report.script.len();
    let shrunk = Shrunk { plan, report, steps_before, runs: 1 };
    let mut search = Search { shrunk, promise, runs_max };
    for simplify in SIMPLER {
        let mut plan = search.shrunk.plan.clone();
        simplify(&mut plan);
        search.attempt(plan);
    }
    let mut chunk = search.shrunk.report.script.len().div_ceil(2);
    while chunk > 0 && search.goes_on() {
        let is_less = search.leave_out(chunk);
        chunk = match (chunk, is_less) {
            // Singly as long as that helps.
            (1, true) => 1,
            (1, false) => 0,
            _ => chunk / 2,
        };
    }
    Some(search.shrunk)
}

/// What makes a plan easier to read.
const SIMPLER: [fn(&mut Plan); 10] = [
    |plan| plan.loss = 0.0,
    |plan| plan.limits = Limits::USUAL,
    |plan| plan.close_to_open = false,
    |plan| plan.exclusive = false,
    |plan| plan.kernel_names = false,
    |plan| plan.disasters.clear(),
    |plan| plan.wide_delay = Duration::from_millis(10),
    |plan| plan.measure_period = Duration::from_secs(20),
    |plan| plan.cache_chunks_max = None,
    |plan| plan.sweep_grace = Duration::from_secs(600),
];

/// A shrinking under way.
struct Search {
    shrunk: Shrunk,
    /// What is to stay broken.
    promise: &'static str,
    runs_max: usize,
}

impl Search {
    /// Whether there are runs left.
    fn goes_on(&self) -> bool {
        self.shrunk.runs < self.runs_max
    }

    /// Takes a plan if it breaks the same promise with no more steps than before.
    fn attempt(&mut self, plan: Plan) -> bool {
        if plan == self.shrunk.plan || !self.goes_on() {
            return false;
        }
        self.shrunk.runs += 1;
        let report = run_scripted(plan.clone());
        let is_same = report.violations.first().is_some_and(|violation| violation.promise == self.promise);
        if is_same {
            (self.shrunk.plan, self.shrunk.report) = (plan, report);
        }
        is_same
    }

    /// Goes through the script and leaves out a number of steps at a time.
    fn leave_out(&mut self, chunk: usize) -> bool {
        let mut is_less = false;
        let mut at = 0;
        loop {
            let steps = self.shrunk.report.script.iter().skip(at).take(chunk).map(|(step, _)| *step);
            let steps: Vec<Step> = steps.collect();
            if steps.is_empty() || !self.goes_on() {
                return is_less;
            }
            let mut plan = self.shrunk.plan.clone();
            plan.without.extend(steps);
            if self.attempt(plan) {
                is_less = true;
            } else {
                at += chunk;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bug, Verbosity, run_planned};

    #[test]
    fn a_seed_that_fails_shrinks_to_few_steps_that_fail_alike() {
        let find = |seed| {
            let plan = Plan { bug: Some(Bug::ImageSkipped), ..Plan::of_seed(seed) };
            shrink(plan, 60)
        };
        // Some hang on the moment at which they happen, and what is made usual may take more steps.
        let found: Vec<_> = (0..50).filter_map(find).take(4).collect();
        let shrunk = found.into_iter().min_by_key(|shrunk| shrunk.report.script.len()).expect("the bug is found soon");
        assert!(shrunk.report.script.len() < shrunk.steps_before / 2, "{} steps left", shrunk.report.script.len());
        let again = run_planned(shrunk.plan.clone(), None, Verbosity::Quiet);
        assert_eq!(again.violations, shrunk.report.violations, "what is left fails by itself");
        assert!(run_planned(Plan { bug: None, ..shrunk.plan }, None, Verbosity::Quiet).violations.is_empty());
    }
}
