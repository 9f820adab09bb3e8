//! Any bytes in any small file of a data directory or cache are read or refused, and what is read can be kept.
#![no_main]

use std::sync::LazyLock;
use wayfs_node::fuzzing::Signers;

static SCRATCH: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("make a directory"));
static SIGNERS: LazyLock<Signers> = LazyLock::new(Signers::draw);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let scratch = SCRATCH.path();
    wayfs_client::fuzzing::read_files(scratch, bytes);
    wayfs_control::fuzzing::read(bytes);
    wayfs_node::fuzzing::read_files(scratch, bytes, &SIGNERS);
    wayfs_server::fuzzing::read_files(scratch, bytes);
    wayfs_store::file_fuzzing::read_files(scratch, bytes);
    wayfs_net::fuzzing::read_identity(&String::from_utf8_lossy(bytes));
});
