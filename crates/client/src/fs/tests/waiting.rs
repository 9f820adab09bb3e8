//! Reads that wait for bytes from afar, and signals meanwhile.

use crate::fs::HandleId;
use crate::fs::testing::{Bench, Found, noise};
use bytes::Bytes;
use std::ffi::OsStr;
use wayfs_types::{FileId, FsError, Kind};

const LEN: usize = 300_000;

/// A file of another machine, whose bytes are not here, open to be read.
fn far_away(bench: &Bench) -> HandleId {
    bench.toy.make_behind("a", Kind::File);
    let file = bench.toy.change_behind("a", &noise(LEN));
    bench.toy.set_far(true);
    bench.open(file, libc::O_RDONLY).handle
}

#[test]
fn a_read_of_bytes_from_afar_is_answered_when_they_came() {
    let bench = Bench::new();
    let handle = far_away(&bench);
    let waiting = bench.ask(|fs, caller, reply| fs.read(caller, handle, 1000, 5000, reply));
    assert!(waiting.waits());
    let name = OsStr::new("b");
    let other = bench.ask(|fs, caller, reply| fs.lookup(caller, FileId::ROOT, name, reply));
    assert!(matches!(other.now(), Ok(Found::Absent(_))), "nobody else waits for it");
    bench.toy.set_far(false);
    assert_eq!(waiting.later().unwrap(), noise(LEN)[1000..6000]);
    assert_eq!(bench.fs.pending.count(), 0);
}

#[test]
fn a_signal_that_asks_the_program_to_end_ends_its_read_at_once() {
    let bench = Bench::new();
    let handle = far_away(&bench);
    // A thread that cannot be looked at is taken to be asked.
    let waiting = bench.ask(|fs, caller, reply| fs.read(caller, handle, 0, 5000, reply));
    assert!(waiting.waits());
    bench.signal(&waiting);
    assert_eq!(waiting.later(), Err::<Bytes, _>(FsError::Interrupted.into()));
    assert_eq!(bench.fs.pending.count(), 0);
    bench.toy.set_far(false);
    assert_eq!(bench.read(handle, 0, 5000).unwrap(), noise(LEN)[..5000], "the handle goes on");
}

#[test]
fn a_signal_that_asks_nobody_to_end_lets_a_read_go_on() {
    let bench = Bench::new();
    let handle = far_away(&bench);
    let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let waiting = bench.ask_as((0, own), |fs, caller, reply| fs.read(caller, handle, 0, 5000, reply));
    bench.signal(&waiting);
    assert!(waiting.waits());
    bench.toy.set_far(false);
    assert_eq!(waiting.later().unwrap(), noise(LEN)[..5000]);
}

#[test]
fn a_signal_that_was_faster_than_its_request_counts() {
    let bench = Bench::new();
    let handle = far_away(&bench);
    let waiting = bench.ask(|fs, caller, reply| {
        caller.interrupt.set();
        fs.read(caller, handle, 0, 5000, reply);
    });
    assert_eq!(waiting.later(), Err::<Bytes, _>(FsError::Interrupted.into()));
}
