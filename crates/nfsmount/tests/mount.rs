//! What programs see on a mount of a server in memory.

mod common;

use common::{Host, Mounted, may_mount, within};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use wayfs_fuse::UmountMode;
use wayfs_nfs::Kind;

/// Over both transports.
fn each(test: impl Fn(&Host, &Mounted)) {
    if !may_mount() {
        return;
    }
    for proto in ["udp", "tcp"] {
        let host = Host::start();
        let mounted = Mounted::new(&host, &format!("proto={proto}"));
        test(&host, &mounted);
        let ended = mounted.end(UmountMode::Orderly);
        assert_eq!((ended.lost_bytes, ended.failure), (0, None), "over {proto}");
    }
}

#[test]
fn files_directories_and_links_are_those_of_the_server() {
    each(|host, mounted| {
        fs::write(mounted.at("file"), b"hello").unwrap();
        assert_eq!(host.toy().durable("file").unwrap(), b"hello", "closing makes it durable");
        fs::create_dir(mounted.at("d")).unwrap();
        fs::rename(mounted.at("file"), mounted.at("d/moved")).unwrap();
        symlink("d/moved", mounted.at("soft")).unwrap();
        fs::hard_link(mounted.at("d/moved"), mounted.at("hard")).unwrap();
        assert_eq!(fs::read(mounted.at("soft")).unwrap(), b"hello");
        assert_eq!(fs::metadata(mounted.at("hard")).unwrap().nlink(), 2);
        assert_eq!(fs::read_link(mounted.at("soft")).unwrap().to_str(), Some("d/moved"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            mounted.at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o640),
            0,
        )
        .unwrap();
        assert!(fs::metadata(mounted.at("pipe")).unwrap().file_type().is_fifo());
        let mut names: Vec<String> = fs::read_dir(mounted.at(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["d", "hard", "pipe", "soft"]);
        assert_eq!(fs::remove_dir(mounted.at("d")).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        fs::remove_file(mounted.at("d/moved")).unwrap();
        fs::remove_dir(mounted.at("d")).unwrap();
        assert_eq!(fs::read(mounted.at("d/moved")).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    });
}

#[test]
fn attributes_and_sizes_are_set() {
    each(|host, mounted| {
        let path = mounted.at("file");
        fs::write(&path, [7; 10_000]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(5).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000)).unwrap();
        let seen = fs::metadata(&path).unwrap();
        assert_eq!((seen.mode() & 0o7777, seen.len(), seen.mtime()), (0o604, 5, 1_000_000));
        file.set_len(8).unwrap();
        assert_eq!(host.toy().contents("file").unwrap(), [7, 7, 7, 7, 7, 0, 0, 0]);
        // Appending and writing in the middle.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"end").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 11);
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"X", 1).unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"\x07X\x07\x07\x07\0\0\0end");
    });
}

/// Proves [S-nfs-limits].
#[test]
fn what_version_3_has_no_procedure_for_is_refused_and_locks_hold_here() {
    use rustix::fs::{CWD, FallocateFlags, FlockOperation, OFlags, RenameFlags, XattrFlags};
    use rustix::io::Errno;
    each(|_, mounted| {
        let path = mounted.at("file");
        fs::write(&path, b"text").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(rustix::fs::setxattr(&path, "user.a", b"1", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
        assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 100), Err(Errno::OPNOTSUPP));
        let nameless = OFlags::TMPFILE | OFlags::RDWR;
        let made = rustix::fs::open(mounted.at(""), nameless, rustix::fs::Mode::RUSR);
        assert_eq!(made.err(), Some(Errno::OPNOTSUPP));
        for flags in [RenameFlags::NOREPLACE, RenameFlags::EXCHANGE] {
            fs::write(mounted.at("other"), b"other").unwrap();
            let to = if flags == RenameFlags::EXCHANGE { "other" } else { "free" };
            assert_eq!(rustix::fs::renameat_with(CWD, &path, CWD, mounted.at(to), flags), Err(Errno::INVAL));
        }
        let early = std::time::UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert_eq!(file.set_modified(early).unwrap_err().raw_os_error(), Some(libc::EOVERFLOW));
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let beside = File::open(&path).unwrap();
        let refused = rustix::fs::flock(&beside, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(refused, Err(Errno::WOULDBLOCK));
    });
}

#[test]
fn large_files_go_in_blocks_with_several_calls_in_flight() {
    each(|host, mounted| {
        let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(5_000_000).collect();
        fs::write(mounted.at("large"), &bytes).unwrap();
        assert!(host.toy().durable("large").unwrap() == bytes);
        let mut read = Vec::new();
        File::open(mounted.at("large")).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        let toy = host.toy();
        assert!(toy.done[&Kind::Read] > 50 && toy.done[&Kind::Write] > 50, "{:?}", toy.done);
    });
}

#[test]
fn exclusive_creation_succeeds_once() {
    each(|host, mounted| {
        let make = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(mounted.at("lock"));
        make().unwrap().write_all(b"mine").unwrap();
        assert_eq!(make().unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert_eq!(fs::metadata(mounted.at("lock")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(host.toy().contents("lock").unwrap(), b"mine");
    });
}

/// [S-nfs-open]
#[test]
fn opening_shows_what_others_closed_before() {
    each(|host, mounted| {
        host.toy().put("shared", b"first");
        assert_eq!(fs::read(mounted.at("shared")).unwrap(), b"first");
        host.toy().put("shared", b"other");
        assert_eq!(fs::read(mounted.at("shared")).unwrap(), b"other");
        // Another file under the same name.
        host.toy().take_away("shared");
        host.toy().put("shared", b"a new file");
        assert_eq!(fs::read(mounted.at("shared")).unwrap(), b"a new file");
        host.toy().take_away("shared");
        assert_eq!(fs::read(mounted.at("shared")).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    });
}

/// [S-nfs-removed]
#[test]
fn a_file_that_is_removed_while_it_is_open_stays_until_it_is_closed() {
    each(|host, mounted| {
        fs::write(mounted.at("open"), b"still here").unwrap();
        let mut file = OpenOptions::new().read(true).write(true).open(mounted.at("open")).unwrap();
        fs::remove_file(mounted.at("open")).unwrap();
        assert!(!mounted.at("open").exists());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"again").unwrap();
        assert!(host.toy().names("").iter().all(|name| name.starts_with(".nfs")));
        drop(file);
        within("the name that it waited under is gone", || host.toy().names("").is_empty());
        // The same for a file that is replaced.
        fs::write(mounted.at("old"), b"old").unwrap();
        fs::write(mounted.at("new"), b"new").unwrap();
        let file = File::open(mounted.at("old")).unwrap();
        fs::rename(mounted.at("new"), mounted.at("old")).unwrap();
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes, fs::read(mounted.at("old")).unwrap()), (b"old", b"new".to_vec()));
        drop(file);
        within("only the new one is left", || host.toy().names("") == ["old"]);
    });
}

/// [S-nfs-close]
#[test]
fn a_server_that_restarts_gets_again_what_it_had_not_committed() {
    each(|host, mounted| {
        let bytes = vec![9; 1_000_000];
        let mut file = File::create(mounted.at("file")).unwrap();
        file.write_all(&bytes).unwrap();
        within("it is written", || host.toy().contents("file").is_some_and(|now| now.len() > 500_000));
        host.toy().restart();
        assert!(host.toy().contents("file").unwrap().len() < bytes.len(), "the server forgot");
        file.sync_all().unwrap();
        assert!(host.toy().durable("file").unwrap() == bytes);
    });
}

#[test]
fn a_server_that_calls_files_by_other_handles_is_understood() {
    each(|host, mounted| {
        fs::create_dir(mounted.at("d")).unwrap();
        fs::write(mounted.at("d/file"), b"one").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(mounted.at("d/file")).unwrap();
        host.toy().handle_generation += 1;
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        host.toy().handle_generation += 1;
        file.write_all_at(b"two", 0).unwrap();
        file.sync_all().unwrap();
        assert_eq!(host.toy().durable("d/file").unwrap(), b"two");
    });
}

/// [S-nfs-close]
#[test]
fn what_is_written_to_a_file_that_is_gone_is_told_of() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    let mounted = Mounted::new(&host, "");
    fs::write(mounted.at("file"), b"one").unwrap();
    let file = OpenOptions::new().write(true).open(mounted.at("file")).unwrap();
    host.toy().take_away("file");
    file.write_all_at(b"three", 0).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::ESTALE));
    assert_eq!(file.sync_all().ok(), Some(()), "it is told once");
    drop(file);
    assert_eq!(mounted.end(UmountMode::Orderly).lost_bytes, 5);
}

/// [S-nfs-close]
#[test]
fn a_full_server_is_told_of_at_close_and_loses_nothing_else() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    let mounted = Mounted::new(&host, "");
    fs::write(mounted.at("before"), b"kept").unwrap();
    host.toy().room = 1000;
    let file = File::create(mounted.at("big")).unwrap();
    // The first who asks is told: the write itself, if the server's answer to its beginning is there by then.
    let told = file.write_all_at(&[1; 100_000], 0).and_then(|()| file.sync_all());
    assert_eq!(told.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    host.toy().room = u64::MAX;
    fs::write(mounted.at("after"), b"kept").unwrap();
    assert_eq!(host.toy().durable("before").unwrap(), b"kept");
    assert_eq!(host.toy().durable("after").unwrap(), b"kept");
    drop(file);
    assert!(mounted.end(UmountMode::Orderly).lost_bytes > 0, "what was refused is told of at the end, too");
}

#[test]
fn a_server_that_asks_for_patience_is_asked_again() {
    each(|host, mounted| {
        host.toy().put("tape", b"slow");
        host.toy().jukebox = 1;
        assert_eq!(fs::read(mounted.at("tape")).unwrap(), b"slow");
        let mut file = File::create(mounted.at("out")).unwrap();
        file.write_all(b"text").unwrap();
        host.toy().jukebox = 1;
        file.sync_all().unwrap();
        assert_eq!(host.toy().durable("out").unwrap(), b"text");
    });
}
