//! Files that the kernel reads directly follow what other machines make of them.
//!
//! A program that opened a complete file reads it from a plain file, without us (`KernelOpens::Passthrough`), and the kernel
//! cannot be told to read another one through the same handle. So when the file changes elsewhere, the plain file is
//! changed in place, as far as the contents differ: `tail -f`, `mmap` and log shippers see what a local file would
//! show. It is done when all bytes are here, under the lock of the file, and only while no program of this machine writes it.

use super::base::Base;
use super::body::{Body, BodyFile, host_error};
use super::contents::{Contents, OperationError, WaitPolicy};
use super::kernel_way::{KernelOpens, Served};
use super::loading::{self, NodeCache, Piece};
use super::open_file::OpenFile;
use super::ranges::RangeSet;
use super::state::State;
use std::ops::Range;
use std::sync::Arc;
use wayfs_content::{ContentReader, changed_ranges};
use wayfs_types::{Content, Digest, FsError};

/// Most bytes that are changed in place: they are in memory for the moment of the change. Handles of a file that changed by more keep
/// what they opened.
const CHANGED_MAX: u64 = 64 << 20;

/// How a file was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// The kernel reads the newest version.
    Yes,
    /// There was nothing to do, or programs of this machine write it: they keep their view.
    No,
}

struct Behind {
    file: Arc<BodyFile>,
    holds: Served,
    newest: Base,
}

impl State {
    /// The plain file that the kernel reads is about to be no longer the file.
    pub(super) fn leave_served(&mut self, holds: Served) {
        if let KernelOpens::Passthrough { file, behind, .. } = &mut self.opens
            && let Some(Body::Disk { file: body, .. }) = self.life.body()
            && Arc::ptr_eq(file, body)
        {
            *behind = Some(holds);
        }
    }

    fn behind(&self) -> Option<Behind> {
        let KernelOpens::Passthrough { file, behind: Some(holds), .. } = &self.opens else { return None };
        let is_ours = self.life.is_ours() || self.life.is_removed();
        let (file, holds, newest) = (Arc::clone(file), holds.clone(), self.base.clone());
        (!is_ours).then_some(Behind { file, holds, newest })
    }

    /// Changes the plain file, if nothing happened since it was looked at.
    fn catch_up(&mut self, was: &Behind, pieces: &[Piece]) -> Result<Followed, FsError> {
        let is_same = self.behind().is_some_and(|now| Arc::ptr_eq(&now.file, &was.file) && now.newest == was.newest);
        if !is_same {
            return Ok(Followed::No);
        }
        let failed = |error: std::io::Error| host_error(&error, "change a file that is read directly");
        for piece in pieces {
            was.file.file().write_at(piece.offset, [&[], &piece.bytes]).map_err(failed)?;
        }
        was.file.file().set_len(self.size).map_err(failed)?;
        self.is_served_again(&was.file);
        Ok(Followed::Yes)
    }

    fn is_served_again(&mut self, file: &Arc<BodyFile>) {
        if let KernelOpens::Passthrough { behind, .. } = &mut self.opens {
            *behind = None;
        }
        let body = Body::Disk { file: Arc::clone(file), present: RangeSet::of(0..self.size) };
        self.life.load(|present| {
            present.get_or_insert(body);
        });
    }

    fn give_up_following(&mut self) {
        if let KernelOpens::Passthrough { behind, .. } = &mut self.opens {
            *behind = None;
        }
    }
}

impl OpenFile {
    /// Whether programs read an older version of it directly.
    pub fn is_behind(&self) -> bool {
        self.state().behind().is_some()
    }

    /// Has the kernel read the newest version.
    ///
    /// # Errors
    /// [`OperationError`]; it can be tried again.
    pub fn follow(&self, contents: &dyn Contents, wait_policy: WaitPolicy) -> Result<Followed, OperationError> {
        // Whoever is at it already does it.
        let Ok(_one_at_a_time) = self.following.try_lock() else { return Ok(Followed::No) };
        let Some(behind) = self.state().behind() else { return Ok(Followed::No) };
        let ranges = changed(contents, &self.nodes, &behind, wait_policy)?;
        if ranges.iter().map(|range| range.end - range.start).sum::<u64>() > CHANGED_MAX {
            tracing::debug!(file = %self.id(), "changed by too much to be followed: handles keep what they opened");
            self.state().give_up_following();
            return Ok(Followed::No);
        }
        let mut pieces = Vec::new();
        for range in ranges {
            pieces.extend(loading::load(contents, &self.nodes, &behind.newest, range, wait_policy)?);
        }
        Ok(self.state().catch_up(&behind, &pieces)?)
    }
}

fn changed(
    contents: &dyn Contents,
    nodes: &NodeCache,
    behind: &Behind,
    wait_policy: WaitPolicy,
) -> Result<Vec<Range<u64>>, OperationError> {
    let whole: Vec<Range<u64>> = std::iter::once(0..behind.newest.content.size()).collect();
    let (Served::Older(old @ Content::Tree { .. }), Content::Tree { .. }) = (&behind.holds, &behind.newest.content)
    else {
        return Ok(whole);
    };
    let source = |digest: &Digest| nodes.node(contents, digest);
    loading::look(contents, nodes, &behind.newest, wait_policy, |reader| {
        let old = ContentReader::new(old, &source)?;
        changed_ranges(&old, reader)
    })
}
