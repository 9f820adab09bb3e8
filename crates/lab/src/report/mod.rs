//! Reports: one page per run with everything in it, and an index of several.

mod page;
mod plot;
mod scale;

use crate::LabError;
use crate::experiment::SUMMARY;
use crate::summary::Summary;
use std::path::{Path, PathBuf};

/// Name of the page of a run.
const PAGE: &str = "report.html";
/// Name of the page that lists several.
const INDEX: &str = "index.html";

/// Writes the page of a run into its directory.
pub(crate) fn write_page(summary: &Summary, directory: &Path) -> Result<(), LabError> {
    write(&directory.join(PAGE), &page::page(summary))
}

/// Draws the pages of all runs in a directory of results anew, and a page that lists them. Gives its path.
///
/// # Errors
/// [`LabError`] if there is no run, or one cannot be read or written.
pub fn report(directory: &Path) -> Result<PathBuf, LabError> {
    let listing = std::fs::read_dir(directory).map_err(LabError::io(format!("list {}", directory.display())))?;
    let mut runs: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    runs.push(directory.to_owned());
    runs.retain(|run| run.join(SUMMARY).exists());
    runs.sort();
    let mut summaries = Vec::new();
    for run in &runs {
        let summary = read(&run.join(SUMMARY))?;
        write_page(&summary, run)?;
        let place = run.strip_prefix(directory).unwrap_or(run).join(PAGE);
        summaries.push((place.to_string_lossy().into_owned(), summary));
    }
    if summaries.is_empty() {
        return Err(LabError::Experiment(format!("there is no {SUMMARY} in {}", directory.display())));
    }
    let path = directory.join(INDEX);
    write(&path, &page::index(&summaries))?;
    Ok(path)
}

fn read(path: &Path) -> Result<Summary, LabError> {
    let text = std::fs::read_to_string(path).map_err(LabError::io(format!("read {}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| LabError::Experiment(format!("read {}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    std::fs::write(path, text).map_err(LabError::io(format!("write {}", path.display())))
}
