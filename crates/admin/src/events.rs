//! What happens, passed on to whoever listens.

use crate::words::unix_ms;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wayfs_control::{ControlError, ErrorKind, Event, EventKind};
use wayfs_node::{LevelWatch, Reached, Volume, clock};
use wayfs_types::{FileId, RecordId};

/// Events kept for one listener; what comes on top is counted as lost.
const WAITING_MAX: usize = 4096;
/// Most listeners.
const LISTENERS_MAX: usize = 64;

/// All that listen to a daemon.
#[derive(Debug, Default)]
pub struct Listeners {
    queues: Mutex<Vec<Weak<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    lost: u64,
}

/// One listener; hears from now on, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    queue: Arc<Queue>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listeners {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if 64 listen already.
    pub fn listen(&self) -> Result<Listener, ControlError> {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        if queues.len() >= LISTENERS_MAX {
            return Err(ControlError::new(ErrorKind::Busy, "too many tools listen to events", "End some of them."));
        }
        let queue = Arc::new(Queue::default());
        queues.push(Arc::downgrade(&queue));
        Ok(Listener { queue })
    }

    /// Whether anyone listens; saves the trouble of describing what nobody hears.
    pub fn are_there(&self) -> bool {
        lock(&self.queues).iter().any(|queue| queue.strong_count() > 0)
    }

    /// Something happened. Never waits.
    pub fn tell(&self, event: &Event) {
        for queue in lock(&self.queues).iter().filter_map(Weak::upgrade) {
            let mut state = lock(&queue.state);
            if state.events.len() < WAITING_MAX {
                state.events.push_back(event.clone());
            } else {
                state.lost += 1;
            }
            drop(state);
            queue.changed.notify_one();
        }
    }
}

impl Listener {
    /// The next event, if one comes soon enough. Lost ones are told as one event of their own, once those that
    /// wait are read.
    pub fn next(&self, longest: Duration) -> Option<Event> {
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
            listeners.tell(&Event { path, record, size_bytes, ..event(kind, Some(name), String::new()) });
        }
        if overlooked > 0 {
            let detail = format!("the ways of {overlooked} updates are not told: there are too many at once");
            listeners.tell(&event(EventKind::Lost, Some(name), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_listener_hears_how_much_it_missed() {
        let listeners = Listeners::default();
        let slow = listeners.listen().unwrap();
        for _ in 0..WAITING_MAX + 10 {
            listeners.tell(&event(EventKind::Changed, None, String::new()));
        }
        for _ in 0..WAITING_MAX {
            assert_eq!(slow.next(Duration::ZERO).unwrap().kind, EventKind::Changed);
        }
        let last = slow.next(Duration::ZERO).unwrap();
        assert!(last.kind == EventKind::Lost && last.detail.starts_with("10 "), "{last:?}");
        assert!(slow.next(Duration::ZERO).is_none());
    }

    #[test]
    fn whoever_left_is_told_nothing_and_makes_room() {
        let listeners = Listeners::default();
        let all: Vec<Listener> = (0..LISTENERS_MAX).map(|_| listeners.listen().unwrap()).collect();
        assert_eq!(listeners.listen().unwrap_err().kind, ErrorKind::Busy);
        drop(all);
        assert!(!listeners.are_there());
        listeners.listen().unwrap();
    }
}
