//! Waiting until everything has come so far.

use super::failed::failed;
use crate::served::Served;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_admin::below::{each_file, is_at};
use wayfs_admin::elapsed_ms;
use wayfs_admin::queue::each_record;
use wayfs_control::report::{AmountReport, SyncReport};
use wayfs_control::{ControlError, ErrorKind, Progress, Sink};
use wayfs_node::paths::is_below;
use wayfs_proto::{ContentWaiting, Input};
use wayfs_types::request::Level;

/// How often a command that waits looks whether its caller is still there.
pub(super) const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Contents asked of the engine at once.
const PAGE: usize = 256;
/// Most losses that are looked through.
const LOST_MAX: usize = 65_536;
/// How often a station is told again to send what it has: more may have come to it meanwhile. To tell it costs a look at each.
const SEND_PERIOD: Duration = Duration::from_secs(5);

/// What is waited for.
pub(super) struct Args {
    pub(super) path: Option<PathBuf>,
    pub(super) until: Level,
    pub(super) timeout_ms: Option<u64>,
}

/// What is not so far yet.
#[derive(Default, Clone, Copy)]
struct Left {
    items: u64,
    bytes: u64,
}

pub(super) fn run(volumes: &[Arc<Served>], args: &Args, out: &mut dyn Sink) -> Result<SyncReport, ControlError> {
    let started = Instant::now();
    let end = args.timeout_ms.map(|ms| started + Duration::from_millis(ms));
    let mut first: Option<Left> = None;
    let mut send_at = started;
    loop {
        if args.until == Level::Stable && Instant::now() >= send_at {
            volumes.iter().try_for_each(|served| propagate_all(served))?;
            send_at = Instant::now() + SEND_PERIOD;
        }
        let left = left(volumes, args)?;
        let total = first.get_or_insert(left);
        if left.items == 0 && left.bytes == 0 {
            let lost = lost(volumes, args)?;
            let reason = if lost > 0 { wayfs_control::lost_text(lost) } else { String::new() };
            return Ok(SyncReport { lost, reached: lost == 0, ..report(args, started, left, reason) });
        }
        let progress = Progress {
            what: "sending to the home".into(),
            done_bytes: total.bytes.saturating_sub(left.bytes),
            total_bytes: total.bytes,
            done_items: total.items.saturating_sub(left.items),
            total_items: total.items,
        };
        if out.progress(&progress).is_err() || out.is_gone() {
            return Ok(report(args, started, left, "the caller left".into()));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            let away =
                volumes.iter().any(|served| served.link.as_ref().is_some_and(|link| link.status().rtt.is_none()));
            let why = if away { "the home is not reached" } else { "it takes longer than allowed" };
            return Ok(report(args, started, left, why.into()));
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

fn report(args: &Args, started: Instant, left: Left, reason: String) -> SyncReport {
    SyncReport {
        reached: left.items == 0 && left.bytes == 0,
        until: args.until,
        remaining_items: left.items,
        remaining_bytes: left.bytes,
        lost: 0,
        elapsed_ms: elapsed_ms(started),
        reason,
    }
}

/// What was declared lost counts for nothing that is left, and is neither safe nor stable.
fn lost(volumes: &[Arc<Served>], args: &Args) -> Result<u64, ControlError> {
    let mut sum = 0;
    for served in volumes {
        let lost = served.volume.look(|replica| replica.lost_contents(LOST_MAX));
        let lost =
            lost.ok_or_else(|| failed("sync", "the volume has stopped"))?.map_err(|error| failed("sync", error))?;
        sum += lost.iter().filter(|one| is_at(one.path.as_deref(), args.path.as_deref())).count() as u64;
    }
    Ok(sum)
}

fn left(volumes: &[Arc<Served>], args: &Args) -> Result<Left, ControlError> {
    let mut sum = Left::default();
    for served in volumes {
        let gone = || failed("sync", "the volume has stopped");
        if let Some(path) = &args.path {
            let below = left_below(served, path, args.until)?;
            sum.items += below.items;
            sum.bytes += below.bytes;
            continue;
        }
        if served.volume.look(|_| ()).is_none() {
            return Err(gone());
        }
        let ledger = super::ledger::of(served);
        let not_safe = ledger.not_safe.unwrap_or(ledger.home_lacks);
        let amount = match args.until {
            // What a server was told of is durable here: only contents on their way to it are not.
            Level::Modified => continue,
            Level::Safe => not_safe,
            Level::Visible => AmountReport { records: ledger.station_amount().records, ..not_safe },
            Level::Stable => ledger.home_lacks,
        };
        sum.items += amount.records.max(amount.versions);
        sum.bytes += amount.bytes;
    }
    Ok(sum)
}

/// What is not so far at and below a path: files that are there, and names that were taken away.
fn left_below(served: &Served, path: &Path, until: Level) -> Result<Left, ControlError> {
    let mut left = Left::default();
    let is_there = each_file(&served.volume, path, |replica, file, inode| {
        if replica.level(file)?.is_some_and(|level| !level.facts.reached(until)) {
            left.items += 1;
            left.bytes += inode.content.size();
        }
        Ok(())
    })?;
    if !is_there {
        let message = format!("{} is not there", path.display());
        return Err(ControlError::new(ErrorKind::NotFound, message, "Give the path from the volume's root."));
    }
    each_record(&served.volume, |item| {
        let is_below = || served.volume.look(|replica| is_below(replica, &item.record, path)).unwrap_or(true);
        left.items += u64::from(!item.facts.reached(until) && is_below());
        true
    })?;
    Ok(left)
}

/// Asks a station to send all contents that its home lacks: each by its own name, be it that its file shows newer ones.
fn propagate_all(served: &Served) -> Result<(), ControlError> {
    if served.is_home() {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = served.volume.look(|replica| replica.contents_waiting(after, PAGE));
        let page =
            page.ok_or_else(|| failed("sync", "the volume has stopped"))?.map_err(|error| failed("sync", error))?;
        let last = page.last().map(|waiting| waiting.version);
        for ContentWaiting { file, version, .. } in page {
            served.volume.step(Input::Propagate { file, version });
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}
