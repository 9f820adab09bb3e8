//! What the kernel is told before, and what it may keep.

use crate::files::kernel_way::KernelWay;
use crate::fs::data::WriteRequest;
use crate::fs::names::NewMode;
use crate::fs::opening::NewFile;
use crate::fs::results::{CachedAttributes, Created, Entry, ListingCache, OpenedDirectory, Written};
use crate::fs::testing::{Bench, Told};
use std::ffi::OsStr;
use std::time::Duration;
use wayfs_proto::Keeping;
use wayfs_types::FileId;

/// See decision 0048: a size follows its pages.
#[test]
fn a_size_is_told_when_the_pages_of_the_version_before_are_forgotten() {
    let bench = Bench::new();
    let file = bench.file("a", b"old");
    let reader = bench.open(file, libc::O_RDONLY);
    bench.read(reader.handle, 0, 10).unwrap();
    bench.close(reader.handle);
    assert!(!bench.kernel.told().contains(&Told::Pages(file)));
    bench.toy.change_behind("a", b"new and longer");
    let asked = bench.ask(|fs, caller, reply| fs.attributes_of(caller, file, reply));
    let shown: CachedAttributes = asked.later().unwrap();
    assert_eq!(shown.attributes.size, 14);
    assert!(bench.kernel.told().contains(&Told::Pages(file)), "before the answer");
}

#[test]
fn a_name_is_kept_as_long_as_somebody_tells_what_becomes_of_it() {
    let bench = Bench::new();
    bench.file("a", b"old");
    assert_ne!(bench.entry("a").ttl, Duration::ZERO);
    bench.toy.set_keeping(Keeping::No);
    assert_eq!(bench.entry("a").ttl, Duration::ZERO, "nobody would tell that it is another file's");
}

#[test]
fn pages_are_kept_from_one_open_to_the_next_unless_the_file_changed() {
    let bench = Bench::new();
    let file = bench.file("a", b"old");
    let way = |bench: &Bench| {
        let opened = bench.open(file, libc::O_RDONLY);
        bench.close(opened.handle);
        opened.way
    };
    way(&bench);
    assert_eq!(way(&bench), KernelWay::Cached { keep: true });
    bench.toy.change_behind("a", b"new");
    assert_eq!(way(&bench), KernelWay::Cached { keep: false });
}

#[test]
fn pages_of_an_append_that_went_elsewhere_are_forgotten() {
    let bench = Bench::new();
    let created = bench.try_create("a", libc::O_RDWR).unwrap();
    bench.write(created.opened.handle, 0, b"one ").unwrap();
    let append = |offset| {
        let flags = libc::O_WRONLY | libc::O_APPEND;
        let request =
            WriteRequest { handle: created.opened.handle, offset, flags, kill_suid_gid: false, from_cache: false };
        bench.ask(|fs, caller, reply| fs.write(caller, request, b"two", reply)).later()
    };
    assert_eq!(append(4), Ok(Written(3)));
    assert!(bench.notices.drain(Duration::from_secs(5)));
    assert_eq!(bench.kernel.told(), [], "it went where the kernel thinks");
    assert_eq!(append(4), Ok(Written(3)));
    assert!(bench.notices.drain(Duration::from_secs(5)));
    assert_eq!(bench.kernel.told(), [Told::Pages(created.entry.file)]);
}

#[test]
fn a_listing_may_be_cached_only_while_somebody_would_tell_of_changes() {
    let bench = Bench::new();
    let open = |bench: &Bench| {
        let owed = bench.ask(|fs, caller, reply| fs.open_directory(caller, FileId::ROOT, reply));
        let opened: OpenedDirectory = owed.later().unwrap();
        opened.listing
    };
    assert_eq!(open(&bench), ListingCache::Kept);
    bench.toy.set_offline(true);
    assert_eq!(open(&bench), ListingCache::None);
}

#[test]
fn a_file_that_was_made_without_a_name_is_forgotten_with_its_last_lookup() {
    let bench = Bench::new();
    let numbers = &bench.notices.numbers;
    let mode = NewMode { asked: 0o644, umask: 0 };
    let new = NewFile { flags: libc::O_RDWR, mode };
    let created: Created =
        bench.ask(|fs, caller, reply| fs.create_nameless(caller, FileId::ROOT, new, reply)).later().unwrap();
    let (first, name) = (created.entry.file, OsStr::new("a"));
    let linked: Entry =
        bench.ask(|fs, caller, reply| fs.link(caller, first, FileId::ROOT, name, reply)).later().unwrap();
    let second = bench.toy.find("a");
    assert_eq!((linked.file, numbers.real(first)), (first, second));
    let directory = bench.open_directory(FileId::ROOT);
    // The last entry of a page finds no room, so the kernel never hears of it.
    assert_eq!(bench.page(directory, 0, 2).len(), 2);
    assert_eq!(bench.page(directory, 2, 1).len(), 1);
    // By the creation, the link and the listing.
    bench.fs.forget(first, 3);
    assert_eq!((numbers.real(first), numbers.shown(second)), (first, second), "nothing is left of it");
}
