//! How many turns each machine has of what programs do: `WAYFS_PROGRAM_ROUNDS` says it.

use std::time::Duration;

/// Longest time for one turn on a busy machine.
const TURN: Duration = Duration::from_secs(20);

fn asked() -> Option<u32> {
    std::env::var("WAYFS_PROGRAM_ROUNDS").ok().and_then(|turns| turns.parse().ok())
}

/// How many turns, if usually there are so many.
pub fn turns(usual: u32) -> u32 {
    asked().unwrap_or(usual)
}

/// How long a program may be at work, if usually it may so long.
pub fn busy(usual: Duration) -> Duration {
    asked().map_or(usual, |turns| usual.max(TURN * turns))
}
