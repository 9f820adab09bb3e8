//! Whole sessions drawn from bytes, for the fuzzer: the worlds and the checks of the tests.

use crate::tests::arbitrary::Dice;
use crate::tests::random_peers::{client_says, parent_says, rows_change, station_says};

/// A client says to a home or a station what the bytes draw.
pub fn client(bytes: &[u8]) {
    let (to_home, rest) = split(bytes);
    client_says(to_home, |known| Dice::of_bytes(rest, known));
}

/// A station says it to its home.
pub fn station(bytes: &[u8]) {
    station_says(|known| Dice::of_bytes(bytes, known));
}

/// A parent says it to a client or a station.
pub fn parent(bytes: &[u8]) {
    let (to_client, rest) = split(bytes);
    parent_says(to_client, |known| Dice::of_bytes(rest, known));
}

/// The rows of a store are changed as the bytes draw, and a replica is opened on them.
pub fn rows(bytes: &[u8]) {
    rows_change(|known| Dice::of_bytes(bytes, known));
}

fn split(bytes: &[u8]) -> (bool, &[u8]) {
    bytes.split_first().map_or((true, bytes), |(first, rest)| (first % 2 == 0, rest))
}
