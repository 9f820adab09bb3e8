//! Policies as they are written in settings.
//!
//! ```text
//! write-through        on-demand        periodic:15s      ih:2
//! ihsl:2,1             ttnu:0.5         atd
//! and after each of them, perhaps, +within:1h
//! ```

use crate::{AdaptiveDelay, InvalidationHeuristic, OnDemand, Periodic, PropagationPolicy, TimeToNextUse, WriteThrough};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Largest history of IH and IHSL: the research went to 4; a burst of more is sent for its own sake.
const HISTORY_MAX: u32 = 1000;
/// Longest time in a setting: ten years.
const SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;

/// A mechanism with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mechanism {
    /// Everything at once.
    WriteThrough,
    /// Nothing ahead of need.
    OnDemand,
    /// What is unsent, every so often.
    Periodic(Duration),
    /// The invalidation heuristic with its history.
    InvalidationHeuristic(u32),
    /// The same with the station's load: history, and load above which it is a producer.
    StationLoad(u32, i64),
    /// Time to next use with the weight of the newest observation.
    TimeToNextUse(f64),
    /// Adaptive time delay.
    AdaptiveDelay,
}

impl Mechanism {
    /// A fresh policy of this mechanism.
    pub fn policy(self) -> Box<dyn PropagationPolicy> {
        match self {
            Self::WriteThrough => Box::new(WriteThrough),
            Self::OnDemand => Box::new(OnDemand),
            Self::Periodic(period) => Box::new(Periodic::new(period)),
            Self::InvalidationHeuristic(history) => Box::new(InvalidationHeuristic::new(history)),
            Self::StationLoad(history, load) => Box::new(InvalidationHeuristic::with_station_load(history, load)),
            Self::TimeToNextUse(weight) => Box::new(TimeToNextUse::new(weight)),
            Self::AdaptiveDelay => Box::new(AdaptiveDelay::new()),
        }
    }
}

/// A policy setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Which mechanism decides.
    pub mechanism: Mechanism,
    /// However it decides, a version goes so long after it began to wait; `None`: perhaps never.
    pub within: Option<Duration>,
}

impl Default for Setting {
    /// `ihsl:2,1+within:1h`.
    ///
    /// Of the published mechanisms IHSL with a history of 2 finds shared files best for the bytes
    /// that it moves: under twice the traffic of on-demand, and 43 % fewer back-fetches. Left
    /// alone it would keep what nobody reads at the station for good, where one disk can lose it;
    /// one hour is the bound for which the research found five nines of availability, and it is long
    /// enough for most of what is overwritten to be overwritten before it is sent.
    fn default() -> Self {
        Self { mechanism: Mechanism::StationLoad(2, 1), within: Some(Duration::from_secs(3600)) }
    }
}

/// Why a text is no policy setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No mechanism has this name.
    #[error(
        "`{0}` is no propagation policy: write-through, on-demand, periodic:TIME, ih:HISTORY, ihsl:HISTORY,LOAD, ttnu:WEIGHT or atd, each with +within:TIME if wanted"
    )]
    Unknown(String),
    /// Its number is missing, malformed or out of range.
    #[error("`{0}` does not fit here: {1}")]
    Value(String, &'static str),
}

const TIME: &str = "a time like 15s, 10m, 1h or 1d, above zero";
const HISTORY: &str = "a history of 0 to 1000 writes";
const LOAD: &str = "a history and a load, like 2,1";
const WEIGHT: &str = "a weight from 0 to 1";

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let text = text.trim();
        let (mechanism, within) = match text.split_once('+') {
            Some((mechanism, rest)) => (mechanism, Some(rest)),
            None => (text, None),
        };
        let within = match within {
            None => None,
            Some(rest) => match rest.trim().split_once(':') {
                Some(("within", time)) => Some(parse_time(time)?),
                _ => return Err(SettingError::Unknown(text.to_owned())),
            },
        };
        Ok(Self { mechanism: parse_mechanism(mechanism.trim())?, within })
    }
}

fn parse_mechanism(text: &str) -> Result<Mechanism, SettingError> {
    let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value.trim())));
    Ok(match (name.trim(), value) {
        ("write-through", None) => Mechanism::WriteThrough,
        ("on-demand", None) => Mechanism::OnDemand,
        ("atd", None) => Mechanism::AdaptiveDelay,
        ("periodic", value) => Mechanism::Periodic(parse_time(value.unwrap_or(""))?),
        ("ih", value) => Mechanism::InvalidationHeuristic(parse_history(value.unwrap_or(""), HISTORY)?),
        ("ihsl", value) => {
            let value = value.unwrap_or("");
            let bad = || SettingError::Value(value.to_owned(), LOAD);
            let (history, load) = value.split_once(',').ok_or_else(bad)?;
            let load = load.trim().parse().map_err(|_| bad())?;
            Mechanism::StationLoad(parse_history(history.trim(), LOAD)?, load)
        }
        ("ttnu", value) => {
            let value = value.unwrap_or("");
            let weight = value.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
            Mechanism::TimeToNextUse(weight.ok_or_else(|| SettingError::Value(value.to_owned(), WEIGHT))?)
        }
        _ => return Err(SettingError::Unknown(text.to_owned())),
    })
}

fn parse_history(text: &str, form: &'static str) -> Result<u32, SettingError> {
    let history = text.parse().ok().filter(|history| *history <= HISTORY_MAX);
    history.ok_or_else(|| SettingError::Value(text.to_owned(), form))
}

const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];

fn parse_time(text: &str) -> Result<Duration, SettingError> {
    let text = text.trim();
    let seconds = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match seconds {
        Some(seconds @ 1..=SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err(SettingError::Value(text.to_owned(), TIME)),
    }
}

/// Whole seconds in the largest unit that divides them.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = |(_, unit): &&(&str, u64)| seconds.is_multiple_of(*unit);
    let (unit, size) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
    format!("{}{unit}", seconds / size)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mechanism {
            Mechanism::WriteThrough => f.write_str("write-through")?,
            Mechanism::OnDemand => f.write_str("on-demand")?,
            Mechanism::Periodic(period) => write!(f, "periodic:{}", shown(period))?,
            Mechanism::InvalidationHeuristic(history) => write!(f, "ih:{history}")?,
            Mechanism::StationLoad(history, load) => write!(f, "ihsl:{history},{load}")?,
            Mechanism::TimeToNextUse(weight) => write!(f, "ttnu:{weight}")?,
            Mechanism::AdaptiveDelay => f.write_str("atd")?,
        }
        self.within.map_or(Ok(()), |within| write!(f, "+within:{}", shown(within)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_are_read_and_shown_alike() {
        for text in [
            "write-through",
            "on-demand",
            "periodic:15s",
            "ih:2",
            "ihsl:2,1",
            "ihsl:3,-4",
            "ttnu:0.5",
            "atd",
            "atd+within:1d",
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        assert_eq!(Setting::default().to_string(), "ihsl:2,1+within:1h");
        assert_eq!("periodic:120s".parse::<Setting>().unwrap().to_string(), "periodic:2m");
    }

    #[test]
    fn what_is_no_setting_is_refused_with_the_form_that_would_be_one() {
        for text in [
            "",
            "sometimes",
            "periodic",
            "periodic:0s",
            "periodic:5",
            "ih:many",
            "ihsl:2",
            "ttnu:2",
            "atd:1",
            "atd+soon",
        ] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
        let message = "periodic:5".parse::<Setting>().unwrap_err().to_string();
        assert_eq!(message, "`5` does not fit here: a time like 15s, 10m, 1h or 1d, above zero");
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC{0,40}") {
            let _ = text.parse::<Setting>();
        }
    }
}
