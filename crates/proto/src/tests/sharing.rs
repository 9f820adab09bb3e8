//! What one client of a parent closed is seen by the next look of another, and of two who make a name one does.

use super::world::{HOME, World, name, small};
use crate::{Config, Input, Output, Role, Sharing};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Outcome, RenameTarget, Request};
use wayfs_types::{FileId, FsError, Kind, RecordId};

fn strict(config: &mut Config) {
    config.sharing = Sharing::CloseToOpen;
}

/// A home and two clients that share as programs expect.
pub(super) fn site() -> (World, usize, usize) {
    let mut world = World::new();
    let clients = ["ann@a", "bob@b"].map(|label| {
        let client = world.add(Role::Client, label);
        world.configure(client, strict);
        world.connect(client, HOME);
        client
    });
    world.settle();
    (world, clients[0], clients[1])
}

fn make(parent: FileId, text: &str) -> Request {
    let change = Change::Create { parent, name: name(text), kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
    Request::Change { user: 1, change }
}

fn look(parent: FileId, text: &str) -> Request {
    Request::Lookup { parent, name: name(text) }
}

fn is_done(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Ok(_)))
}

#[test]
fn of_two_who_make_one_name_one_is_told_that_it_is_there() {
    let (mut world, a, b) = site();
    for turn in 0..10 {
        let text = format!("lock-{turn}");
        for client in [a, b] {
            assert_eq!(world.ask(client, look(FileId::ROOT, &text)), Err(FsError::NotFound));
        }
        let both = [a, b].map(|client| (client, world.request(client, make(FileId::ROOT, &text))));
        world.settle();
        let outcomes = both.map(|(client, id)| world.answer(client, id).unwrap());
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "{outcomes:?}");
        assert!(outcomes.contains(&Err(FsError::Exists)), "{outcomes:?}");
    }
    world.pass(Duration::from_secs(5));
    world.assert_agrees(a);
    world.assert_agrees(b);
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
}

#[test]
fn of_two_who_link_or_rename_to_one_name_one_is_told_that_it_is_there() {
    let (mut world, a, b) = site();
    let files = [a, b].map(|client| world.create(client, FileId::ROOT, &format!("own-{client}")));
    let link = |file| Change::Link { file, parent: FileId::ROOT, name: name("link") };
    let rename = |client: usize| Change::Rename {
        from_parent: FileId::ROOT,
        from_name: name(&format!("own-{client}")),
        to_parent: FileId::ROOT,
        to_name: name("place"),
        target: RenameTarget::MustBeFree,
    };
    let changes = [[link(files[0]), link(files[1])], [rename(a), rename(b)]];
    for [of_a, of_b] in changes {
        let both = [(a, of_a), (b, of_b)]
            .map(|(client, change)| (client, world.request(client, Request::Change { user: 1, change })));
        world.settle();
        let won = both.iter().filter(|(client, id)| world.answers_ok(*client, *id)).count();
        assert_eq!(won, 1);
    }
    world.pass(Duration::from_secs(5));
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
}

#[test]
fn a_look_sees_what_another_closed_before_it() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    let file = world.create(a, directory, "f");
    world.ask(b, look(FileId::ROOT, "d")).unwrap();
    world.ask(b, look(directory, "f")).unwrap();
    for turn in 0..5 {
        let text = format!("bytes {turn}");
        let base = world.hosts[a].replica.inode(file).unwrap().unwrap().version;
        let (content, mtime) = (small(&text), world.wall());
        let change = Change::Store { file, base, content: content.clone(), mtime };
        world.ask(a, Request::Change { user: 1, change }).unwrap();
        world.ask(a, make(directory, &text)).unwrap();
        // Nothing of it needs to be on its way yet.
        match world.ask(b, Request::Attributes { file }).unwrap() {
            Answer::File(_, inode) => assert_eq!(inode.content, content),
            other => panic!("unexpected {other:?}"),
        }
        world.ask(b, look(directory, &text)).unwrap();
        let listed = world.names(b, directory).unwrap();
        assert!(listed.contains(&text), "{listed:?}");
    }
}

#[test]
fn who_looks_at_a_file_only_sees_what_is_done_in_its_directory() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    let file = world.create(a, directory, "f");
    let show = |world: &mut World| match world.ask(b, Request::Attributes { file }).unwrap() {
        Answer::File(_, inode) => inode,
        other => panic!("unexpected {other:?}"),
    };
    show(&mut world);
    for turn in 0..5 {
        let content = small(&format!("bytes {turn}"));
        world.store(a, file, content.clone());
        assert_eq!(show(&mut world).content, content);
    }
    // Into a directory that it does not look at.
    let other = world.mkdir(a, FileId::ROOT, "e");
    world.rename(a, (directory, "f"), (other, "g")).unwrap();
    assert_eq!(show(&mut world).places[0].parent, other);
    world.store(a, file, small("there"));
    assert_eq!(show(&mut world).content, small("there"));
    let line = world.line_of(b);
    world.stall(line, true);
    let id = world.request(b, Request::Attributes { file });
    assert!(is_done(world.answer(b, id)), "nobody else changes it meanwhile: nothing is asked");
}

#[test]
fn what_one_client_works_at_alone_waits_for_nobody() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "mine");
    world.ask(b, look(FileId::ROOT, "mine")).unwrap();
    let line = world.line_of(a);
    world.stall(line, true);
    for turn in 0..20 {
        let inner = format!("{turn}");
        let id = world.request(a, make(directory, &inner));
        assert!(is_done(world.answer(a, id)), "it waited for the parent");
    }
    world.stall(line, false);
    world.settle();
    // Whoever looked first makes the next change a question, and only the next.
    assert_eq!(world.names(b, directory).unwrap().len(), 20);
    world.stall(line, true);
    let claim = world.request(a, make(directory, "claimed"));
    assert_eq!(world.answer(a, claim), None);
    world.stall(line, false);
    world.settle();
    assert!(is_done(world.answer(a, claim)));
    world.stall(line, true);
    let free = world.request(a, make(directory, "free"));
    assert!(is_done(world.answer(a, free)));
}

#[test]
fn a_look_waits_until_what_is_being_closed_is_in_the_log() {
    let (mut world, a, b) = site();
    world.hosts[a].holds_rights = true;
    world.create(a, FileId::ROOT, "f");
    let seen = world.request(b, look(FileId::ROOT, "f"));
    world.settle();
    assert_eq!(world.answer(b, seen), None);
    let called = |output: &Output| match output {
        Output::GiveBack { serial, .. } => Some(*serial),
        _ => None,
    };
    let serial = world.hosts[a].events.iter().find_map(called).expect("it is asked to give back");
    // What the driver does meanwhile needs no right.
    assert!(is_done(Some(world.ask(a, make(FileId::ROOT, "g")))));
    world.input(a, Input::GivenBack { serial });
    world.settle();
    assert!(is_done(world.answer(b, seen)));
    assert!(is_done(Some(world.ask(b, look(FileId::ROOT, "g")))));
}

#[test]
fn nobody_waits_longer_than_a_lease_for_who_vanished() {
    for is_silent in [true, false] {
        let (mut world, a, b) = site();
        world.create(a, FileId::ROOT, "f");
        world.settle();
        let line = world.line_of(a);
        if is_silent {
            world.stall(line, true);
        } else {
            world.hosts[a].holds_rights = true;
        }
        let seen = world.request_within(b, look(FileId::ROOT, "f"), Duration::from_secs(30));
        let made = world.request_within(b, make(FileId::ROOT, "g"), Duration::from_secs(30));
        world.settle();
        assert_eq!((world.answer(b, seen), world.answer(b, made)), (None, None));
        world.pass(Duration::from_secs(12));
        assert!(is_done(world.answer(b, seen)), "silent: {is_silent}");
        world.pass(Duration::from_secs(12));
        assert!(is_done(world.answer(b, made)), "silent: {is_silent}");
    }
}

#[test]
fn nobody_waits_for_what_a_client_had_alone_that_left() {
    let (mut world, a, b) = site();
    world.create(a, FileId::ROOT, "f");
    world.settle();
    let line = world.line_of(a);
    world.leave(line);
    assert!(is_done(Some(world.ask(b, look(FileId::ROOT, "f")))));
    assert!(is_done(Some(world.ask(b, make(FileId::ROOT, "g")))));
    // It comes back, and what it shows is what is there.
    world.connect(a, HOME);
    world.settle();
    assert!(is_done(Some(world.ask(a, look(FileId::ROOT, "g")))));
}

#[test]
fn who_comes_back_asks_before_it_shows_what_others_may_change() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.names(b, directory).unwrap();
    let line = world.line_of(b);
    world.close(line);
    world.pass(Duration::from_secs(11));
    world.ask(a, make(directory, "first")).unwrap();
    world.connect(b, HOME);
    world.settle();
    let to_home = world.line_of(a);
    world.stall(to_home, true);
    let made = world.request(a, make(directory, "second"));
    assert!(is_done(world.answer(a, made)), "it has the directory alone");
    let seen = world.request(b, look(directory, "second"));
    world.settle();
    assert_eq!(world.answer(b, seen), None, "the holder is asked first");
    world.stall(to_home, false);
    world.settle();
    assert!(is_done(world.answer(b, seen)));
}

/// From the home to a station and back, each time to where the other closed something that nobody has heard of yet.
#[test]
fn who_moves_sees_at_its_first_look_what_was_closed_where_it_is_now() {
    let mut world = World::new();
    let station = world.add(Role::Station, "s1@s");
    let clients = ["ann@a", "bob@b"].map(|label| world.add(Role::Client, label));
    clients.into_iter().for_each(|client| world.configure(client, strict));
    world.connect(station, HOME);
    let [writer, reader] = clients;
    world.connect(writer, station);
    world.connect(reader, HOME);
    world.settle();
    let directory = world.mkdir(writer, FileId::ROOT, "d");
    for turn in 0..6 {
        let (there, text) = ([station, HOME][turn % 2], format!("f{turn}"));
        world.connect(writer, there);
        world.pass(Duration::from_secs(5));
        for client in [writer, reader] {
            assert_eq!(world.ask(client, look(directory, &text)), Err(FsError::NotFound), "turn {turn}");
        }
        world.create(writer, directory, &format!("before-{turn}"));
        let line = world.line_of(writer);
        world.stall(line, true);
        let made = world.request(writer, make(directory, &text));
        assert!(is_done(world.answer(writer, made)), "turn {turn}: it has the directory alone");
        world.hosts[reader].events.clear();
        world.connect(reader, there);
        // Before it was even greeted there.
        let seen = world.request(reader, look(directory, &text));
        world.settle();
        assert_eq!(world.answer(reader, seen), None, "turn {turn}: the holder is asked first");
        assert!(world.hosts[reader].events.contains(&Output::InvalidateAll), "turn {turn}: the kernel asks, too");
        world.stall(line, false);
        world.settle();
        assert!(is_done(world.answer(reader, seen)), "turn {turn}");
    }
}

#[test]
fn rights_are_taken_as_the_settings_have_it() {
    for (sharing, takes) in [(Sharing::Relaxed, false), (Sharing::Near(Duration::from_millis(20)), true)] {
        let mut world = World::new();
        let a = world.add(Role::Client, "ann@a");
        world.configure(a, |config| config.sharing = sharing);
        world.connect(a, HOME);
        world.pass(Duration::from_secs(6));
        assert_eq!(world.hosts[a].replica.is_close_to_open(), takes, "{sharing:?}");
    }
}

/// Seed 5207 of the simulator: the home granted a directory anew before it heard that it was given back, and then took that
/// word for the end of the new right. One changed alone what another was shown as it had been.
#[test]
fn a_right_that_is_claimed_while_it_is_given_back_is_known_to_both() {
    let (mut world, a, b) = site();
    world.configure(a, |config| {
        config.records_per_message = 1;
        config.records_in_flight_max = 1;
    });
    world.names(a, FileId::ROOT).unwrap();
    let line = world.line_of(a);
    world.stall(line, true);
    for number in 0..5 {
        world.create(a, FileId::ROOT, &format!("f{number}"));
    }
    world.pass(Duration::from_millis(100));
    let seen = world.request(b, look(FileId::ROOT, "f4"));
    world.settle();
    // The home asks for the directory, and much is still to be sent before it is given back.
    world.step_down(line);
    let more = world.request(a, make(FileId::ROOT, "f5"));
    for _ in 0..50 {
        while world.waits_up(line) {
            world.step_up(line, 1);
        }
        world.settle();
        world.step_down(line);
    }
    assert!(is_done(world.answer(b, seen)) && is_done(world.answer(a, more)));
    let new = world.request(a, make(FileId::ROOT, "new"));
    world.settle();
    if is_done(world.answer(a, new)) {
        // It changes alone: whoever looks waits for it.
        let seen = world.request(b, look(FileId::ROOT, "new"));
        world.settle();
        assert_eq!(world.answer(b, seen), None, "what was made is there, or nobody knows yet");
        world.stall(line, false);
        world.settle();
        assert!(is_done(world.answer(b, seen)));
    }
}

/// Seed 9702384: a client was called back from a directory for a claim, the claimer left, and the client looked again before it had heard
/// the call. It got the directory alone with the answer, and its word for the call ended that right at the home only: another
/// one was shown what had been before.
#[test]
fn a_right_is_not_given_to_one_that_is_still_to_give_back() {
    let (mut world, a, b) = site();
    for client in [a, b] {
        assert_eq!(world.ask(client, look(FileId::ROOT, "first")), Err(FsError::NotFound));
    }
    let (claimer, line) = (world.line_of(a), world.line_of(b));
    world.stall(line, true);
    world.request(a, make(FileId::ROOT, "claimed"));
    world.settle();
    world.leave(claimer);
    let looked = world.request(b, look(FileId::ROOT, "second"));
    world.step_up(line, 1);
    world.stall(line, false);
    world.settle();
    assert_eq!(world.answer(b, looked), Some(Err(FsError::NotFound)));
    world.stall(line, true);
    let made = world.request(b, make(FileId::ROOT, "second"));
    world.connect(a, HOME);
    world.settle();
    let seen = world.request(a, look(FileId::ROOT, "second"));
    world.settle();
    let is_missed = world.answer(a, seen) == Some(Err(FsError::NotFound));
    assert!(!(is_done(world.answer(b, made)) && is_missed), "it was made, and a later look does not see it");
    world.stall(line, false);
    world.pass(Duration::from_secs(1));
    assert!(is_done(world.answer(b, made)));
    assert!(is_done(Some(world.ask(a, look(FileId::ROOT, "second")))));
}

/// A store that comes after the removal brings the file back to where it was: whoever looks at it must hear of that as of
/// any other change there.
#[test]
fn what_comes_back_with_a_store_is_seen_by_the_next_look() {
    let (mut world, a, b) = site();
    let file = world.create(a, FileId::ROOT, "f");
    let made = world.lookup(b, FileId::ROOT, "f").unwrap().1.version;
    world.change(b, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
    world.pass(Duration::from_secs(1));
    assert!(
        matches!(world.ask(b, Request::Attributes { file }), Ok(Answer::File(..))),
        "b has seen what is left of it"
    );
    // A program of the first machine had it open.
    is_seen_while_the_log_waits(&mut world, a, b, (file, made));
}

/// The simulator found it (seed 166005515 with open files and slow disks): a client that comes back is told what another has alone, and
/// answered from its cache until its kernel had heard of that. Nobody waits for that kernel.
#[test]
fn who_comes_back_asks_at_once_about_what_another_has_alone() {
    let (mut world, a, b) = site();
    let Ok(Answer::Changed { file, record: made, .. }) = world.ask(a, make(FileId::ROOT, "f")) else { panic!("made") };
    assert!(is_done(Some(world.ask(b, look(FileId::ROOT, "f")))));
    assert!(matches!(world.ask(b, Request::Attributes { file }), Ok(Answer::File(..))));
    world.names(b, FileId::ROOT).unwrap();
    let line = world.line_of(b);
    world.close(line);
    world.pass(Duration::from_secs(11));
    world.ask(a, make(FileId::ROOT, "g")).unwrap();
    world.hosts[b].holds_rights = true;
    world.connect(b, HOME);
    world.settle();
    is_seen_while_the_log_waits(&mut world, a, b, (file, made));
}

/// A client closes a file that it may change alone, and its disk is slow, so that its log does not go up; another looks at once.
fn is_seen_while_the_log_waits(world: &mut World, a: usize, b: usize, (file, base): (FileId, RecordId)) {
    world.hosts[a].hold_syncs = true;
    let store = Change::Store { file, base, content: small("a"), mtime: world.wall() };
    let stored = world.request(a, Request::Change { user: 1, change: store });
    world.settle();
    let Some(Ok(Answer::Changed { record, .. })) = world.answer(a, stored) else { panic!("stored alone") };
    let looked = world.request(b, Request::Attributes { file });
    world.settle();
    world.hosts[a].hold_syncs = false;
    world.settle();
    let Some(Ok(Answer::File(_, inode))) = world.answer(b, looked) else { panic!("looked") };
    assert_eq!(inode.version, record);
}

fn called(world: &mut World, client: usize) -> Option<(crate::RecallId, Vec<FileId>, bool)> {
    let events = std::mem::take(&mut world.hosts[client].events);
    events.into_iter().find_map(|output| match output {
        Output::GiveBack { serial, files, expire } => Some((serial, files, expire)),
        _ => None,
    })
}

#[test]
fn kernels_keep_what_several_look_at_until_somebody_changes_it() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.hosts[a].holds_rights = true;
    let listed = world.request(b, Request::List { directory, after: None, limit: 9 });
    world.settle();
    let (serial, files, expire) = called(&mut world, a).expect("it has the directory alone");
    assert_eq!((files.as_slice(), expire), (&[directory][..], false), "it goes on looking");
    world.input(a, Input::GivenBack { serial });
    world.settle();
    assert!(is_done(world.answer(b, listed)));
    for client in [a, b] {
        assert!(world.hosts[client].replica.may_keep(directory), "host {client}");
        assert!(!world.hosts[client].replica.has_alone(directory), "host {client}");
    }
    world.hosts[b].holds_rights = true;
    let made = world.request(a, make(directory, "f"));
    world.settle();
    assert_eq!(world.answer(a, made), None, "the kernel of the other is told first");
    let (serial, files, expire) = called(&mut world, b).expect("its kernel knows the directory");
    assert_eq!((files.as_slice(), expire), (&[][..], true));
    assert!(!world.hosts[b].replica.may_keep(directory), "what is told from now on would stay");
    world.input(b, Input::GivenBack { serial });
    world.settle();
    assert!(is_done(world.answer(a, made)));
}

#[test]
fn kernels_do_not_keep_what_is_being_changed() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.names(b, directory).unwrap();
    world.ask(a, make(directory, "f")).unwrap();
    assert!(world.names(b, directory).unwrap().contains(&"f".to_owned()));
    assert!(!world.hosts[b].replica.may_keep(directory), "each call makes a kernel ask for all names");
    called(&mut world, b);
    world.ask(a, make(directory, "g")).unwrap();
    world.hosts[b].holds_rights = true;
    assert_eq!(called(&mut world, b), None, "the kernel has nothing of it");
    world.names(b, directory).unwrap();
    world.pass(Duration::from_secs(31));
    assert!(world.hosts[b].replica.may_keep(directory));
}

/// Found by hand (`stat` after another machine's save by rename): a kernel kept what it was told while its machine had the directory alone.
/// That ended with another's look, and it was not called before that one's change, since nothing that is told now is kept.
#[test]
fn what_a_kernel_kept_while_it_was_alone_is_called_back_where_others_change_things() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.names(b, directory).unwrap();
    world.ask(b, make(directory, "f")).unwrap();
    world.names(a, directory).unwrap();
    world.ask(a, make(directory, "g")).unwrap();
    let replica = &world.hosts[a].replica;
    assert!(replica.has_alone(directory) && replica.may_keep(directory));
    world.hosts[a].holds_rights = true;
    let listed = world.request(b, Request::List { directory, after: None, limit: 9 });
    world.settle();
    let (serial, _, expire) = called(&mut world, a).expect("it had the directory alone");
    assert!(!expire, "nothing changes yet");
    world.input(a, Input::GivenBack { serial });
    world.settle();
    assert!(is_done(world.answer(b, listed)));
    let replica = &world.hosts[a].replica;
    assert!(!replica.has_alone(directory) && !replica.may_keep(directory));
    let made = world.request(b, make(directory, "h"));
    world.settle();
    assert_eq!(world.answer(b, made), None, "the kernel of the other is told first");
    let (serial, _, expire) = called(&mut world, a).expect("its kernel knows the directory");
    assert!(expire);
    world.input(a, Input::GivenBack { serial });
    world.settle();
    assert!(is_done(world.answer(b, made)));
    world.names(a, directory).unwrap();
    world.ask(b, make(directory, "i")).unwrap();
    assert_eq!(called(&mut world, a), None, "it asks for all since it was called, and keeps nothing");
}

#[test]
fn a_right_that_is_being_given_back_is_no_reason_to_keep() {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.names(b, directory).unwrap();
    // Their claims cross.
    world.hosts[a].holds_rights = true;
    let first = world.request(a, make(directory, "f"));
    let second = world.request(b, make(directory, "g"));
    world.settle();
    assert!(is_done(world.answer(a, first)));
    assert_eq!(world.answer(b, second), None);
    assert!(world.hosts[a].replica.has_alone(directory));
    assert!(!world.hosts[a].replica.may_keep(directory));
}

#[test]
fn nothing_is_kept_of_what_is_not_watched_any_more() {
    for sharing in [Sharing::Relaxed, Sharing::CloseToOpen] {
        let mut world = World::new();
        let [a, b] = ["ann@a", "bob@b"].map(|label| world.add(Role::Client, label));
        world.configure(a, |config| (config.sharing, config.watches_max) = (sharing, 4));
        for client in [a, b] {
            world.connect(client, HOME);
        }
        world.settle();
        let made: Vec<FileId> = (0..5).map(|turn| world.mkdir(b, FileId::ROOT, &format!("d{turn}"))).collect();
        for directory in &made {
            world.names(a, *directory).unwrap();
        }
        let replica = &world.hosts[a].replica;
        assert!(!replica.may_keep(made[0]) && replica.may_keep(made[4]), "{sharing:?}");
        world.hosts[a].events.clear();
        world.names(a, made[0]).unwrap();
        assert!(world.hosts[a].replica.may_keep(made[0]), "{sharing:?}");
        assert!(world.hosts[a].events.contains(&Output::InvalidateAll), "{sharing:?}: the kernel goes on with another");
    }
}

/// A file that is gone was asked for until the request had put all its questions, and called late.
#[test]
fn what_another_client_removed_is_said_to_be_gone_and_asked_for_once() {
    let (mut world, a, b) = site();
    let Ok(Answer::Changed { file, .. }) = world.ask(a, make(FileId::ROOT, "x")) else { panic!() };
    assert!(matches!(world.ask(b, look(FileId::ROOT, "x")), Ok(Answer::File(..))));
    world.change(a, Change::Unlink { parent: FileId::ROOT, name: name("x") }).unwrap();
    world.pass(Duration::from_secs(60));
    let told = world.ask(b, Request::Attributes { file });
    let is_gone = match &told {
        Ok(Answer::File(_, inode)) => inode.is_removed(),
        other => *other == Err(FsError::NotFound),
    };
    assert!(is_gone, "{told:?}");
}
