//! Log cancellation: the tree at the end is the same, and nothing is lost to others.

#![allow(clippy::unwrap_used, reason = "a test that meets nothing where something must be fails")]

mod world;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_tree::{Canceller, CreateFolding, MemoryView, apply, check, resolve};
use wayfs_types::request::Change;
use wayfs_types::{AttrChange, Content, FileId, Image, Inode, Key, Op, Record, RecordId};
use world::dice::{Dice, change, dice};
use world::{World, visible, volume};

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// A log after cancellation; the records before `sent` went out first.
fn cancelled(log: &[Record], folding: CreateFolding, sent: usize) -> Vec<Record> {
    let mut canceller = Canceller::new(folding);
    let mut kept: BTreeMap<RecordId, Record> = BTreeMap::new();
    for (at, record) in log.iter().enumerate() {
        if at == sent && at > 0 {
            canceller.forget(log[at - 1].id);
        }
        kept.insert(record.id, record.clone());
        for changed in canceller.push(record) {
            assert!(at < sent || changed.id >= log[sent.min(log.len() - 1)].id, "a sent record was changed");
            assert!(kept.insert(changed.id, changed).is_some(), "a record was invented");
        }
    }
    kept.into_values().collect()
}

/// What people see of a tree: all but versions and the times that cancellation may change.
fn seen(view: &MemoryView) -> Vec<(Key, Option<Inode>)> {
    let mut seen = Vec::new();
    for (key, image) in view.iter() {
        match image {
            Image::Entry(_) => seen.push((key.clone(), None)),
            Image::Inode(inode) if !inode.is_removed() => {
                let mut inode = (**inode).clone();
                (inode.version, inode.attr_version) = (RecordId::GENESIS, wayfs_types::AttrVersion::GENESIS);
                inode.ctime = Default::default();
                inode.btime = Default::default();
                if inode.is_directory() {
                    inode.mtime = Default::default();
                }
                seen.push((key.clone(), Some(inode)));
            }
            _ => {}
        }
    }
    seen
}

fn work(world: &mut World, all: &[Dice]) {
    for dice in all {
        if let Some(change) = change(world, dice) {
            let _ = world.change(dice.client, &change);
        }
    }
}

fn replayed(base: &MemoryView, log: &[Record]) -> MemoryView {
    let mut view = base.clone();
    for record in log {
        apply(&mut view, record).unwrap();
        assert_eq!(check(view.iter()), [], "{record:?}");
    }
    view
}

/// The contents that a client's unsent records stored and that it still sees at their end.
fn own_at_the_end(world: &World, client: usize) -> BTreeSet<Content> {
    let at = &world.clients[client];
    let unsent: BTreeSet<RecordId> = at.pending.iter().map(|record| record.id).collect();
    let own = |(_, image): (&Key, &Image)| match image {
        Image::Inode(inode) if !inode.is_removed() && unsent.contains(&inode.version) => Some(inode.content.clone()),
        _ => None,
    };
    at.view.iter().filter_map(own).filter(|content| content.size() > 0).collect()
}

/// Two handles of one client wrote upon the same version: the second store went to a copy, and removing
/// the first file must not take the copy along.
#[test]
fn a_store_that_made_a_copy_outlives_the_file_it_was_meant_for() {
    for folding in [CreateFolding::Keep, CreateFolding::Fold] {
        let mut world = World::new(1);
        world.create(0, "a");
        let file = world.file(0, "a");
        let base = file.maker();
        for content in ["first", "second"] {
            let mtime = Default::default();
            let change = Change::Store { file, base, content: world::text(content), mtime };
            world.change(0, &change).unwrap();
        }
        world.unlink(0, "a");
        let log: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
        let end = replayed(&world.home, &cancelled(&log, folding, 0));
        let copies = end.iter().filter(|(_, image)| matches!(image, Image::Inode(inode) if inode.content == world::text("second") && !inode.is_removed()));
        assert_eq!(copies.count(), 1, "{folding:?}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_cancelled_log_makes_the_same_tree(
        before in proptest::collection::vec(dice(1), 0..20),
        all in proptest::collection::vec(dice(1), 1..60),
        folds in any::<bool>(),
        sent in 0usize..20,
    ) {
        let mut world = World::new(1);
        work(&mut world, &before);
        world.settle();
        work(&mut world, &all);
        let log: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
        let folding = if folds { CreateFolding::Fold } else { CreateFolding::Keep };
        let short = cancelled(&log, folding, sent);
        let (plain, cancelled) = (replayed(&world.home, &log), replayed(&world.home, &short));
        prop_assert_eq!(seen(&plain), seen(&cancelled), "{:#?}\n{:#?}", log, short);
    }

    #[test]
    fn after_the_records_of_others_a_cancelled_log_loses_nothing_its_writer_still_had(
        before in proptest::collection::vec(dice(2), 0..20),
        all in proptest::collection::vec(dice(2), 1..80),
        folds in any::<bool>(),
    ) {
        let mut world = World::new(2);
        work(&mut world, &before);
        world.settle();
        work(&mut world, &all);
        let own = own_at_the_end(&world, 1);
        world.send_all(0);
        let others = visible(&world.home);
        let log: Vec<Record> = world.clients[1].pending.iter().cloned().collect();
        let folding = if folds { CreateFolding::Fold } else { CreateFolding::Keep };
        let short = cancelled(&log, folding, 0);
        let story = Story(&world, &log, &short);
        let plain = visible(&replayed(&world.home, &log));
        let cancelled = visible(&replayed(&world.home, &short));
        // Two people who each take one of the two names of a file have removed it together,
        // whoever of them wrote to it last. Without links that cannot be.
        let has_links = log.iter().chain(&world.ordered).any(|record| matches!(record.op, Op::Link { .. }));
        for content in own.into_iter().filter(|_| !has_links) {
            prop_assert!(plain.contains(&content), "the plain log loses {content:?}\n{story}");
            prop_assert!(cancelled.contains(&content), "the cancelled log loses {content:?}\n{story}");
        }
        // What others stored stays as far as it stayed before cancellation, unless the writer of
        // the log had it and gave it up.
        let given_up: BTreeSet<&Content> = log.iter().flat_map(|record| had(&world, record)).collect();
        for content in others.intersection(&plain).filter(|content| !given_up.contains(content)) {
            prop_assert!(cancelled.contains(content), "the cancelled log loses another's {content:?}\n{story}");
        }
    }
}

/// The contents that the writer of a record had: what it stores and what it overwrites or removes.
fn had<'a>(world: &'a World, record: &'a Record) -> Vec<&'a Content> {
    let seen = match &record.op {
        Op::Store { base, .. } => Some(base),
        Op::Unlink { version, .. } => Some(version),
        Op::Rename { replaced, .. } => replaced.as_ref().map(|replaced| &replaced.version),
        _ => None,
    };
    [Some(&record.id), seen].into_iter().flatten().map(|version| &world.contents[version]).collect()
}

/// What happened, a record a line.
struct Story<'a>(&'a World, &'a [Record], &'a [Record]);

impl std::fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(world, log, short) = self;
        for (title, records) in [("home", world.ordered.as_slice()), ("log", log), ("cancelled", short)] {
            writeln!(f, "{title}:")?;
            records.iter().try_for_each(|record| writeln!(f, "  {} {:?}", record.id, record.op))?;
        }
        writeln!(f, "before the log: {:?}", world::listing(&world.home))
    }
}

fn log_of(folding: CreateFolding, work: impl FnOnce(&mut World)) -> Vec<Record> {
    let mut world = World::new(1);
    world.create(0, "old");
    world.write(0, "old", "old");
    world.settle();
    work(&mut world);
    let log: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
    let short = cancelled(&log, folding, 0);
    assert_eq!(seen(&replayed(&world.home, &log)), seen(&replayed(&world.home, &short)));
    short.into_iter().filter(|record| record.op != Op::Touch).collect()
}

#[test]
fn a_temporary_file_leaves_no_trace() {
    let log = log_of(CreateFolding::Keep, |w| {
        w.create(0, "tmp");
        w.write(0, "tmp", "x");
        w.rename(0, "tmp", "other");
        w.write(0, "other", "y");
        w.unlink(0, "other");
    });
    assert_eq!(log, []);
}

#[test]
fn of_many_saves_by_rename_the_last_remains() {
    let log = log_of(CreateFolding::Fold, |w| {
        for save in 0..10 {
            w.create(0, "tmp");
            w.write(0, "tmp", &save.to_string());
            w.rename(0, "tmp", "old");
        }
    });
    assert_eq!(log.len(), 2, "{log:?}");
}

#[test]
fn a_saved_file_that_is_removed_takes_the_replaced_one_along() {
    let log = log_of(CreateFolding::Keep, |w| {
        w.create(0, "tmp");
        w.write(0, "tmp", "x");
        w.rename(0, "tmp", "old");
        w.unlink(0, "old");
    });
    assert!(matches!(log.as_slice(), [Record { op: Op::Unlink { .. }, .. }]), "{log:?}");
}

#[test]
fn of_many_stores_the_last_remains_and_keeps_the_first_base() {
    let log = log_of(CreateFolding::Keep, |w| (0..5).for_each(|n| w.write(0, "old", &n.to_string())));
    let [Record { op: Op::Store { base, .. }, .. }] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!(base.sequence(), 2);
}

#[test]
fn a_create_and_its_stores_are_one_record_when_folding() {
    let log = log_of(CreateFolding::Fold, |w| {
        w.create(0, "new");
        w.write(0, "new", "x");
        w.write(0, "new", "y");
    });
    assert_eq!(log.len(), 1, "{log:?}");
}

#[test]
fn changes_of_attributes_join() {
    let log = log_of(CreateFolding::Keep, |w| {
        let file = w.file(0, "old");
        for change in
            [AttrChange { mode: Some(0o600), ..Default::default() }, AttrChange { uid: Some(5), ..Default::default() }]
        {
            w.change(0, &Change::SetAttr { file, change }).unwrap();
        }
    });
    let [Record { op: Op::SetAttr { change, .. }, .. }] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!((change.mode, change.uid), (Some(0o600), Some(5)));
}

#[test]
fn what_another_origin_named_stays() {
    let mut world = World::new(2);
    world.create(0, "tmp");
    world.write(0, "tmp", "x");
    let first: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
    world.send_all(0);
    world.refresh_all();
    world.link(1, "tmp", "kept");
    world.unlink(0, "tmp");
    let mut canceller = Canceller::new(CreateFolding::Keep);
    first.iter().for_each(|record| assert_eq!(canceller.push(record), []));
    canceller.observe(&world.clients[1].pending[0]);
    assert_eq!(canceller.push(&world.clients[0].pending[0]), []);
}

#[test]
fn a_directory_that_only_locked_leaves_no_trace() {
    let log = log_of(CreateFolding::Keep, |w| {
        for _ in 0..2 {
            w.mkdir(0, "#lock");
            w.rmdir(0, "#lock");
        }
    });
    assert_eq!(log, []);
}

#[test]
fn a_directory_in_which_something_was_done_stays_in_the_log() {
    let log = log_of(CreateFolding::Keep, |w| {
        w.mkdir(0, "dir");
        w.create(0, "dir/tmp");
        w.unlink(0, "dir/tmp");
        w.rmdir(0, "dir");
    });
    assert!(
        matches!(log.as_slice(), [Record { op: Op::Mkdir { .. }, .. }, Record { op: Op::Rmdir { .. }, .. }]),
        "{log:?}"
    );
}

#[test]
fn a_directory_in_which_another_origin_works_stays() {
    let mut world = World::new(2);
    world.mkdir(0, "dir");
    let first: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
    world.send_all(0);
    world.refresh_all();
    world.create(1, "dir/new");
    world.rmdir(0, "dir");
    let mut canceller = Canceller::new(CreateFolding::Keep);
    first.iter().for_each(|record| assert_eq!(canceller.push(record), []));
    canceller.observe(&world.clients[1].pending[0]);
    assert_eq!(canceller.push(&world.clients[0].pending[0]), []);
}

#[test]
fn a_long_log_is_taken_without_a_search() {
    let mut canceller = Canceller::new(CreateFolding::Keep);
    let mut world = World::new(1);
    world.create(0, "a");
    world.write(0, "a", "x");
    let store = world.clients[0].pending.pop_back().unwrap();
    let mut touched = 0;
    for sequence in 2..200_000 {
        let id = RecordId::new(store.id.origin(), sequence).unwrap();
        let Op::Store { content, mtime, .. } = store.op.clone() else { panic!() };
        let file = FileId::made_by(RecordId::new(store.id.origin(), 1 + sequence % 70_000).unwrap());
        let op = Op::Store { file, base: store.id, content, mtime };
        touched += canceller.push(&Record { id, op, ..store.clone() }).len();
        if sequence % 10_000 == 0 {
            canceller.forget(id);
        }
    }
    assert_eq!(touched, 0);
    assert_eq!(resolve(&volume(1), FileId::ROOT), Ok(FileId::ROOT));
}

#[test]
fn a_life_is_not_cancelled_by_who_did_not_see_the_last_of_it() {
    let mut world = World::new(2);
    world.create(0, "a");
    world.write(0, "a", "one");
    let log: Vec<Record> = world.clients[0].pending.iter().cloned().collect();
    let file = FileId::made_by(log[0].id);
    let unlink = |version: RecordId| {
        let id = RecordId::new(world::origin(0), 9).unwrap();
        let name = wayfs_types::Name::new("a").unwrap();
        Record { id, op: Op::Unlink { parent: FileId::ROOT, name, file, version }, ..log[1].clone() }
    };
    let instead = |version| {
        let mut canceller = Canceller::new(CreateFolding::Keep);
        log.iter().for_each(|record| assert_eq!(canceller.push(record), []));
        canceller.push(&unlink(version))
    };
    assert_eq!(instead(log[1].id).len(), 3, "nothing of it is left");
    // Somebody's version came between: what was stored upon the writer's own is a copy by now, and stays.
    assert_eq!(instead(RecordId::new(world::origin(1), 4).unwrap()), []);
    assert_eq!(instead(log[0].id), []);
}
