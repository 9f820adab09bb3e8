//! Two names that change places (`renameat2` with `RENAME_EXCHANGE`), on real mounts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use wayfs_system_tests::{Far, World, within};

/// Longest time for a test on a busy machine.
const BUSY: Duration = Duration::from_secs(180);

fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// What stands under a name: the text of a file, the names in a directory.
fn shown(path: &Path) -> String {
    match fs::read_dir(path) {
        Ok(entries) => {
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            format!("[{}]", names.join(" "))
        }
        Err(_) => fs::read_to_string(path).unwrap(),
    }
}

/// Proves [S-exchange].
#[test]
fn two_names_change_places_whatever_they_name() {
    within("exchange names", BUSY, || {
        let world = World::default();
        let d = world.directory("d");
        fs::create_dir_all(d.join("sub/below")).unwrap();
        fs::write(d.join("sub/inside"), "inside").unwrap();
        fs::write(d.join("a"), "first").unwrap();
        fs::write(d.join("b"), vec![b'x'; 400_000]).unwrap();
        let numbers = ["a", "b", "sub"].map(|name| fs::metadata(d.join(name)).unwrap().ino());

        exchange(&d.join("a"), &d.join("b")).unwrap();
        assert_eq!(shown(&d.join("b")), "first");
        assert_eq!(fs::metadata(d.join("a")).unwrap().len(), 400_000);
        // A file with a directory, and from one directory to another.
        exchange(&d.join("b"), &d.join("sub")).unwrap();
        assert_eq!((shown(&d.join("sub")), shown(&d.join("b"))), ("first".to_owned(), "[below inside]".to_owned()));
        exchange(&d.join("a"), &d.join("b/below")).unwrap();
        assert_eq!((shown(&d), shown(&d.join("b"))), ("[a b sub]".to_owned(), "[below inside]".to_owned()));
        assert_eq!(fs::metadata(d.join("b/below")).unwrap().len(), 400_000);
        assert_eq!(["sub", "b/below", "b"].map(|name| fs::metadata(d.join(name)).unwrap().ino()), numbers);
        assert_eq!((fs::metadata(&d).unwrap().nlink(), fs::metadata(d.join("b")).unwrap().nlink()), (4, 2));

        assert_eq!(exchange(&d, &d.join("b/inside")), Err(Errno::INVAL));
        assert_eq!(exchange(&d.join("b/inside"), &d), Err(Errno::INVAL));
        assert_eq!(exchange(&d.join("a"), &d.join("nothing")), Err(Errno::NOENT));
        fs::hard_link(d.join("sub"), d.join("same")).unwrap();
        exchange(&d.join("sub"), &d.join("same")).unwrap();
        assert_eq!(fs::metadata(d.join("same")).unwrap().nlink(), 2);
    });
}

/// Proves [S-exchange]: through a station and the home, after the daemon died, and after work without a network.
#[test]
fn the_other_machine_sees_both_in_each_others_place() {
    within("exchange across machines", BUSY, || {
        let mut site = Far::new();
        let [new, _] = site.paths("new");
        let [current, far] = site.paths("current");
        fs::create_dir(&new).unwrap();
        fs::write(new.join("two"), "2").unwrap();
        fs::create_dir(&current).unwrap();
        fs::write(current.join("one"), "1").unwrap();
        site.hand_over();
        assert_eq!(shown(&far), "[one]");

        exchange(&new, &current).unwrap();
        site.hand_over();
        assert_eq!((shown(&far), shown(&site.paths("new")[1])), ("[two]".to_owned(), "[one]".to_owned()));

        site.near.1.wayfs(&site.near.0, &["offline"]).ok();
        exchange(&new, &current).unwrap();
        fs::write(current.join("offline"), "3").unwrap();
        fs::File::open(current.join("offline")).unwrap().sync_all().unwrap();
        site.remount_near();
        assert_eq!((shown(&current), shown(&new)), ("[offline one]".to_owned(), "[two]".to_owned()));
        site.hand_over();
        assert_eq!((shown(&far), shown(&site.paths("new")[1])), ("[offline one]".to_owned(), "[two]".to_owned()));
    });
}
