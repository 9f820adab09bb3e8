//! Replies: each is given once, and a lost one is a refusal.

use crate::fs::names::NewMode;
use crate::fs::opening::{NewFile, OpenRequest};
use crate::fs::reply::{Delivery, Reply, Respond, RespondWith};
use crate::fs::results::{Created, Opened, OpenedDirectory};
use crate::fs::testing::{Bench, To};
use crate::fs::{Caller, Error, FileSystem};
use std::ffi::OsStr;
use std::sync::Arc;
use wayfs_types::{FileId, FsError};

#[test]
fn a_reply_that_is_dropped_is_a_refusal_and_counted() {
    let bench = Bench::new();
    let owed = bench.ask(|_, _, reply: Reply<To<()>>| drop(reply));
    assert_eq!((owed.now(), bench.fs.unanswered()), (Err(FsError::Io.into()), 1));
    let answered = bench.ask(|_, _, reply: Reply<To<()>>| reply.give(()));
    assert_eq!((answered.now(), bench.fs.unanswered()), (Ok(()), 1));
}

#[test]
fn what_is_asked_of_workers_that_ended_is_refused_and_nobody_hangs() {
    let bench = Bench::new();
    bench.fs.stop();
    let sync = bench.ask(|fs, caller, reply| fs.sync_all(caller, reply));
    assert_eq!(sync.now(), Err(FsError::TimedOut.into()));
    assert_eq!((bench.fs.pending.count(), bench.fs.unanswered()), (0, 0));
}

const TO_WRITE: OpenRequest = OpenRequest { flags: libc::O_RDWR, kill_suid_gid: false };

/// Opens something.
type Ask = fn(&Arc<FileSystem>, &Caller, FileId, Reply<Nobody>);

/// A front end whose caller went away.
struct Nobody;

impl Respond for Nobody {
    fn refuse(self, _error: Error) {}
}

impl<T> RespondWith<T> for Nobody {
    fn give(self, _result: T) -> Delivery {
        Delivery::Gone
    }
}

#[test]
fn what_was_opened_for_somebody_who_went_away_is_closed_again() {
    let bench = Bench::new();
    let file = bench.file("a", b"x");
    let asks: [Ask; 3] = [
        |fs, caller, file, reply| fs.open(caller, file, TO_WRITE, reply),
        |fs, caller, _, reply| fs.open_directory(caller, FileId::ROOT, reply),
        |fs, caller, _, reply| {
            let mode = NewMode { asked: 0o644, umask: 0 };
            let new = NewFile { flags: libc::O_RDWR, mode };
            fs.create(caller, FileId::ROOT, OsStr::new("b"), new, reply);
        },
    ];
    for ask in asks {
        let _ = bench.ask(|fs, caller, _: Reply<To<()>>| ask(fs, caller, file, fs.reply(Nobody)));
        assert_eq!(bench.fs.open_handles(), 0);
    }
    assert!(!bench.is_absent("b"), "it was made all the same");
    let opened: Result<Opened, Error> = bench.ask(|fs, caller, reply| fs.open(caller, file, TO_WRITE, reply)).later();
    let directory: Result<OpenedDirectory, Error> =
        bench.ask(|fs, caller, reply| fs.open_directory(caller, FileId::ROOT, reply)).later();
    assert!(opened.is_ok() && directory.is_ok());
    let created: Result<Created, Error> = bench.try_create("b", libc::O_RDWR);
    assert!(created.is_ok());
    assert_eq!(bench.fs.open_handles(), 3);
}
