use crate::ChildRole;
use crate::contents::repair::Found;
use crate::parent::LinkState;
use crate::testing::{Machine, Plan, create, eventually, noise};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayfs_content::MemorySink;
use wayfs_proto::{Holder, Input, Replica, Role};
use wayfs_types::request::{Change, Level};
use wayfs_types::{Content, Digest, FileId, Inode, RecordId, WallTime};

#[test]
fn a_large_file_is_pushed_and_fetched_whole() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let a = Machine::below(&home, &dir.path().join("a"), ChildRole::Client, &[&home]);
    let b = Machine::below(&home, &dir.path().join("b"), ChildRole::Client, &[&home]);
    let film = noise(12 << 20, 4);
    a.write("film", &film);
    a.wait(Level::Stable);
    eventually("b sees it", || {
        b.find(FileId::ROOT, "film").is_some_and(|(_, inode)| inode.content.size() == film.len() as u64)
    });
    assert!(b.read("film").unwrap() == film);
}

#[test]
fn an_edit_ships_the_edit() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let a = Machine::below(&home, &dir.path().join("a"), ChildRole::Client, &[&home]);
    let mut film = noise(16 << 20, 5);
    a.write("film", &film);
    a.wait(Level::Stable);
    let before = a.volume.metrics().bytes_up.value();
    assert!(before >= 16 << 20);
    film[9_000_000] ^= 1;
    a.write("film", &film);
    a.wait(Level::Stable);
    let shipped = a.volume.metrics().bytes_up.value() - before;
    assert!(shipped < 3 << 20, "{shipped} bytes for one changed byte");
    assert!(home.read("film").unwrap() == film);
}

/// Counts back-fetches.
#[derive(Default)]
struct Counting(AtomicU64, Mutex<Vec<(FileId, RecordId)>>);

impl crate::Hooks for Counting {
    fn back_fetched(&self, file: FileId, version: RecordId) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.lock().unwrap().push((file, version));
    }
}

#[test]
fn a_reader_elsewhere_gets_contents_back_from_the_station() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let counting = Arc::new(Counting::default());
    let place = dir.path().join("s");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Station, &[&home]);
    plan.hooks = Arc::clone(&counting) as Arc<dyn crate::Hooks>;
    let station = Machine::start(plan);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let far = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[&home]);
    let photo = noise(900_000, 6);
    let (file, inode) = near.write("photo", &photo);
    near.wait(Level::Visible);
    let holder = home.volume.look(|replica| replica.holder(file, inode.version)).unwrap().unwrap();
    assert!(matches!(holder, Holder::Child(origin, _) if origin == station.origin()), "{holder:?}");
    eventually("far sees it", || {
        far.find(FileId::ROOT, "photo").is_some_and(|(_, inode)| inode.content.size() == 900_000)
    });
    assert!(far.read("photo").unwrap() == photo);
    assert!(counting.0.load(Ordering::Relaxed) > 0);
    eventually("the home holds it, too", || {
        home.volume.look(|replica| replica.holder(file, inode.version)) == Some(Ok(Holder::Here))
    });
}

#[test]
fn a_station_sends_contents_when_its_policy_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let (file, inode) = near.write("photo", &noise(90_000, 7));
    near.wait(Level::Safe);
    near.wait(Level::Visible);
    assert_eq!(station.volume.look(|replica| replica.holder(file, inode.version)), Some(Ok(Holder::Here)));
    station.volume.step(Input::Propagate { file, version: inode.version });
    near.wait(Level::Stable);
    assert_eq!(home.volume.look(|replica| replica.holder(file, inode.version)), Some(Ok(Holder::Here)));
}

#[test]
fn a_policy_sends_what_was_written_and_what_waited_before_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let at_home = |(file, inode): &(FileId, Inode)| {
        home.volume.look(|replica| replica.holder(*file, inode.version)) == Some(Ok(Holder::Here))
    };
    let place = dir.path().join("s");
    let plan = Machine::plan_below(&home, &place, ChildRole::Station, &[&home]);
    let (origin, servers, known) = (plan.origin, plan.servers.clone(), plan.home);
    let station = Machine::start(Plan { propagation: Some("on-demand".parse().unwrap()), ..plan });
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let before = near.write("before", &noise(90_000, 21));
    near.wait(Level::Visible);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!at_home(&before));
    drop(near);
    station.crash();
    let plan = Plan { servers, home: known, ..Plan::new(&place, Role::Station, origin) };
    let station = Machine::start(Plan { propagation: Some("write-through".parse().unwrap()), ..plan });
    eventually("what waited is sent", || at_home(&before));
    let near = Machine::below(&home, &dir.path().join("second"), ChildRole::Client, &[&station]);
    let after = near.write("after", &noise(90_000, 22));
    // A station that comes back calls nothing safe for a lease: who is away may have a copy.
    near.wait(Level::Visible);
    eventually("what was written is sent", || at_home(&after));
}

#[test]
fn whoever_waits_for_stable_makes_the_station_send() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    near.write("photo", &noise(90_000, 8));
    near.wait(Level::Stable);
    drop(station);
    assert!(home.read("photo").is_ok());
}

#[test]
fn contents_at_a_dead_station_are_an_error_and_not_a_hang() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let far = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[&home]);
    let (file, inode) = near.write("photo", &noise(90_000, 9));
    near.wait(Level::Safe);
    near.wait(Level::Visible);
    eventually("far sees it", || {
        far.find(FileId::ROOT, "photo").is_some_and(|(_, inode)| inode.content.size() == 90_000)
    });
    let node = station.endpoint.id();
    drop(near);
    station.crash();
    eventually("the home noticed", || home.volume.sessions().iter().all(|session| session.node != node));
    let root = inode.content.root().unwrap();
    let error = far.volume.fetch(file, inode.version, &[root], Duration::from_secs(2)).unwrap_err();
    assert!(matches!(error, crate::FetchError::Unreachable | crate::FetchError::TimedOut), "{error:?}");
}

/// A station knows the record of contents that its client could not push to it, and pushed at the home.
/// Proves [S-move-contents].
#[test]
fn what_a_client_was_to_push_and_pushed_elsewhere_is_read_by_way_of_the_parent() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home, &station]);
    let reader = Machine::below(&home, &dir.path().join("r"), ChildRole::Client, &[&station]);
    let link = writer.link.as_ref().unwrap();
    let moves_to = |server: &Machine| {
        link.pin(Some(server.endpoint.id()));
        eventually("it moved", || {
            let status = link.status();
            status.state == LinkState::Connected
                && status.parent.is_some_and(|parent| parent.node == server.endpoint.id())
        });
    };
    moves_to(&station);
    // The record goes its way, and the push ends at contents that the chunk store does not have yet.
    let photo = noise(90_000, 13);
    let content = wayfs_content::build(&Bytes::from(photo.clone()), &mut MemorySink::default()).unwrap();
    let (file, made) = writer.change(create("photo"));
    let store = Change::Store { file, base: made.version, content, mtime: WallTime::from_nanos(1) };
    let (_, inode) = writer.change(store);
    eventually("the home knows of it", || {
        let shown = home.volume.look(|replica| replica.inode(file)).unwrap().unwrap();
        shown.is_some_and(|shown| shown.version == inode.version)
    });
    let at_station = || station.volume.look(|replica| replica.holder(file, inode.version)).unwrap().unwrap();
    assert!(matches!(at_station(), Holder::Child(origin, Some(_)) if origin == writer.origin()), "{:?}", at_station());
    // The writer may have said by now that it has not got them; the next server asks again.
    writer.keep(&photo);
    moves_to(&home);
    writer.wait(Level::Stable);
    eventually("the reader sees it", || {
        reader.find(FileId::ROOT, "photo").is_some_and(|(_, inode)| inode.content.size() == 90_000)
    });
    // Whether or not the station has heard by now where they are.
    assert!(reader.read("photo").unwrap() == photo);
    eventually("the station counts them as home", || at_station() == Holder::Parent || at_station() == Holder::Here);
}

#[test]
fn many_who_want_one_chunk_make_one_request() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let a = Machine::below(&home, &dir.path().join("a"), ChildRole::Client, &[&home]);
    let b = Machine::below(&home, &dir.path().join("b"), ChildRole::Client, &[&home]);
    let (file, inode) = a.write("x", &noise(200_000, 10));
    a.wait(Level::Stable);
    eventually("b is connected", || b.volume.look(Replica::progress).is_some_and(|progress| progress.parent_up));
    let root = inode.content.root().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| b.volume.fetch(file, inode.version, &[root], crate::testing::PATIENCE).unwrap());
        }
    });
    assert!(b.volume.metrics().bytes_down.value() < 300_000);
}

#[test]
fn who_joins_a_search_that_is_given_up_goes_on_for_as_long_as_it_has_patience() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let far = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[&home]);
    let photo = noise(90_000, 15);
    let (file, inode) = near.write("photo", &photo);
    near.wait(Level::Visible);
    eventually("far sees it", || {
        far.find(FileId::ROOT, "photo").is_some_and(|(_, inode)| inode.content.size() == 90_000)
    });
    drop(near);
    station.crash();
    let root = inode.content.root().unwrap();
    let fetch = |patience| far.volume.fetch(file, inode.version, &[root], patience);
    std::thread::scope(|scope| {
        let hasty = scope.spawn(|| fetch(Duration::from_secs(1)));
        eventually("it is looked for", || far.volume.fetches_under_way() > 0);
        let patient = scope.spawn(|| fetch(crate::testing::PATIENCE));
        hasty.join().unwrap().unwrap_err();
        home.keep(&photo);
        patient.join().unwrap().unwrap();
    });
}

/// One below a station and one below the home look for what is at a dead station, and both join a search of the home's that ends
/// before theirs: the next one there is on behalf of one of them, and asks the other, that waits for it. Something else comes over
/// their lines meanwhile, a sign to each that it moves.
#[test]
fn two_who_look_for_what_nobody_can_give_are_not_kept_waiting_by_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let dead = Machine::below(&home, &dir.path().join("dead"), ChildRole::Station, &[&home]);
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&dead]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let far = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[&home]);
    let others = [("n", &near, 41), ("f", &far, 42)].map(|(name, writer, seed)| {
        let written = writer.write(name, &noise(90_000, seed));
        writer.wait(Level::Stable);
        written
    });
    let (file, inode) = writer.write("photo", &noise(90_000, 43));
    writer.wait(Level::Visible);
    eventually("both see it", || [&near, &far].iter().all(|reader| reader.find(FileId::ROOT, "photo").is_some()));
    drop(writer);
    let node = dead.endpoint.id();
    dead.crash();
    eventually("the home noticed", || home.volume.sessions().iter().all(|session| session.node != node));
    let root = inode.content.root().unwrap();
    let look = |machine: &Machine, seconds| {
        let (end, ended) = std::sync::mpsc::channel();
        let patience = Duration::from_secs(seconds);
        machine.volume.fetch_then(file, inode.version, vec![root], patience, move |result| {
            let _ = end.send(result);
        });
        ended
    };
    let first = look(&home, 2);
    eventually("the home looks for it", || home.volume.fetches_under_way() > 0);
    let both = [look(&near, 12), look(&far, 12)];
    first.recv().unwrap().unwrap_err();
    for (reader, (file, inode)) in [&far, &near].iter().zip(others) {
        reader.volume.fetch(file, inode.version, &[inode.content.root().unwrap()], crate::testing::PATIENCE).unwrap();
    }
    for ended in both {
        let error = ended.recv_timeout(Duration::from_secs(40)).expect("it ends").unwrap_err();
        assert!(matches!(error, crate::FetchError::Unreachable | crate::FetchError::TimedOut), "{error:?}");
    }
}

/// Flips one bit of some bytes wherever they lie in the chunks of a machine.
pub(super) fn flip_a_bit(machine: &Machine, bytes: &[u8]) {
    let mut flipped = 0;
    for entry in std::fs::read_dir(machine.store().join("chunks")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(mut kept) = std::fs::read(&path) else { continue };
        if let Some(at) = kept.windows(64).position(|window| window == &bytes[1000..1064]) {
            kept[at] ^= 1;
            std::fs::write(&path, kept).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1);
}

/// Proves [S-bit-rot].
#[test]
fn a_chunk_that_a_disk_damaged_is_got_back_from_whoever_has_it() {
    for damaged_station in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
        let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
        let photo = noise(900_000, 26);
        near.write("photo", &photo);
        near.wait(if damaged_station { Level::Visible } else { Level::Stable });
        let damaged = if damaged_station { &station } else { &home };
        flip_a_bit(damaged, &photo);
        let reader = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[damaged]);
        eventually("the reader sees it", || reader.find(FileId::ROOT, "photo").is_some());
        assert_eq!(reader.read("photo").map(|bytes| bytes == photo), Ok(true), "station: {damaged_station}");
    }
}

/// The former holder is there and has lost what it had: the next one on record is asked.
#[test]
fn all_who_are_on_record_are_asked_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let photo = noise(900_000, 27);
    let (file, inode) = near.write("photo", &photo);
    near.wait(Level::Visible);
    flip_a_bit(&station, &photo);
    let (origin, place) = (near.origin(), dir.path().join("near"));
    near.stop();
    let mut plan = Plan::new(&place, wayfs_proto::Role::Client, origin);
    plan.servers = vec![home.info()];
    let near = Machine::start(plan);
    near.link.as_ref().unwrap().pin(Some(home.endpoint.id()));
    eventually("both are on record", || {
        home.volume.look(|replica| replica.holders(file, inode.version)).unwrap().unwrap().len() == 2
    });
    assert_eq!(home.read("photo").map(|bytes| bytes == photo), Ok(true));
    drop(near);
}

/// Who is on record has lost it, and who read it is on no record.
#[test]
fn a_reader_who_is_on_no_record_is_asked_when_the_record_is_out_of_date() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let reader = Machine::below(&home, &dir.path().join("reader"), ChildRole::Client, &[&home]);
    let photo = noise(900_000, 29);
    let (file, inode) = near.write("photo", &photo);
    near.wait(Level::Visible);
    eventually("the reader sees it", || reader.find(FileId::ROOT, "photo").is_some());
    // As one who read it elsewhere, before it came here.
    reader.keep(&photo);
    flip_a_bit(&station, &photo);
    near.stop();
    let on_record = home.volume.look(|replica| replica.holders(file, inode.version)).unwrap().unwrap();
    assert!(matches!(on_record[..], [Holder::Child(origin, Some(_))] if origin == station.origin()), "{on_record:?}");
    assert_eq!(home.read("photo").map(|bytes| bytes == photo), Ok(true));
}

/// Nobody on record has it, and no single reader all of it: at the home, and below a station.
#[test]
fn what_several_readers_have_in_parts_is_put_together_before_it_is_declared_lost() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home]);
    let readers = [("r1", &home), ("r2", &station)]
        .map(|(name, parent)| Machine::below(&home, &dir.path().join(name), ChildRole::Client, &[parent]));
    let film = noise(6 << 20, 31);
    let (file, inode) = writer.write("film", &film);
    writer.wait(Level::Stable);
    writer.stop();
    let mut sink = MemorySink::default();
    wayfs_content::build(&Bytes::copy_from_slice(&film), &mut sink).unwrap();
    for (number, (digest, bytes)) in sink.chunks.iter().enumerate() {
        readers[number % 2].volume.contents().put(*digest, bytes.clone()).unwrap();
        home.volume.contents().store().unwrap().remove(digest).unwrap();
    }
    home.volume.step(Input::ContentGone { file, version: inode.version, content: inode.content.clone() });
    let is_here = || {
        let holder = home.volume.look(|replica| replica.holder(file, inode.version)).unwrap().unwrap();
        holder == Holder::Here
    };
    assert!(!is_here());
    eventually("the readers are there", || home.volume.sessions().len() == 2 && station.volume.sessions().len() == 2);
    home.volume.look_for_all(vec![(file, inode.version, inode.content.clone())]);
    eventually("the home has it again", is_here);
    assert!(home.read("film").unwrap() == film);
}

/// A list node may name one other in each of its places, and so on: what is stored of such a tree is little.
#[test]
fn a_tree_that_names_one_node_a_thousand_times_costs_one_look() {
    use wayfs_content::{Entry, ListNode};
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let chunk = Bytes::from(noise(1 << 20, 28));
    let (mut digest, mut len) = (Digest::of(&chunk), chunk.len() as u64);
    home.volume.contents().put(digest, chunk).unwrap();
    let mut depth = 0;
    for level in 1..=3 {
        let node = ListNode { level, entries: vec![Entry { digest, len }; 1024] }.encode();
        (digest, len, depth) = (Digest::of(&node), len * 1024, level);
        home.volume.contents().put(digest, node).unwrap();
    }
    let bomb = Content::Tree { size: len, root: digest, depth, holes: 0 };
    // Were each occurrence looked at, this would take a minute of a core for each of the next 60.
    for _ in 0..3 {
        assert!(home.volume.contents().has_all(&bomb));
    }
}

/// A list node names chunks that may not be there.
#[test]
fn what_is_looked_for_is_there_when_all_its_chunks_are() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let mut sink = MemorySink::default();
    let content = wayfs_content::build(&Bytes::from(noise(3 << 20, 71)), &mut sink).unwrap();
    let version = RecordId::new(home.origin(), 1 << 20).unwrap();
    let find = || home.volume.settings.runtime.block_on(home.volume.find_whole(FileId::ROOT, version, &content));
    let (lists, chunks): (Vec<_>, Vec<_>) =
        sink.chunks.iter().partition(|(digest, _)| Some(**digest) == content.root());
    assert_eq!(find(), Found::Lacks);
    for (digest, bytes) in lists.into_iter().chain(chunks) {
        assert_eq!(find(), Found::Lacks, "before {digest}");
        home.volume.contents().put(*digest, bytes.clone()).unwrap();
    }
    assert_eq!(find(), Found::Whole);
}

/// A station whose restart made it forget a push: the home names what it has, and lacks it.
#[test]
fn a_station_finds_in_its_own_store_what_the_home_names_and_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let [of_writer, other] =
        ["s1", "s2"].map(|name| Machine::below(&home, &dir.path().join(name), ChildRole::Station, &[&home]));
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&of_writer]);
    let bytes = noise(3 << 20, 61);
    let mut sink = MemorySink::default();
    wayfs_content::build(&Bytes::copy_from_slice(&bytes), &mut sink).unwrap();
    let put = |some: usize| {
        for (digest, chunk) in sink.chunks.iter().take(some) {
            other.volume.contents().put(*digest, chunk.clone()).unwrap();
        }
    };
    let at_other = || other.volume.look(|replica| replica.ledger().unwrap().at_station.unwrap()).unwrap();
    // Not all of it is there: it answers for nothing.
    put(sink.chunks.len() - 1);
    writer.write("film", &bytes);
    writer.wait(Level::Safe);
    eventually("the other station sees it", || {
        other.find(FileId::ROOT, "film").is_some_and(|(_, inode)| inode.content.size() > 0)
    });
    eventually("it has looked", || at_other().is_nothing());
    put(sink.chunks.len());
    writer.write("copy", &bytes);
    writer.wait(Level::Safe);
    eventually("it answers for what it has", || at_other().bytes == bytes.len() as u64);
}
