//! The program `wayfs`; all of it is in the library.

use std::process::ExitCode;

/// A few kilobytes that one thread makes and another drops, again and again: the system's allocator spends an eighth
/// of a small file's time on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wayfs_cli::main()
}
