use super::harness::{Deaf, create, join_station, run, start, ticket_text};
use crate::Server;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use wayfs_control::stream::Stream;
use wayfs_control::{Command, ControlError, CopyForm, Done, Privileges, TicketRole};
use wayfs_node::testing::{eventually, noise};

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("a/small"), b"small").unwrap();
    fs::write(root.join("a/middling"), noise(100_000, 1)).unwrap();
    fs::write(root.join("a/b/large"), noise(3_000_000, 2)).unwrap();
    fs::set_permissions(root.join("a/small"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(root.join("a/small"), root.join("linked")).unwrap();
    symlink("a/small", root.join("pointer")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(root.join("a/small")).unwrap().set_modified(old).unwrap();
}

fn assert_same(left: &Path, right: &Path) {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
        names.sort();
        names
    };
    assert_eq!(list(left), list(right));
    for name in list(left) {
        let (left, right) = (left.join(&name), right.join(&name));
        let (one, other) = (fs::symlink_metadata(&left).unwrap(), fs::symlink_metadata(&right).unwrap());
        assert_eq!(one.file_type(), other.file_type(), "{}", left.display());
        if one.is_dir() {
            assert_same(&left, &right);
        } else if one.is_symlink() {
            assert_eq!(fs::read_link(&left).unwrap(), fs::read_link(&right).unwrap());
        } else {
            assert!(fs::read(&left).unwrap() == fs::read(&right).unwrap(), "{}", left.display());
            assert_eq!(
                (one.mode(), one.mtime(), one.nlink()),
                (other.mode(), other.mtime(), other.nlink()),
                "{}",
                left.display()
            );
        }
    }
}

#[test]
fn what_is_imported_comes_out_again_at_home_and_at_a_station() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let import = Command::VolumeImport {
        volume: "docs".into(),
        from: tree.clone(),
        form: CopyForm::Directory,
        into: PathBuf::from("in/here"),
    };
    let Ok(Done::Copied(report)) = run(&home, import.clone()) else { panic!("no import") };
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(report.bytes, 3_100_005);
    let Ok(Done::Copied(_)) = run(&home, import) else { panic!("importing again replaces") };
    let out = dir.path().join("out");
    let export = |to: &Path| Command::VolumeExport {
        volume: "docs".into(),
        to: to.to_owned(),
        form: CopyForm::Directory,
        privileges: Privileges::Stripped,
    };
    let Ok(Done::Copied(report)) = run(&home, export(&out)) else { panic!("no export") };
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_same(&tree, &out.join("in/here"));
    assert!(run(&home, export(&out)).is_err(), "never over something");
    let station = start(&dir.path().join("station"));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    let far = dir.path().join("far");
    eventually("the station has heard of all", || {
        let _ = fs::remove_dir_all(&far);
        matches!(run(&station, export(&far)), Ok(Done::Copied(report)) if report.files >= 6)
    });
    assert_same(&tree, &far.join("in/here"));
}

#[test]
fn a_file_is_described_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    import(&home, tree);
    let Ok(Done::Info(info)) = run(&home, Command::Info { volume: None, path: "a/b/large".into() }) else {
        panic!("no info")
    };
    assert_eq!((info.size_bytes, info.cached_bytes, info.kind.as_str()), (3_000_000, 3_000_000, "file"));
    assert!(run(&home, Command::Info { volume: None, path: "a/nothing".into() }).is_err());
    let sync = Command::Sync { volume: None, path: None, until: wayfs_control::Level::Stable, timeout_ms: Some(5000) };
    let Ok(Done::Sync(report)) = run(&home, sync) else { panic!("no sync") };
    assert!(report.reached, "{report:?}");
}

fn import(server: &Server, from: PathBuf) {
    let command =
        Command::VolumeImport { volume: "docs".into(), from, form: CopyForm::Directory, into: PathBuf::new() };
    run(server, command).unwrap();
}

/// Exports as the tool does.
fn export_tar(server: &Server, to: &Path) -> Result<Done, ControlError> {
    export_tar_with(server, to, Privileges::Stripped)
}

fn export_tar_with(server: &Server, to: &Path, privileges: Privileges) -> Result<Done, ControlError> {
    let Stream { mut ours, theirs } = Stream::from_daemon().unwrap();
    let to = to.to_owned();
    let receiving = std::thread::spawn(move || std::io::copy(&mut ours, &mut fs::File::create(to).unwrap()).unwrap());
    let command = Command::VolumeExport { volume: "docs".into(), to: PathBuf::new(), form: CopyForm::Tar, privileges };
    let done = server.control().run(command, &mut Deaf::with(theirs));
    receiving.join().unwrap();
    done
}

fn import_tar(server: &Server, bytes: Vec<u8>) -> Result<Done, ControlError> {
    let Stream { mut ours, theirs } = Stream::to_daemon().unwrap();
    let sending = std::thread::spawn(move || {
        // A server that refuses the beginning does not read to the end.
        let _ = std::io::Write::write_all(&mut ours, &bytes);
    });
    let command = Command::VolumeImport {
        volume: "docs".into(),
        from: PathBuf::new(),
        form: CopyForm::Tar,
        into: PathBuf::new(),
    };
    let done = server.control().run(command, &mut Deaf::with(theirs));
    sending.join().unwrap();
    done
}

fn tar(arguments: &[&str]) {
    let ended = std::process::Command::new("tar").args(arguments).output().expect("GNU tar is installed");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// A tree with what only some formats know: attributes, holes, fractions of seconds, long and odd names.
fn make_odd_tree(root: &Path) {
    make_tree(root);
    let deep = root.join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("ünïcödé \n"), "odd").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 20 << 20).unwrap();
    sparse.set_len(40 << 20).unwrap();
    fs::File::create(root.join("hole")).unwrap().set_len(8 << 20).unwrap();
    symlink("x".repeat(300), root.join("far")).unwrap();
}

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks()
}

#[test]
fn archives_of_gnu_tar_go_in_and_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    make_odd_tree(&path("tree"));
    let has_xattrs =
        rustix::fs::setxattr(path("tree/a/small"), "user.colour", b"red\0", rustix::fs::XattrFlags::empty());
    let home = start(&path("home"));
    create(&home, "docs");
    tar(&["--format=posix", "--sparse", "--xattrs", "-cf", &text("in.tar"), "-C", &text("tree"), "."]);
    let imported = import_tar(&home, fs::read(path("in.tar")).unwrap());
    let Ok(Done::Copied(report)) = imported else { panic!("no import: {imported:?}") };
    assert!(report.skipped.is_empty(), "{report:?}");
    let exported = export_tar(&home, &path("out.tar"));
    let Ok(Done::Copied(report)) = exported else { panic!("no export: {exported:?}") };
    assert!(report.skipped.is_empty(), "{report:?}");
    assert!(fs::metadata(path("out.tar")).unwrap().len() < 10 << 20, "holes are not written out");
    fs::create_dir(path("back")).unwrap();
    tar(&["--xattrs", "-xpf", &text("out.tar"), "-C", &text("back")]);
    assert_same(&path("tree"), &path("back"));
    // The same through a directory, where holes and attributes are kept, too.
    let to = path("directory");
    run(
        &home,
        Command::VolumeExport {
            volume: "docs".into(),
            to,
            form: CopyForm::Directory,
            privileges: Privileges::Stripped,
        },
    )
    .unwrap();
    assert_same(&path("tree"), &path("directory"));
    for name in ["back", "directory"] {
        assert!(blocks(&path(name).join("sparse")) < 8192 && blocks(&path(name).join("hole")) < 64, "{name}");
        if has_xattrs.is_ok() {
            let mut value = [0; 16];
            let len = rustix::fs::getxattr(path(name).join("a/small"), "user.colour", &mut value).unwrap();
            assert_eq!(&value[..len], b"red\0", "{name}");
        }
    }
    // Once more over what is there, by the archive that came out: nothing is doubled.
    let again = import_tar(&home, fs::read(path("out.tar")).unwrap());
    assert!(matches!(&again, Ok(Done::Copied(report)) if report.skipped.is_empty()), "{again:?}");
    export_tar(&home, &path("out2.tar")).unwrap();
    assert_eq!(fs::metadata(path("out.tar")).unwrap().len(), fs::metadata(path("out2.tar")).unwrap().len());
}

#[test]
fn bad_archives_are_refused_or_told_how_far_they_came() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let archive = dir.path().join("a.tar");
    tar(&["-cf", archive.to_str().unwrap(), "-C", tree.to_str().unwrap(), "empty", "a/middling", "linked"]);
    let whole = fs::read(&archive).unwrap();
    let mut scratched = whole.clone();
    scratched[512 + 148] ^= 0x55;
    for (what, bytes, files) in [
        ("nothing", Vec::new(), None),
        ("compressed", b"\x1f\x8b\x08rest".to_vec(), None),
        ("no archive", noise(5000, 9), Some("0 files")),
        ("a damaged header", scratched, Some("1 files")),
        ("cut in a file", whole[..50_000].to_vec(), Some("1 files")),
    ] {
        let refused = import_tar(&home, bytes);
        let Err(error) = refused else { panic!("{what} was taken: {refused:?}") };
        assert!(files.is_none_or(|files| error.message.contains(files)), "{what}: {error:?}");
    }
    let out = dir.path().join("out");
    run(
        &home,
        Command::VolumeExport {
            volume: "docs".into(),
            to: out.clone(),
            form: CopyForm::Directory,
            privileges: Privileges::Stripped,
        },
    )
    .unwrap();
    let names: Vec<_> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "empty" || name == "a"), "{names:?}");
}

/// What any member can put onto a file must not give rights on the machine where an administrator exports: set-id bits stay off, in
/// a directory and in an archive, unless asked for.
#[test]
fn an_export_keeps_no_set_id_bits_and_security_attributes_unless_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let tree = path("tree");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join("tool"), b"#!/bin/sh").unwrap();
    fs::set_permissions(tree.join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    let attribute = b"trusted.overlay.opaque";
    let is_set = rustix::fs::setxattr(tree.join("tool"), &attribute[..], b"y", rustix::fs::XattrFlags::empty()).is_ok();
    let home = start(&path("home"));
    create(&home, "docs");
    import(&home, tree);
    let out = |name: &str, privileges: Privileges| {
        let to = path(name);
        let export = Command::VolumeExport { volume: "docs".into(), to, form: CopyForm::Directory, privileges };
        let Ok(Done::Copied(report)) = run(&home, export) else { panic!("no export") };
        let tool = path(name).join("tool");
        let mode = fs::metadata(&tool).unwrap().mode() & 0o7777;
        let has = rustix::fs::getxattr(&tool, &attribute[..], &mut [0; 8][..]).is_ok();
        (mode, has, report.skipped.len())
    };
    assert_eq!(out("plain", Privileges::Stripped), (0o755, false, 1));
    assert_eq!(out("kept", Privileges::Kept), (0o6755, is_set, 0));
    for (privileges, mode) in [(Privileges::Stripped, 0o755), (Privileges::Kept, 0o6755)] {
        export_tar_with(&home, &path("a.tar"), privileges).unwrap();
        let bytes = fs::read(path("a.tar")).unwrap();
        let header = bytes.chunks(512).find(|block| block.starts_with(b"tool\0")).unwrap();
        let text = std::str::from_utf8(&header[100..107]).unwrap();
        assert_eq!(u32::from_str_radix(text.trim_matches(['\0', ' ']), 8).unwrap(), mode);
        let names = bytes.windows(attribute.len()).any(|window| window == attribute);
        assert_eq!(names, is_set && privileges == Privileges::Kept);
    }
}

/// A stream is a descriptor that comes with the command: anything else is refused, and no path is opened.
#[test]
fn an_archive_goes_through_a_pipe_that_came_with_the_command_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let victim = dir.path().join("victim");
    fs::write(&victim, b"mine").unwrap();
    let export = || Command::VolumeExport {
        volume: "docs".into(),
        to: victim.clone(),
        form: CopyForm::Tar,
        privileges: Privileges::Stripped,
    };
    assert!(run(&home, export()).is_err());
    let file = fs::File::options().write(true).open(&victim).unwrap();
    assert!(home.control().run(export(), &mut Deaf::with(file.into())).is_err(), "a file is no pipe");
    let wrong_end = Stream::to_daemon().unwrap().theirs;
    assert!(home.control().run(export(), &mut Deaf::with(wrong_end)).is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}
