//! The mount protocol, version 3 (RFC 1813, 5): the handle of an export's root, and the list of exports.

use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Handle, Status};

/// Longest path of an export.
const PATH_LEN_MAX: usize = 1024;
/// Most exports that are listed.
const EXPORTS_MAX: usize = 10_000;
/// Most flavours of authentication, and most groups of an export.
const LIST_MAX: usize = 1024;

/// Arguments that ask for the root of an export.
pub(crate) fn mount_arguments(export: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.opaque(export.as_bytes());
    writer.into_bytes()
}

/// The root.
///
/// # Errors
/// [`DecodeError`]; inside, why the server does not let us.
pub fn mount_results(results: &[u8]) -> Result<Result<Handle, Status>, DecodeError> {
    let mut reader = Reader::new(results);
    match Status::new(reader.u32("a status")?) {
        Some(status) => Ok(Err(status)),
        None => {
            let root = Handle::read(&mut reader)?;
            let flavours = reader.u32("flavours of authentication")? as usize;
            if flavours > LIST_MAX {
                let (len, max) = (flavours as u64, LIST_MAX as u64);
                return Err(DecodeError::TooLong { what: "a list of flavours", len, max });
            }
            Ok(Ok(root))
        }
    }
}

/// Paths of the exports.
///
/// # Errors
/// [`DecodeError`].
pub fn exports_results(results: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut reader = Reader::new(results);
    let mut exports = Vec::new();
    while reader.bool("whether an export follows")? {
        exports.push(reader.opaque("the path of an export", PATH_LEN_MAX)?.to_vec());
        let mut groups = 0;
        while reader.bool("whether a group follows")? {
            reader.opaque("a group", 255)?;
            groups += 1;
            if groups > LIST_MAX {
                return Err(DecodeError::Impossible("an export to endless groups"));
            }
        }
        if exports.len() > EXPORTS_MAX {
            return Err(DecodeError::Impossible("endless exports"));
        }
    }
    Ok(exports)
}
