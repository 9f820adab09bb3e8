use super::harness::{create, join_station, run, start, ticket_text};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use wayfs_control::{Command, Done, TicketRole};
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
    let import = Command::VolumeImport { volume: "docs".into(), from: tree.clone(), into: PathBuf::from("in/here") };
    let Ok(Done::Copied(report)) = run(&home, import.clone()) else { panic!("no import") };
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(report.bytes, 3_100_005);
    let Ok(Done::Copied(_)) = run(&home, import) else { panic!("importing again replaces") };
    let out = dir.path().join("out");
    let export = |to: &Path| Command::VolumeExport { volume: "docs".into(), to: to.to_owned() };
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
    run(&home, Command::VolumeImport { volume: "docs".into(), from: tree, into: PathBuf::new() }).unwrap();
    let Ok(Done::Info(info)) = run(&home, Command::Info { volume: None, path: "a/b/large".into() }) else {
        panic!("no info")
    };
    assert_eq!((info.size_bytes, info.cached_bytes, info.kind.as_str()), (3_000_000, 3_000_000, "file"));
    assert!(run(&home, Command::Info { volume: None, path: "a/nothing".into() }).is_err());
    let sync = Command::Sync { volume: None, path: None, until: wayfs_control::Level::Stable, timeout_ms: Some(5000) };
    let Ok(Done::Sync(report)) = run(&home, sync) else { panic!("no sync") };
    assert!(report.reached, "{report:?}");
}
