//! Listings, while the directory changes.

use crate::fs::testing::{Bench, Listed, To};
use crate::fs::{Detail, DirectoryPage, Error, HandleId, PageRequest};
use wayfs_types::FileId;

/// A directory is listed by so many entries a time.
const LEN: usize = 4;

/// Lists from an offset on to the end.
fn rest(bench: &Bench, handle: HandleId, mut offset: u64) -> Vec<Listed> {
    let mut all = Vec::new();
    loop {
        let page = bench.page(handle, offset, LEN);
        let Some(last) = page.last() else { return all };
        offset = last.next_offset;
        all.extend(page);
        assert!(all.len() < 100, "it comes to an end");
    }
}

fn names(listed: &[Listed]) -> Vec<&str> {
    listed.iter().map(|listed| listed.name.as_str()).collect()
}

#[test]
fn a_directory_is_listed_page_by_page_and_any_offset_can_be_gone_back_to() {
    let bench = Bench::new();
    for name in ["a", "b", "c", "d", "e"] {
        bench.file(name, b"x");
    }
    let handle = bench.open_directory(FileId::ROOT);
    let all = rest(&bench, handle, 0);
    assert_eq!(names(&all), [".", "..", "a", "b", "c", "d", "e"]);
    assert_eq!(all[1].entry, None, "the kernel is told nothing of where a listing begins");
    assert_eq!(all[2].entry.unwrap().attributes.size, 1);
    assert_eq!(names(&rest(&bench, handle, all[3].next_offset)), ["c", "d", "e"]);
    let owed = bench.ask(|fs, _, reply| fs.release_directory(handle, reply));
    assert_eq!(owed.now(), Ok(()));
    let request = PageRequest { offset: 0, detail: Detail::Names };
    let gone = bench.ask(|fs, caller, reply| fs.list::<To<DirectoryPage>>(caller, handle, request, reply));
    assert!(matches!(gone.now(), Err(Error::BadHandle)));
}

#[test]
fn a_listing_that_goes_on_grants_nothing_that_is_gone_or_old_by_then() {
    let bench = Bench::new();
    for name in ["a", "b", "c", "d"] {
        bench.file(name, b"old");
    }
    let handle = bench.open_directory(FileId::ROOT);
    let first = bench.page(handle, 0, LEN);
    assert_eq!(names(&first), [".", "..", "a", "b"]);
    bench.unlink("c").unwrap();
    let writer = bench.open(bench.entry("d").file, libc::O_RDWR);
    bench.write(writer.handle, 0, b"longer").unwrap();
    bench.close(writer.handle);
    bench.file("e", b"new");
    let then = rest(&bench, handle, first[3].next_offset);
    assert_eq!(names(&then), ["c", "d"], "each name once, as of the begin");
    assert_eq!(then[0].entry, None, "nothing is kept of what is gone");
    assert_eq!(then[1].entry.unwrap().attributes.size, 6);
    assert_eq!(names(&rest(&bench, handle, 0)), [".", "..", "a", "b", "d", "e"], "read again it is what there is");
}
