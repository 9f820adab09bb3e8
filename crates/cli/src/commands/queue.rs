//! `wayfs queue`, once or again and again.

use super::{Context, unexpected, write_out};
use crate::args::{Output, QueueArgs};
use crate::failure::Failure;
use std::io::IsTerminal;
use std::time::Duration;
use wayfs_control::{Command, Done};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Clears a terminal and goes to its corner.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) fn run(context: &Context, args: &QueueArgs) -> Result<(), Failure> {
    let command = Command::Queue { volume: args.volume.clone(), limit: args.limit };
    let redraw = context.global.output() == Output::Text && std::io::stdout().is_terminal();
    loop {
        let done = context.call(context.connect(None)?, &command)?;
        let Done::Queue(_) = &done else { return Err(unexpected(&done)) };
        if args.watch && redraw {
            write_out(CLEAR)?;
        }
        context.print(&done)?;
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
}
