//! A path: where a run leaves the order in which things would happen by themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What is done at a point in place of the event that is next there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deviation {
    /// Something else happens first at that machine.
    Delay,
    /// The machine loses power before it, and so many of the batches that were not durable survive, with the chunks before them.
    Crash {
        /// How many.
        kept: usize,
    },
    /// The session is cut before its next message arrives. What is on its way is lost.
    Cut,
}

impl Deviation {
    /// Whether it is one of the faults, which are bounded apart.
    pub(crate) const fn is_fault(self) -> bool {
        !matches!(self, Self::Delay)
    }
}

/// Deviations by the number of the point.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub BTreeMap<usize, Deviation>);

impl Path {
    /// The same with one deviation more.
    pub(super) fn and(&self, point: usize, deviation: Deviation) -> Self {
        let mut path = self.clone();
        path.0.insert(point, deviation);
        path
    }

    /// The first point behind all deviations.
    pub(crate) fn behind(&self) -> usize {
        self.0.last_key_value().map_or(0, |(point, _)| point + 1)
    }

    pub(super) fn faults(&self) -> usize {
        self.0.values().filter(|deviation| deviation.is_fault()).count()
    }

    pub(super) fn delays(&self) -> usize {
        self.0.len() - self.faults()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (point, deviation)) in self.0.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            match deviation {
                Deviation::Delay => write!(f, "{point}:delay")?,
                Deviation::Crash { kept } => write!(f, "{point}:crash-{kept}")?,
                Deviation::Cut => write!(f, "{point}:cut")?,
            }
        }
        Ok(())
    }
}

/// A text that is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no step of a path: POINT:delay, POINT:cut or POINT:crash-BATCHES")]
pub struct PathError(String);

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let steps = text.split(',').filter(|step| !step.is_empty());
        steps.map(|step| parse(step).ok_or_else(|| PathError(step.to_owned()))).collect::<Result<_, _>>().map(Self)
    }
}

fn parse(step: &str) -> Option<(usize, Deviation)> {
    let (point, deviation) = step.split_once(':')?;
    let deviation = match deviation {
        "delay" => Deviation::Delay,
        "cut" => Deviation::Cut,
        crash => Deviation::Crash { kept: crash.strip_prefix("crash-")?.parse().ok()? },
    };
    Some((point.parse().ok()?, deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_it_is_shown() {
        let text = "3:delay,7:crash-2,19:cut";
        let path: Path = text.parse().unwrap();
        assert_eq!((path.to_string(), path.faults(), path.delays(), path.behind()), (text.to_owned(), 2, 1, 20));
        assert_eq!("".parse::<Path>().unwrap(), Path::default());
        for text in ["3", "x:delay", "3:crash", "3:crash-", "3:sleep"] {
            assert!(text.parse::<Path>().is_err(), "{text}");
        }
    }
}
