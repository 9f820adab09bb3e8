//! Waiting for what others wrote below a path.

use super::{LOOK_PERIOD, MountCommands, PATIENCE};
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_admin::below::each_file;
use wayfs_admin::{stopped, storage};
use wayfs_control::ControlError;
use wayfs_node::LiveReplica;
use wayfs_proto::LostContent;
use wayfs_types::request::{Answer, Level, Request};
use wayfs_types::{Fact, Facts, FileId, RecordId, StorageError};

/// Most files that are asked about in one command: some seconds of questions.
const FILES_MAX: usize = 20_000;
/// Versions in one question: what a message takes.
const ASKED_MAX: usize = 64;
/// How long nobody may be able to say before the wait is given up.
const UNKNOWN_MAX: Duration = Duration::from_secs(10);

/// What is left of others' files below a path.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Others {
    /// Files of which it is known that they are not so far.
    pub(super) files: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Files of which nobody who can be asked knows.
    pub(super) unknown: u64,
}

impl Others {
    /// Whether nothing is left.
    pub(super) fn is_done(self) -> bool {
        self.files == 0 && self.unknown == 0
    }

    /// Why it is not so far.
    pub(super) fn reason(self, until: Level) -> String {
        let until = word(until);
        match (self.files, self.unknown) {
            (0, 0) => String::new(),
            (0, unknown) => {
                format!(
                    "unknown here: whether {unknown} files that others wrote are {until}; nobody who knows can be asked now"
                )
            }
            (files, 0) => format!("{files} files that others wrote are not {until} yet"),
            (files, unknown) => {
                format!("{files} files that others wrote are not {until} yet, and of {unknown} it is unknown here")
            }
        }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Modified => "written",
        Level::Safe => "safe",
        Level::Visible => "visible",
        Level::Stable => "stable",
    }
}

/// A file of another's and its version here.
#[derive(Debug, Clone, Copy)]
struct Theirs {
    file: FileId,
    version: RecordId,
    bytes: u64,
}

impl MountCommands {
    /// Waits until what others wrote below a path, as far as this machine knows of it, has come so far; asks the servers where
    /// it is not known here. Ends when the time is over, when it is so, or when nobody could say for a while. `tell` hears
    /// of each look, and says whether to go on.
    pub(super) fn wait_for_others(
        &self,
        path: &Path,
        until: Level,
        end: Instant,
        tell: &mut dyn FnMut(Others) -> bool,
    ) -> Result<Others, ControlError> {
        let mut theirs = self.theirs_below(path)?;
        let mut known_at = Instant::now();
        loop {
            let (left, others) = self.not_so_far(&theirs, until)?;
            theirs = left;
            if others.unknown == 0 {
                known_at = Instant::now();
            }
            let is_over = others.is_done() || Instant::now() >= end || known_at.elapsed() > UNKNOWN_MAX;
            if is_over || !tell(others) {
                return Ok(others);
            }
            std::thread::sleep(LOOK_PERIOD.min(end.saturating_duration_since(Instant::now())));
        }
    }

    /// Others' files below a path that are known here.
    fn theirs_below(&self, path: &Path) -> Result<Vec<Theirs>, ControlError> {
        let own = self.volume().origin();
        let mut theirs = Vec::new();
        each_file(self.volume(), path, |_, file, inode| {
            if inode.version.origin() != own && theirs.len() <= FILES_MAX {
                theirs.push(Theirs { file, version: inode.version, bytes: inode.content.size() });
            }
            Ok(())
        })?;
        Ok(theirs)
    }

    /// Those that have not come so far. What is gone, lost, or ours by now, is left out; a newer version takes the place of its own.
    fn not_so_far(&self, theirs: &[Theirs], until: Level) -> Result<(Vec<Theirs>, Others), ControlError> {
        let own = self.volume().origin();
        let newest = |replica: &LiveReplica| {
            let mut newest = Vec::new();
            for one in theirs {
                let theirs = replica.inode(one.file)?.filter(|inode| inode.version.origin() != own);
                if let Some(inode) = theirs
                    && replica.lost_of(one.file, inode.version)?.is_none()
                {
                    newest.push(Theirs { file: one.file, version: inode.version, bytes: inode.content.size() });
                }
            }
            Ok::<_, StorageError>(newest)
        };
        let newest = self.volume().look(newest).ok_or_else(stopped)?.map_err(|error| storage(&error))?;
        let (mut left, mut others) = (Vec::new(), Others::default());
        for (number, asked) in newest.chunks(ASKED_MAX).enumerate() {
            // More than is asked about in one command counts as not known: a wait that says yes is true of all.
            let facts = if number * ASKED_MAX < FILES_MAX { self.facts_of_all(asked) } else { Vec::new() };
            let facts = facts.into_iter().chain(std::iter::repeat(Facts::default()));
            for (one, facts) in asked.iter().zip(facts) {
                if facts.reached(until) {
                    continue;
                }
                left.push(*one);
                if is_known_to_be_missing(facts, until) {
                    others.files += 1;
                    others.bytes += one.bytes;
                } else {
                    others.unknown += 1;
                }
            }
        }
        Ok((left, others))
    }

    /// How many of these have not come so far, by the word of who knows.
    pub(super) fn not_so_far_of(&self, files: &[LostContent], until: Level) -> u64 {
        let theirs = files.iter().map(|one| Theirs { file: one.file, version: one.version, bytes: 0 });
        let theirs: Vec<Theirs> = theirs.collect();
        let reached = |asked: &[Theirs]| self.facts_of_all(asked).iter().filter(|facts| facts.reached(until)).count();
        (theirs.len() - theirs.chunks(ASKED_MAX).map(reached).sum::<usize>().min(theirs.len())) as u64
    }

    fn facts_of_all(&self, asked: &[Theirs]) -> Vec<Facts> {
        let versions = asked.iter().map(|one| (one.file, one.version)).collect();
        match self.volume().request(Request::Facts { versions }, PATIENCE) {
            Ok(Answer::Facts(facts)) => facts,
            Ok(_) | Err(_) => Vec::new(),
        }
    }
}

/// Whether a fact that a level implies is known not to hold.
fn is_known_to_be_missing(facts: Facts, until: Level) -> bool {
    let implied: &[Fact] = match until {
        Level::Modified => &[],
        Level::Safe => &[facts.safe],
        Level::Visible => &[facts.safe, facts.visible],
        Level::Stable => &[facts.safe, facts.visible, facts.stable],
    };
    implied.contains(&Fact::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_told_apart_from_what_is_not_so() {
        let unknown = Facts { safe: Fact::Holds(None), ..Facts::default() };
        assert!(!is_known_to_be_missing(unknown, Level::Visible));
        let missing = Facts { visible: Fact::No, ..unknown };
        assert!(is_known_to_be_missing(missing, Level::Visible) && !is_known_to_be_missing(missing, Level::Safe));
        let others = Others { unknown: 2, ..Others::default() };
        assert!(!others.is_done() && others.reason(Level::Stable).starts_with("unknown here"));
        assert!(Others { files: 1, ..Others::default() }.reason(Level::Safe).contains("1 files"));
    }
}
