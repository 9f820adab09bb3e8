//! Times that programs set, as another machine sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use wayfs_system_tests::{Site, run_for};

/// Longest time for a workload on a busy machine.
const BUSY: Duration = Duration::from_secs(120);

/// How often each is done; `WAYFS_TIMES_ROUNDS` for more.
fn rounds() -> u64 {
    std::env::var("WAYFS_TIMES_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// Proves [S-posix], [S-close-open]: `unzip` and `rsync` set a file's time when they have just closed it, and a large one is cut and
/// hashed at that moment.
#[test]
fn a_time_that_is_set_just_after_a_large_close_is_seen_by_the_other_machine() {
    let site = Site::new();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for round in 0..rounds() {
        let [here, there] = [0, 1].map(|client| site.root(client).join(format!("f{round}")));
        fs::write(&here, &bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + round);
        // By its path, as they do: a handle would be another close.
        let stamp = format!("@{}", 1_000_000 + round);
        run_for(BUSY, Command::new("touch").args(["-d", &stamp]).arg(&here)).ok();
        let seen = fs::metadata(&there).unwrap();
        assert_eq!((seen.modified().unwrap(), seen.len()), (time, bytes.len() as u64), "round {round}");
    }
}

/// Proves [S-posix], [S-close-open]: what was copied is as it was, files and directories, on either machine.
#[test]
fn rsync_finds_nothing_to_do_after_itself_on_either_machine() {
    let site = Site::new();
    let source = tempfile::tempdir().unwrap();
    for round in 0..rounds() {
        let directory = source.path().join(format!("d{}", round % 7));
        fs::create_dir_all(&directory).unwrap();
        let name = directory.join(format!("f{round}"));
        fs::write(&name, vec![b'x'; (round as usize % 5) * 90_000]).unwrap();
        File::options().write(true).open(&name).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(fs::metadata(&name).unwrap().mtime(), 0);
        let copy = site.root(round as usize % 2).join("copy");
        run_for(BUSY, Command::new("rsync").arg("-a").arg(format!("{}/", source.path().display())).arg(&copy)).ok();
        for client in [0, 1] {
            let copy = site.root(client).join("copy");
            let dry = run_for(
                BUSY,
                Command::new("rsync").arg("-ani").arg(format!("{}/", source.path().display())).arg(&copy),
            );
            assert_eq!(dry.ok().out, "", "round {round}, client {client}");
        }
    }
}

/// What is copied: directories with enough in them that the home tells of the first files before it has heard of the last.
fn fill(source: &Path) {
    for directory in ["a/b/c", "d"] {
        fs::create_dir_all(source.join(directory)).unwrap();
    }
    for file in 1..=30 {
        fs::write(source.join(format!("a/b/f{file}")), vec![b'x'; file * 3000]).unwrap();
        fs::write(source.join(format!("d/g{file}")), file.to_string()).unwrap();
        std::os::unix::fs::symlink(format!("g{file}"), source.join(format!("d/l{file}"))).unwrap();
    }
    for directory in ["a/b/c", "a/b", "a", "d", ""] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::open(source.join(directory)).unwrap().set_modified(time).unwrap();
    }
}

/// Copies again and again to new places, looks each time whether something is left to do, and removes the copy while it makes the next.
fn copy_and_look(source: &Path, root: &Path) {
    let source = format!("{}/", source.display());
    thread::scope(|scope| {
        for round in 0..rounds() {
            let copy = root.join(format!("copy{round}"));
            run_for(BUSY, Command::new("rsync").arg("-aHAX").arg(&source).arg(&copy)).ok();
            let dry = run_for(BUSY, Command::new("rsync").arg("-aHAXni").arg(&source).arg(&copy));
            assert_eq!(dry.ok().out, "", "round {round}, {}", copy.display());
            scope.spawn(move || fs::remove_dir_all(copy).unwrap());
        }
    });
}

/// Makes and removes files until it is told that it is enough.
fn keep_busy(root: &Path, is_over: &AtomicBool) {
    let file = root.join("file");
    while !is_over.load(Ordering::Relaxed) {
        fs::write(&file, [b'x'; 100]).unwrap();
        fs::rename(&file, root.join("renamed")).unwrap();
        fs::remove_file(root.join("renamed")).unwrap();
    }
}

/// Tells the one who keeps busy that the others are done, also when they are because one of them failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two clients do the same, each in a directory of its own, while somebody makes and removes files elsewhere: so what they send is
/// on its way for a while.
fn on_both_while_others_work(work: impl Fn(&Path) + Sync) {
    let site = Site::new();
    let roots = [0, 1].map(|client| site.root(client).join(format!("of{client}")));
    let busy = site.root(0).join("busy");
    [&roots[0], &roots[1], &busy].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let (is_over, work) = (AtomicBool::new(false), &work);
    thread::scope(|scope| {
        scope.spawn(|| keep_busy(&busy, &is_over));
        let _over = Over(&is_over);
        let working = roots.each_ref().map(|root| scope.spawn(move || work(root)));
        working.into_iter().for_each(|working| working.join().unwrap());
    });
}

/// Proves [S-posix]: what was copied is as it was, whatever the home tells meanwhile of what came to it before the times.
#[test]
fn rsync_finds_nothing_to_do_after_itself_while_others_copy_and_remove() {
    let source = tempfile::tempdir().unwrap();
    fill(source.path());
    on_both_while_others_work(|root| copy_and_look(source.path(), root));
}

/// Proves [S-posix]: a machine sees the time that it set on a directory, and the subdirectories that it made there, at each moment
/// while the home tells it of what it made before.
#[test]
fn what_was_set_and_made_is_seen_all_the_while_that_the_home_tells_of_it() {
    on_both_while_others_work(|root| {
        for round in 0..rounds() {
            let directory = root.join(format!("d{round}"));
            fs::create_dir(&directory).unwrap();
            for file in 0..60 {
                fs::write(directory.join(format!("f{file}")), b"x").unwrap();
                if file % 20 == 0 {
                    fs::create_dir(directory.join(format!("d{file}"))).unwrap();
                }
            }
            File::open(&directory).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            // Looks again and again while the records are on their way.
            for _ in 0..100 {
                let seen = fs::metadata(&directory).unwrap();
                assert_eq!((seen.mtime(), seen.nlink()), (0, 5), "round {round}, {}", directory.display());
                thread::sleep(Duration::from_millis(3));
            }
        }
    });
}
