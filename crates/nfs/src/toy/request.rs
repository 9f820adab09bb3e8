//! Calls as they arrive.

use crate::xdr::{Reader, Writer};
use crate::{Kind, Procedure};

/// A call.
pub(super) struct Request<'a> {
    pub(super) xid: u32,
    pub(super) kind: Kind,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) arguments: Reader<'a>,
}

impl<'a> Request<'a> {
    pub(super) fn decode(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let mut next = || reader.u32("a header").ok();
        let (xid, is_answer, version) = (next()?, next()?, next()?);
        let procedure = Procedure { program: next()?, version: next()?, number: next()? };
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
        // Every program answers to its number zero.
        let kind = if procedure.number == 0 { Kind::Null } else { Kind::of(procedure)? };
        Some(Self { xid, kind, uid, gid, arguments: reader })
    }

    /// The beginning of an answer.
    pub(super) fn accepted(&self) -> Writer {
        let mut writer = Writer::new();
        writer.u32(self.xid).u32(1).u32(0).u32(0).u32(0);
        writer
    }
}
