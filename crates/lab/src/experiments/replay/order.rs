//! What must be done before what: steps on one file whose order matters.
//!
//! Nothing on a file passes a step that makes, renames, truncates or removes it, and such a step waits for everything before it on
//! its files. Reads, writes and looks may pass each other, as they do on the machine where they were recorded.

use super::trace::{FileNumber, Step, Trace};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

/// Who waits for whom. A step waits only for earlier ones, so steps that are begun in order never wait in a ring.
pub(super) struct Order {
    /// For each step: how many steps of a file must be done.
    needs: Vec<Vec<(FileNumber, usize)>>,
    done: Mutex<BTreeMap<FileNumber, usize>>,
    changed: Condvar,
}

impl Order {
    pub(super) fn of(trace: &Trace) -> Self {
        // Of each file: steps so far, and how many of them there were when the last structural one was among them.
        let mut seen: BTreeMap<FileNumber, (usize, usize)> = BTreeMap::new();
        let mut needs = Vec::with_capacity(trace.steps.len());
        for step in &trace.steps {
            let mut of_step = Vec::new();
            for file in step.files() {
                let (count, barrier) = seen.entry(file).or_default();
                let wanted = if step.operation.is_structural() { *count } else { *barrier };
                if wanted > 0 {
                    of_step.push((file, wanted));
                }
                *count += 1;
                if step.operation.is_structural() {
                    *barrier = *count;
                }
            }
            needs.push(of_step);
        }
        Self { needs, done: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until a step may begin.
    pub(super) fn wait(&self, number: usize) {
        let needs = &self.needs[number];
        if needs.is_empty() {
            return;
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        while needs.iter().any(|(file, wanted)| done.get(file).copied().unwrap_or(0) < *wanted) {
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A step is done.
    pub(super) fn done(&self, step: &Step) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        for file in step.files() {
            *done.entry(file).or_default() += 1;
        }
        drop(done);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::HEADER;
    use super::*;

    #[test]
    fn only_making_and_removing_is_waited_for() {
        let text = format!(
            "{HEADER}\n,file,1,,5\n0,read,1,0,4\n1,read,1,0,4\n2,create,2,,\n3,write,2,0,4\n4,write,2,4,4\n5,rename,2,1,\n6,stat,1,,\n7,statfs,,,\n"
        );
        let order = Order::of(&Trace::read(&text).unwrap());
        let (one, two) = (FileNumber(1), FileNumber(2));
        let wanted: Vec<Vec<(FileNumber, usize)>> = vec![
            vec![],
            vec![],
            vec![],
            vec![(two, 1)],
            vec![(two, 1)],
            vec![(two, 3), (one, 2)],
            vec![(one, 3)],
            vec![],
        ];
        assert_eq!(order.needs, wanted);
    }
}
