//! Where the trace comes from: a recording that the laboratory has, or a file that somebody names.

use super::trace::{HEADER, Trace};
use super::{nfs_table, nfsdump, strace};
use crate::{Context, LabError};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What the laboratory has: a few seconds of somebody's work on sources, recorded by us (`crates/lab/data/README.md` says how).
const RECORDED: &str = include_str!("../../../data/work-on-sources.csv");

/// The trace of a run, and what to call it.
pub(super) fn load(context: &Context<'_>) -> Result<(Trace, String), LabError> {
    let (trace, name) = match context.setting("trace") {
        Some(path) => {
            let below = context.setting("below").unwrap_or("/");
            (read(&text(Path::new(path))?, path, below)?, path.to_owned())
        }
        None => (
            read(RECORDED, "the recording", "/")?,
            "clone, search, edit, commit and build a small source tree".to_owned(),
        ),
    };
    let trace = match setting(context, "seconds")? {
        Some(seconds) => trace.cut(Duration::from_secs_f64(seconds)),
        None => trace,
    };
    if trace.steps.is_empty() {
        return Err(LabError::Experiment(format!("{name} holds no operation that can be replayed")));
    }
    Ok((trace, name))
}

/// Reads text in each of the forms, whatever its first line says; for the fuzzer.
pub(crate) fn read_all(text: &str) {
    let _ = read(text, "text", "/");
    let _ = (Trace::read(text), nfs_table::read(text), nfsdump::read(text), strace::read(text, "/"));
}

/// A positive number among the settings.
pub(super) fn setting(context: &Context<'_>, key: &str) -> Result<Option<f64>, LabError> {
    let Some(typed) = context.setting(key) else { return Ok(None) };
    match typed.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e6 => Ok(Some(number)),
        Ok(_) | Err(_) => {
            Err(LabError::Experiment(format!("{key}={typed}: a number above 0 and below a million is wanted")))
        }
    }
}

/// Reads any of the forms, which is told by its first line.
fn read(text: &str, name: &str, below: &str) -> Result<Trace, LabError> {
    let first = text.lines().next().unwrap_or_default();
    let trace = match first {
        HEADER => Trace::read(text),
        _ if nfs_table::is_one(first) => nfs_table::read(text),
        _ if nfsdump::is_one(first) => nfsdump::read(text),
        _ if strace::is_one(first) => strace::read(text, below),
        _ => {
            let forms = format!("`{HEADER}`, a table of NFS messages, nfsdump, or `strace -f -ttt -y`");
            return Err(LabError::Experiment(format!("{name} begins like none of the known forms: {forms}")));
        }
    };
    trace.map_err(|error| LabError::Experiment(format!("{name}: {error}")))
}

/// The text of a file; those ending in `.gz` and `.xz` are unpacked.
fn text(path: &Path) -> Result<String, LabError> {
    let doing = || format!("read {}", path.display());
    let unpack = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => "gzip",
        Some("xz") => "xz",
        _ => return std::fs::read_to_string(path).map_err(LabError::io(doing())),
    };
    let output = Command::new(unpack).arg("-dc").arg(path).output().map_err(LabError::io(format!("run {unpack}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Tool { tool: format!("{unpack} -dc {}", path.display()), message });
    }
    String::from_utf8(output.stdout).map_err(|_| LabError::Experiment(format!("{} is no text", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_can_be_replayed() {
        let trace = read(RECORDED, "the recording", "/").unwrap();
        assert!(trace.steps.len() > 1000 && trace.length() < Duration::from_secs(10));
    }

    #[test]
    fn a_text_of_no_form_is_refused() {
        assert!(read("hello\n", "x", "/").unwrap_err().to_string().contains("x begins like none"));
    }
}
