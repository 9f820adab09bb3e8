//! The port mapper: which port a program has (RFC 1833, version 2).

use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Kind, Procedure};

/// Where port mappers are.
pub const PORT: u16 = 111;

/// Arguments of the question over which port a program is served; `protocol` is 6 for TCP, 17 for UDP.
pub(crate) fn port_arguments(program: Procedure, protocol: u32) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(program.program).u32(program.version).u32(protocol).u32(0);
    writer.into_bytes()
}

/// The port; `None` if the program is not served.
///
/// # Errors
/// [`DecodeError`].
pub fn port_results(results: &[u8]) -> Result<Option<u16>, DecodeError> {
    let value = Reader::new(results).u32("a port")?;
    let port = u16::try_from(value).map_err(|_| DecodeError::Unknown { what: "port", value })?;
    Ok((port > 0).then_some(port))
}

/// The programs whose ports a client needs: NFS itself, and mount.
pub const fn needed() -> [Procedure; 2] {
    [Kind::Null.procedure(), Kind::Mount.procedure()]
}
