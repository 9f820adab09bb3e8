//! What a child sent up does not come back down.

use super::world::{HOME, World, small};
use crate::{Input, Output, PeerId, Role};
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{AttrChange, CommitNumber, Content, Digest, FileId, Image, Key, Origin};
use wayfs_wire::{Down, KeyImage, Message, Omitted, encode};

const LEN: u64 = 4000;

fn long(letter: char) -> Content {
    small(&letter.to_string().repeat(usize::try_from(LEN).unwrap()))
}

/// A station and its client, at rest, and the client's session.
fn station_and_client() -> (World, usize, usize, PeerId) {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "s@s"), world.add(Role::Client, "ann@a"));
    world.connect(station, HOME);
    world.settle();
    let peer = world.connect(client, station);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    (world, station, client, peer)
}

fn content_at(world: &World, host: usize, file: FileId) -> Content {
    world.hosts[host].replica.inode(file).unwrap().unwrap().content.clone()
}

#[test]
fn contents_cross_each_line_once() {
    let (mut world, station, client, _) = station_and_client();
    let file = world.create(client, FileId::ROOT, "f");
    world.pass(Duration::from_secs(2));
    let before = world.bytes;
    world.store(client, file, long('a'));
    world.pass(Duration::from_secs(2));
    let carried = world.bytes - before;
    assert!((2 * LEN..3 * LEN).contains(&carried), "two lines, {carried} bytes");
    for host in [HOME, station, client] {
        assert_eq!(content_at(&world, host, file), long('a'));
    }
    world.assert_agrees(client);
}

#[test]
fn who_did_not_write_them_gets_them() {
    let (mut world, station, client, _) = station_and_client();
    let other = world.add(Role::Client, "ben@b");
    world.connect(other, station);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.pass(Duration::from_secs(2));
    world.names(other, FileId::ROOT).unwrap();
    world.store(client, file, long('a'));
    world.pass(Duration::from_secs(2));
    assert_eq!(content_at(&world, other, file), long('a'));
}

#[test]
fn what_others_make_of_the_file_later_comes_whole() {
    let (mut world, station, client, _) = station_and_client();
    let other = world.add(Role::Client, "ben@b");
    world.connect(other, station);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.store(client, file, long('a'));
    world.pass(Duration::from_secs(2));
    world.lookup(other, FileId::ROOT, "f").unwrap();
    let change = AttrChange { mode: Some(0o600), ..AttrChange::default() };
    world.change(other, Change::SetAttr { file, change }).unwrap();
    world.pass(Duration::from_secs(2));
    let inode = world.hosts[client].replica.inode(file).unwrap().unwrap();
    assert_eq!((inode.mode, inode.content.clone()), (0o600, long('a')), "its own version, and the record is long gone");
    world.assert_agrees(client);
}

#[test]
fn a_new_session_is_told_everything() {
    let (mut world, station, client, peer) = station_and_client();
    let file = world.create(client, FileId::ROOT, "f");
    world.pass(Duration::from_secs(2));
    world.stall(peer, true);
    world.store(client, file, long('a'));
    world.settle();
    // The station takes it, and what it says of it does not arrive.
    world.step_up(peer, 1);
    world.settle();
    world.close(peer);
    world.connect(client, station);
    world.pass(Duration::from_secs(2));
    assert_eq!(content_at(&world, client, file), long('a'));
    assert!(world.hosts[client].replica.is_settled());
    world.assert_agrees(client);
}

/// Seed 2406206: the home's history of a client parts from what a station took of it and has just sent.
#[test]
fn what_is_written_again_by_another_name_may_come_back_without_its_contents() {
    let (mut world, station, client, _) = station_and_client();
    let line = world.line_of(station);
    world.create(client, FileId::ROOT, "before");
    world.pass(Duration::from_secs(2));
    let origin = world.hosts[client].origin;
    let Some(Image::Origin(confirmed)) = world.tree(station).remove(&Key::Origin(origin)) else { panic!() };
    world.stall(line, true);
    let file = world.create(client, FileId::ROOT, "f");
    world.store(client, file, long('a'));
    world.pass(Duration::from_millis(1500));
    let mut inode = world.hosts[station].replica.inode(file).unwrap().unwrap();
    Arc::make_mut(&mut inode).content = Content::EMPTY;
    let told = |serial, pair, omitted| {
        let through = CommitNumber(1000 + serial);
        Down::Images { serial: wayfs_wire::FrameSerial(serial), through, more: false, images: vec![pair], omitted }
    };
    let parted = Origin { chain: confirmed.chain.then(b"another"), ..Origin::clone(&confirmed) };
    let other = KeyImage { key: Key::Origin(origin), image: Some(Image::Origin(parted.into())) };
    let without = KeyImage { key: Key::Inode(file), image: Some(Image::Inode(inode)) };
    let omitted = vec![Omitted { index: 0, digest: Digest::of("a".repeat(4000).as_bytes()) }];
    for told in [told(98, other, vec![]), told(99, without, omitted)] {
        world.input(station, Input::Message { peer: line, bytes: encode(&Message::Down(told)) });
    }
    let events = &world.hosts[station].events;
    assert!(events.iter().any(|event| matches!(event, Output::Rescued { .. })), "{events:?}");
    assert!(world.is_open(line), "it has them");
    assert_eq!(content_at(&world, station, file), long('a'));
}

#[test]
fn a_parent_that_leaves_out_what_is_not_here_is_left() {
    let (mut world, _, client, peer) = station_and_client();
    let file = world.create(client, FileId::ROOT, "f");
    world.store(client, file, long('a'));
    world.pass(Duration::from_secs(2));
    let mut inode = world.hosts[client].replica.inode(file).unwrap().unwrap();
    Arc::make_mut(&mut inode).content = Content::EMPTY;
    let images = vec![KeyImage { key: Key::Inode(file), image: Some(Image::Inode(inode)) }];
    let omitted = vec![Omitted { index: 0, digest: Digest::of("a".repeat(4000).as_bytes()) }];
    let told =
        Down::Images { serial: wayfs_wire::FrameSerial(99), through: CommitNumber(99), more: false, images, omitted };
    world.input(client, Input::Message { peer, bytes: encode(&Message::Down(told)) });
    let left = |event: &Output| matches!(event, Output::Disconnect { reason, .. } if reason.contains("left out"));
    assert!(
        world.hosts[client].events.iter().any(left),
        "the record was confirmed and is not a tentative one any more"
    );
    assert_eq!(content_at(&world, client, file), long('a'));
}
