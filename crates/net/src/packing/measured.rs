//! What packing saves and costs with frames like the real ones. Sizes are asserted, times are printed only:
//! `cargo test --profile perf -p wayfs-net measured -- --nocapture`.

use super::{Packer, Unpacker};
use crate::frame::FRAME_LEN_MAX;
use std::time::{Duration, Instant};

const ORIGIN: u64 = 7 << 40;
/// A day in 2026, in nanoseconds.
const DAY: u64 = 1_790_000_000_000_000_000;

#[test]
fn measured_images_and_text_are_a_fraction_of_what_they_were() {
    let images = |number: u64, per_frame: u64| -> Vec<Vec<u8>> {
        (0..number).map(|n| frame(n, n * per_frame..(n + 1) * per_frame, None)).collect()
    };
    let texts = |source: &[u8]| -> Vec<Vec<u8>> {
        pieces(source).enumerate().map(|(n, text)| frame(n as u64, n as u64..n as u64 + 1, Some(text))).collect()
    };
    let own =
        [include_str!("../congestion.rs"), include_str!("../ticket.rs"), include_str!("../certificate.rs")].concat();
    assert!(measure("one image in a frame", &images(500, 1)) < 0.65);
    assert!(measure("100 images in a frame", &images(20, 100)) < 0.5);
    assert!(measure("a removal in a frame", &(0..500).map(removal).collect::<Vec<_>>()) < 0.65);
    assert!(measure("an image with Rust inline", &texts(own.as_bytes())) < 0.45);
    // The machine's own, so there is nothing to assert.
    let headers = c_headers();
    if !headers.is_empty() {
        measure("an image with C inline", &texts(&headers));
    }
}

/// Packs and unpacks all, one after the other, and says how long they are in all, compared with before.
fn measure(what: &str, frames: &[Vec<u8>]) -> f64 {
    let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
    let (mut len, mut len_packed) = (0, 0);
    let (mut packing, mut unpacking) = (Vec::new(), Vec::new());
    for frame in frames {
        let began = Instant::now();
        let packed = packer.pack(frame).unwrap();
        packing.push(began.elapsed());
        let began = Instant::now();
        let unpacked = unpacker.unpack(&packed, FRAME_LEN_MAX).unwrap();
        unpacking.push(began.elapsed());
        assert_eq!(&unpacked, frame);
        len += frame.len();
        len_packed += packed.len();
    }
    let ratio = len_packed as f64 / len as f64;
    let (count, first) = (frames.len(), packing[0]);
    println!(
        "{what}: {} -> {} bytes ({ratio:.2}), median {:.1?} to pack (the first {first:.1?}), {:.1?} to unpack",
        len / count,
        len_packed / count,
        median(packing),
        median(unpacking),
    );
    ratio
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// An `Images` message, as `docs/format/wire.md` draws it: an inode and its entry for each number.
fn frame(serial: u64, numbers: std::ops::Range<u64>, inline: Option<&[u8]>) -> Vec<u8> {
    let mut out = vec![1, 1, 1];
    put_all(&mut out, &[serial, 5000 + serial, 0, 2 * (numbers.end - numbers.start)]);
    for number in numbers {
        put_inode(&mut out, number, inline);
        put_entry(&mut out, number);
    }
    out
}

fn put_inode(out: &mut Vec<u8>, number: u64, inline: Option<&[u8]>) {
    let (file, random) = (ORIGIN | (1000 + number), random(number));
    put_all(out, &[0, file, 1, 0, file + 1, 0, 0o644, 1000, 1000]);
    let at = DAY + number * 3_000_000 + random % 3_000_000;
    put_all(out, &[2 * at, 2 * (at + 5000), 2 * (at + 9000)]);
    if let Some(text) = inline {
        put_all(out, &[0, text.len() as u64]);
        out.extend_from_slice(text);
    } else {
        put_all(out, &[1, random % 60_000]);
        out.extend_from_slice(blake3::hash(&random.to_le_bytes()).as_bytes());
        out.push(0);
    }
    put_all(out, &[1, parent(number)]);
    put_name(out, number);
}

fn put_entry(out: &mut Vec<u8>, number: u64) {
    put_all(out, &[1, parent(number)]);
    put_name(out, number);
    put_all(out, &[1, 1, ORIGIN | (1000 + number), ORIGIN | (1001 + number)]);
}

/// A `Records` message with one removal.
fn removal(number: u64) -> Vec<u8> {
    let mut out = vec![1, 0, 5, 1];
    let base = ORIGIN | (1000 + number);
    put_all(
        &mut out,
        &[ORIGIN | (3000 + number), 2 * (DAY + random(number) % 1_000_000_000), 3, parent(number), base, base + 1],
    );
    put_name(&mut out, number);
    out.push(0);
    out
}

fn parent(number: u64) -> u64 {
    ORIGIN | (900 + number / 30)
}

fn put_name(out: &mut Vec<u8>, number: u64) {
    const WORDS: [&str; 8] = ["main", "config", "stream", "connection", "test", "parse", "view", "record"];
    let random = random(number) as usize;
    let name = format!("{}_{}{}.c", WORDS[random % 8], WORDS[random / 8 % 8], random / 64 % 40);
    put_all(out, &[name.len() as u64]);
    out.extend_from_slice(name.as_bytes());
}

fn put_all(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        let mut rest = *value;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

/// The same for the same number.
fn random(number: u64) -> u64 {
    let digest = blake3::hash(&number.to_le_bytes());
    u64::from_le_bytes(*digest.as_bytes().first_chunk().unwrap())
}

/// Small files: of 500 to 4000 bytes.
fn pieces(source: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut number) = (source, 0);
    std::iter::from_fn(move || {
        number += 1;
        let (piece, after) = rest.split_at_checked(500 + number * 977 % 3500)?;
        rest = after;
        Some(piece)
    })
}

/// Up to 500 kB of the machine's C headers, 20 kB of each at most.
fn c_headers() -> Vec<u8> {
    let Ok(listing) = std::fs::read_dir("/usr/include") else { return Vec::new() };
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    paths.sort();
    let mut headers = Vec::new();
    for text in paths.iter().filter_map(|path| std::fs::read(path).ok()) {
        headers.extend_from_slice(&text[..text.len().min(20_000)]);
    }
    headers.truncate(500_000);
    headers
}
