//! A chunk that is on its way here, for those to whom it goes on.
//!
//! Whoever gets a chunk for others need not have it whole before it goes on: each hop would add the time that the chunk takes over a
//! line. The pieces are kept as they come, each for as many readers as there are, until the last of these is through.
//!
//! Nothing of it is checked before it is whole. Each receiver checks what it took, and asks again; so that it does not get the same
//! once more, a chunk that came otherwise than its name says goes to nobody before it is here and checked ([`Spoilt`]).

use super::history::SIBLING_LEN_MAX;
use super::message::Form;
use bytes::Bytes;
use std::collections::BTreeSet;
use tokio::sync::watch;
use wayfs_types::Digest;

/// Most chunks that are remembered as spoilt. There are some only where a machine is broken, or lies.
const SPOILT_MAX: usize = 1024;

/// What the other side said of a body before its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) form: Form,
    /// Bytes of the body.
    pub(crate) len: u64,
    /// It is as small as it becomes without bases: its sender packed it, or could not.
    pub(crate) is_packed: bool,
}

impl Head {
    /// Bytes of the chunk, by the word of its sender.
    pub(crate) fn unpacked_len(self) -> u64 {
        if self.form == Form::Plain { self.len } else { self.form.len() as u64 }
    }

    /// Whether it may become shorter as the difference to chunks that went the same way: what its sender could not pack is like nothing
    /// else, and long ones are compared with their own former version only.
    pub(crate) fn may_be_like_others(self) -> bool {
        self.form != Form::Plain && self.unpacked_len() <= SIBLING_LEN_MAX as u64
    }
}

/// The reading half.
#[derive(Debug, Clone)]
pub(crate) struct Inflow {
    pub(crate) head: Head,
    pieces: watch::Receiver<Vec<Bytes>>,
    next: usize,
    left: u64,
}

/// The writing half. Dropped before all has come, it ends what is read.
#[derive(Debug)]
pub(crate) struct Filling(watch::Sender<Vec<Bytes>>);

impl Filling {
    /// The next bytes.
    pub(crate) fn add(&self, piece: Bytes) {
        self.0.send_modify(|pieces| pieces.push(piece));
    }
}

impl Inflow {
    /// A chunk begins to come.
    pub(crate) fn begin(head: Head) -> (Filling, Self) {
        let (filling, pieces) = watch::channel(Vec::new());
        (Filling(filling), Self { head, pieces, next: 0, left: head.len })
    }

    /// The next bytes; `None` when all has come, or nothing more will. May be cancelled and called again.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.pieces.borrow_and_update().get(self.next).cloned() {
                self.next += 1;
                self.left = self.left.saturating_sub(piece.len() as u64);
                return Some(piece);
            }
            if self.left == 0 || self.pieces.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Whether all of it was read.
    pub(crate) const fn is_through(&self) -> bool {
        self.left == 0
    }
}

/// Chunks that came otherwise than their names say.
#[derive(Debug, Default)]
pub(crate) struct Spoilt(BTreeSet<Digest>);

impl Spoilt {
    /// Somebody sent something else for this.
    pub(crate) fn add(&mut self, digest: Digest) {
        if self.0.len() >= SPOILT_MAX {
            self.0.clear();
        }
        self.0.insert(digest);
    }

    /// Whether somebody did.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.0.contains(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HEAD: Head = Head { form: Form::Plain, len: 5, is_packed: true };

    /// What comes at once.
    async fn at_once(inflow: &mut Inflow) -> Result<Option<Bytes>, tokio::time::error::Elapsed> {
        tokio::time::timeout(Duration::ZERO, inflow.next()).await
    }

    /// A film waited at the home until it was whole, since a small file had gone the same way before: in every trial of `back-fetch`.
    #[test]
    fn only_what_was_packed_and_is_short_may_be_like_others() {
        let head = |form, len| Head { form, len, is_packed: true };
        assert!(!head(Form::Plain, 10_000).may_be_like_others());
        assert!(head(Form::Zstd { len: 100_000 }, 10_000).may_be_like_others());
        assert!(!head(Form::Zstd { len: 200_000 }, 10_000).may_be_like_others());
    }

    #[tokio::test]
    async fn each_reader_has_every_piece_as_it_comes() {
        let (filling, mut early) = Inflow::begin(HEAD);
        assert!(at_once(&mut early).await.is_err(), "nothing came yet");
        filling.add(Bytes::from_static(b"abc"));
        let mut late = early.clone();
        for inflow in [&mut early, &mut late] {
            assert_eq!(at_once(inflow).await, Ok(Some(Bytes::from_static(b"abc"))));
            assert!(at_once(inflow).await.is_err());
        }
        filling.add(Bytes::from_static(b"de"));
        drop(filling);
        for inflow in [&mut early, &mut late] {
            assert_eq!(inflow.next().await, Some(Bytes::from_static(b"de")), "what came before the end is read");
            assert_eq!((inflow.next().await, inflow.is_through()), (None, true));
        }
    }

    #[tokio::test]
    async fn what_breaks_off_ends_and_is_not_whole() {
        let (filling, mut inflow) = Inflow::begin(HEAD);
        filling.add(Bytes::from_static(b"abc"));
        drop(filling);
        assert_eq!(inflow.next().await, Some(Bytes::from_static(b"abc")));
        assert_eq!((inflow.next().await, inflow.is_through()), (None, false));
    }

    #[test]
    fn so_many_spoilt_chunks_are_remembered_and_no_more() {
        let mut spoilt = Spoilt::default();
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        (0..SPOILT_MAX).for_each(|number| spoilt.add(digest(number)));
        assert!(spoilt.has(&digest(0)));
        spoilt.add(digest(SPOILT_MAX));
        assert!(spoilt.has(&digest(SPOILT_MAX)) && spoilt.0.len() <= SPOILT_MAX);
    }
}
