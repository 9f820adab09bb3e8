//! Whose duty contents are when a client changes its station.

use super::moving::two_stations;
use super::world::{HOME, World, big, name};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

/// Seed 9000779: a station that cannot reach the home takes contents of a record of which it has not heard. Their writer is gone
/// before it could account for them.
#[test]
fn contents_that_came_before_their_record_are_a_duty_when_the_home_names_it() {
    let (mut world, [s1, _], client, [upper, _]) = two_stations();
    let direct = world.connect(client, HOME);
    world.settle();
    world.close(upper);
    world.hold_pushes(direct, true);
    let file = world.create(client, FileId::ROOT, "f");
    let version = world.store(client, file, big("f"));
    world.settle();
    world.close(direct);
    world.connect(client, s1);
    world.settle();
    assert!(world.hosts[s1].chunks.contains(&big("f").root().unwrap()), "it was pushed");
    world.destroy(client);
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(1));
    let ledger = world.hosts[s1].replica.ledger().unwrap();
    assert_eq!(ledger.home_lacks.bytes, big("f").size(), "it says what it alone has: {ledger:?}");
    world.input(s1, crate::Input::Propagate { file, version });
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("f").root().unwrap()));
    let ledger = world.hosts[s1].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

#[test]
fn contents_that_the_former_station_took_stay_its_duty() {
    let (mut world, [s1, s2], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    world.close(upper);
    let file = world.create(client, FileId::ROOT, "f");
    let version = world.store(client, file, big("f"));
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.close(peer);
    let pushed = world.hosts[s2].chunks.len();
    world.connect(client, s2);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[s2].chunks.len(), pushed, "safe contents are not pushed again");
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().version, version);
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(3));
    let holder = world.hosts[HOME].replica.holder(file, version).unwrap();
    let origin = world.hosts[s1].origin;
    assert!(matches!(holder, crate::Holder::Child(of, Some(_)) if of == origin), "{holder:?}");
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.hosts[s1].replica.progress().versions_at_risk, 0);
}

/// Seed 158100421: a station is put back to an older copy, has the contents no more, and is on record for them. The station to which their
/// writer moved has said meanwhile that it can give them.
#[test]
fn a_station_that_was_put_back_is_not_named_before_one_that_said_what_it_can_give() {
    let (mut world, [s1, s2], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    let copy = world.snapshot(s1);
    let file = world.create(client, FileId::ROOT, "f");
    let version = world.store(client, file, big("f"));
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.settle();
    let named = |world: &World| world.hosts[HOME].replica.holder(file, version).unwrap();
    let is = |holder, station: usize, world: &World| matches!(holder, crate::Holder::Child(of, Some(_)) if of == world.hosts[station].origin);
    assert!(is(named(&world), s1, &world), "{:?}", named(&world));
    world.close(peer);
    world.close(upper);
    world.restore(s1, copy, 7);
    world.hosts[s1].chunks.clear();
    world.connect(s1, HOME);
    world.connect(client, s2);
    world.pass(Duration::from_secs(2));
    assert!(is(named(&world), s2, &world), "{:?}", named(&world));
}

/// The former station tells that it has contents, of a record that it has not sent yet and that comes to the home by
/// the new one, which has none of them.
#[test]
fn the_home_remembers_who_has_contents_of_a_record_that_comes_later_by_another_way() {
    let (mut world, [s1, s2], client, _) = two_stations();
    world.configure(s1, |config| config.reconcile_gather = Duration::from_secs(1));
    let peer = world.connect(client, s1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    let version = world.store(client, file, big("contents"));
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    assert!(world.hosts[HOME].replica.inode(file).unwrap().is_none(), "only the word of the contents is there");
    world.close(peer);
    world.connect(client, s2);
    world.settle();
    let home = &world.hosts[HOME].replica;
    assert_eq!(home.inode(file).unwrap().unwrap().version, version, "it came by the new station");
    let of = world.hosts[s1].origin;
    let holder = home.holder(file, version).unwrap();
    assert!(matches!(holder, crate::Holder::Child(child, Some(_)) if child == of), "{holder:?}");
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[s1].replica.progress().versions_at_risk, 0);
}

/// The parent knows what the client made before the client has sent it there: by the home, by way of the
/// station that the client left.
fn made_known_by_another_way(world: &mut World, [s2, client]: [usize; 2], upper: crate::PeerId) -> FileId {
    let first = world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.stall(upper, true);
    let dir = world.mkdir(client, FileId::ROOT, "d");
    world.create(client, dir, "f");
    // The home has them; its word of that does not arrive.
    while world.hosts[HOME].replica.entry(dir, &name("f")).unwrap().is_none() {
        assert!(world.step());
    }
    world.close(first);
    let second = world.connect(client, s2);
    // The new station learns of them from the home between the client's start and its records.
    world.stall(second, true);
    world.step_up(second, 1);
    world.settle();
    world.step_down(second);
    world.step_up(second, 1);
    world.stall(upper, false);
    world.settle();
    assert!(world.hosts[s2].replica.entry(dir, &name("f")).unwrap().is_some(), "the station has heard");
    world.stall(second, false);
    world.settle();
    assert_eq!(world.hosts[client].replica.progress().records_waiting, 0);
    world.close(second);
    dir
}

#[test]
fn what_a_client_made_stays_in_its_cache_when_it_moves() {
    let (mut world, [_, s2], client, [_, upper]) = two_stations();
    let dir = made_known_by_another_way(&mut world, [s2, client], upper);
    assert_eq!(world.lookup(client, FileId::ROOT, "d").unwrap().0, dir, "without any server");
    assert!(world.lookup(client, dir, "f").is_ok(), "without any server");
    assert_eq!(world.names(client, dir).unwrap(), ["f"], "without any server");
    world.connect(client, s2);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(client, dir).unwrap(), ["f"]);
    world.assert_agrees(client);
}

#[test]
fn what_only_the_client_has_is_not_called_safe_by_a_parent_that_knows_its_record() {
    for to_home in [false, true] {
        let (mut world, [s1, s2], client, _) = two_stations();
        let first = world.connect(client, s1);
        world.settle();
        let file = world.create(client, FileId::ROOT, "f");
        world.pass(Duration::from_secs(2));
        world.hold_pushes(first, true);
        let version = world.store(client, file, big("f"));
        world.pass(Duration::from_secs(2));
        let parent = if to_home { HOME } else { s2 };
        assert_eq!(world.hosts[parent].replica.inode(file).unwrap().unwrap().version, version, "it came by the home");
        world.close(first);
        let second = world.connect(client, parent);
        world.hold_pushes(second, true);
        world.pass(Duration::from_secs(1));
        let progress = world.hosts[client].replica.progress();
        assert!(progress.safe_through < version.sequence(), "the bytes are on one disk only");
        assert_eq!(progress.versions_at_risk, 1);
        world.hold_pushes(second, false);
        assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
        assert_eq!(world.hosts[parent].chunks.len(), 1, "the parent has them now");
    }
}

/// A client left its first station before it had pushed what it stored, and pushed it at the home.
fn pushed_elsewhere() -> (World, [usize; 2], FileId, wayfs_types::RecordId) {
    pushed_elsewhere_while(|_, _| {})
}

/// The same; something happens before it is at the home. The line of the station is given.
fn pushed_elsewhere_while(
    happens: impl FnOnce(&mut World, crate::PeerId),
) -> (World, [usize; 2], FileId, wayfs_types::RecordId) {
    let (mut world, [s1, _], client, uppers) = two_stations();
    let first = world.connect(client, s1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.hold_pushes(first, true);
    let version = world.store(client, file, big("f"));
    world.pass(Duration::from_secs(2));
    world.close(first);
    happens(&mut world, uppers[0]);
    let second = world.connect(client, HOME);
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.close(second);
    (world, [s1, client], file, version)
}

/// Proves [S-move-contents].
#[test]
fn a_station_waits_no_more_for_what_its_client_pushed_elsewhere() {
    let (mut world, [s1, client], file, version) = pushed_elsewhere();
    world.connect(client, s1);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.hosts[s1].replica.holder(file, version).unwrap(), crate::Holder::Parent);
    let other = world.create(client, FileId::ROOT, "g");
    world.store(client, other, big("g"));
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    let progress = world.hosts[client].replica.progress();
    assert_eq!(Some(progress.safe_through), progress.last_record.map(wayfs_types::RecordId::sequence));
}

/// [S-one-account]: whoever left for good does not come to say that it need not push.
#[test]
fn a_station_does_not_wait_for_what_the_home_has_of_a_client_that_moved_away() {
    let (mut world, [s1, _], file, version) = pushed_elsewhere();
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[s1].replica.holder(file, version).unwrap(), crate::Holder::Parent);
    let ledger = world.hosts[s1].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

/// The same where the station was away when the home got them, and nobody below it asks about their writer.
#[test]
fn a_station_that_was_away_does_not_wait_for_what_the_home_got_of_a_client_meanwhile() {
    let (mut world, [s1, client], file, version) = pushed_elsewhere_while(|world, line| world.close(line));
    world.pass(Duration::from_secs(60));
    let origin = world.hosts[client].origin;
    assert_eq!(
        world.hosts[s1].replica.holder(file, version).unwrap(),
        crate::Holder::Child(origin, None),
        "it cannot know"
    );
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(3));
    let ledger = world.hosts[s1].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

#[test]
fn contents_that_come_before_the_account_of_them_are_safe() {
    let (mut world, [s1, s2], client, _) = two_stations();
    let first = world.connect(client, s1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.hold_pushes(first, true);
    let version = world.store(client, file, big("f"));
    world.pass(Duration::from_secs(2));
    world.close(first);
    let top = big("f").top().unwrap();
    // Said once: a driver need not say it again when the account is taken.
    world.input(s2, crate::Input::ContentsHere { tops: vec![top] });
    let second = world.connect(client, s2);
    world.hold_pushes(second, true);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.hosts[s2].replica.holder(file, version).unwrap(), crate::Holder::Here);
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    assert_eq!(world.hosts[s2].replica.progress().versions_at_risk, 1, "and the station owes them to the home");
}

/// Seed 161000436: a policy wants one version that is still below and one that is here, and one at a time is pushed.
#[test]
fn what_is_still_below_takes_no_room_from_what_is_here() {
    let (mut world, [s1, _], client, _) = two_stations();
    world.configure(s1, |config| config.pushes_max = 1);
    let other = world.add(crate::Role::Client, "ben@b");
    let slow = world.connect(client, s1);
    world.connect(other, s1);
    world.settle();
    world.hold_pushes(slow, true);
    let below = world.create(client, FileId::ROOT, "below");
    let below = (below, world.store(client, below, big("below")));
    let here = world.create(other, FileId::ROOT, "here");
    let here = (here, world.store(other, here, big("here")));
    world.pass(Duration::from_secs(3));
    for (file, version) in [below, here] {
        world.input(s1, crate::Input::Propagate { file, version });
    }
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("here").root().unwrap()), "it is sent");
    world.hold_pushes(slow, false);
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("below").root().unwrap()), "and the other when it has come");
}
