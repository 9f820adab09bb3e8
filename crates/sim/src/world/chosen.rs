//! A world whose order of events is chosen: by itself the earliest is next; at each point something else may be done instead.
//!
//! A **point** is an event that a machine is about to take in: a message, the end of a sync, a timer, an answer of a disk or a
//! neighbour about contents, a request of its program. Only the order in which one machine takes in its events is chosen. Two
//! steps of different machines touch nothing in common but the queue between them, where one adds at the end and the other
//! takes from the front, so either order of the two comes to the same.

use super::event::{RoamingEvent, Scheduled};
use super::{Event, World};
use crate::explore::path::{Deviation, Path};
use crate::explore::script::Program;
use crate::network::End;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_proto::PeerId;
use wayfs_types::Time;

/// What is held back goes on after this time at the latest, if its machine takes in nothing else.
const HELD_MAX: Duration = Duration::from_secs(2);
/// A program whose machine is down looks for it again.
const AWAY: Duration = Duration::from_millis(100);
/// Between an answer and the next request of a program.
const THINK: Duration = Duration::from_millis(1);

/// A point that a run came by.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// What may be done in place of the event.
    pub(crate) deviations: Vec<Deviation>,
}

/// How a run goes, and what it comes by.
pub(crate) struct Course<'a> {
    pub(crate) path: &'a Path,
    /// Whether a state was seen before, from which nothing is new.
    pub(crate) is_seen: &'a mut dyn FnMut(u64) -> bool,
    /// Points that are counted; behind them all goes by itself.
    pub(crate) points_max: usize,
    pub(crate) points: Vec<Point>,
    /// What clients do.
    pub(crate) programs: BTreeMap<usize, Program>,
    held: BTreeMap<usize, Held>,
    taken_in: BTreeMap<usize, u64>,
}

/// What a machine takes in later, in its order.
#[derive(Default)]
struct Held {
    events: Vec<Event>,
    until: Time,
}

/// Events that come one behind the other, whatever happens.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Session(PeerId, End),
    Disk,
}

impl<'a> Course<'a> {
    pub(crate) fn new(
        path: &'a Path,
        programs: BTreeMap<usize, Program>,
        points_max: usize,
        is_seen: &'a mut dyn FnMut(u64) -> bool,
    ) -> Self {
        let (held, taken_in) = (BTreeMap::new(), BTreeMap::new());
        Self { path, is_seen, points_max, points: Vec::new(), programs, held, taken_in }
    }

    fn is_over(&self) -> bool {
        let is_done = self.held.is_empty() && self.programs.values().all(Program::is_over);
        is_done && self.points.len() >= self.path.behind()
    }

    /// Whether an event is behind one of its line that is held back.
    fn is_behind(&self, host: usize, event: &Event) -> bool {
        let held = self.held.get(&host).map(|held| held.events.as_slice()).unwrap_or_default();
        line(event).is_some_and(|behind| held.iter().any(|event| line(event).as_ref() == Some(&behind)))
    }

    fn hold(&mut self, host: usize, event: Event, until: Time) {
        let held = self.held.entry(host).or_insert_with(|| Held { events: Vec::new(), until });
        held.events.push(event);
    }

    fn note(&mut self, host: usize, what: &str) {
        let before = self.taken_in.entry(host).or_insert(FNV);
        *before = folded(*before, what);
    }

    /// What all machines have taken in so far, in the order of each, and what is held back.
    fn key(&self) -> u64 {
        let taken = self.taken_in.iter().fold(FNV, |key, (host, taken)| folded(key, &format!("{host} {taken:x}")));
        self.held.iter().fold(taken, |key, (host, held)| folded(key, &format!("{host} {:?}", held.events)))
    }
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn folded(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn line(event: &Event) -> Option<Line> {
    if let Event::Deliver { session, from } = event {
        return Some(Line::Session(*session, *from));
    }
    matches!(event, Event::Synced { .. }).then_some(Line::Disk)
}

impl World {
    /// Runs along a path, at most until a time. Whether it came to a state that was seen before.
    pub(crate) fn run_along(&mut self, course: &mut Course<'_>, end: Time) -> bool {
        for index in course.programs.keys().copied().collect::<Vec<_>>() {
            self.after(THINK, Event::Work { host: index });
        }
        while self.violations.is_empty() {
            self.release_overdue(course);
            if course.is_over() && self.is_still() {
                break;
            }
            let Some(event) = self.next_event(end) else { break };
            let Some(host) = self.taker(&event) else {
                self.happen(event);
                continue;
            };
            if self.meet(course, host, event) {
                return true;
            }
        }
        self.release(course, None);
        false
    }

    fn next_event(&mut self, end: Time) -> Option<Event> {
        let is_due = |Reverse(Scheduled(time, ..)): &&Reverse<Scheduled>| *time <= end;
        self.queue.peek().filter(is_due)?;
        let Reverse(Scheduled(time, _, event)) = self.queue.pop()?;
        self.now = self.now.max(time);
        self.events += 1;
        Some(event)
    }

    /// A machine is about to take in an event. Whether that state was seen before.
    fn meet(&mut self, course: &mut Course<'_>, host: usize, event: Event) -> bool {
        if course.is_behind(host, &event) {
            course.hold(host, event, self.now + HELD_MAX);
            return false;
        }
        let number = course.points.len();
        if number < course.points_max {
            let key = course.key();
            if number >= course.path.behind() && (course.is_seen)(key) {
                return true;
            }
            course.points.push(Point { deviations: self.deviations(host, &event) });
        }
        let deviation = course.path.0.get(&number).copied().filter(|_| number < course.points_max);
        self.note(|| format!("point {number} of host {host}: {deviation:?} {event:?}"));
        match deviation {
            None => self.take_in_event(course, host, event),
            Some(Deviation::Delay) => course.hold(host, event, self.now + HELD_MAX),
            Some(Deviation::Crash { kept }) => {
                course.note(host, &format!("crash {kept}"));
                self.at(self.now, event);
                let survivors = self.hosts[host].disk.0.borrow().survivors(kept);
                self.crash_to(host, survivors);
                self.release(course, Some(host));
            }
            Some(Deviation::Cut) => {
                course.note(host, &format!("cut {event:?}"));
                if let Event::Deliver { session, from } = event {
                    self.end_session(session, from.other());
                }
                self.release(course, Some(host));
            }
        }
        false
    }

    fn take_in_event(&mut self, course: &mut Course<'_>, host: usize, event: Event) {
        course.note(host, &format!("{event:?}"));
        let parent = self.hosts[host].parent_session;
        if let Event::Work { host } = event {
            self.go_on_with(course, host);
        } else {
            self.happen(event);
        }
        // The server that a client moves to takes that in at once.
        if let Some(session) = self.hosts[host].parent_session.filter(|session| parent != Some(*session))
            && let Some(server) = self.parent_believed_in(host)
        {
            course.note(server, &format!("{session:?} of {host}"));
        }
        self.ask_next(course, host);
        self.release(course, Some(host));
    }

    fn go_on_with(&mut self, course: &mut Course<'_>, host: usize) {
        if self.hosts[host].replica.is_none() {
            return self.after(AWAY, Event::Work { host });
        }
        if let Some(program) = course.programs.remove(&host) {
            let program = self.go_on(host, program);
            course.programs.insert(host, program);
        }
    }

    /// A program that was answered, or whose machine lost its question, goes on.
    fn ask_next(&mut self, course: &mut Course<'_>, host: usize) {
        let waiting = &self.hosts[host].waiting;
        let Some(program) = course.programs.get_mut(&host) else { return };
        if program.becomes_free(|asked| waiting.contains_key(asked)) {
            self.after(THINK, Event::Work { host });
        }
    }

    /// What was held back at a machine goes on; `None`: at all.
    fn release(&mut self, course: &mut Course<'_>, host: Option<usize>) {
        let hosts = course.held.keys().copied().filter(|of| host.is_none_or(|host| host == *of)).collect::<Vec<_>>();
        for held in hosts.into_iter().filter_map(|host| course.held.remove(&host)) {
            for event in held.events {
                self.at(self.now, event);
            }
        }
    }

    fn release_overdue(&mut self, course: &mut Course<'_>) {
        let next = self.queue.peek().map(|Reverse(Scheduled(time, ..))| *time);
        let is_overdue = |held: &Held| next.is_none_or(|next| next > held.until);
        let overdue = course.held.iter().filter(|(_, held)| is_overdue(held)).map(|(host, held)| (held.until, *host));
        if let Some((until, host)) = overdue.min() {
            self.now = self.now.max(until);
            self.release(course, Some(host));
        }
    }

    /// The machine that is about to take in an event; `None`: nobody does any more, or it is nothing whose order matters.
    fn taker(&self, event: &Event) -> Option<usize> {
        let lives = |host: &usize, life: &u32| (self.hosts[*host].life == *life).then_some(*host);
        match event {
            Event::Deliver { session, from } => self.living_end(*session, from.other()),
            Event::Wake { host, life } => {
                lives(host, life).filter(|host| self.hosts[*host].wake_at.is_some_and(|at| at <= self.now))
            }
            Event::Notice { session, end } => self.living_end(*session, *end),
            Event::Transfer(event) => self.transfer_host(event).filter(|host| self.hosts[*host].replica.is_some()),
            Event::Synced { host, life, .. }
            | Event::PolicyWake { host, life }
            | Event::Look { host, life, .. }
            | Event::LookHere { host, life, .. }
            | Event::Whole { host, life, .. }
            | Event::OpenFiles { host, life, .. }
            | Event::Kernel { host, life, .. }
            | Event::GivenBack { host, life, .. } => lives(host, life),
            Event::Work { host } => Some(*host),
            Event::Roaming { host, life, event: RoamingEvent::Wake } => {
                lives(host, life).filter(|host| self.is_roaming_due(*host))
            }
            Event::Roaming { host, life, .. } => lives(host, life),
            Event::GoOnline { .. }
            | Event::CutCheck { .. }
            | Event::Sweep { .. }
            | Event::GoBack { .. }
            | Event::Speak { .. }
            | Event::LiftQuota { .. }
            | Event::Room { .. }
            | Event::Fault
            | Event::Restart { .. }
            | Event::Reconnect { .. } => None,
        }
    }

    fn deviations(&self, host: usize, event: &Event) -> Vec<Deviation> {
        let mut deviations = vec![Deviation::Delay];
        if self.hosts[host].replica.is_some() {
            let batches = self.hosts[host].disk.0.borrow().at_risk().batches;
            deviations.extend((0..=batches).map(|kept| Deviation::Crash { kept }));
        }
        if matches!(event, Event::Deliver { .. }) {
            deviations.push(Deviation::Cut);
        }
        deviations
    }

    /// Nothing is under way: no message, no sync, no contents, no machine that comes back.
    fn is_still(&self) -> bool {
        let is_under_way = |event: &Event| {
            let is_coming_back = matches!(event, Event::Restart { host, life } if self.hosts[*host].life == *life);
            let is_news = matches!(
                event,
                Event::Deliver { .. }
                    | Event::Synced { .. }
                    | Event::Transfer(_)
                    | Event::Whole { .. }
                    | Event::Roaming { event: RoamingEvent::Done(_) | RoamingEvent::Greeted(_), .. }
            );
            is_coming_back || is_news && self.taker(event).is_some()
        };
        self.is_at_rest() && !self.queue.iter().any(|Reverse(Scheduled(_, _, event))| is_under_way(event))
    }
}
