//! Checking bytes against their name.

use crate::ContentError;
use wayfs_types::Digest;

/// Checks that bytes have the name they came under.
///
/// # Errors
/// [`ContentError::Mismatch`] with both names.
pub fn verify(wanted: &Digest, bytes: &[u8]) -> Result<(), ContentError> {
    let found = Digest::of(bytes);
    if found == *wanted { Ok(()) } else { Err(ContentError::Mismatch { wanted: *wanted, found }) }
}
