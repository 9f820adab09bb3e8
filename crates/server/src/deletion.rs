//! The end of a volume at this server: by its owner's command at the home, by the home's word at a station.

use crate::served::Served;
use crate::shared::Shared;
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError, Weak};
use wayfs_control::EventKind;
use wayfs_types::VolumeId;

/// Starts the thread that buries volumes whose home deleted them. It ends with the server.
pub(crate) fn start(dead: Receiver<VolumeId>, server: Weak<Shared>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("deletion".into())
        .spawn(move || {
            for id in dead {
                let Some(server) = server.upgrade() else { return };
                let found = server.volumes.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
                let Some(served) = found.filter(|served| !served.is_home()) else { continue };
                match server.delete_replica(&served) {
                    Ok(()) => {
                        tracing::warn!(volume = %id, "the home deleted this volume: what this station had is removed")
                    }
                    Err(error) => {
                        tracing::error!(volume = %id, %error, "remove a deleted volume: tried again at the next start")
                    }
                }
            }
        })
        .map(drop)
}

impl Shared {
    /// Ends a volume here and removes all that it has on this disk. First of all, durably, it is known as deleted.
    pub(crate) fn delete_replica(&self, served: &Arc<Served>) -> io::Result<()> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.layout.mark_deleted(served.id, served.name())?;
        if let Some(host) = self.host.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            host.delete_replica(served.id);
        }
        self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&served.id);
        served.stop();
        let detail = "the volume was deleted".to_owned();
        self.events.tell(wayfs_admin::events::event(EventKind::Attention, Some(served.name()), detail));
        self.layout.clear_grave(served.id)
    }
}
