//! What happens at a mount, passed on to whoever listens.

use wayfs_admin::events::{Journeys, Listener, Listeners, event};
use wayfs_admin::happenings::Paths;
use wayfs_control::{ControlError, Event, EventKind, EventsWanted};
use wayfs_node::Volume;
use wayfs_proto::Happening;
use wayfs_types::{FileId, RecordId};

/// Passes events on.
#[derive(Debug)]
pub struct Events {
    volume: String,
    listeners: Listeners,
    /// Our own records on their way.
    journeys: Journeys,
    paths: Paths,
}

impl Events {
    /// Of a volume.
    pub fn new(volume: String) -> Self {
        Self { volume, listeners: Listeners::default(), journeys: Journeys::default(), paths: Paths::default() }
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// If too many listen.
    pub fn listen(&self, wanted: EventsWanted) -> Result<Listener, ControlError> {
        self.listeners.listen(wanted)
    }

    /// Whether anyone listens; saves the trouble of describing what nobody hears.
    pub fn is_heard(&self) -> bool {
        self.listeners.are_there()
    }

    /// A record of our own was made: its way is told, if anyone listens.
    pub fn follow(&self, record: RecordId, file: FileId, size_bytes: u64) {
        self.journeys.follow(&self.listeners, record, file, size_bytes);
    }

    /// Tells which records came further.
    pub fn tell_levels(&self, volume: &Volume) {
        self.journeys.tell(&self.listeners, &self.volume, volume);
    }

    /// Something happened to a file, whoever did it.
    pub(crate) fn tell_of(&self, volume: &Volume, happening: &Happening) {
        self.listeners.tell(self.paths.tell(volume, &self.volume, happening));
    }

    /// Something happened. Never waits.
    pub fn tell(&self, kind: EventKind, about: About) {
        let About { path, record, size_bytes, detail } = about;
        let record = record.map(|record| record.to_string());
        self.listeners.tell(Event { path, record, size_bytes, ..event(kind, Some(&self.volume), detail) });
    }
}

/// What an event is about.
#[derive(Debug, Default, Clone)]
pub struct About {
    /// Path from the volume's root.
    pub path: Option<std::path::PathBuf>,
    /// A version, conflict or record.
    pub record: Option<RecordId>,
    /// Bytes of the file.
    pub size_bytes: Option<u64>,
    /// The rest, for people.
    pub detail: String,
}
