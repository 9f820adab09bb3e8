use crate::ChildRole;
use crate::testing::{Machine, PATIENCE, eventually, noise};
use std::path::{Path, PathBuf};
use std::process::Command;
use wayfs_proto::Replica;
use wayfs_types::FsError;
use wayfs_types::request::{Answer, Level, Request};

/// A small file system of its own; unmounted when dropped.
struct Small {
    place: PathBuf,
    /// Fields are dropped in order: the directory goes last.
    _dir: tempfile::TempDir,
}

impl Small {
    /// `None` without the right to mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("small");
        std::fs::create_dir(&place).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&place).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: this needs the right to mount a tmpfs");
            return None;
        }
        Some(Self { place, _dir: dir })
    }

    /// Fills it but for so many bytes.
    fn fill(&self, leave: u64) {
        let stat = rustix::fs::statvfs(&self.place).unwrap();
        let free = stat.f_bavail * stat.f_frsize;
        let filler = std::fs::File::create(self.place.join("filler")).unwrap();
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, free - leave).unwrap();
    }

    fn empty(&self) {
        std::fs::remove_file(self.place.join("filler")).unwrap();
    }

    fn path(&self) -> &Path {
        &self.place
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

#[test]
fn a_full_home_takes_contents_again_when_it_has_room() {
    let Some(small) = Small::mount(400) else { return };
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&small.path().join("home"));
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    client.write("before", &noise(50_000, 1));
    client.wait(Level::Stable);
    client.learn_root();
    // Metadata keep 25 MiB of this disk for themselves and contents 50; below that, new updates are refused.
    small.fill(20 << 20);
    let big = noise(3_000_000, 2);
    client.write("big", &big);
    let waited =
        client.volume.request(Request::Wait { record: None, until: Level::Safe }, std::time::Duration::from_secs(2));
    assert_eq!(waited, Err(FsError::TimedOut), "nothing may be called safe that has no room");
    assert!(home.volume.failure().is_none(), "a full disk is no broken disk: {:?}", home.volume.failure());
    assert!(home.read("before").is_ok(), "what is there can be read");
    small.empty();
    eventually("it is safe", || {
        client.volume.request(Request::Wait { record: None, until: Level::Stable }, PATIENCE) == Ok(Answer::Reached)
    });
    assert!(home.read("big").unwrap() == big);
}

#[test]
fn a_full_client_says_so_and_goes_on_when_it_has_room() {
    let Some(small) = Small::mount(400) else { return };
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = small.path().join("c");
    let client = Machine::below(&home, &place, ChildRole::Client, &[&home]);
    client.write("before", b"x");
    client.wait(Level::Stable);
    small.fill(20 << 20);
    let content = wayfs_content::build(&bytes::Bytes::from(noise(3_000_000, 3)), &mut client.volume.contents().sink());
    assert!(content.is_err(), "contents are refused before anything is promised");
    let made = client.ask(Request::Change { user: 0, change: crate::testing::create("late") });
    assert!(matches!(made, Err(FsError::NoSpace) | Ok(_)), "{made:?}");
    assert!(client.volume.failure().is_none(), "{:?}", client.volume.failure());
    assert_eq!(client.read("before").unwrap(), b"x");
    small.empty();
    client.write("after", &noise(100_000, 4));
    client.wait(Level::Stable);
    assert!(home.read("after").is_ok());
    assert!(client.volume.look(Replica::progress).is_some_and(|progress| progress.bytes_at_risk == 0));
}
