//! A station's policy at work: what happens goes in, versions to send ahead come out.
//!
//! Hooks put events into a bounded queue; a thread feeds the policy and tells the engine. An event that finds the
//! queue full is dropped: the version is then sent when someone asks for it, as if the policy had not known.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::debug;
use wayfs_node::{Volume, clock};
use wayfs_policy::{Propagator, Setting};
use wayfs_proto::Input;
use wayfs_types::{FileId, RecordId};

/// Events that may wait.
const WAITING_MAX: usize = 16_384;
/// Longest sleep, so that a stopped volume is noticed.
const NAP_MAX: Duration = Duration::from_millis(500);
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
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Propagation {
    pub(crate) fn start(volume: &Arc<Volume>, setting: Setting) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let propagator = Propagator::new(setting);
        let volume = Arc::downgrade(volume);
        let thread = std::thread::Builder::new()
            .name("propagation".into())
            .spawn(move || run(&receiver, propagator, &volume))?;
        Ok(Self { sender, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn sender(&self) -> Sender {
        Sender(self.sender.clone())
    }

    pub(crate) fn stop(&self) {
        // A full queue ends at the next nap, when the volume has stopped.
        let _ = self.sender.try_send(Event::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the propagation thread panicked");
        }
    }
}

fn run(events: &Receiver<Event>, mut propagator: Propagator, volume: &Weak<Volume>) {
    remember_owed(&mut propagator, volume);
    loop {
        let now = clock::now();
        let nap = propagator.poll_timeout().map_or(NAP_MAX, |at| at.since(now).min(NAP_MAX));
        let heard = match events.recv_timeout(nap) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let now = clock::now();
        match heard {
            Some(Event::Applied { file, record }) => propagator.on_update(now, file, record),
            Some(Event::Shared { file, version }) => propagator.on_shared(now, file, version),
            Some(Event::BackFetched { file, version }) => propagator.on_back_fetch(now, file, version),
            Some(Event::Stop) | None => {}
        }
        let Some(volume) = volume.upgrade().filter(|volume| !volume.is_stopped()) else { return };
        while let Some(due) = propagator.poll_send(now) {
            volume.step(Input::Propagate { file: due.file, version: due.version });
        }
    }
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
