//! What happened to files, as events: paths for files, labels for who did it. Mounts and servers tell the same in the same words.

use crate::LocalVolume;
use crate::events::event;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use wayfs_control::{Event, EventKind};
use wayfs_node::Volume;
use wayfs_proto::{Happened, Happening};
use wayfs_types::{FileId, OriginId, Place};

/// The paths of what happens in one volume.
///
/// What changes one after the other mostly stands in one directory, so the path of the last one is kept.
#[derive(Debug, Default)]
pub struct Paths {
    last: Mutex<Option<(FileId, PathBuf)>>,
}

impl Paths {
    /// The event that tells of something.
    pub fn tell(&self, volume: &Volume, name: &str, happening: &Happening) -> Event {
        let kind = match happening.what {
            Happened::Created => EventKind::Created,
            Happened::Edited => EventKind::Edited,
            Happened::Renamed { .. } => EventKind::Renamed,
            Happened::Removed => EventKind::Removed,
            Happened::Attributes => EventKind::Attributes,
        };
        if happening.is_directory && matches!(kind, EventKind::Renamed | EventKind::Removed) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let from = match &happening.what {
            Happened::Renamed { from } => self.path(volume, from),
            Happened::Created | Happened::Edited | Happened::Removed | Happened::Attributes => None,
        };
        let path = match &happening.place {
            Some(place) => self.path(volume, place),
            None => self.path_of(volume, happening.file),
        };
        let detail = match (&path, happening.is_directory) {
            (None, _) => format!("file {}, whose path is not known here", happening.file),
            (Some(_), true) => "directory".to_owned(),
            (Some(_), false) => String::new(),
        };
        let record = happening.by.map(|record| record.to_string());
        let size_bytes = happening.size.filter(|_| !happening.is_directory);
        Event { path, from, record, size_bytes, ..event(kind, Some(name), detail) }
    }

    fn path_of(&self, volume: &Volume, file: FileId) -> Option<PathBuf> {
        if file == FileId::ROOT {
            return Some(PathBuf::new());
        }
        let inode = volume.look(|replica| replica.inode(file))?.ok().flatten()?;
        self.path(volume, inode.places.first()?)
    }

    fn path(&self, volume: &Volume, place: &Place) -> Option<PathBuf> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(directory, _)| *directory != place.parent) {
            let path = volume.look(|replica| wayfs_node::paths::last_path_of(replica, place.parent)).flatten();
            *last = Some((place.parent, path?));
        }
        last.as_ref().map(|(_, path)| path.join(OsStr::from_bytes(place.name.as_bytes())))
    }
}

/// What the writers of records are called, looked up once each.
#[derive(Debug, Default)]
pub struct Authors {
    known: BTreeMap<OriginId, String>,
}

impl Authors {
    /// Says in an event who made its record, if that is known.
    pub fn name(&mut self, event: &mut Event, volume: &impl LocalVolume) {
        let origin = event.record.as_deref().and_then(|record| record.split('.').next()?.parse().ok());
        let Some(origin) = origin.and_then(|number| OriginId::new(number).ok()).filter(|_| event.by.is_none()) else {
            return;
        };
        if !self.known.contains_key(&origin) {
            self.known.extend(volume.labels(&BTreeSet::from([origin])));
        }
        event.by = self.known.get(&origin).cloned();
    }
}
