//! Files that are made without a name (`O_TMPFILE`) and given one later, or never.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Far, World, run, within};

/// Longest time for a test on a busy machine.
const BUSY: Duration = Duration::from_secs(180);

fn nameless(directory: &Path, more: OFlags) -> File {
    let flags = OFlags::TMPFILE | OFlags::RDWR | more;
    open(directory, flags, Mode::from_raw_mode(0o640)).unwrap().into()
}

fn give_name(file: &File, name: &Path) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, own, CWD, name, AtFlags::SYMLINK_FOLLOW)
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Proves [S-nameless].
#[test]
fn a_file_without_a_name_gets_one_with_all_that_it_holds() {
    within("files without a name", BUSY, || {
        let world = World::default();
        let d = world.directory("d");
        let mut file = nameless(&d, OFlags::empty());
        file.write_all(b"some words").unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((found.nlink(), found.len(), found.mode() & 0o777), (0, 10, 0o640));
        assert_eq!(fs::read_dir(&d).unwrap().count(), 0);
        assert_eq!(text(&mut file), "some words");
        file.set_permissions(PermissionsExt::from_mode(0o600)).unwrap();

        give_name(&file, &d.join("named")).unwrap();
        assert_eq!(fs::read_to_string(d.join("named")).unwrap(), "some words");
        let there = fs::metadata(d.join("named")).unwrap();
        let here = file.metadata().unwrap();
        assert_eq!((there.ino(), there.nlink(), there.mode() & 0o777), (here.ino(), 1, 0o600));
        give_name(&file, &d.join("further")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 2);
        fs::remove_file(d.join("further")).unwrap();
        assert_eq!(give_name(&nameless(&d, OFlags::empty()), &d.join("named")), Err(Errno::EXIST));

        // It is a file like any other: what the handle writes is read by the name, and the other way round.
        file.write_all(b" and more").unwrap();
        assert_eq!(fs::read_to_string(d.join("named")).unwrap(), "some words and more");
        fs::write(d.join("named"), "new").unwrap();
        assert_eq!(text(&mut file), "new");
        fs::hard_link(d.join("named"), d.join("second")).unwrap();
        fs::remove_file(d.join("named")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        drop(file);
        assert_eq!(fs::read_to_string(d.join("second")).unwrap(), "new");

        let file = nameless(&d, OFlags::EXCL);
        assert_eq!(give_name(&file, &d.join("never")), Err(Errno::NOENT));
        give_name(&nameless(&d, OFlags::empty()), &d.join("empty")).unwrap();
        assert_eq!(fs::metadata(d.join("empty")).unwrap().len(), 0);
    });
}

fn body_files(cache: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(cache).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(body_files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Bytes below the cache of a machine, in files of a MiB and more.
fn large_len(cache: &Path) -> u64 {
    body_files(cache)
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|found| found.blocks() * 512)
        .filter(|len| *len >= 1 << 20)
        .sum()
}

/// Takes a handle of a file that had no name and is still known from then, has the kernel forget it, and opens the handle.
const BY_HANDLE: &str = r#"
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
os.chdir(sys.argv[1])
file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(file, b"text")
# With a directory given, Python follows the link.
os.link("/proc/self/fd/%d" % file, "by-handle", src_dir_fd=os.open("/", os.O_RDONLY), follow_symlinks=True)
def handle():
    found, mount = Handle(128), ctypes.c_int()
    assert libc.name_to_handle_at(-100, b"by-handle", ctypes.byref(found), ctypes.byref(mount), 0) == 0
    return found
def opened(found):
    root = os.open(".", os.O_RDONLY)
    fd = libc.open_by_handle_at(root, ctypes.byref(found), os.O_RDONLY)
    outcome = os.read(fd, 10) if fd >= 0 else ctypes.get_errno()
    for opened in [root] + [fd] * (fd >= 0):
        os.close(opened)
    return outcome
early = handle()
assert opened(early) == b"text"
os.close(file)
# The kernel tells a while later what it forgot.
for _ in range(100):
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("2")
    if opened(early) == errno.ESTALE:
        break
    time.sleep(0.05)
else:
    raise SystemExit("the kernel goes on with the file under its first number: %s" % opened(early))
late = handle()
assert opened(late) == b"text"
assert opened(early) == errno.ESTALE
with open("by-handle") as again:
    assert again.read() == "text"
"#;

/// Proves [S-nameless].
#[test]
fn a_handle_from_before_is_good_or_stale() {
    within("handles of files without a name", BUSY, || {
        let world = World::default();
        run(Command::new("python3").args(["-c", BY_HANDLE]).arg(world.directory("d"))).ok();
    });
}

/// Proves [S-nameless]: after the daemon was killed nothing is left of what had no name, and all of what had one.
#[test]
fn what_never_got_a_name_is_gone_with_the_daemon() {
    within("files without a name and a kill", BUSY, || {
        let mut site = Far::new();
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let before = large_len(&site.near.0.path("cache"));
        let root = site.near.1.root().to_owned();
        let mut lost = nameless(&root, OFlags::empty());
        lost.write_all(&bytes).unwrap();
        let mut kept = nameless(&root, OFlags::empty());
        kept.write_all(&bytes).unwrap();
        give_name(&kept, &root.join("kept")).unwrap();
        kept.sync_all().unwrap();
        site.hand_over();
        assert_eq!(fs::read(&site.paths("kept")[1]).unwrap(), bytes);
        site.remount_near();
        drop((lost, kept));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        assert_eq!(fs::read(root.join("kept")).unwrap(), bytes);
        // What has a name may lie there twice: as chunks, and ready to be read.
        assert!(large_len(&site.near.0.path("cache")) <= before + 2 * 5_500_000);
    });
}
