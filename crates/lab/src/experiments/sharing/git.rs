//! git, as people use it today: a bare repository in the shared file system, a clone at each site.

use super::tool::{Timed, Tool, User, text};
use super::tree::Edit;
use crate::LabError;
use std::path::{Path, PathBuf};

/// git. A commit is `git commit` and `git push`, an update is `git pull`.
pub(super) struct Git;

impl Tool for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn program(&self) -> &'static str {
        "git"
    }

    fn create(&self, user: &User<'_>, place: &Path, source: &Path) -> Result<(), LabError> {
        let repository = self.repository(place);
        let repository = text(&repository)?;
        let git = |directory: &Path, arguments: &[&str]| user.run(directory, "git", arguments).map(drop);
        git(place, &["init", "-q", "--bare", "-b", "main", repository])?;
        git(source, &["init", "-q", "-b", "main"])?;
        git(source, &["add", "."])?;
        git(source, &["commit", "-q", "-m", "start"])?;
        git(source, &["push", "-q", repository, "main"])
    }

    fn check_out(&self, user: &User<'_>, place: &Path, copy: &str) -> Result<(), LabError> {
        let repository = self.repository(place);
        // Not every shared file system has hard links: objects are copied on all of them.
        user.run(place, "git", &["clone", "-q", "--no-hardlinks", text(&repository)?, copy]).map(drop)
    }

    fn announce(&self, user: &User<'_>, copy: &Path, edit: &Edit) -> Result<(), LabError> {
        let mut arguments = vec!["add"];
        for file in &edit.new {
            arguments.push(text(&file.path)?);
        }
        user.run(copy, "git", &arguments).map(drop)
    }

    fn commit(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError> {
        let committed = user.run(copy, "git", &["commit", "-q", "-a", "-m", "four busy days"])?;
        Ok(committed + user.run(copy, "git", &["push", "-q", "origin", "main"])?)
    }

    fn update(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError> {
        user.run(copy, "git", &["pull", "-q", "--ff-only"])
    }

    fn repository(&self, place: &Path) -> PathBuf {
        place.join("repository.git")
    }
}
