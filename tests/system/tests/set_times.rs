//! Times that programs set, as another machine sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
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
