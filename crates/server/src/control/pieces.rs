//! The contents of a file piece by piece, fetched if they are not here, holes known as such.

use crate::served::Served;
use bytes::Bytes;
use std::time::Duration;
use wayfs_content::{CHUNK_MAX, ContentError, ContentReader};
use wayfs_node::ContentsError;
use wayfs_types::{Content, Digest, FileId, Inode};

/// Longest wait for a chunk of another machine.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// A part of a file.
pub(super) enum Piece {
    /// Small contents lie in the metadata.
    Inline(Bytes),
    /// A chunk.
    Chunk(Digest, u64),
    /// Zeros.
    Hole(u64),
}

impl Piece {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Chunk(_, len) | Self::Hole(len) => *len,
        }
    }

    pub(super) fn is_hole(&self) -> bool {
        matches!(self, Self::Hole(_))
    }
}

/// The contents of one version of a file.
pub(super) struct Pieces<'a> {
    served: &'a Served,
    file: FileId,
    inode: &'a Inode,
    /// What a chunk of zeros is called. The cutter finds no border in zeros: all but the last are of the greatest length.
    hole: Digest,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(served: &'a Served, file: FileId, inode: &'a Inode) -> Self {
        Self { served, file, inode, hole: Digest::of(&zeros(CHUNK_MAX as u64)) }
    }

    /// The piece that begins at an offset where another ended; `None` at the end. The reason if it cannot be found.
    pub(super) fn at(&self, offset: u64) -> Result<Option<Piece>, String> {
        let content = &self.inode.content;
        if offset >= content.size() {
            return Ok(None);
        }
        if let Content::Inline(bytes) = content {
            return Ok(Some(Piece::Inline(bytes.clone())));
        }
        loop {
            let contents = self.served.volume.contents();
            let nodes = |digest: &Digest| contents.get(digest).ok();
            match ContentReader::new(content, &nodes).and_then(|reader| reader.locate(0, offset)) {
                Ok(Some(located)) if located.entry.len == 0 => return Err("an empty chunk".into()),
                Ok(Some(located)) => return Ok(Some(self.piece(located.entry.digest, located.entry.len))),
                Ok(None) => return Err("its content ends early".into()),
                Err(ContentError::MissingNode(node)) => self.fetch(node)?,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// The bytes of a piece. The reason if they cannot be had.
    pub(super) fn bytes(&self, piece: &Piece) -> Result<Bytes, String> {
        let digest = match piece {
            Piece::Inline(bytes) => return Ok(bytes.clone()),
            Piece::Hole(len) => return Ok(zeros(*len)),
            Piece::Chunk(digest, _) => digest,
        };
        loop {
            match self.served.volume.contents().get(digest) {
                Ok(bytes) => return Ok(bytes),
                Err(ContentsError::Missing(_) | ContentsError::Damaged(_)) => self.fetch(*digest)?,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Brings the bytes of a piece here, if they are not.
    pub(super) fn bring(&self, piece: &Piece) -> Result<(), String> {
        match piece {
            Piece::Chunk(digest, _) if !self.served.volume.contents().has(digest) => self.fetch(*digest),
            Piece::Chunk(..) | Piece::Inline(_) | Piece::Hole(_) => Ok(()),
        }
    }

    fn piece(&self, digest: Digest, len: u64) -> Piece {
        if self.hole == digest { Piece::Hole(len) } else { Piece::Chunk(digest, len) }
    }

    fn fetch(&self, digest: Digest) -> Result<(), String> {
        let fetched = self.served.volume.fetch(self.file, self.inode.version, &[digest], FETCH_MAX);
        fetched.map_err(|error| error.to_string())
    }
}

/// So many zeros: no more than a chunk.
fn zeros(len: u64) -> Bytes {
    Bytes::from(vec![0; usize::try_from(len).expect("a chunk fits into memory")])
}
