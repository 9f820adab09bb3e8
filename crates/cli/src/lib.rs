//! The program `wayfs`: daemons and tools in one. It is a library, so that its readers of text can be fuzzed; `main.rs` is all of the program beside.
//!
//! `args` is what was typed, `config` what is used, `commands` has a file per command, `show` turns reports into text.

mod args;
mod commands;
mod config;
mod cores;
mod daemon;
mod dirs;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
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

/// Does what the command line says.
pub fn main() -> ExitCode {
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
