//! A record is its author's: what a station that lies can do with its clients' records.

use super::liars::{hello, record};
use super::world::{HOME, World, name, small};
use crate::members::seals::statement;
use crate::sealer::Sealer;
use crate::testing::ToyKey;
use crate::{Input, Neighbour, Output, PeerId, Role};
use std::time::Duration;
use wayfs_tree::chained;
use wayfs_types::{Chain, Content, FileId, Image, Key, Kind, NodeId, Op, OriginId, WallTime};
use wayfs_wire::{Applied, Message, Sealed, SentRecord, Span, Up, encode};

const LIAR: PeerId = PeerId(9999);

/// The seal of their writer under records of one origin that follow upon what a host has of it.
pub(super) fn sealed(world: &World, host: usize, records: &[SentRecord]) -> Sealed {
    let last = records.last().expect("a record").record.id;
    let Some(Image::Origin(known)) = world.tree(host).remove(&Key::Origin(last.origin())) else { panic!("no member") };
    let chain = records.iter().fold(known.chain, |chain, sent| chained(chain, &sent.record));
    let volume = world.hosts[host].replica.config().volume;
    Sealed { record: last, seal: ToyKey(known.node).seal(&statement(volume, last, chain)) }
}

/// A home, a client that wrote one file, and a station whose key a liar has.
struct Stage {
    world: World,
    victim: usize,
    station: usize,
}

impl Stage {
    fn new() -> Self {
        let mut world = World::new();
        let (victim, station) = (world.add(Role::Client, "ann@a"), world.add(Role::Station, "st@s"));
        world.connect(victim, HOME);
        world.settle();
        world.create(victim, FileId::ROOT, "first");
        world.settle();
        Self { world, victim, station }
    }

    fn origin(&self) -> OriginId {
        self.world.hosts[self.victim].origin
    }

    fn node(&self, host: usize) -> NodeId {
        self.world.hosts[host].replica.config().node
    }

    /// What the home has of the victim: its last record, and the running hash.
    fn known(&self) -> (u64, Chain) {
        match self.world.tree(HOME).get(&Key::Origin(self.origin())) {
            Some(Image::Origin(origin)) => (origin.applied, origin.chain),
            other => panic!("{other:?}"),
        }
    }

    /// Records that follow upon what the home has of the victim.
    fn next(&self, texts: &[&str]) -> Vec<SentRecord> {
        let (last, _) = self.known();
        (last + 1..).zip(texts).map(|(sequence, text)| record(self.origin(), sequence, create(text))).collect()
    }

    /// The running hash behind each of them.
    fn chains(&self, records: &[SentRecord]) -> Vec<Chain> {
        let mut chain = self.known().1;
        let mut after = |sent: &SentRecord| {
            chain = chained(chain, &sent.record);
            chain
        };
        records.iter().map(&mut after).collect()
    }

    /// A seal by a machine under one of them.
    fn seal(&self, by: NodeId, sent: &SentRecord, chain: Chain) -> Sealed {
        let volume = self.world.hosts[HOME].replica.config().volume;
        let record = sent.record.id;
        Sealed { record, seal: ToyKey(by).seal(&statement(volume, record, chain)) }
    }

    /// Says this as the station; answers why the home ended the session, if it did.
    fn say(&mut self, says: Vec<Up>) -> Option<String> {
        let origin = self.world.hosts[self.station].origin;
        let (last, chain) = self.known();
        let chains = vec![Applied { origin: self.origin(), through: last, chain }];
        let neighbour = Neighbour::ChildStation { origin };
        let (now, wall) = (self.world.now, WallTime::EPOCH);
        let replica = &mut self.world.hosts[HOME].replica;
        replica.handle(now, wall, Input::PeerUp { peer: LIAR, neighbour });
        for up in [hello(7), Up::Chains { chains }].into_iter().chain(says) {
            replica.handle(now, wall, Input::Message { peer: LIAR, bytes: encode(&Message::Up(up)) });
        }
        let mut reason = None;
        while let Some(output) = self.world.hosts[HOME].replica.poll_output() {
            match output {
                Output::Disconnect { peer: LIAR, reason: said } => reason = Some(said),
                Output::Send { peer: LIAR, .. } => {}
                other => self.world.output(HOME, other),
            }
        }
        self.world.input(HOME, Input::PeerDown { peer: LIAR });
        self.world.settle();
        reason
    }

    fn shows(&self, text: &str) -> bool {
        self.world.hosts[HOME].replica.entry(FileId::ROOT, &name(text)).unwrap().is_some()
    }
}

fn create(text: &str) -> Op {
    let (parent, name, content) = (FileId::ROOT, name(text), Content::EMPTY);
    Op::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 0, gid: 0, content }
}

#[test]
fn a_station_passes_on_what_its_writer_sealed() {
    let mut stage = Stage::new();
    let records = stage.next(&["a", "b"]);
    let chain = stage.chains(&records)[1];
    let seal = stage.seal(stage.node(stage.victim), &records[1], chain);
    assert_eq!(stage.say(vec![Up::Seals { seals: vec![seal] }, Up::Records { records }]), None);
    assert!(stage.shows("a") && stage.shows("b"));
}

/// Before seals the home took all of these.
#[test]
fn a_station_cannot_invent_alter_exchange_or_add_records_of_a_client() {
    let mut stage = Stage::new();
    let node = stage.node(stage.victim);
    let written = stage.next(&["a", "b"]);
    let chains = stage.chains(&written);
    let seal = stage.seal(node, &written[1], chains[1]);
    let altered = stage.next(&["a", "other"]);
    let more = stage.next(&["a", "b", "c"]);
    let exchanged: Vec<SentRecord> = stage.next(&["b", "a"]);
    let own = stage.seal(stage.node(stage.station), &written[1], chains[1]);
    let lies = [
        ("invented", vec![], written.clone()),
        ("sealed by the station", vec![own], written.clone()),
        ("altered", vec![seal], altered),
        ("exchanged", vec![seal], exchanged),
        ("one more behind the seal", vec![seal], more),
        ("cut short", vec![seal], written[..1].to_vec()),
    ];
    for (what, seals, records) in lies {
        let reason = stage.say(vec![Up::Seals { seals }, Up::Records { records }]);
        assert!(reason.is_some_and(|reason| reason.contains("seal")), "{what}");
        for text in ["a", "b", "c", "other"] {
            assert!(!stage.shows(text), "{what}: {text}");
        }
    }
}

/// A span of cancelled records ends at a seal of what was written, and nothing without a seal stands before it.
#[test]
fn a_span_that_its_writer_did_not_end_is_refused() {
    let mut stage = Stage::new();
    let node = stage.node(stage.victim);
    let written = stage.next(&["a", "b"]);
    let (last, _) = stage.known();
    let chains = stage.chains(&written);
    let seal = stage.seal(node, &written[1], chains[1]);
    let mut records = written.clone();
    records[0].record.op = Op::Touch;
    let span = |from: u64, chain| Span { origin: stage.origin(), from, through: last + 2, chain };
    let (whole, partly, other) =
        (span(last + 1, chains[1]), span(last + 2, chains[1]), span(last + 1, Chain::from_bytes([9; 16])));
    for (span, seals) in [(whole, vec![]), (other, vec![seal]), (partly, vec![seal])] {
        let says = vec![Up::Seals { seals }, Up::Cancelled { spans: vec![span], records: records.clone() }];
        let reason = stage.say(says);
        assert!(reason.is_some_and(|reason| reason.contains("seal")), "{span:?}");
    }
    let says = vec![Up::Seals { seals: vec![seal] }, Up::Cancelled { spans: vec![whole], records }];
    assert_eq!(stage.say(says), None);
    assert!(stage.shows("b") && !stage.shows("a"));
    assert_eq!(stage.known(), (last + 2, chains[1]));
}

/// Two clients of a station, with messages of many records, on a station that sends few at a time, over restarts of all: everything
/// arrives, and no session ends for want of a seal.
#[test]
fn seals_go_through_an_honest_station_whatever_the_sizes_of_its_messages() {
    for (most, in_flight, len) in [(1, 1, 300), (3, 4, 500), (64, 4096, 1 << 20)] {
        let mut world = World::new();
        let station = world.add(Role::Station, "st@s");
        let clients = [world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b")];
        world.configure(station, |config| {
            (config.records_per_message, config.records_in_flight_max) = (most, in_flight);
            config.message_len_max = len;
        });
        let upper = world.connect(station, HOME);
        world.settle();
        for client in clients {
            world.connect(client, station);
            world.settle();
            world.names(client, FileId::ROOT).unwrap();
        }
        world.close(upper);
        for round in 0..5 {
            for client in clients {
                for number in 0..7 {
                    let file = world.create(client, FileId::ROOT, &format!("{client}-{round}-{number}"));
                    world.store(client, file, small("text"));
                }
            }
            world.settle();
        }
        world.crash(station, 100_000);
        for client in clients {
            world.connect(client, station);
        }
        world.connect(station, HOME);
        world.pass(Duration::from_secs(30));
        assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 70, "{most}");
        let ended = world.hosts[HOME].events.iter().chain(&world.hosts[station].events);
        let refused =
            ended.filter(|event| matches!(event, Output::Disconnect { reason, .. } if reason.contains("seal")));
        assert_eq!(refused.count(), 0);
        for host in [station, clients[0], clients[1]] {
            world.assert_agrees(host);
        }
    }
}
