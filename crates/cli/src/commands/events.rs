//! `wayfs events`: JSON lines until interrupted or the daemon ends.

use super::{Context, to_json, write_out};
use crate::args::{EventsArgs, Output};
use crate::failure::Failure;
use crate::show;
use std::io::Write;
use wayfs_control::{Command, Event, EventsWanted, Reply, Watch};

pub(crate) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    let (client, below) = match &args.path {
        Some(path) => context.connect_for(None, path).map(|(client, path)| (client, Some(path)))?,
        None => (context.connect(None)?, None),
    };
    let wanted = EventsWanted { since_unix_ms: args.since, below, kept_only: args.kept_only };
    let output = if args.text { Output::Text } else { Output::Json };
    let mut reader_left = false;
    let ended = client.call(&Command::Events(wanted), &mut |reply| {
        let Reply::Event(event) = reply else { return Watch::GoOn };
        match print(event, output) {
            Ok(()) => Watch::GoOn,
            Err(_) => {
                reader_left = true;
                Watch::Stop
            }
        }
    });
    match ended {
        _ if reader_left => Ok(()),
        Ok(_) => write_out(""),
        Err(error) => Err(error.into()),
    }
}

fn print(event: &Event, output: Output) -> std::io::Result<()> {
    let line = match output {
        Output::Text => show::event(event),
        Output::Json => to_json(event).map(|v| v.to_string()).unwrap_or_default(),
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush())
}
