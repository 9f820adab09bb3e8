//! Which wide areas an experiment is run on.

use crate::{Context, LabError, line};
use wayfs_link::Profile;

/// Those of the setting `scenarios=NAME,…`; else a few of a quick run, or all eight.
///
/// # Errors
/// [`LabError::Description`] for a name that is none.
pub(super) fn scenarios(context: &Context<'_>, quick: &[&str]) -> Result<Vec<String>, LabError> {
    let names: Vec<String> = match context.setting("scenarios") {
        Some(names) => names.split(',').map(str::to_owned).collect(),
        None if context.is_quick() => quick.iter().copied().map(str::to_owned).collect(),
        None => Profile::scenarios().iter().map(|profile| profile.name.to_owned()).collect(),
    };
    for name in &names {
        line(name)?;
    }
    Ok(names)
}
