//! How response time and throughput depend on the network: the four parameters of the LogGP model, one at a time.
//!
//! A load like that of SPEC SFS is offered at rising rates to a real NFS server over one line, and to a WayFS volume over
//! each of its two lines apart, while latency `L`, overhead `o`, gap `g` or gap per byte `G` of that line is varied. For each value
//! there is a curve of mean response against *delivered* rate, through which a queueing model is drawn ([`model`]).
//!
//! The host that serves has a core of its own. `L`, `g` and `G` are the line's; `o` is processor time that this host spends on each packet that it
//! sends or receives over the line, taken from its core (see the emulator's `processor`). The papers turned the same knobs in the
//! network interface of a cluster, per message of at most a few KB; here a message is an IP packet.
//!
//! WayFS is looked at in two ways. *As programs see it*: the mix as system calls on a mount, caches of the kernel and the client
//! in place. *Safe writes*: `fsync` after each write, which ends when the station has the bytes on disk; these cross
//! the line to the station for certain, and must not wait for the one to the home. Beside these, *cold reads*: of contents that only the home has,
//! which have to wait for a crossing and its answer ([`cold_read`]).

mod cold_read;
mod figures;
mod file_set;
mod knob;
mod model;
mod on_a_mount;
mod on_nfs;
mod plans;
mod rows;
mod slope;
mod sweep;
mod systems;
mod tell;

use crate::context::Parts;
use crate::nfs::{NfsServer, Transport};
use crate::{Context, Csv, Experiment, Figure, Findings, LabError, Origin, Series, Style};
use knob::{Knob, Setting};
use on_a_mount::Promise;
use std::cell::Cell;
use sweep::{Plan, Sweep, sweep};
use systems::{Hop, Nfs, View, Volume};

/// The experiment.
pub(super) struct Sensitivity;

impl Experiment for Sensitivity {
    fn name(&self) -> &'static str {
        "sensitivity"
    }

    fn about(&self) -> &'static str {
        "What do latency, overhead, gap and gap per byte of each hop cost, beside NFS: base response, slope, saturation?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["dense", "level_ms", "parameters", "systems"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let runs = runs(context);
        let sweeps = measure(context, &runs)?;
        write(context, &sweeps)?;
        let mut findings = Findings { expected: tell::EXPECTED.into(), ..Findings::default() };
        findings.rows = sweeps.iter().flat_map(rows::rows).collect();
        findings.figures = draw(&sweeps);
        let missing =
            "NFS: not installed (nfs-ganesha, nfs-ganesha-vfs, rpcbind), so nothing was measured beside WayFS.";
        tell::tell(&mut findings, &sweeps, (!NfsServer::is_installed()).then_some(missing));
        Ok(findings)
    }
}

/// One after another, so that none is in another's way.
fn measure(context: &mut Context<'_>, runs: &[Run]) -> Result<Vec<Sweep>, LabError> {
    let pace = plans::pace(context)?;
    let curves = |plan: &Plan| plan.values.iter().map(|(_, values)| values.len()).sum::<usize>() * pace.rounds;
    let total = runs.iter().flat_map(|run| run.plans()).map(curves).sum();
    let done = Cell::new(0);
    let note = |context: &Context<'_>, what: &str| {
        context.progress(Parts { done: done.get(), total }, what);
        done.set(done.get() + 1);
    };
    let mut sweeps = Vec::new();
    for run in runs {
        match run {
            Run::Nfs(transport, plan) => {
                let mut system = Nfs::start(context, *transport, &plan.base)?;
                sweeps.extend(sweep(context, &mut system, plan, pace, note)?);
                system.finish(context);
            }
            Run::Volume(hop, other, views) => {
                let cold = views.iter().find(|(view, _)| *view == View::ColdReads);
                let cold_files = cold.map_or(0, |(_, plan)| plans::cold_files(plan, pace.rounds));
                let mut system = Volume::start(context, (*hop, *other), plans::GOOD, cold_files)?;
                for (view, plan) in views {
                    system.look(*view);
                    sweeps.extend(sweep(context, &mut system, plan, pace, note)?);
                }
                system.finish(context);
            }
        }
    }
    context.progress(Parts { done: total, total }, "done");
    Ok(sweeps)
}

/// A system to start, and what to measure on it.
enum Run {
    Nfs(Transport, Plan),
    /// With the line that is swept, and what the other one is like.
    Volume(Hop, Setting, Vec<(View, Plan)>),
}

impl Run {
    fn plans(&self) -> Vec<&Plan> {
        match self {
            Self::Nfs(_, plan) => vec![plan],
            Self::Volume(_, _, views) => views.iter().map(|(_, plan)| plan).collect(),
        }
    }
}

/// All that are wanted and can be; the setting `systems` names some of `nfs-udp`, `nfs-tcp`, `near`, `far`.
fn runs(context: &Context<'_>) -> Vec<Run> {
    let views = |plan: fn(&Context<'_>, Promise) -> Plan| {
        [Promise::Safe, Promise::Closed].map(|promise| (View::Mount(promise), plan(context, promise))).to_vec()
    };
    let mut far = views(plans::far);
    far.insert(0, (View::ColdReads, plans::far_cold(context)));
    let all = [
        ("nfs-udp", Run::Nfs(Transport::Udp, plans::nfs_udp(context))),
        ("nfs-tcp", Run::Nfs(Transport::Tcp, plans::nfs_tcp(context))),
        ("near", Run::Volume(Hop::ClientStation, plans::WIDE, views(plans::near))),
        ("far", Run::Volume(Hop::StationHome, plans::GOOD, far)),
    ];
    let possible = |run: &Run| !matches!(run, Run::Nfs(..)) || NfsServer::is_installed();
    all.into_iter()
        .filter(|(name, run)| possible(run) && plans::is_wanted(context, "systems", name))
        .map(|(_, run)| run)
        .collect()
}

/// The summaries first, then every sweep.
fn draw(sweeps: &[Sweep]) -> Vec<Figure> {
    let of = |knob: Knob, hop: fn(&Sweep) -> bool| -> Vec<&Sweep> {
        sweeps.iter().filter(|sweep| sweep.knob == knob && hop(sweep)).collect()
    };
    let near = of(Knob::Latency, rows::is_near);
    let with_cold: fn(&Sweep) -> bool = |sweep| rows::is_wide(sweep) || rows::is_cold(sweep);
    let highest = near.iter().flat_map(|sweep| &sweep.curves).map(|curve| curve.value / 1000.0).fold(0.0, f64::max);
    let published = Series::new(
        "NFS over UDP: 3 us per us",
        Style::Curve,
        Origin::Published,
        [(0.0, 0.0), (highest, rows::PUBLISHED_SLOPE * highest)],
    );
    let mut figures = vec![
        figures::alone("Response and latency of the local line", Knob::Latency, &near, Some(published)),
        figures::alone(
            "Warm response and latency of the wide area",
            Knob::Latency,
            &of(Knob::Latency, rows::is_wide),
            None,
        ),
        figures::alone("Cold reads beside them", Knob::Latency, &of(Knob::Latency, with_cold), None),
        figures::alone(
            "Warm response and gap per byte of the wide area",
            Knob::GapPerByte,
            &of(Knob::GapPerByte, rows::is_wide),
            None,
        ),
        figures::saturations(&of(Knob::Overhead, rows::is_near)),
    ];
    figures.extend(sweeps.iter().filter(|sweep| !rows::is_cold(sweep)).map(figures::curves));
    figures
}

fn write(context: &mut Context<'_>, sweeps: &[Sweep]) -> Result<(), LabError> {
    let columns = [
        "system",
        "parameter",
        "value",
        "share",
        "offered_per_s",
        "delivered_per_s",
        "response_ms",
        "low_ms",
        "high_ms",
        "p99_ms",
        "failed",
    ];
    let mut levels = context.csv("levels", &columns)?;
    let columns = [
        "system",
        "parameter",
        "value",
        "saturation_per_s",
        "packets_per_operation",
        "model_base_ms",
        "model_slope_ms_s",
    ];
    let mut curves = context.csv("curves", &columns)?;
    for sweep in sweeps {
        for curve in &sweep.curves {
            let key = [sweep.name.to_owned(), sweep.knob.letter().to_owned(), curve.value.to_string()];
            write_levels(&mut levels, &key, curve)?;
            let (base, slope) = curve.model.map_or((f64::NAN, f64::NAN), |model| (model.base(), model.slope()));
            let numbers = [curve.saturation().mean, curve.packets, base, slope].map(|number| number.to_string());
            curves.row(&[&key[..], &numbers].concat())?;
        }
    }
    levels.finish()?;
    curves.finish()
}

fn write_levels(csv: &mut Csv, key: &[String], curve: &sweep::Curve) -> Result<(), LabError> {
    for load in &curve.loads {
        let (level, response) = (&load.level, load.level.response_ms);
        let numbers = [
            load.share,
            level.offered,
            level.delivered,
            response.mean,
            response.low,
            response.high,
            level.p99_ms,
            level.failed as f64,
        ];
        csv.row(&[key, &numbers.map(|number| number.to_string())].concat())?;
    }
    Ok(())
}
