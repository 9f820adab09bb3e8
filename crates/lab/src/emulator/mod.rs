//! The link emulator: reads packets from TUN devices, lets a [`Medium`] decide
//! when each comes out, and writes it to the device at the other end.
//!
//! A worker thread serves one or several media; there is one for every two cores,
//! so that the programs under test have room. It sleeps until [`SPIN`] before a
//! deadline and then looks at the clock until it is reached, with real-time priority
//! if the machine allows. It keeps count of how late it writes.

mod clock;
mod histogram;
mod processor;
mod rest;
mod worker;

pub use histogram::Lateness;

pub(crate) use clock::Clock;
pub(crate) use processor::Burden;

use crate::LabError;
use crate::tun::Tun;
use histogram::Histogram;
use rustix::event::EventfdFlags;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wayfs_link::{LineConfig, LineId, LineStatistics, Medium};
use worker::Worker;

/// A packet, from its IP header on.
pub(crate) type Packet = Vec<u8>;

/// How long before a deadline a worker stops sleeping: what a sleep may be too long on a virtual machine.
const SPIN: Duration = Duration::from_micros(60);

/// Where a line's packets come from and go to.
#[derive(Debug)]
pub(crate) struct Ends {
    /// At the first end: what is read here goes up.
    pub(crate) first: Arc<Tun>,
    /// At the second end: what is read here goes down.
    pub(crate) second: Arc<Tun>,
}

/// A medium among those of the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MediumId(usize);

/// An end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// From which *up* leads away.
    First,
    /// To which *up* leads.
    Second,
}

/// What a worker is told.
enum Order {
    /// Serve this medium, too; its lines have these ends.
    Serve(MediumId, Medium<Packet>, Vec<Ends>),
    /// Change a line now and, after so long, again.
    Shape(MediumId, LineId, Box<LineConfig>, Vec<(Duration, LineConfig)>),
    /// Let an end of a line spend processor time on each of its packets from now on.
    Burden(MediumId, LineId, End, Burden),
    /// Keep off a core.
    Avoid(usize),
    /// Tell the settings of a line.
    Config(MediumId, LineId, Sender<LineConfig>),
    /// Tell what happened on a line.
    Statistics(MediumId, LineId, Sender<LineStatistics>),
    /// Let a line draw from another seed.
    Reseed(MediumId, LineId, u64),
    /// Tell how late deliveries were.
    Lateness(Sender<Histogram>),
    /// Tell it of one medium only.
    LatenessOf(MediumId, Sender<Histogram>),
}

/// All media of a topology.
#[derive(Debug)]
pub(crate) struct Emulator {
    clock: Clock,
    workers: Vec<Handle>,
    media: usize,
}

/// A worker as the emulator knows it.
#[derive(Debug)]
struct Handle {
    orders: Option<Sender<Order>>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Workers without work.
    pub(crate) fn start() -> Result<Self, LabError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let clock = Clock::new();
        let workers: Result<Vec<Handle>, LabError> =
            (0..(cores / 2).max(1)).map(|number| Handle::start(number, clock)).collect();
        Ok(Self { clock, workers: workers?, media: 0 })
    }

    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Begins to serve a medium.
    pub(crate) fn serve(&mut self, medium: Medium<Packet>, ends: Vec<Ends>) -> MediumId {
        let id = MediumId(self.media);
        self.media += 1;
        self.tell(id, Order::Serve(id, medium, ends));
        id
    }

    /// Changes a line now, and later by a schedule.
    pub(crate) fn shape(
        &self,
        medium: MediumId,
        line: LineId,
        config: LineConfig,
        schedule: Vec<(Duration, LineConfig)>,
    ) {
        self.tell(medium, Order::Shape(medium, line, Box::new(config), schedule));
    }

    /// Lets an end of a line spend processor time on each of its packets from now on.
    pub(crate) fn burden(&self, medium: MediumId, line: LineId, end: End, burden: Burden) {
        self.tell(medium, Order::Burden(medium, line, end, burden));
    }

    /// Keeps off a core.
    pub(crate) fn avoid(&self, core: usize) {
        for worker in &self.workers {
            worker.tell(Order::Avoid(core));
        }
    }

    pub(crate) fn config(&self, medium: MediumId, line: LineId) -> LineConfig {
        let (answer, answered) = channel();
        self.tell(medium, Order::Config(medium, line, answer));
        answered.recv().expect("a worker answers as long as its emulator lives")
    }

    pub(crate) fn statistics(&self, medium: MediumId, line: LineId) -> LineStatistics {
        let (answer, answered) = channel();
        self.tell(medium, Order::Statistics(medium, line, answer));
        answered.recv().expect("a worker answers as long as its emulator lives")
    }

    /// Lets a line draw its losses and bad periods from another seed from now on.
    pub(crate) fn reseed(&self, medium: MediumId, line: LineId, seed: u64) {
        self.tell(medium, Order::Reseed(medium, line, seed));
    }

    /// Of the deliveries of a medium since the last call for it.
    pub(crate) fn take_lateness_of(&self, medium: MediumId) -> Lateness {
        let (answer, answered) = channel();
        self.tell(medium, Order::LatenessOf(medium, answer));
        answered.recv().expect("a worker answers as long as its emulator lives").lateness()
    }

    /// Of all deliveries since the last call.
    pub(crate) fn take_lateness(&self) -> Lateness {
        let mut all = Histogram::default();
        for worker in &self.workers {
            let (answer, answered) = channel();
            worker.tell(Order::Lateness(answer));
            all.merge(&answered.recv().expect("a worker answers as long as its emulator lives"));
        }
        all.lateness()
    }

    fn tell(&self, medium: MediumId, order: Order) {
        self.workers[medium.0 % self.workers.len()].tell(order);
    }
}

impl Handle {
    fn start(number: usize, clock: Clock) -> Result<Self, LabError> {
        let bell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| LabError::io("make an event descriptor")(error.into()))?;
        let bell = Arc::new(bell);
        let (orders, inbox) = channel();
        let worker = Worker::new(clock, inbox, Arc::clone(&bell));
        let thread = std::thread::Builder::new()
            .name(format!("emulator-{number}"))
            .spawn(move || worker.run())
            .map_err(LabError::io("start an emulator"))?;
        Ok(Self { orders: Some(orders), bell, thread: Some(thread) })
    }

    fn tell(&self, order: Order) {
        let orders = self.orders.as_ref().expect("taken only when dropped");
        // A worker that is gone has panicked; whoever waits for its answer finds out.
        let _ = orders.send(order);
        ring(&self.bell);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.orders = None;
        ring(&self.bell);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ring(bell: &OwnedFd) {
    // It can be refused only if the bell is ringing already.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
