//! A full disk at each of the three roles: an error to the program, nothing acknowledged lost, and work goes on when
//! there is room again. The disks are small tmpfs mounts, so this needs root; without it the tests say so.

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_system_tests::{Machine, eventually, free_port, within};

/// Room of a small disk at first, in MiB: enough for the stores' own files.
const SMALL: u32 = 192;
/// Bytes of one file.
const PIECE: usize = 8 << 20;

/// A tmpfs that goes away with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).expect("make a directory");
        let size = std::ffi::CString::new(format!("size={SMALL}m")).expect("plain text");
        match mount("tmpfs", path, "tmpfs", MountFlags::empty(), size.as_c_str()) {
            Ok(()) => Some(Self(path.to_owned())),
            Err(error) => {
                println!("skipped: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }

    /// Gives it eight times the room.
    fn grow(&self) {
        let size = std::ffi::CString::new(format!("size={}m", SMALL * 8)).expect("plain text");
        mount_remount(&self.0, MountFlags::empty(), size.as_c_str()).expect("remount a tmpfs");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn piece(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    (0..PIECE / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).to_le_bytes()
        })
        .collect()
}

/// Writes pieces until one is refused; says how many were taken, and the refusal.
fn fill(root: &Path, most: usize) -> (usize, Option<std::io::Error>) {
    for number in 0..most {
        let path = root.join(format!("piece-{number}"));
        let outcome = fs::write(&path, piece(number)).and_then(|()| fs::File::open(&path)?.sync_all());
        if let Err(error) = outcome {
            return (number, Some(error));
        }
    }
    (most, None)
}

/// Proves [S-full-disk].
#[test]
fn a_full_cache_disk_refuses_and_loses_nothing() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let Some(disk) = SmallDisk::new(&client.path("cache")) else { return };
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    // Whether a name is free can be told offline only of a directory that was listed before.
    assert_eq!(fs::read_dir(mount.root()).unwrap().count(), 0);
    mount.wayfs(&client, &["offline"]).ok();
    let root = mount.root().to_owned();
    let (taken, refusal) = within("fill the disk", Duration::from_secs(60), move || fill(&root, 100));
    let refusal = refusal.expect("100 pieces do not fit");
    assert_eq!(refusal.raw_os_error(), Some(libc::ENOSPC), "piece {taken}: {refusal}");
    assert!(taken > 2, "only {taken} pieces were taken");
    for number in 0..taken {
        assert!(
            fs::read(mount.path(&format!("piece-{number}"))).is_ok_and(|b| b == piece(number)),
            "piece {number} is whole"
        );
    }
    disk.grow();
    let path = mount.path("after");
    eventually("work goes on", Duration::from_secs(30), || fs::write(&path, piece(200)).is_ok());
    mount.wayfs(&client, &["auto"]).ok();
    mount.sync(&client, "visible");
    for number in 0..taken {
        assert!(
            fs::read(mount.path(&format!("piece-{number}"))).is_ok_and(|b| b == piece(number)),
            "piece {number} is whole"
        );
    }
}

#[test]
fn a_full_home_acknowledges_nothing_that_it_cannot_keep() {
    let home = Machine::new("home");
    let Some(disk) = SmallDisk::new(&home.path("data")) else { return };
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    let root = mount.root().to_owned();
    let count = SMALL as usize * 2 * 1024 * 1024 / PIECE;
    within("write more than the home can hold", Duration::from_secs(120), move || {
        for number in 0..count {
            fs::write(root.join(format!("piece-{number}")), piece(number)).expect("the client has room");
        }
    });
    let sync = mount.wayfs(&client, &["sync", "--until", "safe", "--timeout", "10"]);
    assert!(!sync.status.success(), "the home cannot hold it all");
    assert!(server.wayfs(&home, &["status"]).status.success(), "a full home still answers");
    disk.grow();
    mount.sync(&client, "safe");
    drop(mount);
    let other = Machine::new("other");
    let mount = other.mount(&server.ticket(&home, "work"), &[]);
    for number in 0..count {
        let path = mount.path(&format!("piece-{number}"));
        let bytes = within("read a piece back", Duration::from_secs(30), move || fs::read(path).expect("it was safe"));
        assert!(bytes == piece(number), "piece {number} is whole");
    }
}
