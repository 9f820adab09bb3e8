//! A station's propagation policy, beside its engine and under the same lock: it hears each output before the next input.

use crate::clock;
use crate::live_replica::LiveReplica;
use wayfs_policy::{Input, Output, Propagator, Setting};
use wayfs_proto::{Input as EngineInput, Output as EngineOutput, Recall};
use wayfs_types::Time;

/// Versions that were waiting when the volume was opened and are looked at in one step: one holds the lock for a millisecond or so.
const RECALLED_AT_ONCE: usize = 256;

/// The policy's machine, and what it is still to be told.
pub(crate) struct Propagation {
    machine: Propagator,
    /// Of what waited when the volume was opened, a page at each tick.
    recall: Option<Recall>,
}

impl Propagation {
    pub(crate) fn new(setting: Setting) -> Self {
        Self { machine: Propagator::new(setting), recall: Some(Recall::default()) }
    }

    /// The engine did something.
    pub(crate) fn hear(&mut self, replica: &LiveReplica, output: &EngineOutput) {
        // A store that cannot be read stops the engine with the next input that needs it.
        if let Some(news) = replica.propagation_news(output).ok().flatten() {
            self.tell(news);
        }
    }

    pub(crate) fn tell(&mut self, news: Input) {
        self.machine.handle(clock::now(), news);
    }

    /// Looks at the clock, and at some more of what waited when the volume was opened.
    pub(crate) fn tick(&mut self, replica: &LiveReplica) {
        let recalled = replica.recall_unsent(&mut self.recall, clock::wall(), RECALLED_AT_ONCE);
        recalled.unwrap_or_default().into_iter().for_each(|written| self.tell(written));
        self.tell(Input::Tick);
    }

    /// What the engine is to be told next.
    pub(crate) fn poll(&mut self) -> Option<EngineInput> {
        let Output::Propagate { file, version } = self.machine.poll_output()?;
        Some(EngineInput::Propagate { file, version })
    }

    /// When it is to look at the clock.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        if self.recall.is_some() { Some(clock::now()) } else { self.machine.poll_timeout() }
    }
}
