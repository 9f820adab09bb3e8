//! The volume of a mount, as the commands that all roles share see it.

use super::MountCommands;
use super::asking::Asker;
use crate::events::About;
use crate::notices::Stale;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use wayfs_admin::conflicts::Case;
use wayfs_admin::queue::with_facts;
use wayfs_admin::{LocalVolume, Touched};
use wayfs_control::EventKind;
use wayfs_control::report::{LedgerReport, QueueItem, VolumeRole};
use wayfs_node::{LinkState, Volume};
use wayfs_types::{Fact, Facts, FileId, OriginId, Record};

/// Of writes that are in no record nobody else has anything.
pub(super) const UNWRITTEN: Facts = Facts { safe: Fact::No, visible: Fact::No, stable: Fact::No };

/// A mount's volume, for the daemon's owner or for a user who asks.
pub(super) struct AskedVolume<'a> {
    mount: &'a MountCommands,
    /// `None`: the owner, who may know of everything.
    asker: Option<&'a Asker<'a>>,
}

impl MountCommands {
    /// The volume for whoever asks.
    pub(super) fn local<'a>(&'a self, asker: Option<&'a Asker<'a>>) -> [AskedVolume<'a>; 1] {
        [AskedVolume { mount: self, asker }]
    }
}

impl LocalVolume for AskedVolume<'_> {
    fn volume(&self) -> &Arc<Volume> {
        self.mount.volume()
    }

    fn name(&self) -> &str {
        &self.mount.parts.name
    }

    fn role(&self) -> VolumeRole {
        VolumeRole::Client
    }

    fn labels(&self, origins: &BTreeSet<OriginId>) -> BTreeMap<OriginId, String> {
        let parts = &self.mount.parts;
        parts.labels.learn(&parts.link, &self.volume().settings().runtime, origins.iter().copied());
        origins.iter().filter_map(|origin| Some((*origin, parts.labels.label(*origin)?))).collect()
    }

    fn ledger(&self) -> LedgerReport {
        self.mount.ledger()
    }

    fn held_up(&self) -> Option<String> {
        let link = self.mount.parts.link.status();
        match link.held_up_by_choice() {
            Some(cause) => Some(cause),
            None if link.state != LinkState::Connected => Some("no station is connected".to_owned()),
            None => self.volume().full(),
        }
    }

    fn unwritten(&self) -> Vec<QueueItem> {
        let dirty = self.mount.parts.fs.files().dirty().into_iter();
        let seen = dirty.filter(|dirty| self.asker.is_none_or(|asker| asker.sees_file(dirty.file, Some(dirty.user))));
        seen.map(|dirty| QueueItem {
            path: crate::paths::path_of(self.volume(), dirty.file),
            operation: "write".to_owned(),
            size_bytes: dirty.len,
            age_ms: u64::try_from(dirty.age.as_millis()).unwrap_or(u64::MAX),
            reason: "written to an open file, not yet closed or synced".to_owned(),
            ..with_facts(self.name(), UNWRITTEN)
        })
        .collect()
    }

    fn may_see(&self, path: &Path) -> bool {
        self.asker.is_none_or(|asker| asker.sees(path))
    }

    fn may_see_file(&self, file: FileId) -> bool {
        self.asker.is_none_or(|asker| asker.sees_file(file, None))
    }

    fn may_see_record(&self, record: &Record) -> bool {
        self.asker.is_none_or(|asker| asker.sees_record(record))
    }

    /// The kernel did not do it, so it is told.
    fn touched(&self, touched: Touched) {
        let parts = &self.mount.parts;
        match touched {
            Touched::Name(place, removed) => {
                if let Some(removed) = removed {
                    parts.fs.files().removed(removed);
                }
                parts.hooks.notices.entry(place.parent, place.name);
                parts.hooks.notices.inode(place.parent, Stale::Pages);
            }
            Touched::Bytes(file) => {
                parts.fs.files().changed_elsewhere(file);
                parts.hooks.notices.inode(file, Stale::Pages);
            }
        }
    }

    fn settled(&self, case: &Case, action: &str) {
        let (path, detail) = (case.report.path.clone(), action.to_owned());
        let about = About { record: Some(case.id()), path, detail, ..About::default() };
        self.mount.parts.hooks.events.tell(EventKind::Resolved, about);
    }
}
