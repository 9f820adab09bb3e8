//! Whoever needs a content whole: a program that reads a file, and a host that is to push what it has not whole.

use crate::coverage::Branch;
use crate::looking::{Given, Then};
use crate::reader::{Purpose, Reader};
use crate::world::{Due, Event, Transfer, World};
use std::ops::RangeInclusive;
use std::time::Duration;
use wayfs_proto::PeerId;
use wayfs_transfer::uploads::{Input, Repaired};
use wayfs_transfer::{Order, Want};
use wayfs_types::{Digest, FileId, RecordId};

/// Looks for a chunk that cannot be had before a program gives up.
const TRIES_MAX: u32 = 3;
/// How long a repair waits for one chunk.
const REPAIR_PATIENCE: Duration = Duration::from_secs(10);

impl World {
    /// A user reads a file: piece by piece, from wherever it is.
    pub(crate) fn read_file(&mut self, index: usize, file: FileId) {
        let Some(inode) = self.inode(index, file) else { return };
        let Some(root) = inode.content.root() else { return };
        self.read_version(index, file, inode.version, root);
    }

    /// A program reads a chunk of a version.
    pub(crate) fn read_version(&mut self, index: usize, file: FileId, version: RecordId, root: Digest) {
        let patience = self.millis(1000..=30_000);
        let reader = Reader { file, version, root, had: 0, tries: 0, patience, purpose: Purpose::Program };
        self.read_later(index, reader, 1..=200);
    }

    /// Reads all of a content that was to be pushed, and gets what is damaged or gone from whom it can.
    pub(crate) fn repair(&mut self, index: usize, order: Order<PeerId>) {
        let Some(root) = order.content.root() else { return };
        self.cover(Branch::PushLacks);
        let (file, version, purpose) = (order.file, order.version, Purpose::Repair(order));
        let reader = Reader { file, version, root, had: 0, tries: 0, patience: REPAIR_PATIENCE, purpose };
        self.read_later(index, reader, 1..=50);
    }

    fn read_later(&mut self, index: usize, reader: Reader, millis: RangeInclusive<u64>) {
        let (later, life) = (self.millis(millis), self.hosts[index].life);
        self.after(later, Event::Transfer(Transfer::Due { host: index, life, due: Due::Read(reader) }));
    }

    /// Gets the next piece.
    pub(crate) fn read_on(&mut self, index: usize, reader: Reader) {
        let Some(piece) = self.pieces(reader.root).get(reader.had).copied() else {
            return self.all_read(index, reader);
        };
        let wanted = Want { file: reader.file, version: reader.version, digest: piece };
        let patience = reader.patience;
        self.want_piece(index, wanted, (None, patience), Then::Read(reader));
    }

    /// A piece is there, or cannot be had.
    pub(crate) fn piece_read(&mut self, index: usize, reader: Reader, given: &Given) {
        let is_had = given.is_ok();
        let (had, tries) = if is_had { (reader.had + 1, 0) } else { (reader.had, reader.tries + 1) };
        let reader = Reader { had, tries, ..reader };
        match &reader.purpose {
            _ if is_had => self.read_later(index, reader, 1..=100),
            Purpose::Program if tries < TRIES_MAX => self.read_later(index, reader, 1000..=1000),
            Purpose::Program => {}
            Purpose::Repair(order) => self.feed_uploads(index, Input::Repaired(order.id(), Repaired::Lacks)),
        }
    }

    fn all_read(&mut self, index: usize, reader: Reader) {
        match reader.purpose {
            Purpose::Program => self.cover(Branch::FileRead),
            Purpose::Repair(order) => self.feed_uploads(index, Input::Repaired(order.id(), Repaired::Whole)),
        }
    }
}
