//! Random trees, random records, random order. `PROPTEST_CASES` asks for more cases.

#![allow(clippy::unwrap_used, reason = "a test that meets nothing where something must be fails")]

mod world;

use bytes::Bytes;
use proptest::prelude::*;
use wayfs_tree::{BuildError, Outcome, ViewMut, applied, apply, check, purgeable};
use wayfs_types::{
    AttrChange, Content, FileId, Image, Key, Kind, Name, Op, Record, RecordId, Replaced, UserId, WallTime,
};
use world::dice::{Dice, NAMES, change, dice};
use world::{World, content_of, listing, name, text, volume};

const CASES: u32 = 1000;
const CLIENTS: usize = 3;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// One step: somebody changes something, sends one or all, or looks anew.
fn step(world: &mut World, dice: &Dice) {
    match dice.action {
        19 => drop(world.send_one(dice.client)),
        20 => drop(world.send_all(dice.client)),
        21 => world.refresh(dice.client),
        _ => {
            let Some(change) = change(world, dice) else { return };
            match world.change(dice.client, &change) {
                Ok(effect) => assert_eq!(effect.outcome, Outcome::AsMeant, "{change:?}"),
                Err(BuildError::Refused(_)) => {}
                Err(BuildError::Storage(error)) => panic!("memory never fails: {error}"),
            }
            assert_eq!(check(world.clients[dice.client].view.iter()), [], "{change:?}");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Invariants 1, 3 and 6, and that only state and record decide.
    #[test]
    fn whatever_people_do_the_tree_holds_and_nothing_is_lost(all in proptest::collection::vec(dice(CLIENTS), 1..80)) {
        let mut world = World::new(CLIENTS);
        for dice in &all {
            step(&mut world, dice);
        }
        world.settle();
        let mut again = volume(CLIENTS);
        for record in &world.ordered {
            apply(&mut again, record).unwrap();
        }
        prop_assert_eq!(&again, &world.home);
        for client in &world.clients {
            prop_assert_eq!(&client.view, &world.home);
            prop_assert_eq!(applied(&world.home, client.origin).unwrap(), client.next - 1);
        }
    }

    /// The home may forget markers too early (a client was away for longer than they are kept):
    /// the tree holds, and what is stored is still somewhere.
    #[test]
    fn markers_forgotten_too_early_break_nothing(all in proptest::collection::vec((dice(CLIENTS), 0u8..8), 1..80)) {
        let mut world = World::new(CLIENTS);
        for (dice, purge) in &all {
            step(&mut world, dice);
            if *purge == 0 {
                forget_markers(&mut world);
            }
        }
        world.settle();
    }

    /// Records as a liar would send them: any ids, any names, any versions.
    #[test]
    fn no_record_breaks_a_tree(all in proptest::collection::vec(any::<[u8; 8]>(), 1..60)) {
        let mut view = volume(CLIENTS);
        let mut next = [1u64; CLIENTS];
        for bytes in &all {
            let record = liar(bytes, &mut next);
            let once = { let mut once = view.clone(); apply(&mut once, &record).unwrap(); once };
            apply(&mut view, &record).unwrap();
            prop_assert_eq!(&once, &view);
            prop_assert_eq!(check(view.iter()), [], "{:?}\n{:?}", record, listing(&view));
            let effect = apply(&mut view, &record).unwrap();
            prop_assert_eq!(effect.outcome, Outcome::Duplicate);
            prop_assert_eq!(&once, &view);
            if let Op::Store { .. } = record.op {
                let content = content_of(&record.op);
                prop_assert!(world::visible(&view).contains(&content) || content == Content::EMPTY);
            }
        }
    }
}

fn forget_markers(world: &mut World) {
    let is_marker = |(key, image): (&Key, &Image)| match image {
        Image::Inode(inode) if purgeable(inode) => Some(key.clone()),
        _ => None,
    };
    let markers: Vec<Key> = world.home.iter().filter_map(is_marker).collect();
    for key in markers {
        world.home.put(key, None).unwrap();
    }
}

fn any_id(byte: u8) -> RecordId {
    match byte % 26 {
        0 => RecordId::GENESIS,
        at => RecordId::new(world::origin(usize::from(at % 3)), u64::from(at / 3) + 1).unwrap(),
    }
}

fn liar(bytes: &[u8; 8], next: &mut [u64; CLIENTS]) -> Record {
    let client = usize::from(bytes[0]) % CLIENTS;
    let id = RecordId::new(world::origin(client), next[client]).unwrap();
    next[client] += 1;
    let file = |at: usize| FileId::made_by(any_id(bytes[at]));
    let any_name = |at: usize| -> Name { name(NAMES[usize::from(bytes[at]) % NAMES.len()]) };
    let time = WallTime::from_nanos(i64::from(bytes[7]) * 36_000_000_000_000_000);
    let content = text(&format!("{}", bytes[6] % 5));
    let (mode, uid, gid) = (u16::from(bytes[5]) * 257, 0, 0);
    let kind = match bytes[4] % 5 {
        0 => Kind::Directory,
        1 => Kind::Symlink(Bytes::from(vec![b'x'; usize::from(bytes[5]) * 40])),
        2 => Kind::Fifo,
        _ => Kind::File,
    };
    let op = match bytes[1] % 14 {
        0 | 1 => Op::Create { parent: file(2), name: any_name(3), kind, mode, uid, gid, content },
        2 | 3 => Op::Mkdir { parent: file(2), name: any_name(3), mode, uid, gid },
        4 => Op::Link { file: file(4), parent: file(2), name: any_name(3) },
        5 => Op::Unlink { parent: file(2), name: any_name(3), file: file(4), version: any_id(bytes[5]) },
        6 => Op::Rmdir { parent: file(2), name: any_name(3), file: file(4) },
        7..=9 => {
            let replaced = bytes[7].is_multiple_of(2).then(|| Replaced { file: file(6), version: any_id(bytes[7]) });
            let (from_parent, from_name, to_parent, to_name) = (file(2), any_name(3), file(5), any_name(6));
            match bytes[7] % 4 {
                1 => Op::Exchange { from_parent, from_name, file: file(4), to_parent, to_name, other: file(6) },
                _ => Op::Rename { from_parent, from_name, file: file(4), to_parent, to_name, replaced },
            }
        }
        10 => Op::SetAttr {
            file: file(2),
            base: wayfs_types::AttrVersion(any_id(bytes[3])),
            change: AttrChange { mode: Some(mode), ..Default::default() },
        },
        11 => Op::Store { file: file(2), base: any_id(bytes[3]), content, mtime: time },
        12 => Op::Resolve { conflict: any_id(bytes[2]) },
        _ => Op::Store { file: file(2), base: any_id(bytes[2]), content, mtime: time },
    };
    Record { id, time, user: UserId(0), op }
}
