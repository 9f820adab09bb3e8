//! Once a second: commits old writes of open files, lets second copies of what is safe go, and those of what is removed, and tells listeners
//! how far updates came. While no file is open and nobody listens, it rests.

use crate::events::Events;
use crate::fs::FileSystem;
use crate::labels::Labels;
use crate::stir::Stir;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wayfs_node::{LiveReplica, ParentLink, Volume};

/// Pause between looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The same while somebody listens to events.
const HEARD_PERIOD: Duration = Duration::from_millis(100);
/// The same while nothing is open: a file that is opened ends it.
const REST_PERIOD: Duration = Duration::from_secs(10);
/// Pause between looks for contents of what is removed.
const REMOVED_PERIOD: Duration = Duration::from_secs(60);
/// Conflicts whose writers are asked for.
const CONFLICTS_MAX: usize = 1000;

/// The thread; dropping it ends it.
pub(crate) struct BackgroundCommitter {
    stir: Arc<Stir>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundCommitter {
    pub(crate) fn start(
        fs: &Arc<FileSystem>,
        volume: &Arc<Volume>,
        events: &Arc<Events>,
        (link, labels): (Arc<ParentLink>, Arc<Labels>),
    ) -> std::io::Result<Self> {
        let stir = Arc::clone(fs.files().stir());
        let (stirring, fs, volume, events) =
            (Arc::clone(&stir), Arc::clone(fs), Arc::clone(volume), Arc::clone(events));
        let thread = std::thread::Builder::new().name("committer".into()).spawn(move || {
            let mut next = Instant::now();
            let mut next_removed = next + REMOVED_PERIOD;
            while !rest(&stirring, &fs, &events) {
                events.tell_levels(&volume);
                if Instant::now() < next {
                    continue;
                }
                next = Instant::now() + PERIOD;
                fs.commit_aged();
                fs.let_go_copies();
                if Instant::now() >= next_removed {
                    next_removed = Instant::now() + REMOVED_PERIOD;
                    fs.let_go_removed();
                }
                let progress = volume.look(LiveReplica::progress);
                if progress.is_some_and(|progress| progress.connected && progress.conflicts_open > 0) {
                    learn_writers(&volume, &link, &labels);
                }
            }
        })?;
        Ok(Self { stir, thread: Some(thread) })
    }
}

/// Who met is asked while somebody is there to ask: reports are read offline, too.
fn learn_writers(volume: &Volume, link: &ParentLink, labels: &Labels) {
    let open = volume.look(|replica| replica.conflicts(None, CONFLICTS_MAX)).and_then(Result::ok).unwrap_or_default();
    labels.learn(link, &volume.settings().runtime, wayfs_admin::conflicts::writers(&open));
}

/// Sleeps until the next look; answers whether to end.
fn rest(stir: &Stir, fs: &FileSystem, events: &Events) -> bool {
    if events.is_heard() {
        return stir.sleep(HEARD_PERIOD..=HEARD_PERIOD);
    }
    stir.sleep(PERIOD..=if fs.files().is_at_rest() { REST_PERIOD } else { PERIOD })
}

impl Drop for BackgroundCommitter {
    fn drop(&mut self) {
        self.stir.end();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the committer panicked");
        }
    }
}
