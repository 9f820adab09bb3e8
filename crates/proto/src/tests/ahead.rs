//! Records sent ahead: one round trip and one group commit, and no crash loses or doubles anything.

use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request, RequestId};
use wayfs_types::{FileId, Kind};

fn station_world() -> (World, usize, usize) {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    (world, station, client)
}

fn wait_safe(world: &mut World, client: usize) -> RequestId {
    world.request_within(client, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60))
}

fn is_safe(world: &mut World, client: usize, wait: RequestId) -> bool {
    world.answer(client, wait) == Some(Ok(Answer::Reached))
}

/// A store that somebody waits for, in a world whose station and client have not synced it yet.
struct Ahead {
    world: World,
    station: usize,
    client: usize,
    file: FileId,
    wait: RequestId,
}

fn stored_while_no_disk_syncs() -> Ahead {
    let (mut world, station, client) = station_world();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.hosts[station].hold_syncs = true;
    world.hosts[client].hold_syncs = true;
    world.store(client, file, small("one"));
    let wait = wait_safe(&mut world, client);
    world.settle();
    Ahead { world, station, client, file, wait }
}

fn content_at_home(world: &World, file: FileId) -> Option<wayfs_types::Content> {
    world.hosts[HOME].replica.inode(file).unwrap().map(|inode| inode.content.clone())
}

#[test]
fn both_disks_sync_at_once_and_nothing_waits_for_a_third_sync() {
    let Ahead { mut world, station, client, file, wait } = stored_while_no_disk_syncs();
    assert!(!is_safe(&mut world, client, wait));
    assert_eq!(world.syncs_asked(station), 1, "the station syncs while the client does");
    world.sync_once(station);
    world.settle();
    assert!(!is_safe(&mut world, client, wait), "not durable at the client");
    world.sync_once(client);
    assert!(is_safe(&mut world, client, wait), "and no further message");
    assert_eq!(world.hosts[station].replica.inode(file).unwrap().unwrap().content, small("one"));
}

#[test]
fn a_safe_close_costs_the_parent_one_sync() {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.hosts[HOME].hold_syncs = true;
    world.store(client, file, small("one"));
    let wait = wait_safe(&mut world, client);
    world.settle();
    assert_eq!(world.syncs_asked(HOME), 1);
    world.sync_once(HOME);
    world.settle();
    assert!(is_safe(&mut world, client, wait));
    assert_eq!(world.syncs_asked(HOME), 0, "nothing follows that anybody waits for");
}

#[test]
fn nobody_hears_of_what_is_durable_nowhere() {
    let Ahead { mut world, station, file, .. } = stored_while_no_disk_syncs();
    assert_ne!(content_at_home(&world, file), Some(small("one")));
    world.sync_once(station);
    world.settle();
    world.pass(Duration::from_secs(3));
    assert_eq!(content_at_home(&world, file), Some(small("one")), "durable at the station is enough");
}

#[test]
fn a_client_that_lost_what_it_had_sent_gets_it_back_and_goes_on_behind_it() {
    let (mut world, station, client) = station_world();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.hosts[client].hold_syncs = true;
    let lost = world.store(client, file, small("one"));
    wait_safe(&mut world, client);
    world.settle();
    world.crash(client, 0);
    world.hosts[client].hold_syncs = false;
    world.connect(client, station);
    world.settle();
    assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("one"));
    let next = world.store(client, file, small("two"));
    assert!(next.sequence() > lost.sequence() + 1, "{next} is behind all that may have been sent");
    world.settle();
    world.pass(Duration::from_secs(3));
    assert_eq!(content_at_home(&world, file), Some(small("two")));
    assert!(world.hosts[HOME].replica.conflicts(None, 10).unwrap().is_empty());
}

#[test]
fn the_order_of_the_two_syncs_does_not_matter() {
    let Ahead { mut world, station, client, wait, .. } = stored_while_no_disk_syncs();
    world.sync_once(client);
    world.settle();
    assert!(!is_safe(&mut world, client, wait), "not durable at the station");
    world.sync_once(station);
    world.settle();
    assert!(is_safe(&mut world, client, wait));
}

#[test]
fn what_others_must_hear_first_waits_for_them() {
    let (mut world, station, client) = station_world();
    let other = world.add(Role::Client, "ben@b");
    world.settle();
    world.pass(Duration::from_secs(3));
    let session = world.connect(other, station);
    world.settle();
    world.names(other, FileId::ROOT).unwrap();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.lookup(other, FileId::ROOT, "f").unwrap();
    world.stall(session, true);
    world.store(client, file, small("one"));
    let wait = wait_safe(&mut world, client);
    world.settle();
    assert!(!is_safe(&mut world, client, wait), "the other still trusts what it has");
    world.stall(session, false);
    world.settle();
    assert!(is_safe(&mut world, client, wait));
    assert_eq!(world.lookup(other, FileId::ROOT, "f").unwrap().1.content, small("one"));
}

/// Power fails somewhere while a record is ahead; the client works on before it meets anyone again.
fn crash_after(steps: usize, victims: &[usize], kept: usize) {
    let (mut world, station, client) = station_world();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.store(client, file, small("one"));
    world.create(client, FileId::ROOT, "g");
    let wait = wait_safe(&mut world, client);
    for _ in 0..steps {
        world.step();
    }
    let safe = is_safe(&mut world, client, wait);
    for victim in victims {
        world.crash([HOME, station, client][*victim], kept);
    }
    // What takes the number that a lost record had must not be taken for it.
    let late = world.request(
        client,
        Request::Change {
            user: 0,
            change: Change::Create {
                parent: FileId::ROOT,
                name: name("late"),
                kind: Kind::File,
                mode: 0o600,
                uid: 1,
                gid: 1,
            },
        },
    );
    world.settle();
    world.pass(Duration::from_secs(15));
    let Some(Ok(Answer::Changed { file: late, .. })) = world.answer(client, late) else {
        panic!("offline creation in a listed directory, after {steps} steps");
    };
    world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.pass(Duration::from_secs(25));
    for each in [HOME, station, client] {
        let at = format!("host {each} after {steps} steps, victims {victims:?}, kept {kept}");
        assert!(world.hosts[each].replica.is_settled(), "{at}");
        world.check_tree(each);
    }
    world.assert_agrees(station);
    world.assert_agrees(client);
    assert!(content_at_home(&world, late).is_some(), "what was made afterwards is there");
    if safe || !victims.contains(&2) {
        assert_eq!(content_at_home(&world, file), Some(small("one")), "after {steps} steps, victims {victims:?}");
        assert!(world.lookup(client, FileId::ROOT, "g").is_ok());
    }
}

#[test]
fn a_crash_at_any_step_loses_nothing_safe_and_uses_no_number_twice() {
    for victims in [&[2][..], &[1], &[1, 2], &[0], &[0, 1, 2]] {
        for steps in 0..40 {
            for kept in [0, 1, 2, 1000] {
                crash_after(steps, victims, kept);
            }
        }
    }
}

#[test]
fn a_station_that_crashed_lets_what_it_called_safe_take_effect_without_its_client() {
    let (mut world, station, client) = station_world();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.store(client, file, small("one"));
    let wait = wait_safe(&mut world, client);
    world.hosts[station].hold_syncs = true;
    for _ in 0..100 {
        if is_safe(&mut world, client, wait) {
            break;
        }
        if !world.step() {
            world.sync_once(station);
        }
    }
    assert!(is_safe(&mut world, client, wait));
    world.crash(station, 0);
    world.hosts[station].hold_syncs = false;
    // The client's machine is gone for good.
    world.connect(station, HOME);
    world.pass(Duration::from_secs(30));
    assert_eq!(content_at_home(&world, file), Some(small("one")));
}
