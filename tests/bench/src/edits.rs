//! Files that are changed in place, on a mount with a station and a home beside it.

use crate::beside::{Beside, Work, nothing};
use crate::bytes::{GIB, fresh, write_new};
use crate::measure::rate;
use crate::size::Size;
use crate::table::Row;
use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Bytes of an edit.
const EDIT_LEN: usize = 4096;

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let (len, edits) = size.choose((32 << 20, 500), (GIB, 20_000));
    let appends = size.choose(2_000, 300_000);
    let beside = Beside::new(&[])?;
    let works = [
        Work {
            what: format!("{edits} random writes of 4 KiB to {} MiB, close included, with a station", len >> 20),
            unit: "k/s",
            is_time: false,
            limit: "40 k/s",
            prepare: Box::new(move |directory| Ok(write_new(&directory.join("edited"), len)?.sync_all()?)),
            run: Box::new(move |directory| edit(directory, len, edits)),
            per: None,
        },
        Work {
            what: "appends of 4 bytes, close included, with a station".to_owned(),
            unit: "k/s",
            is_time: false,
            limit: "1.5 times the loopback's time: 0.67",
            prepare: nothing(),
            run: Box::new(move |directory| append(directory, appends)),
            per: None,
        },
    ];
    beside.rows(&works, rounds)
}

fn edit(directory: &Path, len: u64, edits: usize) -> Result<f64> {
    let mut random = StdRng::seed_from_u64(7);
    let mut block = [0; EDIT_LEN];
    fresh().fill(&mut block[..]);
    let start = Instant::now();
    let file = File::options().write(true).open(directory.join("edited"))?;
    for edit in 0..edits {
        block[..8].copy_from_slice(&edit.to_le_bytes());
        file.write_all_at(&block, random.random_range(0..len / EDIT_LEN as u64) * EDIT_LEN as u64)?;
    }
    drop(file);
    Ok(rate(edits, start))
}

fn append(directory: &Path, appends: usize) -> Result<f64> {
    let path = directory.join("appended");
    let line = fresh().random::<[u8; 4]>();
    let start = Instant::now();
    let mut file = File::options().append(true).create(true).open(&path)?;
    for _ in 0..appends {
        file.write_all(&line)?;
    }
    drop(file);
    let figure = rate(appends, start);
    anyhow::ensure!(fs::metadata(&path)?.len() == 4 * appends as u64, "not all that was appended is there");
    Ok(figure)
}
