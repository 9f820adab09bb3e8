//! What POSIX refuses, and with which word.

#![allow(clippy::unwrap_used, reason = "a test that meets nothing where something must be fails")]

mod world;

use bytes::Bytes;
use std::sync::Arc;
use wayfs_tree::{BuildError, Outcome, ViewMut, XATTR_VALUE_LEN_MAX, inode};
use wayfs_types::request::{Change, RenameTarget, XattrPresence};
use wayfs_types::{Content, FileId, FsError, Image, Inode, Key, Kind, WallTime, XattrName};
use world::{World, name};

/// `f` and `g` files, `empty`, `full` and `full/sub` directories, `full/x` a file.
fn world() -> World {
    let mut w = World::new(1);
    w.create(0, "f");
    w.create(0, "g");
    w.mkdir(0, "empty");
    w.mkdir(0, "full");
    w.mkdir(0, "full/sub");
    w.create(0, "full/x");
    w
}

fn refusal(w: &mut World, change: &Change) -> FsError {
    let before = w.clients[0].view.clone();
    match w.change(0, change) {
        Err(BuildError::Refused(error)) => {
            assert!(before == w.clients[0].view, "a refused change changed something");
            error
        }
        other => panic!("{change:?}: {other:?}"),
    }
}

fn create(w: &World, directory: &str, at: &str, kind: Kind) -> Change {
    Change::Create { parent: w.file(0, directory), name: name(at), kind, mode: 0o644, uid: 0, gid: 0 }
}

fn rename(w: &World, from: (&str, &str), to: (&str, &str)) -> Change {
    Change::Rename {
        from_parent: w.file(0, from.0),
        from_name: name(from.1),
        to_parent: w.file(0, to.0),
        to_name: name(to.1),
        target: RenameTarget::Replace,
    }
}

#[test]
fn names_that_are_taken_or_have_no_directory_are_refused() {
    let mut w = world();
    let taken = create(&w, "", "f", Kind::File);
    assert_eq!(refusal(&mut w, &taken), FsError::Exists);
    let inside_a_file = create(&w, "f", "x", Kind::File);
    assert_eq!(refusal(&mut w, &inside_a_file), FsError::NotDirectory);
    let mkdir = Change::Mkdir { parent: FileId::ROOT, name: name("empty"), mode: 0, uid: 0, gid: 0 };
    assert_eq!(refusal(&mut w, &mkdir), FsError::Exists);
    let removed = create(&w, "empty", "x", Kind::File);
    w.rmdir(0, "empty");
    assert_eq!(refusal(&mut w, &removed), FsError::NotFound);
}

#[test]
fn targets_of_symbolic_links_have_a_length() {
    let mut w = world();
    let empty = create(&w, "", "s", Kind::Symlink(Bytes::new()));
    assert_eq!(refusal(&mut w, &empty), FsError::NotFound);
    let long = create(&w, "", "s", Kind::Symlink(Bytes::from(vec![b'x'; 4096])));
    assert_eq!(refusal(&mut w, &long), FsError::NameTooLong);
    let longest = create(&w, "", "s", Kind::Symlink(Bytes::from(vec![b'x'; 4095])));
    assert_eq!(w.change(0, &longest).unwrap().outcome, Outcome::AsMeant);
}

#[test]
fn removals_ask_for_the_right_sort_and_for_emptiness() {
    let mut w = world();
    let unlink = |at: &str| Change::Unlink { parent: FileId::ROOT, name: name(at) };
    let rmdir = |at: &str| Change::Rmdir { parent: FileId::ROOT, name: name(at) };
    assert_eq!(refusal(&mut w, &unlink("nothing")), FsError::NotFound);
    assert_eq!(refusal(&mut w, &unlink("empty")), FsError::IsDirectory);
    assert_eq!(refusal(&mut w, &rmdir("f")), FsError::NotDirectory);
    assert_eq!(refusal(&mut w, &rmdir("full")), FsError::NotEmpty);
    let effect = w.change(0, &unlink("f")).unwrap();
    assert_eq!(effect.removed, effect.file);
}

#[test]
fn renames_follow_the_table_of_sorts() {
    let mut w = world();
    for (from, to, error) in [
        (("", "nothing"), ("", "x"), FsError::NotFound),
        (("", "f"), ("", "empty"), FsError::IsDirectory),
        (("", "f"), ("", "full"), FsError::IsDirectory),
        (("", "empty"), ("", "f"), FsError::NotDirectory),
        (("", "empty"), ("", "full"), FsError::NotEmpty),
        (("", "full"), ("full", "y"), FsError::Invalid),
        (("", "full"), ("full/sub", "y"), FsError::Invalid),
        (("full", "sub"), ("", "full"), FsError::NotEmpty),
        (("", "f"), ("g", "y"), FsError::NotDirectory),
    ] {
        let change = rename(&w, from, to);
        assert_eq!(refusal(&mut w, &change), error, "{from:?} to {to:?}");
    }
    let mut free = rename(&w, ("", "f"), ("", "g"));
    let Change::Rename { target, .. } = &mut free else { panic!() };
    *target = RenameTarget::MustBeFree;
    assert_eq!(refusal(&mut w, &free), FsError::Exists);
}

#[test]
fn exchanges_want_two_names_of_which_none_is_above_the_other() {
    let mut w = world();
    for (from, to, error) in [
        (("", "nothing"), ("", "f"), FsError::NotFound),
        (("", "f"), ("", "nothing"), FsError::NotFound),
        (("", "full"), ("full", "sub"), FsError::Invalid),
        (("full", "sub"), ("", "full"), FsError::Invalid),
    ] {
        let mut change = rename(&w, from, to);
        let Change::Rename { target, .. } = &mut change else { panic!() };
        *target = RenameTarget::Exchange;
        assert_eq!(refusal(&mut w, &change), error, "{from:?} with {to:?}");
    }
    w.exchange(0, "f", "full");
    assert!(inode(&w.clients[0].view, w.file(0, "f")).unwrap().unwrap().is_directory());
}

#[test]
fn a_rename_over_a_file_removes_it_and_one_over_an_empty_directory_too() {
    let mut w = world();
    let (file, directory) = (w.file(0, "g"), w.file(0, "empty"));
    let over = rename(&w, ("", "f"), ("", "g"));
    assert_eq!(w.change(0, &over).unwrap().removed, Some(file));
    let over = rename(&w, ("full", "sub"), ("", "empty"));
    assert_eq!(w.change(0, &over).unwrap().removed, Some(directory));
    let root = inode(&w.clients[0].view, FileId::ROOT).unwrap().unwrap();
    assert_eq!((root.subdirectories, root.links()), (2, 4));
}

#[test]
fn a_rename_between_two_names_of_one_file_does_nothing() {
    let mut w = world();
    w.link(0, "f", "h");
    let before = world::listing(&w.clients[0].view);
    for to in ["h", "f"] {
        let same = rename(&w, ("", "f"), ("", to));
        assert_eq!(w.change(0, &same).unwrap().outcome, Outcome::AsMeant);
    }
    assert_eq!(world::listing(&w.clients[0].view), before);
}

#[test]
fn links_are_for_files_and_have_a_limit() {
    let mut w = world();
    let link = |file: FileId, at: &str| Change::Link { file, parent: FileId::ROOT, name: name(at) };
    let directory = w.file(0, "empty");
    assert_eq!(refusal(&mut w, &link(directory, "h")), FsError::NotPermitted);
    let file = w.file(0, "f");
    assert_eq!(refusal(&mut w, &link(file, "g")), FsError::Exists);
    let view = &mut w.clients[0].view;
    let mut full = Arc::unwrap_or_clone(inode(view, file).unwrap().unwrap());
    full.unlisted = u32::try_from(Inode::LINKS_MAX - full.places.len()).unwrap();
    view.put(Key::Inode(file), Some(Image::Inode(Arc::new(full)))).unwrap();
    assert_eq!(refusal(&mut w, &link(file, "h")), FsError::TooManyLinks);
}

#[test]
fn extended_attributes_obey_their_flags_and_limits() {
    let mut w = world();
    let file = w.file(0, "f");
    let set = |at: &str, value: Option<usize>, presence| {
        let value = value.map(|len| Bytes::from(vec![0; len]));
        Change::SetXattr { file, name: XattrName::new(at).unwrap(), value, presence }
    };
    assert_eq!(refusal(&mut w, &set("user.a", None, XattrPresence::Any)), FsError::NoAttribute);
    assert_eq!(refusal(&mut w, &set("user.a", Some(1), XattrPresence::MustExist)), FsError::NoAttribute);
    w.change(0, &set("user.a", Some(1), XattrPresence::MustBeNew)).unwrap();
    assert_eq!(refusal(&mut w, &set("user.a", Some(1), XattrPresence::MustBeNew)), FsError::Exists);
    assert_eq!(refusal(&mut w, &set("user.b", Some(XATTR_VALUE_LEN_MAX + 1), XattrPresence::Any)), FsError::TooBig);
    assert_eq!(refusal(&mut w, &set("user.b", Some(XATTR_VALUE_LEN_MAX - 8), XattrPresence::Any)), FsError::NoSpace);
    w.change(0, &set("user.a", Some(XATTR_VALUE_LEN_MAX - 6), XattrPresence::MustExist)).unwrap();
    w.change(0, &set("user.a", None, XattrPresence::Any)).unwrap();
}

#[test]
fn only_regular_files_hold_contents() {
    let mut w = world();
    let symlink = create(&w, "", "s", Kind::Symlink(Bytes::from_static(b"f")));
    w.change(0, &symlink).unwrap();
    for (path, error) in [("s", FsError::Invalid), ("full", FsError::IsDirectory)] {
        let file = w.file(0, path);
        let change = Change::Store { file, base: file.maker(), content: Content::EMPTY, mtime: WallTime::EPOCH };
        assert_eq!(refusal(&mut w, &change), error);
    }
    let unknown = FileId::made_by(wayfs_types::RecordId::new(world::origin(0), 99).unwrap());
    let change =
        Change::Store { file: unknown, base: unknown.maker(), content: Content::EMPTY, mtime: WallTime::EPOCH };
    assert_eq!(refusal(&mut w, &change), FsError::NotFound);
}

#[test]
fn times_of_directories_move_on_even_if_clocks_do_not() {
    let mut w = world();
    let times = |w: &World| {
        let root = inode(&w.clients[0].view, FileId::ROOT).unwrap().unwrap();
        (root.mtime, root.ctime)
    };
    let before = times(&w);
    w.clock = -1_000_000_000_000;
    w.create(0, "late");
    assert!(times(&w).0 > before.0 && times(&w).1 > before.1);
}

#[test]
fn closing_a_file_changes_no_time_that_the_last_write_had_not_set() {
    let mut w = world();
    w.write(0, "f", "x");
    let file = inode(&w.clients[0].view, w.file(0, "f")).unwrap().unwrap();
    assert_eq!(file.ctime, file.mtime);
}

#[test]
fn what_is_stored_into_a_file_that_its_own_writer_removed_is_refused() {
    let mut w = World::new(2);
    w.create(0, "f");
    w.write(0, "f", "old");
    w.settle();
    let (file, version) = (w.file(0, "f"), inode(&w.home, w.file(0, "f")).unwrap().unwrap().version);
    w.unlink(0, "f");
    let late = Change::Store { file, base: version, content: Content::EMPTY, mtime: WallTime::EPOCH };
    assert_eq!(refusal(&mut w, &late), FsError::Stale);
    w.settle();
    assert_eq!(refusal(&mut w, &late), FsError::Stale, "also when the home has ordered the removal");
    // Another, who did not remove it, brings it back, and then it is a file like any other.
    w.change(1, &late).unwrap();
    w.settle();
    let again = Change::Store { file, base: version, content: Content::EMPTY, mtime: WallTime::from_nanos(7) };
    w.change(0, &again).unwrap();
    assert_eq!(w.listing(), ["f="]);
}
