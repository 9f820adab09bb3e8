//! Calls and answers of ONC RPC (RFC 5531).

use crate::Procedure;
use crate::xdr::{DecodeError, Reader, Writer};

/// Longest body of an authentication.
const AUTH_LEN_MAX: usize = 400;
/// Most further groups of a user.
pub const GROUPS_MAX: usize = 16;

/// By which an answer finds its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid(pub u32);

/// Who calls (AUTH_SYS). The server believes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of this machine.
    pub machine: String,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups; the first 16 count.
    pub groups: Vec<u32>,
}

impl Credentials {
    fn write(&self, writer: &mut Writer) {
        let mut body = Writer::new();
        let machine = self.machine.as_bytes();
        body.u32(0).opaque(&machine[..machine.len().min(255)]).u32(self.uid).u32(self.gid);
        let groups = &self.groups[..self.groups.len().min(GROUPS_MAX)];
        body.u32(groups.len() as u32);
        for group in groups {
            body.u32(*group);
        }
        writer.u32(1).opaque(&body.into_bytes());
    }
}

/// A call as it travels.
pub(crate) fn encode_call(xid: Xid, procedure: Procedure, credentials: &Credentials, arguments: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(xid.0).u32(0).u32(2).u32(procedure.program).u32(procedure.version).u32(procedure.number);
    credentials.write(&mut writer);
    // The verifier of AUTH_SYS is empty.
    writer.u32(0).u32(0).fixed(arguments);
    writer.into_bytes()
}

/// Why a server did not look at the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has no such program.
    #[error("it does not serve this program")]
    NoProgram,
    /// It has other versions of it.
    #[error("it serves versions {low} to {high} only")]
    OtherVersion {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// It has no such procedure.
    #[error("it does not know this procedure")]
    NoProcedure,
    /// It could not read the arguments.
    #[error("it could not read the call")]
    Garbage,
    /// It failed.
    #[error("it failed")]
    Failed,
    /// It speaks another version of RPC.
    #[error("it speaks another version of RPC")]
    OtherRpc,
    /// It does not believe who we are.
    #[error("it does not accept the user of the call (AUTH_SYS, reason {0})")]
    Credentials(u32),
}

/// An answer, split: which call it is for, and its results.
///
/// # Errors
/// [`DecodeError`] if it is no answer.
pub fn decode_reply(bytes: &[u8]) -> Result<(Xid, Result<&[u8], Refusal>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let xid = Xid(reader.u32("a transaction")?);
    match reader.u32("a kind of message")? {
        1 => {}
        value => return Err(DecodeError::Unknown { what: "answer", value }),
    }
    let refusal = match reader.u32("whether it is accepted")? {
        0 => accepted(&mut reader)?,
        1 => Some(denied(&mut reader)?),
        value => return Err(DecodeError::Unknown { what: "kind of answer", value }),
    };
    Ok((xid, refusal.map_or(Ok(reader.rest()), Err)))
}

fn accepted(reader: &mut Reader<'_>) -> Result<Option<Refusal>, DecodeError> {
    reader.u32("a verifier")?;
    reader.opaque("a verifier", AUTH_LEN_MAX)?;
    Ok(match reader.u32("whether it was done")? {
        0 => None,
        1 => Some(Refusal::NoProgram),
        2 => Some(Refusal::OtherVersion { low: reader.u32("a version")?, high: reader.u32("a version")? }),
        3 => Some(Refusal::NoProcedure),
        4 => Some(Refusal::Garbage),
        5 => Some(Refusal::Failed),
        value => return Err(DecodeError::Unknown { what: "reason", value }),
    })
}

fn denied(reader: &mut Reader<'_>) -> Result<Refusal, DecodeError> {
    match reader.u32("a reason")? {
        0 => Ok(Refusal::OtherRpc),
        1 => reader.u32("a reason").map(Refusal::Credentials),
        value => Err(DecodeError::Unknown { what: "reason", value }),
    }
}
