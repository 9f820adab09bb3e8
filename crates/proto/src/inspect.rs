//! Looking at a replica without changing it.

use crate::contents::missing::Missing;
use crate::contents::owed::{Lent, Owed, waiting_row};
use crate::contents::replaced::Previous;
use crate::replica::Replica;
use crate::report::{ContentInUse, ContentMissing, ContentWaiting, ContentsPage, OpenConflict, Progress, QueueItem};
use crate::state::log_entry::LogEntry;
use crate::state::of_record::{content_of, file_of};
use crate::state::position::{LogPosition, log_key};
use crate::state::tables::table::PREVIOUS;
use crate::state::tables::{
    KeyKind, image_key, kind_range, parse_image_key, parse_record_key, record_key, table, unpack, unpack_view,
};
use wayfs_types::request::Level;
use wayfs_types::{
    Admitted, Content, Entry, Facts, FileId, Image, Key, MetaStore, Name, NodeId, Origin, OriginId, RecordId,
    StorageError,
};

/// Range of a table of images from after a key to its end.
fn range_after(of: u8, after: Option<&Key>) -> (Vec<u8>, Vec<u8>) {
    let from = match after {
        Some(key) => {
            let mut from = image_key(of, key);
            from.push(0);
            from
        }
        None => vec![of],
    };
    (from, vec![of + 1])
}

impl<S: MetaStore> Replica<S> {
    /// Records that a fork made this store write again: the former name of each, and the present one. The oldest are forgotten.
    pub fn renamed(&self) -> impl Iterator<Item = (RecordId, RecordId)> {
        self.histories.renamed()
    }

    /// Entries of a directory in the view, in order of name, from after a name.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn list(
        &self,
        directory: FileId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, StorageError> {
        self.core.state.list(directory, after, limit)
    }

    /// A path of a file in the view, `/` for the root. `None` if it has none, or not all of it is known here.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn path_of(&self, file: FileId) -> Result<Option<String>, StorageError> {
        self.core.state.path_of(file)
    }

    /// The whole view in order of key, a page at a time: for checkers and `doctor`.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn images(&self, after: Option<&Key>, limit: usize) -> Result<Vec<(Key, Image)>, StorageError> {
        let (from, until) = range_after(table::VIEW, after);
        let rows = self.core.state.store().scan(&from, &until, limit)?;
        rows.iter().map(|(key, value)| Ok((parse_image_key(key)?, unpack_view(value)?.image))).collect()
    }

    /// Whether this replica vouches for what it shows of a key. A home and a station always do; a client does
    /// for what a watch covers while its session and lease hold. For the rest it asks before it answers.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn is_verified(&self, key: &Key) -> Result<bool, StorageError> {
        if self.core.state.holds_all() {
            return Ok(true);
        }
        if !self.core.is_trusted() {
            return Ok(false);
        }
        Ok(match key {
            Key::Inode(file) => self.trusted_inode(*file)?.is_some(),
            Key::Entry(parent, name) => self.trusted_entry(*parent, name)?.is_some(),
            Key::Conflict(_) => true,
            Key::Origin(origin) => *origin == self.core.config.origin,
        })
    }

    /// Last sequence of its own records that is safe. Its cost does not grow with the log: the driver asks for it
    /// after each message.
    pub fn safe_through(&self) -> u64 {
        self.own_through(Level::Safe)
    }

    /// Where the replica stands.
    pub fn progress(&self) -> Progress {
        let positive = |value: i64| u64::try_from(value).unwrap_or(0);
        let safe = self.own_through(Level::Safe);
        Progress {
            role: self.core.config.role,
            connected: self.core.is_trusted(),
            parent_up: self.core.has_parent(),
            last_record: RecordId::new(self.core.config.origin, self.core.state.sequence()).ok(),
            durable_through: self.core.state.own_durable(),
            safe_through: safe,
            visible_through: self.own_through(Level::Visible),
            stable_through: self.own_through(Level::Stable),
            records_waiting: self.core.state.log().tentative_len(),
            records_in_flight: self.uplink.records_in_flight(),
            bytes_at_risk: positive(self.core.state.totals().owed_bytes),
            versions_at_risk: positive(self.core.state.totals().owed),
            bytes_lent: positive(self.core.state.totals().lent_bytes),
            versions_lent: positive(self.core.state.totals().lent),
            versions_missing: positive(self.core.state.totals().missing),
            commit: self.core.state.change().0,
            conflicts_open: positive(self.core.state.totals().conflicts),
            versions_lost: positive(self.core.state.totals().lost) + positive(self.core.state.totals().vanished),
            requests_waiting: self.requests.len() as u64,
            children: self.children.peers().len() as u64,
        }
    }

    /// Records that have not come all the way, from after a place in the log ([`LogPosition::START`]: from the start), oldest first, each with its place.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn queue(&self, after: LogPosition, limit: usize) -> Result<Vec<(LogPosition, QueueItem)>, StorageError> {
        let (mut items, empty) = (Vec::new(), Content::EMPTY);
        let updates =
            self.core.state.log().from(after.next()).filter(|(_, item)| self.core.state.log().is_on_its_way(item));
        for (position, item) in updates.take(limit) {
            let Some(bytes) = self.core.state.store().get(&log_key(position))? else { continue };
            let entry: LogEntry = unpack(&bytes)?;
            let file = file_of(&entry.record.op, item.id);
            let path = file.map(|file| self.core.state.path_of(file)).transpose()?.flatten();
            let bytes = content_of(&entry.record).map_or(0, |(_, content)| content.size());
            let content = content_of(&entry.record).map_or(&empty, |(_, content)| content);
            let facts = self.record_facts(item.id, Some(content))?;
            items.push((position, QueueItem { record: entry.record, facts, file, path, bytes }));
        }
        Ok(items)
    }

    /// Contents that wait for their way to the home and whose record is in no queue any more, from after a version, in
    /// order: at a client its own that a server has, at a station all that it has and the home has not.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn contents_waiting(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<ContentWaiting>, StorageError> {
        let of = if self.core.writes() { table::LENT } else { table::OWED };
        let mut from = after.map_or_else(|| vec![of], |after| record_key(of, after));
        if after.is_some() {
            from.push(0);
        }
        let mut waiting = Vec::new();
        for (key, value) in self.core.state.store().scan(&from, &[of + 1], limit)? {
            let version = parse_record_key(&key)?;
            let (file, content) = waiting_row(of, &value)?;
            let is_queued = self.core.state.log().position_of(version).is_some();
            let facts = self.record_facts(version, Some(&content))?;
            let since = self.core.state.waits_since(file, version, facts)?;
            let path = self.core.state.path_of(file)?;
            let bytes = content.size();
            let sent = self.contents.sent_home(version).min(bytes);
            waiting.push(ContentWaiting { version, file, path, bytes, since, facts, sent, is_queued });
        }
        Ok(waiting)
    }

    /// Contents that a server lacks and somebody below it is to have, from after a version, in order. A client has none.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn contents_missing(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<ContentMissing>, StorageError> {
        let of = table::MISSING;
        let mut from = after.map_or_else(|| vec![of], |after| record_key(of, after));
        if after.is_some() {
            from.push(0);
        }
        let mut lacking = Vec::new();
        for (key, value) in self.core.state.store().scan(&from, &[of + 1], limit)? {
            let (version, missing) = (parse_record_key(&key)?, unpack::<Missing>(&value)?);
            let is_there = |child: OriginId| self.children.peer_of(child).is_some();
            let mut holders: Vec<_> = missing.everybody().map(|child| (child, is_there(child))).collect();
            holders.sort_by_key(|(_, is_there)| !is_there);
            let facts = self.record_facts(version, Some(&missing.content))?;
            lacking.push(ContentMissing {
                version,
                file: missing.file,
                path: self.core.state.path_of(missing.file)?,
                bytes: missing.content.size(),
                since: self.core.state.waits_since(missing.file, version, facts)?,
                facts,
                holders,
            });
        }
        Ok(lacking)
    }

    /// Open conflicts from after one, in order of id.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn conflicts(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<OpenConflict>, StorageError> {
        self.core.state.conflicts(after, limit)
    }

    /// Every origin that this replica knows: at a client its own only.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn origins(&self) -> Result<Vec<(OriginId, Origin)>, StorageError> {
        self.core.state.origins()
    }

    /// The origins of one machine: what a session with its key may speak for.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn admitted(&self, node: NodeId) -> Result<Vec<(OriginId, Origin)>, StorageError> {
        self.core.state.admitted(node)
    }

    /// How far one record has come, as far as this replica knows. `content`: what it names, if that is known; contents
    /// that travel in their record are wherever it is.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn facts_of(&self, record: RecordId, content: Option<&Content>) -> Result<Facts, StorageError> {
        self.record_facts(record, content)
    }

    /// Whether records and contents of an origin are taken: it is known here, not revoked, and may write.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn may_write(&self, origin: OriginId) -> Result<bool, StorageError> {
        Ok(match self.core.state.image(&Key::Origin(origin))? {
            Some(Image::Origin(origin)) => !matches!(origin.admitted, Admitted::Reader | Admitted::Revoked),
            _ => false,
        })
    }

    /// Contents that this replica's view shows or that it owes to others, for garbage collection: a chunk
    /// that belongs to none of them, and to no top of [`Replica::tops_announced`], may go.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn contents_in_use(&self, after: Option<FileId>, limit: usize) -> Result<ContentsPage, StorageError> {
        let mut contents = Vec::new();
        if after.is_none() {
            self.core.state.each(&[table::OWED], &[table::OWED + 1], |key, value| {
                let (version, owed): (_, Owed) = (Some(parse_record_key(key)?), unpack(value)?);
                contents.push(ContentInUse { file: owed.file, version, content: owed.content, owed: true });
                Ok(())
            })?;
            self.core.state.each(&[table::LENT], &[table::LENT + 1], |key, value| {
                let (version, lent): (_, Lent) = (Some(parse_record_key(key)?), unpack(value)?);
                contents.push(ContentInUse { file: lent.file, version, content: lent.content, owed: true });
                Ok(())
            })?;
            self.core.state.each(&[PREVIOUS], &[PREVIOUS + 1], |_, value| {
                let previous: Previous = unpack(value)?;
                // A station notes which those were, and owes those that only it has.
                if !self.core.orders() {
                    return Ok(());
                }
                contents.push(ContentInUse {
                    file: previous.file,
                    version: None,
                    content: previous.content,
                    owed: true,
                });
                Ok(())
            })?;
        }
        let (mut from, until) = kind_range(table::VIEW, KeyKind::Inode);
        if let Some(after) = after {
            from = image_key(table::VIEW, &Key::Inode(after));
            from.push(0);
        }
        let rows = self.core.state.store().scan(&from, &until, limit)?;
        let full = rows.len() == limit;
        let mut next = None;
        for (key, value) in rows {
            if let (Key::Inode(file), Image::Inode(inode)) = (parse_image_key(&key)?, unpack_view(&value)?.image) {
                next = Some(file);
                if matches!(inode.content, Content::Tree { .. }) {
                    contents.push(ContentInUse {
                        file,
                        version: Some(inode.version),
                        content: inode.content.clone(),
                        owed: false,
                    });
                }
            }
        }
        Ok(ContentsPage { contents, next: next.filter(|_| full) })
    }

    /// Whether nothing is on its way: every record confirmed by the parent, nothing gated, nothing to push that
    /// somebody wants, no request waiting.
    pub fn is_settled(&self) -> bool {
        let calm = self.requests.len() == 0 && self.core.outputs.is_empty() && self.children.children_calm(&self.core);
        if self.core.orders() {
            return calm;
        }
        let own = self.own_through(Level::Visible) >= self.core.state.sequence();
        calm && self.core.is_trusted()
            && own
            && self.core.state.log().tentative_len() == 0
            && self.contents.pushes_done()
    }
}
