//! Every row of the conflict table, as two people would meet it. Client 0
//! reaches the home first, client 1 second.

#![allow(clippy::unwrap_used, reason = "a test that meets nothing where something must be fails")]

mod world;

use wayfs_tree::{Outcome, apply, inode, purgeable, resolve};
use wayfs_types::{ConflictKind, FileId, Key, Op, Record};
use world::World;

/// A world of three in which everybody has seen what `prepare` did.
fn world(prepare: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(3);
    prepare(&mut world);
    assert_eq!(world.settle(), []);
    world
}

fn with_file() -> World {
    world(|w| {
        w.create(0, "a.txt");
        w.write(0, "a.txt", "old");
    })
}

#[test]
fn of_two_stores_the_later_becomes_a_copy_and_its_writer_stays_on_it() {
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    w.write(1, "a.txt", "one more");
    w.write(1, "a.txt", "one at last");
    assert_eq!(w.settle(), [ConflictKind::StoreStore]);
    let copy = "a.conflict-19700101-001644-user1@host1.txt=one at last";
    assert_eq!(w.listing(), [copy, "a.txt=zero"]);
}

#[test]
fn a_store_of_what_is_there_already_is_no_conflict() {
    let mut w = with_file();
    w.write(0, "a.txt", "same");
    w.write(1, "a.txt", "same");
    w.write(1, "a.txt", "more");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["a.txt=more"]);
}

#[test]
fn a_file_stored_apart_and_then_removed_stays_and_so_does_the_copy() {
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    w.unlink(1, "a.txt");
    assert_eq!(w.settle(), [ConflictKind::StoreStore, ConflictKind::StoreUnlink]);
    assert_eq!(w.listing().len(), 2);
}

/// Seed 9301421: a name that somebody else took away meanwhile is not the copy that the file got its other name as.
#[test]
fn a_copy_whose_second_name_two_remove_stays_under_its_first() {
    let copy = "a.conflict-19700101-001644-user1@host1.txt";
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    assert_eq!(w.settle(), [ConflictKind::StoreStore]);
    w.unlink(0, "a.txt");
    w.link(0, copy, "a.txt");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), [format!("{copy}=one"), "a.txt=one".to_owned()]);
    w.unlink(0, "a.txt");
    w.unlink(2, "a.txt");
    w.settle();
    assert_eq!(w.listing(), [format!("{copy}=one")]);
}

#[test]
fn a_third_writer_upon_the_losing_version_goes_on_in_the_copy() {
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    // Both 1 and 2 work through one station: 2 sees the version of 1 before the home ordered it.
    let record = w.clients[1].pending[0].clone();
    apply(&mut w.clients[2].view, &record).unwrap();
    w.write(2, "a.txt", "two upon one");
    w.settle();
    assert_eq!(w.listing()[0].split('=').next_back(), Some("two upon one"));
    assert_eq!(w.listing()[1], "a.txt=zero");
    assert_eq!(w.listing().len(), 2);
}

#[test]
fn a_version_is_not_lost_to_one_that_was_made_upon_another_of_its_writer() {
    let mut w = with_file();
    // At the station of 1 and 2, the version of 1 comes first, and that of 0, who moves there, becomes a copy. The home
    // hears of 0 first.
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    let (zero, one) = (w.clients[0].pending[0].clone(), w.clients[1].pending[0].clone());
    for client in [0, 2] {
        let view = &mut w.clients[client].view;
        *view = w.home.clone();
        apply(view, &one).unwrap();
        apply(view, &zero).unwrap();
    }
    w.write(0, "a.txt", "zero upon one");
    let upon_one = w.clients[0].pending[1].clone();
    apply(&mut w.clients[2].view, &upon_one).unwrap();
    w.write(2, "a.txt", "two upon zero upon one");
    // Then the station is cut off, and 1 and 2 go to the home themselves.
    w.send_one(0);
    w.send_one(1);
    w.send_one(2);
    assert!(w.listing().contains(&"a.txt=zero".to_owned()), "{:?}", w.listing());
    w.send_one(0);
    assert!(w.listing().contains(&"a.txt=zero".to_owned()), "{:?}", w.listing());
    assert!(w.listing().iter().any(|file| file.ends_with("=two upon zero upon one")), "{:?}", w.listing());
}

/// Of what 0 wrote, 1 saw this at the station of both, and moved: what 1 does upon it reaches the home first.
fn ahead_of(versions: &[&str]) -> World {
    let mut w = world(|w| w.create(0, "a.txt"));
    for version in versions {
        w.write(0, "a.txt", version);
    }
    for record in w.clients[0].pending.clone() {
        apply(&mut w.clients[1].view, &record).unwrap();
    }
    w.write(1, "a.txt", "upon it");
    w
}

#[test]
fn a_version_that_comes_after_what_was_built_upon_it_takes_nobodys_place() {
    let mut w = ahead_of(&["seen"]);
    w.send_all(1);
    let late = w.send_all(0);
    assert_eq!(late[0].outcome, Outcome::Merged);
    assert_eq!(w.listing(), ["a.txt=upon it"]);
}

/// Seed 3209101.
#[test]
fn a_version_that_comes_after_its_heir_was_removed_does_not_bring_the_file_back() {
    let mut w = ahead_of(&["seen"]);
    w.unlink(1, "a.txt");
    w.send_all(1);
    w.send_all(0);
    assert_eq!(w.listing(), [] as [&str; 0]);
}

#[test]
fn what_brought_a_removed_file_back_goes_again_when_a_later_version_shows_that_it_was_seen() {
    let mut w = ahead_of(&["one", "two"]);
    w.unlink(1, "a.txt");
    w.send_all(1);
    w.send_one(0);
    assert_eq!(w.listing(), ["a.txt=one"], "nobody can tell yet that its remover had seen it");
    w.send_one(0);
    assert_eq!(w.listing(), [] as [&str; 0]);
    let report = Key::Conflict(w.ordered[w.ordered.len() - 2].id);
    assert_eq!(wayfs_tree::View::image(&w.home, &report), Ok(None), "nor is it reported");
}

#[test]
fn what_was_written_upon_a_late_version_by_another_stays() {
    let mut w = ahead_of(&["seen"]);
    w.unlink(1, "a.txt");
    for record in w.clients[0].pending.clone() {
        apply(&mut w.clients[2].view, &record).unwrap();
    }
    w.write(2, "a.txt", "beside it");
    w.send_all(1);
    w.send_all(0);
    w.send_all(2);
    assert_eq!(w.listing(), ["a.txt=beside it"], "its remover had not seen that");
}

#[test]
fn two_files_of_one_name_stand_side_by_side() {
    let mut w = world(|_| ());
    w.create(0, "a");
    w.write(0, "a", "zero");
    w.create(1, "a");
    w.write(1, "a", "one");
    assert_eq!(w.settle(), [ConflictKind::CreateCreate]);
    assert_eq!(w.listing(), ["a.conflict-19700101-001643-user1@host1=one", "a=zero"]);
}

#[test]
fn a_file_that_got_a_conflict_name_is_renamed_and_removed_by_the_name_its_writer_knows() {
    let mut w = world(|_| ());
    for client in [0, 1, 2] {
        w.create(client, "tmp");
        w.write(client, "tmp", &format!("by {client}"));
    }
    w.rename(1, "tmp", "final");
    w.unlink(2, "tmp");
    assert_eq!(w.settle(), [ConflictKind::CreateCreate, ConflictKind::CreateCreate]);
    assert_eq!(w.listing(), ["final=by 1", "tmp=by 0"]);
}

#[test]
fn two_files_of_one_name_with_equal_contents_are_one() {
    let mut w = world(|_| ());
    w.create(0, "a");
    w.create(1, "a");
    let second = w.file(1, "a");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["a="]);
    assert_eq!(resolve(&w.home, second), Ok(w.file(0, "a")));
    assert!(purgeable(&inode(&w.home, second).unwrap().unwrap()));
}

#[test]
fn the_later_records_of_a_merged_file_go_to_the_first() {
    let mut w = world(|_| ());
    w.create(0, "a");
    w.create(1, "a");
    w.write(1, "a", "one");
    w.rename(1, "a", "b");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["b=one"]);
}

#[test]
fn a_merged_file_that_both_write_has_one_copy() {
    let mut w = world(|_| ());
    w.create(0, "a");
    w.create(1, "a");
    w.send_all(0);
    w.send_all(1);
    w.write(0, "a", "zero");
    w.write(1, "a", "one");
    assert_eq!(w.settle(), [ConflictKind::StoreStore]);
    assert_eq!(w.listing().len(), 2);
}

#[test]
fn two_directories_of_one_name_are_one_with_the_contents_of_both() {
    let mut w = world(|_| ());
    for (client, file) in [(0, "d/x"), (1, "d/y"), (2, "d/x")] {
        w.mkdir(client, "d");
        w.create(client, file);
        w.write(client, file, &client.to_string());
    }
    w.mkdir(1, "d/sub");
    assert_eq!(w.settle(), [ConflictKind::CreateCreate]);
    let copy = "d/x.conflict-19700101-001648-user2@host2=2";
    assert_eq!(w.listing(), ["d/", "d/sub/", copy, "d/x=0", "d/y=1"]);
}

#[test]
fn a_file_and_a_directory_of_one_name_stand_side_by_side() {
    let mut w = world(|_| ());
    w.create(0, "a");
    w.mkdir(1, "a");
    w.create(1, "a/x");
    assert_eq!(w.settle(), [ConflictKind::CreateCreate]);
    let directory = "a.conflict-19700101-001642-user1@host1";
    assert_eq!(w.listing(), [format!("{directory}/"), format!("{directory}/x="), "a=".to_owned()]);
}

#[test]
fn a_store_that_arrives_before_a_removal_keeps_the_file() {
    let mut w = with_file();
    w.write(0, "a.txt", "new");
    w.unlink(1, "a.txt");
    assert_eq!(w.settle(), [ConflictKind::StoreUnlink]);
    assert_eq!(w.listing(), ["a.txt=new"]);
}

#[test]
fn a_store_that_arrives_after_a_removal_brings_the_file_back_with_its_rights() {
    let mut w = with_file();
    w.unlink(0, "a.txt");
    w.write(1, "a.txt", "new");
    w.write(1, "a.txt", "newer");
    assert_eq!(w.settle(), [ConflictKind::StoreUnlink]);
    assert_eq!(w.listing(), ["a.txt=newer"]);
    assert_eq!(inode(&w.home, w.file(0, "a.txt")).unwrap().unwrap().mode, 0o644);
}

#[test]
fn a_file_that_comes_back_to_a_taken_name_stands_beside_it() {
    let mut w = with_file();
    w.unlink(0, "a.txt");
    w.create(0, "a.txt");
    w.write(0, "a.txt", "another");
    w.write(1, "a.txt", "new");
    assert_eq!(w.settle(), [ConflictKind::StoreUnlink]);
    assert_eq!(w.listing(), ["a.conflict-19700101-001646-user1@host1.txt=new", "a.txt=another"]);
}

#[test]
fn a_remover_who_makes_the_name_anew_gets_a_file_beside_the_one_that_stayed() {
    let mut w = with_file();
    w.write(0, "a.txt", "new");
    w.unlink(1, "a.txt");
    w.create(1, "a.txt");
    w.write(1, "a.txt", "mine");
    assert_eq!(w.settle(), [ConflictKind::StoreUnlink, ConflictKind::CreateCreate]);
    assert_eq!(w.listing().len(), 2);
}

#[test]
fn one_of_two_names_goes_whatever_the_file_holds() {
    let mut w = with_file();
    w.link(0, "a.txt", "b.txt");
    w.settle();
    w.write(0, "a.txt", "new");
    w.unlink(1, "a.txt");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["b.txt=new"]);
}

#[test]
fn a_directory_in_which_somebody_works_stays() {
    let mut w = world(|w| w.mkdir(0, "d"));
    w.create(0, "d/x");
    w.rmdir(1, "d");
    assert_eq!(w.settle(), [ConflictKind::InsideRmdir]);
    assert_eq!(w.listing(), ["d/", "d/x="]);
}

#[test]
fn removed_directories_come_back_for_what_is_made_in_them() {
    let mut w = world(|w| {
        w.mkdir(0, "d");
        w.mkdir(0, "d/e");
    });
    w.rmdir(0, "d/e");
    w.rmdir(0, "d");
    w.create(1, "d/e/x");
    w.create(1, "d/e/y");
    assert_eq!(w.settle(), [ConflictKind::InsideRmdir]);
    assert_eq!(w.listing(), ["d/", "d/e/", "d/e/x=", "d/e/y="]);
}

#[test]
fn a_directory_that_was_made_anew_takes_what_comes_for_the_old_one() {
    let mut w = world(|w| w.mkdir(0, "d"));
    w.rmdir(0, "d");
    w.mkdir(0, "d");
    w.create(1, "d/x");
    w.settle();
    assert_eq!(w.listing(), ["d/", "d/x="]);
}

#[test]
fn what_has_no_directory_left_even_as_a_marker_goes_into_the_root() {
    let mut w = world(|w| w.mkdir(0, "d"));
    w.rmdir(0, "d");
    w.create(1, "d/x");
    w.write(1, "d/x", "kept");
    let directory = w.file(1, "d");
    w.send_all(0);
    wayfs_tree::ViewMut::put(&mut w.home, Key::Inode(directory), None).unwrap();
    assert_eq!(w.settle(), [ConflictKind::Homeless]);
    assert_eq!(w.listing(), ["x=kept"]);
}

#[test]
fn a_store_to_a_file_that_nobody_remembers_is_kept_in_the_root() {
    let mut w = with_file();
    w.unlink(0, "a.txt");
    w.write(1, "a.txt", "kept");
    w.write(1, "a.txt", "kept, too");
    let file = w.file(1, "a.txt");
    w.send_all(0);
    wayfs_tree::ViewMut::put(&mut w.home, Key::Inode(file), None).unwrap();
    assert_eq!(w.settle(), [ConflictKind::Homeless]);
    assert_eq!(w.listing(), ["recovered.conflict-19700101-001644-user1@host1=kept, too"]);
}

#[test]
fn of_two_renames_the_first_wins() {
    let mut w = with_file();
    w.rename(0, "a.txt", "b.txt");
    w.rename(1, "a.txt", "c.txt");
    assert_eq!(w.settle(), [ConflictKind::RenameRename]);
    assert_eq!(w.listing(), ["b.txt=old"]);
}

#[test]
fn two_equal_renames_are_one() {
    let mut w = with_file();
    w.rename(0, "a.txt", "b.txt");
    w.rename(1, "a.txt", "b.txt");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["b.txt=old"]);
}

#[test]
fn a_rename_onto_a_name_that_was_taken_meanwhile_stands_beside_it() {
    let mut w = with_file();
    w.create(0, "b.txt");
    w.write(0, "b.txt", "zero");
    w.rename(1, "a.txt", "b.txt");
    assert_eq!(w.settle(), [ConflictKind::RenameRename]);
    assert_eq!(w.listing(), ["b.conflict-19700101-001645-user1@host1.txt=old", "b.txt=zero"]);
}

#[test]
fn a_save_by_rename_over_a_version_not_seen_becomes_the_copy() {
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.create(1, ".a.swp");
    w.write(1, ".a.swp", "one");
    w.rename(1, ".a.swp", "a.txt");
    assert_eq!(w.settle(), [ConflictKind::StoreStore]);
    assert_eq!(w.listing()[0].split('=').next_back(), Some("one"));
    assert_eq!(w.listing()[1], "a.txt=zero");
}

#[test]
fn two_saves_by_rename_of_equal_contents_are_one_and_can_be_written_on() {
    let mut w = with_file();
    for client in [0, 1] {
        let temporary = format!(".swp{client}");
        w.create(client, &temporary);
        w.write(client, &temporary, "same");
        w.rename(client, &temporary, "a.txt");
    }
    w.write(1, "a.txt", "one more");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["a.txt=one more"]);
}

#[test]
fn a_rename_that_would_make_a_cycle_is_refused() {
    let mut w = world(|w| {
        w.mkdir(0, "a");
        w.mkdir(0, "b");
    });
    w.rename(0, "a", "b/a");
    w.rename(1, "b", "a/b");
    assert_eq!(w.settle(), [ConflictKind::RenameCycle]);
    assert_eq!(w.listing(), ["b/", "b/a/"]);
}

#[test]
fn a_directory_is_not_moved_over_one_that_was_filled_meanwhile() {
    let mut w = world(|w| {
        w.mkdir(0, "a");
        w.mkdir(0, "b");
    });
    w.create(0, "b/x");
    w.rename(1, "a", "b");
    assert_eq!(w.settle(), [ConflictKind::InsideRmdir]);
    assert_eq!(w.listing(), ["b.conflict-19700101-001644-user1@host1/", "b/", "b/x="]);
}

#[test]
fn of_two_changes_of_attributes_the_later_wins_and_is_reported() {
    let mut w = with_file();
    for (client, mode) in [(0, 0o600), (1, 0o640), (2, 0o640)] {
        let file = w.file(client, "a.txt");
        let change = wayfs_types::AttrChange { mode: Some(mode), ..Default::default() };
        w.change(client, &wayfs_types::request::Change::SetAttr { file, change }).unwrap();
    }
    assert_eq!(w.settle(), [ConflictKind::SetAttrSetAttr]);
    assert_eq!(inode(&w.home, w.file(0, "a.txt")).unwrap().unwrap().mode, 0o640);
}

#[test]
fn a_report_is_filed_under_its_record_and_goes_away_when_resolved() {
    let mut w = with_file();
    w.write(0, "a.txt", "zero");
    w.write(1, "a.txt", "one");
    w.settle();
    let report = w.reports().pop().unwrap();
    assert_eq!(report.copy, Some(FileId::made_by(report.record)));
    let resolve = wayfs_types::request::Change::Resolve { conflict: report.record };
    w.change(2, &resolve).unwrap();
    w.settle();
    assert_eq!(w.reports(), []);
    assert!(w.change(2, &resolve).is_err());
}

#[test]
fn copies_of_one_second_get_numbers() {
    let mut w = with_file();
    let store = |w: &mut World, sequence: u64, content: &str| {
        let file = w.file(0, "a.txt");
        let id = wayfs_types::RecordId::new(world::origin(2), sequence).unwrap();
        let base = wayfs_types::RecordId::GENESIS;
        let (time, user) = (wayfs_types::WallTime::EPOCH, wayfs_types::UserId(0));
        let op = Op::Store { file, base, content: world::text(content), mtime: time };
        apply(&mut w.home, &Record { id, time, user, op }).unwrap()
    };
    for sequence in 1..=12 {
        store(&mut w, sequence, &sequence.to_string());
    }
    assert_eq!(store(&mut w, 12, "12").outcome, Outcome::Duplicate);
    let listing = w.listing();
    assert_eq!(listing.len(), 13);
    assert!(listing.contains(&"a.conflict-19700101-000000-user2@host2-2.txt=2".to_owned()), "{listing:?}");
    assert!(listing.contains(&"a.conflict-19700101-000000-user2@host2-3.12-10.txt=12".to_owned()), "{listing:?}");
}

#[test]
fn a_directory_is_not_moved_into_a_removed_one_that_it_took_the_place_of() {
    let mut w = world(|w| {
        w.mkdir(0, "a");
        w.mkdir(0, "b");
    });
    w.rmdir(0, "a");
    w.rename(0, "b", "a");
    w.rename(1, "b", "a/b");
    assert_eq!(w.settle(), [ConflictKind::RenameRename]);
    assert_eq!(w.listing(), ["a/"]);
}

#[test]
fn a_link_to_a_removed_file_is_where_a_later_store_brings_it_back() {
    let mut w = with_file();
    w.unlink(0, "a.txt");
    w.link(1, "a.txt", "b.txt");
    w.write(1, "b.txt", "kept");
    w.unlink(1, "a.txt");
    let met = [ConflictKind::StoreUnlink, ConflictKind::StoreUnlink, ConflictKind::StoreUnlink];
    assert_eq!(w.settle(), met);
    assert_eq!(w.listing(), ["b.txt=kept"]);
}

fn with_two() -> World {
    world(|w| {
        for (path, text) in [("a", "A"), ("b", "B")] {
            w.create(0, path);
            w.write(0, path, text);
        }
    })
}

#[test]
fn of_two_exchanges_of_the_same_names_one_is_enough() {
    let mut w = with_two();
    w.exchange(0, "a", "b");
    w.exchange(1, "a", "b");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["a=B", "b=A"]);
}

#[test]
fn what_was_written_meanwhile_moves_along() {
    let mut w = with_two();
    w.write(0, "a", "A2");
    w.exchange(1, "a", "b");
    w.write(1, "a", "B2");
    assert_eq!(w.settle(), []);
    assert_eq!(w.listing(), ["a=B2", "b=A2"]);
}

#[test]
fn an_exchange_with_what_was_renamed_or_removed_is_refused_whole() {
    let mut w = with_two();
    w.rename(0, "b", "c");
    w.exchange(1, "a", "b");
    assert_eq!(w.settle(), [ConflictKind::RenameRename]);
    assert_eq!(w.listing(), ["a=A", "c=B"]);

    let mut w = with_two();
    w.unlink(0, "a");
    w.exchange(1, "a", "b");
    w.write(1, "b", "A2");
    assert_eq!(w.settle(), [ConflictKind::RenameRename, ConflictKind::StoreUnlink]);
    assert_eq!(w.listing(), ["b.conflict-19700101-001647-user1@host1=A2", "b=B"]);
}

#[test]
fn an_exchange_that_would_make_a_circle_is_refused() {
    let mut w = world(|w| {
        for path in ["a", "b", "b/inside"] {
            w.mkdir(0, path);
        }
    });
    w.rename(0, "b", "a/b");
    w.exchange(1, "a", "b/inside");
    assert_eq!(w.settle(), [ConflictKind::RenameCycle]);
    assert_eq!(w.listing(), ["a/", "a/b/", "a/b/inside/"]);
}

#[test]
fn an_exchange_counts_directories_where_they_stand() {
    let mut w = world(|w| {
        for path in ["d", "e", "d/sub"] {
            w.mkdir(0, path);
        }
        w.create(0, "e/file");
    });
    w.exchange(0, "d/sub", "e/file");
    assert_eq!(w.settle(), []);
    let subdirectories = |w: &World, path| inode(&w.home, w.file(0, path)).unwrap().unwrap().subdirectories;
    assert_eq!((subdirectories(&w, "d"), subdirectories(&w, "e")), (0, 1));
}
