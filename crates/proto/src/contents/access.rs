//! What other parts ask of contents, and note of them.

use crate::contents::Contents;
use crate::contents::answers::ByWriter;
use crate::contents::duty::Duty;
use crate::contents::losses::LossNews;
use std::time::Duration;
use wayfs_types::{OriginId, RecordId, Time, Top};

impl Contents {
    /// Tops that the driver announced lately by [`crate::Input::ContentsHere`] before any record named them:
    /// garbage collection keeps them, too. At most 16,384, for [`crate::Config::announced_grace`].
    pub(crate) fn tops_announced(&self) -> Vec<Top> {
        self.announced.tops().copied().collect()
    }

    /// The parent is to be told that nobody here has the bytes of a version.
    pub(crate) fn note_gone(&mut self, version: RecordId, by: ByWriter) {
        self.gone.insert(version, by == ByWriter::Yes);
    }

    /// Client: how many bytes of what is lent have gone on.
    pub(crate) fn sent_home(&self, version: RecordId) -> u64 {
        self.author().and_then(|author| author.sent_home.get(&version)).copied().unwrap_or(0)
    }

    /// Server: all of some origins is wanted, and was not looked at yet.
    pub(crate) fn has_wants(&self) -> bool {
        !self.wants.is_empty()
    }

    /// Versions that the home declared lost, as they are on record at opening.
    pub(crate) fn set_lost_news(&mut self, lost: Vec<LossNews>) {
        self.lost_news = lost;
    }

    /// A child's session is over.
    pub(crate) fn note_went(&mut self, child: OriginId) {
        if let Some(keeper) = self.keeper_mut() {
            keeper.seeking.note_went(child);
        }
    }

    /// A child comes: it is asked for what nobody has on record.
    pub(crate) fn ask_again(&mut self, child: OriginId) {
        if let Some(keeper) = self.keeper_mut() {
            keeper.seeking.ask_again(child);
        }
    }

    /// A child was welcomed.
    pub(crate) fn begin_child_session(&mut self, child: OriginId) {
        if let Some(keeper) = self.keeper_mut() {
            keeper.replacing.begin_session(child);
        }
    }

    /// What was announced so long ago that its record will not come.
    pub(crate) fn forget_old_announcements(&mut self, now: Time, grace: Duration) {
        self.announced.forget_old(now, grace);
    }

    /// When time alone changes something here.
    pub(crate) fn timeout(&self) -> Option<Time> {
        match &self.duty {
            Duty::Keeps(keeper) => keeper.replacing.timeout(),
            Duty::Carries(carrier) => carrier.gone_at.into_iter().chain(carrier.named.timeout()).min(),
            Duty::Answers(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn wants(&self) -> &std::collections::BTreeMap<OriginId, (u64, u64)> {
        &self.wants
    }

    #[cfg(test)]
    pub(crate) fn is_pushing(&self) -> bool {
        !self.pushing.is_empty()
    }
}
