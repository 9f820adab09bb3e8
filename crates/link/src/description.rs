//! Lines as people write them down: in TOML, JSON, or any other form that serde reads.
//!
//! ```toml
//! profile = "intercontinental"   # start from a named line; everything below changes it
//! duplex = "full"                # or "half"
//! both = { rate_mbps = 1.0, delay_ms = 55.0, queue_kib = 64 }   # a rate of 0 is unlimited
//! up = { rate_mbps = 0.5 }       # what differs from the first end to the second
//! down = { loss = 0.01 }         # and back
//! bad_periods = { good_ms = 1000, bad_ms = 40, durations = "uniform" }
//!
//! [[schedule]]                   # each step changes what it names, from then on
//! at_ms = 10000
//! both = { rate_mbps = 10.0 }
//!
//! [[schedule]]
//! at_ms = 20000
//! cut = true
//! ```
//!
//! A trace is named by `trace`; whoever reads the description has to supply its text.

use crate::periods::DRIVER_TICK;
use crate::propagation::DelaySample;
use crate::{
    BadPeriods, Capacity, DelayTrace, DelayTraceError, DirectionConfig, Duplex, Durations, Judged, LineConfig,
    LineState, Met, Probability, ProbabilityError, Profile, ReceiverConfig, TraceError, WhenFull,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Why a description makes no line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DescriptionError {
    /// There is no such profile.
    #[error("there is no profile {0}; `wayfs lab profiles` lists them")]
    UnknownProfile(String),
    /// A number that must not be negative or endless is.
    #[error("{name} is {value}: it must be a number, zero or more")]
    Number {
        /// Of which setting.
        name: &'static str,
        /// The number.
        value: f64,
    },
    /// No probability.
    #[error(transparent)]
    Probability(#[from] ProbabilityError),
    /// The trace of capacity.
    #[error("trace {name}: {error}")]
    Trace {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: TraceError,
    },
    /// Nobody supplied a trace.
    #[error("trace {name}: {reason}")]
    NoTrace {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The trace of delays.
    #[error(transparent)]
    DelayTrace(#[from] DelayTraceError),
}

/// One direction; what is absent stays as it was.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayDescription {
    /// Megabits per second; 0 is unlimited.
    pub rate_mbps: Option<f64>,
    /// A trace of delivery opportunities (mahimahi's format) instead of a rate.
    pub trace: Option<String>,
    /// Bytes that every packet costs beyond its own.
    pub overhead_len: Option<u64>,
    /// Shortest time between the begins of two packets, in microseconds.
    pub gap_us: Option<f64>,
    /// Queue in KiB.
    pub queue_kib: Option<f64>,
    /// One-way delay in milliseconds.
    pub delay_ms: Option<f64>,
    /// Recorded delays, added: pairs of (from when, delay) in milliseconds; the last pair only says where to start again.
    pub delay_trace_ms: Option<Vec<(f64, f64)>>,
    /// Uniform jitter in milliseconds.
    pub jitter_ms: Option<f64>,
    /// Whether jitter may reorder.
    pub reordering: Option<bool>,
    /// Loss per packet, 0 to 1.
    pub loss: Option<f64>,
    /// Mean bytes between bit errors; 0 is none.
    pub bytes_per_bit_error: Option<f64>,
    /// Packets that such an error takes.
    pub error_run: Option<u32>,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplication: Option<f64>,
    /// Receive buffer of a slow host at the far end.
    pub receiver: Option<ReceiverDescription>,
}

/// Periods in which nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadPeriodsDescription {
    /// Mean length of good periods.
    pub good_ms: f64,
    /// Mean length of bad periods; 0 is never bad.
    pub bad_ms: f64,
    /// How lengths are drawn. Default: uniform in 0 to twice the mean.
    #[serde(default)]
    pub durations: DurationsDescription,
    /// Lengths are multiples of it; 0: any length. Default 0, and 20 for `uniform20`.
    #[serde(default)]
    pub tick_ms: Option<f64>,
    /// When it is decided whether a packet meets one. Default: by touch.
    #[serde(default)]
    pub judged: JudgedDescription,
    /// What becomes of a packet that does. Default: lost. `held` is always judged at the driver.
    #[serde(default)]
    pub met: MetDescription,
}

/// When it is decided whether a packet meets a bad period.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgedDescription {
    /// It does if the period touches any part of its transmission.
    #[default]
    Touch,
    /// By the state when the driver of the first end is called with it.
    Driver,
}

/// What becomes of a packet that meets a bad period.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetDescription {
    /// It is lost.
    #[default]
    Lost,
    /// The driver of the first end holds it until the period ends.
    Held,
}

/// Receive buffer of a slow host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverDescription {
    /// Packets that it holds.
    pub packets: usize,
    /// Time that the host takes for each.
    pub packet_ms: f64,
    /// Whether packets are not sent before there is room, instead of being lost. Default: no.
    #[serde(default)]
    pub reservation: bool,
}

/// How lengths of periods are drawn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurationsDescription {
    /// Uniform in 0 to twice the mean.
    #[default]
    Uniform,
    /// Exponential.
    Exponential,
    /// Always the mean.
    Fixed,
    /// Uniform in multiples of 20 ms, as the kernel of 1995 could.
    Uniform20,
}

/// Who may talk at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplexDescription {
    /// Both ends.
    Full,
    /// One end.
    Half,
}

/// A change at a time; what is absent stays as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDescription {
    /// Milliseconds after the start.
    pub at_ms: f64,
    /// Settings of both ways.
    pub both: Option<WayDescription>,
    /// From the first end to the second.
    pub up: Option<WayDescription>,
    /// From the second end to the first.
    pub down: Option<WayDescription>,
    /// Periods in which nothing passes.
    pub bad_periods: Option<BadPeriodsDescription>,
    /// Whether the line is cut.
    pub cut: Option<bool>,
}

/// A line; what is absent is as in the profile.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDescription {
    /// The named line to start from. Default: `perfect`.
    pub profile: Option<String>,
    /// Who may talk at a time.
    pub duplex: Option<DuplexDescription>,
    /// Settings of both ways.
    pub both: Option<WayDescription>,
    /// From the first end to the second.
    pub up: Option<WayDescription>,
    /// From the second end to the first.
    pub down: Option<WayDescription>,
    /// Periods in which nothing passes.
    pub bad_periods: Option<BadPeriodsDescription>,
    /// Whether the line is cut.
    pub cut: Option<bool>,
    /// Changes to come.
    #[serde(default)]
    pub schedule: Vec<StepDescription>,
}

/// What a line and a step of its schedule have in common.
struct Change<'a> {
    both: Option<&'a WayDescription>,
    up: Option<&'a WayDescription>,
    down: Option<&'a WayDescription>,
    bad_periods: Option<BadPeriodsDescription>,
    cut: Option<bool>,
}

/// A line as the models take it.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct LinePlan {
    /// Who may talk at a time.
    pub duplex: Duplex,
    /// The settings at the start.
    pub config: LineConfig,
    /// The settings from later times on, in order.
    pub schedule: Vec<(Duration, LineConfig)>,
}

impl From<&Profile> for LinePlan {
    fn from(profile: &Profile) -> Self {
        Self { duplex: profile.duplex, config: profile.line(), schedule: Vec::new() }
    }
}

impl LineDescription {
    /// Makes a line of it. `trace` gives the text of a trace by its name, or says why it cannot.
    ///
    /// # Errors
    /// [`DescriptionError`] names the setting.
    pub fn plan(&self, trace: &dyn Fn(&str) -> Result<String, String>) -> Result<LinePlan, DescriptionError> {
        let name = self.profile.as_deref().unwrap_or("perfect");
        let profile = Profile::named(name).ok_or_else(|| DescriptionError::UnknownProfile(name.to_owned()))?;
        let mut plan = LinePlan::from(&profile);
        match self.duplex {
            None => {}
            Some(DuplexDescription::Full) => plan.duplex = Duplex::Full,
            Some(DuplexDescription::Half) => plan.duplex = Duplex::Half,
        }
        self.change().apply(&mut plan.config, trace)?;
        let mut config = plan.config.clone();
        let mut steps: Vec<&StepDescription> = self.schedule.iter().collect();
        steps.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        for step in steps {
            step.change().apply(&mut config, trace)?;
            plan.schedule.push((milliseconds("at_ms", step.at_ms)?, config.clone()));
        }
        Ok(plan)
    }
}

impl LineDescription {
    fn change(&self) -> Change<'_> {
        Change {
            both: self.both.as_ref(),
            up: self.up.as_ref(),
            down: self.down.as_ref(),
            bad_periods: self.bad_periods,
            cut: self.cut,
        }
    }
}

impl StepDescription {
    fn change(&self) -> Change<'_> {
        Change {
            both: self.both.as_ref(),
            up: self.up.as_ref(),
            down: self.down.as_ref(),
            bad_periods: self.bad_periods,
            cut: self.cut,
        }
    }
}

impl Change<'_> {
    fn apply(
        &self,
        line: &mut LineConfig,
        trace: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(), DescriptionError> {
        if let Some(both) = self.both {
            both.apply(&mut line.up, trace)?;
            both.apply(&mut line.down, trace)?;
        }
        if let Some(up) = self.up {
            up.apply(&mut line.up, trace)?;
        }
        if let Some(down) = self.down {
            down.apply(&mut line.down, trace)?;
        }
        if let Some(periods) = &self.bad_periods {
            line.bad_periods = Some(periods.periods()?);
        }
        if let Some(cut) = self.cut {
            line.state = if cut { LineState::Cut } else { LineState::Connected };
        }
        Ok(())
    }
}

impl BadPeriodsDescription {
    fn periods(&self) -> Result<BadPeriods, DescriptionError> {
        let (durations, tick_ms) = match self.durations {
            DurationsDescription::Uniform => (Durations::Uniform, 0.0),
            DurationsDescription::Exponential => (Durations::Exponential, 0.0),
            DurationsDescription::Fixed => (Durations::Fixed, 0.0),
            DurationsDescription::Uniform20 => (Durations::Uniform, DRIVER_TICK.as_secs_f64() * 1000.0),
        };
        let met = match self.met {
            MetDescription::Lost => Met::Lost,
            MetDescription::Held => Met::Held,
        };
        let judged = match self.judged {
            JudgedDescription::Touch if met == Met::Lost => Judged::ByTouch,
            JudgedDescription::Touch | JudgedDescription::Driver => Judged::AtDriver,
        };
        Ok(BadPeriods {
            good_mean: milliseconds("good_ms", self.good_ms)?,
            bad_mean: milliseconds("bad_ms", self.bad_ms)?,
            durations,
            tick: milliseconds("tick_ms", self.tick_ms.unwrap_or(tick_ms))?,
            judged,
            met,
        })
    }
}

impl ReceiverDescription {
    fn receiver(&self) -> Result<ReceiverConfig, DescriptionError> {
        Ok(ReceiverConfig {
            packets_max: self.packets,
            per_packet: milliseconds("packet_ms", self.packet_ms)?,
            when_full: if self.reservation { WhenFull::NotSent } else { WhenFull::Lost },
        })
    }
}

impl WayDescription {
    fn apply(
        &self,
        way: &mut DirectionConfig,
        trace: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(), DescriptionError> {
        if let Some(rate) = self.rate_mbps {
            let rate = (number("rate_mbps", rate)? * 1e6).round() as u64;
            way.capacity = if rate == 0 { Capacity::Unlimited } else { Capacity::Rate(rate) };
        }
        if let Some(name) = &self.trace {
            let text = trace(name).map_err(|reason| DescriptionError::NoTrace { name: name.clone(), reason })?;
            way.capacity =
                Capacity::parse_trace(&text).map_err(|error| DescriptionError::Trace { name: name.clone(), error })?;
        }
        way.overhead_len = self.overhead_len.unwrap_or(way.overhead_len);
        if let Some(gap) = self.gap_us {
            way.gap = milliseconds("gap_us", gap / 1000.0)?;
        }
        if let Some(kib) = self.queue_kib {
            way.queue_len_max = (number("queue_kib", kib)? * 1024.0) as u64;
        }
        if let Some(delay) = self.delay_ms {
            way.delay = milliseconds("delay_ms", delay)?;
        }
        if let Some(samples) = &self.delay_trace_ms {
            way.delay_trace = Some(Arc::new(delay_trace(samples)?));
        }
        if let Some(jitter) = self.jitter_ms {
            way.jitter = milliseconds("jitter_ms", jitter)?;
        }
        way.reordering = self.reordering.unwrap_or(way.reordering);
        if let Some(loss) = self.loss {
            way.loss = Probability::new(loss)?;
        }
        if let Some(bytes) = self.bytes_per_bit_error {
            way.bytes_per_bit_error = Some(number("bytes_per_bit_error", bytes)?).filter(|bytes| *bytes > 0.0);
        }
        way.error_run = self.error_run.unwrap_or(way.error_run);
        if let Some(share) = self.duplication {
            way.duplication = Probability::new(share)?;
        }
        if let Some(receiver) = &self.receiver {
            way.receiver = Some(receiver.receiver()?);
        }
        Ok(())
    }
}

fn delay_trace(samples: &[(f64, f64)]) -> Result<DelayTrace, DescriptionError> {
    let ms = |value| milliseconds("delay_trace_ms", value);
    let read: Result<Vec<DelaySample>, DescriptionError> =
        samples.iter().map(|(at, delay)| Ok(DelaySample { at: ms(*at)?, delay: ms(*delay)? })).collect();
    let mut samples = read?;
    let end = samples.pop().ok_or(DelayTraceError::Empty)?;
    Ok(DelayTrace::new(samples, end.at)?)
}

fn number(name: &'static str, value: f64) -> Result<f64, DescriptionError> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(DescriptionError::Number { name, value }) }
}

fn milliseconds(name: &'static str, value: f64) -> Result<Duration, DescriptionError> {
    Duration::try_from_secs_f64(number(name, value)? / 1000.0).map_err(|_| DescriptionError::Number { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<LinePlan, DescriptionError> {
        let description: LineDescription = toml::from_str(text).unwrap();
        description.plan(&|name| if name == "one" { Ok("1\n".to_owned()) } else { Err("there is no such file".into()) })
    }

    #[test]
    fn a_profile_can_be_changed_in_each_way_and_over_time() {
        let plan = plan(
            r#"
            profile = "intercontinental"
            both = { queue_kib = 32 }
            up = { rate_mbps = 0.5 }
            down = { loss = 0.01, gap_us = 2.5 }
            bad_periods = { good_ms = 1000, bad_ms = 40 }
            [[schedule]]
            at_ms = 20000
            cut = true
            [[schedule]]
            at_ms = 10000
            both = { rate_mbps = 10 }
            "#,
        )
        .unwrap();
        assert_eq!(plan.config.up.capacity, Capacity::Rate(500_000));
        assert_eq!(plan.config.down.capacity, Capacity::Rate(1_000_000));
        assert_eq!(plan.config.up.delay, Duration::from_millis(55));
        assert_eq!(plan.config.up.queue_len_max, 32 * 1024);
        assert_eq!((plan.config.up.gap, plan.config.down.gap), (Duration::ZERO, Duration::from_nanos(2500)));
        assert_eq!(plan.config.down.loss, Probability::new(0.01).unwrap());
        assert_eq!(plan.config.bad_periods.unwrap().durations, Durations::Uniform);
        let [(first, fast), (second, cut)] = &plan.schedule[..] else { panic!("two steps") };
        assert_eq!((first.as_secs(), second.as_secs()), (10, 20));
        assert_eq!(fast.up.capacity, Capacity::Rate(10_000_000));
        assert_eq!((cut.state, &cut.up.capacity), (LineState::Cut, &Capacity::Rate(10_000_000)));
    }

    #[test]
    fn the_details_of_1995_can_be_written_down() {
        let periods = |more: &str| {
            let text = format!("bad_periods = {{ good_ms = 1000, bad_ms = 40, {more} }}");
            plan(&text).unwrap().config.bad_periods.unwrap()
        };
        let ms = Duration::from_millis;
        let as_then = BadPeriods { good_mean: ms(1000), bad_mean: ms(40), ..BadPeriods::default() }.at_driver();
        assert_eq!(periods("durations = 'uniform20', judged = 'driver'"), as_then);
        let held = periods("met = 'held', durations = 'fixed', tick_ms = 10");
        assert_eq!((held.met, held.judged, held.tick), (Met::Held, Judged::AtDriver, ms(10)));
        let slow = plan("down = { receiver = { packets = 3, packet_ms = 20, reservation = true } }").unwrap();
        let receiver = ReceiverConfig { packets_max: 3, per_packet: ms(20), when_full: WhenFull::NotSent };
        assert_eq!((slow.config.down.receiver, slow.config.up.receiver), (Some(receiver), None));
        let nonsense = plan("down = { receiver = { packets = 3, packet_ms = -1 } }");
        assert!(matches!(nonsense, Err(DescriptionError::Number { name: "packet_ms", .. })));
    }

    #[test]
    fn traces_of_capacity_and_delay_are_taken() {
        let plan = plan("up = { trace = 'one', delay_trace_ms = [[0, 10], [50, 20], [100, 0]] }").unwrap();
        assert_eq!(plan.config.up.capacity, Capacity::Trace(vec![1].into()));
        assert_eq!(plan.config.up.delay_trace.unwrap().at(wayfs_types::Time::from_micros(160_000)).as_millis(), 20);
        assert_eq!(plan.config.down, DirectionConfig { queue_len_max: 1 << 20, ..DirectionConfig::default() });
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(matches!(plan("profile = 'nowhere'"), Err(DescriptionError::UnknownProfile(_))));
        assert!(matches!(plan("up = { delay_ms = -1 }"), Err(DescriptionError::Number { name: "delay_ms", .. })));
        assert!(matches!(plan("up = { rate_mbps = nan }"), Err(DescriptionError::Number { name: "rate_mbps", .. })));
        assert!(matches!(plan("both = { loss = 1.5 }"), Err(DescriptionError::Probability(_))));
        assert!(matches!(plan("up = { trace = 'two' }"), Err(DescriptionError::NoTrace { .. })));
        assert!(toml::from_str::<LineDescription>("up = { dely_ms = 3 }").is_err());
    }
}
