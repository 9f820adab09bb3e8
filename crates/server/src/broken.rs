//! Volumes that cannot be opened, since files of theirs are lost or damaged. The others are served meanwhile.

use crate::error::StartError;
use crate::layout::{ServedAs, VolumeFile};
use wayfs_control::report::{StatusWord, VolumeRole, VolumeStatus};
use wayfs_types::VolumeId;

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    /// `None`: its directory is not named by an id.
    pub(crate) id: Option<VolumeId>,
    pub(crate) name: String,
    role: Option<ServedAs>,
    pub(crate) why: String,
    pub(crate) next_step: String,
}

impl Broken {
    /// A volume whose stores cannot be opened.
    pub(crate) fn of_stores(file: &VolumeFile, error: &StartError) -> Self {
        let name = file.name.clone();
        let others = match file.role {
            ServedAs::Home => "stations and clients that have what is gone write it again",
            ServedAs::Station => "the home and its clients tell it again what they have",
        };
        let next_step = format!(
            "Stop the server; `wayfs doctor --repair DATA_DIR` says what is lost and, with `--yes`, goes on with what is left: {others}. \
             `wayfs serve --accept-loss {name}` does the same where only the newest updates are damaged. Or put a backup in its place \
             (`wayfs volume restore`)."
        );
        Self { id: file.ids().map(|(id, _)| id), name, role: Some(file.role), why: error.to_string(), next_step }
    }

    /// A home of which another copy runs.
    pub(crate) fn of_copy(file: &VolumeFile, error: &StartError) -> Self {
        let next_step = "End the other one, and start this one again; or end this one, if the other is meant to live (a backup that was \
                         restored is used instead of what it is a backup of, never beside it)."
            .into();
        Self {
            id: file.ids().map(|(id, _)| id),
            name: file.name.clone(),
            role: Some(file.role),
            why: error.to_string(),
            next_step,
        }
    }

    /// A directory whose `volume.json` cannot be read.
    pub(crate) fn of_file(id: Option<VolumeId>, directory: String, error: &StartError) -> Self {
        let next_step = "Put that file back from a backup (`wayfs volume restore`), and start the server again.".into();
        Self { id, name: directory, role: None, why: error.to_string(), next_step }
    }

    pub(crate) fn status(&self) -> VolumeStatus {
        VolumeStatus {
            id: self.id.map(|id| id.to_string()).unwrap_or_default(),
            name: self.name.clone(),
            role: if self.role == Some(ServedAs::Station) { VolumeRole::Station } else { VolumeRole::Home },
            word: StatusWord::NeedsAttention,
            cause: format!("this volume is not served: {}", self.why),
            next_step: self.next_step.clone(),
            ..VolumeStatus::default()
        }
    }
}
