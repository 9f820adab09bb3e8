//! News of contents for the engine, told together: what one sync made durable is one step, not one for each content.
//!
//! ```text
//!   content durable here ──┐                  ┌── ContentsHere ─▶ engine
//!   content at the parent ─┴─▶ (a moment) ────┴── Pushed ───────▶ engine
//! ```

use crate::volume::Volume;
use std::sync::{Mutex, PoisonError};
use wayfs_proto::Input;
use wayfs_types::{RecordId, Top};

/// Most that one step tells: others wait for the lock meanwhile.
const TOGETHER_MAX: usize = 1024;

/// What the engine has not heard yet. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    here: Vec<Top>,
    pushed: Vec<RecordId>,
    /// Somebody is about to tell.
    is_on_its_way: bool,
}

impl News {
    /// Adds to it. Answers whether the caller is to see to it that it is told.
    fn add(&self, add: impl FnOnce(&mut Untold)) -> bool {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut untold);
        !std::mem::replace(&mut untold.is_on_its_way, true)
    }

    fn take(&self) -> Untold {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Volume {
    /// A content is durable here. The engine hears of it within a moment, unless this process ends before: then it is asked
    /// for again in the next session.
    pub(crate) fn note_here(&self, top: Top) {
        self.note(|untold| untold.here.push(top));
    }

    /// A version that was pushed is durable at the parent. The engine hears of it in the same way.
    pub(crate) fn note_pushed(&self, version: RecordId) {
        self.note(|untold| untold.pushed.push(version));
    }

    fn note(&self, add: impl FnOnce(&mut Untold)) {
        if !self.news.add(add) {
            return;
        }
        let volume = self.me.clone();
        self.settings.runtime.spawn(async move {
            // Whoever the same sync woke, or the same packet, comes before.
            tokio::task::yield_now().await;
            if let Some(volume) = volume.upgrade() {
                volume.tell_news();
            }
        });
    }

    fn tell_news(&self) {
        let Untold { here, pushed, .. } = self.news.take();
        for tops in here.chunks(TOGETHER_MAX) {
            self.step(Input::ContentsHere { tops: tops.to_vec() });
        }
        for versions in pushed.chunks(TOGETHER_MAX) {
            self.step(Input::Pushed { versions: versions.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_first_tells_it_for_all() {
        let news = News::default();
        let top = |n: u8| Top { root: wayfs_types::Digest::of(&[n]), depth: 0 };
        assert!(news.add(|untold| untold.here.push(top(1))));
        assert!(!news.add(|untold| untold.here.push(top(2))), "somebody is on the way");
        let told = news.take();
        assert_eq!(told.here, [top(1), top(2)]);
        assert!(news.add(|untold| untold.here.push(top(3))), "what comes behind that is told by another");
        assert_eq!(news.take().here, [top(3)]);
    }
}
