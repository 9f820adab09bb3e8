//! All about one file.

use super::local::UNWRITTEN;
use super::{MountCommands, PATIENCE, refused};
use std::path::Path;
use std::time::Duration;

use wayfs_admin::{kind_word, unix_ms};
use wayfs_control::ControlError;
use wayfs_control::report::{FileInfo, LostReport};
use wayfs_node::{LinkState, ServerKind};
use wayfs_types::request::{Answer, Request};
use wayfs_types::{Content, Fact, Facts, FileId, Inode, OriginId, RecordId};

/// Longest wait for what the servers know of a file.
/// What an open file waits for that was written to.
const UNSAVED: &str = "a close or fsync: writes to the open file are in no record yet";
const FACTS_PATIENCE: Duration = Duration::from_secs(5);

impl MountCommands {
    pub(super) fn info(&self, path: &Path) -> Result<FileInfo, ControlError> {
        let what = format!("look up {}", path.display());
        let (file, inode) =
            crate::paths::resolve(self.volume(), path, PATIENCE).map_err(|error| refused(&what, error))?;
        Ok(self.info_of(path, file, &inode))
    }

    pub(super) fn info_of(&self, path: &Path, file: FileId, inode: &Inode) -> FileInfo {
        let level = self.volume().look(|replica| replica.level(file)).and_then(|level| level.ok().flatten());
        let is_dirty = self.parts.fs.files().find(file).is_some_and(|open| open.is_dirty());
        let facts = if is_dirty { UNWRITTEN } else { self.facts_of(file, inode.version) };
        let safe_by = level.filter(|_| !is_dirty).and_then(|level| level.safe_at);
        let cached_bytes = self.cached_bytes(inode);
        let here = (cached_bytes == inode.content.size()).then_some("here");
        let overlay = self.parts.fs.files().overlay(file);
        FileInfo {
            path: path.to_owned(),
            volume: self.parts.name.clone(),
            inode: file.inode_number(),
            kind: kind_word(&inode.kind).to_owned(),
            size_bytes: overlay.map_or(inode.content.size(), |overlay| overlay.size),
            version: inode.version.to_string(),
            written_by: self.label_of(inode.version.origin()),
            state: facts.level(),
            safe: facts.safe.into(),
            safe_at: safe_by.map(|server| self.label_of(server).unwrap_or_else(|| server.to_string())),
            safe_unix_ms: facts.safe.since().map(unix_ms),
            visible: facts.visible.into(),
            visible_unix_ms: facts.visible.since().map(unix_ms),
            stable: facts.stable.into(),
            stable_unix_ms: facts.stable.since().map(unix_ms),
            told_by: self.told_by(),
            home_word_age_ms: self.home_word_age_ms(),
            lost: self.lost(file, inode.version),
            waiting_for: if is_dirty { UNSAVED } else { self.waiting_for(facts) }.to_owned(),
            holders: here.map(str::to_owned).into_iter().chain(self.holder_above(facts, safe_by)).collect(),
            cached_bytes,
            pinned: self.parts.hooks.pins.covers(self.volume(), file),
            exclusive: self
                .volume()
                .look(|replica| replica.is_the_homes(file))
                .is_some_and(|is_the_homes| is_the_homes.unwrap_or(false)),
            conflicts: wayfs_admin::conflicts::of_file(self.volume(), file),
        }
    }

    /// Whose word it is what became of a record.
    fn told_by(&self) -> String {
        let link = self.parts.link.status();
        let kind = link.parent.filter(|_| link.state == LinkState::Connected).map(|parent| parent.kind);
        kind.map_or("", |kind| if kind == ServerKind::Home { "home" } else { "station" }).to_owned()
    }

    /// How old the home's own word is that it was there.
    pub(super) fn home_word_age_ms(&self) -> Option<u64> {
        let word = self.volume().look(wayfs_node::LiveReplica::home_word).flatten()?;
        let age = word.age(wayfs_node::clock::now(), wayfs_node::clock::wall());
        Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// What is known of a version, here or by those who are asked.
    pub(super) fn facts_of(&self, file: FileId, version: RecordId) -> Facts {
        match self.volume().request(Request::Facts { versions: vec![(file, version)] }, FACTS_PATIENCE) {
            Ok(Answer::Facts(facts)) => facts.first().copied().unwrap_or_default(),
            Ok(_) | Err(_) => Facts::default(),
        }
    }

    pub(super) fn label_of(&self, origin: OriginId) -> Option<String> {
        self.parts.labels.learn(&self.parts.link, &self.volume().settings().runtime, [origin]);
        self.parts.labels.label(origin)
    }

    fn lost(&self, file: FileId, version: RecordId) -> Option<LostReport> {
        let lost = self.volume().look(|replica| replica.lost_of(file, version))?.ok().flatten()?;
        Some(LostReport {
            version: lost.version.to_string(),
            by: self.label_of(lost.version.origin()),
            declared_unix_ms: lost.report.map(|_| unix_ms(lost.since)),
            shows_older: lost.shows_older,
        })
    }

    fn waiting_for(&self, facts: Facts) -> &'static str {
        let connected = self.parts.link.status().state == LinkState::Connected;
        match (facts.safe, facts.visible, facts.stable) {
            (Fact::No, ..) if connected => "the station's word that it has record and contents",
            (Fact::No, ..) => "a station: none is connected",
            (_, Fact::No, _) => "the station's next reconciliation with the home",
            (_, _, Fact::No) => "a reader elsewhere, or the propagation policy: the home fetches the contents then",
            (Fact::Holds(_) | Fact::Unknown, Fact::Holds(_) | Fact::Unknown, Fact::Holds(_) | Fact::Unknown) => "",
        }
    }

    /// Which server has all of the contents, as far as that follows from what this machine was told.
    fn holder_above(&self, facts: Facts, safe_by: Option<OriginId>) -> Option<String> {
        if facts.stable.holds() {
            let home = self.volume().directory().list().into_iter().find(|server| server.kind == ServerKind::Home);
            return Some(home.map_or_else(|| "the home".to_owned(), |home| home.label));
        }
        let of_station = || safe_by.and_then(|server| self.label_of(server)).unwrap_or_else(|| "a station".to_owned());
        facts.safe.holds().then(of_station)
    }

    fn cached_bytes(&self, inode: &Inode) -> u64 {
        let is_here = matches!(inode.content, Content::Inline(_)) || self.volume().contents().has_all(&inode.content);
        if is_here { inode.content.size() } else { 0 }
    }
}
