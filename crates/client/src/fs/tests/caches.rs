//! What the kernel is told before, and what it may keep.

use crate::files::kernel_way::KernelWay;
use crate::fs::data::WriteRequest;
use crate::fs::results::{CachedAttributes, OpenedDirectory, Written};
use crate::fs::testing::{Bench, Told};
use std::time::Duration;
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
    assert_eq!(open(&bench), crate::fs::results::ListingCache::Kept);
    bench.toy.set_offline(true);
    assert_eq!(open(&bench), crate::fs::results::ListingCache::None);
}
