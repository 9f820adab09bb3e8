//! The five phases, each a few lines of shell as in the original benchmark, timed apart.
//!
//! The original runs a program per file in the phases that look, so this does, too.

use crate::{LabError, Topology};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// `$1` is the source tree, `$2` the tree that is worked on.
    script: &'static str,
}

/// All of them, in order.
pub(super) const PHASES: [Phase; 5] = [
    Phase {
        name: "MakeDir",
        script: "mkdir \"$2\"; cd \"$1\"; find . -mindepth 1 -type d | while read -r d; do mkdir \"$2/$d\"; done",
    },
    Phase { name: "Copy", script: "cd \"$1\"; find . -type f | while read -r f; do cp \"$f\" \"$2/$f\"; done" },
    Phase { name: "ScanDir", script: "cd \"$2\"; find . -exec ls -ld {} \\; >/dev/null; du -s . >/dev/null" },
    Phase {
        name: "ReadAll",
        script: "cd \"$2\"; find . -type f -exec grep bar {} \\; >/dev/null; find . -type f -exec wc {} \\; >/dev/null",
    },
    Phase { name: "Make", script: "cd \"$2\"; make >/dev/null" },
];

/// How the five phases went.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Seconds of each phase that ended.
    pub(super) seconds: Vec<f64>,
    /// Seconds of processor time that the programs took; the rest was waiting.
    pub(super) busy: f64,
    /// Bytes that crossed the wide area meanwhile, from the home and to it, with the headers of packets.
    pub(super) crossed: [u64; 2],
    /// The first thing that a program complained of, although it went on.
    pub(super) complaint: Option<String>,
    /// The time after which it was given up, if it was.
    pub(super) given_up: Option<Duration>,
}

impl Outcome {
    /// Seconds of all phases, or how long it went on before it was given up.
    pub(super) fn total(&self) -> f64 {
        self.given_up.map_or_else(|| self.seconds.iter().sum(), |bound| bound.as_secs_f64())
    }
}

/// Runs the phases on a host, from a source tree to a new tree, and gives up after `bound`.
///
/// # Errors
/// [`LabError::Tool`] if a program fails.
pub(super) fn run(lab: &Topology, host: &str, trees: [&Path; 2], bound: Duration) -> Result<Outcome, LabError> {
    let own = lab.directory(host)?.join("andrew");
    std::fs::create_dir_all(&own).map_err(LabError::io(format!("make {}", own.display())))?;
    let mut outcome = Outcome::default();
    let begin = Instant::now();
    for phase in PHASES {
        let left = bound.saturating_sub(begin.elapsed());
        let mut command = Command::new("sh");
        // What `times` prints at the end are the seconds of processor time of the shell and of what it ran.
        command.arg("-c").arg(format!("set -e; {}; times", phase.script)).arg("andrew").args(trees);
        // The compiler's temporary files are not the file system's.
        command.env("HOME", &own).env("TMPDIR", &own).env("LC_ALL", "C").current_dir(&own);
        let started = Instant::now();
        let output = match lab.run(host, command, left) {
            Ok(output) => output,
            Err(LabError::TimedOut { .. }) => return Ok(Outcome { given_up: Some(bound), ..outcome }),
            Err(other) => return Err(other),
        };
        outcome.seconds.push(started.elapsed().as_secs_f64());
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(LabError::Tool {
                tool: phase.name.into(),
                message: format!("{}: {}", output.status, said.trim()),
            });
        }
        // `find` goes on where a program that it runs fails. Whether the right files came out is seen in the end.
        let complaint = said.lines().next().map(|line| format!("{}: {line}", phase.name));
        outcome.complaint = outcome.complaint.or(complaint);
        outcome.busy += busy(&String::from_utf8_lossy(&output.stdout));
    }
    Ok(outcome)
}

/// The sum of what `times` printed: `0m0.010000s 0m0.020000s`, two lines of them.
fn busy(printed: &str) -> f64 {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    printed.split_whitespace().filter_map(seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_the_sum_of_all_four_numbers() {
        assert!((busy("0m0.010000s 0m0.020000s\n1m1.500000s 0m0.470000s\n") - 62.0).abs() < 1e-9);
        assert_eq!(busy("nothing of the kind"), 0.0);
    }

    #[test]
    fn a_run_that_was_given_up_took_its_bound() {
        let whole = Outcome { seconds: vec![1.0, 2.0], ..Outcome::default() };
        assert_eq!(whole.total(), 3.0);
        assert_eq!(Outcome { given_up: Some(Duration::from_secs(9)), ..whole }.total(), 9.0);
    }
}
