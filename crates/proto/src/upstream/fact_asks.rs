//! Questions about facts: a client is told by itself what becomes of its own records only, and asks about others'.
//!
//! ```text
//!   client                 station                           home
//!     Facts{versions} ───▶ what it knows; of the rest ─────▶ it knows
//!     ◀──────────── both ◀────────────────────────────────── Facts
//! ```
//!
//! Whoever cannot be asked leaves a fact unknown. That a fact holds is remembered, since no fact ends.

use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::requests::{Attempt, On, Waiting};
use crate::state::of_record::content_named;
use crate::upstream::Uplink;
use crate::upstream::facts_told::FactAsk;
use wayfs_types::request::Answer;
use wayfs_types::{Facts, FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{AskId, AskedVersion, Down, FACTS_MAX, Up};

/// Most questions about facts under way to the parent; past it we answer what we know ourselves.
const ASKS_MAX: usize = 256;

impl<S: MetaStore> Replica<S> {
    /// A request for facts: what is not known is asked of the parent, once.
    pub(crate) fn attempt_facts(
        &mut self,
        waiting: &mut Waiting,
        versions: &[(FileId, RecordId)],
    ) -> Result<Attempt, StepError> {
        let asked: Vec<AskedVersion> = versions
            .iter()
            .take(FACTS_MAX)
            .map(|(file, version)| AskedVersion { file: *file, version: *version })
            .collect();
        let mut known = self.facts_known(&asked)?;
        if waiting.is_answered() {
            for (facts, asked) in known.iter_mut().zip(&asked) {
                *facts = facts.or(self.uplink.facts.latest(asked.version));
            }
            return Ok(Attempt::Done(Ok(Answer::Facts(known))));
        }
        let (unknown, theirs): (Vec<_>, Vec<_>) =
            asked.into_iter().zip(known.clone()).filter(|(_, facts)| !facts.is_known()).unzip();
        if unknown.is_empty() || waiting.offline || waiting.questions > 0 || !self.core.is_trusted() {
            return Ok(Attempt::Done(Ok(Answer::Facts(known))));
        }
        waiting.questions += 1;
        Ok(match self.uplink.ask_facts(&mut self.core, FactAsk { versions: unknown, known: theirs, asker: None }) {
            Some(ask) => Attempt::Park(On::Ask(ask)),
            None => Attempt::Done(Ok(Answer::Facts(known))),
        })
    }

    fn facts_known(&self, asked: &[AskedVersion]) -> Result<Vec<Facts>, StorageError> {
        let one = |asked: &AskedVersion| {
            let inode = self.core.state.inode_meant(asked.file)?.filter(|inode| inode.version == asked.version);
            self.record_facts(asked.version, inode.as_ref().and_then(|inode| content_named(inode)))
        };
        asked.iter().map(one).collect()
    }

    /// A child asks: what we know, and what the home knows where we do not.
    pub(crate) fn handle_facts_asked(
        &mut self,
        child: OriginId,
        ask: AskId,
        versions: Vec<AskedVersion>,
    ) -> Result<(), StorageError> {
        let known = self.facts_known(&versions)?;
        let is_known = known.iter().all(|facts| facts.is_known());
        if !is_known && self.core.relays() && self.core.is_trusted() {
            let asking = FactAsk { versions, known: known.clone(), asker: Some((child, ask)) };
            if self.uplink.ask_facts(&mut self.core, asking).is_some() {
                return Ok(());
            }
        }
        self.children.tell(child, Down::Facts { ask, facts: known });
        Ok(())
    }

    /// The parent answered.
    pub(crate) fn handle_facts(&mut self, ask: AskId, facts: Vec<Facts>) -> Result<(), StorageError> {
        let asking = self.uplink.session.as_mut().and_then(|upstream| upstream.fact_asks.remove(&ask));
        let Some(asking) = asking else { return Ok(()) };
        let FactAsk { versions, known, asker } = asking;
        let told = facts.into_iter().chain(std::iter::repeat(Facts::default()));
        let both: Vec<Facts> = known.into_iter().zip(told).map(|(known, told)| known.or(told)).collect();
        match asker {
            Some((child, ask)) => self.children.tell(child, Down::Facts { ask, facts: both }),
            None => {
                for (asked, facts) in versions.iter().zip(both) {
                    self.uplink.facts.note(asked.version, facts);
                    self.contents.settle_former(&mut self.core, &self.uplink, asked.version, facts)?;
                }
                self.requests.answered_plainly(ask);
            }
        }
        Ok(())
    }

    /// The parent is gone: children that asked get what we know ourselves.
    pub(crate) fn answer_fact_asks(&mut self) {
        let Some(upstream) = self.uplink.session.as_mut() else { return };
        for (_, FactAsk { known, asker, .. }) in std::mem::take(&mut upstream.fact_asks) {
            if let Some((child, ask)) = asker {
                self.children.tell(child, Down::Facts { ask, facts: known });
            }
        }
    }
}

impl Uplink {
    /// A child's session is over: its next one gives its numbers to other questions.
    pub(crate) fn drop_fact_asks_of(&mut self, child: OriginId) {
        if let Some(upstream) = self.session.as_mut() {
            upstream.fact_asks.retain(|_, asking| asking.asker.is_none_or(|(asker, _)| asker != child));
        }
    }

    /// Puts a question to the parent. `None`: there is none, or too many are under way.
    fn ask_facts<S: MetaStore>(&mut self, core: &mut Core<S>, asking: FactAsk) -> Option<AskId> {
        let upstream = self.session.as_mut().filter(|upstream| upstream.fact_asks.len() < ASKS_MAX)?;
        let ask = core.next_ask()?;
        let versions = asking.versions.clone();
        upstream.fact_asks.insert(ask, asking);
        core.tell_parent(Up::Facts { ask, versions });
        Some(ask)
    }

    /// Puts a question of our own to the parent.
    pub(crate) fn ask_facts_of_our_own<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        versions: Vec<AskedVersion>,
    ) -> Option<AskId> {
        let known = vec![Facts::default(); versions.len()];
        self.ask_facts(core, FactAsk { versions, known, asker: None })
    }
}
