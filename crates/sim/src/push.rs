//! Pushes, driven: [`wayfs_transfer::push`] decides what travels; questions and answers go over the simulated lines, each on a
//! stream of its own, and anything may happen between them.

use crate::contents::CHUNK_LEN;
use crate::coverage::Branch;
use crate::disk::Chunk;
use crate::network::{End, HEADER_LEN, STALLED};
use crate::planted::Bug;
use crate::pushing::{Answer, Asked, Pushing, Question};
use crate::world::{Event, Transfer, World};
use rand::Rng;
use wayfs_proto::{Input as EngineInput, PeerId, Role};
use wayfs_transfer::push::{self, Input, Output, Push};
use wayfs_transfer::uploads::{Failure, Input as Report};
use wayfs_transfer::{Order, Piece, Presence, PushId};
use wayfs_types::Digest;

/// Bytes that a transport may have in flight: the fewest chunks.
const WINDOW: u64 = 0;
/// Part of the questions that are interrupted although their session goes on.
const INTERRUPTED: f64 = 0.005;

/// Part of the contents before whose completion the parent sweeps. Only what is older than the seed's grace goes with that.
const SWEPT_BEFORE: f64 = 0.2;

impl World {
    pub(crate) fn begin_push(&mut self, index: usize, order: Order<PeerId>) {
        let id = order.id();
        if self.hosts[index].parent_session != Some(id.peer) {
            return self.feed_uploads(index, Report::Failed(id, Failure::SessionOver));
        }
        self.hosts[index].pushes_begun += 1;
        let number = self.hosts[index].pushes_begun;
        let push = Push::new(self.now, &order.content, WINDOW);
        let pushing = Pushing { order, push, number, answers: 0, failure: Failure::Refused };
        self.hosts[index].pushes.insert(id, pushing);
        self.drain_push(index, id);
    }

    /// The session of some pushes is over for the host that pushes.
    pub(crate) fn interrupt_pushes(&mut self, index: usize, peer: PeerId) {
        self.feed_uploads(index, Report::SessionEnded(peer));
        let all: Vec<PushId<PeerId>> = self.hosts[index].pushes.keys().copied().filter(|id| id.peer == peer).collect();
        for id in all {
            let has_begun = self.hosts[index].pushes.get(&id).is_some_and(|pushing| pushing.answers > 0);
            if has_begun {
                self.cover(Branch::PushInterrupted);
            }
            self.feed_push(index, id, Err(Failure::SessionOver));
        }
    }

    fn feed_push(&mut self, index: usize, id: PushId<PeerId>, answer: Answer) {
        let now = self.now;
        let Some(pushing) = self.hosts[index].pushes.get_mut(&id) else { return };
        pushing.answers += usize::from(answer.is_ok());
        match answer {
            Ok(input) => pushing.push.handle(now, input),
            Err(failure) => {
                pushing.failure = failure;
                pushing.push.handle(now, Input::Failed);
            }
        }
        self.drain_push(index, id);
    }

    fn drain_push(&mut self, index: usize, id: PushId<PeerId>) {
        while let Some(output) = self.hosts[index].pushes.get_mut(&id).and_then(|pushing| pushing.push.poll_output()) {
            self.note(|| format!("  host {index} pushes {id:?} {output:?}"));
            match output {
                Output::AskPresence(pieces) => self.ask_parent(index, id, Question::Presence(pieces)),
                Output::ReadNode(piece) => self.read_node(index, id, piece),
                Output::Send(digest) => self.send_chunk(index, id, digest, Question::Take(digest)),
                Output::SendWhole(digest) => self.send_chunk(index, id, digest, Question::TakeWhole(digest)),
                Output::AskComplete => {
                    let root = self.hosts[index].pushes.get(&id).and_then(|pushing| pushing.order.content.root());
                    self.ask_parent(index, id, Question::Complete(root.expect("what is inline is done at once")));
                }
                Output::Sent(bytes) => {
                    if self.hosts[index].role() == Role::Station {
                        self.feed(index, EngineInput::Sent { version: id.version, bytes });
                    }
                }
                Output::Done => return self.end_push(index, id, None),
                Output::Failed(push::Failure::Lost(_)) => {
                    return self.end_push(index, id, Some(Failure::ChunkLost));
                }
                Output::Failed(push::Failure::TakesInVain) => {
                    return self.end_push(index, id, Some(Failure::Refused));
                }
                Output::Failed(push::Failure::Reported) => {
                    let failure = self.hosts[index].pushes.get(&id).map(|pushing| pushing.failure);
                    return self.end_push(index, id, failure);
                }
            }
        }
    }

    fn end_push(&mut self, index: usize, id: PushId<PeerId>, failure: Option<Failure>) {
        self.hosts[index].pushes.remove(&id);
        match failure {
            Some(failure) => self.feed_uploads(index, Report::Failed(id, failure)),
            None => {
                self.feed(index, EngineInput::Pushed { versions: vec![id.version] });
                self.feed_uploads(index, Report::Pushed(id));
            }
        }
    }

    // At the host that pushes.

    fn read_node(&mut self, index: usize, id: PushId<PeerId>, node: Piece) {
        let input = if self.can_send(index, node.digest) {
            Input::Node(self.pieces_below(node.digest))
        } else {
            Input::Lost(node.digest)
        };
        self.feed_push_within(index, id, input);
    }

    fn send_chunk(&mut self, index: usize, id: PushId<PeerId>, digest: Digest, question: Question) {
        if self.can_send(index, digest) {
            self.ask_parent(index, id, question);
        } else {
            self.feed_push_within(index, id, Input::Lost(digest));
        }
    }

    /// An answer from this host's own disk, while the outputs of a push are carried out.
    fn feed_push_within(&mut self, index: usize, id: PushId<PeerId>, input: Input) {
        let now = self.now;
        if let Some(pushing) = self.hosts[index].pushes.get_mut(&id) {
            pushing.push.handle(now, input);
        }
    }

    /// Reads a chunk that is to be sent. A damaged one is put aside.
    fn can_send(&mut self, index: usize, digest: Digest) -> bool {
        let found = self.hosts[index].disk.0.borrow_mut().read_chunk(digest);
        if found == Some(Chunk::Damaged) {
            self.hosts[index].disk.0.borrow_mut().lose(digest);
        }
        found == Some(Chunk::Sound)
    }

    fn ask_parent(&mut self, index: usize, id: PushId<PeerId>, question: Question) {
        let Some(number) = self.hosts[index].pushes.get(&id).map(|pushing| pushing.number) else { return };
        let (body, most) = match &question {
            Question::Presence(_) | Question::Complete(_) => (0, 200),
            Question::Take(_) | Question::TakeWhole(_) => (CHUNK_LEN as usize, 1500),
        };
        let later = self.across(id.peer, End::Child, HEADER_LEN + body) + self.millis(0..=most);
        self.after(later, Event::Transfer(Transfer::PushAsked(Asked { id, number, question })));
    }

    // At the parent.

    /// A question reaches the parent.
    pub(crate) fn push_asked(&mut self, asked: Asked) {
        if self.is_cut(asked.id.peer) {
            return self.after(STALLED, Event::Transfer(Transfer::PushAsked(asked)));
        }
        let Some(parent) = self.living_end(asked.id.peer, End::Parent) else { return };
        if !self.healed && self.random.random_bool(INTERRUPTED) {
            return self.answer_push(&asked, Err(Failure::Interrupted));
        }
        match &asked.question {
            Question::Presence(pieces) => {
                let states = pieces.iter().map(|piece| self.presence(parent, *piece)).collect();
                self.answer_push(&asked, Ok(Input::Presence(states)));
            }
            Question::Take(digest) => {
                let answer = if self.take(parent, *digest) { Ok(Input::Taken(*digest)) } else { Err(Failure::Refused) };
                self.answer_push(&asked, answer);
            }
            Question::TakeWhole(digest) if !self.take(parent, *digest) => {
                self.answer_push(&asked, Err(Failure::Refused));
            }
            Question::TakeWhole(root) | Question::Complete(root) => self.complete(parent, *root, asked),
        }
    }

    /// How much of a piece a host has. What is said to be complete is kept from the sweep for a while.
    fn presence(&mut self, index: usize, piece: Piece) -> Presence {
        let is_planted = match self.bug {
            Some(Bug::ContentsForgotten) => true,
            Some(Bug::PartialAsWhole) => piece.level == 0,
            _ => false,
        };
        let all: Vec<Digest> = if piece.level == 0 { vec![piece.digest] } else { self.pieces(piece.digest).to_vec() };
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        let (has_top, has_all) =
            (disk.read_chunk(piece.digest) == Some(Chunk::Sound), all.iter().all(|part| disk.has_chunk(*part)));
        drop(disk);
        match (is_planted || has_top && has_all, has_top) {
            (true, _) => {
                self.protect(index, &all);
                Presence::Complete
            }
            (false, true) => Presence::Partial,
            (false, false) => Presence::Absent,
        }
    }

    fn protect(&mut self, index: usize, pieces: &[Digest]) {
        let now = self.now;
        self.hosts[index].touched.extend(pieces.iter().map(|piece| (*piece, now)));
    }

    /// Takes a chunk. Whether there was room.
    fn take(&mut self, index: usize, digest: Digest) -> bool {
        let is_taken = self.bug == Some(Bug::ContentsForgotten) || self.put_piece(index, digest);
        if !is_taken {
            self.cover(Branch::PushRefused);
        }
        is_taken
    }

    /// All of a content was sent: it is looked through and made durable.
    fn complete(&mut self, index: usize, root: Digest, asked: Asked) {
        // A sweep may come just before what it would take is kept from it.
        if !self.healed && self.random.random_bool(SWEPT_BEFORE) {
            self.sweep(index);
        }
        self.protect(index, &self.pieces(root));
        if !self.counts_as_whole(index, root) {
            self.cover(Branch::PushMissing);
            return self.answer_push(&asked, lacks(&asked));
        }
        let span = self.sync_span();
        let chunk_writes = self.hosts[index].disk.0.borrow().sync_point().chunk_writes;
        self.after(span, Event::Transfer(Transfer::PushSynced { asked, root, chunk_writes }));
    }

    /// The parent synced all that was pushed, and says so.
    pub(crate) fn push_synced(&mut self, asked: Asked, root: Digest, chunk_writes: u64) {
        let Some(parent) = self.living_end(asked.id.peer, End::Parent) else { return };
        if !self.hosts[parent].disk.0.borrow_mut().sync_chunks(chunk_writes) {
            return;
        }
        // The live node keeps what it is about to confirm from a sweep for ten minutes; seeds draw shorter times.
        if !self.counts_as_whole(parent, root) {
            self.cover(Branch::PushMissing);
            return self.answer_push(&asked, lacks(&asked));
        }
        self.feed(parent, EngineInput::ContentsHere { tops: vec![self.top(root)] });
        self.answer_push(&asked, Ok(Input::Durable));
    }

    fn counts_as_whole(&self, index: usize, root: Digest) -> bool {
        matches!(self.bug, Some(Bug::ContentsForgotten | Bug::PartialAsWhole)) || self.is_whole(index, root)
    }

    fn answer_push(&mut self, asked: &Asked, answer: Answer) {
        let later = self.across(asked.id.peer, End::Parent, HEADER_LEN);
        self.after(later, Event::Transfer(Transfer::PushAnswered { id: asked.id, number: asked.number, answer }));
    }

    /// An answer reaches the host that pushes.
    pub(crate) fn push_answered(&mut self, id: PushId<PeerId>, number: u64, answer: Answer) {
        if self.is_cut(id.peer) {
            return self.after(STALLED, Event::Transfer(Transfer::PushAnswered { id, number, answer }));
        }
        let Some(child) = self.living_end(id.peer, End::Child) else { return };
        if self.hosts[child].pushes.get(&id).is_some_and(|pushing| pushing.number == number) {
            self.feed_push(child, id, answer);
        }
    }
}

/// What is not whole after all was sent. A content of one chunk is no question of what lacks.
fn lacks(asked: &Asked) -> Answer {
    match asked.question {
        Question::Complete(_) => Ok(Input::Missing),
        Question::TakeWhole(_) | Question::Take(_) | Question::Presence(_) => Err(Failure::Refused),
    }
}
