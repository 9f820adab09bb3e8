//! The home's own word that it is there, and how far it has come.
//!
//! ```text
//!   home ── HomeWord ──▶ station ── the same ──▶ client
//!    signs              passes on               checks
//! ```
//!
//! Each second in which somebody pings it the home signs its newest change and its time. Stations pass that on behind their own
//! pings; nobody can make one but the home, and to hold one back makes it old. So a machine knows without its parent's word when the
//! home was there last, by the home's clock. It says nothing of what single records have become: that is the parent's word still.

use crate::api::{Output, PeerId};
use crate::children::Children;
use crate::members::Members;
use crate::members::word_kept::HomeWord;
use crate::replica::core::Core;
use std::time::Duration;
use wayfs_types::{CommitNumber, MetaStore, OriginId, Seal, VolumeId, WallTime};
use wayfs_wire::{Down, Message};

/// Between two signatures. Each costs some 30 µs of a core.
const PERIOD: Duration = Duration::from_secs(1);

/// First bytes of what is signed: no other statement of a machine begins so.
const CONTEXT: &[u8; 18] = b"wayfs home word 1\0";

fn statement(volume: VolumeId, position: CommitNumber, at: WallTime) -> Vec<u8> {
    let mut bytes = CONTEXT.to_vec();
    bytes.extend(volume.as_bytes());
    bytes.extend(position.0.to_be_bytes());
    bytes.extend(at.as_nanos().to_be_bytes());
    bytes
}

impl Members {
    /// Tells a child that pings the newest word, unless it has it.
    pub(crate) fn tell_home_word<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
    ) {
        self.sign_home_word(core);
        let Some(word) = self.words.known else { return };
        if children.note_word(child, word.at) {
            let HomeWord { position, at, seal, .. } = word;
            let bytes = wayfs_wire::encode(&Message::Down(Down::HomeWord { position, at, seal }));
            core.outputs.push_back(Output::Send { peer, bytes });
        }
    }

    /// The newest word of the home, whose signature was checked. `None`: none came since this replica was opened, or there are no
    /// keys to check it with.
    pub(crate) fn home_word(&self) -> Option<HomeWord> {
        self.words.known
    }

    fn sign_home_word<S: MetaStore>(&mut self, core: &Core<S>) {
        let is_due = self.words.signed.is_none_or(|signed| core.now >= signed + PERIOD);
        let Some(sealer) = core.config.seals.as_ref().filter(|_| core.orders() && is_due) else {
            return;
        };
        let (position, at) = (core.state.change(), core.wall);
        let seal = sealer.seal(&statement(core.config.volume, position, at));
        (self.words.known, self.words.signed) = (Some(HomeWord { position, at, came: core.now, seal }), Some(core.now));
    }

    /// A parent passes a word on. One that is not the home's, or no newer than what is known, is left out: there may be a
    /// change of the home's key which only one of both has heard of.
    pub(crate) fn handle_home_word<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        position: CommitNumber,
        at: WallTime,
        seal: Seal,
    ) {
        let (Some(sealer), Some(home)) = (&core.config.seals, core.config.home) else { return };
        let is_newer = self.words.known.is_none_or(|known| known.at < at);
        if is_newer && sealer.is_sealed_by(home, &statement(core.config.volume, position, at), &seal) {
            self.words.known = Some(HomeWord { position, at, came: core.now, seal });
        }
    }
}
