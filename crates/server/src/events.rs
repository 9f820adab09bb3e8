//! What happens, told to whoever listens.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use wayfs_control::{Event, EventKind};
use wayfs_node::clock;

/// Events that may wait for one listener; what comes beyond is counted and told as lost.
const WAITING_MAX: usize = 4096;
/// Most listeners.
const LISTENERS_MAX: usize = 64;

struct Listener {
    queue: SyncSender<Event>,
    lost: u64,
}

/// Passes events on. Never waits for a listener.
#[derive(Default)]
pub(crate) struct Events {
    listeners: Mutex<Vec<Listener>>,
}

impl Events {
    /// A new listener; `None` if there are too many.
    pub(crate) fn listen(&self) -> Option<Receiver<Event>> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.len() >= LISTENERS_MAX {
            return None;
        }
        let (queue, receiver) = sync_channel(WAITING_MAX);
        listeners.push(Listener { queue, lost: 0 });
        Some(receiver)
    }

    /// Whether anyone listens: what costs to find out need not be found out for nobody.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn tell(&self, event: &Event) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain_mut(|listener| {
            if listener.lost > 0 {
                let lost = new(EventKind::Lost, None, format!("{} events were lost", listener.lost));
                match listener.queue.try_send(lost) {
                    Ok(()) => listener.lost = 0,
                    Err(TrySendError::Full(_)) => {
                        listener.lost += 1;
                        return true;
                    }
                    Err(TrySendError::Disconnected(_)) => return false,
                }
            }
            match listener.queue.try_send(event.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    listener.lost += 1;
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
    }
}

/// An event of this moment.
pub(crate) fn new(kind: EventKind, volume: Option<&str>, detail: String) -> Event {
    Event {
        unix_ms: clock::wall().as_nanos() / 1_000_000,
        kind,
        volume: volume.map(str::to_owned),
        path: None,
        record: None,
        by: None,
        size_bytes: None,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_listener_hears_how_much_it_missed() {
        let events = Events::default();
        let slow = events.listen().unwrap();
        for _ in 0..WAITING_MAX + 10 {
            events.tell(&new(EventKind::Changed, None, String::new()));
        }
        assert_eq!(slow.try_iter().count(), WAITING_MAX);
        events.tell(&new(EventKind::Changed, None, String::new()));
        let heard: Vec<_> = slow.try_iter().collect();
        assert_eq!(heard[0].kind, EventKind::Lost);
        assert!(heard[0].detail.starts_with("10 "));
        drop(slow);
        events.tell(&new(EventKind::Changed, None, String::new()));
        assert!(!events.has_listeners());
    }
}
