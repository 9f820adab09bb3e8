//! Real mounts over a replica in memory. Every test runs under a watchdog that takes the mount down.

use super::Front;
use crate::files::{FileTable, HostDisk, TableSettings};
use crate::fs::{Close, FileSystem, FileSystemSettings};
use crate::notices::{Caches, NoticeThreads, Notices, Stale};
use crate::toy::Toy;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use wayfs_fuse::{BackgroundSession, Config, Mount, MountOptions, Session, UmountMode};

/// After this a test is taken to hang.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Mounted {
    pub(super) toy: Arc<Toy>,
    pub(super) fs: Arc<FileSystem>,
    pub(super) notices: Arc<Notices>,
    pub(super) point: PathBuf,
    session: Option<BackgroundSession>,
    _notice_threads: NoticeThreads,
    // Dropped last: ends the watchdog.
    _alive: mpsc::Sender<()>,
    _directory: tempfile::TempDir,
}

/// Mounts, or says why not and gives nothing.
pub(super) fn mounted(close: Close) -> Option<Mounted> {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("files");
    mounted_over(close, directory, &files, &Config::default())
}

/// As [`mounted`], with body files elsewhere and other wishes to the kernel.
pub(super) fn mounted_over(
    close: Close,
    directory: tempfile::TempDir,
    files: &Path,
    wishes: &Config,
) -> Option<Mounted> {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("skipped: /dev/fuse cannot be opened");
        return None;
    }
    let point = directory.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let toy = Arc::new(Toy::new());
    let table = TableSettings {
        disk: HostDisk::at(files, 0),
        idle_len_max: 1 << 30,
        idle_count_max: 64,
        memory_max: crate::files::body::MEMORY_MAX,
        body_count_max: 512,
    };
    let files = Arc::new(FileTable::open(toy.clone(), table).unwrap());
    let notices = Arc::new(Notices::default());
    let settings =
        FileSystemSettings { close, free_min: 1 << 20, passthrough_room: 0, ..FileSystemSettings::default() };
    let fs = FileSystem::new(toy.clone(), files, Arc::clone(&notices), settings).unwrap();
    let mount = Mount::new(&MountOptions::new(&point)).unwrap();
    let session = Session::new(mount, wishes.clone()).spawn(Arc::new(Front(Arc::clone(&fs))), 2).unwrap();
    let unmounter = session.unmounter().unwrap();
    let (alive, dead) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if dead.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a mount test hangs: its mount is taken down");
            let _ = unmounter.umount(UmountMode::Force);
        }
    });
    let caches: Arc<dyn Caches> = Arc::new(session.notifier());
    let notice_threads = notices.start(&caches).unwrap();
    Some(Mounted {
        toy,
        fs,
        notices,
        point,
        session: Some(session),
        _notice_threads: notice_threads,
        _alive: alive,
        _directory: directory,
    })
}

impl Mounted {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Whether programs write a file past the daemon at present.
    pub(super) fn is_written_by_passthrough(&self, name: &str) -> bool {
        self.fs.files().find(self.toy.find(name)).is_some_and(|file| file.is_written_by_passthrough())
    }

    pub(super) fn settle(&self) {
        assert!(self.notices.drain(Duration::from_secs(5)), "notices are told in time");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if session.umount(UmountMode::Orderly).is_err() {
            let _ = session.umount(UmountMode::Force);
        }
        let _ = session.join();
        self.fs.stop();
    }
}

/// Runs a program on the mount with a bound.
pub(super) fn sh(script: &str, directory: &Path) -> String {
    let output = Command::new("timeout").args(["15", "bash", "-ec", script]).current_dir(directory).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn what_is_written_is_read_and_is_one_store_each() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("small"), b"hello").unwrap();
    assert_eq!(mount.toy.stores(), 1);
    sh("echo one > small; echo two >> small; cat small", &mount.point);
    assert_eq!(mount.toy.stores(), 3);
    assert_eq!(fs::read(mount.path("small")).unwrap(), b"one\ntwo\n");
    let large = noise(5 << 20);
    fs::write(mount.path("large"), &large).unwrap();
    eventually(|| mount.toy.stores() == 4);
    for _ in 0..2 {
        assert!(fs::read(mount.path("large")).unwrap() == large);
    }
    assert_eq!(fs::metadata(mount.path("large")).unwrap().len(), 5 << 20);
}

#[test]
fn an_open_large_file_is_read_by_several_and_written_in_place() {
    let Some(mount) = mounted(Close::Safe) else { return };
    let mut bytes = noise(2 << 20);
    fs::write(mount.path("f"), &bytes).unwrap();
    let mut reader = File::open(mount.path("f")).unwrap();
    let mut first = vec![0; 4096];
    reader.read_exact(&mut first).unwrap();
    let writer = OpenOptions::new().read(true).write(true).open(mount.path("f")).unwrap();
    writer.write_all_at(b"overwritten", 1_000_000).unwrap();
    bytes[1_000_000..1_000_011].copy_from_slice(b"overwritten");
    let mut seen = [0; 11];
    reader.read_exact_at(&mut seen, 1_000_000).unwrap();
    assert_eq!(&seen, b"overwritten");
    writer.sync_all().unwrap();
    drop((reader, writer));
    assert!(fs::read(mount.path("f")).unwrap() == bytes);
    let truncating = OpenOptions::new().write(true).open(mount.path("f")).unwrap();
    truncating.set_len(100).unwrap();
    assert_eq!(truncating.metadata().unwrap().len(), 100);
    truncating.set_len(200).unwrap();
    drop(truncating);
    bytes.truncate(100);
    bytes.resize(200, 0);
    assert!(fs::read(mount.path("f")).unwrap() == bytes);
}

#[test]
fn a_removed_or_replaced_file_lives_in_its_handles() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("a"), b"first").unwrap();
    let mut open = OpenOptions::new().read(true).write(true).open(mount.path("a")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    open.seek(SeekFrom::End(0)).unwrap();
    open.write_all(b" and more").unwrap();
    open.rewind().unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), open.metadata().unwrap().nlink()), ("first and more", 0));
    let stores = mount.toy.stores();
    drop(open);
    assert!(!mount.path("a").exists());
    assert_eq!(mount.toy.stores(), stores);
    fs::write(mount.path("old"), b"old").unwrap();
    fs::write(mount.path("new"), b"new").unwrap();
    let open = File::open(mount.path("old")).unwrap();
    fs::rename(mount.path("new"), mount.path("old")).unwrap();
    let mut kept = [0; 3];
    open.read_exact_at(&mut kept, 0).unwrap();
    assert_eq!((&kept, fs::read(mount.path("old")).unwrap()), (b"old", b"new".to_vec()));
}

#[test]
fn names_links_modes_and_times_are_kept() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    sh(
        "mkdir -p d/e; echo x > d/f; ln d/f d/g; ln -s f d/s; mkfifo d/p; mv d/e e; chmod 640 d/f; touch -d @1000 d/g; rmdir e
         test ! -e d/e; test -p d/p; test \"$(cat d/s)\" = x; rm d/g; rm -r d/p",
        &mount.point,
    );
    let metadata = fs::metadata(mount.path("d/f")).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o7777, metadata.mtime(), metadata.nlink()), (0o640, 1000, 1));
    assert_eq!(fs::read_link(mount.path("d/s")).unwrap(), Path::new("f"));
    assert!(fs::rename(mount.path("nowhere"), mount.path("d/x")).is_err());
    let long = "x".repeat(256);
    assert_eq!(fs::write(mount.path(&long), b"").unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(mount.path("d/f"));
    assert_eq!(created.unwrap_err().raw_os_error(), Some(libc::EEXIST));
    let missing = fs::remove_dir(mount.path("d")).unwrap_err();
    assert_eq!(missing.raw_os_error(), Some(libc::ENOTEMPTY));
}

#[test]
fn a_directory_of_three_pages_is_listed_and_emptied() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::create_dir(mount.path("many")).unwrap();
    for number in 0..2500 {
        File::create(mount.path(&format!("many/{number:05}"))).unwrap();
    }
    let mut names: Vec<String> = fs::read_dir(mount.path("many"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!((names.len(), names[2499].as_str()), (2500, "02499"));
    fs::remove_dir_all(mount.path("many")).unwrap();
    assert!(!mount.path("many").exists());
}

/// Proves [S-remote-change].
#[test]
fn changes_from_elsewhere_are_seen_after_their_notice() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    // For reading, too: a file that is written only may be written by passthrough, and is then read by passthrough while it is open.
    let mut writer = File::options().read(true).write(true).create(true).truncate(true).open(mount.path("f")).unwrap();
    writer.write_all(b"ours").unwrap();
    drop(writer);
    let open = File::open(mount.path("f")).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"ours");
    assert!(!mount.path("other").exists());
    assert_eq!(fs::read_dir(&mount.point).unwrap().count(), 1);
    let file = mount.toy.change_behind("f", b"theirs!");
    mount.toy.make_behind("other", wayfs_types::Kind::File);
    mount.fs.files().changed_elsewhere(file);
    mount.notices.inode(file, Stale::Pages);
    mount.notices.entry(wayfs_types::FileId::ROOT, "other".try_into().unwrap());
    mount.notices.inode(wayfs_types::FileId::ROOT, Stale::Pages);
    mount.settle();
    assert_eq!(fs::metadata(mount.path("f")).unwrap().len(), 7);
    // The kernel tells of the end of the writing handle a moment after its close.
    let mut seen = [0; 7];
    for _ in 0..500 {
        if open.read_exact_at(&mut seen, 0).is_ok() && &seen == b"theirs!" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(&seen, b"theirs!");
    assert_eq!(fs::metadata(mount.path("f")).unwrap().len(), 7);
    assert!(mount.path("other").exists());
    assert_eq!(fs::read_dir(&mount.point).unwrap().count(), 2);
}

/// Proves [S-attributes].
#[test]
fn attributes_of_files_are_kept_and_ours_tell_the_state() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let file = File::create(mount.path("f")).unwrap();
    let set = |name: &str, flags| rustix::fs::fsetxattr(file.as_fd(), name, b"value", flags);
    set("user.a", rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(set("user.a", rustix::fs::XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    assert_eq!(set("user.b", rustix::fs::XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
    assert!(set("user.wayfs.state", rustix::fs::XattrFlags::empty()).is_err());
    let mut value = [0; 64];
    let mut get = |name: &str| {
        rustix::fs::fgetxattr(file.as_fd(), name, &mut value[..])
            .map(|len| String::from_utf8_lossy(&value[..len]).into_owned())
    };
    assert_eq!(get("user.a").as_deref(), Ok("value"));
    assert_eq!(get("user.wayfs.state").as_deref(), Ok("safe"));
    assert_eq!(get("security.capability"), Err(rustix::io::Errno::NODATA));
    let mut names = [0; 256];
    let len = rustix::fs::flistxattr(file.as_fd(), &mut names[..]).unwrap();
    assert_eq!(&names[..len], b"user.a\0");
    rustix::fs::fremovexattr(file.as_fd(), "user.a").unwrap();
    assert_eq!(rustix::fs::flistxattr(file.as_fd(), &mut names[..]), Ok(0));
}

/// Proves [S-lock-wait].
#[test]
fn a_wait_for_a_lock_ends_by_unlocking_or_by_a_signal() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    File::create(mount.path("f")).unwrap();
    sh(
        "exec 9<f; flock -x 9; ! flock -n f true; ! timeout 0.3 flock f true; (sleep 0.2; exec 9<&-) & exec 9<&-; flock f true",
        &mount.point,
    );
}

#[test]
fn space_is_allocated_punched_and_sought() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(mount.path("f")).unwrap();
    use rustix::fs::FallocateFlags as Flags;
    rustix::fs::fallocate(&file, Flags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    file.write_all_at(&[7; 8192], 0).unwrap();
    rustix::fs::fallocate(&file, Flags::PUNCH_HOLE | Flags::KEEP_SIZE, 4096, 4096).unwrap();
    let mut bytes = [1; 8192];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..4096].iter().all(|b| *b == 7) && bytes[4096..].iter().all(|b| *b == 0));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)), Ok(4096));
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(mount.path("f")).unwrap().len(), 1 << 20);
    let copied = sh(
        "cp f g; cmp f g; dd if=f of=g bs=4k conv=notrunc status=none; cmp f g; df . >/dev/null; sync -f .; echo same",
        &mount.point,
    );
    assert_eq!(copied, "same\n");
}

#[test]
fn set_id_bits_go_with_a_write_and_groups_are_inherited() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    sh(
        "mkdir d; chgrp 77 d; chmod 2775 d; touch d/f; mkdir d/e; test $(stat -c %g d/f) = 77; test $(stat -c %a d/e) = 2755
         chmod 6755 d/f; chown 5:5 d/f; test $(stat -c %a d/f) = 755",
        &mount.point,
    );
}

#[test]
fn what_a_mapping_writes_is_stored() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let script = r#"
import mmap, os, sys
size = int(sys.argv[1])
holder = open("m", "rb") if sys.argv[2] == "held" else None
if holder: holder.read(10)
f = open("m", "r+b")
m = mmap.mmap(f.fileno(), size)
m[size // 2 : size // 2 + 6] = b"mapped"
m.flush(); m.close(); f.close()
"#;
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        eprintln!("skipped: no python3 to map files with");
        return;
    }
    fs::write(mount.path("map.py"), script).unwrap();
    for (size, held) in [(8192_usize, "free"), (1 << 20, "free"), (1 << 20, "held")] {
        fs::write(mount.path("m"), vec![b'x'; size]).unwrap();
        sh(&format!("python3 map.py {size} {held}"), &mount.point);
        let read = fs::read(mount.path("m")).unwrap();
        assert_eq!(&read[size / 2..size / 2 + 6], b"mapped", "{size} {held}");
        let inode = crate::engine::Engine::inode(&*mount.toy, mount.toy.find("m")).unwrap();
        assert_eq!(inode.content.size(), size as u64);
        let stored = mount.toy.bytes_of("m");
        assert_eq!(&stored[size / 2..size / 2 + 6], b"mapped", "stored {size} {held}");
    }
}

/// A mapping holds the file and not the handle it was made through, and its later stores into a page leave no trace.
#[test]
fn what_a_mapping_stores_after_its_handle_was_closed_is_kept() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let script = r#"
import ctypes, os, sys
size, when = 1 << 20, sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
reader = os.open("m", os.O_RDONLY)
os.pread(reader, 10, 0)
writer = os.open("m", os.O_RDWR)
at = libc.mmap(None, size, 3, 1, writer, 0)
assert at != ctypes.c_void_p(-1).value
def store(offset, text): ctypes.memmove(at + offset, text, len(text))
if when != "late": store(5000, b"early!")
if when == "synced": os.fsync(writer)
os.close(writer)
if when == "beside": os.write(os.open("other", os.O_WRONLY | os.O_CREAT), b"x")
store(5000, b"mapped")
libc.munmap(at, size)
os.close(reader)
"#;
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        eprintln!("skipped: no python3 to map files with");
        return;
    }
    fs::write(mount.path("map.py"), script).unwrap();
    for when in ["late", "early", "synced", "beside"] {
        fs::write(mount.path("m"), vec![b'x'; 1 << 20]).unwrap();
        sh(&format!("python3 map.py {when}"), &mount.point);
        // The kernel lets go of the mapped file a moment after the program did; the mount looks once a second.
        eventually(|| {
            mount.fs.commit_aged();
            mount.fs.commit_all();
            &mount.toy.bytes_of("m")[5000..5006] == b"mapped"
        });
    }
}

/// Waits for what happens soon.
pub(super) fn eventually(mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Proves [S-unlinked].
#[test]
fn attributes_of_a_file_without_a_name_are_changed_as_those_of_any_other() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let mut file = File::options().read(true).write(true).create_new(true).open(mount.path("f")).unwrap();
    file.write_all(b"bytes").unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(7)), Some(rustix::fs::Gid::from_raw(8))).unwrap();
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(time).unwrap();
    rustix::fs::fsetxattr(&file, "user.a", b"value", rustix::fs::XattrFlags::CREATE).unwrap();
    let again = rustix::fs::fsetxattr(&file, "user.a", b"value", rustix::fs::XattrFlags::CREATE);
    assert_eq!(again, Err(rustix::io::Errno::EXIST));
    let seen = file.metadata().unwrap();
    assert_eq!((seen.mode() & 0o7777, seen.uid(), seen.gid(), seen.nlink()), (0o600, 7, 8, 0));
    assert_eq!((seen.modified().unwrap(), seen.len()), (time, 5));
    let mut value = [0; 16];
    assert_eq!(rustix::fs::fgetxattr(&file, "user.a", &mut value[..]), Ok(5));
    rustix::fs::fremovexattr(&file, "user.a").unwrap();
    assert_eq!(rustix::fs::fgetxattr(&file, "user.a", &mut value[..]), Err(rustix::io::Errno::NODATA));
}
