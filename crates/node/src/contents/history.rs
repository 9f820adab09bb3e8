//! What went over a session lately, to be the base of what follows.
//!
//! Sources of one program are alike, and are asked for in bursts: when the second is packed, the first is not yet at whoever
//! asked for both. So the asker numbers its questions, and the giver packs a chunk as the difference to some of those that it gave
//! before; the answer says which, by how much lower their numbers are. The asker unpacks in the same order: a chunk waits for its
//! bases, which have lower numbers, so nothing ever waits for itself.
//!
//! The asker keeps names, the giver bytes, both within bounds; one that forgets costs a repetition without bases.

use super::compression::PathLook;
use super::pace::Pace;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_types::Digest;

/// How much lower the number of a base may be at most: the bits of [`Before`].
const DISTANCE_MAX: u32 = 64;
/// Most questions whose chunks the asker can still name. More than the greatest distance and all that are under way at once.
const ASKED_MAX: usize = 256;
/// Most chunks that the giver keeps. Sixteen make 1 % less than eight, and take twice as long to pack.
const GIVEN_MAX: usize = 8;
/// Most bytes that the giver keeps for a session; also the longest chunk that is a base.
pub(super) const BASE_LEN_MAX: usize = 64 << 10;
/// Longest chunk that is compared with others than its own former version: what it can gain shrinks beside what it has in itself.
pub(super) const SIBLING_LEN_MAX: usize = 128 << 10;
/// Most chunks that were pushed whose names the sender keeps.
const PUSHED_MAX: usize = 2;

/// Which of the answers before this one are bases: bit 0 is the question before it.
pub(crate) type Before = u64;

/// The numbers that a question and the bits name, in rising order.
fn numbers(number: u32, before: Before) -> impl Iterator<Item = u32> {
    (0..DISTANCE_MAX).rev().filter(move |bit| before >> bit & 1 == 1).filter_map(move |bit| number.checked_sub(bit + 1))
}

/// The questions of this side.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    last: u32,
    digests: VecDeque<Digest>,
}

impl Asked {
    /// The number of the next question, from 1 on; or 0, with which the answer has no bases: when there are no more numbers, and for a
    /// chunk that has one already. If it had two, others between them could wait for it and it for them.
    pub(crate) fn ask(&mut self, digest: Digest) -> u32 {
        if self.digests.contains(&digest) {
            return 0;
        }
        let Some(number) = self.last.checked_add(1) else { return 0 };
        self.last = number;
        self.digests.push_back(digest);
        if self.digests.len() > ASKED_MAX {
            self.digests.pop_front();
        }
        number
    }

    /// The chunks that the answer to a question names; `None` if one of them is not known any more, or never was.
    pub(crate) fn bases(&self, number: u32, before: Before) -> Option<Vec<Digest>> {
        let digests: Vec<Digest> = numbers(number, before).filter_map(|number| self.digest(number)).collect();
        (digests.len() == before.count_ones() as usize).then_some(digests)
    }

    fn digest(&self, number: u32) -> Option<Digest> {
        let back = usize::try_from(self.last.checked_sub(number)?).ok()?;
        let at = self.digests.len().checked_sub(back + 1)?;
        self.digests.get(at).copied()
    }
}

/// The answers of this side.
#[derive(Debug, Default)]
pub(crate) struct Given {
    chunks: VecDeque<(u32, Bytes)>,
    len: usize,
}

impl Given {
    /// Whether there are bases for the answer to a question.
    pub(crate) fn has_bases(&self, number: u32) -> bool {
        self.chunks.iter().any(|(base, _)| bases_of(number).contains(base))
    }

    /// Bases for the answer to a question, in rising order, and the bits that name them. The answer is a base for others from
    /// now on, unless it is too long.
    pub(crate) fn give(&mut self, number: u32, chunk: &Bytes) -> (Before, Vec<Bytes>) {
        if number == 0 {
            return (0, Vec::new());
        }
        let mut bases: Vec<(u32, Bytes)> =
            self.chunks.iter().filter(|(base, _)| bases_of(number).contains(base)).cloned().collect();
        bases.sort_by_key(|(base, _)| *base);
        bases.dedup_by_key(|(base, _)| *base);
        let before = bases.iter().fold(0, |before, (base, _)| before | 1 << (number - base - 1));
        if chunk.len() <= BASE_LEN_MAX {
            self.len += chunk.len();
            self.chunks.push_back((number, chunk.clone()));
        }
        while self.len > BASE_LEN_MAX || self.chunks.len() > GIVEN_MAX {
            let Some((_, oldest)) = self.chunks.pop_front() else { break };
            self.len -= oldest.len();
        }
        (before, bases.into_iter().map(|(_, bytes)| bytes).collect())
    }

    /// The answer is no good base: it did not shrink, or did not get to the asker.
    pub(crate) fn take_back(&mut self, number: u32) {
        self.chunks.retain(|(given, _)| *given != number);
        self.len = self.chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    }
}

/// Numbers of chunks that may be the base of another.
fn bases_of(number: u32) -> Range<u32> {
    number.saturating_sub(DISTANCE_MAX)..number
}

/// The chunks that were pushed last and arrived.
#[derive(Debug, Default)]
pub(crate) struct Pushed(VecDeque<Digest>);

impl Pushed {
    /// The peer has a chunk now.
    pub(crate) fn add(&mut self, digest: Digest, len: usize) {
        if len > BASE_LEN_MAX || self.0.contains(&digest) {
            return;
        }
        self.0.push_back(digest);
        if self.0.len() > PUSHED_MAX {
            self.0.pop_front();
        }
    }

    /// Those that the peer has, the newest last.
    pub(crate) fn bases(&self) -> Vec<Digest> {
        self.0.iter().copied().collect()
    }
}

/// All of it, for one session. Leaves in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct History {
    asked: Mutex<Asked>,
    given: Mutex<Given>,
    pushed: Mutex<Pushed>,
    /// The path that it goes over.
    pub(crate) path: PathLook,
    /// How quickly the neighbour's contents come.
    pub(crate) pace: Pace,
}

impl History {
    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pushed(&self) -> MutexGuard<'_, Pushed> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk(number: u32, len: usize) -> Bytes {
        Bytes::from(vec![number as u8; len])
    }

    fn digest(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn both_sides_mean_the_same_chunks() {
        let (mut asked, mut given) = (Asked::default(), Given::default());
        for number in 1..=100 {
            assert_eq!(asked.ask(digest(number)), number);
        }
        // The questions of a burst overtake each other.
        for number in [2, 1, 3, 5, 4, 90, 60] {
            let (before, bases) = given.give(number, &chunk(number, 1000));
            let named = asked.bases(number, before).unwrap();
            let given: Vec<Digest> = bases.iter().map(|bytes| digest(u32::from(bytes[0]))).collect();
            assert_eq!(named, given, "{number}");
        }
        let (before, bases) = given.give(6, &chunk(6, 1000));
        assert_eq!((before, bases.len()), (0b1_1111, 5), "those behind it are not its bases");
        assert_eq!(given.give(0, &chunk(0, 1000)), (0, Vec::new()), "who gives no number gets no bases");
    }

    #[test]
    fn what_did_not_arrive_is_no_base() {
        let mut given = Given::default();
        given.give(1, &chunk(1, 1000));
        given.take_back(1);
        assert_eq!(given.give(2, &chunk(2, 1000)), (0, Vec::new()));
    }

    #[test]
    fn both_sides_keep_within_their_bounds() {
        let (mut asked, mut given) = (Asked::default(), Given::default());
        for number in 1..1000 {
            asked.ask(digest(number));
            given.give(number, &chunk(number, if number % 7 == 0 { BASE_LEN_MAX + 1 } else { 9000 }));
            assert!(given.len <= BASE_LEN_MAX && given.chunks.len() <= GIVEN_MAX);
        }
        assert_eq!(asked.digests.len(), ASKED_MAX);
        assert_eq!(asked.bases(500, 1), None, "forgotten");
        assert_eq!(asked.bases(1, 1), None, "never asked");
        assert_eq!(asked.bases(5000, 1), None);
        assert_eq!(asked.bases(999, 0b101), Some(vec![digest(996), digest(998)]));
    }

    #[test]
    fn a_chunk_has_one_number() {
        let mut asked = Asked::default();
        assert_eq!([1, 2, 1, 3].map(|chunk| asked.ask(digest(chunk))), [1, 2, 0, 3]);
    }

    #[test]
    fn numbers_end_without_starting_anew() {
        let mut asked = Asked { last: u32::MAX, digests: VecDeque::new() };
        assert_eq!(asked.ask(digest(1)), 0);
    }

    proptest! {
        #[test]
        fn no_bits_make_more_than_was_asked(asks in 0..300u32, number in any::<u32>(), before in any::<u64>()) {
            let mut asked = Asked::default();
            for ask in 0..asks {
                asked.ask(digest(ask));
            }
            if let Some(bases) = asked.bases(number, before) {
                prop_assert_eq!(bases.len(), before.count_ones() as usize);
            }
        }

        #[test]
        fn no_numbers_break_the_bounds(numbers in proptest::collection::vec((any::<u32>(), 0..100_000usize), 0..50)) {
            let mut given = Given::default();
            for (number, len) in numbers {
                let (before, bases) = given.give(number, &chunk(number, len));
                prop_assert_eq!(before.count_ones() as usize, bases.len());
                prop_assert!(given.len <= BASE_LEN_MAX && given.chunks.len() <= GIVEN_MAX);
                prop_assert_eq!(given.len, given.chunks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
            }
        }
    }
}
