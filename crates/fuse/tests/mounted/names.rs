use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::stage::{Plan, Stage, stage};

/// The length alone, as programs ask for it before they make room.
fn xattr_len(path: &Path, name: &CStr) -> isize {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: both strings end with a zero byte, and with a size of zero nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) }
}

fn names(stage: &Stage, directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(stage.at(directory)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn directories_of_a_thousand_names_list_each_once() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::create_dir(stage.at("d")).unwrap();
    let expected: BTreeSet<String> = (0..1000).map(|n| format!("a-file-with-number-{n}")).collect();
    for name in &expected {
        fs::write(stage.on_host("d").join(name), name).unwrap();
    }
    let entries: Vec<_> = fs::read_dir(stage.at("d")).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 1000);
    for entry in &entries {
        assert!(entry.file_type().unwrap().is_file());
        assert_eq!(entry.metadata().unwrap().len(), entry.file_name().len() as u64);
    }
    drop(entries);
    assert_eq!(names(&stage, "d"), expected);
    for name in &expected {
        fs::remove_file(stage.at("d").join(name)).unwrap();
    }
    assert!(names(&stage, "d").is_empty());
    fs::remove_dir(stage.at("d")).unwrap();
    stage.finish();
}

#[test]
fn the_kernel_gives_back_what_it_looked_up() {
    let Some(stage) = stage(Plan::default()) else { return };
    for n in 0..100 {
        fs::write(stage.at(&format!("f{n}")), "x").unwrap();
    }
    assert!(stage.loopback().inodes_len() >= 101);
    for n in 0..100 {
        fs::remove_file(stage.at(&format!("f{n}"))).unwrap();
    }
    // Forgets are sent after the answer to unlink; wait for them, within reason.
    for _ in 0..200 {
        if stage.loopback().inodes_len() == 1 {
            return stage.finish();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} inodes were never forgotten", stage.loopback().inodes_len());
}

#[test]
fn renames_replace_refuse_and_exchange() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("a"), "a").unwrap();
    fs::write(stage.at("b"), "b").unwrap();
    let with = |flags| rustix::fs::renameat_with(CWD, stage.at("a"), CWD, stage.at("b"), flags);
    assert_eq!(with(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    with(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(stage.at("a")).unwrap(), "b");
    fs::rename(stage.at("a"), stage.at("b")).unwrap();
    assert_eq!(fs::read_to_string(stage.at("b")).unwrap(), "b");
    assert!(!stage.at("a").exists());
    fs::create_dir_all(stage.at("x/y")).unwrap();
    fs::rename(stage.at("b"), stage.at("x/y/c")).unwrap();
    assert_eq!(fs::read_to_string(stage.at("x/y/c")).unwrap(), "b");
    let error = fs::remove_dir(stage.at("x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    stage.finish();
}

#[test]
fn links_of_both_kinds() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "text").unwrap();
    fs::hard_link(stage.at("file"), stage.at("same")).unwrap();
    let (one, two) = (fs::metadata(stage.at("file")).unwrap(), fs::metadata(stage.at("same")).unwrap());
    assert_eq!((one.ino(), two.nlink()), (two.ino(), 2));
    fs::remove_file(stage.at("file")).unwrap();
    assert_eq!(fs::read_to_string(stage.at("same")).unwrap(), "text");

    symlink("same", stage.at("pointer")).unwrap();
    assert_eq!(fs::read_link(stage.at("pointer")).unwrap().to_str(), Some("same"));
    assert_eq!(fs::read_to_string(stage.at("pointer")).unwrap(), "text");
    let long = "d/".repeat(2000);
    symlink(&long, stage.at("long")).unwrap();
    assert_eq!(fs::read_link(stage.at("long")).unwrap().as_os_str().len(), 4000);
    stage.finish();
}

#[test]
fn special_files_keep_their_kind() {
    let Some(stage) = stage(Plan::default()) else { return };
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, stage.at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(fs::metadata(stage.at("pipe")).unwrap().file_type().is_fifo());
    let device = rustix::fs::makedev(259, 70_000);
    rustix::fs::mknodat(CWD, stage.at("disk"), rustix::fs::FileType::BlockDevice, mode, device).unwrap();
    assert_eq!(fs::metadata(stage.at("disk")).unwrap().rdev(), device);
    let listener = std::os::unix::net::UnixListener::bind(stage.at("socket")).unwrap();
    assert!(fs::metadata(stage.at("socket")).unwrap().file_type().is_socket());
    drop(listener);
    stage.finish();
}

#[test]
fn attributes_can_be_changed() {
    let Some(stage) = stage(Plan::default()) else { return };
    let path = stage.at("file");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(5678)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(then).unwrap();
    drop(file);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (0o604, 1234, 5678));
    assert_eq!(metadata.modified().unwrap(), then);
    assert_eq!(fs::metadata(stage.on_host("file")).unwrap().modified().unwrap(), then);
    stage.finish();
}

#[test]
fn extended_attributes_come_back() {
    let Some(stage) = stage(Plan::default()) else { return };
    let path = stage.at("file");
    fs::write(&path, "x").unwrap();
    match rustix::fs::setxattr(&path, "user.colour", b"green", XattrFlags::CREATE) {
        Err(Errno::OPNOTSUPP) => {
            eprintln!("skipped: the temporary directory has no user attributes");
            return stage.finish();
        }
        result => result.unwrap(),
    }
    let again = rustix::fs::setxattr(&path, "user.colour", b"red", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    let mut space = [0; 16];
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut space[..]), Ok(5));
    assert_eq!(&space[..5], b"green");
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut space[..2]), Err(Errno::RANGE));
    assert_eq!(xattr_len(&path, c"user.colour"), 5);
    let mut list = [0; 256];
    let len = rustix::fs::listxattr(&path, &mut list[..]).unwrap();
    assert!(list[..len].split(|byte| *byte == 0).any(|name| name == b"user.colour"));
    rustix::fs::removexattr(&path, "user.colour").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut space[..]), Err(Errno::NODATA));
    stage.finish();
}

#[test]
fn statistics_are_those_of_the_host() {
    let Some(stage) = stage(Plan::default()) else { return };
    let ours = rustix::fs::statvfs(stage.point()).unwrap();
    let host = rustix::fs::statvfs(stage.on_host("")).unwrap();
    assert_eq!((ours.f_blocks, ours.f_frsize, ours.f_namemax), (host.f_blocks, host.f_frsize, host.f_namemax));
    stage.finish();
}

#[test]
fn long_names_are_refused_as_on_the_host() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at(&"n".repeat(255)), "x").unwrap();
    let error = fs::write(stage.at(&"n".repeat(256)), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    stage.finish();
}
