//! What happens, passed on to whoever listens.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wayfs_control::{Event, EventKind};
use wayfs_node::{LevelWatch, Reached, Volume};
use wayfs_types::{FileId, RecordId, WallTime};

/// Events kept for one listener; what comes on top is counted as lost.
const WAITING_MAX: usize = 4096;

/// Passes events on.
pub struct Events {
    volume: String,
    listeners: Mutex<Vec<Weak<Queue>>>,
    /// Our own records on their way, while somebody listens.
    watch: Mutex<LevelWatch>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    lost: u64,
}

/// One listener; hears from now on.
pub struct Listener {
    queue: Arc<Queue>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// Of a volume.
    pub fn new(volume: String) -> Self {
        Self { volume, listeners: Mutex::default(), watch: Mutex::default() }
    }

    /// Begins to listen.
    pub fn listen(&self) -> Listener {
        let queue = Arc::new(Queue::default());
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&queue));
        Listener { queue }
    }

    /// Whether anyone listens; saves the trouble of describing what nobody hears.
    pub fn is_heard(&self) -> bool {
        lock(&self.listeners).iter().any(|listener| listener.strong_count() > 0)
    }

    /// A record of our own was made: its way is told, if anyone listens.
    pub fn follow(&self, record: RecordId, file: FileId, size_bytes: u64) {
        if self.is_heard() {
            lock(&self.watch).note(record, file, size_bytes);
        }
    }

    /// Tells which records came further.
    pub fn tell_levels(&self, volume: &Volume) {
        let mut watch = lock(&self.watch);
        if !self.is_heard() {
            return watch.clear();
        }
        let (steps, overlooked) = watch.steps(volume);
        drop(watch);
        for Reached { record, level, path, size_bytes } in steps {
            let Some(kind) = EventKind::of_level(level) else { continue };
            let (record, size_bytes) = (Some(record), Some(size_bytes));
            self.tell(kind, About { path, record, size_bytes, ..About::default() });
        }
        if overlooked > 0 {
            let detail = format!("the ways of {overlooked} updates are not told: there are too many at once");
            self.tell(EventKind::Lost, About { detail, ..About::default() });
        }
    }

    /// Something happened. Never waits.
    pub fn tell(&self, kind: EventKind, about: About) {
        let event = Event {
            unix_ms: unix_ms(wayfs_node::clock::wall()),
            kind,
            volume: Some(self.volume.clone()),
            path: about.path,
            record: about.record.map(|record| record.to_string()),
            by: None,
            size_bytes: about.size_bytes,
            detail: about.detail,
        };
        for queue in lock(&self.listeners).iter().filter_map(Weak::upgrade) {
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

/// What an event is about.
#[derive(Debug, Default, Clone)]
pub struct About {
    /// Path from the volume's root.
    pub path: Option<std::path::PathBuf>,
    /// A version, conflict or record.
    pub record: Option<RecordId>,
    /// Bytes of the file.
    pub size_bytes: Option<u64>,
    /// The rest, for people.
    pub detail: String,
}

impl Listener {
    /// The next event, if one comes soon enough. Lost ones are told as one event of their own.
    pub fn next(&self, wait_policy: Duration) -> Option<Event> {
        let mut state = lock(&self.queue.state);
        if state.events.is_empty() && state.lost == 0 {
            state = self.queue.changed.wait_timeout(state, wait_policy).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(event) = state.events.pop_front() {
            return Some(event);
        }
        let lost = std::mem::take(&mut state.lost);
        (lost > 0).then(|| Event {
            unix_ms: unix_ms(wayfs_node::clock::wall()),
            kind: EventKind::Lost,
            volume: None,
            path: None,
            record: None,
            by: None,
            size_bytes: None,
            detail: format!("{lost} events were lost because they were read too slowly"),
        })
    }
}

/// Milliseconds since 1970.
pub fn unix_ms(time: WallTime) -> i64 {
    time.as_nanos().div_euclid(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_listener_loses_events_and_is_told_how_many() {
        let events = Events::new("v".into());
        assert!(!events.is_heard());
        let listener = events.listen();
        assert!(events.is_heard());
        for _ in 0..WAITING_MAX + 3 {
            events.tell(EventKind::Changed, About::default());
        }
        let heard: Vec<Event> = std::iter::from_fn(|| listener.next(Duration::ZERO)).collect();
        assert_eq!(heard.len(), WAITING_MAX + 1);
        assert!(heard.last().unwrap().detail.starts_with("3 events"));
        drop(listener);
        assert!(!events.is_heard());
    }
}
