//! Calls as they arrive.

use crate::Kind;
use crate::xdr::{Reader, Writer};

/// A call.
pub(super) struct Request<'a> {
    pub(super) xid: u32,
    pub(super) kind: Kind,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) arguments: Reader<'a>,
}

const NFS: [Kind; 22] = [
    Kind::Null,
    Kind::GetAttributes,
    Kind::SetAttributes,
    Kind::Lookup,
    Kind::Access,
    Kind::ReadLink,
    Kind::Read,
    Kind::Write,
    Kind::Create,
    Kind::MakeDirectory,
    Kind::Symlink,
    Kind::MakeNode,
    Kind::Remove,
    Kind::RemoveDirectory,
    Kind::Rename,
    Kind::Link,
    Kind::ReadDirectory,
    Kind::ReadDirectoryPlus,
    Kind::FileSystemStatistics,
    Kind::FileSystemInfo,
    Kind::PathConfiguration,
    Kind::Commit,
];

impl<'a> Request<'a> {
    pub(super) fn decode(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let mut next = || reader.u32("a header").ok();
        let (xid, is_answer, version) = (next()?, next()?, next()?);
        let (program, _, procedure) = (next()?, next()?, next()?);
        if is_answer != 0 || version != 2 {
            return None;
        }
        reader.u32("a flavour").ok()?;
        let mut credentials = Reader::new(reader.opaque("credentials", 400).ok()?);
        reader.u32("a flavour").ok()?;
        reader.opaque("a verifier", 400).ok()?;
        credentials.u32("a stamp").ok()?;
        credentials.opaque("a machine", 255).ok()?;
        let (uid, gid) = (credentials.u32("a user").ok()?, credentials.u32("a group").ok()?);
        let kind = match (program, procedure) {
            (100_003, number) => *NFS.get(number as usize)?,
            (100_000, 3) => Kind::Port,
            (100_005, 1) => Kind::Mount,
            (100_005, 5) => Kind::Exports,
            (_, 0) => Kind::Null,
            _ => return None,
        };
        Some(Self { xid, kind, uid, gid, arguments: reader })
    }

    /// The beginning of an answer.
    pub(super) fn accepted(&self) -> Writer {
        let mut writer = Writer::new();
        writer.u32(self.xid).u32(1).u32(0).u32(0).u32(0);
        writer
    }
}
