use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

use crate::stage::{Plan, stage};

#[test]
fn what_is_written_is_read() {
    let Some(stage) = stage(Plan::default()) else { return };
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(stage.at("file"), &data).unwrap();
    assert_eq!(fs::read(stage.at("file")).unwrap(), data);
    assert_eq!(fs::read(stage.on_host("file")).unwrap(), data);
    assert_eq!(fs::metadata(stage.at("file")).unwrap().len(), 3_000_000);
    stage.finish();
}

#[test]
fn writes_land_where_they_are_aimed() {
    let Some(stage) = stage(Plan::default()) else { return };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(stage.at("file")).unwrap();
    file.write_all_at(b"world", 6).unwrap();
    file.write_all_at(b"hello ", 0).unwrap();
    let mut append = OpenOptions::new().append(true).open(stage.at("file")).unwrap();
    append.write_all(b"!").unwrap();
    let mut text = [0; 12];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"hello world!");
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    drop((file, append));
    stage.finish();
}

#[test]
fn truncation_by_path_by_handle_and_by_open() {
    let Some(stage) = stage(Plan::default()) else { return };
    let path = stage.at("file");
    fs::write(&path, [1; 10_000]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.set_len(5_000).unwrap();
    assert_eq!(fs::metadata(stage.on_host("file")).unwrap().len(), 5_000);
    rustix::fs::ftruncate(&file, 20_000).unwrap();
    let mut tail = [9; 4];
    file.read_exact_at(&mut tail, 19_996).unwrap();
    assert_eq!(tail, [0; 4]);
    drop(file);
    drop(File::create(&path).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    stage.finish();
}

#[test]
fn a_removed_file_lives_until_closed() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), b"still here").unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(stage.at("file")).unwrap();
    fs::remove_file(stage.at("file")).unwrap();
    assert!(!stage.at("file").exists());
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"!").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here!");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    stage.finish();
}

#[test]
fn a_temporary_file_can_be_given_a_name() {
    let Some(stage) = stage(Plan::default()) else { return };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(stage.point()).unwrap();
    file.write_all_at(b"anonymous", 0).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(rustix::fs::CWD, path, rustix::fs::CWD, stage.at("named"), follow).unwrap();
    drop(file);
    assert_eq!(fs::read(stage.at("named")).unwrap(), b"anonymous");
    stage.finish();
}

#[test]
fn set_id_bits_go_when_another_writes() {
    let Some(stage) = stage(Plan::default()) else { return };
    let path = stage.at("tool");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6777);
    // A child without privileges writes to it.
    let script = format!("printf y >> '{}'", path.display());
    let status = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &script])
        .status();
    let Ok(status) = status else {
        eprintln!("skipped the rest: no setpriv");
        return stage.finish();
    };
    // The temporary directories are closed to others, which is a fine reason not to get there.
    if status.success() {
        assert_eq!(fs::metadata(stage.on_host("tool")).unwrap().mode() & 0o6000, 0);
    }
    stage.finish();
}

#[test]
fn holes_reservations_and_copies() {
    let Some(stage) = stage(Plan::default()) else { return };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(stage.at("file")).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8192).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8192);
    rustix::fs::ftruncate(&file, 0).unwrap();
    file.write_all_at(b"data", 1 << 20).unwrap();
    file.sync_all().unwrap();
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert!(data <= 1 << 20);
    let past = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(5 << 20));
    assert_eq!(past, Err(rustix::io::Errno::NXIO));

    let copy = File::create(stage.at("copy")).unwrap();
    let (mut from, mut to) = (1 << 20, 0);
    let copied = rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 4).unwrap();
    assert_eq!(copied, 4);
    drop((file, copy));
    assert_eq!(fs::read(stage.at("copy")).unwrap(), b"data");
    stage.finish();
}

#[test]
fn many_threads_each_keep_their_bytes() {
    let Some(stage) = stage(Plan::default()) else { return };
    std::thread::scope(|scope| {
        for worker in 0..4_u8 {
            let stage = &stage;
            scope.spawn(move || {
                for round in 0..50 {
                    let path = stage.at(&format!("w{worker}-{round}"));
                    fs::write(&path, vec![worker; 5000]).unwrap();
                    assert_eq!(fs::read(&path).unwrap(), vec![worker; 5000]);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(stage.point()).unwrap().count(), 200);
    stage.finish();
}

#[test]
fn mapped_files_work() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), vec![5; 10_000]).unwrap();
    // A program is run by mapping it.
    let copied = fs::copy("/bin/true", stage.at("true"));
    copied.unwrap();
    fs::set_permissions(stage.at("true"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(std::process::Command::new(stage.at("true")).status().unwrap().success());
    stage.finish();
}
