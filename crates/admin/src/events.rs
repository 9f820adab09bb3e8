//! What happens, passed on to whoever listens.

use crate::words::unix_ms;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wayfs_control::{ControlError, ErrorKind, Event, EventKind, EventsWanted};
use wayfs_node::{LevelWatch, Reached, Volume, clock};
use wayfs_types::{FileId, RecordId};

/// Events kept for one listener; what comes on top is counted as lost.
const WAITING_MAX: usize = 4096;
/// Most listeners.
const LISTENERS_MAX: usize = 64;
/// Events kept for who asks what happened, some 3 MB: an hour of a busy day. More would be a log, which the volume has.
const KEPT_MAX: usize = 8192;

/// All that listen to a daemon, and what happened lately.
#[derive(Debug)]
pub struct Listeners {
    hub: Mutex<Hub>,
}

#[derive(Debug)]
struct Hub {
    queues: Vec<Weak<Queue>>,
    kept: VecDeque<Event>,
    /// What happened up to then is not kept, in milliseconds since 1970.
    forgotten: i64,
}

#[derive(Debug, Default)]
struct Queue {
    wanted: EventsWanted,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    lost: u64,
}

/// One listener; hears what is kept, and then what happens, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    queue: Arc<Queue>,
    kept: Mutex<VecDeque<Event>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Listeners {
    fn default() -> Self {
        let forgotten = unix_ms(clock::wall());
        Self { hub: Mutex::new(Hub { queues: Vec::new(), kept: VecDeque::new(), forgotten }) }
    }
}

impl Listeners {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if 64 listen already.
    pub fn listen(&self, wanted: EventsWanted) -> Result<Listener, ControlError> {
        let mut hub = lock(&self.hub);
        hub.queues.retain(|queue| queue.strong_count() > 0);
        if hub.queues.len() >= LISTENERS_MAX {
            return Err(ControlError::new(ErrorKind::Busy, "too many tools listen to events", "End some of them."));
        }
        let kept = Mutex::new(hub.kept_for(&wanted));
        let queue = Arc::new(Queue { wanted, ..Queue::default() });
        hub.queues.push(Arc::downgrade(&queue));
        Ok(Listener { queue, kept })
    }

    /// Whether anyone listens; saves the trouble of describing what nobody hears.
    pub fn are_there(&self) -> bool {
        lock(&self.hub).queues.iter().any(|queue| queue.strong_count() > 0)
    }

    /// Something happened. Never waits.
    pub fn tell(&self, event: Event) {
        let mut hub = lock(&self.hub);
        for queue in hub.queues.iter().filter_map(Weak::upgrade).filter(|queue| queue.wanted.wants(&event)) {
            let mut state = lock(&queue.state);
            if state.events.len() < WAITING_MAX {
                state.events.push_back(event.clone());
            } else {
                state.lost += 1;
            }
            drop(state);
            queue.changed.notify_one();
        }
        hub.keep(event);
    }
}

impl Hub {
    /// What is kept of what a listener wants, and first that more was there.
    fn kept_for(&self, wanted: &EventsWanted) -> VecDeque<Event> {
        let Some(since) = wanted.since_unix_ms else { return VecDeque::new() };
        let kept = self.kept.iter().filter(|event| event.unix_ms >= since && wanted.wants(event));
        let detail = "what happened before is not kept: a daemon keeps the last 8192 events since it began".to_owned();
        let lost = Event { unix_ms: self.forgotten, ..event(EventKind::Lost, None, detail) };
        (since <= self.forgotten).then_some(&lost).into_iter().chain(kept).cloned().collect()
    }

    /// How far updates came is not kept, nor each record: they are told only while somebody listens.
    fn keep(&mut self, event: Event) {
        use EventKind::{Applied, Lost, Safe, Stable, Visible};
        if matches!(event.kind, Safe | Visible | Stable | Applied | Lost) {
            return;
        }
        if self.kept.len() >= KEPT_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest.unix_ms);
        }
        self.kept.push_back(event);
    }
}

impl Listener {
    /// Whether all that was kept is told, and nothing else is wanted.
    pub fn is_done(&self) -> bool {
        self.queue.wanted.kept_only && lock(&self.kept).is_empty()
    }

    /// The next event, if one comes soon enough. Lost ones are told as one event of their own, once those that
    /// wait are read.
    pub fn next(&self, longest: Duration) -> Option<Event> {
        if let Some(event) = lock(&self.kept).pop_front() {
            return Some(event);
        }
        let mut state = lock(&self.queue.state);
        if state.events.is_empty() && state.lost == 0 {
            state = self.queue.changed.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(event) = state.events.pop_front() {
            return Some(event);
        }
        let lost = std::mem::take(&mut state.lost);
        let detail = format!("{lost} events were lost because they were read too slowly");
        (lost > 0).then(|| event(EventKind::Lost, None, detail))
    }
}

/// An event of this moment.
pub fn event(kind: EventKind, volume: Option<&str>, detail: String) -> Event {
    Event {
        unix_ms: unix_ms(clock::wall()),
        kind,
        volume: volume.map(str::to_owned),
        path: None,
        from: None,
        record: None,
        by: None,
        size_bytes: None,
        detail,
    }
}

/// Records of a volume on their way, while somebody listens.
#[derive(Debug, Default)]
pub struct Journeys {
    watch: Mutex<LevelWatch>,
}

impl Journeys {
    /// A record was made or came: its way is told from now on, if anyone listens.
    pub fn follow(&self, listeners: &Listeners, record: RecordId, file: FileId, size_bytes: u64) {
        if listeners.are_there() {
            lock(&self.watch).note(record, file, size_bytes);
        }
    }

    /// Tells which records came further since the last time.
    pub fn tell(&self, listeners: &Listeners, name: &str, volume: &Volume) {
        let mut watch = lock(&self.watch);
        if !listeners.are_there() {
            return watch.clear();
        }
        let (steps, overlooked) = watch.steps(volume);
        drop(watch);
        for Reached { record, level, path, size_bytes } in steps {
            let Some(kind) = EventKind::of_level(level) else { continue };
            let (record, size_bytes) = (Some(record.to_string()), Some(size_bytes));
            listeners.tell(Event { path, record, size_bytes, ..event(kind, Some(name), String::new()) });
        }
        if overlooked > 0 {
            let detail = format!("the ways of {overlooked} updates are not told: there are too many at once");
            listeners.tell(event(EventKind::Lost, Some(name), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_listener_hears_how_much_it_missed() {
        let listeners = Listeners::default();
        let slow = listeners.listen(EventsWanted::default()).unwrap();
        for _ in 0..WAITING_MAX + 10 {
            listeners.tell(event(EventKind::Edited, None, String::new()));
        }
        for _ in 0..WAITING_MAX {
            assert_eq!(slow.next(Duration::ZERO).unwrap().kind, EventKind::Edited);
        }
        let last = slow.next(Duration::ZERO).unwrap();
        assert!(last.kind == EventKind::Lost && last.detail.starts_with("10 "), "{last:?}");
        assert!(slow.next(Duration::ZERO).is_none());
    }

    #[test]
    fn what_happened_before_is_told_as_far_as_it_is_kept() {
        let listeners = Listeners::default();
        let at = |unix_ms: i64, kind, path: &str| Event {
            unix_ms,
            path: Some(path.into()),
            ..event(kind, Some("v"), String::new())
        };
        let begin = lock(&listeners.hub).forgotten;
        listeners.tell(at(begin + 1, EventKind::Created, "a/old"));
        listeners.tell(at(begin + 2, EventKind::Safe, "a/old"));
        listeners.tell(at(begin + 3, EventKind::Created, "b/x"));
        listeners.tell(Event { from: Some("a/y".into()), ..at(begin + 4, EventKind::Renamed, "b/y") });
        let hears = |since, below: Option<&str>| {
            let below = below.map(Into::into);
            let wanted = EventsWanted { since_unix_ms: Some(since), below, kept_only: true };
            let listener = listeners.listen(wanted).unwrap();
            let next = || (!listener.is_done()).then(|| listener.next(Duration::ZERO)).flatten();
            std::iter::from_fn(next).map(|event| (event.kind, event.unix_ms - begin)).collect::<Vec<_>>()
        };
        use EventKind::{Created, Lost, Renamed};
        assert_eq!(hears(begin + 1, None), [(Created, 1), (Created, 3), (Renamed, 4)]);
        assert_eq!(hears(begin + 2, Some("a")), [(Renamed, 4)]);
        assert_eq!(hears(begin, Some("b/x")), [(Lost, 0), (Created, 3)]);
        (0..KEPT_MAX).for_each(|_| listeners.tell(at(begin + 5, EventKind::Edited, "c")));
        let told = hears(begin + 4, None);
        assert_eq!((told[0], told.len()), ((Lost, 4), KEPT_MAX + 1));
    }

    #[test]
    fn whoever_left_is_told_nothing_and_makes_room() {
        let listeners = Listeners::default();
        let all: Vec<Listener> =
            (0..LISTENERS_MAX).map(|_| listeners.listen(EventsWanted::default()).unwrap()).collect();
        assert_eq!(listeners.listen(EventsWanted::default()).unwrap_err().kind, ErrorKind::Busy);
        drop(all);
        assert!(!listeners.are_there());
        listeners.listen(EventsWanted::default()).unwrap();
    }
}
