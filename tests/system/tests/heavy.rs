//! Big directories and big files. The full sizes (1,000,000 entries, 5 GiB) take minutes and run with
//! `WAYFS_HEAVY=1`; without it the same tests run small.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_system_tests::{Machine, Mount, World, eventually, free_port, within};

fn heavy() -> bool {
    std::env::var_os("WAYFS_HEAVY").is_some()
}

/// Most memory of any daemon, in KiB: the caches of its stores and of its lists, and nothing that grows with a volume.
const MEMORY_MAX_KIB: u64 = 1 << 20;

#[test]
fn a_huge_directory_works_and_its_entries_cost_what_any_entry_costs() {
    let entries = if heavy() { 1_000_000 } else { 20_000 };
    let mut world = World::default();
    let directory = world.mount.path("huge");
    within("make the entries", Duration::from_secs(1800), move || make_entries(&directory, entries));
    let mut sync = world.client.command();
    sync.env("WAYFS_AT", world.mount.root()).args(["sync", "--until", "visible", "--timeout", "900"]);
    let sync = sync.status();
    assert!(sync.is_ok_and(|status| status.success()), "all entries reach the home");

    let station = Machine::new("station");
    let serving = station.serve(free_port(), &[]);
    serving.wayfs(&station, &["station", "join", &world.server.station_ticket(&world.home, "work")]).ok();
    let (other, there) = world.other("other");
    let address = format!("127.0.0.1:{}", serving.port);
    eventually("the other client uses the station", Duration::from_secs(600), || {
        there.wayfs(&other, &["station", "use", &address]).status.success()
    });
    let listed = there.path("huge");
    let (first, count) = within("list at another client", Duration::from_secs(900), move || {
        let first = fs::metadata(listed.join("entry-0012345")).is_ok();
        assert!(fs::metadata(listed.join("nothing")).is_err());
        (first, count(&listed))
    });
    assert!(first, "one entry is found before the directory is listed");
    assert_eq!(count, entries);
    let removed = world.mount.path("huge/entry-0012345");
    within("remove one", Duration::from_secs(30), move || fs::remove_file(removed).unwrap());
    let gone = there.path("huge/entry-0012345");
    eventually("the other client sees one removal", Duration::from_secs(60), || !gone.exists());

    for (name, process) in [
        ("home", &world.server.process),
        ("station", &serving.process),
        ("client", &world.mount.process),
        ("other client", &there.process),
    ] {
        let memory = memory_kib(process.id());
        println!("memory of the {name}: {} MiB", memory >> 10);
        assert!(memory < MEMORY_MAX_KIB, "memory of the {name}: {memory} KiB");
    }
    restart(&mut world, entries - 1);
}

/// Both come back with what they had.
fn restart(world: &mut World, entries: usize) {
    let begun = Instant::now();
    world.mount.kill();
    world.server.process.kill();
    world.server = world.home.serve(world.server.port, &[]);
    println!("the home served again after {:?}", begun.elapsed());
    world.mount = world.client.mount("work", &[]);
    println!("the volume was mounted again after {:?}", begun.elapsed());
    let again = world.mount.path("huge");
    let count = within("list after a restart", Duration::from_secs(900), move || count(&again));
    println!("and listed after {:?}", begun.elapsed());
    assert_eq!(count, entries);
}

fn make_entries(directory: &Path, entries: usize) {
    fs::create_dir(directory).expect("make the directory");
    let step = entries / 20;
    for part in 0..20 {
        let begun = Instant::now();
        for n in part * step..(part + 1) * step {
            File::create(directory.join(format!("entry-{n:07}"))).expect("make an entry");
        }
        println!(
            "{} entries, the last {step} at {:.0}/s",
            (part + 1) * step,
            step as f64 / begun.elapsed().as_secs_f64()
        );
    }
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).expect("list").inspect(|entry| assert!(entry.is_ok(), "{entry:?}")).count()
}

fn memory_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a live process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a live process has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A number of the metrics page.
fn metric(mount: &Mount, client: &Machine, name: &str) -> f64 {
    let page = mount.wayfs(client, &["metrics"]).ok().out;
    let value = page.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{page}"))
}

/// Proves [S-edit-cost].
#[test]
fn closing_a_big_file_after_a_small_write_ships_about_the_small_write() {
    let size: u64 = if heavy() { 5 << 30 } else { 192 << 20 };
    let world = World::default();
    let World { client, mount, .. } = &world;
    let path = mount.path("big");
    let target = path.clone();
    within("write the big file", Duration::from_secs(900), move || {
        let mut file = File::create(&target).unwrap();
        let mut block = vec![0_u8; 1 << 20];
        for n in 0..size >> 20 {
            let mut state = n + 1;
            for word in block.chunks_exact_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&state.to_le_bytes());
            }
            file.write_all(&block).unwrap();
        }
    });
    let sync =
        client.command().env("WAYFS_AT", mount.root()).args(["sync", "--until", "safe", "--timeout", "900"]).status();
    assert!(sync.is_ok_and(|status| status.success()), "the big file becomes safe");
    let before = metric(mount, client, "wayfs_content_sent_bytes_total");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0x55; 4096], size / 2).unwrap();
    drop(file);
    mount.sync(client, "safe");
    let shipped = metric(mount, client, "wayfs_content_sent_bytes_total") - before;
    assert!(shipped > 4095.0, "the change was shipped: {shipped}");
    assert!(shipped < 4.0 * 1024.0 * 1024.0, "closing shipped {shipped} bytes");
    let mut block = [0; 4096];
    File::open(&path).unwrap().read_exact_at(&mut block, size / 2).unwrap();
    assert_eq!(block, [0x55; 4096]);
}
