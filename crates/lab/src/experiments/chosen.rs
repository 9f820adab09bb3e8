//! Settings of experiments as lists and numbers.

use crate::{Context, LabError};
use std::str::FromStr;
use wayfs_link::Profile;

/// Names of the wide areas of the published evaluation.
pub(super) fn scenarios() -> Vec<&'static str> {
    Profile::scenarios().iter().map(|profile| profile.name).collect()
}

/// Those whose names a setting lists, separated by commas; all if it is not given, and none if it is `none`.
///
/// # Errors
/// [`LabError::Experiment`] if it names one that there is not.
pub(super) fn chosen<T: Copy>(
    context: &Context<'_>,
    key: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, LabError> {
    let Some(wanted) = context.setting(key) else { return Ok(all.to_vec()) };
    if wanted == "none" {
        return Ok(Vec::new());
    }
    let find = |wanted: &str| {
        let found = all.iter().copied().find(|it| name(*it).eq_ignore_ascii_case(wanted));
        let names = || all.iter().map(|it| name(*it)).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| LabError::Experiment(format!("{key}={wanted}: there are {}", names())))
    };
    wanted.split(',').filter(|wanted| !wanted.is_empty()).map(find).collect()
}

/// A setting that is a whole number.
///
/// # Errors
/// [`LabError::Experiment`] if it is none.
pub(super) fn number<T: FromStr>(context: &Context<'_>, key: &str, default: T) -> Result<T, LabError> {
    let wrong = |_| LabError::Experiment(format!("{key} is to be a whole number"));
    context.setting(key).map_or(Ok(default), |typed| typed.parse().map_err(wrong))
}
