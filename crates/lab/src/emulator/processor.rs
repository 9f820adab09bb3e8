//! The time that a host's processor spends on each packet: the `o` (overhead) of the LogGP model.
//!
//! A line may burden one of its ends: for each packet that this end sends or receives over the line, a thread computes
//! for so long before the packet goes on. It runs on the core of that host, before every normal program, so
//! that the host's programs do not have the core meanwhile, and it takes packets one after another, both ways
//! alike. That is what a slower protocol stack does to its machine: it delays each packet by `o`, and takes
//! `o` per packet away from whatever else the processor has to do, the server itself first of all.
//!
//! A tenth of the core is left to others even so: work of the kernel is bound to cores, and a core that gives it no time holds up
//! programs on all of them. An end that is busy with packets all the time takes one every `o / 0.9`.
//!
//! It differs from the apparatus of the papers, which waits in the sending and receiving functions of the communication
//! library and therefore within the process that communicates: here a packet that arrives interrupts whatever
//! runs, as an interrupt handler does, so under overload packets win over the programs that are to answer them. A
//! message is an IP packet; a datagram of 8 KiB counts as six.

use super::rest::Rest;
use super::{Clock, MediumId, Packet, ring};
use crate::cores;
use crate::priority::{self, Priority};
use crate::tun::Tun;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wayfs_link::{LineId, Way};

/// Packets that may wait for a processor; more are lost, as those that find the ring of a network card full.
const QUEUE: usize = 4096;

/// Share of its core that a processor leaves to others, in percent.
const REST_PERCENT: u64 = 10;
/// How long it rests at a time.
const REST: Duration = Duration::from_micros(500);

/// How a host is burdened by its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Burden {
    /// Processor time per packet. Zero: none, and no thread.
    pub(crate) overhead: Duration,
    /// The core of the host, if it has one of its own.
    pub(crate) core: Option<usize>,
}

/// A packet that is to go over a line.
pub(super) struct Offered {
    pub(super) medium: MediumId,
    pub(super) line: LineId,
    pub(super) way: Way,
    pub(super) packet: Packet,
}

/// What is done with a packet when the processor has spent its time on it.
enum Job {
    /// It is given to the host.
    Receive(Packet, Arc<Tun>),
    /// It is given to the line.
    Send(Offered),
}

/// A thread that spends processor time on packets.
pub(super) struct Processor {
    jobs: Option<SyncSender<Job>>,
    /// From now on packets pass without any time spent.
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where a processor puts what the host sends.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) offers: Sender<Offered>,
    pub(super) bell: Arc<OwnedFd>,
}

impl Processor {
    /// Starts a processor, if there is anything to do. A thread that cannot be started is a burden that is not there;
    /// the log says so.
    pub(super) fn start(burden: Burden, outbox: Outbox) -> Option<Self> {
        if burden.overhead.is_zero() {
            return None;
        }
        let (jobs, inbox) = sync_channel(QUEUE);
        let ending = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ending);
        let work = move || work(burden, &inbox, &outbox, &seen);
        match std::thread::Builder::new().name("processor".into()).spawn(work) {
            Ok(thread) => Some(Self { jobs: Some(jobs), ending, thread: Some(thread) }),
            Err(error) => {
                tracing::error!(%error, "no thread for a processor");
                None
            }
        }
    }

    /// The host is to receive a packet.
    pub(super) fn receive(&self, packet: Packet, tun: &Arc<Tun>) {
        self.take(Job::Receive(packet, Arc::clone(tun)));
    }

    /// The host has sent a packet.
    pub(super) fn send(&self, offered: Offered) {
        self.take(Job::Send(offered));
    }

    fn take(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("taken only when dropped");
        // A full queue loses the packet, as a full ring does.
        let _ = jobs.try_send(job);
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(burden: Burden, jobs: &Receiver<Job>, outbox: &Outbox, ending: &AtomicBool) {
    priority::raise(Priority::Processor);
    if let Some(core) = burden.core
        && let Err(error) = cores::pin(core)
    {
        tracing::warn!(%error, "a processor is not on the core of its host");
    }
    let (clock, mut rest) = (Clock::new(), Rest::leaving(REST_PERCENT));
    loop {
        let begin = clock.nanos();
        if rest.is_due() {
            std::thread::sleep(REST);
        }
        let Ok(job) = jobs.recv() else { return };
        rest.count(begin..clock.nanos());
        if !ending.load(Ordering::Relaxed) {
            spend(burden.overhead);
        }
        match job {
            // The far end may have been taken down: then the packet is as lost as on a real line.
            Job::Receive(packet, tun) => drop(tun.write(&packet)),
            Job::Send(offered) => {
                if outbox.offers.send(offered).is_ok() {
                    ring(&outbox.bell);
                }
            }
        }
    }
}

/// Spends processor time; time in which the thread does not run does not count.
fn spend(time: Duration) {
    let start = processor_time();
    while processor_time().saturating_sub(start) < time {
        std::hint::spin_loop();
    }
}

/// Processor time of the calling thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn packets_leave_in_order_and_each_costs_its_time() {
        let (offers, offered) = channel();
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let outbox = Outbox { offers, bell: Arc::new(bell) };
        let overhead = Duration::from_micros(200);
        let start = Clock::new();
        let processor = Processor::start(Burden { overhead, core: None }, outbox).unwrap();
        for number in 0..50 {
            processor.send(Offered { medium: MediumId(0), line: LineId(0), way: Way::Up, packet: vec![number] });
        }
        let left: Vec<u8> = (0..50).map(|_| offered.recv().unwrap().packet[0]).collect();
        assert!(left.is_sorted() && left.len() == 50);
        // Processor time passes no faster than time.
        assert!(Duration::from_nanos(start.nanos()) >= overhead * 50);
    }

    #[test]
    fn no_overhead_is_no_processor() {
        let (offers, _) = channel();
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let outbox = Outbox { offers, bell: Arc::new(bell) };
        assert!(Processor::start(Burden { overhead: Duration::ZERO, core: None }, outbox).is_none());
    }
}
