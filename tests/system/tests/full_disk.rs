//! A full disk at each of the three roles: an error to the program, nothing acknowledged lost, and work goes on when
//! there is room again. The disks are small tmpfs mounts, so this needs root; without it the tests say so.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, SmallDisk, eventually, free_port, within};

/// Room of a small disk at first, in MiB: enough for the stores' own files.
const SMALL: u32 = SmallDisk::SMALL;
/// Room of a smaller one.
const TINY: u32 = SmallDisk::TINY;
/// Bytes of one file.
const PIECE: usize = 8 << 20;

fn piece(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    (0..PIECE / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).to_le_bytes()
        })
        .collect()
}

/// What a tool says of a full home on a screen and in JSON.
fn says_full_home(finished: &Finished) -> bool {
    let text = format!("{}{}", finished.out, finished.err);
    text.contains("full: home disk (") || text.contains("full: station disk (")
}

/// Bytes that `df` shows as available.
fn available(root: &Path) -> u64 {
    let disk = rustix::fs::statvfs(root).expect("a mount answers");
    disk.f_bavail * disk.f_frsize
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

/// Proves [S-commit-error]: a wait for *safe* waits for what found no room at first, and says why if there is none in time.
#[test]
fn a_sync_waits_for_what_found_no_room() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let Some(_disk) = SmallDisk::new(&client.path("cache")) else { return };
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    mount.sync(&client, "safe");
    let mut open = fs::File::create(mount.path("open")).unwrap();
    open.write_all(&piece(1)[..1 << 20]).unwrap();
    let filler = client.path("cache").join("filler");
    let mut ballast = fs::File::create(&filler).unwrap();
    while ballast.write_all(&[0x55; 1 << 16]).is_ok() {}
    drop(ballast);
    let refused = mount.wayfs(&client, &["sync", "--json", "--until", "safe", "--timeout", "2"]);
    let says_why = refused.out.contains("no space left") || refused.out.contains("full: cache disk");
    assert!(!refused.status.success() && says_why, "{} {}", refused.out, refused.err);
    let synced = std::thread::scope(|scope| {
        let wait = scope.spawn(|| mount.wayfs(&client, &["sync", "--json", "--until", "safe", "--timeout", "60"]));
        // It has met the full disk by then.
        std::thread::sleep(Duration::from_secs(3));
        fs::remove_file(&filler).unwrap();
        wait.join().unwrap()
    });
    assert!(synced.status.success(), "{} {} {}", synced.out, synced.err, mount.process.log());
    drop(open);
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

/// Proves [S-full-disk] and [S-full].
#[test]
fn a_full_home_is_called_so_two_hops_away_and_mends_by_itself() {
    let home = Machine::new("home");
    let Some(disk) = SmallDisk::sized(&home.path("data"), TINY) else { return };
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let station = Machine::new("station");
    let near = station.serve(free_port(), &[]);
    near.wayfs(&station, &["station", "join", &server.station_ticket(&home, "work")]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    let address = format!("127.0.0.1:{}", near.port);
    eventually("the client knows the station", Duration::from_secs(60), || {
        mount.wayfs(&client, &["station", "use", &address]).status.success()
    });
    let is_near = || {
        let status = mount.wayfs(&client, &["status"]).out;
        status.lines().any(|line| line.contains("parent") && line.contains("station") && line.contains("connected"))
    };
    eventually("the client is at the station", Duration::from_secs(60), is_near);
    let is_ample = available(mount.root());
    let root = mount.root().to_owned();
    let count = TINY as usize * 1024 * 1024 / PIECE;
    within("write more than the home can hold", Duration::from_secs(120), move || {
        for number in 0..count {
            fs::write(root.join(format!("piece-{number}")), piece(number)).expect("the client has room");
        }
    });
    let sync = mount.wayfs(&client, &["sync", "--until", "stable", "--timeout", "5"]);
    assert!(!sync.status.success(), "the home cannot hold it all: {}", sync.out);
    eventually("the client says where it is full", Duration::from_secs(60), || {
        let status = mount.wayfs(&client, &["status"]);
        says_full_home(&status) && status.out.contains(": full")
    });
    let sync = mount.wayfs(&client, &["sync", "--until", "stable", "--timeout", "2"]);
    assert!(says_full_home(&sync), "{}{}", sync.out, sync.err);
    let queue = mount.wayfs(&client, &["queue"]);
    assert!(says_full_home(&queue), "{}", queue.out);
    assert!(says_full_home(&mount.wayfs(&client, &["status", "--json"])));
    let doctor = mount.wayfs(&client, &["doctor"]);
    assert!(says_full_home(&doctor), "{}", doctor.out);
    for said in [&queue, &doctor] {
        assert!(!said.out.contains("Nothing is waiting") && !said.out.contains("everything is safe"), "{}", said.out);
    }
    assert!(says_full_home(&near.wayfs(&station, &["status"])), "the station says it, too");
    let left = available(mount.root());
    assert!(left < is_ample && left < u64::from(TINY) << 20, "df shows {left} of {is_ample}");
    disk.grow();
    mount.sync(&client, "stable");
    eventually("nothing is full any more", Duration::from_secs(60), || {
        !says_full_home(&mount.wayfs(&client, &["status"]))
    });
}

/// Proves [S-cache] and [S-full-disk].
#[test]
fn a_bounded_cache_keeps_its_bound_while_much_is_read_and_a_full_disk_takes_what_is_written() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let writer = Machine::new("writer");
    let source = writer.mount(&server.ticket(&home, "work"), &[]);
    let count = 12;
    for number in 0..count {
        fs::write(source.path(&format!("piece-{number}")), piece(number)).unwrap();
    }
    source.sync(&writer, "stable");
    let reader = Machine::new("reader");
    let Some(_disk) = SmallDisk::sized(&reader.path("cache"), TINY) else { return };
    // More than there is room for: the disk is the bound.
    let mount = reader.mount(&server.ticket(&home, "work"), &["--cache-size", "10GB"]);
    for number in 0..count {
        let path = mount.path(&format!("piece-{number}"));
        let bytes = within("read a piece", Duration::from_secs(60), move || fs::read(path));
        assert!(bytes.as_ref().is_ok_and(|bytes| *bytes == piece(number)), "piece {number}: {:?}", bytes.err());
    }
    // Beside nothing but clean copies there is room for what is new.
    for number in 0..4 {
        let path = mount.path(&format!("new-{number}"));
        let written = within("write", Duration::from_secs(60), move || fs::write(path, piece(100 + number)));
        assert!(written.is_ok(), "new-{number}: {written:?}");
    }
    mount.sync(&reader, "stable");
    drop(mount);
    drop(reader);

    let bounded = Machine::new("bounded");
    let mount = bounded.mount(&server.ticket(&home, "work"), &["--cache-size", "40MB"]);
    for number in 0..count {
        let path = mount.path(&format!("piece-{number}"));
        assert!(within("read a piece", Duration::from_secs(60), move || fs::read(path)).unwrap() == piece(number));
        let status = mount.wayfs(&bounded, &["status", "--json"]).out;
        let used = number_after(&status, "\"cache_used_bytes\":");
        assert!(used <= 40_000_000 + (1 << 20), "after piece {number} the cache holds {used}");
    }
}

/// The number behind a name in JSON.
fn number_after(text: &str, name: &str) -> u64 {
    let at = text.find(name).unwrap_or_else(|| panic!("{name} in {text}")) + name.len();
    let digits: String = text[at..].trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}
