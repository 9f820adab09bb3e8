//! Bringing one content to the parent: only what lacks there travels.
//!
//! A content of one small chunk goes whole, in one request. Of any other the parent is asked how much it has, level by level
//! from the top ([`walk`]): below what it has complete nothing is looked at, and what it lacks is sent, so many at a time.
//! When all has been sent it is asked whether it has all of it, durably; what lacks still is looked for anew.
//!
//! ```text
//!            ┌── one chunk ──▶ sent whole ─────────────── Durable ─▶ done
//!   begun ───┤                     │ ChunkLost                       ▲
//!            │                     ▼                                 │
//!            │             asked without it ────────────── Durable ──┤
//!            │                                                       │
//!            └── more ──▶ walking ── all is sent ──▶ asked ─ Durable ┘
//!                            ▲                         │
//!                            └─────── Missing ─────────┘   any failure, or too many rounds ─▶ failed
//! ```

mod walk;

use crate::piece::{PIECES_MAX, Piece, Presence};
use std::collections::VecDeque;
use std::time::Duration;
use walk::{Step, Walk};
use wayfs_content::{CHUNK_AVG, CHUNK_MAX};
use wayfs_types::{Content, Digest, Time};

/// Largest content that is sent without asking first, as one request.
const WHOLE_LEN_MAX: u64 = CHUNK_MAX as u64;
/// Fewest chunks of one content under way at once.
pub(crate) const CHUNKS_MIN: usize = 8;
/// Most of them, and most of all contents together: what the longest lines have under way.
pub const CHUNKS_MAX: usize = 64;
/// Congestion windows' worth of them: while the transport may send, it never waits for the answer to a chunk.
const WINDOWS: u64 = 2;
/// Rounds of "complete?" and "these lack": more mean that the parent loses what it takes.
const ROUNDS_MAX: u32 = 8;
/// Time between two words of how far one push has come.
const TELL_PERIOD: Duration = Duration::from_secs(1);

const _: () = assert!(CHUNKS_MIN <= CHUNKS_MAX && PIECES_MAX > 0);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// How much the parent has of the pieces that were asked about, in their order.
    Presence(Vec<Presence>),
    /// The pieces below the list node that was to be read.
    Node(Vec<Piece>),
    /// The parent took a chunk or list node that was sent.
    Taken(Digest),
    /// The parent has all of it, durably.
    Durable,
    /// The parent lacks some of it.
    Missing,
    /// The bytes that the transport may have in flight, as it is now.
    Window(u64),
    /// What was to be read here is damaged or gone, or a list node makes no sense.
    Lost(Digest),
    /// A question found no answer, or one that ends the push. Its driver knows why.
    Failed,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask the parent how much of these it has, at most [`PIECES_MAX`]: [`Input::Presence`].
    AskPresence(Vec<Piece>),
    /// Read a list node here: [`Input::Node`].
    ReadNode(Piece),
    /// Send a chunk or list node: [`Input::Taken`].
    Send(Digest),
    /// Send the one chunk of the content, with the question whether all is there: [`Input::Durable`].
    SendWhole(Digest),
    /// Ask whether all is there: [`Input::Durable`] or [`Input::Missing`].
    AskComplete,
    /// So many bytes of the file the parent has by now, for those who look on. Once a second.
    Sent(u64),
    /// All is at the parent.
    Done,
    /// It is not, and this push is over.
    Failed(Failure),
}

/// Why a push is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// This chunk or list node is damaged or gone here, and the parent has it not either.
    Lost(Digest),
    /// The parent lacks chunks again and again that it has taken.
    TakesInVain,
    /// As its driver said.
    Reported,
}

/// One push. When it is over it takes whatever is reported still, and says nothing more.
#[derive(Debug)]
pub struct Push {
    top: Option<Piece>,
    stage: Stage,
    rounds: u32,
    /// Most chunks under way.
    at_once: usize,
    /// When it was told last how far it has come.
    told: Time,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
enum Stage {
    /// The one chunk is under way.
    Whole,
    /// Our own copy is lost: perhaps the parent has the same bytes from elsewhere.
    AskedWithout(Digest),
    Walking(Box<Walk>),
    /// All was sent. So many bytes are there.
    Asked(u64),
    Over,
}

impl Push {
    /// Begins to push a content over a transport that may have so many bytes in flight.
    pub fn new(now: Time, content: &Content, window: u64) -> Self {
        let top = Piece::top(content);
        let at_once = chunks_at_once(window);
        let mut push = Self { top, stage: Stage::Over, rounds: 0, at_once, told: now, outputs: VecDeque::new() };
        match top {
            None => push.outputs.push_back(Output::Done),
            Some(top) if top.level == 0 && top.len <= WHOLE_LEN_MAX => {
                push.stage = Stage::Whole;
                push.outputs.push_back(Output::SendWhole(top.digest));
            }
            Some(top) => push.walk(now, top),
        }
        push
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: Input) {
        match (&mut self.stage, input) {
            (Stage::Over, _) => {}
            (_, Input::Failed) => self.fail(Failure::Reported),
            (_, Input::Window(bytes)) => self.at_once = chunks_at_once(bytes),
            (Stage::Whole | Stage::AskedWithout(_) | Stage::Asked(_), Input::Durable) => self.finish(),
            (Stage::Whole, Input::Lost(digest)) => {
                self.stage = Stage::AskedWithout(digest);
                self.outputs.push_back(Output::AskComplete);
            }
            (Stage::AskedWithout(digest), Input::Missing) => {
                let lost = *digest;
                self.fail(Failure::Lost(lost));
            }
            (Stage::Asked(_), Input::Missing) => self.begin_round(now),
            (Stage::Walking(_), Input::Lost(digest)) => self.fail(Failure::Lost(digest)),
            (Stage::Walking(walk), Input::Presence(states)) => walk.found(states),
            (Stage::Walking(walk), Input::Node(children)) => walk.read(children),
            (Stage::Walking(walk), Input::Taken(digest)) => walk.taken(digest),
            (stage, input) => unreachable!("{input:?} answers nothing in {stage:?}"),
        }
        self.advance(now);
    }

    /// What is to be done next; to be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Bytes of the file that the parent has, as far as this push found out in this round.
    pub fn sent_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Walking(walk) => walk.there(),
            Stage::Asked(bytes) => *bytes,
            Stage::Whole | Stage::AskedWithout(_) | Stage::Over => 0,
        }
    }

    fn begin_round(&mut self, now: Time) {
        self.rounds += 1;
        match self.top {
            Some(top) if self.rounds < ROUNDS_MAX => self.walk(now, top),
            Some(_) | None => self.fail(Failure::TakesInVain),
        }
    }

    fn walk(&mut self, now: Time, top: Piece) {
        self.told = now;
        self.stage = Stage::Walking(Box::new(Walk::new(top)));
        self.advance(now);
    }

    /// Walks on as far as it goes without an answer.
    fn advance(&mut self, now: Time) {
        while let Stage::Walking(walk) = &mut self.stage {
            let output = match walk.step(self.at_once) {
                Step::Wait => break,
                Step::Ask(pieces) => Output::AskPresence(pieces),
                Step::Read(piece) => Output::ReadNode(piece),
                Step::Send(digest) => Output::Send(digest),
                Step::Sent => {
                    self.stage = Stage::Asked(walk.there());
                    Output::AskComplete
                }
            };
            self.outputs.push_back(output);
        }
        let bytes = self.sent_bytes();
        if bytes > 0 && now.since(self.told) >= TELL_PERIOD {
            self.told = now;
            self.outputs.push_back(Output::Sent(bytes));
        }
    }

    fn finish(&mut self) {
        self.stage = Stage::Over;
        self.outputs.push_back(Output::Done);
    }

    fn fail(&mut self, failure: Failure) {
        self.stage = Stage::Over;
        // What was not begun yet need not be.
        self.outputs.clear();
        self.outputs.push_back(Output::Failed(failure));
    }
}

/// Chunks under way, by the bytes that the transport may have in flight.
fn chunks_at_once(window: u64) -> usize {
    let chunks = window.saturating_mul(WINDOWS) / CHUNK_AVG as u64;
    usize::try_from(chunks).unwrap_or(usize::MAX).clamp(CHUNKS_MIN, CHUNKS_MAX)
}

#[cfg(test)]
mod tests;
