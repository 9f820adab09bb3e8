//! `wayfs sync`: exit code 0 says that it is true.

use super::{Context, unexpected};
use crate::args::SyncArgs;
use crate::failure::{Exit, Failure};
use wayfs_control::{Command, Done};

pub(crate) fn run(context: &Context, args: SyncArgs) -> Result<(), Failure> {
    let (client, path) = match &args.path {
        Some(path) => {
            let (client, inside) = context.connect_for(None, path)?;
            // The root means everything, which also covers what has no name any more.
            (client, Some(inside).filter(|p| !p.as_os_str().is_empty()))
        }
        None => (context.connect(None)?, None),
    };
    let timeout_ms = args.timeout.map(|seconds| seconds.saturating_mul(1000));
    let command = Command::Sync { volume: args.volume, path, until: args.until.into(), timeout_ms };
    let done = context.call(client, &command)?;
    let Done::Sync(report) = &done else { return Err(unexpected(&done)) };
    context.print(&done)?;
    if report.reached {
        return Ok(());
    }
    if report.lost > 0 && report.remaining_items == 0 {
        return Err(Failure::new(Exit::NotTrue, "something is lost", wayfs_control::LOST_NEXT));
    }
    Err(Failure::new(Exit::NotTrue, "it is not so far", "`wayfs queue` shows what waits and why."))
}
