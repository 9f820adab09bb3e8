//! Exclusive directories: over stations and lines the home decides at once.

use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{
    Answer, Change, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, RenameTarget, Request, RequestId,
    XattrPresence,
};
use wayfs_types::{FileId, FsError, Inode, RecordId, WallTime, XattrName};

/// The first life of a station that is restarted later.
pub(super) const FIRST_LIFE: u32 = 7;

/// Two stations of a home, a client at each, and an exclusive directory.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) stations: [usize; 2],
    pub(super) clients: [usize; 2],
    directory: FileId,
}

impl Site {
    pub(super) fn new() -> Self {
        let mut world = World::new();
        let stations = ["s@s", "t@t"].map(|label| world.add(Role::Station, label));
        let clients = ["ann@a", "bob@b"].map(|label| world.add(Role::Client, label));
        for (station, client) in stations.into_iter().zip(clients) {
            world.connect(station, HOME);
            world.connect(client, station);
        }
        world.settle();
        let directory = world.mkdir(clients[0], FileId::ROOT, "d");
        make_exclusive(&mut world, clients[0], directory);
        world.pass(Duration::from_secs(3));
        let site = Self { world, stations, clients, directory };
        for client in [0, 1] {
            assert!(site.world.hosts[site.clients[client]].replica.is_trusted());
        }
        site
    }

    fn make(&mut self, client: usize, text: &str) -> RequestId {
        let change = create(self.directory, text);
        self.world.request(self.clients[client], Request::Change { user: 0, change })
    }

    fn change(&mut self, client: usize, change: Change) -> Outcome {
        let id = self.world.request(self.clients[client], Request::Change { user: 0, change });
        self.world.settle();
        self.world.answer(self.clients[client], id).expect("it is answered without time passing")
    }

    pub(super) fn created(&mut self, client: usize, text: &str) -> FileId {
        file_of(self.change(client, create(self.directory, text)))
    }

    pub(super) fn lock(&mut self, client: usize, file: FileId, wait: bool) -> RequestId {
        self.world.request_within(self.clients[client], Request::Lock(whole(file, wait)), Duration::from_secs(60))
    }

    pub(super) fn test(&mut self, client: usize, file: FileId) -> RequestId {
        self.world.request_within(self.clients[client], Request::TestLock(whole(file, false)), Duration::from_secs(60))
    }

    /// The lock is free, and a client takes it.
    pub(super) fn take(&mut self, client: usize, file: FileId) {
        let id = self.lock(client, file, false);
        self.world.settle();
        assert_eq!(self.answer(client, id), Some(Ok(Answer::Done)));
    }

    /// One client has a lock, for all that it and the other know.
    pub(super) fn is_held(&mut self, client: usize, file: FileId) {
        let tried = self.lock(1 - client, file, false);
        self.world.settle();
        assert_eq!(self.answer(1 - client, tried), Some(Err(FsError::Locked)));
        assert_eq!(self.world.hosts[self.clients[client]].replica.lost_locks(file), Vec::new());
    }

    pub(super) fn answer(&mut self, client: usize, id: RequestId) -> Option<Outcome> {
        self.world.answer(self.clients[client], id)
    }

    pub(super) fn unlock(&mut self, client: usize, file: FileId) {
        assert_eq!(self.release(client, file), Ok(Answer::Done));
    }

    pub(super) fn release(&mut self, client: usize, file: FileId) -> Outcome {
        let (family, owner, range) = (LockFamily::Flock, LockOwner(9), LockRange::WHOLE);
        self.world.ask(self.clients[client], Request::Unlock { file, family, owner, range })
    }

    /// The first station dies and is back at the home at once, in another life; its client is not back yet, unless it is the first life.
    pub(super) fn restart_station(&mut self, life: u32) {
        let (station, client) = (self.stations[0], self.clients[0]);
        let store = self.world.snapshot(station);
        self.world.restore(station, store, life);
        self.world.connect(station, HOME);
        self.world.settle();
        if life == FIRST_LIFE {
            self.world.connect(client, station);
            self.world.pass(Duration::from_secs(3));
        }
    }

    /// The home dies and is back at once, in another life, and nobody is back at it.
    pub(super) fn restart_home(&mut self) {
        let store = self.world.snapshot(HOME);
        let life = self.world.hosts[HOME].replica.config().life.0 + 1;
        self.world.restore(HOME, store, life);
    }

    fn no_conflict(&mut self) {
        self.world.pass(Duration::from_secs(5));
        for host in 0..self.world.hosts.len() {
            assert_eq!(self.world.hosts[host].replica.conflicts(None, 10), Ok(Vec::new()), "host {host}");
        }
    }
}

/// How a client makes a name.
type Way<'a> = &'a dyn Fn(usize, &Site) -> Change;

pub(super) fn make_exclusive(world: &mut World, client: usize, file: FileId) {
    let (name, value) = (XattrName::new(Inode::EXCLUSIVE).unwrap(), Some(bytes::Bytes::from_static(b"1")));
    world.change(client, Change::SetXattr { file, name, value, presence: XattrPresence::Any }).unwrap();
}

pub(super) fn create(parent: FileId, text: &str) -> Change {
    Change::Create { parent, name: name(text), kind: wayfs_types::Kind::File, mode: 0o644, uid: 0, gid: 0 }
}

pub(super) fn whole(file: FileId, wait: bool) -> LockRequest {
    let (owner, range) = (LockOwner(9), LockRange::WHOLE);
    LockRequest { file, family: LockFamily::Flock, owner, pid: 1, range, kind: LockKind::Write, wait }
}

pub(super) fn file_of(outcome: Outcome) -> FileId {
    match outcome {
        Ok(Answer::Changed { file, .. }) => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_makers_at_two_stations_one_wins() {
    let mut site = Site::new();
    for turn in 0..8 {
        let text = format!("lock-{turn}");
        let ids = [0, 1].map(|client| site.make(client, &text));
        site.world.settle();
        let mut answers = [0, 1].map(|client| site.answer(client, ids[client]).unwrap());
        answers.sort_by_key(Outcome::is_err);
        assert!(answers[0].is_ok(), "turn {turn}: {answers:?}");
        assert_eq!(answers[1], Err(FsError::Exists), "turn {turn}");
    }
    site.no_conflict();
}

/// The same two without the mode are both told that they made it: this is what it is for.
#[test]
fn elsewhere_both_make_it() {
    let mut site = Site::new();
    site.directory = FileId::ROOT;
    for station in site.stations {
        let line = site.world.line_of(station);
        site.world.stall(line, true);
    }
    let ids = [0, 1].map(|client| site.make(client, "lock"));
    site.world.settle();
    assert!([0, 1].into_iter().all(|client| site.answer(client, ids[client]).unwrap().is_ok()));
}

#[test]
fn links_and_renames_that_must_not_replace_are_decided_as_well() {
    let mut site = Site::new();
    let files = [0, 1].map(|client| site.created(client, &format!("own-{client}")));
    let link =
        |client: usize, site: &Site| Change::Link { file: files[client], parent: site.directory, name: name("l") };
    let rename = |client: usize, site: &Site| Change::Rename {
        from_parent: site.directory,
        from_name: name(&format!("own-{client}")),
        to_parent: site.directory,
        to_name: name("r"),
        target: RenameTarget::MustBeFree,
    };
    let ways: [Way; 2] = [&link, &rename];
    for way in ways {
        let changes = [0, 1].map(|client| way(client, &site));
        let clients = site.clients;
        let ids = [0, 1].map(|client| {
            let change = changes[client].clone();
            site.world.request(clients[client], Request::Change { user: 0, change })
        });
        site.world.settle();
        let answers = [0, 1].map(|client| site.answer(client, ids[client]).unwrap());
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        assert!(answers.contains(&Err(FsError::Exists)), "{answers:?}");
    }
    site.no_conflict();
}

/// What is done under a lock the next holder sees, be it at another station.
#[test]
fn a_counter_under_a_lock_loses_nothing() {
    let mut site = Site::new();
    let file = site.created(0, "count");
    site.world.lookup(site.clients[1], site.directory, "count").unwrap();
    for turn in 0_u64..12 {
        let client = usize::try_from(turn % 2).unwrap();
        let id = site.lock(client, file, true);
        site.world.settle();
        assert_eq!(site.answer(client, id), Some(Ok(Answer::Done)), "turn {turn}");
        let inode = site.world.hosts[site.clients[client]].replica.inode(file).unwrap().expect("it is known here");
        let before = if turn == 0 { String::new() } else { format!("{turn}") };
        assert_eq!(inode.content, small(&before), "turn {turn}");
        let (content, mtime) = (small(&format!("{}", turn + 1)), WallTime::EPOCH);
        site.change(client, Change::Store { file, base: inode.version, content, mtime }).unwrap();
        // Before it is told anything about the home.
        site.unlock(client, file);
    }
    site.no_conflict();
}

fn append(file: FileId, base: RecordId, text: &str) -> Change {
    Change::Append { file, base, content: small(text), mtime: WallTime::EPOCH }
}

/// CI showed it under load: of two that append in turns, the one whose machine is slower was refused eight times, and its `fsync`
/// failed. Whoever had its turn and has to begin anew is the next.
#[test]
fn who_begins_an_append_anew_is_the_next() {
    let mut site = Site::new();
    let file = site.created(0, "log");
    let base = |site: &Site, client: usize| {
        site.world.hosts[site.clients[client]].replica.inode(file).unwrap().expect("it is known here").version
    };
    site.world.lookup(site.clients[1], site.directory, "log").unwrap();
    let old = base(&site, 1);
    let first = base(&site, 0);
    site.change(0, append(file, first, "one ")).unwrap();
    assert_eq!(site.change(1, append(file, old, "two ")), Err(FsError::Changed));
    // The faster one has its next line at once.
    let upon = base(&site, 0);
    let faster = Request::Change { user: 0, change: append(file, upon, "one three ") };
    let waits = site.world.request(site.clients[0], faster);
    site.world.settle();
    assert_eq!(site.answer(0, waits), None, "the other is not done yet");
    let upon = base(&site, 1);
    site.change(1, append(file, upon, "one two ")).unwrap();
    assert_eq!(site.answer(0, waits), Some(Err(FsError::Changed)));
    let upon = base(&site, 0);
    site.change(0, append(file, upon, "one two three ")).unwrap();
    site.no_conflict();
}

/// A driver that does not come back, since its disk is full or its file was removed, keeps nobody waiting.
#[test]
fn who_does_not_begin_an_append_anew_lets_others_go_on() {
    let mut site = Site::new();
    let file = site.created(0, "log");
    site.world.lookup(site.clients[1], site.directory, "log").unwrap();
    let version = |site: &Site| site.world.hosts[site.clients[0]].replica.inode(file).unwrap().unwrap().version;
    let old = version(&site);
    site.change(0, append(file, old, "one ")).unwrap();
    assert_eq!(site.change(1, append(file, old, "two ")), Err(FsError::Changed));
    let change = append(file, version(&site), "one three ");
    let waits = site.world.request(site.clients[0], Request::Change { user: 0, change });
    site.world.pass(Duration::from_secs(3));
    assert!(site.answer(0, waits).unwrap().is_ok());
    site.no_conflict();
}

#[test]
fn a_lock_excludes_clients_of_other_stations() {
    let mut site = Site::new();
    let file = site.created(0, "x");
    site.take(0, file);
    let tried = site.lock(1, file, false);
    let waits = site.lock(1, file, true);
    site.world.settle();
    assert_eq!(site.answer(1, tried), Some(Err(FsError::Locked)));
    assert_eq!(site.answer(1, waits), None);
    match site
        .world
        .ask(site.clients[1], Request::TestLock(LockRequest { family: LockFamily::Flock, ..whole(file, false) }))
    {
        Ok(Answer::Lock(Some(held))) => assert_eq!(held.kind, LockKind::Write),
        other => panic!("{other:?}"),
    }
    site.unlock(0, file);
    site.world.settle();
    assert_eq!(site.answer(1, waits), Some(Ok(Answer::Done)));
}

#[test]
fn without_the_home_nothing_is_changed_and_said_so() {
    let mut site = Site::new();
    let file = site.created(0, "x");
    let line = site.world.line_of(site.stations[0]);
    site.world.close(line);
    assert_eq!(site.change(0, create(site.directory, "y")), Err(FsError::Unreachable));
    let id = site.lock(0, file, true);
    site.world.settle();
    assert_eq!(site.answer(0, id), Some(Err(FsError::Unreachable)));
    // Reading goes on, and so does all else.
    assert_eq!(site.world.lookup(site.clients[0], site.directory, "x").map(|(found, _)| found), Ok(file));
    site.world.create(site.clients[0], FileId::ROOT, "elsewhere");
    site.world.connect(site.stations[0], HOME);
    site.world.settle();
    site.created(0, "y");
    site.no_conflict();
}

#[test]
fn without_a_station_nothing_is_changed_either() {
    let mut site = Site::new();
    let file = site.created(0, "x");
    let line = site.world.line_of(site.clients[0]);
    site.world.close(line);
    let id = site.make(0, "y");
    let lock = site.lock(0, file, true);
    site.world.pass(Duration::from_secs(3));
    assert_eq!(site.answer(0, id), Some(Err(FsError::Unreachable)));
    assert_eq!(site.answer(0, lock), Some(Err(FsError::Unreachable)));
    site.world.connect(site.clients[0], site.stations[0]);
    site.world.settle();
    site.created(0, "y");
    site.no_conflict();
}

/// The line of the station breaks after the claim was granted, and for longer than a lease: the other makes the name.
#[test]
fn a_maker_whose_line_breaks_does_not_think_that_it_made_what_another_did() {
    let mut site = Site::new();
    let line = site.world.line_of(site.clients[0]);
    let id = site.make(0, "lock");
    // The claim goes up and comes back; the record stays on its way.
    for _ in 0..10_000 {
        let made = site.world.hosts[site.clients[0]].replica.entry(site.directory, &name("lock"));
        if made.unwrap().is_some() {
            break;
        }
        assert!(site.world.step());
    }
    site.world.stall(line, true);
    site.world.pass(Duration::from_secs(12));
    assert!(matches!(site.answer(0, id), Some(Err(FsError::TimedOut | FsError::Unreachable))));
    let other = site.created(1, "lock");
    site.world.close(line);
    site.world.connect(site.clients[0], site.stations[0]);
    site.world.settle();
    site.world.pass(Duration::from_secs(5));
    let seen = [0, 1].map(|client| site.world.lookup(site.clients[client], site.directory, "lock").unwrap().0);
    assert_eq!(seen, [other, other]);
}

#[test]
fn what_is_made_in_an_exclusive_directory_is_exclusive() {
    let mut site = Site::new();
    let (parent, mode) = (site.directory, 0o755);
    let below = file_of(site.change(0, Change::Mkdir { parent, name: name("below"), mode, uid: 0, gid: 0 }));
    site.world.settle();
    for host in [HOME, site.stations[1], site.clients[0]] {
        let inode = site.world.hosts[host].replica.inode(below).unwrap().unwrap();
        assert!(inode.is_exclusive(), "host {host}");
    }
    let file = site.created(0, "plain");
    assert!(site.world.hosts[HOME].replica.inode(file).unwrap().unwrap().xattrs.is_empty());
}

#[test]
fn an_exclusive_directory_is_known_beside_what_members_take_up() {
    let mut site = Site::new();
    let file = site.world.create(site.clients[0], FileId::ROOT, "f");
    let mut link = |parent, text: &str| {
        let change = Change::Link { file, parent, name: name(text) };
        site.world.change(site.clients[0], change).unwrap();
        site.world.pass(Duration::from_secs(3));
    };
    for number in 1..Inode::LISTED_MAX {
        link(FileId::ROOT, &format!("l{number}"));
    }
    // A name that the file does not list.
    link(site.directory, "here");
    for server in [HOME, site.stations[0], site.stations[1]] {
        let replica = &site.world.hosts[server].replica;
        assert!(replica.inode(file).unwrap().unwrap().is_crowded());
        assert!(replica.is_the_homes(file).unwrap(), "host {server}");
        assert_eq!(replica.usage_is_wrong().unwrap(), None, "host {server}");
    }
}
