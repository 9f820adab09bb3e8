//! What tests that run experiments share.

#![allow(dead_code, reason = "every test is a program of its own, and not each uses all of it")]

pub(crate) mod link_world;

use std::path::{Path, PathBuf};
use wayfs_lab::{Parts, Progress};

/// Nobody watches.
pub(crate) struct Quiet;

impl Progress for Quiet {
    fn show(&self, _parts: Parts, _what: &str) {}
}

/// The program under test: beside the test binaries, or `$WAYFS_BIN`.
pub(crate) fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("WAYFS_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test knows its path");
    let program = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps").join("wayfs");
    assert!(program.exists(), "build it first: cargo build --package wayfs");
    program
}
