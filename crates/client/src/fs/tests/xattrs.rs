//! Extended attributes.

use crate::fs::Error;
use crate::fs::results::{XattrNames, XattrValue};
use crate::fs::testing::Bench;
use std::ffi::OsStr;
use wayfs_types::{FileId, FsError};

fn set(bench: &Bench, file: FileId, name: &str, value: &[u8], flags: i32) -> Result<(), Error> {
    bench.ask(|fs, caller, reply| fs.set_xattr(caller, file, (OsStr::new(name), value), flags, reply)).later()
}

fn value(bench: &Bench, file: FileId, name: &str) -> Result<XattrValue, Error> {
    bench.ask(|fs, caller, reply| fs.xattr(caller, file, OsStr::new(name), reply)).later()
}

fn names(bench: &Bench, uid: u32, file: FileId) -> Vec<String> {
    let owed = bench.ask_as((uid, 0), |fs, caller, reply| fs.list_xattrs(caller, file, reply));
    let XattrNames(names) = owed.later().unwrap();
    names.iter().map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap()).collect()
}

#[test]
fn attributes_are_kept_replaced_and_removed() {
    let bench = Bench::new();
    let file = bench.file("a", b"x");
    let missing = Err(FsError::NoAttribute.into());
    assert_eq!(value(&bench, file, "user.one"), missing);
    assert_eq!(set(&bench, file, "user.one", b"1", libc::XATTR_REPLACE), Err(FsError::NoAttribute.into()));
    set(&bench, file, "user.one", b"1", libc::XATTR_CREATE).unwrap();
    assert_eq!(set(&bench, file, "user.one", b"2", libc::XATTR_CREATE), Err(FsError::Exists.into()));
    set(&bench, file, "user.one", b"2", libc::XATTR_REPLACE).unwrap();
    assert_eq!(value(&bench, file, "user.one"), Ok(XattrValue("2".into())));
    assert_eq!(set(&bench, file, "user.one", b"3", 77), Err(FsError::Invalid.into()));
    assert_eq!(set(&bench, file, "user.one", &vec![0; 65_537], 0), Err(FsError::TooBig.into()));
    assert_eq!(set(&bench, file, "os2.name", b"1", 0), Err(FsError::Unsupported.into()));
    let removed = bench.ask(|fs, caller, reply| fs.remove_xattr(caller, file, OsStr::new("user.one"), reply)).later();
    assert_eq!((removed, value(&bench, file, "user.one")), (Ok(()), missing));
}

#[test]
fn what_only_root_may_read_is_named_to_root_only_and_what_tells_to_nobody() {
    let bench = Bench::new();
    let file = bench.file("a", b"x");
    for name in ["user.one", "trusted.two"] {
        set(&bench, file, name, b"1", 0).unwrap();
    }
    set(&bench, FileId::ROOT, "user.wayfs.user.ann", b"1000", 0).unwrap();
    assert_eq!(names(&bench, 0, file), ["trusted.two", "user.one"]);
    assert_eq!(names(&bench, 1000, file), ["user.one"]);
    assert!(names(&bench, 0, FileId::ROOT).is_empty());
    assert_eq!(value(&bench, FileId::ROOT, "user.wayfs.people"), Ok(XattrValue("user 1000 ann\n".into())));
    assert_eq!(set(&bench, file, "user.wayfs.safe", b"1", 0), Err(FsError::NotPermitted.into()));
}

#[test]
fn a_removed_file_keeps_its_attributes_in_its_handle() {
    let bench = Bench::new();
    let file = bench.file("a", b"x");
    set(&bench, file, "user.one", b"1", 0).unwrap();
    let _open = bench.open(file, libc::O_RDWR);
    bench.unlink("a").unwrap();
    set(&bench, file, "user.one", b"2", libc::XATTR_REPLACE).unwrap();
    assert_eq!(value(&bench, file, "user.one"), Ok(XattrValue("2".into())));
    assert_eq!(set(&bench, file, "user.one", b"3", libc::XATTR_CREATE), Err(FsError::Exists.into()));
}
