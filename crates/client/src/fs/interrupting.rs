//! Ending the wait of an operation whose caller got a signal; see [`super::signals`].

use super::core::FileSystem;
use super::ids::Token;
use super::pending::Told;
use super::signals::is_asked_to_end;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a caller is looked at that goes on waiting after a signal.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

impl FileSystem {
    /// The caller of a request got a signal.
    pub(crate) fn signalled(self: &Arc<Self>, token: Token) {
        if self.pending.signalled(token, &*self.engine) == Told::First {
            let fs = Arc::downgrade(self);
            let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(move || watch(&fs));
            if let Err(error) = spawned {
                tracing::warn!(%error, "no thread looks for signals: all that were signalled are interrupted");
                self.pending.interrupt_signalled(&*self.engine, |_| true);
            }
        }
    }
}

/// Looks at those who go on waiting, as long as there are any.
fn watch(fs: &Weak<FileSystem>) {
    loop {
        std::thread::sleep(LOOK_PERIOD);
        let Some(fs) = fs.upgrade() else { return };
        if !fs.pending.interrupt_signalled(&*fs.engine, is_asked_to_end) {
            return;
        }
    }
}
