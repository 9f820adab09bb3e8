//! Calls in somebody's name, for as long as somebody waits.

use crate::fail::Fail;
use crate::users::Waiter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wayfs_nfs::WaitPolicy;
use wayfs_nfs::calls::Call;
use wayfs_nfs::live::SharedCaller;
use wayfs_nfs::operations::{Calls, jukebox_pause};
use wayfs_nfs::rpc::Credentials;

/// Between two looks at whether the wait is over.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Makes calls for one request.
pub(crate) struct Asker<'a> {
    pub(crate) caller: &'a SharedCaller,
    pub(crate) who: Arc<Credentials>,
    pub(crate) waiter: Waiter,
    /// The mount ends, and nothing is waited for any more.
    pub(crate) is_ending: &'a AtomicBool,
}

impl Asker<'_> {
    /// Whether the wait is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed) || self.waiter.is_over(self.caller.silence())
    }
}

impl Calls for Asker<'_> {
    type Error = Fail;

    fn call(&mut self, call: &Call) -> Result<(Vec<u8>, u32), Fail> {
        Ok(self.caller.call(call.clone(), &self.who, &|| self.is_over())?)
    }

    fn wait_for_jukebox(&mut self, times: u32) -> Result<bool, Fail> {
        if matches!(self.caller.wait_policy(), WaitPolicy::Soft(most) if times >= most) {
            return Ok(false);
        }
        let end = Instant::now() + jukebox_pause(times);
        while Instant::now() < end {
            // The server answers, so its silence says nothing here: a signal does.
            if self.is_ending.load(Ordering::Relaxed) || self.waiter.is_over(Duration::MAX) {
                return Err(Fail(wayfs_fuse::Errno::INTR));
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(true)
    }
}
