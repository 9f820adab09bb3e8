//! Real mounts: answers that become out of date while they are given. The kernel would keep them.

use super::mount_tests::{eventually, mounted};
use crate::events::Events;
use crate::fs::Close;
use crate::hooks::MountHooks;
use crate::notices::{Notices, Stale};
use crate::pins::Pins;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use wayfs_node::Hooks;
use wayfs_types::Kind;

/// Files of a directory that is listed by several requests out of one page.
const FILES: usize = 900;

#[test]
fn a_size_is_not_from_before_a_commit_that_ended_while_it_was_asked_for() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("a"), b"one\ntwo\n").unwrap();
    let (file, stores) = (mount.toy.find("a"), mount.toy.stores());
    // A shell's `: > a`. Its close is answered before the commit, so whoever looks next may be faster.
    let emptied = OpenOptions::new().write(true).truncate(true).open(mount.path("a")).unwrap();
    let (toy, fs) = (Arc::clone(&mount.toy), Arc::clone(&mount.fs));
    mount.toy.meanwhile(move || {
        drop(emptied);
        eventually(|| toy.stores() > stores && fs.files().find(file).is_none());
    });
    assert_eq!(fs::metadata(mount.path("a")).unwrap().len(), 0);
    assert_eq!(mount.toy.stores(), stores + 1);
    assert_eq!(fs::metadata(mount.path("a")).unwrap().len(), 0);
}

#[test]
fn a_listing_that_goes_on_brings_back_nothing_that_was_removed_or_changed_meanwhile() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::create_dir(mount.path("d")).unwrap();
    let path = |number: usize| mount.path(&format!("d/{number:03}"));
    for number in 0..FILES {
        fs::write(path(number), b"old").unwrap();
    }
    let mut listing = fs::read_dir(mount.path("d")).unwrap();
    listing.next().unwrap().unwrap();
    // Looking at entries makes the kernel ask for the next ones with their attributes.
    fs::metadata(path(1)).unwrap();
    fs::write(path(FILES - 1), b"changed").unwrap();
    fs::remove_file(path(FILES - 2)).unwrap();
    fs::rename(path(FILES - 3), mount.path("elsewhere")).unwrap();
    assert!(listing.count() >= FILES - 3);
    assert_eq!(fs::metadata(path(FILES - 1)).unwrap().len(), 7);
    for gone in [FILES - 2, FILES - 3] {
        let kind = fs::metadata(path(gone)).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::NotFound), "{gone}");
    }
    assert_eq!(fs::read(mount.path("elsewhere")).unwrap(), b"old");
}

/// A client that moved was at its new server, and its kernel showed for a moment what the last one had vouched for.
#[test]
fn what_nobody_vouches_for_any_more_is_asked_for_when_the_engine_goes_on() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    let pins = Arc::new(Pins::load(&mount.point.join("../pins.json")).unwrap());
    // Nobody tells the kernel what is queued here.
    let hooks = MountHooks::new(Arc::new(Notices::default()), Arc::new(Events::new("work".to_owned())), pins);
    hooks.attach_file_system(&mount.fs);
    assert!(!mount.path("made").exists());
    mount.toy.make_behind("made", Kind::File);
    hooks.invalidate_all();
    assert!(mount.path("made").exists());
}

/// The kernel moved the inode that it had under the old name, which another machine had given to another file by then: what was
/// written to the new name went to the wrong file.
#[test]
fn a_renamed_name_leads_to_what_was_renamed_where_the_kernel_had_yet_to_hear_of_another_file_there() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    for (name, bytes) in [("a", "mine"), ("other", "theirs")] {
        fs::write(mount.path(name), bytes).unwrap();
    }
    eventually(|| mount.fs.open_handles() == 0);
    let (toy, notices) = (Arc::clone(&mount.toy), Arc::clone(&mount.notices));
    mount.toy.before_rename(move || {
        toy.exchange_behind("a", "other");
        for name in ["a", "other"] {
            notices.entry(wayfs_types::FileId::ROOT, name.try_into().unwrap());
        }
    });
    fs::rename(mount.path("a"), mount.path("b")).unwrap();
    mount.settle();
    assert_eq!(mount.toy.bytes_of("b"), b"theirs");
    assert_eq!(fs::read_to_string(mount.path("b")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(mount.path("other")).unwrap(), "mine");
}

#[test]
fn what_is_made_where_a_symlink_appeared_is_made_where_it_points() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    assert!(!mount.path("link").exists());
    // The kernel knows of nothing there, and makes the file at once.
    mount.toy.make_behind("link", Kind::Symlink(bytes::Bytes::from_static(b"target")));
    fs::write(mount.path("link"), b"through").unwrap();
    assert_eq!(fs::read(mount.path("target")).unwrap(), b"through");
    assert_eq!(fs::read_link(mount.path("link")).unwrap().to_str(), Some("target"));
    eventually(|| mount.fs.open_handles() == 0);
    assert_eq!(mount.fs.commit_all(), []);
}

#[test]
fn what_is_appended_through_a_handle_from_before_the_file_grew_elsewhere_is_read_where_it_is() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    // Opened for reading as well, so that it is written through the kernel's page cache.
    let opened = |options: &mut OpenOptions| options.read(true).open(mount.path("log")).unwrap();
    opened(OpenOptions::new().write(true).create(true));
    let mut writer = opened(OpenOptions::new().append(true));
    let reader = opened(&mut OpenOptions::new());
    let theirs = vec![b't'; 6000];
    let file = mount.toy.change_behind("log", &theirs);
    mount.fs.files().changed_elsewhere(file);
    mount.notices.inode(file, Stale::Pages);
    mount.settle();
    // The kernel believes that the file is empty until somebody opens it or asks for its size.
    let added = vec![b'a'; 8192];
    writer.write_all(&added).unwrap();
    mount.settle();
    let mut bytes = Vec::new();
    (&reader).read_to_end(&mut bytes).unwrap();
    assert!(bytes == [theirs, added].concat(), "{} bytes, {:?} first", bytes.len(), bytes.first());
    drop(writer);
    eventually(|| mount.toy.bytes_of("log") == bytes);
}

/// What another machine appended to a file of which the kernel has pages is told with its size before the pages are told to be old:
/// the end of the last page would read as zeros.
#[test]
fn no_size_is_told_before_the_pages_of_the_version_before_it_are_forgotten() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("log"), b"1\n2\n").unwrap();
    eventually(|| mount.fs.open_handles() == 0);
    assert_eq!(mount.fs.commit_all(), []);
    let mut reader = fs::File::open(mount.path("log")).unwrap();
    let mut first = [0; 4];
    reader.read_exact(&mut first).unwrap();
    let file = mount.toy.change_behind("log", b"1\n2\n3\n4\n");
    // The volume has the change and has yet to tell the hooks; the kernel asks for a reason of its own.
    mount.notices.inode(file, Stale::Attributes);
    mount.settle();
    assert_eq!(fs::metadata(mount.path("log")).unwrap().len(), 8);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!((&first, rest.as_str()), (b"1\n2\n", "3\n4\n"));
}

#[test]
fn a_file_that_was_removed_and_came_back_is_shown_as_it_is_when_its_handles_are_gone() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("f"), b"whole").unwrap();
    // What is late to commit that close would take the empty file with it, and the handle would have nothing of its own.
    eventually(|| mount.fs.open_handles() == 0);
    assert_eq!(mount.fs.commit_all(), []);
    let emptied = OpenOptions::new().write(true).truncate(true).open(mount.path("f")).unwrap();
    let file = mount.toy.find("f");
    fs::remove_file(mount.path("f")).unwrap();
    // Where all updates are put into order, the removal met a change.
    mount.toy.bring_back("f", file, b"whole");
    mount.fs.files().changed_elsewhere(file);
    mount.notices.inode(file, Stale::Pages);
    mount.notices.entry(wayfs_types::FileId::ROOT, "f".try_into().unwrap());
    mount.settle();
    // The handle still sees what it did, and so does who looks meanwhile.
    assert_eq!(emptied.metadata().unwrap().len(), 0);
    assert_eq!(fs::metadata(mount.path("f")).unwrap().len(), 0);
    drop(emptied);
    eventually(|| mount.fs.open_handles() == 0);
    mount.settle();
    let is = fs::metadata(mount.path("f")).unwrap();
    assert_eq!((is.len(), is.nlink()), (5, 1));
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"whole");
}

/// Proves [S-remote-change]: nobody will tell the kernel of what changes in an answer for which nobody vouched.
#[test]
fn what_was_answered_without_the_parents_word_is_asked_for_again() {
    let Some(mount) = mounted(Close::Asynchronous) else { return };
    fs::write(mount.path("old"), b"old").unwrap();
    let list = || fs::read_dir(&mount.point).unwrap().count();
    assert_eq!(list(), 1);
    mount.settle();
    mount.toy.set_offline(true);
    assert!(!mount.path("new").exists());
    let reader = fs::File::open(&mount.point).unwrap();
    assert_eq!(list(), 1);
    fs::File::create(mount.path("own")).unwrap();
    mount.toy.make_behind("new", Kind::File);
    mount.toy.set_offline(false);
    mount.toy.remove_behind("own");
    assert!(mount.path("new").exists(), "that there is nothing was kept");
    assert!(!mount.path("own").exists(), "what was made was kept");
    assert_eq!(list(), 2, "the listing was kept");
    drop(reader);
    // What is vouched for is kept until it is broken: or each look would cost a question.
    let asked = mount.toy.asked();
    for _ in 0..10 {
        assert!(mount.path("new").exists());
    }
    assert!(mount.toy.asked() <= asked + 1, "{} questions", mount.toy.asked() - asked);
}
