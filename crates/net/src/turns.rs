//! Which of several bodies goes first.
//!
//! Bodies of one priority that shared the line packet by packet would all end at the same time. Whoever asks for the next one when
//! one has come would then ask for all of them at once, and a long line would be idle for a round trip each time. So they go **one
//! after the other**, in turns of a [`QUANTUM`]: a chunk is one turn, and a longer body goes on behind those that began meanwhile. A
//! **short** body is not kept waiting by long ones: it goes as if it had begun [`HEAD_START`] turns earlier, and no further ahead,
//! so that many short ones do not keep a long one waiting for ever.

use crate::priority::Priority;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a turn: the longest chunk.
pub(crate) const QUANTUM: u64 = 1 << 20;
/// The longest short body, in bytes.
const SHORT: u64 = 64 << 10;
const HEAD_START: u32 = 64;
/// Turns that can be told apart; what comes later goes as the last of them, packet by packet. That is a pebibyte.
const TURNS: u32 = 1 << 29;

/// Counts the turns of one connection.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU32);

impl Turns {
    /// The priority of the stream of a body of this length for its next turn. It is below that of the stream's header.
    pub(crate) fn take(&self, priority: Priority, len: u64) -> i32 {
        let turn =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |turn| Some(turn.saturating_add(1).min(TURNS)));
        let turn = turn.unwrap_or(TURNS);
        let place = if len <= SHORT { turn } else { turn + HEAD_START };
        priority.of_stream() - 1 - i32::try_from(place).unwrap_or(i32::MAX / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_began_first_goes_first() {
        let turns = Turns::default();
        let (first, second) = (turns.take(Priority::Foreground, QUANTUM), turns.take(Priority::Foreground, QUANTUM));
        assert!(first > second && first < Priority::Foreground.of_stream());
    }

    #[test]
    fn a_short_body_passes_long_ones_and_not_for_ever() {
        let turns = Turns::default();
        let long = turns.take(Priority::Foreground, QUANTUM);
        assert!(turns.take(Priority::Foreground, 4096) > long);
        let last = (0..HEAD_START).map(|_| turns.take(Priority::Foreground, 4096)).last();
        assert!(last.is_some_and(|last| last < long));
    }

    #[test]
    fn what_somebody_waits_for_goes_first_whenever_it_began() {
        let turns = Turns::default();
        let background = turns.take(Priority::Background, 1);
        turns.0.store(TURNS, Ordering::Relaxed);
        let foreground = turns.take(Priority::Foreground, QUANTUM);
        assert!(foreground > Priority::Background.of_stream() && foreground > background);
        assert_eq!(foreground, turns.take(Priority::Foreground, QUANTUM), "there are no more");
        assert!(turns.take(Priority::Background, QUANTUM) < background);
    }
}
