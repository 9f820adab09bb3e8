//! The walk down a tree, level by level, below nodes that the parent has not complete, and what of it is under way.

use crate::piece::{PIECES_MAX, Piece, Presence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_types::Digest;

/// One round of a push.
#[derive(Debug)]
pub(super) struct Walk {
    /// Pieces of this level that were not asked about.
    level: VecDeque<Piece>,
    /// Pieces of the next one.
    below: Vec<Piece>,
    question: Question,
    /// Pieces of which the parent said how much it has.
    known: VecDeque<(Piece, Presence)>,
    /// A piece that waits until fewer are under way.
    held: Option<Piece>,
    /// What is under way, and how many bytes of the file each brings.
    under_way: BTreeMap<Digest, u64>,
    /// Bytes of the file that the parent has.
    there: u64,
}

/// What an answer is waited for before the walk goes on.
#[derive(Debug)]
enum Question {
    None,
    Presence(Vec<Piece>),
    Node(Piece, Presence),
}

/// What a walk does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing before an answer comes.
    Wait,
    Ask(Vec<Piece>),
    Read(Piece),
    Send(Digest),
    /// All that lacked was sent and taken.
    Sent,
}

impl Walk {
    pub(super) fn new(top: Piece) -> Self {
        Self {
            level: VecDeque::from([top]),
            below: Vec::new(),
            question: Question::None,
            known: VecDeque::new(),
            held: None,
            under_way: BTreeMap::new(),
            there: 0,
        }
    }

    /// Bytes of the file that the parent has, as far as is known.
    pub(super) fn there(&self) -> u64 {
        self.there
    }

    pub(super) fn found(&mut self, states: Vec<Presence>) {
        let Question::Presence(pieces) = std::mem::replace(&mut self.question, Question::None) else {
            unreachable!("nobody was asked how much it has")
        };
        assert!(states.len() == pieces.len(), "one answer for each piece");
        self.known = pieces.into_iter().zip(states).collect();
    }

    pub(super) fn read(&mut self, children: Vec<Piece>) {
        let Question::Node(node, presence) = std::mem::replace(&mut self.question, Question::None) else {
            unreachable!("no node was to be read")
        };
        self.below.extend(children);
        if presence == Presence::Absent {
            self.held = Some(node);
        }
    }

    pub(super) fn taken(&mut self, digest: Digest) {
        self.there += self.under_way.remove(&digest).expect("what is taken was sent");
    }

    /// The next step, with so many under way at most.
    pub(super) fn step(&mut self, at_once: usize) -> Step {
        if !matches!(self.question, Question::None) {
            return Step::Wait;
        }
        while let Some(piece) = self.held.take().or_else(|| self.next_to_send()) {
            if let Some(step) = self.send(piece, at_once) {
                return step;
            }
        }
        if let Question::Node(node, _) = self.question {
            return Step::Read(node);
        }
        self.next_question()
    }

    /// The next piece that lacks; none if all is known, or if a list node is to be read first.
    fn next_to_send(&mut self) -> Option<Piece> {
        while let Some((piece, presence)) = self.known.pop_front() {
            match (presence, piece.level) {
                (Presence::Complete, _) | (Presence::Partial, 0) => self.there += piece.len,
                (Presence::Absent, 0) => return Some(piece),
                (Presence::Partial | Presence::Absent, _) => {
                    self.question = Question::Node(piece, presence);
                    return None;
                }
            }
        }
        None
    }

    /// `None`: the same bytes are under way already, as another piece of the file.
    fn send(&mut self, piece: Piece, at_once: usize) -> Option<Step> {
        // List nodes hold nothing of the file.
        let bytes = if piece.level == 0 { piece.len } else { 0 };
        if let Some(brings) = self.under_way.get_mut(&piece.digest) {
            *brings += bytes;
            return None;
        }
        if self.under_way.len() >= at_once {
            self.held = Some(piece);
            return Some(Step::Wait);
        }
        self.under_way.insert(piece.digest, bytes);
        Some(Step::Send(piece.digest))
    }

    fn next_question(&mut self) -> Step {
        if self.level.is_empty() {
            let mut seen = BTreeSet::new();
            self.level.extend(std::mem::take(&mut self.below).into_iter().filter(|piece| seen.insert(piece.digest)));
        }
        if !self.level.is_empty() {
            let pieces: Vec<Piece> = self.level.drain(..self.level.len().min(PIECES_MAX)).collect();
            self.question = Question::Presence(pieces.clone());
            return Step::Ask(pieces);
        }
        if self.under_way.is_empty() { Step::Sent } else { Step::Wait }
    }
}
