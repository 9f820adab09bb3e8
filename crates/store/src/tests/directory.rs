//! Locks and formats.

use super::data_dir;
use crate::{ChunkConfig, ChunkStore, DataDir, DiskMetaStore, OpenError, Role};

#[test]
fn a_second_opener_is_told_who_has_it() {
    let scratch = tempfile::tempdir().unwrap();
    let first = data_dir(scratch.path());
    let refused = DataDir::open(scratch.path(), Role::Server).unwrap_err();
    assert!(matches!(&refused, OpenError::Locked { holder, .. } if holder.starts_with("pid ")), "{refused}");
    drop(first);
    data_dir(scratch.path());
}

/// A process that was killed, and whose files the kernel has not closed yet, is waited for.
#[test]
fn whoever_comes_after_one_that_was_killed_waits_until_it_is_gone() {
    let scratch = tempfile::tempdir().unwrap();
    drop(data_dir(scratch.path()));
    let mut killed = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    killed.kill().unwrap();
    let lock = scratch.path().join("LOCK");
    std::fs::write(&lock, format!("pid {}\n", killed.id())).unwrap();
    let held = std::fs::File::open(&lock).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let releases = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(held);
    });
    assert!(DataDir::open(scratch.path(), Role::Server).is_ok());
    releases.join().unwrap();
    killed.wait().unwrap();
}

#[test]
fn a_store_keeps_the_lock_as_long_as_it_lives() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = ChunkStore::open(&data_dir(scratch.path()), ChunkConfig::default()).unwrap();
    assert!(matches!(DataDir::open(scratch.path(), Role::Server), Err(OpenError::Locked { .. })));
    drop(store);
    data_dir(scratch.path());
}

#[test]
fn roles_do_not_mix() {
    let scratch = tempfile::tempdir().unwrap();
    drop(data_dir(scratch.path()));
    let refused = DataDir::open(scratch.path(), Role::Client);
    assert!(matches!(refused, Err(OpenError::WrongRole { .. })));
}

#[test]
fn formats_that_are_newer_older_damaged_or_foreign_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    drop(data_dir(scratch.path()));
    let format = scratch.path().join("FORMAT");
    let open_as = |text: &str| {
        std::fs::write(&format, format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes()))).unwrap();
        DataDir::open(scratch.path(), Role::Server)
    };
    assert!(matches!(open_as("WAYFS-STORE 4 server"), Err(OpenError::TooNew { found: 4, known: 3, .. })));
    for former in [1, 2] {
        let refused = open_as(&format!("WAYFS-STORE {former} server"));
        assert!(matches!(refused, Err(OpenError::TooOld { found, known: 3, .. }) if found == former));
        assert!(refused.unwrap_err().to_string().contains("Copy the files out"), "it says what to do");
    }
    for damaged in [&b""[..], b"WAYFS-STORE 3 server 00000000\n", b"\xff\xfe", b"WAYFS-STORE"] {
        std::fs::write(&format, damaged).unwrap();
        assert!(matches!(DataDir::open(scratch.path(), Role::Server), Err(OpenError::NotOurs(_))));
    }
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.tex"), "precious").unwrap();
    assert!(matches!(DataDir::open(foreign.path(), Role::Server), Err(OpenError::NotOurs(_))));
}

#[test]
fn the_format_file_is_as_drawn() {
    let scratch = tempfile::tempdir().unwrap();
    drop(data_dir(scratch.path()));
    let text = std::fs::read_to_string(scratch.path().join("FORMAT")).unwrap();
    assert_eq!(text, "WAYFS-STORE 3 server 870e24e5\n");
}

#[test]
fn an_engine_directory_left_half_made_is_made_again() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = data_dir(scratch.path());
    std::fs::create_dir_all(scratch.path().join("meta/index.new/tables")).unwrap();
    std::fs::create_dir_all(scratch.path().join("meta/log")).unwrap();
    std::fs::write(scratch.path().join("meta/log/00000001.log"), b"").unwrap();
    DiskMetaStore::open(&directory, super::meta_config()).unwrap();
}
