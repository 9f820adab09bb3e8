//! Contents over lines that take longer for a chunk than anybody waits in silence.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "../../net/tests/net/proxy.rs"]
#[expect(dead_code, reason = "the tests of the transport need more faults")]
mod proxy;

use proxy::Proxy;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use wayfs_node::testing::{Machine, eventually, noise};
use wayfs_node::{ChildRole, FetchError};
use wayfs_types::request::Level;
use wayfs_types::{FileId, Inode};

/// Of one chunk.
const LEN: usize = 250_000;

/// A home with a file of one chunk, and a line to it of so many bytes per second.
struct Site {
    home: Machine,
    photo: Vec<u8>,
    line: Proxy,
    // Ends after the line.
    _runtime: Runtime,
}

impl Site {
    fn new(dir: &Path, bytes_per_second: u32) -> Self {
        let home = Machine::home(&dir.join("home"));
        let writer = Machine::below(&home, &dir.join("writer"), ChildRole::Client, &[&home]);
        let photo = noise(LEN, 31);
        writer.write("photo", &photo);
        writer.wait(Level::Stable);
        let runtime = Runtime::new().unwrap();
        let line = runtime.block_on(Proxy::start(home.endpoint.local_addr().unwrap()));
        line.limit(bytes_per_second);
        Self { home, photo, line, _runtime: runtime }
    }

    /// A machine at the other end of the line.
    fn beyond(&self, directory: &Path, role: ChildRole) -> Machine {
        let mut plan = Machine::plan_below(&self.home, directory, role, &[&self.home]);
        plan.servers[0].addresses = vec![self.line.addr().into()];
        Machine::start(plan)
    }
}

fn see(machine: &Machine) -> (FileId, Inode) {
    let has_it = || machine.find(FileId::ROOT, "photo").filter(|(_, inode)| inode.content.size() == LEN as u64);
    eventually("it sees the file", || has_it().is_some());
    has_it().unwrap()
}

fn fetch(machine: &Machine, (file, inode): &(FileId, Inode), patience: Duration) -> Result<(), FetchError> {
    machine.volume.fetch(*file, inode.version, &[inode.content.root().unwrap()], patience)
}

#[test]
fn a_wait_goes_on_as_long_as_bytes_come() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::new(dir.path(), 50_000);
    let reader = site.beyond(&dir.path().join("reader"), ChildRole::Client);
    let seen = see(&reader);
    fetch(&reader, &seen, Duration::from_millis(1500)).unwrap();
    assert_eq!(reader.read("photo").map(|bytes| bytes == site.photo), Ok(true));
}

#[test]
fn a_wait_goes_on_as_long_as_bytes_come_to_who_gets_them_for_us() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::new(dir.path(), 30_000);
    let station = site.beyond(&dir.path().join("station"), ChildRole::Station);
    see(&station);
    let reader = Machine::below(&site.home, &dir.path().join("reader"), ChildRole::Client, &[&station]);
    let seen = see(&reader);
    fetch(&reader, &seen, Duration::from_secs(4)).unwrap();
    // The last bytes go on before the station has kept them.
    let root = seen.1.content.root().unwrap();
    eventually("it came by way of the station", || station.volume.contents().has(&root));
}

#[test]
fn a_wait_ends_when_nothing_comes_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::new(dir.path(), 50_000);
    let reader = site.beyond(&dir.path().join("reader"), ChildRole::Client);
    let seen = see(&reader);
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| fetch(&reader, &seen, Duration::from_millis(1500)));
        // Some bytes come first; whether they do changes nothing.
        std::thread::sleep(Duration::from_secs(1));
        site.line.cut();
        assert_eq!(fetching.join().unwrap(), Err(FetchError::TimedOut));
    });
}
