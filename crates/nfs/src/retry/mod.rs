//! When a call is sent again: policies, a file each, all pure.
//!
//! | name | what it does |
//! | --- | --- |
//! | `exponential` | BSD's: 1 s, doubling, at most 60 s; `first=0.7s` as in the text of 1996 |
//! | `hybrid:r=3,c=…` | the first `r` timeouts grow by `c`, later ones double |
//! | `adaptive` | from measured round trips by kind of call, doubling |
//! | `constant` | always the same |
//! | `ours` | small probes while the path is silent, and everything overtaken again as soon as one is answered |

mod adaptive;
mod constant;
mod exponential;
mod hybrid;
mod ours;
mod round_trip;

pub use adaptive::Adaptive;
pub use constant::Constant;
pub use exponential::Exponential;
pub use hybrid::Hybrid;
pub use ours::Ours;

use crate::Kind;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest timeout of all policies, as BSD has it.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Shortest timeout that may be set.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Decides when calls are sent again. It sees answers, never the clock.
pub trait Policy: fmt::Debug + Send {
    /// How long the answer to the `sending`th sending (from 1) of a call is waited for.
    fn timeout(&self, kind: Kind, sending: u32) -> Duration;

    /// A call was answered `round_trip` after its only sending. (Of one that was sent twice nobody knows which was answered.)
    fn on_answer(&mut self, _kind: Kind, _round_trip: Duration) {}

    /// Answers came `gap` after each other while more calls were in flight.
    fn on_gap(&mut self, _gap: Duration) {}

    /// Probing, if this policy probes a silent path instead of sending calls again blindly.
    fn probing(&self) -> Option<&dyn Probing> {
        None
    }
}

/// How a silent path is probed.
pub trait Probing {
    /// How long a path with calls in flight may be silent before the next probe; `probes` were not answered so far, `kinds` is of the
    /// calls in flight.
    fn silence(&self, probes: u32, slowest: Kind, in_flight: usize) -> Duration;
}

/// A policy by name and settings, as it is typed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Retry {
    /// See [`Exponential`].
    Exponential(Exponential),
    /// See [`Hybrid`].
    Hybrid(Hybrid),
    /// See [`Adaptive`].
    Adaptive,
    /// See [`Constant`].
    Constant(Constant),
    /// See [`Ours`].
    #[default]
    Ours,
}

impl Retry {
    /// A policy that begins.
    pub fn begin(self) -> Box<dyn Policy> {
        match self {
            Self::Exponential(policy) => Box::new(policy),
            Self::Hybrid(policy) => Box::new(policy),
            Self::Adaptive => Box::new(Adaptive::default()),
            Self::Constant(policy) => Box::new(policy),
            Self::Ours => Box::new(Ours::default()),
        }
    }
}

/// Why text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: a policy is exponential[:first=1s], hybrid[:first=0.7s,r=3,c=0.1s], adaptive, constant[:every=1s] or ours"
)]
pub struct RetryError(String);

impl FromStr for Retry {
    type Err = RetryError;

    fn from_str(text: &str) -> Result<Self, RetryError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let bad = || RetryError(text.to_owned());
        let mut policy = match name {
            "exponential" => Self::Exponential(Exponential::default()),
            "hybrid" => Self::Hybrid(Hybrid::default()),
            "adaptive" => Self::Adaptive,
            "constant" => Self::Constant(Constant::default()),
            "ours" => Self::Ours,
            _ => return Err(bad()),
        };
        // A comma separates mount options, so a slash does here as well.
        for setting in settings.split([',', '/']).filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').ok_or_else(bad)?;
            match (&mut policy, key) {
                (Self::Exponential(policy), "first") => policy.first = duration(value).ok_or_else(bad)?,
                (Self::Hybrid(policy), "first") => policy.first = duration(value).ok_or_else(bad)?,
                (Self::Hybrid(policy), "c") => policy.step = duration(value).ok_or_else(bad)?,
                (Self::Hybrid(policy), "r") => policy.linear = value.parse().map_err(|_| bad())?,
                (Self::Constant(policy), "every") => policy.every = duration(value).ok_or_else(bad)?,
                _ => return Err(bad()),
            }
        }
        Ok(policy)
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential(policy) => write!(f, "exponential:first={}s", policy.first.as_secs_f64()),
            Self::Hybrid(policy) => {
                let (first, step) = (policy.first.as_secs_f64(), policy.step.as_secs_f64());
                write!(f, "hybrid:first={first}s,r={},c={step}s", policy.linear)
            }
            Self::Adaptive => f.write_str("adaptive"),
            Self::Constant(policy) => write!(f, "constant:every={}s", policy.every.as_secs_f64()),
            Self::Ours => f.write_str("ours"),
        }
    }
}

/// `0.7s`, `700ms` or `0.7`: between [`TIMEOUT_MIN`] and [`TIMEOUT_MAX`].
fn duration(text: &str) -> Option<Duration> {
    let seconds = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(milliseconds), _) => milliseconds.parse::<f64>().ok()? / 1000.0,
        (None, Some(seconds)) => seconds.parse().ok()?,
        (None, None) => text.parse().ok()?,
    };
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (TIMEOUT_MIN..=TIMEOUT_MAX).contains(&duration).then_some(duration)
}

/// `first * 2^doublings`, at most [`TIMEOUT_MAX`].
fn doubled(first: Duration, doublings: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(doublings.min(30))).min(TIMEOUT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of the first timeouts.
    fn timeouts(policy: &str, count: u32) -> Vec<u128> {
        let policy = policy.parse::<Retry>().unwrap().begin();
        (1..=count).map(|sending| policy.timeout(Kind::Read, sending).as_millis()).collect()
    }

    #[test]
    fn exponential_timeouts_are_bsds() {
        assert_eq!(timeouts("exponential", 8), [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(timeouts("exponential:first=0.7s", 3), [700, 1400, 2800]);
    }

    #[test]
    fn hybrid_timeouts_grow_by_a_constant_and_then_double() {
        assert_eq!(timeouts("hybrid:first=700ms,r=3,c=100ms", 7), [700, 800, 900, 1000, 2000, 4000, 8000]);
        assert_eq!(timeouts("hybrid:first=0.1s/r=0/c=1s", 3), [100, 200, 400]);
        assert_eq!(timeouts("hybrid:first=60s,r=3,c=1s", 2), [60_000, 60_000]);
    }

    #[test]
    fn constant_timeouts_stay() {
        assert_eq!(timeouts("constant:every=0.25s", 4), [250; 4]);
    }

    #[test]
    fn policies_are_written_as_they_are_read() {
        for text in ["exponential:first=0.7s", "hybrid:first=0.7s,r=3,c=0.1s", "adaptive", "constant:every=1s", "ours"]
        {
            assert_eq!(text.parse::<Retry>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "fast",
            "hybrid:r",
            "hybrid:r=x",
            "ours:c=1",
            "constant:every=0s",
            "constant:every=-1s",
            "exponential:first=nan",
        ] {
            assert!(text.parse::<Retry>().is_err(), "{text}");
        }
    }
}
