//! What was expected, and in words what the numbers say.

use super::knob::Knob;
use super::plans::{FAR_CLOSED, FAR_COLD, FAR_SAFE, NEAR_CLOSED, NEAR_SAFE, NFS_TCP, NFS_UDP};
use super::rows::{PUBLISHED_SLOPE, ROUND_TRIP, doubled_back, growth, kept, packets_counted, packets_paid};
use super::sweep::Sweep;
use crate::{Estimate, Findings};

pub(super) const EXPECTED: &str = "From the queueing model of the paper (NFS sensitivity to high-performance networks): latency lifts the response of every call by at least \
two crossings (published: 3 us per us) and leaves slope and saturation alone, until eight outstanding calls are too few to fill the line; overhead takes processor time from the \
server with every packet, so it moves the saturation point and matters most; gap and gap per byte are felt once the line is the bottleneck. For WayFS the line to the station should act like that on writes that wait \
to be safe there, and hardly on what programs do otherwise, for their caches answer most of it; and the line to the home should not act at all on a warm operation: 0 within noise, for latency as for rate. A read of contents that only the home has waits for one round trip: 2 us per us. Names below: `near` is WayFS with the line between \
client and station varied, `far` with the one between station and home; `programs` is the mix as system calls on the mount, `safe writes` ends each write with fsync, `cold reads` are of files that came to the home and were never read; responses are those of one operation at a time unless it says otherwise.";

/// Says what came out, and where it differs from what was published.
pub(super) fn tell(findings: &mut Findings, sweeps: &[Sweep], without_nfs: Option<&str>) {
    let find = |name: &str, knob: Knob| sweeps.iter().find(|sweep| sweep.name == name && sweep.knob == knob);
    let mut said: Vec<String> = without_nfs.map(str::to_owned).into_iter().collect();
    for name in [NFS_UDP, NFS_TCP, NEAR_SAFE, NEAR_CLOSED, FAR_SAFE, FAR_CLOSED, FAR_COLD] {
        if let Some(sweep) = find(name, Knob::Latency) {
            said.push(format!("{name}: response grows by {} us per us of latency.", interval(growth(sweep))));
        }
    }
    for name in [NFS_UDP, NEAR_SAFE] {
        said.extend(find(name, Knob::Overhead).map(overhead));
        said.extend(strongest(name, sweeps));
    }
    findings.came_out = said.join(" ");
    let mut why: Vec<String> = find(NFS_UDP, Knob::Latency).and_then(published).into_iter().collect();
    why.extend([FAR_SAFE, FAR_CLOSED].into_iter().filter_map(|name| wide(find(name, Knob::Latency)?)));
    why.extend(find(FAR_COLD, Knob::Latency).and_then(cold));
    findings.why_they_differ = why.join(" ");
}

fn overhead(sweep: &Sweep) -> String {
    let (paid, counted) = (packets_paid(sweep), packets_counted(sweep));
    let back = doubled_back(sweep);
    let past = if back < 90.0 {
        format!("past saturation the curve doubles back to {:.0} % of the most", back)
    } else {
        format!("past saturation it keeps at least {:.0} % of the most", back)
    };
    format!(
        "{}: each microsecond of overhead per packet costs the server {} us per operation, of which {counted:.1} packets were counted; {past}.",
        sweep.name,
        interval(paid)
    )
}

/// Which parameter costs the most of the saturation over its range.
fn strongest(name: &str, sweeps: &[Sweep]) -> Option<String> {
    let own: Vec<&Sweep> = sweeps.iter().filter(|sweep| sweep.name == name).collect();
    let worst = own.iter().min_by(|a, b| kept(a).total_cmp(&kept(b)))?;
    let all: Vec<String> = own
        .iter()
        .map(|sweep| {
            let last = sweep.curves.last().map_or(0.0, |curve| curve.value);
            format!("{:.0} % at {} = {last} {}", kept(sweep), sweep.knob.letter(), sweep.knob.unit())
        })
        .collect();
    Some(format!(
        "Of its saturation on the best line are left {}: over these ranges {} takes the most.",
        all.join(", "),
        worst.knob.name()
    ))
}

/// Why our NFS differs from the published one, if it does.
fn published(sweep: &Sweep) -> Option<String> {
    let ours = growth(sweep);
    if ours.holds(PUBLISHED_SLOPE) {
        return None;
    }
    let packets = packets_counted(sweep);
    Some(if ours.mean < PUBLISHED_SLOPE {
        format!(
            "Published for NFS over UDP are {PUBLISHED_SLOPE} us per us, here {:.2}. A call is one request and one answer, which makes 2; the {packets:.1} packets per operation that were counted here \
             are fragments of large ones, which cross together. What the third crossing was in the published systems cannot be told from here.",
            ours.mean
        )
    } else {
        format!(
            "Published for NFS over UDP are {PUBLISHED_SLOPE} us per us, here {:.2}: more crossings than a request and its answer mean messages sent again or a machine that is slower with longer waits; see the raw data.",
            ours.mean
        )
    })
}

/// If a warm operation is not independent of the wide area.
fn wide(sweep: &Sweep) -> Option<String> {
    let ours = growth(sweep);
    (!ours.holds(0.0)).then(|| {
        format!(
            "{}: the slope on latency is not 0 within noise ({} us per us); of a whole crossing it is {:.2} %.",
            sweep.name,
            interval(ours),
            100.0 * ours.mean
        )
    })
}

/// If a cold read takes more or less than its round trip.
fn cold(sweep: &Sweep) -> Option<String> {
    let ours = growth(sweep);
    (!ours.holds(ROUND_TRIP)).then(|| {
        format!(
            "{}: {} us per us instead of {ROUND_TRIP}; more is a second request before the contents come, less is contents that were here already.",
            sweep.name,
            interval(ours)
        )
    })
}

fn interval(estimate: Estimate) -> String {
    format!("{:.4} ({:.4} to {:.4})", estimate.mean, estimate.low, estimate.high)
}
