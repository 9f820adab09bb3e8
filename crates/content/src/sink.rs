//! Where new chunks and list nodes go.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::convert::Infallible;
use wayfs_types::Digest;

/// Takes chunks and list nodes as they are made.
pub trait ChunkSink {
    /// Why it refuses.
    type Error;

    /// Takes one. The same chunk may come more than once.
    ///
    /// # Errors
    /// Whatever the sink says; it ends the operation that made the chunk.
    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), Self::Error>;
}

/// Keeps all chunks in memory, for simulation and tests.
#[derive(Debug, Default, Clone)]
pub struct MemorySink {
    /// Chunks and nodes by name.
    pub chunks: BTreeMap<Digest, Bytes>,
}

impl MemorySink {
    /// A chunk or node by name.
    pub fn get(&self, digest: &Digest) -> Option<Bytes> {
        self.chunks.get(digest).cloned()
    }
}

impl ChunkSink for MemorySink {
    type Error = Infallible;

    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), Infallible> {
        self.chunks.insert(digest, bytes);
        Ok(())
    }
}
