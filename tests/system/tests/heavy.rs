//! Big directories and big files. The full sizes (1,000,000 entries, 5 GiB) take minutes and run with
//! `WAYFS_HEAVY=1`; without it the same tests run small.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, within};

fn heavy() -> bool {
    std::env::var_os("WAYFS_HEAVY").is_some()
}

fn volume() -> (Machine, Server, Machine, Mount) {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    (home, server, client, mount)
}

#[test]
fn a_huge_directory_works_and_its_entries_cost_what_any_entry_costs() {
    let entries = if heavy() { 1_000_000 } else { 20_000 };
    let (home, server, client, mount) = volume();
    let directory = mount.path("huge");
    let made = directory.clone();
    within("make the entries", Duration::from_secs(1800), move || {
        fs::create_dir(&made).unwrap();
        for n in 0..entries {
            File::create(made.join(format!("entry-{n:07}"))).unwrap();
        }
    });
    let sync = client
        .command()
        .env("WAYFS_AT", mount.root())
        .args(["sync", "--until", "visible", "--timeout", "900"])
        .status();
    assert!(sync.is_ok_and(|status| status.success()), "all entries reach the home");
    let other = Machine::new("other");
    let there = other.mount(&server.ticket(&home, "work"), &[]);
    let listed = there.path("huge");
    let (first, count) = within("list at another client", Duration::from_secs(900), move || {
        let first = fs::metadata(listed.join("entry-0012345")).is_ok();
        assert!(fs::metadata(listed.join("nothing")).is_err());
        (first, fs::read_dir(&listed).unwrap().map(|entry| entry.unwrap()).count())
    });
    assert!(first, "one entry is found before the directory is listed");
    assert_eq!(count, entries);
    fs::remove_file(directory.join("entry-0012345")).unwrap();
    let gone = there.path("huge/entry-0012345");
    eventually("the other client sees one removal", Duration::from_secs(20), || !gone.exists());
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
    let (_home, _server, client, mount) = volume();
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
    let before = metric(&mount, &client, "wayfs_content_sent_bytes_total");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0x55; 4096], size / 2).unwrap();
    drop(file);
    mount.sync(&client, "safe");
    let shipped = metric(&mount, &client, "wayfs_content_sent_bytes_total") - before;
    assert!(shipped > 4095.0, "the change was shipped: {shipped}");
    assert!(shipped < 4.0 * 1024.0 * 1024.0, "closing shipped {shipped} bytes");
    let mut block = [0; 4096];
    File::open(&path).unwrap().read_exact_at(&mut block, size / 2).unwrap();
    assert_eq!(block, [0x55; 4096]);
}
