//! Pins: fetching trees and keeping them.

use super::{MountCommands, PATIENCE, refused};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_admin::contents::fetch_whole;
use wayfs_control::report::{PinReport, PinsReport};
use wayfs_control::{ControlError, ErrorKind, Progress, Sink};
use wayfs_node::paths::files_in;
use wayfs_types::{Content, FileId, FsError, Inode};

/// Most files counted for a status, which is to be quick.
const COUNTED_MAX: usize = 10_000;
/// Most files gone through for one pin's numbers.
const FILES_MAX: u64 = 1_000_000;

impl MountCommands {
    pub(super) fn pin(&self, path: &Path, out: &mut dyn Sink) -> Result<PinsReport, ControlError> {
        let (file, inode) =
            crate::paths::resolve(self.volume(), path, PATIENCE).map_err(|error| refused("pin", error))?;
        let kept =
            self.parts.hooks.pins.add(file).map_err(|error| {
                ControlError::new(ErrorKind::Failed, error.to_string(), "Make room on the cache disk.")
            })?;
        if !kept {
            return Err(ControlError::new(
                ErrorKind::Refused,
                "there are too many pins",
                "Pin a directory above instead.",
            ));
        }
        let files = self.files_below(file, inode, path).map_err(|error| refused("list what is to be pinned", error))?;
        let mut progress = Progress {
            total_items: files.len() as u64,
            total_bytes: files.iter().map(|(_, _, inode)| inode.content.size()).sum(),
            ..Progress::default()
        };
        let mut failed: Option<(PathBuf, String)> = None;
        for (path, file, inode) in &files {
            progress.what = format!("fetching {}", path.display());
            if out.progress(&progress).is_err() || out.is_gone() {
                break;
            }
            if let Err(error) = fetch_whole(self.volume(), *file, inode) {
                failed.get_or_insert((path.clone(), error));
            }
            progress.done_items += 1;
            progress.done_bytes += inode.content.size();
        }
        match failed {
            None => Ok(self.pins()),
            Some((path, error)) => Err(ControlError::new(
                ErrorKind::Unreachable,
                format!("it is pinned, but not all could be fetched: {}: {error}", path.display()),
                "Pin it again when a station is connected.",
            )),
        }
    }

    pub(super) fn unpin(&self, path: &Path) -> Result<PinsReport, ControlError> {
        let (file, _) =
            crate::paths::resolve(self.volume(), path, PATIENCE).map_err(|error| refused("unpin", error))?;
        let was =
            self.parts.hooks.pins.remove(file).map_err(|error| {
                ControlError::new(ErrorKind::Failed, error.to_string(), "Make room on the cache disk.")
            })?;
        if !was {
            return Err(ControlError::new(
                ErrorKind::NotFound,
                format!("{} is not pinned itself", path.display()),
                "`wayfs pins` lists what is; a directory above may be.",
            ));
        }
        Ok(self.pins())
    }

    pub(super) fn pins(&self) -> PinsReport {
        let mut pins: Vec<PinReport> =
            self.parts.hooks.pins.list().into_iter().filter_map(|file| self.pin_report(file)).collect();
        pins.sort_by(|one, other| one.path.cmp(&other.path));
        PinsReport { pins }
    }

    fn pin_report(&self, file: FileId) -> Option<PinReport> {
        let inode = self.volume().look(|replica| replica.inode(file))?.ok()??;
        let path = crate::paths::path_of(self.volume(), file)?;
        let files = self.files_below(file, Arc::unwrap_or_clone(inode), &path).unwrap_or_default();
        let mut report = PinReport { path, files: files.len() as u64, total_bytes: 0, cached_bytes: 0 };
        for (_, _, inode) in &files {
            let len = inode.content.size();
            report.total_bytes += len;
            if matches!(inode.content, Content::Inline(_)) || self.volume().contents().has_all(&inode.content) {
                report.cached_bytes += len;
            }
        }
        Some(report)
    }

    /// Bytes in the cache that pins keep, as far as they are known here. Asks nobody.
    pub(super) fn pinned_bytes(&self) -> u64 {
        let contents = self.volume().contents();
        let counted = self.volume().look(|replica| {
            let (mut left, mut seen, mut bytes) = (self.parts.hooks.pins.list(), BTreeSet::new(), 0);
            while let Some(file) = left.pop().filter(|_| seen.len() < COUNTED_MAX) {
                let Ok(Some(inode)) = replica.inode(file) else { continue };
                if !seen.insert(file) {
                    continue;
                }
                left.extend(files_in(replica, file, &inode).unwrap_or_default());
                let is_here = inode.content.root().is_none_or(|root| contents.has(&root));
                bytes += if is_here { inode.content.size() } else { 0 };
            }
            bytes
        });
        counted.unwrap_or(0)
    }

    /// Regular files at and below a path.
    fn files_below(&self, file: FileId, inode: Inode, path: &Path) -> Result<Vec<(PathBuf, FileId, Inode)>, FsError> {
        let mut files = Vec::new();
        let mut left = vec![(path.to_owned(), file, inode)];
        while let Some((path, file, inode)) = left.pop() {
            if inode.is_directory() {
                for (name, file, inode) in crate::paths::entries(self.volume(), file, PATIENCE)? {
                    left.push((path.join(name.as_os_str()), file, inode));
                }
            } else if matches!(inode.kind, wayfs_types::Kind::File) {
                files.push((path, file, inode));
            }
            if files.len() as u64 >= FILES_MAX {
                break;
            }
        }
        Ok(files)
    }
}
