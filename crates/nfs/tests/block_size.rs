//! Block sizes over a model of the hop: datagrams in fragments, a half-duplex channel, bad periods and bit errors, a server in memory.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_link::{Delivery, Duplex, LineConfig, LineId, Medium, Profile, Way};
use wayfs_nfs::calls::{self, Stability};
use wayfs_nfs::retry::{Exponential, Retry};
use wayfs_nfs::rpc::{Credentials, Xid};
use wayfs_nfs::toy::Toy;
use wayfs_nfs::xdr::{Reader, Writer};
use wayfs_nfs::{
    Answer, AnsweredBlock, BlockSize, Carrier, Exchange, Handle, Kind, WaitPolicy, Window, learn, results,
};
use wayfs_types::Time;

/// Bytes of a file: the published megabyte.
const FILE_LEN: u32 = 1 << 20;
/// Bytes of a message in a fragment, and around it.
const FRAGMENT: usize = 1480;
const HEADERS: usize = 20;
/// What a transfer may take in virtual time; a run beyond it has gone wrong.
const LIMIT: u64 = 600_000_000;

#[derive(Debug, Clone)]
struct Fragment {
    message: u64,
    /// Whole messages travel with each of their fragments; only the last to arrive counts.
    bytes: std::rc::Rc<Vec<u8>>,
    of: usize,
}

struct Hop {
    medium: Medium<Fragment>,
    next: u64,
    arrived: BTreeMap<(u64, bool), usize>,
}

impl Hop {
    fn send(&mut self, now: Time, way: Way, bytes: Vec<u8>) {
        self.next += 1;
        let (message, len, of) = (self.next, bytes.len(), bytes.len().div_ceil(FRAGMENT).max(1));
        let bytes = std::rc::Rc::new(bytes);
        for number in 0..of {
            let part = FRAGMENT.min(len - number * FRAGMENT);
            let fragment = Fragment { message, bytes: std::rc::Rc::clone(&bytes), of };
            // A full queue loses it.
            drop(self.medium.send(now, LineId(0), way, part + HEADERS, fragment));
        }
    }

    /// The next message that has arrived whole.
    fn receive(&mut self, now: Time) -> Option<(Way, Vec<u8>)> {
        while let Some(Delivery { way, packet, .. }) = self.medium.poll(now) {
            let count = self.arrived.entry((packet.message, way == Way::Up)).or_default();
            *count += 1;
            if *count == packet.of {
                return Some((way, packet.bytes.to_vec()));
            }
        }
        None
    }
}

/// When it sends again, and how many calls it has in flight.
#[derive(Debug, Clone, Copy)]
struct Client {
    retry: Retry,
    in_flight_max: usize,
}

const OURS: Client = Client { retry: Retry::Ours, in_flight_max: 64 };
/// That of 1996.
const CLASSIC: Client =
    Client { retry: Retry::Exponential(Exponential { first: Duration::from_millis(700) }), in_flight_max: 1 };

/// One transfer of a file.
struct Transfer {
    exchange: Exchange,
    hop: Hop,
    toy: Toy,
    block: BlockSize,
    window: Window,
    in_flight: BTreeMap<Xid, (u32, u32)>,
    left: VecDeque<(u32, u32)>,
    next: u32,
    kind: Kind,
    file: Handle,
}

impl Transfer {
    fn new(line: LineConfig, seed: u64, block: BlockSize, kind: Kind, client: Client) -> Self {
        let credentials = Credentials { machine: "mobile".into(), uid: 1, gid: 1, groups: vec![] };
        let mut toy = Toy::default();
        toy.put("file", &vec![7; FILE_LEN as usize]);
        let mut writer = Writer::new();
        writer.opaque(&toy.handle_at("file").unwrap());
        let file = Handle::read(&mut Reader::new(&writer.into_bytes())).unwrap();
        Self {
            exchange: Exchange::new(client.retry.begin(), WaitPolicy::Hard, credentials, 1),
            hop: Hop {
                medium: Medium::new(vec![line], Duplex::Half, seed, Time::ZERO),
                next: 0,
                arrived: BTreeMap::new(),
            },
            toy,
            block,
            window: Window::new(client.in_flight_max),
            in_flight: BTreeMap::new(),
            left: VecDeque::new(),
            next: 0,
            kind,
            file,
        }
    }

    /// Seconds that it takes.
    fn run(mut self) -> f64 {
        let mut now = 0;
        while self.next < FILE_LEN || !self.in_flight.is_empty() || !self.left.is_empty() {
            let time = Time::from_micros(now);
            self.exchange.handle_timeout(time);
            self.submit();
            while let Some(message) = self.exchange.poll_transmit(time) {
                self.hop.send(time, Way::Up, message);
            }
            while let Some((way, message)) = self.hop.receive(time) {
                match way {
                    Way::Up => {
                        if let Some(answer) = self.toy.handle(&message) {
                            self.hop.send(time, Way::Down, answer);
                        }
                    }
                    Way::Down => self.exchange.handle_message(time, &message).unwrap(),
                }
            }
            self.learn();
            let next = [self.exchange.poll_timeout(), self.hop.medium.poll_timeout()].into_iter().flatten().min();
            now = next.map_or(now, Time::as_micros).max(now + 1);
            assert!(now < LIMIT, "the transfer does not end");
        }
        now as f64 / 1e6
    }

    fn submit(&mut self) {
        while self.in_flight.len() < self.window.calls() {
            let (offset, len) = match self.left.pop_front() {
                Some(part) => part,
                None if self.next < FILE_LEN => {
                    let part = (self.next, self.block.size().min(FILE_LEN - self.next));
                    self.next += part.1;
                    part
                }
                None => return,
            };
            let call = match self.kind {
                Kind::Read => calls::read(&self.file, offset.into(), len),
                _ => calls::write(&self.file, offset.into(), &vec![9; len as usize], Stability::Unstable),
            };
            self.in_flight.insert(self.exchange.submit(&call), (offset, len));
        }
    }

    fn learn(&mut self) {
        while let Some(answer) = self.exchange.poll_answer() {
            let (offset, len) = self.in_flight.remove(&answer.xid).unwrap();
            let Answer { sendings, round_trip, .. } = answer;
            learn(&mut self.block, &mut self.window, AnsweredBlock { len, sendings, round_trip });
            let bytes = answer.results.unwrap().unwrap();
            let done = match self.kind {
                Kind::Read => results::read(&bytes, len).unwrap().unwrap().bytes.len() as u32,
                _ => results::write(&bytes, len).unwrap().unwrap().count,
            };
            if done < len {
                self.left.push_back((offset + done, len - done));
            }
        }
    }
}

fn mean(line: &LineConfig, kind: Kind, client: Client, block: impl Fn() -> BlockSize) -> f64 {
    const SEEDS: u64 = 6;
    let total: f64 = (0..SEEDS).map(|seed| Transfer::new(line.clone(), seed, block(), kind, client).run()).sum();
    total / SEEDS as f64
}

/// The conditions of the sweep, and one with a loss every few packets.
fn conditions() -> Vec<(String, LineConfig)> {
    let mut conditions: Vec<(String, LineConfig)> = [
        "wireless-1mb",
        "wireless-1mb-bad-40ms",
        "wireless-1mb-bad-80ms",
        "wireless-1mb-bad-120ms",
        "wireless-1mb-bad-160ms",
        "wavelan-error-16k",
        "wavelan-error-64k",
        "wavelan-error-256k",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), Profile::named(name).unwrap().line()))
    .collect();
    let mut short = Profile::named("wireless-1mb-bad-40ms").unwrap().line();
    if let Some(periods) = &mut short.bad_periods {
        (periods.good_mean, periods.bad_mean) = (Duration::from_millis(100), Duration::from_millis(10));
    }
    conditions.push(("100 ms good, 10 ms bad".to_owned(), short));
    conditions
}

#[test]
fn nineteen_twentieths_of_a_hop_that_loses_nothing_are_bytes_of_the_file() {
    let line = Profile::named("wireless-1mb").unwrap().line();
    for kind in [Kind::Read, Kind::Write] {
        let seconds = mean(&line, kind, OURS, || BlockSize::auto(Carrier::Datagrams, 1 << 20));
        let least = f64::from(FILE_LEN) * 8.0 / 1e6;
        assert!(seconds < least / 0.95, "{kind:?}: {seconds} s, the bytes alone {least} s");
    }
}

/// Seconds of the fixed sizes, and of the one that is chosen.
fn sizes(name: &str, line: &LineConfig, kind: Kind, client: Client) -> ([f64; 4], f64) {
    let time = |block: &dyn Fn() -> BlockSize| mean(line, kind, client, block);
    let fixed = [1024, 2048, 4096, 8192].map(|size| time(&|| BlockSize::fixed(size)));
    let chosen = time(&|| BlockSize::auto(Carrier::Datagrams, 1 << 20));
    println!("{name:24} {kind:?}: {fixed:6.2?} auto {chosen:6.2} {:+.1} %", (chosen / least(fixed) - 1.0) * 100.0);
    (fixed, chosen)
}

fn least(times: [f64; 4]) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn the_chosen_block_is_never_more_than_a_twentieth_worse_than_the_best_fixed_one() {
    let mut worst = Vec::new();
    for (name, line) in conditions() {
        for kind in [Kind::Read, Kind::Write] {
            let (fixed, chosen) = sizes(&name, &line, kind, OURS);
            if chosen > least(fixed) * 1.05 {
                worst.push(format!("{name} {kind:?}: {chosen:.2} s, fixed {fixed:.2?}"));
            }
        }
    }
    assert!(worst.is_empty(), "{worst:#?}");
}

#[test]
fn nor_for_a_client_that_waits_for_a_timer_after_each_loss() {
    // Chance decides there how many timers end, so what counts is one size for all conditions.
    let (mut fixed, mut chosen) = ([0.0; 4], 0.0);
    for (name, line) in conditions().into_iter().filter(|(name, _)| name.starts_with("wireless")) {
        for kind in [Kind::Read, Kind::Write] {
            let of = sizes(&name, &line, kind, CLASSIC);
            fixed = [0, 1, 2, 3].map(|size| fixed[size] + of.0[size]);
            chosen += of.1;
        }
    }
    assert!(chosen < least(fixed) * 1.05, "{chosen} of {fixed:?}");
}
