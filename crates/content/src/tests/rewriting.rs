//! Rewriting equals building from scratch, and costs what was written.

use super::{built, noise, read_back};
use crate::builder::Builder;
use crate::limits::{SMALL, STANDARD, Shape};
use crate::list_node::{Entry, Run};
use crate::reader::{ContentReader, Located};
use crate::rewrite::{Edit, Rewritten, rewrite_in};
use crate::sink::{ChunkSink, MemorySink};
use bytes::Bytes;
use proptest::prelude::*;
use std::convert::Infallible;
use std::ops::Range;
use wayfs_types::{Content, Digest};

/// A file under edit: its bytes, its content, its chunks.
struct File {
    shape: Shape,
    bytes: Vec<u8>,
    content: Content,
    sink: MemorySink,
}

#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize, seed: u64 },
    Truncate(usize),
    Zero { at: usize, len: usize },
}

impl File {
    fn new(shape: Shape, bytes: Vec<u8>) -> Self {
        let mut sink = MemorySink::default();
        let content = built(&shape, &bytes, &mut sink);
        Self { shape, bytes, content, sink }
    }

    /// Applies steps and closes the file, as a client would.
    fn edit(&mut self, steps: &[Step]) -> Rewritten {
        let mut dirty: Vec<Range<u64>> = Vec::new();
        let mut smallest = self.bytes.len();
        for step in steps {
            match step {
                Step::Write { at, len, seed } => {
                    let end = at + len;
                    if self.bytes.len() < end {
                        self.bytes.resize(end, 0);
                    }
                    self.bytes[*at..end].copy_from_slice(&noise(*len, *seed));
                    dirty.push(*at as u64..end as u64);
                }
                Step::Zero { at, len } => {
                    let end = at + len;
                    if self.bytes.len() < end {
                        self.bytes.resize(end, 0);
                    }
                    self.bytes[*at..end].fill(0);
                    dirty.push(*at as u64..end as u64);
                }
                Step::Truncate(size) => {
                    self.bytes.resize(*size, 0);
                    smallest = smallest.min(*size);
                }
            }
        }
        let old_size = self.content.size() as usize;
        dirty.push(smallest as u64..old_size as u64);
        self.close(&dirty)
    }

    fn close(&mut self, dirty: &[Range<u64>]) -> Rewritten {
        let old_sink = self.sink.clone();
        let nodes = |digest: &Digest| old_sink.get(digest);
        let bytes = &self.bytes;
        let mut read = |offset: u64, len: usize| -> Result<Bytes, Infallible> {
            Ok(Bytes::copy_from_slice(&bytes[offset as usize..offset as usize + len]))
        };
        let edit = Edit { old: &self.content, nodes: &nodes, dirty, new_size: bytes.len() as u64 };
        let rewritten = rewrite_in(self.shape, &edit, &mut read, &mut self.sink).expect("rewrites");
        self.content = rewritten.content.clone();
        rewritten
    }

    fn check(&self) {
        assert!(read_back(&self.shape, &self.content, &self.sink) == self.bytes, "other bytes");
        let scratch = built(&self.shape, &self.bytes, &mut MemorySink::default());
        assert_eq!(self.content, scratch, "other structure than from scratch");
        self.check_holes();
    }

    /// Where seeks find data and holes is what the chunks say, one by one, and holes read as zeros.
    fn check_holes(&self) {
        let nodes = |digest: &Digest| self.sink.get(digest);
        let reader = ContentReader::in_shape(self.shape, &self.content, &nodes).unwrap();
        let chunks: Vec<_> = reader.entries(0, 0).map(Result::unwrap).collect();
        let is_hole = |chunk: &Located| {
            let bytes = &self.bytes[chunk.offset as usize..chunk.end() as usize];
            chunk.entry.len == self.shape.chunk_max as u64 && bytes.iter().all(|byte| *byte == 0)
        };
        let holes: Vec<bool> = chunks.iter().map(is_hole).collect();
        let sum: u64 = chunks.iter().zip(&holes).filter(|(_, is)| **is).map(|(chunk, _)| chunk.entry.len).sum();
        assert_eq!(self.content.holes(), sum);
        let (mut data, mut hole) = (None, reader.size());
        // Each look walks on to what it finds: a few of them in each tree are enough.
        let step = chunks.len() / 8 + 1;
        for (number, (chunk, is_hole)) in chunks.iter().zip(&holes).enumerate().rev() {
            let inside = chunk.offset + chunk.entry.len / 2;
            for from in [inside, chunk.offset].into_iter().filter(|_| number % step == 0) {
                let (wanted_data, wanted_hole) = if *is_hole { (data, from) } else { (Some(from), hole) };
                assert_eq!(reader.next_data(from).unwrap(), wanted_data, "data from {from}");
                assert_eq!(reader.next_hole(from).unwrap(), wanted_hole, "hole from {from}");
            }
            if *is_hole { hole = chunk.offset } else { data = Some(chunk.offset) }
        }
    }
}

fn steps(size_max: usize) -> impl Strategy<Value = Vec<Step>> {
    let write = (0..size_max, 1usize..1500, any::<u64>()).prop_map(|(at, len, seed)| Step::Write { at, len, seed });
    let truncate = (0..size_max).prop_map(Step::Truncate);
    let zero = (0..size_max, 1usize..9000).prop_map(|(at, len)| Step::Zero { at, len });
    proptest::collection::vec(prop_oneof![4 => write, 1 => truncate, 1 => zero], 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_edits_give_the_content_of_scratch(
        size in 0usize..40_000,
        rounds in proptest::collection::vec(steps(48_000), 1..4),
    ) {
        let mut file = File::new(SMALL, noise(size, 42));
        for round in &rounds {
            file.edit(round);
            file.check();
        }
    }

    #[test]
    fn appends_give_the_content_of_scratch(size in 0usize..20_000, lens in proptest::collection::vec(1usize..2000, 1..8)) {
        let mut file = File::new(SMALL, noise(size, 1));
        for len in lens {
            let at = file.bytes.len();
            file.edit(&[Step::Write { at, len, seed: at as u64 }]);
            file.check();
        }
    }

    #[test]
    fn repetitive_bytes_too(size in 300usize..20_000, period in 1usize..40, edits in steps(24_000)) {
        let bytes = (0..size).map(|at| (at % period) as u8).collect();
        let mut file = File::new(SMALL, bytes);
        file.edit(&edits);
        file.check();
    }
}

#[test]
fn a_hole_in_the_middle_is_found_and_counted() {
    let mut file = File::new(SMALL, noise(300_000, 7));
    file.edit(&[Step::Zero { at: 100_000, len: 90_000 }]);
    file.check();
    assert!(file.content.holes() >= 88_000, "{:?}", file.content);
    file.edit(&[Step::Write { at: 150_000, len: 1000, seed: 3 }]);
    file.check();
    file.edit(&[Step::Truncate(160_000), Step::Truncate(400_000)]);
    file.check();
    assert!(file.content.holes() >= 238_000, "{:?}", file.content);
    file.edit(&[Step::Truncate(50_000)]);
    file.check();
    assert_eq!(file.content.holes(), 0);
}

#[test]
fn nothing_written_costs_nothing() {
    let mut file = File::new(SMALL, noise(30_000, 1));
    let before = file.content.clone();
    let rewritten = file.edit(&[]);
    assert_eq!(rewritten.content, before);
    assert_eq!((rewritten.bytes_read, rewritten.chunks, rewritten.nodes), (0, 0, 0));
}

#[test]
fn truncation_at_every_boundary_of_a_small_tree() {
    let bytes = noise(9_000, 8);
    for size in (0..bytes.len()).rev().step_by(37) {
        let mut file = File::new(SMALL, bytes.clone());
        file.edit(&[Step::Truncate(size)]);
        file.check();
    }
}

#[test]
fn standard_sizes_across_the_inline_and_whole_limits() {
    let mut file = File::new(STANDARD, noise(4096, 2));
    for size in [4097usize, 262_144, 262_145, 3 << 20, 262_145, 262_144, 4097, 4096, 0] {
        file.edit(&[Step::Truncate(size), Step::Write { at: size / 2, len: size.min(50) / 2, seed: size as u64 }]);
        file.check();
    }
}

/// Counts without keeping, so that huge files fit the test.
#[derive(Default)]
struct CountingSink {
    nodes: MemorySink,
    bytes: u64,
}

impl ChunkSink for CountingSink {
    type Error = Infallible;

    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), Infallible> {
        self.bytes += bytes.len() as u64;
        self.nodes.put(digest, bytes)
    }
}

#[test]
fn four_kib_in_a_five_gib_file_cost_well_under_four_mib() {
    // A hole stands for the file: its names repeat, which keeps the test small and the tree just as large.
    const SIZE: u64 = 5 << 30;
    let mut sink = CountingSink::default();
    let none = |_: &Digest| None;
    let mut never = |_: u64, _: usize| -> Result<Bytes, Infallible> { panic!("a hole is not read") };
    let hole = Edit { old: &Content::EMPTY, nodes: &none, dirty: &[], new_size: SIZE };
    let content = rewrite_in(STANDARD, &hole, &mut never, &mut sink).unwrap().content;
    assert_eq!(content.size(), SIZE);

    let at = 3_000_000_123u64;
    let mut read = |offset: u64, len: usize| -> Result<Bytes, Infallible> {
        let written = noise(4096, 6);
        let byte = |place: u64| {
            if (at..at + 4096).contains(&place) { written[(place - at) as usize] } else { 0 }
        };
        Ok((offset..offset + len as u64).map(byte).collect())
    };
    let old = sink.nodes.clone();
    let nodes = |digest: &Digest| old.get(digest);
    let dirty = [at..at + 4096];
    let edit = Edit { old: &content, nodes: &nodes, dirty: &dirty, new_size: SIZE };
    let mut sink = CountingSink::default();
    let rewritten = rewrite_in(STANDARD, &edit, &mut read, &mut sink).unwrap();
    assert!(rewritten.bytes_read < 4 << 20, "read {}", rewritten.bytes_read);
    assert!(sink.bytes < 4 << 20, "emitted {}", sink.bytes);
}

#[test]
fn a_scattered_edit_of_a_large_file_costs_a_few_chunks_each() {
    let mut file = File::new(STANDARD, noise(24 << 20, 4));
    let rewritten =
        file.edit(&[Step::Write { at: 1 << 20, len: 4096, seed: 1 }, Step::Write { at: 20 << 20, len: 4096, seed: 2 }]);
    file.check();
    assert!(rewritten.bytes_read < 5 << 20, "read {}", rewritten.bytes_read);
    assert!(rewritten.bytes_emitted < 4 << 20, "emitted {}", rewritten.bytes_emitted);
}

/// Counts what is put, and keeps it.
#[derive(Default)]
struct Counting {
    kept: MemorySink,
    puts: usize,
}

impl ChunkSink for Counting {
    type Error = Infallible;

    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), Infallible> {
        self.puts += 1;
        self.kept.put(digest, bytes)
    }
}

/// A terabyte of nothing, grown to sixteen with a few bytes in the middle.
#[test]
fn a_hole_costs_a_chunk_and_a_node_for_each_level() {
    const TIB: u64 = 1 << 40;
    let mut sink = Counting::default();
    let none = |_: &Digest| None;
    let mut never = |_: u64, _: usize| -> Result<Bytes, Infallible> { panic!("a hole is not read") };
    let hole = Edit { old: &Content::EMPTY, nodes: &none, dirty: &[], new_size: TIB };
    let content = rewrite_in(STANDARD, &hole, &mut never, &mut sink).unwrap().content;
    assert_eq!(content.size(), TIB);
    assert!(sink.puts < 10, "{} chunks and nodes", sink.puts);
    let before = sink.puts;
    let kept = sink.kept.clone();
    let nodes = |digest: &Digest| kept.get(digest);
    let mut read = |_: u64, len: usize| -> Result<Bytes, Infallible> { Ok(Bytes::from(vec![7; len])) };
    let at = 5 * TIB + 12_345;
    let edit = Edit { old: &content, nodes: &nodes, dirty: &[at..at + 100], new_size: 16 * TIB };
    let grown = rewrite_in(STANDARD, &edit, &mut read, &mut sink).unwrap();
    assert_eq!(grown.content.size(), 16 * TIB);
    assert!(sink.puts - before < 40, "{} chunks and nodes", sink.puts - before);
    let find = |digest: &Digest| sink.kept.get(digest);
    let reader = ContentReader::new(&grown.content, &find).unwrap();
    let there: Vec<u8> = reader
        .spans(at - 10..at + 110)
        .flat_map(|span| {
            let span = span.unwrap();
            find(&span.digest).unwrap().slice(span.within).to_vec()
        })
        .collect();
    assert_eq!(there, [[0; 10].as_slice(), &[7; 100], &[0; 10]].concat());
    let far = reader.locate(0, 16 * TIB - 1).unwrap().unwrap();
    assert_eq!(far.offset + far.entry.len, 16 * TIB);
}

/// The tree of a hole is the one that its chunks make one by one.
#[test]
fn a_run_of_the_same_makes_the_nodes_that_its_pieces_make() {
    for (byte, count) in [(1u8, 1u64), (2, 7), (3, 31), (4, 32), (5, 33), (6, 1000), (7, 32 * 32 * 3 + 5), (8, 5000)] {
        let (mut one_by_one, mut at_once) = (MemorySink::default(), MemorySink::default());
        let (mut slow, mut fast) = (Builder::above(SMALL, 0), Builder::above(SMALL, 0));
        let first = Entry { digest: Digest::of(b"first"), len: 9 };
        slow.push(first, &mut one_by_one).unwrap();
        fast.push(first, &mut at_once).unwrap();
        let entry = Entry { digest: Digest::of(&[byte]), len: 10 };
        for _ in 0..count {
            slow.push(entry, &mut one_by_one).unwrap();
        }
        fast.push_run(Run { entry, count }, &mut at_once).unwrap();
        assert_eq!(slow.finish(&mut one_by_one).unwrap(), fast.finish(&mut at_once).unwrap(), "{count} of {byte}");
        assert_eq!(one_by_one.chunks, at_once.chunks);
    }
}
