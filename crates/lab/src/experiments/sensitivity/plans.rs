//! Which lines, and which values of each parameter.

use super::knob::{Knob, Setting};
use super::on_a_mount::Promise;
use super::sweep::{Pace, Plan};
use crate::load::{Mix, Operation, SFS};
use crate::{Context, LabError};
use std::time::Duration;

/// A line that is as good as the emulator can make it: what it adds itself is in all numbers alike.
pub(super) const GOOD: Setting =
    Setting { latency_us: 0.0, overhead_us: 0.0, gap_us: 0.0, per_kb_us: 8.0, queue_len: 1 << 20 };
/// The wide area when it is not swept: the scenario `small-distance`, 15 ms and 4 Mb/s.
pub(super) const WIDE: Setting =
    Setting { latency_us: 15_000.0, overhead_us: 0.0, gap_us: 0.0, per_kb_us: 2000.0, queue_len: 64 * 1024 };

/// Operations that have to be safe elsewhere before they end: `fsync` after a write of up to 8 KiB, and after making a small file.
const SAFE: Mix = Mix::new(&[(Operation::Write, 4), (Operation::Create, 1)]);

/// Names of systems and views on them, as they are in legends and tables.
pub(super) const NFS_UDP: &str = "NFS/UDP";
pub(super) const NFS_TCP: &str = "NFS/TCP";
pub(super) const NEAR_CLOSED: &str = "near, programs";
pub(super) const NEAR_SAFE: &str = "near, safe writes";
pub(super) const FAR_CLOSED: &str = "far, programs";
pub(super) const FAR_SAFE: &str = "far, safe writes";

/// How long and how finely to measure. The setting `level_ms` changes how long each load lasts.
///
/// # Errors
/// [`LabError::Experiment`] if that is no number.
pub(super) fn pace(context: &Context<'_>) -> Result<Pace, LabError> {
    let pace = context.choose(
        Pace { level: Duration::from_millis(300), shares: &[0.2, 0.8], rounds: 2 },
        Pace { level: Duration::from_millis(1500), shares: &[0.1, 0.3, 0.5, 0.7, 0.85, 0.95], rounds: 3 },
    );
    let Some(typed) = context.setting("level_ms") else { return Ok(pace) };
    let level = typed.parse().map(Duration::from_millis);
    let level = level.map_err(|error| LabError::Experiment(format!("level_ms={typed}: {error}")))?;
    Ok(Pace { level, ..pace })
}

/// Whether a part is wanted: the setting `KEY` is absent, or names it among others.
pub(super) fn is_wanted(context: &Context<'_>, key: &str, part: &str) -> bool {
    context.setting(key).is_none_or(|typed| typed.split(',').any(|name| name == part))
}

/// Leaves out the parameters that the setting `parameters` does not name.
fn wanted(context: &Context<'_>, values: Vec<(Knob, Vec<f64>)>) -> Vec<(Knob, Vec<f64>)> {
    values.into_iter().filter(|(knob, _)| is_wanted(context, "parameters", knob.letter())).collect()
}

/// NFS over UDP, as in the paper: everything, over the line between client and server.
pub(super) fn nfs_udp(context: &Context<'_>) -> Plan {
    Plan { name: NFS_UDP, mix: SFS, base: GOOD, values: near_values(context) }
}

/// NFS over TCP: latency only, to see whether the transport matters.
pub(super) fn nfs_tcp(context: &Context<'_>) -> Plan {
    let values = near_values(context).into_iter().filter(|(knob, _)| *knob == Knob::Latency).collect();
    Plan { name: NFS_TCP, mix: SFS, base: GOOD, values }
}

/// WayFS with the line between client and station swept.
pub(super) fn near(context: &Context<'_>, promise: Promise) -> Plan {
    let (name, mix) = match promise {
        Promise::Closed => (NEAR_CLOSED, SFS),
        Promise::Safe => (NEAR_SAFE, SAFE),
    };
    Plan { name, mix, base: GOOD, values: near_values(context) }
}

/// WayFS with the line between station and home swept.
pub(super) fn far(context: &Context<'_>, promise: Promise) -> Plan {
    let (name, mix) = match promise {
        Promise::Closed => (FAR_CLOSED, SFS),
        Promise::Safe => (FAR_SAFE, SAFE),
    };
    let whole = vec![
        (Knob::Latency, vec![0.0, 15_000.0, 45_000.0, 100_000.0, 200_000.0]),
        (Knob::Overhead, vec![0.0, 500.0, 2000.0, 8000.0]),
        (Knob::Gap, vec![0.0, 1000.0, 4000.0, 16_000.0]),
        (Knob::GapPerByte, vec![800.0, 2000.0, 8000.0, 142_857.0]),
    ];
    let quick = vec![
        (Knob::Latency, vec![0.0, 50_000.0, 200_000.0]),
        (Knob::Overhead, vec![0.0, 4000.0]),
        (Knob::Gap, vec![0.0, 8000.0]),
        (Knob::GapPerByte, vec![800.0, 8000.0]),
    ];
    Plan { name, mix, base: WIDE, values: wanted(context, context.choose(quick, whole)) }
}

/// The range of the paper on a local network: latency up to 4 ms; rates down to 5 Mb/s.
fn near_values(context: &Context<'_>) -> Vec<(Knob, Vec<f64>)> {
    let whole = vec![
        (Knob::Latency, vec![0.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0]),
        (Knob::Overhead, vec![0.0, 100.0, 250.0, 500.0, 1000.0]),
        (Knob::Gap, vec![0.0, 100.0, 250.0, 500.0, 1000.0]),
        (Knob::GapPerByte, vec![8.0, 80.0, 320.0, 800.0, 1600.0]),
    ];
    let quick = vec![
        (Knob::Latency, vec![0.0, 1000.0, 4000.0]),
        (Knob::Overhead, vec![0.0, 500.0]),
        (Knob::Gap, vec![0.0, 500.0]),
        (Knob::GapPerByte, vec![8.0, 800.0]),
    ];
    wanted(context, context.choose(quick, whole))
}
