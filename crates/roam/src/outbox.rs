//! Outputs on their way to the driver, and the numbers that they bear.

use crate::api::{DialId, Output, TaskId};
use std::collections::VecDeque;
use wayfs_types::NodeId;

/// What the driver has not fetched yet. A driver fetches all after each input, so that an input's outputs are all that it holds.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output>,
    dials: u64,
    tasks: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Dials a server.
    pub(crate) fn dial(&mut self, server: NodeId) -> DialId {
        self.dials += 1;
        let dial = DialId::new(self.dials);
        self.push(Output::Dial { dial, server });
        dial
    }

    pub(crate) fn close(&mut self, dial: DialId) {
        self.push(Output::Close { dial });
    }

    /// Begins a task, with the output that names it.
    pub(crate) fn begin(&mut self, output: impl FnOnce(TaskId) -> Output) -> TaskId {
        self.tasks += 1;
        let task = TaskId::new(self.tasks);
        self.push(output(task));
        task
    }
}
