//! One parameter varied on one system: a curve for each of its values.

use super::knob::{Knob, Setting};
use super::model::Model;
use crate::load::{Done, Level, Mix, Window, Worker, carry_out, plan};
use crate::{Context, Estimate, LabError, cores};
use std::time::Duration;

/// A running system whose line can be changed.
pub(super) trait System {
    /// Changes the swept line, and the overhead of the end that serves.
    fn set(&mut self, setting: &Setting) -> Result<(), LabError>;
    /// Those who put load on it.
    fn workers(&mut self) -> &mut Vec<Box<dyn Worker>>;
    /// Waits until what earlier load left behind is done with.
    fn settle(&mut self) -> Result<(), LabError>;
    /// Packets that were offered to the swept line so far, both ways.
    fn packets(&self) -> u64;
}

/// What to sweep.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Name of the system and the view on it.
    pub(super) name: &'static str,
    /// What the load is made of.
    pub(super) mix: Mix,
    /// The line when nothing is varied.
    pub(super) base: Setting,
    /// Values of each parameter, the first being the base's.
    pub(super) values: Vec<(Knob, Vec<f64>)>,
    /// Which loads are offered.
    pub(super) extent: Extent,
}

/// Which loads are offered at each value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Extent {
    /// All, up to more than can be served.
    Curve,
    /// One operation at a time only, so many a second and for so long: there are not enough of them for more.
    Alone { rate: f64, duration: Duration },
}

/// How long and how finely to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Seconds of each level.
    pub(super) level: Duration,
    /// Offered rates, as shares of the rate of saturation, rising.
    pub(super) shares: &'static [f64],
    /// How often everything is measured; odd rounds in reverse order, so that a machine that gets slower does not look like a slope.
    pub(super) rounds: usize,
}

/// The curve of one value.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    /// The value.
    pub(super) value: f64,
    /// What was measured, in the order of time.
    pub(super) loads: Vec<Load>,
    /// Its rounds together: levels of rising load, then the one of more than can be served.
    pub(super) levels: Vec<Level>,
    /// The most that was delivered, round by round.
    pub(super) saturations: Vec<f64>,
    /// Packets over the line per operation.
    pub(super) packets: f64,
    /// The model through its points, if they allow one.
    pub(super) model: Option<Model>,
}

/// A load and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// As a share of what can be served; endless for more than that, zero for one operation at a time.
    pub(super) share: f64,
    pub(super) level: Level,
}

impl Curve {
    /// The most that was delivered.
    pub(super) fn saturation(&self) -> Estimate {
        Estimate::of(&self.saturations)
    }

    /// Mean responses of one operation at a time, round by round, in milliseconds. Rounds are independent; operations that
    /// follow each other are not.
    pub(super) fn alone(&self) -> Vec<f64> {
        self.at(ALONE).map(|level| level.response_ms.mean).collect()
    }

    /// The response that 99 of 100 operations do not exceed, one at a time, in milliseconds.
    pub(super) fn alone_p99(&self) -> f64 {
        self.at(ALONE).map(|level| level.p99_ms).fold(0.0, f64::max)
    }

    /// What is delivered under more load than can be served as a share of the most that is delivered.
    pub(super) fn kept_under_overload(&self) -> f64 {
        let overloaded = self.levels.last().map_or(0.0, |level| level.delivered);
        overloaded / self.saturation().mean.max(f64::MIN_POSITIVE)
    }

    fn at(&self, share: f64) -> impl Iterator<Item = &Level> {
        self.loads.iter().filter(move |load| load.share.total_cmp(&share).is_eq()).map(|load| &load.level)
    }

    /// Puts the rounds together and draws the model through them.
    fn conclude(&mut self) {
        let mut shares: Vec<f64> = self.loads.iter().map(|load| load.share).filter(|share| *share > ALONE).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        self.levels = shares.into_iter().map(|share| together(&self.at(share).collect::<Vec<_>>())).collect();
        self.model = Model::fit(&self.levels, Some(self.saturation().mean));
    }
}

/// Levels of one share from several rounds as one.
fn together(rounds: &[&Level]) -> Level {
    let mean = |of: fn(&Level) -> f64| rounds.iter().map(|level| of(level)).sum::<f64>() / rounds.len().max(1) as f64;
    let responses: Vec<f64> = rounds.iter().map(|level| level.response_ms.mean).collect();
    let response_ms = match rounds {
        [only] => only.response_ms,
        _ => Estimate::of(&responses),
    };
    Level {
        offered: mean(|level| level.offered),
        delivered: mean(|level| level.delivered),
        response_ms,
        p99_ms: mean(|level| level.p99_ms),
        failed: rounds.iter().map(|level| level.failed).sum(),
    }
}

/// The curves of one parameter.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pub(super) name: &'static str,
    pub(super) knob: Knob,
    pub(super) curves: Vec<Curve>,
}

/// The share that stands for one operation at a time.
const ALONE: f64 = 0.0;
/// A rate that no system here can serve.
const TOO_MUCH: f64 = 60_000.0;
/// The core that the serving host has for itself; load runs on the others.
pub(super) const SERVER_CORE: usize = 1;

/// Measures all parameters of a system, one at a time.
pub(super) fn sweep(
    context: &mut Context<'_>,
    system: &mut dyn System,
    what: &Plan,
    pace: Pace,
    mut note: impl FnMut(&Context<'_>, &str),
) -> Result<Vec<Sweep>, LabError> {
    let mut sweeps: Vec<Sweep> = what
        .values
        .iter()
        .map(|(knob, values)| Sweep {
            name: what.name,
            knob: *knob,
            curves: values.iter().map(|v| empty(*v)).collect(),
        })
        .collect();
    for round in 0..pace.rounds {
        for sweep in &mut sweeps {
            let mut order: Vec<usize> = (0..sweep.curves.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for place in order {
                let knob = sweep.knob;
                let curve = &mut sweep.curves[place];
                note(context, &format!("{}, {} = {} {}", what.name, knob.letter(), curve.value, knob.unit()));
                system.settle()?;
                system.set(&knob.at(curve.value, what.base))?;
                let seed = context.seed() + (round * 1000 + place) as u64;
                match what.extent {
                    Extent::Curve => measure(system, what.mix, pace, seed, curve)?,
                    Extent::Alone { rate, duration } => measure_alone(system, what.mix, (rate, duration), seed, curve),
                }
            }
        }
    }
    system.settle()?;
    sweeps.iter_mut().flat_map(|sweep| &mut sweep.curves).for_each(Curve::conclude);
    Ok(sweeps)
}

const fn empty(value: f64) -> Curve {
    Curve { value, loads: Vec::new(), levels: Vec::new(), saturations: Vec::new(), packets: 0.0, model: None }
}

/// First more than can be served, which tells how much can; then rising shares of that; then one operation at a time.
fn measure(system: &mut dyn System, mix: Mix, pace: Pace, seed: u64, curve: &mut Curve) -> Result<(), LabError> {
    let before = system.packets();
    let (all_out, done) = all_out(system, mix, pace.level, seed)?;
    curve.packets = (system.packets() - before) as f64 / done.max(1) as f64;
    let delivered = all_out.delivered;
    let mut most = delivered;
    curve.loads.push(Load { share: f64::INFINITY, level: all_out });
    for (number, share) in pace.shares.iter().enumerate() {
        let (level, _) = load(system, Crowd::All, mix, share * delivered, pace.level, seed + 100 * (number as u64 + 1));
        // Past saturation less may be delivered than just before it.
        most = most.max(level.delivered);
        curve.loads.push(Load { share: *share, level });
    }
    curve.saturations.push(most);
    let (alone, _) = load(system, Crowd::One, mix, TOO_MUCH, pace.level, seed + 1);
    curve.loads.push(Load { share: ALONE, level: alone });
    Ok(())
}

/// One operation at a time and nothing else.
fn measure_alone(system: &mut dyn System, mix: Mix, offered: (f64, Duration), seed: u64, curve: &mut Curve) {
    let before = system.packets();
    let (alone, done) = load(system, Crowd::One, mix, offered.0, offered.1, seed);
    curve.packets = (system.packets() - before) as f64 / done.len().max(1) as f64;
    curve.loads.push(Load { share: ALONE, level: alone });
}

/// More load than can be served, and how many operations were carried out. On a machine that has much else to do nothing may end in a short time;
/// then it is tried for longer.
fn all_out(system: &mut dyn System, mix: Mix, shortest: Duration, seed: u64) -> Result<(Level, usize), LabError> {
    let mut why = String::new();
    for longer in [1, 4, 16] {
        let (level, done) = load(system, Crowd::All, mix, TOO_MUCH, shortest * longer, seed);
        if level.delivered > 0.0 {
            return Ok((level, done.len()));
        }
        let error = done.into_iter().find_map(|done| done.error);
        why = error.unwrap_or_else(|| format!("none ends within {:?}", shortest * longer));
    }
    Err(LabError::Experiment(format!("no operation succeeds: {why}")))
}

/// How many workers there are.
#[derive(Clone, Copy)]
enum Crowd {
    One,
    All,
}

fn load(
    system: &mut dyn System,
    crowd: Crowd,
    mix: Mix,
    rate: f64,
    duration: Duration,
    seed: u64,
) -> (Level, Vec<Done>) {
    let planned = plan(seed, mix, rate, duration);
    let workers = system.workers();
    let count = match crowd {
        Crowd::One => 1,
        Crowd::All => workers.len(),
    };
    // On a thread of its own, whose children keep off the server's core as it does.
    let done = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            cores::avoid(SERVER_CORE);
            carry_out(&planned, &mut workers[..count], duration)
        });
        running.join().expect("workers do not panic")
    });
    (Level::of(&planned, &done, Window::of(duration)), done)
}
