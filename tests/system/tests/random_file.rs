//! One file on a real mount against a model in memory, under random operations of all kinds that change or read bytes
//! (an fsx of our own): through two handles at once, past the page cache and through it, by mappings, across reopens. In the
//! end, another client reads the same bytes.
//!
//! `WAYFS_FSX_OPS` sets the operations on each file (default 400), `WAYFS_FSX_SEED` the first seed (default 1).

// Mapping a file has no safe form; each block says why it is sound.
#![allow(unsafe_code)]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{FallocateFlags, copy_file_range, fallocate};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_system_tests::{World, within};

/// Longest time for one file.
const BOUND: Duration = Duration::from_secs(600);
/// Operations shown when something is wrong.
const SHOWN: usize = 40;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// A file and what it should be.
struct Tested {
    path: PathBuf,
    size_max: u64,
    handles: [File; 2],
    model: Vec<u8>,
    random: StdRng,
    done: Vec<String>,
}

impl Tested {
    fn new(path: PathBuf, size_max: u64, seed: u64) -> Self {
        File::create_new(&path).expect("make the file");
        let handles = [open(&path), open(&path)];
        Self { path, size_max, handles, model: Vec::new(), random: StdRng::seed_from_u64(seed), done: Vec::new() }
    }

    fn handle(&mut self) -> usize {
        self.random.random_range(0..2)
    }

    /// A range that begins in the file or a little past its end.
    fn range(&mut self) -> (u64, usize) {
        let end = (self.model.len() as u64 + self.size_max / 8).min(self.size_max - 1);
        let start = self.random.random_range(0..=end);
        // Short ones are as likely as long ones; ends on page boundaries now and then.
        let len_max = (self.size_max - start).min(1 << self.random.random_range(1..=18));
        let len = self.random.random_range(1..=len_max);
        if self.random.random_bool(0.2) && start >= 4096 {
            return (start & !4095, (len as usize).min((self.size_max - start) as usize));
        }
        (start, len as usize)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![self.random.random(); len];
        // Half of all writes are hard to tell apart by a hash of a part, half compress well.
        if self.random.random() {
            self.random.fill(&mut bytes[..]);
        }
        bytes
    }

    fn put(&mut self, start: u64, bytes: &[u8]) {
        let (start, end) = (start as usize, start as usize + bytes.len());
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
        self.model[start..end].copy_from_slice(bytes);
    }

    fn note(&mut self, text: String) {
        self.done.push(text);
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..20 => self.write(),
            20..40 => self.read(),
            40..48 => self.map_write(),
            48..56 => self.map_read(),
            56..64 => self.truncate(),
            64..70 => self.punch(),
            70..75 => self.extend(),
            75..80 => self.copy_within(),
            80..85 => self.sync(),
            85..95 => self.reopen(),
            95..98 => self.rewrite(),
            _ => self.replace(),
        }
        let size = self.handles[0].metadata().expect("look at the file").len();
        assert_eq!(size, self.model.len() as u64, "size");
    }

    fn write(&mut self) {
        let ((start, len), at) = (self.range(), self.handle());
        let bytes = self.bytes(len);
        self.note(format!("write {start}+{len} by {at}"));
        self.handles[at].write_all_at(&bytes, start).expect("write");
        self.put(start, &bytes);
    }

    fn read(&mut self) {
        let ((start, len), at) = (self.range(), self.handle());
        self.note(format!("read {start}+{len} by {at}"));
        let mut bytes = vec![0; len];
        let mut got = 0;
        while got < len {
            match self.handles[at].read_at(&mut bytes[got..], start + got as u64).expect("read") {
                0 => break,
                more => got += more,
            }
        }
        let end = self.model.len().min(start as usize + len);
        let expected = self.model.get(start as usize..end).unwrap_or(&[]);
        same(&bytes[..got], expected, start);
    }

    /// Maps the pages under a range within the file; answers the range.
    fn mapped(&mut self, what: &str, work: impl FnOnce(&mut [u8], &mut Self)) {
        if self.model.is_empty() {
            return;
        }
        let (start, len) = self.range();
        let start = start.min(self.model.len() as u64 - 1);
        let len = len.min(self.model.len() - start as usize);
        let page = start & !4095;
        let skip = (start - page) as usize;
        let at = self.handle();
        self.note(format!("{what} {start}+{len} by {at}"));
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; nobody shortens the file while it stands.
        let address =
            unsafe { mmap(std::ptr::null_mut(), skip + len, protection, MapFlags::SHARED, &self.handles[at], page) };
        let address = address.expect("map the file");
        // SAFETY: the mapping is as long as that, readable and writable, and nothing else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(address.cast::<u8>().add(skip), len) };
        let model_range = start as usize..start as usize + len;
        let before = self.model[model_range.clone()].to_vec();
        same(bytes, &before, start);
        work(bytes, self);
        self.model[model_range].copy_from_slice(bytes);
        // SAFETY: the range is this mapping's; no slice of it is used afterwards.
        unsafe {
            msync(address, skip + len, MsyncFlags::SYNC).expect("sync the mapping");
            munmap(address, skip + len).expect("unmap");
        }
    }

    fn map_write(&mut self) {
        self.mapped("map and write", |bytes, tested| {
            let fresh = tested.bytes(bytes.len());
            bytes.copy_from_slice(&fresh);
        });
    }

    fn map_read(&mut self) {
        self.mapped("map and read", |_, _| ());
    }

    fn truncate(&mut self) {
        let size = self.random.random_range(0..self.size_max);
        let size = if self.random.random_bool(0.1) { 0 } else { size };
        let at = self.handle();
        self.note(format!("truncate {size} by {at}"));
        self.handles[at].set_len(size).expect("truncate");
        self.model.resize(size as usize, 0);
    }

    fn punch(&mut self) {
        let ((start, len), at) = (self.range(), self.handle());
        self.note(format!("punch {start}+{len} by {at}"));
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.handles[at], flags, start, len as u64).expect("punch a hole");
        let end = self.model.len().min(start as usize + len);
        if let Some(hole) = self.model.get_mut(start as usize..end) {
            hole.fill(0);
        }
    }

    fn extend(&mut self) {
        let ((start, len), at) = (self.range(), self.handle());
        self.note(format!("allocate {start}+{len} by {at}"));
        fallocate(&self.handles[at], FallocateFlags::empty(), start, len as u64).expect("allocate");
        if self.model.len() < start as usize + len {
            self.model.resize(start as usize + len, 0);
        }
    }

    fn copy_within(&mut self) {
        if self.model.len() < 2 {
            return;
        }
        let half = self.model.len() / 2;
        let from = self.random.random_range(0..half) as u64;
        let len = self.random.random_range(1..=half - from as usize);
        let to = self.random.random_range(half..=(self.size_max as usize - len).max(half)) as u64;
        self.note(format!("copy {from}+{len} to {to}"));
        let (mut read, mut write) = (from, to);
        while read < from + len as u64 {
            let left = (from + len as u64 - read) as usize;
            let copied = copy_file_range(&self.handles[0], Some(&mut read), &self.handles[1], Some(&mut write), left);
            assert!(copied.expect("copy a range") > 0, "something is copied");
        }
        let bytes = self.model[from as usize..from as usize + len].to_vec();
        self.put(to, &bytes);
    }

    fn sync(&mut self) {
        let at = self.handle();
        self.note(format!("sync by {at}"));
        if self.random.random() { self.handles[at].sync_all() } else { self.handles[at].sync_data() }.expect("sync");
    }

    fn reopen(&mut self) {
        let at = self.handle();
        self.note(format!("reopen {at}"));
        self.handles[at] = open(&self.path);
    }

    /// As a shell does: emptied by the open, then written.
    fn rewrite(&mut self) {
        let len = self.random.random_range(0..self.size_max as usize);
        let bytes = self.bytes(len);
        self.note(format!("rewrite with {len}"));
        std::fs::write(&self.path, &bytes).expect("rewrite");
        self.model = bytes;
    }

    /// As editors do: a new file renamed over the old one.
    fn replace(&mut self) {
        let len = self.random.random_range(0..self.size_max as usize);
        let bytes = self.bytes(len);
        self.note(format!("replace by {len}"));
        let fresh = self.path.with_extension("new");
        std::fs::write(&fresh, &bytes).expect("write the new file");
        std::fs::rename(&fresh, &self.path).expect("rename over");
        // The old handles are those of the file without a name: it still is what it was.
        let mut old = vec![0; self.model.len()];
        self.handles[0].read_exact_at(&mut old, 0).expect("read the old file");
        same(&old, &self.model, 0);
        self.handles = [open(&self.path), open(&self.path)];
        self.model = bytes;
    }

    fn whole(&self) {
        same(&std::fs::read(&self.path).expect("read it whole"), &self.model, 0);
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the last operations on {}:", self.path.display());
            for line in &self.done[self.done.len().saturating_sub(SHOWN)..] {
                println!("  {line}");
            }
        }
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("open the file")
}

fn same(found: &[u8], expected: &[u8], start: u64) {
    if found == expected {
        return;
    }
    let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let show = |bytes: &[u8]| bytes.get(at..bytes.len().min(at + 16)).unwrap_or(&[]).to_vec();
    panic!(
        "{} bytes at {start}, expected {}; they differ from {}: {:?} instead of {:?}",
        found.len(),
        expected.len(),
        start + at as u64,
        show(found),
        show(expected)
    );
}

/// Files around the sizes where their handling changes: inside the record, one chunk, many chunks.
#[test]
fn a_file_is_what_was_written_whatever_was_done_to_it() {
    let world = World::default();
    let (machine, there) = world.other("other");
    let (operations, seed) = (number("WAYFS_FSX_OPS", 400), number("WAYFS_FSX_SEED", 1));
    for (nth, size_max) in [6_000, 300_000, 5_000_000].into_iter().enumerate() {
        let name = format!("file-{nth}");
        let path = world.mount.path(&name);
        let model = within(&format!("operations of seed {seed} on {name}"), BOUND, move || {
            let mut tested = Tested::new(path, size_max, seed + nth as u64);
            for n in 0..operations {
                tested.step();
                if n % 50 == 49 {
                    tested.whole();
                }
            }
            tested.whole();
            std::mem::take(&mut tested.model)
        });
        world.mount.sync(&world.client, "safe");
        there.sync(&machine, "safe");
        let elsewhere = there.path(&name);
        let read = within("read at another client", BOUND, move || std::fs::read(elsewhere).expect("read"));
        same(&read, &model, 0);
    }
}
