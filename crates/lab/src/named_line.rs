//! Lines by name and from files.

use crate::LabError;
use std::path::Path;
use std::process::Command;
use wayfs_link::Profile;
use wayfs_link::description::{DescriptionError, LineDescription, LinePlan};

/// The line of a profile.
///
/// # Errors
/// [`LabError::Description`] if there is no such profile.
pub fn line(profile: &str) -> Result<LinePlan, LabError> {
    let found = Profile::named(profile).ok_or_else(|| DescriptionError::UnknownProfile(profile.to_owned()))?;
    Ok(LinePlan::from(&found))
}

/// A line as TOML describes it (see [`wayfs_link::description`]). Traces are files, their paths relative to `directory`;
/// those ending in `.xz` are unpacked.
///
/// # Errors
/// [`LabError`] says what is wrong with the text.
pub fn read_line(text: &str, directory: &Path) -> Result<LinePlan, LabError> {
    let description: LineDescription =
        toml::from_str(text).map_err(|error| LabError::Experiment(format!("read the line: {error}")))?;
    plan(&description, directory)
}

/// What a description means, with traces relative to `directory`.
pub(crate) fn plan(description: &LineDescription, directory: &Path) -> Result<LinePlan, LabError> {
    Ok(description.plan(&|name| read_trace(&directory.join(name)))?)
}

fn read_trace(path: &Path) -> Result<String, String> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return std::fs::read_to_string(path).map_err(|error| error.to_string());
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().map_err(|error| format!("run xz: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    String::from_utf8(output.stdout).map_err(|_| "it is no text".to_owned())
}
