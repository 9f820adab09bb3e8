//! What peers make of a line: their server is at the home, the client at the site, the station only routes.

use super::super::noise::write_noise;
use super::ours::read;
use super::{Extent, Line, PATIENCE, Transfer, Tried, Way};
use crate::experiments::noise::Noise;
use crate::peers::{Peer, PeerServer};
use crate::{Context, LabError, LinePlan, Sites, SitesPlan};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the server is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// On one line, each trial with a new mount, whose caches are empty.
pub(super) fn measure(
    context: &mut Context<'_>,
    peer: &dyn Peer,
    line: Line,
    extent: &Extent,
) -> Result<Tried, LabError> {
    let len = line.bytes_in(extent.milliseconds);
    let plan = SitesPlan { wide: vec![line.plan()?], local: LinePlan::default(), ..SitesPlan::profiles(&[])? };
    let part = format!("{} {}", peer.name(), line.name);
    let sites = Sites::network(context, &part, context.seed(), plan)?;
    let mut server = peer.serve(&sites)?;
    let mut tried = Tried { who: peer.name(), ..Tried::default() };
    for trial in 0..extent.trials {
        let seed = context.seed() + 2 * trial as u64;
        let (up, down) = (format!("up-{trial}"), format!("down-{trial}"));
        write_noise(&server.tree().join(&down), Noise { seed: seed + 1, len })?;
        let mount = server.mount(&sites, 0)?;
        tried.ways[Way::Up.index()].push(write(&*server, mount.at(), &up, Noise { seed, len })?);
        tried.ways[Way::Down.index()].push(read(&mount.at().join(&down), len)?);
    }
    drop(server);
    sites.finish(context, &part);
    Ok(tried)
}

/// From the first byte written until the server has as many.
fn write(server: &dyn PeerServer, mount: &Path, name: &str, noise: Noise) -> Result<Transfer, LabError> {
    let start = Instant::now();
    write_noise(&mount.join(name), noise)?;
    let there = server.tree().join(name);
    while std::fs::metadata(&there).map_or(0, |metadata| metadata.len()) < noise.len {
        if start.elapsed() > PATIENCE {
            return Err(LabError::TimedOut { what: format!("{name} at the server"), within: PATIENCE });
        }
        std::thread::sleep(LOOK);
    }
    Ok(Transfer { took: start.elapsed(), len: noise.len, notes: Vec::new() })
}
