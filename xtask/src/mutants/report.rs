//! The table of all mutants, and the score.

use super::list::Mutant;
use super::results::{Found, Results};

/// All mutants, as a table.
pub(super) fn table(mutants: &[Mutant], results: &Results) -> String {
    let mut text = String::from(
        "| mutant | what the broken program does | loses data | test | simulator |\n| --- | --- | --- | --- | --- |\n",
    );
    for mutant in mutants {
        let (test, seeds) = match results.of(&mutant.name) {
            None => ("not tried".to_owned(), "not tried".to_owned()),
            Some(Found { test, seeds }) => {
                let test = test.as_ref().map_or_else(|| "**missed**".to_owned(), |test| format!("`{test}`"));
                (test, seeds.to_string())
            }
        };
        let loses = if mutant.loses_data { "yes" } else { "no" };
        text.push_str(&format!("| `{}` | {} | {loses} | {test} | {seeds} |\n", mutant.name, mutant.what));
    }
    text.push('\n');
    text.push_str(&score(mutants, results));
    text
}

/// How many were noticed.
pub(super) fn score(mutants: &[Mutant], results: &Results) -> String {
    let tried: Vec<(&Mutant, &Found)> =
        mutants.iter().filter_map(|mutant| Some((mutant, results.of(&mutant.name)?))).collect();
    let count = |is: &dyn Fn(&Mutant, &Found) -> bool| tried.iter().filter(|(mutant, found)| is(mutant, found)).count();
    let by_tests = count(&|_, found| found.test.is_some());
    let by_seeds = count(&|_, found| found.is_noticed_by_seeds());
    let by_any = count(&|_, found| found.is_noticed());
    let losing = count(&|mutant, _| mutant.loses_data);
    let losing_by_seeds = count(&|mutant, found| mutant.loses_data && found.is_noticed_by_seeds());
    format!(
        "{} of {} mutants were tried: {by_any} were noticed, {by_tests} by unit tests and {by_seeds} by the simulator; of {losing} that lose \
         data, {losing_by_seeds} by the simulator.\n",
        tried.len(),
        mutants.len(),
    )
}
