//! How files of a kind were written last, to guess how the next one will be.
//!
//! Writing past the daemon pays for large files; a small one costs a body on the host, and its pages are not in
//! the kernel's cache afterwards. How large a file will be nobody says when it is made, but files of a kind
//! tend to be alike. Guessing wrong costs a little time and nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kinds remembered; past it, all are forgotten and learned again.
const KINDS_MAX: usize = 4096;
/// Kinds seen for the first time that stayed small one after the other, after which others are taken to be small as
/// well. A small file written by passthrough costs 50 us more than by request, so all of them cost a few milliseconds.
const SMALL_FIRSTS_MAX: u32 = 32;
/// Longest ending that counts as the kind of a file, in bytes.
const ENDING_MAX: usize = 16;

/// How a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WritePattern {
    /// It stayed small.
    Small,
    /// It became large.
    Large,
    /// Its program synced in the middle and went on: written by passthrough, all of it is hashed at each sync.
    Syncing,
}

/// What files are taken to be alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind(Box<[u8]>);

impl Kind {
    /// By name: those of one ending, or of one name but for words with digits in them.
    pub(super) fn of(name: &[u8]) -> Self {
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
        match dot.map(|at| &name[at..]) {
            Some(ending) if ending.len() <= ENDING_MAX && !ending.iter().any(u8::is_ascii_digit) => {
                Self(ending.to_ascii_lowercase().into())
            }
            Some(_) | None => Self(without_numbers(name).into()),
        }
    }
}

/// A name with each word that has a digit replaced by a sign.
fn without_numbers(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    for word in name.chunk_by(|one, next| one.is_ascii_alphanumeric() == next.is_ascii_alphanumeric()) {
        if word.iter().any(u8::is_ascii_digit) {
            plain.push(b'#');
        } else {
            plain.extend_from_slice(word);
        }
    }
    plain
}

/// What is known of kinds.
#[derive(Debug, Default)]
pub(super) struct WritePatterns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    kinds: HashMap<Kind, WritePattern>,
    /// Kinds seen for the first time that stayed small, since one that did not.
    small_firsts: u32,
}

impl WritePatterns {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the last one of a kind was written; of a kind never seen, how those lately seen for the first time were,
    /// if these say anything.
    pub(super) fn last(&self, kind: &Kind) -> Option<WritePattern> {
        let known = self.known();
        let are_firsts_small = known.small_firsts >= SMALL_FIRSTS_MAX;
        known.kinds.get(kind).copied().or(are_firsts_small.then_some(WritePattern::Small))
    }

    /// Remembers how one was written.
    pub(super) fn note(&self, kind: Kind, write_pattern: WritePattern) {
        let mut known = self.known();
        if known.kinds.len() >= KINDS_MAX {
            known.kinds.clear();
        }
        let is_first = known.kinds.insert(kind, write_pattern).is_none();
        match write_pattern {
            WritePattern::Small if is_first => known.small_firsts = known.small_firsts.saturating_add(1),
            WritePattern::Small => {}
            WritePattern::Large | WritePattern::Syncing => known.small_firsts = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_endings_or_names_without_numbers() {
        let kind = |name: &str| Kind::of(name.as_bytes());
        assert_eq!(kind("IMG_0001.RAW"), kind("holiday.raw"));
        assert_eq!(kind("segment-17"), kind("segment-2004"));
        assert_eq!(kind("ab12cd34"), kind("00ff"));
        assert_eq!(kind("backup.001"), kind("backup.002"));
        assert_ne!(kind("Makefile"), kind("README"));
        assert_ne!(kind(".bashrc"), kind(".profile"));
        assert_ne!(kind("a.c"), kind("a.o"));
    }

    #[test]
    fn the_last_of_a_kind_counts() {
        let write_patterns = WritePatterns::default();
        let kind = Kind::of(b"a.iso");
        assert_eq!(write_patterns.last(&kind), None);
        write_patterns.note(kind.clone(), WritePattern::Large);
        write_patterns.note(kind.clone(), WritePattern::Small);
        assert_eq!(write_patterns.last(&kind), Some(WritePattern::Small));
    }

    #[test]
    fn when_all_new_kinds_stay_small_the_next_is_taken_to_be_small_until_one_is_not() {
        let write_patterns = WritePatterns::default();
        let unknown = Kind::of(b"unknown");
        for word in 0..SMALL_FIRSTS_MAX {
            assert_eq!(write_patterns.last(&unknown), None);
            let letters: Vec<u8> = (0..8).map(|bit| b'a' + (word >> bit & 1) as u8).collect();
            write_patterns.note(Kind::of(&letters), WritePattern::Small);
        }
        assert_eq!(write_patterns.last(&unknown), Some(WritePattern::Small));
        write_patterns.note(Kind::of(b"a.iso"), WritePattern::Large);
        assert_eq!(write_patterns.last(&unknown), None);
    }
}
