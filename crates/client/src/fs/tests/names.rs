//! Names: made, found, changed and removed, with files open behind them.

use crate::fs::Error;
use crate::fs::attributes::FileKind;
use crate::fs::names::{NewMode, NewNode};
use crate::fs::opening::NewFile;
use crate::fs::results::{Created, Entry, LinkTarget};
use crate::fs::testing::{Bench, Found};
use std::ffi::OsStr;
use std::time::Duration;
use wayfs_types::request::RenameTarget;
use wayfs_types::{FileId, FsError};

const MODE: NewMode = NewMode { asked: 0o755, umask: 0o022 };

fn rename(bench: &Bench, from: &str, to: &str, target: RenameTarget) -> Result<(), Error> {
    let (from, to) = ((FileId::ROOT, OsStr::new(from)), (FileId::ROOT, OsStr::new(to)));
    bench.ask(|fs, caller, reply| fs.rename(caller, from, to, target, reply)).later()
}

fn make_directory(bench: &Bench, name: &str) -> Result<Entry, Error> {
    bench.ask(|fs, caller, reply| fs.make_directory(caller, FileId::ROOT, OsStr::new(name), MODE, reply)).later()
}

#[test]
fn a_name_is_absent_until_it_is_made_and_may_be_cached_while_somebody_vouches() {
    let bench = Bench::new();
    assert_eq!(bench.lookup("a"), Ok(Found::Absent(Duration::from_secs(3600))));
    let created = bench.try_create("a", libc::O_RDWR | libc::O_EXCL).unwrap();
    assert_eq!(bench.entry("a").file, created.entry.file);
    assert_eq!(created.entry.ttl, Duration::from_secs(3600));
    assert_eq!(bench.try_create("a", libc::O_RDWR | libc::O_EXCL), Err(FsError::Exists.into()));
    assert_eq!(bench.try_create("a", libc::O_RDWR).unwrap().entry.file, created.entry.file, "as good as an open");
    bench.toy.set_offline(true);
    assert_eq!((bench.entry("a").ttl, bench.lookup("b")), (Duration::ZERO, Ok(Found::Absent(Duration::ZERO))));
}

#[test]
fn what_is_removed_while_it_is_open_lives_on_in_its_handle() {
    let bench = Bench::new();
    bench.file("a", b"old bytes");
    let opened = bench.open(bench.entry("a").file, libc::O_RDWR);
    let file = bench.entry("a").file;
    bench.unlink("a").unwrap();
    assert!(bench.is_absent("a"));
    assert_eq!(bench.unlink("a"), Err(FsError::NotFound.into()));
    assert_eq!(bench.attributes(file).links, 0);
    assert_eq!(bench.read(opened.handle, 0, 100).unwrap(), b"old bytes"[..]);
    bench.write(opened.handle, 4, b"BYTES").unwrap();
    assert_eq!(bench.read(opened.handle, 0, 100).unwrap(), b"old BYTES"[..]);
    let stores = bench.toy.stores();
    bench.close(opened.handle);
    assert_eq!(bench.toy.stores(), stores, "nobody else is told of it");
}

#[test]
fn a_rename_replaces_what_others_still_read() {
    let bench = Bench::new();
    let (old, new) = (bench.file("a", b"old"), bench.file("b", b"new"));
    let reader = bench.open(old, libc::O_RDONLY);
    assert_eq!(rename(&bench, "b", "a", RenameTarget::MustBeFree), Err(FsError::Exists.into()));
    rename(&bench, "b", "a", RenameTarget::Replace).unwrap();
    assert!(bench.is_absent("b"));
    assert_eq!(bench.entry("a").file, new);
    assert_eq!(bench.read(reader.handle, 0, 10).unwrap(), b"old"[..]);
    bench.file("c", b"other");
    rename(&bench, "a", "c", RenameTarget::Exchange).unwrap();
    assert_eq!(bench.entry("c").file, new);
}

#[test]
fn directories_links_and_nodes_are_what_they_were_made() {
    let bench = Bench::new();
    let made = make_directory(&bench, "d").unwrap();
    assert_eq!((made.attributes.kind, made.attributes.links), (FileKind::Directory, 2));
    assert_eq!(make_directory(&bench, "d"), Err(FsError::Exists.into()));
    let target = OsStr::new("d/far away");
    let linked: Entry = bench
        .ask(|fs, caller, reply| fs.symlink(caller, FileId::ROOT, OsStr::new("l"), target, reply))
        .later()
        .unwrap();
    let read = bench.ask(|fs, caller, reply| fs.read_link(caller, linked.file, reply)).later();
    assert_eq!(read, Ok(LinkTarget("d/far away".into())));
    let read = bench.ask(|fs, caller, reply| fs.read_link(caller, made.file, reply)).later();
    assert_eq!(read, Err::<LinkTarget, _>(FsError::Invalid.into()));
    for (kind, device) in [(FileKind::Pipe, 0), (FileKind::Socket, 0), (FileKind::CharacterDevice, 0x103)] {
        let node = NewNode { kind, mode: MODE, device };
        let name = format!("{kind:?}");
        let name = OsStr::new(&name);
        let made: Entry =
            bench.ask(|fs, caller, reply| fs.make_node(caller, FileId::ROOT, name, node, reply)).later().unwrap();
        assert_eq!((made.attributes.kind, made.attributes.device), (kind, device));
    }
    let long = "n".repeat(256);
    assert_eq!(make_directory(&bench, &long), Err(FsError::NameTooLong.into()));
}

#[test]
fn a_file_without_a_name_is_seen_whole_with_the_name_that_it_gets() {
    let bench = Bench::new();
    let new = NewFile { flags: libc::O_RDWR, mode: MODE };
    let created: Created =
        bench.ask(|fs, caller, reply| fs.create_nameless(caller, FileId::ROOT, new, reply)).later().unwrap();
    bench.write(created.opened.handle, 0, b"all of it").unwrap();
    assert!(bench.is_absent("a"));
    let linked: Entry = bench
        .ask(|fs, caller, reply| fs.link(caller, created.entry.file, FileId::ROOT, OsStr::new("a"), reply))
        .later()
        .unwrap();
    assert_eq!(linked.file, created.entry.file, "the kernel goes on with the number that it has");
    assert_eq!((linked.attributes.size, bench.toy.bytes_of("a")), (9, b"all of it".to_vec()));
    bench.close(created.opened.handle);
    let twice: Entry = bench
        .ask(|fs, caller, reply| {
            fs.link(caller, fs.known_as(linked.file), FileId::ROOT, OsStr::new("b"), reply);
        })
        .later()
        .unwrap();
    assert_eq!(twice.attributes.links, 2);
}
