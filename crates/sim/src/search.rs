//! Looks for pieces, driven: [`wayfs_transfer::search`] decides whom to ask and when to give up, as it does live. Questions and
//! answers go over the simulated lines, and whoever is asked and has it not looks in turn.

use crate::contents::CHUNK_LEN;
use crate::coverage::Branch;
use crate::disk::Chunk;
use crate::looking::{Given, Looking, Question, Then, Waiting};
use crate::network::{End, HEADER_LEN, STALLED};
use crate::world::{Due, Event, Transfer, World};
use std::time::Duration;
use wayfs_proto::{Holder, Input as EngineInput, PeerId, Role};
use wayfs_transfer::fetches::{Input as WaitInput, LookId, Output as WaitOutput, Until, WaitId};
use wayfs_transfer::search::{Child, ChildKind, Failure, Input, Look, Output, Parent, Scope, Sources};
use wayfs_transfer::{Patience, Search, Want};
use wayfs_types::Digest;

/// What each hop keeps for itself of the time that the asker allows.
const HOP_COST: Duration = Duration::from_millis(300);

impl World {
    /// Gets a piece into a host's store from whom it can, or finds out that it is there.
    pub(crate) fn want_piece(
        &mut self,
        index: usize,
        wanted: Want,
        (asker, patience): (Option<PeerId>, Duration),
        then: Then,
    ) {
        if self.read_piece(index, wanted.digest) {
            return self.looked(index, wanted, &then, Ok(()));
        }
        let wait = self.hosts[index].fetches.name_wait();
        self.hosts[index].waits.insert(wait, Waiting { wanted, then });
        let patience = Patience::new(patience, self.now);
        self.feed_fetches(index, WaitInput::Want { wait, want: wanted, asker, until: Until::Here, patience });
    }

    fn feed_fetches(&mut self, index: usize, input: WaitInput<PeerId>) {
        self.hosts[index].fetches.handle(self.now, input);
        while let Some(output) = self.hosts[index].fetches.poll_output() {
            self.note(|| format!("  host {index} fetches {output:?}"));
            match output {
                WaitOutput::Look { look, want, asker, patience } => {
                    self.begin_look(index, look, (want, asker), patience)
                }
                WaitOutput::CallOff(look) => drop(self.hosts[index].looks.remove(&look)),
                WaitOutput::Moved(_) => {}
                WaitOutput::Comes(..) => unreachable!("nobody waits for less than a whole piece"),
                WaitOutput::Over(wait, result) => {
                    let Waiting { wanted, then } = self.hosts[index].waits.remove(&wait).expect("each wait ends once");
                    self.looked(index, wanted, &then, result);
                }
            }
        }
        self.arm_fetches(index);
    }

    fn arm_fetches(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host.fetches.poll_timeout() else { return };
        if host.fetches_wake_at.is_none_or(|at| at > due) {
            host.fetches_wake_at = Some(due);
            let life = host.life;
            self.at(due, Event::Transfer(Transfer::Due { host: index, life, due: Due::Fetch }));
        }
    }

    /// The patience of a wait may be over.
    pub(crate) fn wake_fetches(&mut self, index: usize) {
        self.hosts[index].fetches_wake_at = None;
        self.feed_fetches(index, WaitInput::Tick);
    }

    fn begin_look(&mut self, index: usize, look: LookId, (wanted, asker): (Want, Option<PeerId>), patience: Duration) {
        if self.read_piece(index, wanted.digest) {
            return self.feed_fetches(index, WaitInput::Ended(look, Ok(())));
        }
        let scope = self.scope_at(index);
        let search =
            Search::new(Look { scope, writer: wanted.version.origin(), asker }, Patience::new(patience, self.now));
        self.hosts[index].looks.insert(look, Looking { wanted, search, patience, asks: None, questions: 0 });
        self.drain_look(index, look);
    }

    /// Reads a piece. A damaged one is put aside, and is not in the index any more.
    pub(crate) fn read_piece(&mut self, index: usize, piece: Digest) -> bool {
        let found = self.hosts[index].disk.0.borrow_mut().read_chunk(piece);
        match found {
            Some(Chunk::Sound) => drop(self.hosts[index].touched.insert(piece, self.now)),
            Some(Chunk::Damaged) => {
                self.hosts[index].disk.0.borrow_mut().lose(piece);
                self.cover(Branch::DamageFound);
            }
            None => {}
        }
        found == Some(Chunk::Sound)
    }

    pub(crate) fn scope_at(&self, index: usize) -> Scope {
        if self.hosts[index].is_client() { Scope::AT_CLIENT } else { Scope::AT_SERVER }
    }

    fn feed_look(&mut self, index: usize, look: LookId, input: Input<PeerId>) {
        let now = self.now;
        if let Some(looking) = self.hosts[index].looks.get_mut(&look) {
            if matches!(input, Input::Had | Input::NotHad(_)) {
                looking.asks = None;
            }
            looking.search.handle(now, input);
            self.drain_look(index, look);
        }
    }

    fn drain_look(&mut self, index: usize, look: LookId) {
        while let Some(looking) = self.hosts[index].looks.get_mut(&look) {
            let wanted = looking.wanted;
            let Some(output) = looking.search.poll_output() else { break };
            self.note(|| format!("  host {index} looks for {wanted:?} {output:?}"));
            match output {
                Output::Look => {
                    let sources = self.sources(index, wanted);
                    if let Some(looking) = self.hosts[index].looks.get_mut(&look) {
                        looking.search.handle(self.now, Input::Sources(sources));
                    }
                }
                Output::Ask(peer) => {
                    self.feed_fetches(index, WaitInput::Asks(look, peer));
                    self.ask_for(index, look, peer);
                }
                Output::Over(result) => {
                    self.hosts[index].looks.remove(&look);
                    self.feed_fetches(index, WaitInput::Ended(look, result));
                }
            }
        }
        self.arm_look(index, look);
    }

    fn arm_look(&mut self, index: usize, look: LookId) {
        let due = self.hosts[index].looks.get(&look).and_then(|looking| looking.search.poll_timeout());
        if let Some(due) = due {
            let life = self.hosts[index].life;
            self.at(due, Event::Transfer(Transfer::Due { host: index, life, due: Due::Look(look) }));
        }
    }

    /// A pause, or the patience of a look, may be over.
    pub(crate) fn wake_look(&mut self, index: usize, look: LookId) {
        let now = self.now;
        let due = self.hosts[index].looks.get(&look).and_then(|looking| looking.search.poll_timeout());
        if due.is_some_and(|due| due <= now) {
            self.feed_look(index, look, Input::Tick);
        }
    }

    fn looked(&mut self, index: usize, wanted: Want, then: &Then, result: Given) {
        match then {
            Then::Read(reader) => self.piece_read(index, reader.clone(), &result),
            Then::Answer(question) => {
                if result.is_ok() {
                    self.note_reader(index, question, wanted);
                    self.tell_policy_of_reader(index, question.from, wanted);
                }
                self.answer_look(question, result);
            }
        }
    }

    /// Sharing is noticed by who reads: the top of a tree is fetched once for each reading, so that it stands for all of it.
    fn note_reader(&mut self, index: usize, question: &Question, wanted: Want) {
        let is_top = self.inode(index, wanted.file).is_some_and(|inode| inode.content.root() == Some(wanted.digest));
        if is_top && question.from == End::Child {
            self.feed(index, EngineInput::Fetched { peer: question.peer, file: wanted.file });
        }
    }

    // Over the lines.

    fn ask_for(&mut self, index: usize, look: LookId, peer: PeerId) {
        let Some(looking) = self.hosts[index].looks.get_mut(&look) else { return };
        looking.questions += 1;
        looking.asks = Some(peer);
        let (number, wanted) = (looking.questions, looking.wanted);
        let patience = looking.patience.saturating_sub(HOP_COST).max(HOP_COST);
        let Some(from) = self.end_at(index, peer) else { return };
        let later = self.across(peer, from, HEADER_LEN) + self.millis(0..=50);
        self.after(
            later,
            Event::Transfer(Transfer::LookAsked(Question { peer, from, look, number, wanted, patience })),
        );
    }

    /// Which end of a session a host is.
    fn end_at(&self, index: usize, peer: PeerId) -> Option<End> {
        let session = self.sessions.get(&peer)?;
        Some(if session.child == index { End::Child } else { End::Parent })
    }

    /// A question reaches whom it is for.
    pub(crate) fn look_asked(&mut self, question: Question) {
        if self.is_cut(question.peer) {
            return self.after(STALLED, Event::Transfer(Transfer::LookAsked(question)));
        }
        let Some(host) = self.living_end(question.peer, question.from.other()) else { return };
        self.want_piece(host, question.wanted, (Some(question.peer), question.patience), Then::Answer(question));
    }

    fn answer_look(&mut self, question: &Question, result: Given) {
        let (body, most) = if result.is_ok() { (CHUNK_LEN as usize, 300) } else { (0, 10) };
        let later = self.across(question.peer, question.from.other(), HEADER_LEN + body) + self.millis(0..=most);
        self.after(later, Event::Transfer(Transfer::LookAnswered(*question, result)));
    }

    /// An answer reaches who asked.
    pub(crate) fn look_answered(&mut self, question: Question, result: Given) {
        if self.is_cut(question.peer) {
            return self.after(STALLED, Event::Transfer(Transfer::LookAnswered(question, result)));
        }
        let Some(host) = self.living_end(question.peer, question.from) else { return };
        let is_waited_for =
            |looking: &Looking| looking.asks == Some(question.peer) && looking.questions == question.number;
        if !self.hosts[host].looks.get(&question.look).is_some_and(is_waited_for) {
            return;
        }
        let input = match result {
            Ok(()) if self.take_piece(host, question.wanted, question.from) => Input::Had,
            Ok(()) => Input::NotHad(Failure::Local),
            // What failed there says nothing of this disk.
            Err(Failure::Local) => Input::NotHad(Failure::Refused),
            Err(failure) => Input::NotHad(failure),
        };
        self.feed_look(host, question.look, input);
    }

    /// A piece has come from above or below. Whether there was room.
    pub(crate) fn take_piece(&mut self, index: usize, wanted: Want, from: End) -> bool {
        if !self.put_piece(index, wanted.digest) {
            return false;
        }
        let is_from_below = from == End::Parent;
        self.cover(if is_from_below { Branch::FetchedFromBelow } else { Branch::FetchedFromAbove });
        if is_from_below {
            self.back_fetched(index, wanted);
        }
        true
    }

    /// A session is over for a host: what it asked there finds no answer, and what it was asked there needs none.
    pub(crate) fn interrupt_looks(&mut self, index: usize, peer: PeerId) {
        let answers = |waiting: &Waiting| matches!(waiting.then, Then::Answer(question) if question.peer == peer);
        let waits = &self.hosts[index].waits;
        let void: Vec<WaitId> = waits.iter().filter(|(_, waiting)| answers(waiting)).map(|(wait, _)| *wait).collect();
        for wait in void {
            self.hosts[index].waits.remove(&wait);
            self.feed_fetches(index, WaitInput::GaveUp(wait));
        }
        let asks = |looking: &Looking| looking.asks == Some(peer);
        let all: Vec<LookId> =
            self.hosts[index].looks.iter().filter(|(_, looking)| asks(looking)).map(|(look, _)| *look).collect();
        for look in all {
            self.feed_look(index, look, Input::NotHad(Failure::Unreachable));
        }
    }

    /// Who is there, as far as a host sees, and who of them has a version on record.
    pub(crate) fn sources(&self, index: usize, wanted: Want) -> Sources<PeerId> {
        let replica = self.hosts[index].replica.as_ref();
        let holders = replica.and_then(|replica| replica.holders(wanted.file, wanted.version).ok()).unwrap_or_default();
        let holders = holders.into_iter().filter_map(|holder| match holder {
            Holder::Child(origin, _) => Some(origin),
            Holder::Here | Holder::Parent | Holder::Unknown => None,
        });
        let below = self.sessions.values().filter(|s| s.parent == index && s.alive[End::Parent.index()]);
        let children = below.map(|session| Child {
            peer: session.peer,
            origin: self.hosts[session.child].config.origin,
            kind: if self.hosts[session.child].is_client() { ChildKind::Client } else { ChildKind::Station },
        });
        let parent = match self.hosts[index].parent_session {
            Some(peer) => Parent::There(peer),
            None if self.hosts[index].role() == Role::Home => Parent::None,
            None => Parent::Away,
        };
        Sources { holders: holders.collect(), children: children.collect(), parent }
    }
}
