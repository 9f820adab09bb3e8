//! Writes past the daemon on real mounts: each case beside what programs see of it, and what is stored.

use super::mount_tests::{Mounted, eventually, mounted, mounted_over, noise, sh};
use crate::fs::Close;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, SystemTime};
use wayfs_fuse::Config;

/// A mount that lets programs write past the daemon.
fn stage() -> Option<Mounted> {
    let mount = mounted(Close::Asynchronous)?;
    let probe = File::create(mount.path("probe")).unwrap();
    let is_by_passthrough = mount.is_written_by_passthrough("probe");
    drop(probe);
    fs::remove_file(mount.path("probe")).unwrap();
    if !is_by_passthrough {
        eprintln!("skipped: the kernel does not let this process hand over files");
        return None;
    }
    Some(mount)
}

/// Waits until what was closed is stored, and compares.
fn stored(mount: &Mounted, name: &str, bytes: &[u8]) {
    eventually(|| mount.fs.files().dirty().is_empty());
    assert!(mount.toy.bytes_of(name) == bytes, "{name} is stored otherwise");
    assert!(fs::read(mount.path(name)).unwrap() == bytes, "{name} is read otherwise");
}

/// Proves [S-posix]: who looks while another writes.
#[test]
fn what_is_being_written_is_seen_by_others() {
    let Some(mount) = stage() else { return };
    let bytes = noise(3 << 20);
    let mut writer = File::create(mount.path("f")).unwrap();
    let before = SystemTime::now() - Duration::from_secs(5);
    for (number, piece) in bytes.chunks(1 << 20).enumerate() {
        writer.write_all(piece).unwrap();
        let metadata = fs::metadata(mount.path("f")).unwrap();
        assert_eq!(metadata.len(), ((number + 1) << 20) as u64);
        assert!(metadata.modified().unwrap() > before);
        let mut reader = File::open(mount.path("f")).unwrap();
        reader.seek(SeekFrom::Start((number << 20) as u64)).unwrap();
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();
        assert!(seen == piece, "a reader follows");
    }
    assert!(mount.is_written_by_passthrough("f"));
    assert_eq!(mount.toy.stores(), 0);
    drop(writer);
    stored(&mount, "f", &bytes);
    assert_eq!(mount.toy.stores(), 1);
    // Written anew it is one store again, and so is a file that got shorter.
    for len in [2 << 20, 5000] {
        fs::write(mount.path("f"), &bytes[..len]).unwrap();
        assert_eq!(fs::metadata(mount.path("f")).unwrap().len(), len as u64);
        stored(&mount, "f", &bytes[..len]);
    }
    assert_eq!(mount.toy.stores(), 3);
}

#[test]
fn sizes_holes_and_times_are_changed_through_the_writing_handle() {
    let Some(mount) = stage() else { return };
    use rustix::fs::FallocateFlags as Flags;
    let mut bytes = noise(1 << 20);
    let file = File::create(mount.path("f")).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(600_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 600_000);
    rustix::fs::fallocate(&file, Flags::empty(), 0, 800_000).unwrap();
    rustix::fs::fallocate(&file, Flags::PUNCH_HOLE | Flags::KEEP_SIZE, 8192, 8192).unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)), Ok(8192));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(8192)), Ok(16_384));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)), Ok(800_000));
    file.write_all_at(b"last", 900_000).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.set_modified(time).unwrap();
    assert_eq!(file.metadata().unwrap().mtime(), 1_000_000);
    assert!(mount.is_written_by_passthrough("f"));
    drop(file);
    bytes.truncate(600_000);
    bytes[8192..16_384].fill(0);
    bytes.resize(900_000, 0);
    bytes.extend_from_slice(b"last");
    stored(&mount, "f", &bytes);
    assert_eq!(fs::metadata(mount.path("f")).unwrap().mtime(), 1_000_000);
}

#[test]
fn others_append_cut_and_map_beside_the_writer() {
    let Some(mount) = stage() else { return };
    let mut bytes = noise(500_000);
    let writer = File::create(mount.path("f")).unwrap();
    writer.write_all_at(&bytes, 0).unwrap();
    let mut appender = OpenOptions::new().append(true).open(mount.path("f")).unwrap();
    appender.write_all(b"appended").unwrap();
    bytes.extend_from_slice(b"appended");
    sh("truncate -s 400000 f; echo tail >> f; tail -c 5 f | grep -q tail", &mount.point);
    bytes.truncate(400_000);
    bytes.extend_from_slice(b"tail\n");
    writer.write_all_at(b"beginning", 0).unwrap();
    bytes[..9].copy_from_slice(b"beginning");
    appender.write_all(b"again").unwrap();
    bytes.extend_from_slice(b"again");
    assert_eq!(writer.metadata().unwrap().len(), bytes.len() as u64);
    assert!(fs::read(mount.path("f")).unwrap() == bytes);
    drop((writer, appender));
    stored(&mount, "f", &bytes);
}

#[test]
fn a_second_open_that_empties_writes_into_the_same_file() {
    let Some(mount) = stage() else { return };
    let first = File::create(mount.path("f")).unwrap();
    first.write_all_at(&noise(1 << 20), 0).unwrap();
    let reader = File::open(mount.path("f")).unwrap();
    let second = File::create(mount.path("f")).unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 0);
    second.write_all_at(b"second", 0).unwrap();
    first.write_all_at(b" first", 6).unwrap();
    let mut seen = [0; 12];
    reader.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(&seen, b"second first");
    drop((first, second));
    stored(&mount, "f", b"second first");
}

/// Proves [S-unlinked].
#[test]
fn files_without_a_name_are_written_on() {
    let Some(mount) = stage() else { return };
    let bytes = noise(1 << 20);
    let writer = File::create(mount.path("a")).unwrap();
    writer.write_all_at(&bytes, 0).unwrap();
    let reader = File::open(mount.path("a")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    writer.write_all_at(b"after", 1 << 20).unwrap();
    let metadata = writer.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.nlink()), ((1 << 20) + 5, 0));
    let mut seen = [0; 5];
    reader.read_exact_at(&mut seen, 1 << 20).unwrap();
    assert_eq!(&seen, b"after");
    drop((writer, reader));
    fs::write(mount.path("new"), b"new").unwrap();
    let stores = mount.toy.stores();
    let writer = File::create(mount.path("old")).unwrap();
    writer.write_all_at(&bytes, 0).unwrap();
    fs::rename(mount.path("new"), mount.path("old")).unwrap();
    writer.write_all_at(&bytes, 1 << 20).unwrap();
    assert_eq!(writer.metadata().unwrap().nlink(), 0);
    drop(writer);
    eventually(|| mount.fs.files().dirty().is_empty());
    assert_eq!((mount.toy.stores(), fs::read(mount.path("old")).unwrap()), (stores, b"new".to_vec()));
}

/// Proves [S-fsync].
#[test]
fn a_sync_in_the_middle_stores_so_far_and_the_next_of_its_kind_comes_by_request() {
    let Some(mount) = stage() else { return };
    let bytes = noise(2 << 20);
    let writer = File::create(mount.path("part-1")).unwrap();
    writer.write_all_at(&bytes[..1 << 20], 0).unwrap();
    writer.sync_all().unwrap();
    assert!(mount.toy.bytes_of("part-1") == bytes[..1 << 20]);
    writer.write_all_at(&bytes[1 << 20..], 1 << 20).unwrap();
    writer.sync_data().unwrap();
    assert!(mount.toy.bytes_of("part-1") == bytes);
    drop(writer);
    stored(&mount, "part-1", &bytes);
    let next = File::create(mount.path("part-2")).unwrap();
    assert!(!mount.is_written_by_passthrough("part-2"), "another sync would hash everything again");
    next.write_all_at(&bytes, 0).unwrap();
    drop(next);
    stored(&mount, "part-2", &bytes);
    // A handle that only reads answers for what was closed.
    let mut file = File::create(mount.path("other")).unwrap();
    file.write_all(&bytes).unwrap();
    drop(file);
    File::open(mount.path("other")).unwrap().sync_all().unwrap();
    assert!(mount.toy.bytes_of("other") == bytes);
}

#[test]
fn programs_that_ask_for_more_write_by_request() {
    let Some(mount) = stage() else { return };
    let open = |name: &str, flags: i32| {
        let opened =
            OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(mount.path(name));
        (opened.unwrap(), mount.is_written_by_passthrough(name))
    };
    assert!(open("plain", 0).1);
    for (name, flags) in [("sync", libc::O_SYNC), ("dsync", libc::O_DSYNC), ("direct", libc::O_DIRECT)] {
        assert!(!open(name, flags).1, "{name}");
    }
    let both = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(mount.path("both")).unwrap();
    let appends = OpenOptions::new().append(true).create(true).open(mount.path("appends")).unwrap();
    assert!(!mount.is_written_by_passthrough("both") && !mount.is_written_by_passthrough("appends"));
    drop((both, appends));
    // The kernel tells of the end of a handle after the close has returned, and small ones are learnt from that.
    let small = |number: usize| fs::write(mount.path(&format!("{number}.small")), b"small").unwrap();
    let mut made = 0;
    eventually(|| {
        small(made);
        made += 1;
        let _next = File::create(mount.path("next.small")).unwrap();
        !mount.is_written_by_passthrough("next.small")
    });
    let edited = noise(300_000);
    fs::write(mount.path("edited"), &edited).unwrap();
    stored(&mount, "edited", &edited);
    let edit = OpenOptions::new().write(true).open(mount.path("edited")).unwrap();
    assert!(!mount.is_written_by_passthrough("edited"), "closing an edit costs the edit");
    drop(edit);
}

/// Proves [S-close-large]: what gets a name is whole.
#[test]
fn a_file_that_was_closed_is_stored_before_it_is_renamed_or_linked() {
    let Some(mount) = stage() else { return };
    let bytes = noise(6 << 20);
    for round in 0..5 {
        fs::write(mount.path("fresh"), &bytes[round..]).unwrap();
        fs::rename(mount.path("fresh"), mount.path("final")).unwrap();
        assert!(mount.toy.bytes_of("final") == bytes[round..], "renamed before it was stored");
    }
    fs::write(mount.path("fresh"), &bytes).unwrap();
    fs::hard_link(mount.path("fresh"), mount.path("linked")).unwrap();
    assert!(mount.toy.bytes_of("linked") == bytes);
    fs::create_dir(mount.path("d")).unwrap();
    fs::write(mount.path("d/inside"), &bytes).unwrap();
    fs::rename(mount.path("d"), mount.path("e")).unwrap();
    assert!(mount.fs.files().dirty().is_empty());
    let copied =
        sh("cp -p e/inside copy; cmp copy linked; touch -r copy mark; test ! copy -nt mark; echo same", &mount.point);
    assert_eq!(copied, "same\n");
}

#[test]
fn a_handle_that_several_programs_share_is_one_file() {
    let Some(mount) = stage() else { return };
    sh(
        "(head -c 300000 /dev/zero; echo one; sh -c 'head -c 300000 /dev/zero'; echo two) > f; test $(stat -c %s f) = 600008",
        &mount.point,
    );
    let mut bytes = vec![0; 300_000];
    bytes.extend_from_slice(b"one\n");
    bytes.resize(600_004, 0);
    bytes.extend_from_slice(b"two\n");
    stored(&mount, "f", &bytes);
    // Closed once, still open in a child: committed before long.
    let mut child = std::process::Command::new("sleep");
    let writer = File::create(mount.path("g")).unwrap();
    let mut held = child.arg("20").stdout(writer.try_clone().unwrap()).spawn().unwrap();
    writer.write_all_at(&bytes, 0).unwrap();
    drop(child);
    drop(writer);
    eventually(|| {
        mount.fs.commit_aged();
        mount.toy.bytes_of("g") == bytes
    });
    held.kill().unwrap();
    held.wait().unwrap();
    stored(&mount, "g", &bytes);
}

#[test]
fn what_a_mapping_beside_the_writer_stores_is_kept() {
    let Some(mount) = stage() else { return };
    let script = "
import mmap, os
w = os.open('f', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(w, b'x' * (1 << 20))
b = os.open('f', os.O_RDWR)
m = mmap.mmap(b, 1 << 20)
m[5000:5006] = b'mapped'
os.close(b)
os.pwrite(w, b'end', (1 << 20) - 3)
os.close(w)
m[5000:5006] = b'MAPPED'
m.close()
";
    fs::write(mount.path("map.py"), script).unwrap();
    sh("command -v python3 || exit 0; python3 map.py", &mount.point);
    if !mount.path("f").exists() {
        eprintln!("skipped: no python3 to map files with");
        return;
    }
    let mut bytes = vec![b'x'; 1 << 20];
    bytes[5000..5006].copy_from_slice(b"MAPPED");
    let end = bytes.len() - 3;
    bytes[end..].copy_from_slice(b"end");
    eventually(|| {
        mount.fs.commit_aged();
        mount.fs.commit_all();
        mount.toy.bytes_of("f") == bytes
    });
}

#[test]
fn without_passthrough_everything_comes_by_request() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("files");
    let mut wishes = Config::default();
    wishes.passthrough = false;
    let Some(mount) = mounted_over(Close::Asynchronous, directory, &files, &wishes) else { return };
    let bytes = noise(3 << 20);
    let mut writer = File::create(mount.path("f")).unwrap();
    writer.write_all(&bytes).unwrap();
    assert!(!mount.is_written_by_passthrough("f"));
    drop(writer);
    stored(&mount, "f", &bytes);
    fs::rename(mount.path("f"), mount.path("g")).unwrap();
    assert!(mount.toy.bytes_of("g") == bytes);
}

/// Proves [S-full-disk].
#[test]
fn a_disk_that_runs_full_under_a_writer_says_so_and_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = rustix::mount::mount("tmpfs", &disk, "tmpfs", rustix::mount::MountFlags::empty(), c"size=8m");
    if let Err(error) = mounted {
        eprintln!("skipped: no tmpfs can be mounted here: {error}");
        return;
    }
    let taken_down = TakeDown(disk.clone());
    let Some(mount) = mounted_over(Close::Asynchronous, directory, &disk.join("files"), &Config::default()) else {
        return;
    };
    let bytes = noise(2 << 20);
    fs::write(mount.path("before.x"), &bytes).unwrap();
    let mut writer = File::create(mount.path("large.x")).unwrap();
    let refused = (0..10).find_map(|_| writer.write_all(&bytes).err());
    assert_eq!(refused.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
    fs::remove_file(mount.path("large.x")).unwrap();
    drop(writer);
    eventually(|| mount.fs.files().dirty().is_empty());
    // The room is free when the kernel has told of the end of the removed file's last handle.
    eventually(|| fs::write(mount.path("after.x"), &bytes).is_ok());
    stored(&mount, "before.x", &bytes);
    stored(&mount, "after.x", &bytes);
    // Detached first, so that the directory can go with the mount.
    drop(taken_down);
    drop(mount);
}

/// Unmounts a disk.
struct TakeDown(std::path::PathBuf);

impl Drop for TakeDown {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
