//! Attributes that are changed.

use crate::fs::attribute_changes::{SetAttributes, TimeChange};
use crate::fs::data::WriteRequest;
use crate::fs::results::{CachedAttributes, Statistics, Written};
use crate::fs::testing::Bench;
use wayfs_types::{FileId, FsError, WallTime};

fn set(bench: &Bench, file: FileId, changes: SetAttributes) -> CachedAttributes {
    bench.ask(|fs, caller, reply| fs.set_attributes(caller, file, changes, reply)).later().unwrap()
}

#[test]
fn owner_mode_time_and_length_are_what_they_are_set_to() {
    let bench = Bench::new();
    let file = bench.file("a", b"0123456789");
    let time = WallTime::from_parts(1_000_000, 5);
    let changes = SetAttributes {
        mode: Some(0o4711),
        uid: Some(7),
        gid: Some(8),
        mtime: Some(TimeChange::To(time)),
        ..SetAttributes::default()
    };
    set(&bench, file, changes);
    let is = bench.attributes(file);
    assert_eq!((is.uid, is.gid, is.mtime), (7, 8, time));
    assert_eq!(is.mode, 0o711, "who gives a file away gives no right of its owner along");
    let shown = set(&bench, file, SetAttributes { size: Some(4), ..SetAttributes::default() });
    assert_eq!((shown.attributes.size, bench.toy.bytes_of("a")), (4, b"0123".to_vec()));
    set(&bench, file, SetAttributes { size: Some(6), ..SetAttributes::default() });
    assert_eq!(bench.toy.bytes_of("a"), b"0123\0\0");
    let longer = SetAttributes { size: Some(1), ..SetAttributes::default() };
    let of_root: Result<CachedAttributes, _> =
        bench.ask(|fs, caller, reply| fs.set_attributes(caller, FileId::ROOT, longer, reply)).later();
    assert_eq!(of_root, Err(FsError::Invalid.into()));
}

#[test]
fn a_write_takes_the_right_of_the_owner_from_a_program() {
    let bench = Bench::new();
    let file = bench.file("a", b"program");
    set(&bench, file, SetAttributes { mode: Some(0o6755), ..SetAttributes::default() });
    assert_eq!(bench.attributes(file).mode, 0o6755);
    let handle = bench.open(file, libc::O_RDWR).handle;
    let write = |kill_suid_gid| {
        let request = WriteRequest { handle, offset: 0, flags: libc::O_RDWR, kill_suid_gid, from_cache: false };
        bench.ask(|fs, caller, reply| fs.write(caller, request, b"PROGRAM", reply)).later()
    };
    assert_eq!(write(false), Ok(Written(7)));
    assert_eq!(bench.attributes(file).mode, 0o6755, "the kernel says whose writes do that");
    assert_eq!(write(true), Ok(Written(7)));
    assert_eq!(bench.attributes(file).mode, 0o755);
}

#[test]
fn the_file_system_says_how_large_it_is() {
    let bench = Bench::new();
    let said: Statistics = bench.ask(|fs, _, reply| fs.statistics(reply)).now().unwrap();
    assert!(said.blocks >= said.blocks_free && said.blocks_free >= said.blocks_available);
    assert_eq!((said.name_len_max, said.block_size), (255, 128 * 1024));
}
