//! `wayfs scrub`: exit code 0 says that all contents kept there are sound by now.

use super::{Context, unexpected};
use crate::args::ScrubArgs;
use crate::failure::{Exit, Failure};
use crate::locate::{self, Wanted};
use std::path::PathBuf;
use wayfs_control::{Command, Done};

pub(crate) fn run(context: &Context, args: ScrubArgs) -> Result<(), Failure> {
    let (at, volume) = match args.what {
        Some(what) if what.contains('/') || std::path::Path::new(&what).exists() => (Some(PathBuf::from(what)), None),
        what => (context.global.at.clone(), what),
    };
    let client = locate::connect(&context.registry, &Wanted { at, kind: None })?;
    let done = context.call(client, &Command::Scrub { volume })?;
    let Done::Scrubbed(report) = &done else { return Err(unexpected(&done)) };
    context.print(&done)?;
    let lost: u64 = report.volumes.iter().map(|volume| volume.found.lost).sum();
    if lost > 0 {
        let next =
            "Whoever has them and is away is waited for: `wayfs status` and `wayfs conflicts list` at the home tell.";
        return Err(Failure::new(Exit::NotTrue, format_args!("nobody who is reached has {lost} damaged chunks"), next));
    }
    if report.volumes.iter().any(|volume| !volume.found.is_sound()) {
        let next = "Connect, or make room, and give the command again.";
        return Err(Failure::new(Exit::NotTrue, "damaged chunks could not be fetched anew at the moment", next));
    }
    Ok(())
}
