//! What programs expect of a file system, on a real mount of a real volume.
//!
//! One mount serves all tests of this file; each works in a directory of its own.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use wayfs_system_tests::{World, within};

static WORLD: LazyLock<World> = LazyLock::new(World::default);

/// Runs a test in a fresh directory of the mount, for half a minute at most.
fn in_mount(name: &str, test: impl FnOnce(PathBuf) + Send + 'static) {
    let directory = WORLD.directory(name);
    within(name, Duration::from_secs(30), move || test(directory));
}

/// Proves [S-posix].
#[test]
fn what_is_written_is_read() {
    in_mount("written", |d| {
        let path = d.join("a");
        for len in [0, 1, 4095, 4096, 4097, 65_536, 300_000, 3_000_001] {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes, "{len} bytes");
            assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
        }
    });
}

#[test]
fn parts_of_a_file_are_overwritten_in_place() {
    in_mount("overwritten", |d| {
        let path = d.join("a");
        fs::write(&path, vec![1; 1_000_000]).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[2; 10], 500_000).unwrap();
        file.write_all_at(&[3; 10], 1_000_100).unwrap();
        drop(file);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1_000_110);
        assert_eq!(&bytes[499_999..500_011], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
        assert!(bytes[1_000_000..1_000_100].iter().all(|b| *b == 0));
    });
}

#[test]
fn appends_go_to_the_end_from_every_handle() {
    in_mount("appended", |d| {
        let path = d.join("log");
        let mut handles: Vec<File> =
            (0..3).map(|_| OpenOptions::new().create(true).append(true).open(&path).unwrap()).collect();
        for round in 0..30 {
            handles[round % 3].write_all(format!("{round:03}\n").as_bytes()).unwrap();
        }
        drop(handles);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, (0..30).map(|n| format!("{n:03}\n")).collect::<String>());
    });
}

#[test]
fn truncation_shortens_and_extends_with_zeros() {
    in_mount("truncated", |d| {
        let path = d.join("a");
        fs::write(&path, b"0123456789").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.set_len(4).unwrap();
        file.set_len(8).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0123\0\0\0\0");
        drop(file);
        fs::write(&path, b"xy").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"xy");
    });
}

/// Proves [S-unlinked].
#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    in_mount("unlinked", |d| {
        let path = d.join("a");
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(true).open(&path).unwrap();
        file.write_all(b"before").unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap_err().kind(), ErrorKind::NotFound);
        file.write_all(b" and after").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
        assert_eq!(file.metadata().unwrap().nlink(), 0);
    });
}

/// Proves [S-unlinked].
#[test]
fn a_removed_directory_that_is_open_has_no_links() {
    in_mount("removed-directory", |d| {
        fs::create_dir(d.join("a")).unwrap();
        let open = File::open(d.join("a")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 2);
        fs::remove_dir(d.join("a")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        assert!(open.metadata().unwrap().is_dir());
    });
}

#[test]
fn rename_over_an_open_file_leaves_its_handle_alone() {
    in_mount("renamed-over", |d| {
        fs::write(d.join("old"), b"old").unwrap();
        fs::write(d.join("new"), b"new").unwrap();
        let mut open = File::open(d.join("old")).unwrap();
        fs::rename(d.join("new"), d.join("old")).unwrap();
        assert_eq!(fs::read(d.join("old")).unwrap(), b"new");
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
    });
}

#[test]
fn editors_save_by_rename_and_lose_nothing() {
    in_mount("save-dance", |d| {
        let path = d.join("text.txt");
        fs::write(&path, b"v0").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        for round in 1..20 {
            let temporary = d.join(format!(".text.txt.{round}.tmp"));
            let mut file = File::create(&temporary).unwrap();
            write!(file, "v{round}").unwrap();
            file.sync_all().unwrap();
            drop(file);
            fs::rename(&path, d.join("text.txt~")).unwrap();
            fs::rename(&temporary, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("v{round}"));
            assert_eq!(fs::read_to_string(d.join("text.txt~")).unwrap(), format!("v{}", round - 1));
        }
        assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!(fs::read_dir(&d).unwrap().count(), 2);
    });
}

#[test]
fn directories_refuse_what_they_must() {
    in_mount("directories", |d| {
        fs::create_dir(d.join("a")).unwrap();
        assert_eq!(fs::create_dir(d.join("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        fs::write(d.join("a/f"), b"").unwrap();
        assert_eq!(fs::remove_dir(d.join("a")).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        assert_eq!(fs::remove_dir(d.join("a/f")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
        assert_eq!(fs::remove_file(d.join("a")).unwrap_err().raw_os_error(), Some(libc::EISDIR));
        assert_eq!(fs::rename(d.join("a"), d.join("a/b")).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        fs::create_dir(d.join("e")).unwrap();
        assert_eq!(fs::rename(d.join("e"), d.join("a")).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        assert_eq!(fs::rename(d.join("a/f"), d.join("e")).unwrap_err().raw_os_error(), Some(libc::EISDIR));
        assert_eq!(fs::rename(d.join("e"), d.join("a/f")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
        let long = "x".repeat(256);
        assert_eq!(fs::write(d.join(long), b"").unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
        fs::rename(d.join("a"), d.join("b")).unwrap();
        fs::remove_file(d.join("b/f")).unwrap();
        fs::remove_dir(d.join("b")).unwrap();
    });
}

#[test]
fn link_counts_are_right() {
    in_mount("links", |d| {
        let before = fs::metadata(&d).unwrap().nlink();
        fs::create_dir(d.join("sub")).unwrap();
        assert_eq!(fs::metadata(&d).unwrap().nlink(), before + 1);
        fs::write(d.join("a"), b"one file").unwrap();
        fs::hard_link(d.join("a"), d.join("b")).unwrap();
        fs::hard_link(d.join("a"), d.join("sub/c")).unwrap();
        let (a, c) = (fs::metadata(d.join("a")).unwrap(), fs::metadata(d.join("sub/c")).unwrap());
        assert_eq!((a.ino(), a.nlink()), (c.ino(), 3));
        fs::write(d.join("sub/c"), b"changed").unwrap();
        assert_eq!(fs::read(d.join("a")).unwrap(), b"changed");
        fs::remove_file(d.join("a")).unwrap();
        assert_eq!(fs::metadata(d.join("b")).unwrap().nlink(), 2);
        fs::rename(d.join("b"), d.join("sub/c")).unwrap();
        assert_eq!(fs::read(d.join("sub/c")).unwrap(), b"changed");
    });
}

#[test]
fn symbolic_links_are_kept_as_written() {
    in_mount("symlinks", |d| {
        fs::write(d.join("target"), b"t").unwrap();
        symlink("target", d.join("good")).unwrap();
        symlink("../nowhere/é", d.join("broken")).unwrap();
        assert_eq!(fs::read_link(d.join("broken")).unwrap(), Path::new("../nowhere/é"));
        assert_eq!(fs::read(d.join("good")).unwrap(), b"t");
        assert_eq!(fs::symlink_metadata(d.join("good")).unwrap().len(), 6);
        assert_eq!(fs::read(d.join("broken")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn attributes_are_kept() {
    in_mount("attributes", |d| {
        let path = d.join("a");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let seen = fs::metadata(&path).unwrap();
        assert_eq!((seen.uid(), seen.gid()), (1234, 4321));
        assert_eq!(seen.mode() & 0o777, 0o751);
        assert_eq!(seen.modified().unwrap(), time);
        assert_eq!(seen.size(), 1);
    });
}

#[test]
fn modification_times_never_run_backwards_on_writes() {
    in_mount("mtime", |d| {
        let path = d.join("a");
        fs::write(&path, b"0").unwrap();
        let mut last = fs::metadata(&path).unwrap().modified().unwrap();
        for round in 0..10 {
            fs::write(&path, format!("{round}")).unwrap();
            let now = fs::metadata(&path).unwrap().modified().unwrap();
            assert!(now >= last);
            last = now;
        }
        assert!(fs::metadata(&d).unwrap().modified().unwrap() <= SystemTime::now() + Duration::from_secs(1));
    });
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without a zero byte")
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) -> Result<(), i32> {
    rustix::fs::setxattr(c_path(path), name, value, rustix::fs::XattrFlags::empty()).map_err(|e| e.raw_os_error())
}

fn xattr(path: &Path, name: &str) -> Result<Vec<u8>, i32> {
    let mut buffer = vec![0; 70_000];
    let len = rustix::fs::getxattr(c_path(path), name, &mut buffer[..]).map_err(|e| e.raw_os_error())?;
    buffer.truncate(len);
    Ok(buffer)
}

#[test]
fn extended_attributes_are_kept_and_bounded() {
    in_mount("xattrs", |d| {
        let path = d.join("a");
        fs::write(&path, b"x").unwrap();
        set_xattr(&path, "user.one", b"1").unwrap();
        set_xattr(&path, "user.two", &[7; 5000]).unwrap();
        assert_eq!(xattr(&path, "user.two").unwrap(), [7; 5000]);
        assert_eq!(xattr(&path, "user.none").unwrap_err(), libc::ENODATA);
        let mut list = vec![0; 1000];
        let len = rustix::fs::listxattr(c_path(&path), &mut list[..]).unwrap();
        let text = String::from_utf8_lossy(&list[..len]).into_owned();
        assert!(text.contains("user.one\0") && text.contains("user.two\0") && !text.contains("user.wayfs"), "{text:?}");
        rustix::fs::removexattr(c_path(&path), "user.one").unwrap();
        assert_eq!(xattr(&path, "user.one").unwrap_err(), libc::ENODATA);
    });
}

#[test]
fn the_state_of_a_file_is_an_attribute() {
    in_mount("state", |d| {
        let path = d.join("a");
        fs::write(&path, b"x").unwrap();
        let state = String::from_utf8(xattr(&path, "user.wayfs.state").unwrap()).unwrap();
        assert!(["modified", "safe", "visible", "stable"].contains(&state.as_str()), "{state}");
    });
}

#[test]
fn sparse_files_cost_what_is_in_them() {
    in_mount("sparse", |d| {
        let path = d.join("a");
        let file = File::create(&path).unwrap();
        file.write_all_at(b"end", 1 << 30).unwrap();
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().len(), (1 << 30) + 3);
        let file = File::open(&path).unwrap();
        let mut buffer = [9; 4096];
        file.read_exact_at(&mut buffer, 500_000_000).unwrap();
        assert!(buffer.iter().all(|b| *b == 0));
        let mut end = [0; 3];
        file.read_exact_at(&mut end, 1 << 30).unwrap();
        assert_eq!(&end, b"end");
    });
}

/// Programs that save by renaming, and others that read meanwhile: each sees a whole file, the old one or the new one.
///
/// Proves [S-unlinked].
#[test]
fn a_reader_finds_a_whole_file_while_others_are_renamed_over_it() {
    use std::sync::atomic::{AtomicBool, Ordering};
    in_mount("saved-by-renaming", |d| {
        let done = AtomicBool::new(false);
        for len in [100, 20_000] {
            let (path, fresh) = (d.join("p"), d.join("fresh"));
            fs::write(&path, vec![b'x'; len]).unwrap();
            done.store(false, Ordering::SeqCst);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        fs::write(&fresh, vec![b'x'; len]).unwrap();
                        fs::rename(&fresh, &path).unwrap();
                    }
                });
                let whole = (0..1000).filter(|_| fs::read(&path).unwrap().len() == len).count();
                done.store(true, Ordering::SeqCst);
                assert_eq!(whole, 1000, "reads of {len} bytes that found all of them");
            });
        }
    });
}

/// The same with symbolic links: an empty target would lead to the directory itself.
#[test]
fn a_link_leads_somewhere_while_others_are_renamed_over_it() {
    use std::sync::atomic::{AtomicBool, Ordering};
    in_mount("links-renamed-over", |d| {
        let (path, fresh, done) = (d.join("p"), d.join("fresh"), AtomicBool::new(false));
        fs::write(d.join("target"), b"here").unwrap();
        symlink("target", &path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    symlink("target", &fresh).unwrap();
                    fs::rename(&fresh, &path).unwrap();
                }
            });
            let wrong: Vec<_> =
                (0..1000).map(|_| fs::read(&path)).filter(|read| read.as_deref().ok() != Some(b"here")).collect();
            done.store(true, Ordering::SeqCst);
            assert!(wrong.is_empty(), "{wrong:?}");
        });
    });
}

#[test]
fn a_directory_lists_every_entry_once() {
    in_mount("listed", |d| {
        for n in 0..3000 {
            File::create(d.join(format!("file-{n:05}"))).unwrap();
        }
        let mut names: Vec<String> =
            fs::read_dir(&d).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, (0..3000).map(|n| format!("file-{n:05}")).collect::<Vec<_>>());
        for n in (0..3000).step_by(2) {
            fs::remove_file(d.join(format!("file-{n:05}"))).unwrap();
        }
        assert_eq!(fs::read_dir(&d).unwrap().count(), 1500);
    });
}

#[test]
fn flock_excludes_other_handles() {
    use rustix::fs::{FlockOperation, flock};
    in_mount("flock", |d| {
        let path = d.join("lock");
        let (one, two) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        flock(&one, FlockOperation::LockExclusive).unwrap();
        assert_eq!(flock(&two, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK));
        flock(&one, FlockOperation::Unlock).unwrap();
        flock(&two, FlockOperation::NonBlockingLockShared).unwrap();
        flock(&one, FlockOperation::NonBlockingLockShared).unwrap();
        drop(two);
        // The kernel tells of a close after it returned.
        let got = || flock(&one, FlockOperation::NonBlockingLockExclusive).is_ok();
        wayfs_system_tests::eventually("the closed handle's lock is gone", Duration::from_secs(10), got);
    });
}

#[test]
fn statfs_answers() {
    in_mount("statfs", |d| {
        let seen = rustix::fs::statvfs(&d).unwrap();
        assert!(seen.f_blocks > 0 && seen.f_namemax == 255);
    });
}

#[test]
fn odd_names_are_kept_byte_for_byte() {
    in_mount("names", |d| {
        let names: [&[u8]; 6] = [b"with space", b"-dash", b"new\nline", "\u{1F600}".as_bytes(), b"\xff\xfe", b"...."];
        for name in names {
            fs::write(d.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
        }
        let mut found: Vec<Vec<u8>> =
            fs::read_dir(&d).unwrap().map(|e| e.unwrap().file_name().as_bytes().to_vec()).collect();
        found.sort();
        let mut expected: Vec<Vec<u8>> = names.iter().map(|n| n.to_vec()).collect();
        expected.sort();
        assert_eq!(found, expected);
    });
}

/// Proves [S-posix].
#[test]
fn what_another_user_allocates_or_punches_drops_the_set_id_bits() {
    let directory = WORLD.directory("set-id");
    let script = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
os.chdir(sys.argv[1])
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
def modes(uid):
    for mode in (0, KEEP_SIZE | PUNCH_HOLE, ZERO_RANGE):
        name = "f%d-%d" % (uid, mode)
        with open(name, "wb") as file:
            file.write(b"x" * 10000)
        os.chmod(name, 0o6777)
        fd = os.open(name, os.O_RDWR)
        child = os.fork()
        if child == 0:
            os.setuid(uid)
            os._exit(0 if libc.fallocate(fd, mode, 0, 4096) == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0, mode
        os.close(fd)
        yield os.stat(name).st_mode & 0o7777
assert list(modes(65534)) == [0o777] * 3
assert list(modes(0)) == [0o6777] * 3
"#;
    let mut python = std::process::Command::new("python3");
    let patience = Duration::from_secs(30);
    wayfs_system_tests::run_for(patience, python.arg("-c").arg(script).arg(&directory)).ok();
}

/// Proves [S-handles].
#[test]
fn files_are_found_by_handle_when_the_kernel_has_forgotten_them() {
    let directory = WORLD.directory("handles");
    let script = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
def handle(path):
    found, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(found), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return found
def opened(found):
    root = os.open(".", os.O_RDONLY)
    fd = libc.open_by_handle_at(root, ctypes.byref(found), os.O_RDONLY)
    os.close(root)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    return fd
def forget():
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("2")
os.chdir(sys.argv[1])
os.makedirs("a/b")
with open("a/b/file", "w") as file:
    file.write("found")
file, inner = handle("a/b/file"), handle("a/b")
os.rename("a/b/file", "a/moved")
forget()
fd = opened(file)
assert os.read(fd, 10) == b"found"
os.close(fd)
fd = opened(inner)
assert os.listdir(fd) == []
assert os.stat("..", dir_fd=fd).st_ino == os.stat("a").st_ino
os.close(fd)
os.unlink("a/moved")
forget()
try:
    opened(file)
    raise SystemExit("a removed file was opened")
except OSError as error:
    assert error.errno == errno.ESTALE, error
"#;
    let mut python = std::process::Command::new("python3");
    wayfs_system_tests::run_for(Duration::from_secs(30), python.arg("-c").arg(script).arg(&directory)).ok();
}

/// Proves [S-pathconf]: what `pathconf` says of links and sizes is less than there may be; what it says of names is so.
#[test]
fn limits_that_programs_ask_for_hold() {
    in_mount("limits", |d| {
        let limit = |what: &str| -> usize {
            let said = std::process::Command::new("getconf").arg(what).arg(&d).output().unwrap();
            String::from_utf8(said.stdout).unwrap().trim().parse().unwrap()
        };
        fs::write(d.join("n".repeat(limit("NAME_MAX"))), "").unwrap();
        let error = fs::write(d.join("n".repeat(limit("NAME_MAX") + 1)), "").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
        fs::write(d.join("file"), "").unwrap();
        let file = fs::File::options().write(true).open(d.join("file")).unwrap();
        file.set_len(1 << limit("FILESIZEBITS")).unwrap();
        let links = limit("LINK_MAX") + 1;
        for number in 0..links {
            fs::hard_link(d.join("file"), d.join(format!("link-{number}"))).unwrap();
        }
        assert_eq!(fs::metadata(d.join("file")).unwrap().nlink(), links as u64 + 1);
    });
}
