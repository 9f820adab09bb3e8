//! Timelines in virtual time, and pushes to a parent that forgets, refuses and loses at random.

use super::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A window of the fewest chunks.
const THIN: u64 = 12_000;
const CHUNK_LEN: u64 = 100_000;

#[test]
fn a_push_has_under_way_what_the_transport_may_send_and_its_answers() {
    assert_eq!(chunks_at_once(THIN), 8, "a thin line");
    assert_eq!(chunks_at_once(4 << 20), 32, "300 Mb/s, 100 ms");
    assert_eq!(chunks_at_once(1 << 40), CHUNKS_MAX);
}

#[test]
fn one_small_chunk_is_one_request() {
    let tree = Tree::of_depth(0, 1);
    let mut push = tree.push();
    assert_eq!(outputs(&mut push), [Output::SendWhole(tree.top.digest)]);
    push.handle(at(5), Input::Durable);
    assert_eq!(outputs(&mut push), [Output::Done]);
}

#[test]
fn what_is_inline_is_there_already() {
    assert_eq!(outputs(&mut Push::new(Time::ZERO, &Content::EMPTY, THIN)), [Output::Done]);
}

#[test]
fn a_parent_may_have_what_was_lost_here() {
    let tree = Tree::of_depth(0, 1);
    let lost = tree.top.digest;
    for (answer, end) in [(Input::Durable, Output::Done), (Input::Missing, Output::Failed(Failure::Lost(lost)))] {
        let mut push = tree.push();
        assert_eq!(outputs(&mut push), [Output::SendWhole(lost)]);
        push.handle(at(1), Input::Lost(lost));
        assert_eq!(outputs(&mut push), [Output::AskComplete]);
        push.handle(at(2), answer);
        assert_eq!(outputs(&mut push), [end]);
    }
}

#[test]
fn below_what_the_parent_has_nothing_is_looked_at() {
    let tree = Tree::of_depth(2, 3);
    let mut push = tree.push();
    assert_eq!(outputs(&mut push), [Output::AskPresence(vec![tree.top])]);
    push.handle(at(1), Input::Presence(vec![Presence::Complete]));
    assert_eq!(push.sent_bytes(), tree.top.len);
    assert_eq!(outputs(&mut push), [Output::AskComplete]);
    push.handle(at(2), Input::Durable);
    assert_eq!(outputs(&mut push), [Output::Done]);
}

#[test]
fn a_list_node_that_is_there_is_read_and_not_sent() {
    let tree = Tree::of_depth(1, 2);
    let mut push = tree.push();
    outputs(&mut push);
    push.handle(at(1), Input::Presence(vec![Presence::Partial]));
    assert_eq!(outputs(&mut push), [Output::ReadNode(tree.top)]);
    let below = tree.below(tree.top.digest);
    push.handle(at(1), Input::Node(below.clone()));
    assert_eq!(outputs(&mut push), [Output::AskPresence(below.clone())]);
    push.handle(at(2), Input::Presence(vec![Presence::Partial, Presence::Absent]));
    assert_eq!(outputs(&mut push), [Output::Send(below[1].digest)], "the first is a chunk: there is no more of it");
    assert_eq!(push.sent_bytes(), CHUNK_LEN);
    push.handle(at(3), Input::Taken(below[1].digest));
    assert_eq!((push.sent_bytes(), outputs(&mut push)), (2 * CHUNK_LEN, vec![Output::AskComplete]));
}

#[test]
fn no_more_is_under_way_than_the_window_holds() {
    let tree = Tree::of_depth(1, 20);
    let mut push = tree.push();
    outputs(&mut push);
    push.handle(at(1), Input::Presence(vec![Presence::Absent]));
    outputs(&mut push);
    push.handle(at(1), Input::Node(tree.below(tree.top.digest)));
    let [Output::Send(top), Output::AskPresence(asked)] = &outputs(&mut push)[..] else { panic!() };
    assert_eq!((*top, asked.len()), (tree.top.digest, 20));
    push.handle(at(2), Input::Presence(vec![Presence::Absent; 20]));
    let sent = outputs(&mut push);
    assert_eq!(sent.len(), CHUNKS_MIN - 1, "and the list node");
    push.handle(at(3), Input::Taken(tree.top.digest));
    assert_eq!(outputs(&mut push).len(), 1);
    push.handle(at(3), Input::Window(2 << 20));
    assert_eq!(outputs(&mut push).len(), 8, "the window opened to sixteen");
}

#[test]
fn a_parent_that_loses_what_it_takes_is_not_fed_for_ever() {
    let tree = Tree::of_depth(1, 1);
    let mut push = tree.push();
    for _ in 0..ROUNDS_MAX {
        assert_eq!(outputs(&mut push), [Output::AskPresence(vec![tree.top])]);
        push.handle(at(1), Input::Presence(vec![Presence::Complete]));
        assert_eq!(outputs(&mut push), [Output::AskComplete]);
        push.handle(at(2), Input::Missing);
    }
    assert_eq!(outputs(&mut push), [Output::Failed(Failure::TakesInVain)]);
}

#[test]
fn the_same_chunk_twice_is_sent_once() {
    let mut tree = Tree::of_depth(2, 2);
    let chunk = tree.below(tree.below(tree.top.digest)[0].digest)[0];
    tree.children.values_mut().flatten().filter(|piece| piece.level == 0).for_each(|piece| *piece = chunk);
    let mut parent = Parent::default();
    let (end, sent) = parent.take(&tree, &mut ChaCha8Rng::seed_from_u64(1), 0.0);
    assert_eq!(end, Output::Done);
    assert_eq!(sent.iter().filter(|digest| **digest == chunk.digest).count(), 1);
}

#[test]
fn bytes_that_are_a_list_node_and_a_chunk_are_sent_once() {
    let mut tree = Tree::of_depth(1, 1);
    let as_chunk = Piece { digest: tree.top.digest, level: 0, len: CHUNK_LEN };
    tree.children.insert(tree.top.digest, vec![as_chunk]);
    let mut push = tree.push();
    outputs(&mut push);
    push.handle(at(1), Input::Presence(vec![Presence::Absent]));
    outputs(&mut push);
    push.handle(at(1), Input::Node(vec![as_chunk]));
    assert_eq!(outputs(&mut push), [Output::Send(as_chunk.digest), Output::AskPresence(vec![as_chunk])]);
    push.handle(at(2), Input::Presence(vec![Presence::Absent]));
    assert_eq!(outputs(&mut push), []);
    push.handle(at(3), Input::Taken(as_chunk.digest));
    assert_eq!((push.sent_bytes(), outputs(&mut push)), (CHUNK_LEN, vec![Output::AskComplete]));
}

#[test]
fn how_far_it_has_come_is_told_once_a_second() {
    let tree = Tree::of_depth(1, 3);
    let mut push = tree.push();
    push.handle(at(1), Input::Presence(vec![Presence::Partial]));
    push.handle(at(1), Input::Node(tree.below(tree.top.digest)));
    push.handle(at(2), Input::Presence(vec![Presence::Absent; 3]));
    let told = tree.below(tree.top.digest).into_iter().zip([900, 1100, 1500]).filter_map(|(chunk, millis)| {
        push.handle(at(millis), Input::Taken(chunk.digest));
        outputs(&mut push).into_iter().find(|output| matches!(output, Output::Sent(_)))
    });
    assert_eq!(told.collect::<Vec<_>>(), [Output::Sent(2 * CHUNK_LEN)]);
}

#[test]
fn what_is_over_says_nothing_more() {
    let tree = Tree::of_depth(1, 3);
    let mut push = tree.push();
    push.handle(at(1), Input::Failed);
    assert_eq!(outputs(&mut push), [Output::Failed(Failure::Reported)]);
    push.handle(at(2), Input::Presence(vec![Presence::Absent]));
    assert_eq!(outputs(&mut push), []);
}

/// A parent that has some of it, that loses chunks meanwhile, and to which some answers never come: each push ends, sends
/// nothing that the parent has, and leaves all of it there if it says so.
#[test]
fn random_parents_are_sent_what_they_lack() {
    let mut ends = BTreeSet::new();
    for seed in 0..600 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let tree = Tree::of_depth(random.random_range(0..4), random.random_range(1..6));
        let has = tree.digests().into_iter().filter(|_| random.random_bool(0.4)).collect();
        let mut parent = Parent { has };
        let fails = if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.1) };
        let (end, _) = parent.take(&tree, &mut random, fails);
        match end {
            Output::Done => assert!(parent.has_all(&tree, tree.top), "seed {seed}: not all is there"),
            Output::Failed(_) => assert!(fails > 0.0, "seed {seed}: {end:?} for no reason"),
            other => panic!("seed {seed}: {other:?} ends nothing"),
        }
        ends.insert(format!("{end:?}").chars().take(12).collect::<String>());
    }
    assert_eq!(ends.len(), 3, "{ends:?}: it is done, lost here, or failed");
}

/// A content, and what is below each of its list nodes.
struct Tree {
    top: Piece,
    children: BTreeMap<Digest, Vec<Piece>>,
}

impl Tree {
    fn of_depth(depth: u8, fanout: usize) -> Self {
        let mut children = BTreeMap::new();
        let mut number = 0;
        let top = Self::piece(depth, fanout, &mut children, &mut number);
        Self { top, children }
    }

    fn piece(level: u8, fanout: usize, children: &mut BTreeMap<Digest, Vec<Piece>>, number: &mut u64) -> Piece {
        *number += 1;
        let digest = Digest::of(&number.to_le_bytes());
        if level == 0 {
            return Piece { digest, level, len: CHUNK_LEN };
        }
        let below: Vec<Piece> = (0..fanout).map(|_| Self::piece(level - 1, fanout, children, number)).collect();
        let len = below.iter().map(|piece| piece.len).sum();
        children.insert(digest, below);
        Piece { digest, level, len }
    }

    fn push(&self) -> Push {
        let Piece { digest, level, len } = self.top;
        Push::new(Time::ZERO, &Content::Tree { size: len, root: digest, depth: level, holes: 0 }, THIN)
    }

    fn below(&self, digest: Digest) -> Vec<Piece> {
        self.children.get(&digest).cloned().unwrap_or_default()
    }

    fn digests(&self) -> BTreeSet<Digest> {
        self.children.values().flatten().chain([&self.top]).map(|piece| piece.digest).collect()
    }
}

#[derive(Default)]
struct Parent {
    has: BTreeSet<Digest>,
}

impl Parent {
    fn has_all(&self, tree: &Tree, piece: Piece) -> bool {
        self.has.contains(&piece.digest) && tree.below(piece.digest).iter().all(|below| self.has_all(tree, *below))
    }

    fn presence(&self, tree: &Tree, piece: Piece) -> Presence {
        match (self.has.contains(&piece.digest), self.has_all(tree, piece)) {
            (_, true) => Presence::Complete,
            (true, false) => Presence::Partial,
            (false, false) => Presence::Absent,
        }
    }

    /// Takes a push to its end. Answers what that was, and all that was sent.
    fn take(&mut self, tree: &Tree, random: &mut ChaCha8Rng, fails: f64) -> (Output, Vec<Digest>) {
        let (mut push, mut open, mut sent) = (tree.push(), Vec::new(), Vec::new());
        let mut said_absent = BTreeSet::new();
        for step in 0..10_000 {
            for output in outputs(&mut push) {
                match &output {
                    Output::Done | Output::Failed(_) => return (output, sent),
                    Output::Sent(_) => continue,
                    Output::Send(digest) => {
                        assert!(said_absent.remove(digest), "the parent has it, or it is under way");
                        sent.push(*digest);
                    }
                    Output::AskPresence(_) | Output::ReadNode(_) | Output::SendWhole(_) | Output::AskComplete => {}
                }
                open.push(output);
            }
            let sends = open.iter().filter(|output| matches!(output, Output::Send(_))).count();
            assert!(sends <= CHUNKS_MIN && open.len() <= CHUNKS_MIN + 1, "{open:?}");
            assert!(!open.is_empty(), "it waits for nothing: {push:?}");
            if random.random_bool(fails) {
                // A sweep: no record names these yet.
                self.has.retain(|_| random.random_bool(0.8));
            }
            let output = open.swap_remove(random.random_range(0..open.len()));
            let input = self.answer(tree, &output, random, fails);
            if let (Output::AskPresence(pieces), Input::Presence(states)) = (&output, &input) {
                let absent = pieces.iter().zip(states).filter(|(_, state)| **state == Presence::Absent);
                said_absent.extend(absent.map(|(piece, _)| piece.digest));
            }
            push.handle(at(step), input);
        }
        panic!("no end");
    }

    fn answer(&mut self, tree: &Tree, output: &Output, random: &mut ChaCha8Rng, fails: f64) -> Input {
        if random.random_bool(fails / 2.0) {
            return Input::Failed;
        }
        let is_lost = random.random_bool(fails / 2.0);
        match output {
            Output::AskPresence(pieces) => {
                Input::Presence(pieces.iter().map(|piece| self.presence(tree, *piece)).collect())
            }
            Output::ReadNode(Piece { digest, .. }) | Output::Send(digest) | Output::SendWhole(digest) if is_lost => {
                Input::Lost(*digest)
            }
            Output::ReadNode(piece) => Input::Node(tree.below(piece.digest)),
            Output::Send(digest) => {
                self.has.insert(*digest);
                Input::Taken(*digest)
            }
            Output::SendWhole(digest) => {
                self.has.insert(*digest);
                Input::Durable
            }
            Output::AskComplete if self.has_all(tree, tree.top) => Input::Durable,
            Output::AskComplete => Input::Missing,
            Output::Sent(_) | Output::Done | Output::Failed(_) => unreachable!("nothing answers it"),
        }
    }
}

fn outputs(push: &mut Push) -> Vec<Output> {
    std::iter::from_fn(|| push.poll_output()).collect()
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}
