//! What the driver costs, on loopback: local answers, changes, the way to safety, pushes and fetches.
//!
//! `cargo run --release -p wayfs-node --example measure`

use std::time::{Duration, Instant};
use wayfs_node::ChildRole;
use wayfs_node::testing::{Machine, create, name, noise};
use wayfs_types::request::{Change, Level, Request};
use wayfs_types::{Content, FileId, WallTime};

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = Machine::home(&dir.path().join("home"));
    let client = Machine::below(&home, &dir.path().join("client"), ChildRole::Client, &[&home]);
    client.write("known", b"x");
    client.wait(Level::Stable);
    client.learn_root();
    let local = per_call(100_000, |_| {
        client.ask(Request::Lookup { parent: FileId::ROOT, name: name("known") }).expect("an answer");
    });
    println!("lookup, known here: {local:?}");
    let made = per_call(5_000, |i| {
        client.change(create(&format!("made{i}")));
    });
    println!("create, answered: {made:?}");
    client.wait(Level::Stable);
    let (file, inode) = client.change(create("safe"));
    let mut base = inode.version;
    let safe = per_call(200, |i| {
        let content = Content::Inline(bytes::Bytes::from(noise(4000, i)));
        let (_, inode) = client.change(Change::Store { file, base, content, mtime: WallTime::EPOCH });
        base = inode.version;
        client.wait(Level::Safe);
    });
    println!("store 4000 bytes until safe: {safe:?}");
    let session = client.volume.sessions().into_iter().next().expect("a session");
    println!("round trip: {:?}", session.rtt);
    let pushed = per_call(100, |i| {
        client.write(&format!("push{i}"), &noise(100_000, i));
        client.wait(Level::Safe);
    });
    println!("store 100 kB until safe: {pushed:?}");
    let film = noise(256 << 20, 1);
    let started = Instant::now();
    client.write("film", &film);
    println!("256 MiB chunked and kept: {:?}", started.elapsed());
    let started = Instant::now();
    while !client.volume.look(|replica| replica.is_settled()).unwrap_or(false) {
        assert!(started.elapsed() < Duration::from_secs(120), "the film is not pushed in time");
        std::thread::sleep(Duration::from_millis(5));
    }
    rate("256 MiB pushed", started.elapsed());
    let other = Machine::below(&home, &dir.path().join("other"), ChildRole::Client, &[&home]);
    let started = Instant::now();
    let read = other.read("film").expect("the film");
    assert!(read == film);
    rate("256 MiB fetched and read", started.elapsed());
}

fn rate(what: &str, took: Duration) {
    println!("{what}: {took:?}, {:.0} MB/s", (256 << 20) as f64 / 1e6 / took.as_secs_f64());
}

fn per_call(count: u64, mut call: impl FnMut(u64)) -> Duration {
    let started = Instant::now();
    for i in 0..count {
        call(i);
    }
    started.elapsed() / u32::try_from(count).unwrap_or(u32::MAX)
}
