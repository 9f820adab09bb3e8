//! A connection's timer that is seldom set anew.
//!
//! With each packet that is sent or acknowledged a connection's next deadline moves: near while something is under way, far
//! when nothing is. To set tokio's timer earlier wakes the thread that waits for it, which is the network's: a wake-up
//! for each message, beside the one that brings it. So a deadline that moves away leaves the timer where it is; it
//! fires early once, and is set then. Whoever exchanges messages all the time sets it every few milliseconds, not twice for
//! each.

use quinn::AsyncTimer;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

#[derive(Debug)]
pub(crate) struct PatientTimer {
    deadline: Instant,
    /// Set to the deadline or earlier.
    sleep: Pin<Box<Sleep>>,
}

impl PatientTimer {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(deadline: Instant) -> Self {
        Self { deadline, sleep: Box::pin(sleep_until(deadline.into())) }
    }
}

impl AsyncTimer for PatientTimer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.deadline = deadline;
        if deadline < self.sleep.deadline().into_std() {
            Sleep::reset(self.sleep.as_mut(), deadline.into());
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while Future::poll(self.sleep.as_mut(), cx).is_ready() {
            if self.deadline <= tokio::time::Instant::now().into_std() {
                return Poll::Ready(());
            }
            let deadline = self.deadline;
            Sleep::reset(self.sleep.as_mut(), deadline.into());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    async fn fires_after(timer: &mut Pin<Box<PatientTimer>>) -> Duration {
        let begin = tokio::time::Instant::now();
        poll_fn(|cx| AsyncTimer::poll(timer.as_mut(), cx)).await;
        begin.elapsed()
    }

    fn at(ms: u64) -> Instant {
        (tokio::time::Instant::now() + Duration::from_millis(ms)).into_std()
    }

    #[tokio::test(start_paused = true)]
    async fn it_fires_at_its_deadline_wherever_that_was_moved() {
        let mut timer = Box::pin(PatientTimer::new(at(100)));
        timer.as_mut().reset(at(5000));
        assert_eq!(timer.sleep.deadline(), tokio::time::Instant::now() + Duration::from_millis(100), "left as it was");
        let took = fires_after(&mut timer).await;
        assert!((5000..5003).contains(&took.as_millis()), "{took:?}");
        timer.as_mut().reset(at(50));
        let took = fires_after(&mut timer).await;
        assert!((50..53).contains(&took.as_millis()), "{took:?}");
        timer.as_mut().reset(at(5000));
        timer.as_mut().reset(at(20));
        let took = fires_after(&mut timer).await;
        assert!((20..23).contains(&took.as_millis()), "{took:?}");
    }
}
