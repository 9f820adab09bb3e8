//! Locks and formats.

use super::data_dir;
use crate::{ChunkConfig, ChunkStore, DataDir, FjallMetaStore, OpenError, Role};

#[test]
fn a_second_opener_is_told_who_has_it() {
    let scratch = tempfile::tempdir().unwrap();
    let first = data_dir(scratch.path());
    let refused = DataDir::open(scratch.path(), Role::Server).unwrap_err();
    assert!(matches!(&refused, OpenError::Locked { holder, .. } if holder.starts_with("pid ")), "{refused}");
    drop(first);
    data_dir(scratch.path());
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
fn formats_that_are_newer_damaged_or_foreign_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    drop(data_dir(scratch.path()));
    let format = scratch.path().join("FORMAT");
    let text = "WAYFS-STORE 2 server";
    std::fs::write(&format, format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes()))).unwrap();
    let refused = DataDir::open(scratch.path(), Role::Server);
    assert!(matches!(refused, Err(OpenError::TooNew { found: 2, known: 1, .. })));
    for damaged in [&b""[..], b"WAYFS-STORE 1 server 00000000\n", b"\xff\xfe", b"WAYFS-STORE"] {
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
    assert_eq!(text, "WAYFS-STORE 1 server c52b2398\n");
}

#[test]
fn an_engine_directory_left_half_made_is_made_again() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = data_dir(scratch.path());
    std::fs::create_dir_all(scratch.path().join("meta/keyspaces")).unwrap();
    std::fs::write(scratch.path().join("meta/0.jnl"), b"").unwrap();
    FjallMetaStore::open(&directory, super::meta_config()).unwrap();
}
