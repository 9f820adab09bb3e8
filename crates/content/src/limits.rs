//! The numbers of the format. Changing one changes the names of all large files.

/// Smallest chunk of a cut file but the last, in bytes. Below this the list entries
/// and the round trips for a file would cost more than the sharing saves.
pub(crate) const CHUNK_MIN: usize = 64 * 1024;

/// Chunk length that cutting aims at, in bytes: an edit ships about this much.
pub const CHUNK_AVG: usize = 256 * 1024;

/// Largest chunk, in bytes: bounds the buffer of whoever moves or checks one.
pub const CHUNK_MAX: usize = 1024 * 1024;

/// Largest file that is kept as one chunk, in bytes; equal to [`CHUNK_AVG`], where
/// cutting would rarely find a second piece.
pub(crate) const WHOLE_MAX: usize = CHUNK_AVG;

/// Most entries in a list node: 38 KiB at most when encoded.
pub(crate) const FANOUT_MAX: usize = 1024;

/// Fewest entries in a list node that has a right neighbour.
pub(crate) const FANOUT_MIN: usize = 256;

/// Most levels of list nodes above the chunks. Three hold 1 TiB of the worst and
/// about 30 TiB of ordinary bytes.
pub const DEPTH_MAX: u8 = 3;

/// All the numbers together, so that the tests can grow deep trees from few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) inline_max: usize,
    pub(crate) whole_max: usize,
    pub(crate) chunk_min: usize,
    pub(crate) chunk_avg: usize,
    pub(crate) chunk_max: usize,
    pub(crate) fanout_min: usize,
    pub(crate) fanout_max: usize,
    /// A node past its minimum ends after an entry whose name has all these bits clear.
    pub(crate) boundary_mask: u32,
}

/// The shape of every stored file.
pub(crate) const STANDARD: Shape = Shape {
    inline_max: wayfs_types::INLINE_MAX,
    whole_max: WHOLE_MAX,
    chunk_min: CHUNK_MIN,
    chunk_avg: CHUNK_AVG,
    chunk_max: CHUNK_MAX,
    fanout_min: FANOUT_MIN,
    fanout_max: FANOUT_MAX,
    boundary_mask: 0xff,
};

// The cutter tests bytes in pairs and shifts its bounds silently when they are odd.
const _: () = assert!(CHUNK_MIN.is_multiple_of(2) && CHUNK_AVG.is_multiple_of(2) && CHUNK_MAX.is_multiple_of(2));
const _: () = assert!(CHUNK_MIN < CHUNK_AVG && CHUNK_AVG < CHUNK_MAX);
const _: () = assert!(WHOLE_MAX <= CHUNK_MAX && wayfs_types::INLINE_MAX < WHOLE_MAX);
const _: () = assert!(FANOUT_MIN < FANOUT_MAX);

#[cfg(test)]
pub(crate) const SMALL: Shape = Shape {
    inline_max: 48,
    whole_max: 256,
    chunk_min: 64,
    chunk_avg: 256,
    chunk_max: 1024,
    fanout_min: 8,
    fanout_max: 32,
    boundary_mask: 0x3,
};
