//! A station that takes the place of its home, which is gone for good.
//!
//! First `volume.json` says so, durably; then the store is opened as a home's, which makes one of it. A crash between the
//! two is mended by the next start, since the file says what is to be.

use crate::error::StartError;
use crate::layout::{ServedAs, VolumeFile};
use crate::served::Served;
use crate::shared::Shared;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wayfs_control::EventKind;
use wayfs_node::Elsewhere;
use wayfs_proto::Prospect;
use wayfs_types::StorageError;

/// Longest wait for whoever still has the station's store open, and the pause between two looks.
const FREE_MAX: Duration = Duration::from_secs(10);
const FREE_PERIOD: Duration = Duration::from_millis(50);

/// What is known before a station takes its home's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// What the engine knows.
    pub prospect: Prospect,
    /// Contents that do not lie here.
    pub elsewhere: Elsewhere,
    /// The home was heard within the last moments: it is not gone.
    pub home_is_there: bool,
}

/// Why a station does not take its home's place.
#[derive(Debug, thiserror::Error)]
pub enum PromotionError {
    /// It is the home.
    #[error("this server is the home of this volume already")]
    IsHome,
    /// It stopped meanwhile.
    #[error("the volume has stopped")]
    Stopped,
    /// Its tables cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// `volume.json` cannot be written, or the store cannot be opened again.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Shared {
    /// What a station has, and what would be missing if it took its home's place now. Reads the list nodes of every file.
    pub(crate) fn outlook(&self, served: &Served) -> Result<Outlook, PromotionError> {
        if served.is_home() {
            return Err(PromotionError::IsHome);
        }
        let prospect = served.volume.prospect().ok_or(PromotionError::Stopped)?;
        let now = wayfs_node::clock::now();
        let home_is_there = served.volume.look(|replica| replica.is_home_reachable(now)).flatten() == Some(true);
        Ok(Outlook { prospect, elsewhere: served.volume.elsewhere()?, home_is_there })
    }

    /// Makes this station the home, for good. Its own clients go on with it; everybody else needs a ticket of this server.
    /// Whether that is wise was found out before, by [`Shared::outlook`].
    pub(crate) fn promote(&self, served: Arc<Served>) -> Result<(), PromotionError> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if served.is_home() {
            return Err(PromotionError::IsHome);
        }
        let mut file = served.file.clone();
        (file.role, file.home, file.promoted) = (ServedAs::Home, None, true);
        self.layout.save(served.id, &file)?;
        if let Some(host) = self.host.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // Whoever comes meanwhile is told to come again.
            host.note_broken(served.id);
            host.remove(served.id);
        }
        self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&served.id);
        served.stop();
        // With it goes the session with the home.
        drop(served);
        let served = self.serve_when_free(&file)?;
        let detail = "this station took the place of the home".to_owned();
        self.events.tell(wayfs_admin::events::event(EventKind::Attention, Some(served.name()), detail));
        Ok(())
    }

    /// Somebody may still be looking at the volume as it was.
    fn serve_when_free(&self, file: &VolumeFile) -> Result<Arc<Served>, StartError> {
        let end = Instant::now() + FREE_MAX;
        loop {
            match self.serve(file.clone()) {
                Err(StartError::Volume { source, .. }) if source.is_locked() && Instant::now() < end => {
                    std::thread::sleep(FREE_PERIOD);
                }
                served => return served,
            }
        }
    }
}
