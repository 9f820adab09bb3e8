//! Bytes that a disk damaged or took along: healed where somebody has them, and said on every machine where nobody does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, SmallDisk, eventually, free_port, within};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(40);
/// The home asks everybody, and gives them time: twice what `docs/decisions/0028` says.
const DECIDED: Duration = Duration::from_secs(150);

/// Bytes that do not compress, the same for the same seed.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.take(len / 8).flatten().collect()
}

/// The chunks of the one volume of a server.
fn chunks_of(server: &Server) -> PathBuf {
    let mut volumes = fs::read_dir(server.data.join("volumes")).unwrap();
    volumes.next().unwrap().unwrap().path().join("store/chunks")
}

/// Flips a bit of these bytes wherever they lie in segments; how often that was.
fn rot(chunks: &Path, bytes: &[u8]) -> usize {
    let mut flipped = 0;
    for entry in fs::read_dir(chunks).unwrap() {
        let path = entry.unwrap().path();
        let mut kept = fs::read(&path).unwrap();
        if let Some(at) = kept.windows(64).position(|window| window == &bytes[1000..1064]) {
            kept[at] ^= 1;
            fs::write(&path, kept).unwrap();
            flipped += 1;
        }
    }
    flipped
}

fn found(report: &serde_json::Value, what: &str) -> u64 {
    report["volumes"][0]["found"][what].as_u64().unwrap()
}

fn volume_status(report: &serde_json::Value) -> &serde_json::Value {
    let daemon = if report.is_array() { &report[0] } else { report };
    &daemon["volumes"][0]
}

/// Reads a file of a mount without hanging with it.
fn read(mount: &Mount, name: &str) -> std::io::Result<Vec<u8>> {
    let path = mount.path(name);
    within("read a file", SEEN, move || fs::read(path))
}

/// [S-scrub] Nobody reads: at a home, a station and a mount a scrub finds what rotted, and gets it from the others.
#[test]
fn a_scrub_heals_what_rotted_at_home_station_and_mount() {
    let machine = Machine::new("home");
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let near = Machine::new("station");
    let station = near.serve(free_port(), &[]);
    station.wayfs(&near, &["station", "join", &home.station_ticket(&machine, "work")]).ok();
    let laptop = Machine::new("ann");
    let mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    let address = format!("127.0.0.1:{}", station.port);
    eventually("the client uses the station", SEEN, || {
        mount.wayfs(&laptop, &["station", "use", &address]).status.success()
            && mount.wayfs(&laptop, &["status", "--json"]).out.contains(&station.port.to_string())
    });
    let photo = noise(400_000, 1);
    fs::write(mount.path("photo"), &photo).unwrap();
    mount.sync(&laptop, "stable");
    let cache = laptop.cache_of("work").join("volume/chunks");
    let places = [chunks_of(&home), chunks_of(&station), cache];
    let scrubs: [&dyn Fn() -> (i32, serde_json::Value); 3] = [
        &|| {
            let ended = home.wayfs(&machine, &["scrub", "work", "--json"]);
            (ended.code(), ended.json())
        },
        &|| {
            let ended = station.wayfs(&near, &["scrub", "--json"]);
            (ended.code(), ended.json())
        },
        &|| {
            let ended = laptop.wayfs(&["scrub", mount.root().to_str().unwrap(), "--json"]);
            (ended.code(), ended.json())
        },
    ];
    for (place, scrub) in places.iter().zip(scrubs) {
        let (code, before) = scrub();
        assert_eq!((code, found(&before, "damaged")), (0, 0), "{before}");
        assert!(found(&before, "bytes") >= 400_000, "{before}");
        assert_eq!(rot(place, &photo), 1, "{}", place.display());
        let (code, after) = scrub();
        assert_eq!((code, found(&after, "damaged"), found(&after, "renewed")), (0, 1, 1), "{after}");
    }
    let status = home.wayfs(&machine, &["status"]).out;
    assert!(status.contains("1 damaged, 1 fetched anew"), "{status}");
    let status = mount.wayfs(&laptop, &["status", "--json"]).json();
    assert_eq!(volume_status(&status)["scrub"]["found_before"]["renewed"], 1, "{status}");
    let metrics = station.wayfs(&near, &["metrics"]).out;
    assert!(metrics.contains("wayfs_scrub_damaged_chunks{volume=\"work\"} 1"), "{metrics}");
    assert_eq!(fs::read(mount.path("photo")).unwrap(), photo);
}

/// [S-scrub] [S-losses] Nobody has it any more: the scrub says so, and the home declares it lost.
#[test]
fn what_rotted_and_nobody_has_is_declared_lost_by_a_scrub() {
    let machine = Machine::new("home");
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let laptop = Machine::new("ann");
    let mut mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    let photo = noise(400_000, 2);
    fs::write(mount.path("photo"), &photo).unwrap();
    mount.sync(&laptop, "stable");
    let members = home.wayfs(&machine, &["volume", "members", "work"]).ok().out;
    let ann = members.split_whitespace().find(|word| word.ends_with("@ann")).expect("a label").to_owned();
    mount.kill();
    fs::remove_dir_all(laptop.path("cache")).unwrap();
    home.wayfs(&machine, &["volume", "revoke", "work", &ann]).ok();
    assert_eq!(rot(&chunks_of(&home), &photo), 1);
    let scrub = home.wayfs(&machine, &["scrub", "--json"]);
    assert_eq!((scrub.code(), found(&scrub.json(), "lost")), (1, 1), "{}", scrub.out);
    let reader = Machine::new("bob");
    let other = reader.mount(&home.ticket(&machine, "work"), &[]);
    eventually("the reader hears that it is lost", DECIDED, || {
        let listed = other.wayfs(&reader, &["conflicts", "list", "--json"]).json();
        listed["conflicts"].as_array().is_some_and(|all| all.len() == 1 && all[0]["kind"] == "ContentLost")
    });
    assert_eq!(read(&other, "photo").unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let again = home.wayfs(&machine, &["scrub", "--json"]);
    assert_eq!((again.code(), found(&again.json(), "damaged")), (0, 0), "it is said once: {}", again.out);
}

/// No wait ends well for a file whose only copy rotted before it went out, though all others have come as far as they can.
#[test]
fn a_sync_says_what_is_lost_until_it_is_taken_off_the_list() {
    let machine = Machine::new("home");
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let laptop = Machine::new("ann");
    let mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    fs::create_dir(mount.path("d")).unwrap();
    mount.sync(&laptop, "stable");
    mount.wayfs(&laptop, &["offline"]).ok();
    let photo = noise(400_000, 22);
    fs::write(mount.path("photo"), &photo).unwrap();
    fs::write(mount.path("d/note"), b"small").unwrap();
    fs::File::open(mount.path("photo")).unwrap().sync_all().unwrap();
    assert_eq!(rot(&laptop.cache_of("work").join("volume/chunks"), &photo), 1);
    mount.wayfs(&laptop, &["online"]).ok();
    let sync = |more: &[&str]| {
        mount.wayfs(&laptop, &[&["sync", "--until", "stable", "--timeout", "150", "--json"][..], more].concat())
    };
    let said = sync(&[]);
    assert_eq!((said.code(), said.json()["lost"].as_u64()), (1, Some(1)), "{}", said.out);
    assert_eq!(said.json()["remaining_items"], 0, "all the others are there: {}", said.out);
    assert_eq!(sync(&[mount.path("d").to_str().unwrap()]).code(), 0, "nothing is lost there");
    assert_eq!(sync(&[mount.path("photo").to_str().unwrap()]).code(), 1);
    let mut listed = serde_json::Value::Null;
    eventually("the home says that it is lost", DECIDED, || {
        listed = mount.wayfs(&laptop, &["conflicts", "list", "--json"]).json();
        listed["conflicts"].as_array().is_some_and(|all| all.len() == 1)
    });
    let said = home.wayfs(&machine, &["sync", "--until", "stable", "--timeout", "20", "--json"]);
    assert_eq!((said.code(), said.json()["lost"].as_u64()), (1, Some(1)), "the home says so, too: {}", said.out);
    let id = listed["conflicts"][0]["id"].as_str().unwrap().to_owned();
    mount.wayfs(&laptop, &["conflicts", "resolve", "--keep", "newest", &id]).ok();
    eventually("it is off the list", SEEN, || sync(&[]).code() == 0);
}

/// [S-losses] A laptop is gone with what everybody sees by name only. Its bytes are given up by word, and taken back when
/// they turn up.
#[test]
#[allow(clippy::too_many_lines, reason = "one drill, in its order")]
fn a_loss_that_is_accepted_is_said_everywhere_and_taken_back_when_the_bytes_turn_up() {
    let machine = Machine::new("home");
    let Some(disk) = SmallDisk::sized(&machine.path("data"), SmallDisk::TINY) else { return };
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let (laptop, reader) = (Machine::new("ann"), Machine::new("bob"));
    let mut mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    let other = reader.mount(&home.ticket(&machine, "work"), &[]);
    let old = noise(400_000, 3);
    fs::write(mount.path("film"), &old).unwrap();
    mount.sync(&laptop, "stable");
    // More than the home has room for: the names go, the bytes cannot.
    let len = (SmallDisk::TINY as usize + 8) << 20;
    let (film, fresh) = (noise(len, 4), noise(len, 5));
    fs::write(mount.path("film"), &film).unwrap();
    fs::write(mount.path("fresh"), &fresh).unwrap();
    let sees = |name: &str| fs::metadata(other.path(name)).is_ok_and(|found| found.len() == len as u64);
    eventually("the reader sees both names", SEEN, || sees("film") && sees("fresh"));
    assert!(!mount.wayfs(&laptop, &["sync", "--until", "safe", "--timeout", "2"]).status.success());
    mount.kill();
    let (cache, away) = (laptop.path("cache"), laptop.path("away"));
    fs::rename(&cache, &away).unwrap();

    let accept =
        |more: &[&str]| home.wayfs(&machine, &[&["volume", "accept-loss", "work", "--json"][..], more].concat());
    let mut looked = serde_json::Value::Null;
    eventually("the home waits for two files of one who is away", SEEN, || {
        looked = accept(&["--dry-run"]).ok().json();
        looked["contents"].as_array().is_some_and(|contents| contents.len() == 2)
    });
    assert_eq!(looked["declared"], false);
    let contents = looked["contents"].as_array().unwrap();
    let of = |name: &str| contents.iter().find(|one| one["path"].as_str().unwrap().ends_with(name)).unwrap();
    assert_eq!((&of("film")["has_older"], &of("fresh")["has_older"]), (&true.into(), &false.into()), "{looked}");
    let ann = of("film")["waits_for"][0].as_str().unwrap();
    assert!(ann.ends_with("@ann"), "{looked}");
    assert_ne!(accept(&["--member", "nobody@nowhere"]).code(), 0);
    let status = home.wayfs(&machine, &["status", "--json"]).json();
    assert_eq!(volume_status(&status)["versions_lost"], 0, "looking declares nothing: {status}");
    let declared = accept(&["--member", ann]).ok().json();
    assert_eq!(
        (&declared["declared"], declared["contents"].as_array().unwrap().len()),
        (&true.into(), 2),
        "{declared}"
    );

    let lost_at_reader =
        || volume_status(&other.wayfs(&reader, &["status", "--json"]).json())["versions_lost"].as_u64();
    eventually("the reader hears of it", SEEN, || lost_at_reader() == Some(2));
    let status = home.wayfs(&machine, &["status", "--json"]).json();
    assert_eq!(volume_status(&status)["versions_lost"], 2, "{status}");
    let queue = home.wayfs(&machine, &["queue", "--json"]).json();
    assert_eq!(queue["versions_lost"], 2, "what is lost waits for nothing, and is not called saved: {queue}");
    for listed in
        [other.wayfs(&reader, &["conflicts", "list", "--json"]), home.wayfs(&machine, &["conflicts", "list", "--json"])]
    {
        let all = listed.json();
        let all = all["conflicts"].as_array().unwrap();
        assert!(all.len() == 2 && all.iter().all(|one| one["kind"] == "ContentLost"), "{all:?}");
    }
    for metrics in [other.wayfs(&reader, &["metrics"]), home.wayfs(&machine, &["metrics"])] {
        assert!(metrics.out.contains("wayfs_versions_lost{volume=\"work\"} 2"), "{}", metrics.out);
    }
    eventually("the film is what it was", SEEN, || read(&other, "film").is_ok_and(|bytes| bytes == old));
    let info = |name: &str| other.wayfs(&reader, &["info", other.path(name).to_str().unwrap(), "--json"]).json();
    assert_eq!(info("film")["lost"]["shows_older"], true, "{}", info("film"));
    assert_eq!(info("fresh")["lost"]["shows_older"], false, "{}", info("fresh"));
    assert_eq!(read(&other, "fresh").unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));

    disk.grow();
    fs::rename(&away, &cache).unwrap();
    let mount = laptop.mount("work", &[]);
    eventually("the bytes are taken back", DECIDED, || lost_at_reader() == Some(0));
    mount.sync(&laptop, "stable");
    for (name, bytes) in [("film", &film), ("fresh", &fresh)] {
        eventually("the reader has them", DECIDED, || read(&other, name).is_ok_and(|found| found == *bytes));
    }
    let listed = home.wayfs(&machine, &["conflicts", "list", "--json"]).json();
    assert_eq!(listed["conflicts"].as_array().map(Vec::len), Some(0), "{listed}");
}

/// Who accepts a loss loses nothing that somebody has who is there: a reader that is on no record is asked first.
#[test]
fn a_loss_is_not_accepted_before_readers_were_asked() {
    let machine = Machine::new("home");
    let Some(disk) = SmallDisk::sized(&machine.path("data"), SmallDisk::TINY) else { return };
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let (laptop, reader) = (Machine::new("ann"), Machine::new("bob"));
    let mut mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    let other = reader.mount(&home.ticket(&machine, "work"), &[]);
    let len = (SmallDisk::TINY as usize + 8) << 20;
    let (seen, unseen) = (noise(len, 6), noise(len, 7));
    fs::write(mount.path("seen"), &seen).unwrap();
    fs::write(mount.path("unseen"), &unseen).unwrap();
    eventually("the reader has the first", SEEN, || read(&other, "seen").is_ok_and(|bytes| bytes == seen));
    // Clean copies give way where the disk has little room.
    other.wayfs(&reader, &["pin", other.path("seen").to_str().unwrap()]).ok();
    mount.kill();
    fs::rename(laptop.path("cache"), laptop.path("gone")).unwrap();
    disk.grow();

    let accept =
        |more: &[&str]| home.wayfs(&machine, &[&["volume", "accept-loss", "work", "--json"][..], more].concat());
    eventually("the home waits for two files of one who is away", SEEN, || {
        accept(&["--dry-run"]).ok().json()["contents"].as_array().is_some_and(|contents| contents.len() == 2)
    });
    let declared = accept(&[]).ok().json();
    assert_eq!(declared["left"], 1, "the reader has it: {declared}");
    let contents = declared["contents"].as_array().unwrap();
    assert!(contents.len() == 1 && contents[0]["path"].as_str().unwrap().ends_with("unseen"), "{declared}");
    let newcomer = Machine::new("eve");
    let mount = newcomer.mount(&home.ticket(&machine, "work"), &[]);
    drop(other);
    eventually("everybody has it from the home", DECIDED, || read(&mount, "seen").is_ok_and(|bytes| bytes == seen));
    assert_eq!(read(&mount, "unseen").unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
}

/// [S-losses] What the home kept in case newer bytes are lost is read before it is shown, also where somebody gives those up by word.
#[test]
fn what_rotted_is_not_shown_when_a_loss_is_accepted() {
    let machine = Machine::new("home");
    let Some(disk) = SmallDisk::sized(&machine.path("data"), SmallDisk::TINY) else { return };
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let (laptop, reader) = (Machine::new("ann"), Machine::new("bob"));
    let mut mount = laptop.mount(&home.ticket(&machine, "work"), &[]);
    let other = reader.mount(&home.ticket(&machine, "work"), &[]);
    let old = noise(400_000, 8);
    fs::write(mount.path("film"), &old).unwrap();
    mount.sync(&laptop, "stable");
    let len = (SmallDisk::TINY as usize + 8) << 20;
    fs::write(mount.path("film"), noise(len, 9)).unwrap();
    let is_seen = || fs::metadata(other.path("film")).is_ok_and(|found| found.len() == len as u64);
    eventually("the reader sees the newer one", SEEN, is_seen);
    mount.kill();
    fs::rename(laptop.path("cache"), laptop.path("gone")).unwrap();
    disk.grow();

    let accept =
        |more: &[&str]| home.wayfs(&machine, &[&["volume", "accept-loss", "work", "--json"][..], more].concat());
    eventually("the home waits for one who is away, and has what it was before", SEEN, || {
        accept(&["--dry-run"]).ok().json()["contents"][0]["has_older"] == true
    });
    assert_eq!(rot(&chunks_of(&home), &old), 1);
    let declared = accept(&[]).ok().json();
    assert_eq!(declared["contents"].as_array().unwrap().len(), 1, "{declared}");
    assert_eq!(declared["contents"][0]["has_older"], false, "what it was before is nowhere: {declared}");
    let info = || other.wayfs(&reader, &["info", other.path("film").to_str().unwrap(), "--json"]).json();
    eventually("the reader hears of it", SEEN, || info()["lost"]["shows_older"] == false);
    assert_eq!(read(&other, "film").unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
}
