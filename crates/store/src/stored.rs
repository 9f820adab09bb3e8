//! Keys and values as the index has them.

use crate::chain::TABLE_PREFIX;
use crate::checked_value;
use crate::error::is_no_space;
use crate::index::Pair;
use wayfs_types::StorageError;

/// A key as the index has it.
pub(crate) fn stored_key(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + key.len());
    stored.push(TABLE_PREFIX);
    stored.extend_from_slice(key);
    stored
}

/// A pair as it was committed.
pub(crate) fn pair(stored: Pair) -> Result<(Vec<u8>, Vec<u8>), StorageError> {
    let (key, sealed) = stored.map_err(read_error)?;
    let value = checked_value::open(&key, &sealed)?;
    Ok((key.get(1..).unwrap_or_default().to_vec(), value.to_vec()))
}

/// A read that fails in the index met damage or a failing disk; the store itself goes on.
pub(crate) fn read_error(error: lsm_tree::Error) -> StorageError {
    match error {
        lsm_tree::Error::Io(error) if is_no_space(&error) => StorageError::NoSpace,
        lsm_tree::Error::Io(error) => StorageError::Io(error.to_string()),
        other => StorageError::Corrupt(other.to_string()),
    }
}
