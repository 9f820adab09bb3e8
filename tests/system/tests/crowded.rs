//! A file with more names than its row lists (`docs/decisions/0037-names-as-keys-of-their-own.md`) behaves by each of its names as
//! any file does: for members with a part, watchers, pins, conflicts and clients that move.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);
/// Names of the file: three times as many as are listed.
const NAMES: usize = 12;

/// A home and a station of its volume `work`.
struct Sites {
    home: Machine,
    server: Server,
    _site: Machine,
    station: Server,
}

impl Sites {
    fn new() -> Self {
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", "work"]).ok();
        let site = Machine::new("site");
        let station = site.serve(free_port(), &[]);
        station.wayfs(&site, &["station", "join", &server.station_ticket(&home, "work")]).ok();
        Self { home, server, _site: site, station }
    }

    /// A mount with a ticket of these options, connected to the home.
    fn client(&self, name: &str, options: &[&str]) -> (Machine, Mount) {
        let arguments = [&["volume", "ticket", "work"], options].concat();
        let ticket = self.server.wayfs(&self.home, &arguments).ok().out.trim().to_owned();
        let machine = Machine::new(name);
        let mount = machine.mount(&ticket, &[]);
        choose(&machine, &mount, self.server.port);
        (machine, mount)
    }
}

/// Has a client use a server.
fn choose(machine: &Machine, mount: &Mount, port: u16) {
    eventually("the client uses the server", SEEN, || {
        mount.wayfs(machine, &["station", "use", &format!("127.0.0.1:{port}")]).status.success()
            && mount.wayfs(machine, &["status", "--json"]).out.contains(&format!(":{port}"))
    });
}

/// Makes `count` directories `DIRECTORY-N` with a name of one file each. The last ones are not among those that the file lists.
fn crowd(mount: &Mount, text: &str) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = (0..NAMES).map(|number| mount.path(&format!("dir-{number:02}/name-{number}"))).collect();
    for path in &paths {
        fs::create_dir(path.parent().unwrap()).unwrap();
    }
    fs::write(&paths[0], text).unwrap();
    for path in &paths[1..] {
        fs::hard_link(&paths[0], path).unwrap();
    }
    paths
}

/// The same path on another mount.
fn at(mount: &Mount, other: &Mount, path: &Path) -> PathBuf {
    other.root().join(path.strip_prefix(mount.root()).unwrap())
}

fn reads(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == text)
}

fn links(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.nlink())
}

fn conflict_copies(mount: &Mount) -> Vec<PathBuf> {
    let directories = fs::read_dir(mount.root()).unwrap().map(|entry| entry.unwrap().path());
    let entries = directories.filter(|path| path.is_dir()).flat_map(|path| fs::read_dir(path).unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.to_string_lossy().contains(".conflict-")).collect()
}

/// Proves [S-limits]: what names of a crowded file a member sees is said by where they are, not by which of them the file lists.
#[test]
fn a_member_with_a_part_sees_the_names_there_of_a_crowded_file_and_no_others() {
    let sites = Sites::new();
    let (owner, all) = sites.client("owner", &[]);
    let paths = crowd(&all, "first");
    all.sync(&owner, "stable");
    let last = paths.last().unwrap();
    let part = last.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let (guest, some) = sites.client("guest", &["--path", &format!("/{part}")]);
    let seen = at(&all, &some, last);
    eventually("the guest reads it", SEEN, || reads(&seen, "first"));
    let shown: Vec<_> = fs::read_dir(some.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(shown, [part.as_str()], "and no other directory");
    fs::write(&seen, "by the guest").unwrap();
    some.sync(&guest, "stable");
    eventually("the owner reads it by every name", SEEN, || paths.iter().all(|path| reads(path, "by the guest")));
    // One more name in the part is seen; when the last one leaves, the file is gone there.
    fs::hard_link(&paths[0], last.with_file_name("second")).unwrap();
    eventually("the guest sees the second name", SEEN, || reads(&seen.with_file_name("second"), "by the guest"));
    fs::remove_file(last.with_file_name("second")).unwrap();
    fs::rename(last, all.path("dir-00/moved")).unwrap();
    eventually("it left the part", SEEN, || fs::read_dir(seen.parent().unwrap()).unwrap().count() == 0);
    fs::write(all.path("dir-00/moved"), "in secret").unwrap();
    all.sync(&owner, "stable");
    fs::rename(all.path("dir-00/moved"), last).unwrap();
    eventually("it is there again", SEEN, || reads(&seen, "in secret"));
    assert_eq!((links(last), conflict_copies(&all)), (NAMES as u64, vec![]));
}

/// Proves [S-watch].
#[test]
fn who_watches_one_name_of_a_crowded_file_hears_of_changes_by_another() {
    let sites = Sites::new();
    let (owner, here) = sites.client("owner", &[]);
    let (_other, there) = sites.client("other", &[]);
    let paths = crowd(&here, "first");
    here.sync(&owner, "visible");
    let watched = at(&here, &there, paths.last().unwrap());
    eventually("the other reads it", SEEN, || reads(&watched, "first"));
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, watched.parent().unwrap(), WatchFlags::ALL_EVENTS).unwrap();
    let hears = |what: &str, flag: ReadFlags, name: &str| {
        eventually(what, SEEN, || {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(&watch, &mut buffer);
            std::iter::from_fn(|| {
                reader.next().ok().map(|event| {
                    let told = event.file_name().map(|name| name.to_string_lossy().into_owned());
                    event.events().contains(flag) && told.as_deref() == Some(name)
                })
            })
            .any(|is_it| is_it)
        });
    };
    let name = watched.file_name().unwrap().to_string_lossy().into_owned();
    fs::write(&paths[0], "second").unwrap();
    hears("the change by the first name", ReadFlags::MODIFY, &name);
    fs::hard_link(&paths[1], at(&there, &here, &watched).with_file_name("another")).unwrap();
    hears("one more name", ReadFlags::CREATE, "another");
    fs::remove_file(paths.last().unwrap()).unwrap();
    hears("the end of the name", ReadFlags::DELETE, &name);
    eventually("it reads on by the other name", SEEN, || reads(&watched.with_file_name("another"), "second"));
}

/// Proves [S-pin]: a pinned directory keeps what stands in it, whether the file lists that name or not.
#[test]
fn a_pinned_name_of_a_crowded_file_keeps_it() {
    let sites = Sites::new();
    let (owner, here) = sites.client("owner", &[]);
    let (other, there) = sites.client("other", &[]);
    let text: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
    let paths = crowd(&here, &text);
    fs::write(paths[0].with_file_name("beside"), "beside").unwrap();
    here.sync(&owner, "stable");
    let [first, pinned] = [&paths[0], &paths[NAMES - 1]].map(|path| at(&here, &there, path));
    eventually("the other sees it", SEEN, || pinned.exists() && first.with_file_name("beside").exists());
    there.wayfs(&other, &["pin", &pinned.parent().unwrap().to_string_lossy()]).ok();
    let info = |path: &Path| there.wayfs(&other, &["info", "--json", &path.to_string_lossy()]).ok().json();
    for name in [&first, &pinned] {
        let (told, len) = (info(name), Some(text.len() as u64));
        assert_eq!((told["cached_bytes"].as_u64(), told["pinned"].as_bool()), (len, Some(true)), "{told}");
    }
    assert_eq!(info(&first.with_file_name("beside"))["pinned"].as_bool(), Some(false));
    there.wayfs(&other, &["offline"]).ok();
    assert!(reads(&pinned, &text), "without a network");
}

/// Proves [S-dirty-handle], [S-offline]: two that wrote a crowded file by different names leave both versions, and all names.
#[test]
fn two_that_wrote_a_crowded_file_leave_one_conflict_copy() {
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", &[]);
    let (b_machine, b) = sites.client("b", &[]);
    let paths = crowd(&a, "first");
    a.sync(&a_machine, "stable");
    let theirs: Vec<PathBuf> = paths.iter().map(|path| at(&a, &b, path)).collect();
    eventually("B reads all names", SEEN, || theirs.iter().all(|path| reads(path, "first")));
    for (machine, mount, path, text) in
        [(&a_machine, &a, &paths[0], "from A"), (&b_machine, &b, &theirs[NAMES - 1], "from B")]
    {
        mount.wayfs(machine, &["offline"]).ok();
        fs::write(path, text).unwrap();
    }
    // B's other names come and go meanwhile.
    fs::remove_file(&theirs[0]).unwrap();
    fs::hard_link(&theirs[NAMES - 1], theirs[1].with_file_name("more")).unwrap();
    for (machine, mount) in [(&a_machine, &a), (&b_machine, &b)] {
        mount.wayfs(machine, &["auto"]).ok();
        mount.sync(machine, "stable");
    }
    for mount in [&a, &b] {
        eventually("one copy", SEEN, || conflict_copies(mount).len() == 1);
        eventually("it holds what B wrote", SEEN, || reads(&conflict_copies(mount)[0], "from B"));
        eventually("every name is A's", SEEN, || {
            (1..NAMES).all(|number| reads(&mount.path(&format!("dir-{number:02}/name-{number}")), "from A"))
                && reads(&mount.path("dir-01/more"), "from A")
                && links(&mount.path("dir-01/more")) == NAMES as u64
        });
    }
}

/// Proves [S-move]: names that were made and removed around a move to another server are those of all.
#[test]
fn names_of_a_crowded_file_move_along() {
    let sites = Sites::new();
    let (owner, here) = sites.client("owner", &[]);
    let (other, there) = sites.client("other", &[]);
    let paths = crowd(&here, "first");
    here.sync(&owner, "visible");
    let theirs: Vec<PathBuf> = paths.iter().map(|path| at(&here, &there, path)).collect();
    eventually("the other reads all names", SEEN, || theirs.iter().all(|path| reads(path, "first")));
    for round in 0..4 {
        let (made, gone) = (paths[round].with_file_name("made"), &paths[NAMES - 1 - round]);
        fs::hard_link(&paths[5], &made).unwrap();
        choose(&owner, &here, [sites.station.port, sites.server.port][round % 2]);
        fs::remove_file(gone).unwrap();
        fs::write(&paths[5], format!("round {round}")).unwrap();
        assert!(reads(&made, &format!("round {round}")) && !gone.exists(), "nothing is undone by the move");
        here.sync(&owner, "visible");
        there.wayfs(&other, &["refresh"]).ok();
        eventually("the other sees the same", SEEN, || {
            reads(&theirs[round].with_file_name("made"), &format!("round {round}"))
                && !theirs[NAMES - 1 - round].exists()
                && links(&theirs[5]) == NAMES as u64
        });
    }
    assert_eq!((links(&paths[5]), conflict_copies(&here)), (NAMES as u64, vec![]));
}
