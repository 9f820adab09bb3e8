//! Connections over a path.

use super::errors::Stream;
use super::reader::{Reader, Reading};
use super::stage::Stage;
use super::{Hop, Route};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::time::Duration;
use wayfs_hop::{Relay, RelayEnd, RelayStep};
use wayfs_link::Way;
use wayfs_tcp::{Config, Endpoint, Event, SenderStatistics, Seq, Timers};
use wayfs_types::Time;

/// Longest transfer; what takes longer counts as if it had ended then.
const TIME_MAX: Time = Time::from_micros(3_600_000_000);
/// Between points of a trace.
const TRACE_EVERY: Duration = Duration::from_millis(100);

/// What is carried, and how.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) route: Route,
    /// The fixed host.
    pub(crate) fixed: Config,
    /// The mobile.
    pub(crate) mobile: Config,
    /// The two sides of a base station that splits connections: towards the fixed host, towards the mobile.
    pub(crate) split: Option<[Config; 2]>,
    /// Bytes of each connection; one follows the other, the mobile asking for each with a request of `request_len`.
    pub(crate) sizes: Vec<u32>,
    /// Bytes of a request; zero: the fixed host sends at once.
    pub(crate) request_len: u32,
    /// The mobile's application.
    pub(crate) reader: Reader,
    pub(crate) seed: u64,
}

/// A point of a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace {
    /// Seconds.
    pub(crate) at: f64,
    /// Window of the fixed host, in KB.
    pub(crate) cwnd: f64,
    /// Window of the base station's connection over the air, in KB (split).
    pub(crate) cwnd_air: f64,
    /// What the receiver of the wired connection advertises, in KB.
    pub(crate) advertised: f64,
}

/// What came out.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Megabits of payload per second.
    pub(crate) throughput: f64,
    /// Useful share of what was sent over the first hop, and over the last.
    pub(crate) goodput_wired: f64,
    pub(crate) goodput_wireless: f64,
    /// Seconds of each connection.
    pub(crate) times: Vec<f64>,
    pub(crate) fixed: SenderStatistics,
    pub(crate) trace: Vec<Trace>,
}

/// The base station's two connections.
struct Middle {
    relay: Relay,
    wire: Endpoint,
    air: Endpoint,
}

/// Everything of one connection.
struct World<'a> {
    transfer: &'a Transfer,
    now: Time,
    stages: Vec<Stage>,
    fixed: Endpoint,
    mobile: Endpoint,
    middle: Option<Middle>,
    flow: u32,
    /// Bytes that the fixed host has not yet written, of the present connection.
    unwritten: u32,
    unasked: u32,
    got: u32,
    reading: Reading,
    asked: u32,
    trace: Vec<Trace>,
}

impl Transfer {
    /// One connection of the mobile's with these settings.
    pub(crate) fn new(route: Route, fixed: Config, mobile: Config, bytes: u32, seed: u64) -> Self {
        Self { route, fixed, mobile, split: None, sizes: vec![bytes], request_len: 0, reader: Reader::SLOW, seed }
    }

    /// Carries it out.
    pub(crate) fn run(&self) -> Outcome {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ 0x5eed);
        let mut stages: Vec<Stage> = (0..)
            .zip(&self.route.hops)
            .map(|(n, hop): (u64, &Hop)| Stage::new(hop, Stream { seed: self.seed, number: n }))
            .collect();
        let (mut now, mut times, mut trace, mut got) = (Time::ZERO, Vec::new(), Vec::new(), 0.0);
        let mut fixed = SenderStatistics::default();
        for (flow, size) in (1..).zip(&self.sizes) {
            let mut world = World::new(self, stages, Connection { flow, size: *size }, now, &mut random);
            world.run();
            times.push(world.now.since(now).as_secs_f64());
            got += f64::from(world.got);
            add(&mut fixed, world.fixed.statistics());
            trace.append(&mut world.trace);
            now = world.now;
            stages = world.stages;
        }
        let share = |stage: Option<&Stage>| stage.map_or(0.0, |stage| got / (stage.payload_sent as f64).max(1.0));
        Outcome {
            throughput: got * 8.0 / 1e6 / times.iter().sum::<f64>(),
            goodput_wired: share(stages.first()),
            goodput_wireless: share(stages.last()),
            times,
            fixed,
            trace,
        }
    }
}

fn add(sum: &mut SenderStatistics, more: SenderStatistics) {
    sum.sent += more.sent;
    sum.retransmitted += more.retransmitted;
    sum.timeouts += more.timeouts;
    sum.fast_retransmits += more.fast_retransmits;
}

/// Clocks of hosts tick out of step.
fn out_of_step(config: Config, random: &mut ChaCha8Rng) -> Config {
    let phase = Duration::from_micros(random.next_u64() % 500_000);
    let timers = match config.timers {
        Timers::Coarse { .. } => Timers::Coarse { phase },
        fine @ Timers::Fine { .. } => fine,
    };
    Config { timers, ..config }
}

/// A connection of a transfer.
#[derive(Debug, Clone, Copy)]
struct Connection {
    /// Its number.
    flow: u32,
    /// Bytes that it carries.
    size: u32,
}

impl<'a> World<'a> {
    fn new(
        transfer: &'a Transfer,
        stages: Vec<Stage>,
        Connection { flow, size }: Connection,
        now: Time,
        random: &mut ChaCha8Rng,
    ) -> Self {
        let start = |random: &mut ChaCha8Rng| Seq::new(random.next_u32());
        let fixed_config = out_of_step(transfer.fixed, random);
        let mobile_config = out_of_step(transfer.mobile, random);
        // Whoever asks opens the connection; without a request the fixed host does.
        let asks = transfer.request_len > 0;
        let middle = transfer.split.map(|[wire, air]| {
            let (wire_config, air_config) = (out_of_step(wire, random), out_of_step(air, random));
            let (to_wire, to_air) = (start(random), start(random));
            let open = |connects: bool, config, start| {
                if connects {
                    Endpoint::connect(config, flow, start, now)
                } else {
                    Endpoint::listen(config, flow, start, now)
                }
            };
            let relay = Relay::new(wire.buffer);
            Middle { relay, wire: open(asks, wire_config, to_wire), air: open(!asks, air_config, to_air) }
        });
        let (fixed_start, mobile_start) = (start(random), start(random));
        let (fixed, mobile) = if asks {
            (
                Endpoint::listen(fixed_config, flow, fixed_start, now),
                Endpoint::connect(mobile_config, flow, mobile_start, now),
            )
        } else {
            (
                Endpoint::connect(fixed_config, flow, fixed_start, now),
                Endpoint::listen(mobile_config, flow, mobile_start, now),
            )
        };
        let (unasked, asked) = (transfer.request_len, 0);
        Self {
            transfer,
            now,
            stages,
            fixed,
            mobile,
            middle,
            flow,
            unwritten: size,
            unasked,
            got: 0,
            reading: Reading::default(),
            asked,
            trace: Vec::new(),
        }
    }

    fn size(&self) -> u32 {
        self.transfer.sizes[self.flow as usize - 1]
    }

    /// Until the mobile has everything.
    fn run(&mut self) {
        let size = self.size();
        while self.now < TIME_MAX {
            self.turn();
            if self.got == size {
                return;
            }
            let Some(next) = self.next_time() else { return };
            self.now = next.max(self.now);
            self.timeouts();
            self.note();
        }
    }

    /// Does all that can be done now.
    fn turn(&mut self) {
        loop {
            self.applications();
            self.endpoints();
            self.relay();
            let mut moved = false;
            for n in 0..self.stages.len() {
                self.stages[n].turn(self.now);
                while let Some((way, segment)) = self.stages[n].poll(self.now) {
                    // Connections before this one have ended; what is left of them on the way is of no use.
                    if segment.flow == self.flow {
                        self.route(n, way, &segment);
                    }
                    moved = true;
                }
            }
            if !moved && !self.endpoints() {
                return;
            }
        }
    }

    fn applications(&mut self) {
        if self.asked == self.transfer.request_len {
            self.unwritten -= self.fixed.write(self.unwritten);
        } else {
            self.unasked -= self.mobile.write(self.unasked);
            self.asked += self.fixed.read(u32::MAX);
        }
        while self.reading.is_due(&self.transfer.reader, self.now, self.mobile.readable()) {
            self.got += self.mobile.read(self.transfer.mobile.mss);
            self.reading.was_read(&self.transfer.reader, self.now, self.mobile.readable());
        }
    }

    /// Lets segments leave the end points. Tells whether some did.
    fn endpoints(&mut self) -> bool {
        let (now, last) = (self.now, self.stages.len() - 1);
        let mut moved = false;
        while let Some(segment) = self.fixed.poll_segment(now) {
            self.stages[0].offer(now, Way::Down, segment);
            moved = true;
        }
        while let Some(segment) = self.mobile.poll_segment(now) {
            self.stages[last].offer(now, Way::Up, segment);
            moved = true;
        }
        if let Some(middle) = &mut self.middle {
            while let Some(segment) = middle.wire.poll_segment(now) {
                self.stages[0].offer(now, Way::Up, segment);
                moved = true;
            }
            while let Some(segment) = middle.air.poll_segment(now) {
                self.stages[1].offer(now, Way::Down, segment);
                moved = true;
            }
        }
        moved
    }

    /// A segment came out of a stage.
    fn route(&mut self, stage: usize, way: Way, segment: &wayfs_tcp::Segment) {
        let now = self.now;
        let last = self.stages.len() - 1;
        match (&mut self.middle, way) {
            (Some(middle), Way::Down) if stage == 0 => middle.wire.handle_segment(now, segment),
            (Some(middle), Way::Up) if stage == 1 => middle.air.handle_segment(now, segment),
            (_, Way::Down) if stage == last => self.mobile.handle_segment(now, segment),
            (_, Way::Up) if stage == 0 => self.fixed.handle_segment(now, segment),
            (_, Way::Down) => self.stages[stage + 1].offer(now, way, segment.clone()),
            (_, Way::Up) => self.stages[stage - 1].offer(now, way, segment.clone()),
        }
    }

    /// The base station moves bytes between its connections.
    fn relay(&mut self) {
        let Some(Middle { relay, wire, air }) = &mut self.middle else { return };
        for (end, endpoint) in [(RelayEnd::Wire, &mut *wire), (RelayEnd::Air, &mut *air)] {
            while let Some(event) = endpoint.poll_event() {
                match event {
                    Event::PeerClosed => relay.ended(end),
                    Event::Reset | Event::GaveUp => relay.reset(end),
                    Event::Connected | Event::Delivered => {}
                }
            }
        }
        loop {
            let room = [wire.writable(), air.writable()];
            let steps = relay.steps([wire.readable(), air.readable()], room);
            if steps.is_empty() {
                return;
            }
            for step in steps {
                let endpoint = |end| if end == RelayEnd::Wire { 0 } else { 1 };
                let ends: [&mut Endpoint; 2] = [wire, air];
                match step {
                    RelayStep::Read(from, max) => relay.took(from, ends[endpoint(from)].read(max)),
                    RelayStep::Write(to, len) => relay.gave(to, ends[endpoint(to)].write(len)),
                    RelayStep::Close(end) => ends[endpoint(end)].close(),
                    RelayStep::Reset(end) => ends[endpoint(end)].abort(),
                }
            }
        }
    }

    fn next_time(&self) -> Option<Time> {
        let now = self.now;
        let ends = [&self.fixed, &self.mobile]
            .into_iter()
            .chain(self.middle.iter().flat_map(|middle| [&middle.wire, &middle.air]));
        let ends = ends.filter_map(|end| end.poll_timeout(now));
        let reads = self.reading.next().filter(|at| *at > now);
        self.stages.iter().filter_map(|stage| stage.timeout(now)).chain(ends).chain(reads).min()
    }

    fn timeouts(&mut self) {
        self.fixed.handle_timeout(self.now);
        self.mobile.handle_timeout(self.now);
        if let Some(middle) = &mut self.middle {
            middle.wire.handle_timeout(self.now);
            middle.air.handle_timeout(self.now);
        }
    }

    fn note(&mut self) {
        let at = self.now.as_micros() as f64 / 1e6;
        if self.trace.last().is_some_and(|last| at < last.at + TRACE_EVERY.as_secs_f64()) {
            return;
        }
        let kilobytes = |bytes: u32| f64::from(bytes) / 1024.0;
        self.trace.push(Trace {
            at,
            cwnd: kilobytes(self.fixed.cwnd()),
            cwnd_air: self.middle.as_ref().map_or(0.0, |middle| kilobytes(middle.air.cwnd())),
            advertised: kilobytes(self.fixed.peer_window()),
        });
    }
}
