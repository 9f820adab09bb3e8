//! Checks in words.

use super::table::clean;
use std::fmt::Write;
use wayfs_control::report::{DoctorReport, Verdict};

/// A longer name of a check pushes its own line only.
const CHECK_WIDTH_MAX: usize = 44;

/// One line per check, and what to do under those that are not well.
pub(crate) fn doctor(report: &DoctorReport) -> String {
    let mut text = String::new();
    let checks = report.facts.iter().map(|fact| fact.check.chars().count());
    let width = checks.max().unwrap_or(0).min(CHECK_WIDTH_MAX);
    for fact in &report.facts {
        let mark = match fact.verdict {
            Verdict::Good => "ok  ",
            Verdict::Warning => "warn",
            Verdict::Bad => "BAD ",
        };
        let _ = writeln!(text, "{mark}  {:<width$}  {}", clean(&fact.check), clean(&fact.detail));
        if fact.verdict != Verdict::Good && !fact.next_step.is_empty() {
            let _ = writeln!(text, "      {:<width$}  → {}", "", clean(&fact.next_step));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::DoctorFact;

    #[test]
    fn what_is_not_well_comes_with_what_to_do() {
        let fact = |verdict, next_step: &str| DoctorFact {
            check: "clock".into(),
            verdict,
            detail: "found".into(),
            next_step: next_step.into(),
        };
        let text = doctor(&DoctorReport { facts: vec![fact(Verdict::Good, "x"), fact(Verdict::Bad, "set it")] });
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("→ set it\n"));
    }
}
