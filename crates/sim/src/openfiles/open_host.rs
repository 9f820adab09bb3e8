//! Open files of one client: its table and disk, the opens of its programs, commits under way, pages of its kernel, and what it has to show.

use super::handle::{Handle, HandleNumber};
use super::side::{ChunkBytes, Side};
use super::staging::MemoryDisk;
use super::view::View;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use wayfs_openfiles::{Commit, FileTable, OpenFile, Renewal};
use wayfs_pagecache::PageCache;
use wayfs_types::request::RequestId;
use wayfs_types::{Content, Digest, FileId, RecordId};

/// What all hosts share of open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    pub(super) files: Vec<FileId>,
    pub(super) bytes: ChunkBytes,
    /// Writes so far: each has bytes of its own.
    pub(super) writes: u64,
}

/// Open files of one client.
pub(crate) struct OpenHost {
    pub(super) side: Arc<Side>,
    pub(super) disk: MemoryDisk,
    /// While its process runs.
    pub(super) table: Option<Rc<FileTable>>,
    pub(super) handles: Vec<Handle>,
    pub(super) handles_opened: u64,
    pub(super) kernel: Kernel,
    pub(super) commits: BTreeMap<FileId, Running>,
    /// Stores that the engine was asked for.
    pub(super) requests: BTreeMap<RequestId, FileId>,
    pub(super) views: BTreeMap<FileId, View>,
    /// What of each file was asked for last.
    pub(super) wanted: BTreeMap<FileId, Vec<Digest>>,
    /// Its last process ended, and the machine went on.
    pub(super) is_killed: bool,
    /// Its process ended in the middle of a step, and the world is to hear of it.
    pub(super) is_ending: bool,
}

/// A commit under way.
pub(super) struct Running {
    pub(super) open: Arc<OpenFile>,
    pub(super) commit: Commit,
    /// What it stores, and upon which version.
    pub(super) content: Option<(Content, RecordId)>,
    /// What the file was when it was taken, and became since.
    pub(super) views: Vec<Vec<u8>>,
    /// Handles whose programs wait for it, and those that came since and wait for the next one.
    pub(super) waiting: Vec<HandleNumber>,
    pub(super) later: Vec<HandleNumber>,
}

/// What the kernel of one client has.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) of_file: BTreeMap<FileId, PageCache>,
    /// Files of which it could not write pages back.
    pub(super) unwritten: BTreeSet<FileId>,
    /// What it was told to forget, in this order.
    pub(super) told: VecDeque<(FileId, Option<Renewal>)>,
}
