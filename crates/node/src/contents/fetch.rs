//! Getting contents that are not here, many chunks at once.

use super::pace::UNKNOWN;
use super::want::{FetchError, Want};
use crate::contents::ContentsError;
use crate::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use wayfs_content::CHUNK_AVG;
use wayfs_transfer::Piece;
use wayfs_types::{Content, Digest, FileId, RecordId};

/// Chunks of a content whose names are gathered before they are fetched.
const GATHERED: usize = 64;

impl Volume {
    /// Gets chunks of a version into the local chunk store and waits for them, as long as bytes come: until nothing came
    /// for `patience`, and at most 120 times as long for each chunk.
    ///
    /// # Errors
    /// The first [`FetchError`]; other chunks may have come.
    pub fn fetch(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: &[Digest],
        patience: Duration,
    ) -> Result<(), FetchError> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.fetch_then(file, version, digests.to_vec(), patience, move |result| {
            let _ = send.send(result);
        });
        // The sender is gone if the runtime ended.
        receive.recv().unwrap_or(Err(FetchError::Unreachable))
    }

    /// The same without waiting: `done` is called on a thread of the runtime, or on this one if all is here.
    pub fn fetch_then(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: Vec<Digest>,
        patience: Duration,
        done: impl FnOnce(Result<(), FetchError>) + Send + 'static,
    ) {
        let missing: Vec<Digest> = digests.into_iter().filter(|digest| !self.contents.is_at_hand(digest)).collect();
        if missing.is_empty() {
            return done(Ok(()));
        }
        let volume = Arc::clone(self);
        self.settings.runtime.spawn(async move { done(volume.fetch_all(file, version, missing, patience).await) });
    }

    /// Gets all of a content, list nodes and chunks; `step` hears of every chunk that is here, by its bytes.
    /// It ends when nothing came for `patience`.
    ///
    /// # Errors
    /// The first [`FetchError`].
    pub async fn fetch_content(
        self: &Arc<Self>,
        (file, version): (FileId, RecordId),
        content: &Content,
        patience: Duration,
        step: impl Fn(u64),
    ) -> Result<(), FetchError> {
        let Some(top) = Piece::top(content) else { return Ok(()) };
        let mut level = vec![top];
        while let Some(first) = level.first() {
            let is_chunks = first.level == 0;
            let mut below = Vec::new();
            for pieces in level.chunks(GATHERED) {
                let digests = pieces
                    .iter()
                    .map(|piece| piece.digest)
                    .filter(|digest| !self.contents.is_at_hand(digest))
                    .collect();
                self.fetch_all(file, version, digests, patience).await?;
                for piece in pieces {
                    if is_chunks {
                        step(piece.len);
                    } else {
                        let node = self.contents.read(piece.digest).await?;
                        below.extend(piece.children(&node).ok_or(ContentsError::Damaged(piece.digest))?);
                    }
                }
            }
            level = below;
        }
        Ok(())
    }

    pub(crate) async fn fetch_all(
        self: &Arc<Self>,
        file: FileId,
        version: RecordId,
        digests: Vec<Digest>,
        patience: Duration,
    ) -> Result<(), FetchError> {
        let mut tasks = tokio::task::JoinSet::new();
        let mut left = digests.into_iter();
        let mut first = Ok(());
        loop {
            while tasks.len() < self.chunks_at_once()
                && let Some(digest) = left.next()
            {
                let volume = Arc::clone(self);
                let want = Want { file, version, digest };
                tasks.spawn(async move { volume.fetch_chunk(want, None, patience).await });
            }
            let Some(ended) = tasks.join_next().await else { return first };
            let result = ended.unwrap_or_else(|error| Err(FetchError::Refused(error.to_string())));
            first = first.and(result);
        }
    }

    /// Bytes of contents that the line to the parent is to have under way, by what it brings.
    pub fn fetch_window(&self) -> u64 {
        (self.chunks_at_once() * CHUNK_AVG) as u64
    }

    /// Chunks of one fetch that are under way at once, by what the line to the parent brings.
    fn chunks_at_once(&self) -> usize {
        let parent = self.lock().parent().cloned();
        parent.map_or(UNKNOWN, |session| session.history.pace.at_once(session.connection.rtt()))
    }
}
