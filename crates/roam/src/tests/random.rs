//! Whatever happens, it never sleeps for ever while online, and never has more under way than it may.

use super::*;
use crate::api::{DIALS_MAX, TaskId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

const SEEDS: u64 = 400;
const INPUTS: usize = 400;

/// What the machine asked for and has not been answered.
#[derive(Default)]
struct Asked {
    dials: BTreeSet<DialId>,
    connections: BTreeSet<DialId>,
    greetings: BTreeSet<DialId>,
    looks: BTreeSet<DialId>,
    swaps: BTreeSet<TaskId>,
    looks_around: BTreeSet<TaskId>,
    asks_in: BTreeSet<TaskId>,
    session: Option<DialId>,
    is_offline: bool,
}

impl Asked {
    fn note(&mut self, output: Output) {
        match output {
            Output::Dial { dial, .. } => assert!(self.dials.insert(dial), "{dial:?} is used twice"),
            Output::Close { dial } => {
                self.greetings.remove(&dial);
                let is_open = self.dials.remove(&dial) || self.connections.remove(&dial) || self.looks.remove(&dial);
                assert!(is_open, "{dial:?} is closed and not there");
            }
            Output::Greet { dial } => {
                assert!(self.connections.contains(&dial), "{dial:?} is greeted and not there");
                self.greetings.insert(dial);
            }
            Output::Look { dial } => {
                assert!(self.connections.remove(&dial), "{dial:?} is looked at and not there");
                self.looks.insert(dial);
            }
            Output::Adopt { dial, .. } => {
                assert!(self.connections.remove(&dial), "{dial:?} is adopted and not there");
                assert_eq!(self.session.replace(dial), None, "two sessions");
            }
            Output::MoveTo { dial, .. } => {
                assert!(self.connections.remove(&dial), "{dial:?} is adopted and not there");
                assert!(self.session.replace(dial).is_some(), "there is nothing to move from");
            }
            Output::Leave { .. } => assert!(self.session.take().is_some(), "there is nothing to leave"),
            Output::SwapNews { task } => assert!(self.swaps.insert(task)),
            Output::LookAround { task } => assert!(self.looks_around.insert(task)),
            Output::AskIn { task } => assert!(self.asks_in.insert(task)),
            Output::StopTask { task } => assert!(self.swaps.remove(&task) || self.looks_around.remove(&task)),
            Output::Offline => self.is_offline = true,
            Output::Online => self.is_offline = false,
            Output::Failed(_) => {}
        }
    }

    fn is_waited_for(&self) -> bool {
        let dials = [&self.dials, &self.greetings, &self.looks];
        let tasks = [&self.swaps, &self.looks_around, &self.asks_in];
        dials.iter().any(|dials| !dials.is_empty()) || tasks.iter().any(|tasks| !tasks.is_empty())
    }

    /// An answer to something that was asked.
    fn answer(&mut self, random: &mut ChaCha8Rng, servers: &[Server]) -> Option<Input> {
        let rtt = Duration::from_micros(random.random_range(0..120_000));
        if let Some(dial) = pick(&self.greetings, random).filter(|_| random.random_bool(0.5)) {
            self.greetings.remove(&dial);
            let why = [GreetRefusal::NotMember, GreetRefusal::NotReady, GreetRefusal::Other, GreetRefusal::Failed];
            let refused = random.random_bool(0.5).then(|| why[random.random_range(0..4)]);
            return Some(refused.map_or(Input::Greeted { dial, rtt }, |why| Input::Refused { dial, why }));
        }
        if let Some(dial) = pick(&self.dials, random).filter(|_| random.random_bool(0.7)) {
            self.dials.remove(&dial);
            if random.random_bool(0.4) || servers.is_empty() {
                return Some(Input::DialFailed { dial });
            }
            self.connections.insert(dial);
            let node = servers[random.random_range(0..servers.len())].node;
            return Some(Input::Dialled { dial, node, rtt });
        }
        if let Some(dial) = pick(&self.looks, random).filter(|_| random.random_bool(0.7)) {
            self.looks.remove(&dial);
            return Some(Input::Looked { dial });
        }
        if let Some(task) = pick(&self.asks_in, random) {
            self.asks_in.remove(&task);
            let outcomes = [AskedIn::NoTicket, AskedIn::TakenIn, AskedIn::Failed, AskedIn::TicketRefused];
            return Some(Input::AskedIn { task, outcome: outcomes[random.random_range(0..4)] });
        }
        if let Some(task) = pick(&self.swaps, random) {
            self.swaps.remove(&task);
            return Some(Input::NewsSwapped { task });
        }
        let task = pick(&self.looks_around, random)?;
        self.looks_around.remove(&task);
        Some(Input::LookedAround { task })
    }
}

fn pick<T: Copy>(of: &BTreeSet<T>, random: &mut ChaCha8Rng) -> Option<T> {
    (!of.is_empty()).then(|| of.iter().nth(random.random_range(0..of.len())).copied()).flatten()
}

fn servers(random: &mut ChaCha8Rng) -> Vec<Server> {
    let count = if random.random_bool(0.05) { 90 } else { random.random_range(0..6) };
    let server = |number: u8, random: &mut ChaCha8Rng| Server {
        node: NodeId::from_bytes([number; 32]),
        kind: if number == 0 { ServerKind::Home } else { ServerKind::Station },
        addresses: random.random_bool(0.9).then(|| AddressVersion::new(random.random_range(0..3))),
    };
    (0..count).map(|number| server(number, random)).collect()
}

/// What the user and the network do.
fn wish(random: &mut ChaCha8Rng, asked: &mut Asked) -> Input {
    let node = |random: &mut ChaCha8Rng| NodeId::from_bytes([random.random_range(0..6); 32]);
    match random.random_range(0..9) {
        0 => Input::GoOnline,
        1 => Input::GoOffline,
        2 => Input::Pinned(random.random_bool(0.6).then(|| node(random))),
        3 => Input::MeasureNow,
        4 => Input::LookAgain,
        5 => Input::Renamed { was: node(random), is: node(random) },
        6 => Input::HoldsLocks(random.random_bool(0.5)),
        7 => Input::ParentRtt(Duration::from_micros(random.random_range(0..200_000))),
        _ => asked.session.take().map_or(Input::Tick, |dial| Input::SessionEnded { dial }),
    }
}

fn run(seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let parents = if random.random_bool(0.3) { Parents::HomeOnly } else { Parents::Any };
    let (mut now, mut asked, mut known) = (Time::ZERO, Asked::default(), Vec::new());
    let is_online = random.random_bool(0.8);
    asked.is_offline = !is_online;
    let mut roam = Roam::new(Config { parents, is_online, measure_period: Duration::from_secs(20) }, now);
    let mut moves = 0;
    for _ in 0..INPUTS {
        let input = match random.random_range(0..20) {
            0 => {
                known = servers(&mut random);
                Input::Servers(known.clone())
            }
            1..3 => wish(&mut random, &mut asked),
            3..6 => {
                now = roam.poll_timeout().map_or(now, |at| now.max(at));
                Input::Tick
            }
            6..7 => {
                now = now + Duration::from_micros(random.random_range(0..3_000_000));
                Input::Tick
            }
            _ => asked.answer(&mut random, &known).unwrap_or(Input::Tick),
        };
        roam.handle(now, input.clone());
        while let Some(output) = roam.poll_output() {
            moves += usize::from(matches!(output, Output::MoveTo { .. }));
            asked.note(output);
        }
        assert!(asked.dials.len() <= DIALS_MAX, "seed {seed}: {} dials", asked.dials.len());
        assert!(asked.connections.len() <= 2 * DIALS_MAX, "seed {seed}: {} held", asked.connections.len());
        assert_eq!(roam.parent().is_some(), asked.session.is_some(), "seed {seed}: {input:?}");
        let sleeps = roam.poll_timeout().is_none() && !asked.is_waited_for();
        assert!(asked.is_offline || !sleeps, "seed {seed}: it sleeps for ever after {input:?}: {roam:?}");
    }
    moves
}

#[test]
fn it_never_sleeps_for_ever_and_never_dials_too_many() {
    let moves: usize = (0..SEEDS).map(run).sum();
    assert!(moves > 20, "the seeds come by moves: {moves}");
}
