//! Looks whether contents that the parent named are here already.

use super::presence::{CallOff, presence};
use crate::volume::Volume;
use std::sync::Weak;
use wayfs_proto::Input;
use wayfs_transfer::{Piece, Presence};
use wayfs_types::{Content, RecordId};

impl Volume {
    /// Answers the engine of which of these every chunk is here. Nobody is asked, and what is here is kept from the sweep until the
    /// engine has heard of it.
    pub(crate) fn look_here(&self, named: Vec<(RecordId, Content)>) {
        let me = Weak::clone(&self.me);
        self.settings.runtime.spawn(async move {
            let Some(volume) = me.upgrade() else { return };
            let looking = std::sync::Arc::clone(&volume);
            let looked = tokio::task::spawn_blocking(move || {
                let is_here = |(_, content): &(RecordId, Content)| looking.has_whole(content);
                named.into_iter().partition::<Vec<_>, _>(is_here)
            });
            let Ok((mut here, mut not_here)) = looked.await else { return };
            if !here.is_empty() && volume.contents_durable().await.is_err() {
                not_here.append(&mut here);
            }
            let versions = |named: Vec<(RecordId, Content)>| named.into_iter().map(|(version, _)| version).collect();
            volume.step(Input::LookedHere { here: versions(here), not_here: versions(not_here) });
        });
    }

    fn has_whole(&self, content: &Content) -> bool {
        let whole = |top| matches!(presence(&self.contents, top, &CallOff::default()), Presence::Complete);
        Piece::top(content).is_some_and(whole)
    }
}
