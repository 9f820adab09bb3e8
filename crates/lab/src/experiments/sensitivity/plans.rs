//! Which lines, and which values of each parameter.

use super::knob::{Knob, Setting};
use super::on_a_mount::Promise;
use super::sweep::{Extent, Pace, Plan};
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
/// Reads of files that nobody has read.
const COLD: Mix = Mix::new(&[(Operation::Read, 1)]);

/// Names of systems and views on them, as they are in legends and tables.
pub(super) const NFS_UDP: &str = "NFS/UDP";
pub(super) const NFS_TCP: &str = "NFS/TCP";
pub(super) const NEAR_CLOSED: &str = "near, programs";
pub(super) const NEAR_SAFE: &str = "near, safe writes";
pub(super) const FAR_CLOSED: &str = "far, programs";
pub(super) const FAR_SAFE: &str = "far, safe writes";
pub(super) const FAR_COLD: &str = "far, cold reads";

/// Cold reads offered per second, one at a time: each takes a file that cannot be used again.
const COLD_RATE: f64 = 20.0;
/// How long they are offered: of those that wait for the farthest home some are still to count.
const COLD_LEVEL: Duration = Duration::from_secs(2);

/// How finely parameters and loads are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Density {
    /// To see that it works.
    Quick,
    /// What slopes and knees need: values on both sides of each knee and at both ends of the range.
    Usual,
    /// Values and loads between those, and longer, for smooth curves: three times the time.
    Dense,
}

/// As the setting `dense` says.
fn density(context: &Context<'_>) -> Density {
    let whole = if context.setting("dense") == Some("true") { Density::Dense } else { Density::Usual };
    context.choose(Density::Quick, whole)
}

/// How long and how finely to measure. The setting `level_ms` changes how long each load lasts.
///
/// # Errors
/// [`LabError::Experiment`] if that is no number.
pub(super) fn pace(context: &Context<'_>) -> Result<Pace, LabError> {
    let pace = match density(context) {
        Density::Quick => Pace { level: Duration::from_millis(300), shares: &[0.2, 0.8], rounds: 2 },
        Density::Usual => Pace { level: Duration::from_millis(1000), shares: &[0.3, 0.7, 0.9], rounds: 3 },
        Density::Dense => {
            Pace { level: Duration::from_millis(1500), shares: &[0.1, 0.3, 0.5, 0.7, 0.85, 0.95], rounds: 3 }
        }
    };
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
    Plan { name: NFS_UDP, mix: SFS, base: GOOD, values: near_values(context), extent: Extent::Curve }
}

/// NFS over TCP: latency only, to see whether the transport matters.
pub(super) fn nfs_tcp(context: &Context<'_>) -> Plan {
    let values = near_values(context).into_iter().filter(|(knob, _)| *knob == Knob::Latency).collect();
    Plan { name: NFS_TCP, mix: SFS, base: GOOD, values, extent: Extent::Curve }
}

/// WayFS with the line between client and station swept.
pub(super) fn near(context: &Context<'_>, promise: Promise) -> Plan {
    let (name, mix) = match promise {
        Promise::Closed => (NEAR_CLOSED, SFS),
        Promise::Safe => (NEAR_SAFE, SAFE),
    };
    Plan { name, mix, base: GOOD, values: near_values(context), extent: Extent::Curve }
}

/// WayFS with the line between station and home swept.
pub(super) fn far(context: &Context<'_>, promise: Promise) -> Plan {
    let (name, mix) = match promise {
        Promise::Closed => (FAR_CLOSED, SFS),
        Promise::Safe => (FAR_SAFE, SAFE),
    };
    Plan { name, mix, base: WIDE, values: far_values(context), extent: Extent::Curve }
}

/// The same with reads of what only the home has: latency only, for each read uses up a file.
pub(super) fn far_cold(context: &Context<'_>) -> Plan {
    let values = far_values(context).into_iter().filter(|(knob, _)| *knob == Knob::Latency).collect();
    let extent = Extent::Alone { rate: COLD_RATE, duration: COLD_LEVEL };
    Plan { name: FAR_COLD, mix: COLD, base: WIDE, values, extent }
}

/// Files that all cold reads of a run need, and as many again, for arrivals are at random.
pub(super) fn cold_files(plan: &Plan, rounds: usize) -> usize {
    let curves = plan.values.iter().map(|(_, values)| values.len()).sum::<usize>() * rounds;
    2 * curves * (COLD_RATE * COLD_LEVEL.as_secs_f64()).ceil() as usize
}

/// From a home next door to one on the other side of the world, and a rate down to a modem's.
fn far_values(context: &Context<'_>) -> Vec<(Knob, Vec<f64>)> {
    let values = match density(context) {
        Density::Quick => vec![
            (Knob::Latency, vec![0.0, 50_000.0, 200_000.0]),
            (Knob::Overhead, vec![0.0, 4000.0]),
            (Knob::Gap, vec![0.0, 8000.0]),
            (Knob::GapPerByte, vec![800.0, 8000.0]),
        ],
        Density::Usual => vec![
            (Knob::Latency, vec![0.0, 45_000.0, 100_000.0, 200_000.0]),
            (Knob::Overhead, vec![0.0, 2000.0, 8000.0]),
            (Knob::Gap, vec![0.0, 4000.0, 16_000.0]),
            (Knob::GapPerByte, vec![800.0, 8000.0, 142_857.0]),
        ],
        Density::Dense => vec![
            (Knob::Latency, vec![0.0, 15_000.0, 45_000.0, 100_000.0, 200_000.0]),
            (Knob::Overhead, vec![0.0, 500.0, 2000.0, 8000.0]),
            (Knob::Gap, vec![0.0, 1000.0, 4000.0, 16_000.0]),
            (Knob::GapPerByte, vec![800.0, 2000.0, 8000.0, 142_857.0]),
        ],
    };
    wanted(context, values)
}

/// The range of the paper on a local network: latency up to 4 ms; rates down to 5 Mb/s.
fn near_values(context: &Context<'_>) -> Vec<(Knob, Vec<f64>)> {
    let values = match density(context) {
        Density::Quick => vec![
            (Knob::Latency, vec![0.0, 1000.0, 4000.0]),
            (Knob::Overhead, vec![0.0, 500.0]),
            (Knob::Gap, vec![0.0, 500.0]),
            (Knob::GapPerByte, vec![8.0, 800.0]),
        ],
        Density::Usual => vec![
            (Knob::Latency, vec![0.0, 500.0, 1000.0, 4000.0]),
            (Knob::Overhead, vec![0.0, 250.0, 500.0, 1000.0]),
            (Knob::Gap, vec![0.0, 100.0, 250.0, 1000.0]),
            (Knob::GapPerByte, vec![8.0, 80.0, 320.0, 1600.0]),
        ],
        Density::Dense => vec![
            (Knob::Latency, vec![0.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0]),
            (Knob::Overhead, vec![0.0, 100.0, 250.0, 500.0, 1000.0]),
            (Knob::Gap, vec![0.0, 100.0, 250.0, 500.0, 1000.0]),
            (Knob::GapPerByte, vec![8.0, 80.0, 320.0, 800.0, 1600.0]),
        ],
    };
    wanted(context, values)
}
