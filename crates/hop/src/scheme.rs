//! Schemes by name.

use crate::arq::{ArqConfig, Losses, Order};
use crate::snoop::{Acknowledgements, Duplicates, Repair, SnoopConfig};
use std::str::FromStr;
use std::time::Duration;

/// What is done about a lossy hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Nothing.
    None,
    /// Frames at both ends of the hop.
    Arq(ArqConfig),
    /// The base station reads TCP.
    Snoop(SnoopConfig),
    /// Two connections joined at the base station.
    Split {
        /// Whether that over the hop uses selective acknowledgements (SMART).
        selective: bool,
    },
    /// Of every `n` packets `n - k` are computed from the other `k`.
    Fec {
        /// Packets of a block.
        n: u8,
        /// Of them that carry something.
        k: u8,
    },
}

/// Not the name of a scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no scheme: there are none, ll, ll-order, ll-sack, snoop, snoop-sack, split, split-sack, eln, fec:N,K (0 < K < N < 256) and ours"
)]
pub struct SchemeError(String);

/// Smallest timeout of the published link layers.
const PUBLISHED_TIMEOUT: Duration = Duration::from_millis(200);

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(name: &str) -> Result<Self, SchemeError> {
        // The published link layers report every frame at once and wait for nothing.
        let plain = ArqConfig {
            timeout_min: PUBLISHED_TIMEOUT,
            timeout_initial: PUBLISHED_TIMEOUT * 3,
            hold: Duration::ZERO,
            ..ArqConfig::default()
        };
        let snoop = SnoopConfig::default();
        Ok(match name {
            "none" => Self::None,
            "ll" => Self::Arq(ArqConfig { order: Order::AsTheyCome, losses: Losses::Duplicates, ..plain }),
            "ll-order" => Self::Arq(ArqConfig { losses: Losses::Duplicates, ..plain }),
            "ll-sack" => Self::Arq(ArqConfig { order: Order::AsTheyCome, ..plain }),
            "ours" => Self::Arq(ArqConfig::default()),
            "snoop" => Self::Snoop(snoop),
            "snoop-sack" => Self::Snoop(SnoopConfig { acknowledgements: Acknowledgements::Selective, ..snoop }),
            "eln" => Self::Snoop(SnoopConfig { duplicates: Duplicates::Passed, repair: Repair::NoticeOnly, ..snoop }),
            "split" => Self::Split { selective: false },
            "split-sack" => Self::Split { selective: true },
            other => fec(other).ok_or_else(|| SchemeError(other.to_owned()))?,
        })
    }
}

fn fec(name: &str) -> Option<Scheme> {
    let (n, k) = name.strip_prefix("fec:")?.split_once(',')?;
    let (n, k) = (n.parse().ok()?, k.parse().ok()?);
    (0 < k && k < n).then_some(Scheme::Fec { n, k })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_have_names_and_nonsense_is_refused_with_all_of_them() {
        for name in [
            "none",
            "ll",
            "ll-order",
            "ll-sack",
            "snoop",
            "snoop-sack",
            "eln",
            "split",
            "split-sack",
            "ours",
            "fec:12,10",
        ] {
            assert!(name.parse::<Scheme>().is_ok(), "{name}");
        }
        for name in ["", "fec", "fec:1,2", "fec:300,2", "fec:2,2", "fec:2,0", "sack"] {
            let error = name.parse::<Scheme>().unwrap_err();
            assert!(error.to_string().contains("snoop-sack"), "{error}");
        }
    }
}
