//! The program `wayfs`: daemons and tools in one.
//!
//! `args` is what was typed, `config` what is used, `commands` has a file per command, `show` turns reports into text.

mod args;
mod commands;
mod config;
mod cores;
mod daemon;
mod dirs;
mod failure;
mod label;
mod locate;
mod logging;
mod panics;
mod people;
mod progress;
mod sd_notify;
mod show;
mod signals;

use args::{Args, Output};
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

/// A few kilobytes that one thread makes and another drops, again and again: the system's allocator spends an eighth
/// of a small file's time on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let output = args.output();
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = match output {
                Output::Json => failure.to_json(),
                Output::Text => failure.to_text(),
            };
            // A closed standard error is no reason to fail differently.
            let _ = writeln!(std::io::stderr(), "{text}");
            daemon::report_failure(&failure);
            failure.exit.into()
        }
    }
}
