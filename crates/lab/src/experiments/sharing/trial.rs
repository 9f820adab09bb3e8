//! One trial: a tree is shared, the first user edits and commits, the second updates.

use super::crossing::{Crossing, Listeners};
use super::tool::{Timed, Tool, User};
use super::tree::{self, Edit, SourceFile};
use crate::{LabError, Sites};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A directory that two users share, as each of them sees it.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) first: PathBuf,
    pub(super) second: PathBuf,
    /// Longest time for one user to see what the other did.
    pub(super) patience: Duration,
}

impl Shared {
    /// A directory in it.
    pub(super) fn join(&self, name: &str) -> Self {
        Self { first: self.first.join(name), second: self.second.join(name), patience: self.patience }
    }

    /// The first user signals, by a file. Gives how long it took until the second saw it. Records of one user take
    /// effect in their order everywhere, so whoever sees the signal sees what came before it, too.
    pub(super) fn signal(&self, text: &str) -> Result<Duration, LabError> {
        pass(&self.first, &self.second, text, self.patience)
    }

    /// The same from the second to the first.
    pub(super) fn signal_back(&self, text: &str) -> Result<Duration, LabError> {
        pass(&self.second, &self.first, text, self.patience)
    }
}

fn pass(from: &Path, to: &Path, text: &str, patience: Duration) -> Result<Duration, LabError> {
    std::fs::write(from.join("signal"), text).map_err(LabError::io("signal to the other site"))?;
    let began = Instant::now();
    while std::fs::read(to.join("signal")).ok().as_deref() != Some(text.as_bytes()) {
        if began.elapsed() > patience {
            return Err(LabError::TimedOut { what: format!("the other site to see \"{text}\""), within: patience });
        }
        std::thread::sleep(LOOK);
    }
    Ok(began.elapsed())
}

/// The two users.
pub(super) struct Users<'a> {
    pub(super) first: User<'a>,
    pub(super) second: User<'a>,
}

/// What came out.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// Of the commit.
    pub(super) commit: Timed,
    /// From the end of the commit until the second user could have it.
    pub(super) waited: Duration,
    /// Of the update.
    pub(super) update: Timed,
    /// Files of the second working copy that are not as the first user left them.
    pub(super) differences: usize,
    /// What the commit caused, if that can be told.
    pub(super) commit_crossing: Option<Crossing>,
    /// What the update caused.
    pub(super) update_crossing: Option<Crossing>,
}

/// Makes repository and working copies, and lets both users read the repository.
pub(super) fn prepare(
    users: &Users<'_>,
    tool: &dyn Tool,
    place: &Shared,
    source: &[SourceFile],
) -> Result<(), LabError> {
    std::fs::create_dir_all(&place.first).map_err(LabError::io("make the shared directory"))?;
    let local = users.first.home.join(format!("source-{}", place.first.file_name().unwrap_or_default().display()));
    tree::write(&local, source)?;
    tool.create(&users.first, &place.first, &local)?;
    tool.check_out(&users.first, &place.first, "one")?;
    place.signal("made")?;
    read_all(&tool.repository(&place.second))?;
    tool.check_out(&users.second, &place.second, "two")?;
    place.signal_back("checked out").map(drop)
}

/// Edit, commit, update.
pub(super) fn measure(
    users: &Users<'_>,
    tool: &dyn Tool,
    place: &Shared,
    edit: &Edit,
    counted: Option<&Counted<'_>>,
) -> Result<Trial, LabError> {
    let (one, two) = (place.first.join("one"), place.second.join("two"));
    tree::write(&one, &edit.changed)?;
    tree::write(&one, &edit.new)?;
    tool.announce(&users.first, &one, edit)?;
    place.signal("edited")?;
    let counting =
        counted.map(|counted| counted.first.count(counted.sites, &tool.repository(&place.first))).transpose()?;
    let commit = tool.commit(&users.first, &one)?;
    let waited = place.signal("committed")?;
    // The signal is one record.
    let commit_crossing = match (counting, counted) {
        (Some(counting), Some(counted)) => Some(counting.finish(counted.sites, 1)?),
        _ => None,
    };
    let counting =
        counted.map(|counted| counted.second.count(counted.sites, &tool.repository(&place.second))).transpose()?;
    let update = tool.update(&users.second, &two)?;
    let differences = tree::differences(&two, &edit.changed).len() + tree::differences(&two, &edit.new).len();
    let update_crossing = match (counting, counted) {
        (Some(counting), Some(counted)) => {
            place.signal_back("updated")?;
            Some(counting.finish(counted.sites, 1)?)
        }
        _ => None,
    };
    Ok(Trial { commit, waited, update, differences, commit_crossing, update_crossing })
}

/// Listeners for both directions.
pub(super) struct Counted<'a> {
    pub(super) sites: &'a Sites,
    pub(super) first: Listeners,
    pub(super) second: Listeners,
}

impl<'a> Counted<'a> {
    /// Starts to listen, and waits until every listener has heard something said on purpose.
    pub(super) fn start(sites: &'a Sites, shared: &Shared) -> Result<Self, LabError> {
        let counted = Self { sites, first: Listeners::start(sites, 0)?, second: Listeners::start(sites, 1)? };
        let began = Instant::now();
        let mut number = 0;
        while !(counted.first.hear() && counted.second.hear()) {
            number += 1;
            shared.signal(&format!("listen {number}"))?;
            shared.signal_back(&format!("listen back {number}"))?;
            if began.elapsed() > shared.patience {
                return Err(LabError::TimedOut { what: "listeners to hear something".into(), within: shared.patience });
            }
        }
        Ok(counted)
    }
}

/// Reads all files below a directory, so that they are cached.
fn read_all(top: &Path) -> Result<(), LabError> {
    let doing = || LabError::io(format!("read {}", top.display()));
    for entry in std::fs::read_dir(top).map_err(doing())? {
        let path = entry.map_err(doing())?.path();
        match path.is_dir() {
            true => read_all(&path)?,
            false => std::fs::read(&path).map(drop).map_err(doing())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_and_one_that_is_not_there_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let first = place.path().to_owned();
        let shared = Shared { second: first.clone(), first: first.clone(), patience: Duration::from_millis(50) };
        assert!(shared.signal("x").unwrap() < shared.patience);
        assert_eq!(std::fs::read(shared.second.join("signal")).unwrap(), b"x");
        let apart = Shared { second: first.join("elsewhere"), ..shared };
        assert!(matches!(apart.signal_back("x"), Err(LabError::Io { .. })));
        assert!(matches!(apart.signal("y"), Err(LabError::TimedOut { .. })));
    }
}
