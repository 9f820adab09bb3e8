//! Measures the stores against what the disk itself gives, in one run.
//!
//! `cargo run --release -p wayfs-store --example measure [DIRECTORY] [SECONDS]`

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wayfs_store::{ChunkConfig, ChunkStore, DataDir, DiskMetaStore, MetaConfig, Role, Syncer};
use wayfs_types::{Batch, Digest, MetaStore, Ticket};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let base = words.next().map_or_else(std::env::temp_dir, Into::into);
    let seconds = words.next().map_or(Ok(2.0), |word| word.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let scratch = base.join(format!("wayfs-measure-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let result = measure(&scratch, time);
    std::fs::remove_dir_all(&scratch)?;
    result
}

fn measure(scratch: &Path, time: Duration) -> Outcome<()> {
    let directory = DataDir::open(&scratch.join("data"), Role::Server)?;
    commits(&directory, scratch, time)?;
    for rows in [100_000, 1_000_000] {
        tables(&scratch.join(format!("rows{rows}")), rows)?;
    }
    for len in [4 << 10, 64 << 10, 256 << 10, 1 << 20] {
        chunks(&directory, scratch, len, time)?;
    }
    Ok(())
}

/// Small appends with a sync each: what one journal could do at best.
struct SyncLimit {
    file: File,
    count: u64,
    spent: Duration,
}

impl SyncLimit {
    fn new(scratch: &Path) -> Outcome<Self> {
        let file = File::create(scratch.join("limit"))?;
        file.set_len(64 << 20)?;
        file.sync_all()?;
        Ok(Self { file, count: 0, spent: Duration::ZERO })
    }

    fn once(&mut self) -> Outcome<()> {
        let begin = Instant::now();
        self.file.write_all(&[7; 1100])?;
        self.file.sync_data()?;
        self.spent += begin.elapsed();
        self.count += 1;
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.spent.as_secs_f64()
    }
}

fn batch(n: u64) -> Batch {
    let mut batch = Batch::default();
    for part in 0..4_u64 {
        batch.put((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part).to_be_bytes().to_vec(), vec![n as u8; 200]);
    }
    batch
}

fn commits(directory: &DataDir, scratch: &Path, time: Duration) -> Outcome<()> {
    let mut limit = SyncLimit::new(scratch)?;
    let mut store = DiskMetaStore::open(directory, MetaConfig::default())?;
    let syncer = store.syncer();
    let (mut n, mut spent) = (0_u64, Duration::ZERO);
    // The two take turns, so that a busy disk is busy for both.
    while spent < time {
        limit.once()?;
        let begin = Instant::now();
        let ticket = store.commit(batch(n))?;
        syncer.sync_to(ticket)?;
        spent += begin.elapsed();
        n += 1;
    }
    let (alone, limit) = (n as f64 / spent.as_secs_f64(), limit.rate());
    println!("one durable commit at a time  {alone:9.0} /s   {:.2} of write+fdatasync ({limit:.0} /s)", alone / limit);

    let store = Mutex::new(store);
    let committed = AtomicU64::new(n);
    for writers in [4, 32] {
        let grouped = many_writers(&store, &syncer, &committed, (writers, time))?;
        println!("{writers:2} writers, durable, grouped  {grouped:9.0} /s   {:.2} of write+fdatasync", grouped / limit);
    }
    let total = committed.load(Ordering::Relaxed);

    let store = store.into_inner().map_err(|_| "a writer panicked")?;
    reads(&store, total, time)?;
    drop((store, syncer));
    let begin = Instant::now();
    let mut store = DiskMetaStore::open(directory, MetaConfig::default())?;
    println!("open with {} batches       {:9.0} ms", store.committed(), begin.elapsed().as_secs_f64() * 1e3);
    let (mut last, begin) = (Ticket(0), Instant::now());
    let mut count = 0_u64;
    while begin.elapsed() < time {
        last = store.commit(batch(total + count))?;
        count += 1;
    }
    println!("commits not waited for        {:9.0} /s", count as f64 / begin.elapsed().as_secs_f64());
    store.syncer().sync_to(last)?;
    Ok(())
}

/// So many writers behind one engine thread, each of which waits for its own batch: durable commits a second.
fn many_writers(
    store: &Mutex<DiskMetaStore>,
    syncer: &Syncer,
    committed: &AtomicU64,
    (writers, time): (usize, Duration),
) -> Outcome<f64> {
    let (done, first, begin) = (AtomicBool::new(false), committed.load(Ordering::Relaxed), Instant::now());
    std::thread::scope(|scope| -> Outcome<()> {
        let writers: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| -> Result<(), wayfs_types::StorageError> {
                    let syncer = syncer.clone();
                    while !done.load(Ordering::Relaxed) {
                        let n = committed.fetch_add(1, Ordering::Relaxed);
                        let mut store = store.lock().map_err(|_| wayfs_types::StorageError::NoSpace)?;
                        let ticket = store.commit(batch(n))?;
                        drop(store);
                        syncer.sync_to(ticket)?;
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(time);
        done.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })?;
    Ok((committed.load(Ordering::Relaxed) - first) as f64 / begin.elapsed().as_secs_f64())
}

/// Batches of a hundred rows: how fast they come in, how long an open takes, also after a kill, and what is in memory.
fn tables(path: &Path, rows: u64) -> Outcome<()> {
    let (live, image) = (path.join("live"), path.join("image"));
    let directory = DataDir::open(&live, Role::Server)?;
    let mut store = DiskMetaStore::open(&directory, MetaConfig::default())?;
    let begin = Instant::now();
    put_rows(&mut store, 0..rows)?;
    println!("{rows} rows until durable   {:9.0} ms, {} MiB resident", millis(begin), resident_mib()?);
    drop(store);
    let begin = Instant::now();
    let mut store = DiskMetaStore::open(&directory, MetaConfig::default())?;
    println!("open with {rows} rows       {:9.1} ms, {} MiB on disk", millis(begin), store.disk_bytes()? >> 20);
    put_rows(&mut store, rows..rows + 50_000)?;
    copy(&live, &image)?;
    drop(store);
    let image = DataDir::open(&image, Role::Server)?;
    let begin = Instant::now();
    let store = DiskMetaStore::open(&image, MetaConfig::default())?;
    println!("open after a kill             {:9.1} ms", millis(begin));
    drop(store);
    std::fs::remove_dir_all(path)?;
    Ok(())
}

fn put_rows(store: &mut DiskMetaStore, rows: std::ops::Range<u64>) -> Outcome<()> {
    let syncer = store.syncer();
    for first in rows.step_by(100) {
        let mut batch = Batch::default();
        for n in first..first + 100 {
            batch.put(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(), vec![n as u8; 120]);
        }
        let ticket = loop {
            match store.commit(batch.clone()) {
                Err(wayfs_types::StorageError::Busy(_)) => std::thread::sleep(Duration::from_millis(1)),
                other => break other?,
            }
        };
        if first % 2000 == 0 {
            syncer.sync_to(ticket)?;
        }
    }
    syncer.sync_to(store.committed())?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn millis(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

fn resident_mib() -> Outcome<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident: u64 = pages.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok((resident * rustix::param::page_size() as u64) >> 20)
}

fn reads(store: &DiskMetaStore, total: u64, time: Duration) -> Outcome<()> {
    let (mut count, mut n, begin) = (0_u64, 1_u64, Instant::now());
    while begin.elapsed() < time {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = ((n >> 20) % total).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        store.get(&key)?.ok_or("a key is missing")?;
        count += 1;
    }
    println!("point reads                   {:9.0} /s", count as f64 / begin.elapsed().as_secs_f64());
    Ok(())
}

/// Chunks until durable, a sync for every 16 MiB, beside a plain file of the same bytes and syncs.
fn chunks(directory: &DataDir, scratch: &Path, len: usize, time: Duration) -> Outcome<()> {
    const GROUP: usize = 16 << 20;
    let (store, _) = ChunkStore::open(directory, ChunkConfig::default())?;
    let mut source = vec![0_u8; GROUP];
    let mut state = len as u64 ^ 0x5555;
    let mut limit_file = File::create(scratch.join("plain"))?;
    let (mut plain, mut stored, mut read) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut groups = 0_u32;
    // The two take turns, so that a busy disk is busy for both.
    while plain + stored < time * 2 && groups < 128 {
        for word in source.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let begin = Instant::now();
        limit_file.write_all(&source)?;
        limit_file.sync_data()?;
        plain += begin.elapsed();
        let digests: Vec<Digest> = source.chunks(len).map(Digest::of).collect();
        let begin = Instant::now();
        for (digest, chunk) in digests.iter().zip(source.chunks(len)) {
            store.put_known(digest, chunk)?;
        }
        store.sync()?;
        stored += begin.elapsed();
        let begin = Instant::now();
        for digest in &digests {
            store.get(digest)?.ok_or("a chunk is missing")?;
        }
        read += begin.elapsed();
        groups += 1;
    }
    let rate = |spent: Duration| f64::from(groups) * GROUP as f64 / spent.as_secs_f64() / 1e6;
    println!(
        "chunks of {:4} KiB: put until durable {:6.0} MB/s, {:.2} of write+fdatasync ({:.0} MB/s); verified read {:6.0} MB/s",
        len >> 10,
        rate(stored),
        rate(stored) / rate(plain),
        rate(plain),
        rate(read),
    );
    Ok(())
}
