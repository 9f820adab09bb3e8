//! What a client did in a session that broke comes before what others are told and given because it has a new one.

use super::sharing::site;
use super::world::{HOME, World, small};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{
    Answer, Change, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Request, RequestId,
};

fn lock(file: FileId) -> Request {
    let (owner, range) = (LockOwner(9), LockRange::WHOLE);
    let kind = LockKind::Write;
    Request::Lock(LockRequest { file, family: LockFamily::Posix, owner, pid: 1, range, kind, wait: true })
}

/// A file in a directory of a client's own, in which it has stored something of which its parent has heard nothing: and its session is
/// over.
fn stored_and_cut_off(locked: bool) -> (World, [usize; 2], FileId) {
    let (mut world, a, b) = site();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    let file = world.create(a, directory, "f");
    world.settle();
    if locked {
        world.ask(a, lock(file)).unwrap();
    }
    let line = world.line_of(a);
    world.stall(line, true);
    let base = world.hosts[a].replica.inode(file).unwrap().unwrap().version;
    let change = Change::Store { file, base, content: small("new"), mtime: world.wall() };
    assert!(world.ask(a, Request::Change { user: 1, change }).is_ok(), "it has the directory alone");
    world.close(line);
    (world, [a, b], file)
}

fn has(world: &World, host: usize, file: FileId) -> bool {
    world.hosts[host].replica.inode(file).unwrap().is_some_and(|inode| inode.content == small("new"))
}

/// Lets one thing after the other arrive until a request is answered.
fn answered(world: &mut World, host: usize, id: RequestId) -> Answer {
    while world.step() {
        if let Some(answer) = world.answer(host, id) {
            return answer.unwrap();
        }
    }
    panic!("it is never answered");
}

/// Proves [S-close-open] over a session that broke.
#[test]
fn who_looks_waits_for_what_another_closed_before_its_session_broke() {
    let (mut world, [a, b], file) = stored_and_cut_off(false);
    let look = world.request(b, Request::Attributes { file });
    world.settle();
    assert_eq!(world.answer(b, look), None, "the other may have changed it");
    world.connect(a, HOME);
    let Answer::File(_, inode) = answered(&mut world, b, look) else { panic!("no file") };
    assert_eq!(inode.content, small("new"));
}

/// Proves [S-locks]: the lock of a daemon that was killed ends behind what it had written under it.
#[test]
fn a_lock_of_a_former_life_ends_behind_what_was_written_under_it() {
    let (mut world, [a, b], file) = stored_and_cut_off(true);
    world.crash(a, 100);
    assert!(has(&world, a, file), "the kill took nothing");
    let wait = world.request(b, lock(file));
    world.settle();
    assert_eq!(world.answer(b, wait), None);
    world.connect(a, HOME);
    assert_eq!(answered(&mut world, b, wait), Answer::Done);
    assert!(has(&world, HOME, file), "who has the lock sees what was done under it");
    let Ok(Answer::File(_, inode)) = world.ask(b, Request::Attributes { file }) else { panic!("no file") };
    assert_eq!(inode.content, small("new"));
}

/// Whoever comes back and then says nothing keeps nobody waiting for longer than a lease.
#[test]
fn nobody_waits_for_one_that_comes_back_and_is_silent() {
    let (mut world, [a, b], file) = stored_and_cut_off(true);
    world.crash(a, 100);
    let (look, wait) = (world.request(b, Request::Attributes { file }), world.request(b, lock(file)));
    let line = world.connect(a, HOME);
    let origin = world.hosts[a].replica.config().origin;
    while !world.hosts[HOME].replica.children.has_started(origin) {
        assert!(world.step());
    }
    world.stall(line, true);
    world.pass(Duration::from_secs(1));
    assert_eq!((world.answer(b, look), world.answer(b, wait)), (None, None));
    world.pass(Duration::from_secs(30));
    assert!(matches!(world.ask(b, Request::Attributes { file }), Ok(Answer::File(..))));
    assert_eq!(world.ask(b, lock(file)), Ok(Answer::Done));
}
