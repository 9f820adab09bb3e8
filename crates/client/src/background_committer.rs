//! Once a second: commits old writes of open files, lets second copies of what is safe go, and those of what is removed, and tells listeners
//! how far updates came.

use crate::events::Events;
use crate::labels::Labels;
use crate::vfs::Vfs;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wayfs_node::{LiveReplica, ParentLink, Volume};

/// Pause between looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The same while somebody listens to events.
const HEARD_PERIOD: Duration = Duration::from_millis(100);
/// Pause between looks for contents of what is removed.
const REMOVED_PERIOD: Duration = Duration::from_secs(60);
/// Conflicts whose writers are asked for.
const CONFLICTS_MAX: usize = 1000;

/// The thread; dropping it ends it.
pub(crate) struct BackgroundCommitter {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundCommitter {
    pub(crate) fn start(
        vfs: &Arc<Vfs>,
        volume: &Arc<Volume>,
        events: &Arc<Events>,
        (link, labels): (Arc<ParentLink>, Arc<Labels>),
    ) -> std::io::Result<Self> {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (stopping, vfs, volume, events) =
            (Arc::clone(&stop), Arc::clone(vfs), Arc::clone(volume), Arc::clone(events));
        let thread = std::thread::Builder::new().name("committer".into()).spawn(move || {
            let mut next = Instant::now();
            let mut next_removed = next + REMOVED_PERIOD;
            while !rest(&stopping, if events.is_heard() { HEARD_PERIOD } else { PERIOD }) {
                events.tell_levels(&volume);
                if Instant::now() < next {
                    continue;
                }
                next = Instant::now() + PERIOD;
                vfs.commit_aged();
                vfs.let_go_written();
                if Instant::now() >= next_removed {
                    next_removed = Instant::now() + REMOVED_PERIOD;
                    vfs.let_go_removed();
                }
                let progress = volume.look(LiveReplica::progress);
                if progress.is_some_and(|progress| progress.connected && progress.conflicts_open > 0) {
                    learn_writers(&volume, &link, &labels);
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Who met is asked while somebody is there to ask: reports are read offline, too.
fn learn_writers(volume: &Volume, link: &ParentLink, labels: &Labels) {
    let open = volume.look(|replica| replica.conflicts(None, CONFLICTS_MAX)).and_then(Result::ok).unwrap_or_default();
    labels.learn(link, &volume.settings().runtime, wayfs_admin::conflicts::writers(&open));
}

/// Sleeps for a period; answers whether to end.
fn rest((is_stopping, changed): &(Mutex<bool>, Condvar), period: Duration) -> bool {
    let guard = is_stopping.lock().unwrap_or_else(PoisonError::into_inner);
    if *guard {
        return true;
    }
    *changed.wait_timeout(guard, period).unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for BackgroundCommitter {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the committer panicked");
        }
    }
}
