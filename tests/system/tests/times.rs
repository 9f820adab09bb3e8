//! Times of files: of birth, beyond what is kept, and of directories.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use wayfs_system_tests::{World, within};

static WORLD: LazyLock<World> = LazyLock::new(World::default);

/// Runs a test in a fresh directory of the mount, for half a minute at most.
fn in_mount(name: &str, test: impl FnOnce(PathBuf) + Send + 'static) {
    let directory = WORLD.directory(name);
    within(name, Duration::from_secs(30), move || test(directory));
}

/// Proves [S-posix]: `statx` tells when a file was made, whatever happened to it since.
#[test]
fn the_time_of_birth_is_shown_and_stays() {
    in_mount("birth", |d| {
        let before = SystemTime::now() - Duration::from_secs(1);
        let path = d.join("a");
        fs::write(&path, b"first").unwrap();
        let born = fs::metadata(&path).unwrap().created().unwrap();
        assert!(born >= before && born <= SystemTime::now() + Duration::from_secs(1), "{born:?}");
        fs::write(&path, b"second").unwrap();
        fs::rename(&path, d.join("b")).unwrap();
        fs::set_permissions(d.join("b"), PermissionsExt::from_mode(0o600)).unwrap();
        let later = fs::metadata(d.join("b")).unwrap();
        assert_eq!((later.created().unwrap(), later.len()), (born, 6));
        assert!(fs::metadata(&d).unwrap().created().unwrap() <= born);
    });
}

/// Proves the exception of SEMANTICS.md: what nanoseconds of 64 bits do not reach is cut to what they do.
#[test]
fn times_beyond_what_is_kept_are_the_last_that_are() {
    in_mount("far-times", |d| {
        let file = File::create(d.join("a")).unwrap();
        for (asked, kept) in [(4_102_444_800_u64, 4_102_444_800), (20_000_000_000, i64::MAX / 1_000_000_000)] {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(asked)).unwrap();
            assert_eq!(fs::metadata(d.join("a")).unwrap().mtime(), kept);
        }
    });
}

/// Proves [S-posix]: a clock that is set back sets no time of a directory back.
#[test]
fn times_of_a_directory_only_go_forward() {
    in_mount("forward", |d| {
        let mut last = fs::metadata(&d).unwrap();
        for number in 0..40 {
            match number % 4 {
                0 => drop(File::create(d.join("a")).unwrap()),
                1 => fs::rename(d.join("a"), d.join("b")).unwrap(),
                2 => fs::hard_link(d.join("b"), d.join("c")).unwrap(),
                _ => ["b", "c"].iter().for_each(|name| fs::remove_file(d.join(name)).unwrap()),
            }
            let now = fs::metadata(&d).unwrap();
            let times =
                |found: &fs::Metadata| [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())];
            assert!(times(&now)[0] > times(&last)[0] && times(&now)[1] > times(&last)[1], "step {number}");
            last = now;
        }
    });
}
