//! Where a panic stops: at the border of one command.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IN_COMMAND: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread carries out a tool's command: a panic hook that ends the process spares it then.
pub fn is_in_command() -> bool {
    IN_COMMAND.with(Cell::get)
}

/// Runs a command; a panic in it is its caller's to report.
///
/// # Errors
/// What the command panicked with.
pub fn catch_in_command<T>(command: impl FnOnce() -> T) -> std::thread::Result<T> {
    let before = IN_COMMAND.with(|inside| inside.replace(true));
    let outcome = catch_unwind(AssertUnwindSafe(command));
    IN_COMMAND.with(|inside| inside.set(before));
    outcome
}
