//! Values with a checksum over key and value, so that a damaged or misplaced record
//! is named and never served.

use wayfs_types::StorageError;

/// Bytes in front of each stored value.
const SUM_LEN: usize = 4;

/// A value as it is stored.
pub(crate) fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(SUM_LEN + value.len());
    sealed.extend_from_slice(&sum(key, value).to_le_bytes());
    sealed.extend_from_slice(value);
    sealed
}

/// The value of a stored record.
///
/// # Errors
/// [`StorageError::Corrupt`] with the key in hexadecimal.
pub(crate) fn open<'v>(key: &[u8], sealed: &'v [u8]) -> Result<&'v [u8], StorageError> {
    let checked = sealed.split_first_chunk::<SUM_LEN>();
    match checked {
        Some((wanted, value)) if u32::from_le_bytes(*wanted) == sum(key, value) => Ok(value),
        Some(_) | None => Err(StorageError::Corrupt(format!("key {}", hex(key)))),
    }
}

fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// At most the first forty bytes of a key, for a message.
fn hex(key: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for byte in key.iter().take(40) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
