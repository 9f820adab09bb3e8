//! Reading and writing through handles.

use crate::files::kernel_way::KernelWay;
use crate::files::{Access, Seek};
use crate::fs::data::{AllocateRequest, WriteRequest};
use crate::fs::results::{Position, Written};
use crate::fs::testing::{Bench, noise};
use crate::fs::{Abilities, Error, HandleId, LockOwner, NotRegistered};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use wayfs_types::FsError;

#[test]
fn what_is_written_is_read_at_once_and_stored_when_it_is_closed() {
    let bench = Bench::new();
    let bytes = noise(100_000);
    let opened = bench.create("a");
    for (number, piece) in bytes.chunks(40_000).enumerate() {
        assert_eq!(bench.write(opened.handle, number as u64 * 40_000, piece), Ok(piece.len()));
    }
    assert_eq!(bench.read(opened.handle, 39_000, 2_000).unwrap(), bytes[39_000..41_000]);
    assert_eq!(bench.toy.stores(), 0, "nothing is stored while it is written");
    bench.close(opened.handle);
    assert_eq!((bench.toy.stores(), bench.toy.bytes_of("a")), (1, bytes.clone()));
    let again = bench.open(bench.entry("a").file, libc::O_RDONLY);
    assert_eq!(bench.read(again.handle, 99_000, 4_000).unwrap(), bytes[99_000..], "short at its end only");
}

#[test]
fn a_sync_is_answered_when_what_was_written_is_in_the_log() {
    let bench = Bench::new();
    let opened = bench.create("a");
    bench.write(opened.handle, 0, b"bytes").unwrap();
    let file = bench.entry("a").file;
    bench.ask(|fs, caller, reply| fs.fsync(caller, Some(opened.handle), file, reply)).later().unwrap();
    assert_eq!((bench.toy.stores(), bench.toy.bytes_of("a")), (1, b"bytes".to_vec()));
}

#[test]
fn an_appending_write_goes_to_the_end_wherever_the_kernel_thinks_that_is() {
    let bench = Bench::new();
    let opened = bench.create("a");
    bench.write(opened.handle, 0, b"one ").unwrap();
    let request = WriteRequest {
        handle: opened.handle,
        offset: 0,
        flags: libc::O_WRONLY | libc::O_APPEND,
        kill_suid_gid: false,
        from_cache: false,
    };
    let owed = bench.ask(|fs, caller, reply| fs.write(caller, request, b"two", reply));
    assert_eq!(owed.now(), Ok(Written(3)));
    assert_eq!(bench.read(opened.handle, 0, 10).unwrap(), b"one two"[..]);
}

#[test]
fn handles_that_are_not_open_or_not_open_for_this_are_refused() {
    let bench = Bench::new();
    let file = bench.file("a", b"bytes");
    let reader = bench.open(file, libc::O_RDONLY);
    assert_eq!(reader.access, Access::Read);
    assert_eq!(bench.write(reader.handle, 0, b"x"), Err(Error::BadHandle));
    let owed = bench.ask(|fs, caller, reply| {
        fs.allocate(caller, AllocateRequest { handle: reader.handle, offset: 0, len: 10, mode: 0 }, reply)
    });
    assert_eq!(owed.now(), Err(Error::BadHandle));
    bench.close(reader.handle);
    for gone in [reader.handle, HandleId::new(99)] {
        assert_eq!(bench.read(gone, 0, 1), Err(Error::BadHandle));
        let flush = bench.ask(|fs, caller, reply| fs.flush(caller, gone, LockOwner::new(1), reply));
        assert_eq!(flush.now(), Err(Error::BadHandle));
        assert_eq!(bench.ask(|fs, _, reply| fs.release(gone, None, reply)).now(), Err(Error::BadHandle));
    }
    assert_eq!(bench.fs.open_handles(), 0);
}

/// Where a hole begins, and how long it is.
const HOLE: u64 = 256 * 1024;

#[test]
fn holes_are_made_and_found() {
    let bench = Bench::new();
    let handle = bench.create("a").handle;
    bench.write(handle, 0, &noise(1 << 20)).unwrap();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    bench
        .ask(|fs, caller, reply| {
            fs.allocate(caller, AllocateRequest { handle, offset: HOLE, len: HOLE, mode: punch }, reply)
        })
        .now()
        .unwrap();
    let seek = |offset, what| bench.ask(|fs, caller, reply| fs.seek(caller, handle, offset, what, reply)).later();
    assert_eq!(seek(0, Seek::Hole), Ok(Position(HOLE)));
    assert_eq!(seek(HOLE, Seek::Data), Ok(Position(2 * HOLE)));
    assert_eq!(seek(1 << 20, Seek::Data), Err(Error::NothingThere));
    assert_eq!(bench.read(handle, HOLE, 4096).unwrap(), vec![0; 4096]);
    let whole = libc::FALLOC_FL_COLLAPSE_RANGE;
    let collapse = bench.ask(|fs, caller, reply| {
        fs.allocate(caller, AllocateRequest { handle, offset: 0, len: 4096, mode: whole }, reply)
    });
    assert_eq!(collapse.now(), Err(FsError::Unsupported.into()));
}

#[test]
fn a_large_file_is_written_past_the_daemon_by_a_kernel_that_can() {
    let bench = Bench::with(Abilities { passthrough: true, ..Abilities::default() });
    let opened = bench.try_create("a", libc::O_WRONLY).unwrap().opened;
    let KernelWay::Passthrough(backing) = opened.way else { panic!("{:?}", opened.way) };
    let bytes = noise(1 << 20);
    bench.kernel.body(backing).write_all_at(&bytes, 0).unwrap();
    assert_eq!(bench.entry("a").attributes.size, 1 << 20);
    bench.close(opened.handle);
    let patience = Instant::now() + Duration::from_secs(20);
    while !bench.fs.files().dirty().is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(bench.toy.bytes_of("a") == bytes);
    assert_eq!(bench.kernel.registered(), 0, "the last handle takes the registration back");
}

#[test]
fn a_kernel_that_takes_no_body_is_asked_once() {
    let bench = Bench::with(Abilities { passthrough: true, ..Abilities::default() });
    bench.kernel.refuse(NotRegistered::ThisOne);
    for name in ["a", "b"] {
        assert_eq!(bench.try_create(name, libc::O_WRONLY).unwrap().opened.way, KernelWay::Cached { keep: false });
    }
    assert_eq!(bench.kernel.asked(), 2);
    bench.kernel.refuse(NotRegistered::Never);
    for name in ["c", "d"] {
        assert_eq!(bench.try_create(name, libc::O_WRONLY).unwrap().opened.way, KernelWay::Cached { keep: false });
    }
    assert_eq!(bench.kernel.asked(), 3);
}
