//! How much a call reads or writes.
//!
//! A large block costs fewer headers, and more when one of its fragments is lost: the kernel cuts what is longer than a packet into
//! fragments, and a lost one takes all with it. What a size is worth is estimated from what happened:
//! `worth(b) = b * (1 - failed(b)) / (b + overhead(b))`, where `failed` grows with the time that a block is on the air.

/// Sizes there are to choose from.
pub(crate) const BLOCK_SIZES: [u32; 7] = [1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// What carries blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Datagrams, cut into fragments: at most 16 KiB, and more than 8 KiB only where nothing is lost. There they save two hundredths; of larger
    /// ones a few fill the queue of a slow hop.
    Datagrams,
    /// A stream, which loses single packets.
    Stream,
}

/// The size of the next block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSize {
    size: u32,
    max: u32,
    /// `None`: fixed.
    seen: Option<Seen>,
}

/// What was seen of the path; older things count less.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    bytes: f64,
    /// Failed sendings; those of one burst count less, since the air was dead anyway.
    failures: f64,
    since_failure: u32,
    /// Bytes since the last failure, and whether there was one.
    clean: u64,
    has_failed: bool,
    /// Larger blocks are for paths that lose nothing.
    careful_beyond: u32,
    /// Since the last look at what would be best.
    sendings: u32,
}

/// Bytes around a block of a call, its answer among them, with headers of UDP.
const CALL_OVERHEAD: f64 = 300.0;
/// Bytes around a fragment.
const FRAGMENT_OVERHEAD: f64 = 20.0;
/// Bytes of a block in a fragment.
const FRAGMENT_LEN: f64 = 1480.0;
/// Of how many bytes the past consists.
const MEMORY: f64 = 1_048_576.0;
/// Bytes that are taken to have passed before anything was seen: the first loss alone says little.
const BEFORE: f64 = 16_384.0;
/// A failure follows another of the same burst if fewer sendings were answered between them.
const BURST: u32 = 2;
/// Such a failure counts so much. Of 0.5, 0.7 and 1 the one that is nowhere more than 4 % worse than the best fixed size
/// (`tests/block_size.rs`).
const IN_BURST: f64 = 0.7;
/// Datagrams of larger blocks are not sent before so much has passed without a loss; after one, before so much more has.
const CAREFUL_BEYOND: u32 = 8192;
const CLEAN_FIRST: u64 = 256 * 1024;
const CLEAN_AGAIN: u64 = 1024 * 1024;
/// A choice is kept for that many sendings, and another must be better by that share.
const SENDINGS_PER_CHOICE: u32 = 4;
const BETTER: f64 = 1.01;

/// What became of a block that was sent once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// It was answered.
    Answered,
    /// It, or its answer, was lost.
    Lost,
}

impl BlockSize {
    /// Always the same: a multiple of 512 from 512 to 65,536.
    pub fn fixed(size: u32) -> Self {
        let size = size.clamp(512, 65_536);
        Self { size, max: size, seen: None }
    }

    /// Cuts what lies beyond what the server takes.
    #[must_use]
    pub fn at_most(self, server_max: u32) -> Self {
        let max = self.max.min(server_max).max(512);
        Self { size: self.size.min(max), max, ..self }
    }

    /// Chosen by what happens; at most `server_max`.
    pub fn auto(carrier: Carrier, server_max: u32) -> Self {
        let (first, max, careful_beyond) = match carrier {
            Carrier::Datagrams => (4096, 16_384, CAREFUL_BEYOND),
            Carrier::Stream => (32_768, 65_536, u32::MAX),
        };
        let max = server_max.clamp(512, max);
        Self {
            size: first.min(max),
            max,
            seen: Some(Seen {
                bytes: BEFORE,
                failures: 0.0,
                since_failure: u32::MAX,
                clean: 0,
                has_failed: false,
                careful_beyond,
                sendings: 0,
            }),
        }
    }

    /// Bytes of the next block.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// A block of `len` bytes was sent, and this became of it.
    pub(crate) fn on_sending(&mut self, len: u32, outcome: Sending) {
        let max = self.max;
        let Some(seen) = &mut self.seen else { return };
        let kept = (-f64::from(len) / MEMORY).exp();
        (seen.bytes, seen.failures) = (seen.bytes * kept + f64::from(len), seen.failures * kept);
        match outcome {
            Sending::Answered => {
                seen.since_failure = seen.since_failure.saturating_add(1);
                seen.clean = seen.clean.saturating_add(u64::from(len));
            }
            Sending::Lost => {
                seen.failures += if seen.since_failure >= BURST { 1.0 } else { IN_BURST };
                (seen.since_failure, seen.clean, seen.has_failed) = (0, 0, true);
            }
        }
        if seen.clean == 0 {
            self.size = self.size.min(seen.careful_beyond);
        }
        seen.sendings += 1;
        if seen.sendings < SENDINGS_PER_CHOICE {
            return;
        }
        seen.sendings = 0;
        let failures = seen.failures / seen.bytes;
        let is_clean = seen.clean >= if seen.has_failed { CLEAN_AGAIN } else { CLEAN_FIRST };
        let max = if is_clean { max } else { max.min(seen.careful_beyond) };
        let sizes = BLOCK_SIZES.into_iter().filter(|size| *size <= max);
        let best = sizes.max_by(|a, b| worth(*a, failures).total_cmp(&worth(*b, failures))).unwrap_or(max);
        if worth(best, failures) > worth(self.size, failures) * BETTER {
            self.size = best;
        }
    }
}

/// Share of what is sent that is of use.
fn worth(size: u32, failures_per_byte: f64) -> f64 {
    let size = f64::from(size);
    let sent = size + CALL_OVERHEAD + FRAGMENT_OVERHEAD * (size / FRAGMENT_LEN).ceil();
    size / sent * (-failures_per_byte * sent).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen where one block in `every` of 8192 bytes is lost, and shorter ones less often.
    fn chosen(bytes_per_loss: u64) -> u32 {
        let mut block = BlockSize::auto(Carrier::Datagrams, 1 << 20);
        let mut sent = 0;
        for _ in 0..4000 {
            let (size, before) = (block.size(), sent / bytes_per_loss);
            sent += u64::from(size);
            let is_lost = sent / bytes_per_loss > before;
            block.on_sending(size, if is_lost { Sending::Lost } else { Sending::Answered });
        }
        block.size()
    }

    #[test]
    fn the_more_is_lost_the_smaller_is_the_block() {
        let sizes = [1 << 30, 1_000_000, 125_000, 16_000].map(chosen);
        assert_eq!(sizes[0], 16_384);
        assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]), "{sizes:?}");
        assert!((1024..=4096).contains(&sizes[3]), "{sizes:?}");
    }

    #[test]
    fn a_fixed_size_stays_within_what_the_server_takes() {
        let mut block = BlockSize::fixed(8192).at_most(4096);
        for _ in 0..100 {
            block.on_sending(4096, Sending::Lost);
        }
        assert_eq!(block.size(), 4096);
        assert_eq!(BlockSize::auto(Carrier::Stream, 16_384).size(), 16_384);
    }
}
