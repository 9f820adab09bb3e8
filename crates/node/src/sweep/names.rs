//! A set of names of chunks that takes little memory: a home has ten million and more.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use wayfs_transfer::Piece;
use wayfs_types::Digest;

/// Names of chunks and list nodes.
///
/// List nodes are told apart by all that there is of them. What looks like one may be the data of a file, under the same name, and
/// a record may call it a node of another level: whether what is *below* a node is marked does not hang on that.
/// For the question whether a chunk is among them, eight bytes of each are enough, made with a key that is drawn for each set:
/// where two chunks have the same ones, both stay, and nobody can choose chunks of which that is so.
#[derive(Debug, Default)]
pub(crate) struct Names {
    nodes: HashSet<Piece>,
    all: HashSet<u64, BuildHasherDefault<Itself>>,
    key: RandomState,
}

impl Names {
    /// Adds a piece; whether it was none of them.
    pub(crate) fn insert(&mut self, piece: Piece) -> bool {
        let is_new = self.all.insert(self.key.hash_one(piece.digest));
        if piece.level == 0 { is_new } else { self.nodes.insert(piece) }
    }

    /// Whether a chunk or list node is among them.
    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        self.all.contains(&self.key.hash_one(digest))
    }
}

/// Hashes a hash: to itself.
#[derive(Debug, Default, Clone, Copy)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: u64, level: u8) -> Piece {
        Piece { digest: Digest::of(&number.to_le_bytes()), level, len: 100 }
    }

    #[test]
    fn what_was_put_in_is_in_and_nothing_else() {
        let mut names = Names::default();
        for number in 0..10_000 {
            assert!(names.insert(piece(number, 0)), "{number}");
        }
        assert!((0..10_000).all(|number| names.contains(&piece(number, 0).digest)));
        assert!(!(10_000..20_000).any(|number| names.contains(&piece(number, 0).digest)));
        assert!(!names.insert(piece(3, 0)));
    }

    #[test]
    fn a_node_is_new_whatever_else_has_its_name() {
        let mut names = Names::default();
        assert!(names.insert(piece(1, 0)), "data that looks like a node");
        assert!(names.insert(piece(1, 2)), "a record that says so");
        assert!(names.insert(piece(1, 1)), "the node");
        assert!(!names.insert(piece(1, 1)));
        assert!(!names.insert(piece(1, 0)));
    }
}
