//! CVS, as in the published benchmark, with its repository in the shared file system and no server.

use super::tool::{Timed, Tool, User, text};
use super::tree::Edit;
use crate::LabError;
use std::path::{Path, PathBuf};

/// Name of the tree in the repository.
const MODULE: &str = "tree";

/// CVS.
pub(super) struct Cvs;

impl Tool for Cvs {
    fn name(&self) -> &'static str {
        "cvs"
    }

    fn program(&self) -> &'static str {
        "cvs"
    }

    fn create(&self, user: &User<'_>, place: &Path, source: &Path) -> Result<(), LabError> {
        let repository = self.repository(place);
        let repository = text(&repository)?;
        user.run(place, "cvs", &["-d", repository, "init"])?;
        user.run(source, "cvs", &["-Q", "-d", repository, "import", "-I!", "-m", "start", MODULE, "vendor", "start"])?;
        Ok(())
    }

    fn check_out(&self, user: &User<'_>, place: &Path, copy: &str) -> Result<(), LabError> {
        let repository = self.repository(place);
        user.run(place, "cvs", &["-Q", "-d", text(&repository)?, "checkout", "-d", copy, MODULE]).map(drop)
    }

    fn announce(&self, user: &User<'_>, copy: &Path, edit: &Edit) -> Result<(), LabError> {
        let mut arguments = vec!["-Q", "add"];
        for file in &edit.new {
            arguments.push(text(&file.path)?);
        }
        user.run(copy, "cvs", &arguments).map(drop)
    }

    fn commit(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError> {
        user.run(copy, "cvs", &["-Q", "commit", "-m", "four busy days"])
    }

    fn update(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError> {
        user.run(copy, "cvs", &["-Q", "update", "-d"])
    }

    fn repository(&self, place: &Path) -> PathBuf {
        place.join("repository")
    }
}
