//! Bringing a file's contents here.

use std::sync::Arc;
use std::time::Duration;
use wayfs_node::Volume;
use wayfs_types::{Content, FileId, Inode};

/// Longest wait for one chunk.
const CHUNK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Fetches all bytes of a file that are not here.
///
/// # Errors
/// Why a chunk did not come, in words. What came stays in the cache.
pub fn fetch_whole(volume: &Arc<Volume>, file: FileId, inode: &Inode) -> Result<(), String> {
    if matches!(inode.content, Content::Inline(_)) || volume.contents().has_all(&inode.content) {
        return Ok(());
    }
    let fetch = volume.fetch_content((file, inode.version), &inode.content, CHUNK_WAIT_MAX, |_| {});
    volume.settings().runtime.block_on(fetch).map_err(|error| error.to_string())
}
