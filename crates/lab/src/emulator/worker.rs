//! One thread of the emulator.

use super::processor::{Burden, Offered, Outbox, Processor};
use super::rest::Rest;
use super::{Clock, End, Ends, Histogram, MediumId, Order, Packet, SPIN};
use crate::cores;
use crate::priority::{self, Priority};
use crate::tun::Tun;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;
use wayfs_link::{LineId, Medium, Way};
use wayfs_types::Time;

/// Packets read from one device before the others and the deadlines are looked at again.
const BATCH: usize = 32;
/// No packet of a TUN device is longer.
const PACKET_LEN_MAX: usize = 65_536;

/// Share of the time that a worker leaves to the programs under test, in percent.
const REST_PERCENT: u64 = 15;

/// A medium and its devices, line by line.
struct Served {
    id: MediumId,
    medium: Medium<Packet>,
    ends: Vec<Ends>,
    /// Of each line, the processors of its ends that are burdened.
    processors: Vec<[Option<Processor>; 2]>,
    /// Of its own deliveries since somebody asked for it.
    lateness: Histogram,
}

impl Served {
    fn new(id: MediumId, medium: Medium<Packet>, ends: Vec<Ends>) -> Self {
        let processors = ends.iter().map(|_| [None, None]).collect();
        Self { id, medium, ends, processors, lateness: Histogram::default() }
    }
}

/// Whether the emulator still wants the worker.
#[derive(PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

pub(super) struct Worker {
    clock: Clock,
    inbox: Receiver<Order>,
    bell: Arc<OwnedFd>,
    served: Vec<Served>,
    /// What burdened hosts have sent.
    offered: Receiver<Offered>,
    /// Where their processors put it.
    outbox: Outbox,
    lateness: Histogram,
    buffer: Vec<u8>,
    rest: Rest,
}

impl Worker {
    pub(super) fn new(clock: Clock, inbox: Receiver<Order>, bell: Arc<OwnedFd>) -> Self {
        let (offers, offered) = channel();
        Self {
            clock,
            inbox,
            outbox: Outbox { offers, bell: Arc::clone(&bell) },
            bell,
            offered,
            served: Vec::new(),
            lateness: Histogram::default(),
            buffer: vec![0; PACKET_LEN_MAX],
            rest: Rest::leaving(REST_PERCENT),
        }
    }

    pub(super) fn run(mut self) {
        priority::raise(Priority::Emulator);
        loop {
            let begin = self.clock.nanos();
            if self.rest.is_due() {
                std::thread::sleep(SPIN);
            }
            let ready = self.wait();
            self.rest.count(begin..self.clock.nanos());
            if ready.bell && self.obey() == Wanted::No {
                return;
            }
            for port in ready.ports {
                self.read(port);
            }
            self.deliver();
        }
    }

    /// Sleeps until a packet or an order comes or a deadline is near; within [`SPIN`] of one it only looks.
    fn wait(&self) -> Ready {
        let deadline = self.served.iter().filter_map(|served| served.medium.poll_timeout()).min();
        let timeout = deadline.map(|at| sleep(at, self.clock));
        let ports: Vec<Port> = self.ports().collect();
        let mut fds: Vec<PollFd<'_>> =
            ports.iter().map(|port| PollFd::from_borrowed_fd(self.tun(*port).fd(), PollFlags::IN)).collect();
        fds.push(PollFd::new(&*self.bell, PollFlags::IN));
        // An interrupted wait is a short one.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let is_ready = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        let bell = fds.last().is_some_and(is_ready);
        Ready {
            bell,
            ports: ports.into_iter().zip(&fds).filter(|(_, fd)| is_ready(fd)).map(|(port, _)| port).collect(),
        }
    }

    fn ports(&self) -> impl Iterator<Item = Port> + '_ {
        self.served.iter().enumerate().flat_map(|(served, s)| {
            (0..s.ends.len()).flat_map(move |line| Way::BOTH.map(|way| Port { served, line: LineId(line), way }))
        })
    }

    /// The device whose packets go that way.
    fn tun(&self, port: Port) -> &Tun {
        let ends = &self.served[port.served].ends[port.line.0];
        match port.way {
            Way::Up => &ends.first,
            Way::Down => &ends.second,
        }
    }

    fn obey(&mut self) -> Wanted {
        // Emptied before the inbox is, so that no order is left behind.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        while let Ok(Offered { medium, line, way, packet }) = self.offered.try_recv() {
            let now = self.clock.now();
            // What comes back was refused; the medium has counted it.
            let _ = self.medium(medium).send(now, line, way, packet.len(), packet);
        }
        loop {
            match self.inbox.try_recv() {
                Ok(order) => self.carry_out(order),
                Err(TryRecvError::Empty) => return Wanted::Yes,
                Err(TryRecvError::Disconnected) => return Wanted::No,
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        let now = self.clock.now();
        // Whoever asked and does not wait for the answer does not want it.
        match order {
            Order::Serve(id, medium, ends) => self.served.push(Served::new(id, medium, ends)),
            Order::Shape(id, line, config, schedule) => {
                let medium = self.medium(id);
                medium.schedule(line, schedule.into_iter().map(|(after, config)| (now + after, config)).collect());
                medium.reconfigure(now, line, *config);
            }
            Order::Burden(id, line, end, burden) => self.burden(id, line, end, burden),
            Order::Avoid(core) => cores::avoid(core),
            Order::Config(id, line, answer) => {
                let config = self.medium(id).config(line).clone();
                let _ = answer.send(config);
            }
            Order::Statistics(id, line, answer) => {
                let medium = self.medium(id);
                medium.advance_to(now);
                let statistics = medium.statistics(line);
                let _ = answer.send(statistics);
            }
            Order::Reseed(id, line, seed) => self.medium(id).reseed(now, line, seed),
            Order::LatenessOf(id, answer) => {
                let lateness = std::mem::take(&mut self.served(id).lateness);
                let _ = answer.send(lateness);
            }
            Order::Lateness(answer) => {
                let _ = answer.send(std::mem::take(&mut self.lateness));
            }
        }
    }

    fn burden(&mut self, id: MediumId, line: LineId, end: End, burden: Burden) {
        let outbox = self.outbox.clone();
        let place = &mut self.served(id).processors[line.0][end as usize];
        // The old one ends first: packets keep their order.
        *place = None;
        *place = Processor::start(burden, outbox);
    }

    fn medium(&mut self, id: MediumId) -> &mut Medium<Packet> {
        &mut self.served(id).medium
    }

    fn served(&mut self, id: MediumId) -> &mut Served {
        let served = self.served.iter_mut().find(|served| served.id == id);
        served.expect("orders come to the worker that serves the medium")
    }

    /// Takes what a device has, but not all if that is much.
    fn read(&mut self, port: Port) {
        for _ in 0..BATCH {
            let mut buffer = std::mem::take(&mut self.buffer);
            // A device that fails (its namespace is being taken down) has nothing to say.
            let len = self.tun(port).read(&mut buffer).ok().flatten();
            if let Some(len) = len {
                self.offer(port, buffer[..len].to_vec());
            }
            self.buffer = buffer;
            if len.is_none() {
                return;
            }
        }
    }

    /// Gives a packet to its line, by way of the sender's processor if that is burdened.
    fn offer(&mut self, port: Port, packet: Packet) {
        let now = self.clock.now();
        let Served { id, medium, processors, .. } = &mut self.served[port.served];
        let from = match port.way {
            Way::Up => End::First,
            Way::Down => End::Second,
        };
        match &processors[port.line.0][from as usize] {
            Some(processor) => processor.send(Offered { medium: *id, line: port.line, way: port.way, packet }),
            None => {
                // What comes back was refused; the medium has counted it.
                let _ = medium.send(now, port.line, port.way, packet.len(), packet);
            }
        }
    }

    /// Writes what is due, by way of the receiver's processor if that is burdened.
    fn deliver(&mut self) {
        let Self { clock, served, lateness, .. } = self;
        for Served { medium, ends, processors, lateness: own, .. } in served {
            while let Some(delivery) = medium.poll(clock.now()) {
                let line = &ends[delivery.line.0];
                let (end, to) = match delivery.way {
                    Way::Up => (End::Second, &line.second),
                    Way::Down => (End::First, &line.first),
                };
                let late = clock.nanos().saturating_sub(delivery.at.as_micros() * 1000);
                lateness.record(late);
                own.record(late);
                match &processors[delivery.line.0][end as usize] {
                    Some(processor) => processor.receive(delivery.packet, to),
                    // The far end may have been taken down: then the packet is as lost as on a real line.
                    None => drop(to.write(&delivery.packet)),
                }
            }
        }
    }
}

/// A device, by what is read from it.
#[derive(Clone, Copy)]
struct Port {
    served: usize,
    line: LineId,
    way: Way,
}

struct Ready {
    bell: bool,
    ports: Vec<Port>,
}

/// How long to sleep before a deadline.
fn sleep(deadline: Time, clock: Clock) -> Timespec {
    let left = Duration::from_nanos((deadline.as_micros() * 1000).saturating_sub(clock.nanos()));
    let sleep = left.saturating_sub(SPIN);
    Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) }
}
