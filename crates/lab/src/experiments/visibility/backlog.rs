//! Contents that wait to cross the wide area.

use crate::experiments::noise::Noise;
use crate::{LabError, Sites};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// Bytes of one file.
const FILE_LEN: u64 = 8 << 20;
/// Longest time for the station to have it all, by way of a LAN of 100 Mb/s.
const SAFE: Duration = Duration::from_secs(1200);

/// Writes files at the first client and waits until its station has them. No two chunks are alike and none can be
/// compressed, so every byte has to cross.
pub(super) fn write(sites: &Sites, Noise { seed, len }: Noise) -> Result<(), LabError> {
    let directory = sites.at(0).join("backlog");
    std::fs::create_dir(&directory).map_err(LabError::io("make the directory of the backlog"))?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut piece = vec![0; 1 << 20];
    let mut left = len;
    for number in 0..len.div_ceil(FILE_LEN) {
        let doing = || LabError::io(format!("write file {number} of the backlog"));
        let mut file = File::create(directory.join(number.to_string())).map_err(doing())?;
        let end = left.saturating_sub(FILE_LEN);
        while left > end {
            let now = usize::try_from(left - end).unwrap_or(usize::MAX).min(piece.len());
            random.fill_bytes(&mut piece[..now]);
            file.write_all(&piece[..now]).map_err(doing())?;
            left -= now as u64;
        }
    }
    sites.sync(0, "safe", SAFE)
}
