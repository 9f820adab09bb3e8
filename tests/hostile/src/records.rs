//! Records and images, written by hand.

use wayfs_types::{Content, FileId, Inode, Kind, Name, Op, OriginId, Record, RecordId, UserId, WallTime};
use wayfs_wire::SentRecord;

/// A record of an origin.
pub fn record(origin: OriginId, sequence: u64, op: Op) -> SentRecord {
    let id = RecordId::new(origin, sequence).unwrap();
    SentRecord { record: Record { id, time: WallTime::EPOCH, user: UserId(0), op }, held: true }
}

/// Makes a file in the root.
pub fn create(name: &str, content: Content) -> Op {
    let name = Name::try_from(name).unwrap();
    Op::Create { parent: FileId::ROOT, name, kind: Kind::File, mode: 0o644, uid: 0, gid: 0, content }
}

/// Writes a file of which nothing was written before.
pub fn store(file: FileId, base: RecordId, content: Content) -> Op {
    Op::Store { file, base, content, mtime: WallTime::EPOCH }
}

/// A file or directory that nobody made.
pub fn inode(kind: Kind, merged_into: Option<FileId>) -> Inode {
    Inode { kind, merged_into, ..wayfs_tree::root_inode() }
}
