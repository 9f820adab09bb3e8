//! Bytes that say which they are.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Length of the line at the begin.
pub(super) const HEAD: usize = 32;

/// The number of a piece.
pub(super) type Number = u64;

/// What a file was found to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// This piece, byte for byte.
    Whole(Number),
    /// Nothing.
    Empty,
    /// The begin of this piece, or something else under its name.
    Broken(Option<Number>),
}

/// The bytes of a piece. `len` is at least [`HEAD`].
pub(super) fn bytes(seed: u64, number: Number, len: usize) -> Vec<u8> {
    let mut bytes = format!("piece {number:010} {len:013}\n").into_bytes();
    bytes.resize(HEAD, b' ');
    let mut rest = vec![0; len.saturating_sub(HEAD)];
    StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fill(&mut rest[..]);
    bytes.extend(rest);
    bytes
}

/// Which piece a file holds.
pub(super) fn recognise(seed: u64, found: &[u8]) -> Found {
    if found.is_empty() {
        return Found::Empty;
    }
    let head = found.get(..HEAD).and_then(|head| std::str::from_utf8(head).ok());
    let Some(head) = head else { return Found::Broken(None) };
    let mut words = head.split_whitespace().skip(1).map(str::parse::<u64>);
    let (Some(Ok(number)), Some(Ok(len))) = (words.next(), words.next()) else { return Found::Broken(None) };
    let is_whole = usize::try_from(len).is_ok_and(|len| len == found.len() && bytes(seed, number, len) == found);
    if is_whole { Found::Whole(number) } else { Found::Broken(Some(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_recognised_and_a_damaged_one_is_not() {
        let mut piece = bytes(7, 12, 5000);
        assert_eq!(piece.len(), 5000);
        assert_eq!(recognise(7, &piece), Found::Whole(12));
        assert_eq!(recognise(7, &piece[..4000]), Found::Broken(Some(12)));
        piece[4999] ^= 1;
        assert_eq!(recognise(7, &piece), Found::Broken(Some(12)));
        assert_eq!(recognise(7, &[]), Found::Empty);
        assert_eq!(recognise(7, b"something else"), Found::Broken(None));
    }
}
