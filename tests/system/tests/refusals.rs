//! Bad input gets a clear error that says what to do, and nothing is lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, Mount, Server, eventually, free_port};

/// Longest wait for anything between machines.
const BOUND: Duration = Duration::from_secs(90);

/// The command failed with a message that names the trouble, and no panic.
fn refused(finished: &Finished, words: &[&str]) {
    assert!(!finished.status.success(), "it succeeded: {}", finished.out);
    let text = finished.err.to_lowercase();
    assert!(!text.contains("panicked"), "{}", finished.err);
    assert!(words.iter().any(|word| text.contains(word)), "none of {words:?} in: {}", finished.err);
}

#[test]
fn malformed_tickets_are_refused_by_what_is_wrong_with_them() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let ticket = server.ticket(&home, "work");
    let client = Machine::new("client");
    let directory = client.path("mnt");
    fs::create_dir(&directory).unwrap();
    let directory = directory.to_str().unwrap();
    let cut = &ticket[..ticket.len() - 7];
    refused(&client.wayfs(&["mount", cut, directory]), &["ticket"]);
    let mut wrong = ticket.clone();
    let last = wrong.pop().unwrap();
    wrong.push(if last == 'a' { 'b' } else { 'a' });
    refused(&client.wayfs(&["mount", &wrong, directory]), &["ticket"]);
}

#[test]
fn a_ticket_admits_one_machine_once() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let ticket = server.ticket(&home, "work");
    let (first, second) = (Machine::new("first"), Machine::new("second"));
    let _mount = first.mount(&ticket, &[]);
    let directory = second.path("mnt");
    fs::create_dir(&directory).unwrap();
    let cache = second.path("cache");
    let arguments = ["mount", &ticket, directory.to_str().unwrap(), "--cache", cache.to_str().unwrap()];
    refused(&second.wayfs(&arguments), &["used", "spent", "ticket"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let machine = Machine::new("m");
    let data = machine.path("data");
    let listen = format!("127.0.0.1:{port}");
    let finished = machine.wayfs(&["serve", "--data", data.to_str().unwrap(), "--listen", &listen]);
    refused(&finished, &["in use"]);
    assert!(finished.err.contains(&port.to_string()), "{}", finished.err);
}

#[test]
fn a_data_directory_serves_one_process() {
    let machine = Machine::new("m");
    let server = machine.serve(free_port(), &[]);
    let listen = format!("127.0.0.1:{}", free_port());
    let data = server.data.to_str().unwrap().to_owned();
    refused(&machine.wayfs(&["serve", "--data", &data, "--listen", &listen]), &["in use", "lock", "already"]);
}

#[test]
fn a_newer_data_directory_is_left_alone() {
    refused(&served_as_of_format(9), &["format", "newer", "version"]);
}

#[test]
fn a_data_directory_from_before_the_first_release_is_left_alone() {
    for version in [1, 2] {
        refused(&served_as_of_format(version), &["copy the files out"]);
    }
}

/// What a server says of a data directory that calls itself one of another format.
fn served_as_of_format(version: u32) -> Finished {
    let machine = Machine::new("m");
    let mut server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    server.process.kill();
    let formats: Vec<_> =
        walk(&server.data).into_iter().filter(|path| path.file_name().is_some_and(|n| n == "FORMAT")).collect();
    assert!(!formats.is_empty(), "a data directory says its format");
    for format in &formats {
        let text = fs::read_to_string(format).unwrap();
        let (line, _) = text.trim_end().rsplit_once(' ').unwrap();
        assert!(line.contains(" 3 "), "{line}: the format has another number by now");
        let line = line.replacen(" 3 ", &format!(" {version} "), 1);
        // With a sum that fits: a damaged file would stop that volume alone.
        fs::write(format, format!("{line} {:08x}\n", crc32(line.as_bytes()))).unwrap();
    }
    let listen = format!("127.0.0.1:{}", free_port());
    machine.wayfs(&["serve", "--data", server.data.to_str().unwrap(), "--listen", &listen])
}

/// The sum of Ethernet and gzip, which these files end with.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn walk(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).expect("list a directory").flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.extend(walk(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn a_mount_point_must_be_there_and_be_a_directory() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let cache = client.path("cache");
    let missing = client.path("missing");
    let ticket = server.ticket(&home, "work");
    let mount = |directory: &str| client.wayfs(&["mount", &ticket, directory, "--cache", cache.to_str().unwrap()]);
    refused(&mount(missing.to_str().unwrap()), &["does not exist", "no such", "missing"]);
    let file = client.path("file");
    fs::write(&file, "").unwrap();
    refused(&mount(file.to_str().unwrap()), &["not a directory"]);
    // Neither attempt spent the ticket.
    let _mounted = client.mount(&ticket, &[]);
}

#[test]
fn garbage_on_the_port_disturbs_nobody() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 0..2000_u32 {
        let bytes: Vec<u8> = (0..n % 1400).map(|b| (b.wrapping_mul(n) >> 3) as u8).collect();
        socket.send_to(&bytes, ("127.0.0.1", server.port)).unwrap();
    }
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("f"), "works").unwrap();
}

#[test]
fn tools_without_a_daemon_say_so() {
    let machine = Machine::new("m");
    let nowhere = machine.path("nowhere");
    let finished = machine.wayfs(&["--at", nowhere.to_str().unwrap(), "status"]);
    refused(&finished, &["no daemon", "not running", "nothing", "no wayfs"]);
}

#[test]
fn an_unknown_volume_is_named() {
    let machine = Machine::new("m");
    let server = machine.serve(free_port(), &[]);
    refused(&server.wayfs(&machine, &["volume", "ticket", "nonesuch"]), &["nonesuch"]);
}

#[test]
fn a_revoked_machine_is_refused() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("f"), "before").unwrap();
    mount.sync(&client, "visible");
    revoke_client(&server, &home);
    fs::write(mount.path("f"), "after").unwrap();
    let sync = mount.wayfs(&client, &["sync", "--until", "safe", "--timeout", "3"]);
    assert!(!sync.status.success(), "a revoked machine's writes go nowhere");
}

fn revoke_client(server: &Server, home: &Machine) {
    let members = server.wayfs(home, &["volume", "members", "work", "--json"]).ok().json();
    let list = members["members"].as_array().cloned().unwrap_or_else(|| panic!("{members}"));
    let client = list.iter().find(|member| member["label"].as_str().is_some_and(|label| label.contains("client")));
    let origin = client.and_then(|member| member["origin"].as_u64()).unwrap_or_else(|| panic!("no client: {members}"));
    server.wayfs(home, &["volume", "revoke", "work", &origin.to_string()]).ok();
}

/// Proves [S-taken-in-again].
#[test]
fn a_revoked_machine_with_a_new_ticket_sends_what_it_wrote_meanwhile() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let (client, reader) = (Machine::new("client"), Machine::new("reader"));
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&client, "visible");
    revoke_client(&server, &home);
    let word = |mount: &Mount| mount.wayfs(&client, &["status", "--json"]).ok().out;
    eventually("it hears of it", BOUND, || word(&mount).contains("needs-attention"));
    fs::create_dir(mount.path("meanwhile")).unwrap();
    fs::write(mount.path("meanwhile/note"), "a note").unwrap();
    fs::write(mount.path("meanwhile/film"), vec![7; 600_000]).unwrap();
    let root = mount.root().to_str().unwrap().to_owned();
    // It says by its exit code that something is not sent.
    client.wayfs(&["umount", &root]);
    drop(mount);

    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    mount.sync(&client, "stable");
    let other = reader.mount(&server.ticket(&home, "work"), &[]);
    eventually("all that was written is seen", BOUND, || {
        fs::read(other.path("meanwhile/film")).is_ok_and(|bytes| bytes == vec![7; 600_000])
    });
    assert_eq!(fs::read_to_string(other.path("meanwhile/note")).unwrap(), "a note");
    assert_eq!(fs::read_to_string(other.path("before")).unwrap(), "before");
}

/// Proves [S-umount].
#[test]
fn unmounting_with_unsent_updates_is_loud_and_loses_nothing() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&client, "visible");
    mount.wayfs(&client, &["offline"]).ok();
    fs::write(mount.path("before"), "only here").unwrap();
    let root = mount.root().to_str().unwrap().to_owned();
    let flushed = client.wayfs(&["umount", "--flush", "--timeout", "2", &root]);
    assert!(!flushed.status.success(), "nothing could be flushed: {}", flushed.out);
    assert!(wayfs_system_tests::is_mounted(mount.root()), "a failed flush leaves it mounted");
    let plain = client.wayfs(&["umount", &root]);
    assert!(!wayfs_system_tests::is_mounted(mount.root()), "{} {}", plain.out, plain.err);
    drop(mount);
    let mount = client.mount("work", &[]);
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "only here");
    mount.wayfs(&client, &["auto"]).ok();
    mount.sync(&client, "visible");
}
