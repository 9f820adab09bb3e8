//! Journals of all kinds are inspected, and what is cut off one stays cut off.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::sync::LazyLock;
use wayfs_store::file_fuzzing::{Forged, inspect_journal};

static SCRATCH: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("make a directory"));

#[derive(Debug, Arbitrary)]
enum Part {
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>, Option<u64>),
    Noise(Vec<u8>),
}

libfuzzer_sys::fuzz_target!(|input: (Vec<Part>, u8)| {
    let (parts, cut) = input;
    let parts: Vec<Forged> = parts
        .into_iter()
        .map(|part| match part {
            Part::Batch(items, ticket) => Forged::Batch(items, ticket),
            Part::Noise(bytes) => Forged::Noise(bytes),
        })
        .collect();
    inspect_journal(SCRATCH.path(), &parts, cut.into());
});
