//! A station's policy at work: what happens goes in, versions to send ahead come out.
//!
//! Hooks put events into a bounded queue; a thread feeds the policy and tells the engine. An event that finds the
//! queue full is dropped: the version is then sent when someone asks for it, as if the policy had not known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::debug;
use wayfs_node::{Volume, clock};
use wayfs_policy::{Due, Propagator, Setting};
use wayfs_proto::Input;
use wayfs_types::{FileId, RecordId};

/// Events that may wait.
const WAITING_MAX: usize = 16_384;
/// Longest sleep while something is to be sent: the sleeping clock stops while the machine is suspended.
const NAP_MAX: Duration = Duration::from_secs(1);
/// The same while nothing is. Whatever comes wakes the thread.
const REST_MAX: Duration = Duration::from_secs(60);
/// Contents asked of the engine at once.
const PAGE: usize = 256;

enum Event {
    Applied { file: FileId, record: RecordId },
    Shared { file: FileId, version: RecordId },
    BackFetched { file: FileId, version: RecordId },
    Stop,
}

/// Where hooks put what happens. Never waits.
#[derive(Debug, Clone)]
pub(crate) struct Sender(SyncSender<Event>);

impl Sender {
    pub(crate) fn applied(&self, file: FileId, record: RecordId) {
        self.put(Event::Applied { file, record });
    }

    pub(crate) fn shared(&self, file: FileId, version: RecordId) {
        self.put(Event::Shared { file, version });
    }

    pub(crate) fn back_fetched(&self, file: FileId, version: RecordId) {
        self.put(Event::BackFetched { file, version });
    }

    fn put(&self, event: Event) {
        if self.0.try_send(event).is_err() {
            debug!("the propagation policy misses an event");
        }
    }
}

/// The thread of one station volume.
pub(crate) struct Propagation {
    sender: SyncSender<Event>,
    is_over: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Propagation {
    pub(crate) fn start(volume: &Arc<Volume>, setting: Setting) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let mut propagator = Propagator::new(setting);
        let volume = Arc::downgrade(volume);
        Self::spawn((sender, receiver), move |events, is_over| {
            remember_owed(&mut propagator, &volume);
            run(events, is_over, propagator, |due| propagate(&volume, due));
        })
    }

    fn spawn(
        (sender, receiver): (SyncSender<Event>, Receiver<Event>),
        work: impl FnOnce(&Receiver<Event>, &AtomicBool) + Send + 'static,
    ) -> std::io::Result<Self> {
        let is_over: Arc<AtomicBool> = Arc::default();
        let ending = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("propagation".into()).spawn(move || work(&receiver, &ending))?;
        Ok(Self { sender, is_over, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn sender(&self) -> Sender {
        Sender(self.sender.clone())
    }

    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        // A full queue wakes the thread as well.
        let _ = self.sender.try_send(Event::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the propagation thread panicked");
        }
    }
}

/// Runs until it is over, or `propagate` says so, which is given what is to be sent.
fn run(
    events: &Receiver<Event>,
    is_over: &AtomicBool,
    mut propagator: Propagator,
    mut propagate: impl FnMut(&mut dyn Iterator<Item = Due>) -> bool,
) {
    loop {
        let now = clock::now();
        let nap = propagator.poll_timeout().map_or(REST_MAX, |at| at.since(now).min(NAP_MAX));
        let heard = match events.recv_timeout(nap) {
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let now = clock::now();
        match heard {
            Some(Event::Applied { file, record }) => propagator.on_update(now, file, record),
            Some(Event::Shared { file, version }) => propagator.on_shared(now, file, version),
            Some(Event::BackFetched { file, version }) => propagator.on_back_fetch(now, file, version),
            Some(Event::Stop) | None => {}
        }
        if !propagate(&mut std::iter::from_fn(|| propagator.poll_send(now))) {
            return;
        }
    }
}

/// Tells the engine what is to be sent; whether the volume is there to hear it.
fn propagate(volume: &Weak<Volume>, due: &mut dyn Iterator<Item = Due>) -> bool {
    let Some(volume) = volume.upgrade().filter(|volume| !volume.is_stopped()) else { return false };
    for due in due {
        volume.step(Input::Propagate { file: due.file, version: due.version });
    }
    true
}

/// What the home lacked when this server last stopped is as if it had been written now.
fn remember_owed(propagator: &mut Propagator, volume: &Weak<Volume>) {
    let mut after = None;
    loop {
        let Some(volume) = volume.upgrade() else { return };
        let page = volume.look(|replica| {
            let page = replica.contents_in_use(after, PAGE)?;
            let mut owed = Vec::new();
            for content in page.contents.iter().filter(|content| content.owed) {
                let is_current = replica.inode(content.file)?.is_some_and(|inode| inode.content == content.content);
                // By the name under which they are owed: where equal contents met the view has another.
                owed.extend(content.version.filter(|_| is_current).map(|version| (content.file, version)));
            }
            Ok::<_, wayfs_types::StorageError>((owed, page.next))
        });
        let Some(Ok((owed, next))) = page else { return };
        for (file, version) in owed {
            propagator.on_update(clock::now(), file, version);
        }
        match next {
            Some(next) => after = Some(next),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn it_ends_though_its_queue_is_full() {
        let (busy, is_busy) = channel();
        let (go_on, goes_on) = channel::<()>();
        let propagation = Propagation::spawn(sync_channel(2), move |events, is_over| {
            run(events, is_over, Propagator::new(Setting::default()), |_| {
                busy.send(()).expect("the test listens");
                goes_on.recv().is_ok()
            });
        });
        let propagation = propagation.unwrap();
        let share = || propagation.sender().shared(FileId::ROOT, RecordId::GENESIS);
        share();
        is_busy.recv().unwrap();
        share();
        share();
        let is_over = Arc::clone(&propagation.is_over);
        let (end, ended) = channel();
        std::thread::spawn(move || {
            propagation.stop();
            end.send(())
        });
        while !is_over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            // The thread may have ended.
            let _ = go_on.send(());
        }
        ended.recv_timeout(Duration::from_secs(20)).expect("it ends, full as its queue was");
    }
}
