//! Cutting, building, reading.

use super::{built, noise, read_back};
use crate::chunker::{Chunker, cut_in};
use crate::limits::{CHUNK_MIN, WHOLE_MAX};
use crate::limits::{SMALL, STANDARD};
use crate::reader::ContentReader;
use crate::sink::MemorySink;
use crate::{CHUNK_MAX, cut};
use proptest::prelude::*;
use wayfs_types::{Content, INLINE_MAX};

#[test]
fn sizes_decide_between_inline_one_chunk_and_tree() {
    let mut sink = MemorySink::default();
    assert_eq!(built(&STANDARD, b"", &mut sink), Content::EMPTY);
    assert!(matches!(built(&STANDARD, &noise(INLINE_MAX, 1), &mut sink), Content::Inline(_)));
    assert!(sink.chunks.is_empty());
    let one_more = built(&STANDARD, &noise(INLINE_MAX + 1, 1), &mut sink);
    assert!(matches!(one_more, Content::Tree { depth: 0, .. }));
    let whole = built(&STANDARD, &noise(WHOLE_MAX, 1), &mut sink);
    assert!(matches!(whole, Content::Tree { depth: 0, .. }));
    let large = built(&STANDARD, &noise(4 << 20, 1), &mut sink);
    assert!(matches!(large, Content::Tree { depth: 1, .. }));
    assert!(large.is_well_formed());
}

#[test]
fn chunks_of_a_large_file_keep_the_bounds() {
    let lens = cut(&noise(16 << 20, 7));
    assert_eq!(lens.iter().sum::<usize>(), 16 << 20);
    let (last, inner) = lens.split_last().unwrap();
    assert!(*last <= CHUNK_MAX);
    assert!(inner.iter().all(|len| (CHUNK_MIN..=CHUNK_MAX).contains(len)));
    let mean = (16 << 20) / lens.len();
    assert!((128 << 10..512 << 10).contains(&mean), "mean chunk of {mean} bytes");
}

#[test]
fn an_insertion_changes_few_chunks() {
    let old = noise(8 << 20, 3);
    let mut new = old.clone();
    new.splice(1_000_000..1_000_000, b"thirteen more".iter().copied());
    let mut sink = MemorySink::default();
    built(&STANDARD, &old, &mut sink);
    let before = sink.chunks.len();
    built(&STANDARD, &new, &mut sink);
    let added = sink.chunks.len() - before;
    assert!(added <= 6, "{added} new chunks and nodes for thirteen bytes");
}

#[test]
fn deep_trees_read_back_and_list_their_nodes() {
    let bytes = noise(90_000, 5);
    let mut sink = MemorySink::default();
    let content = built(&SMALL, &bytes, &mut sink);
    let Content::Tree { depth, .. } = content else { panic!("a tree") };
    assert!(depth >= 3, "depth {depth}");
    assert_eq!(read_back(&SMALL, &content, &sink), bytes);
    let nodes = |digest: &wayfs_types::Digest| sink.get(digest);
    let reader = ContentReader::in_shape(SMALL, &content, &nodes).unwrap();
    let names: std::collections::BTreeSet<_> = reader.list_nodes().unwrap().into_iter().collect();
    let chunks: std::collections::BTreeSet<_> = reader.entries(0, 0).map(|e| e.unwrap().entry.digest).collect();
    assert_eq!(names.len() + chunks.len(), sink.chunks.len());
}

#[test]
fn a_file_too_large_for_the_levels_is_refused() {
    let tiny = crate::limits::Shape { fanout_min: 1, fanout_max: 2, ..SMALL };
    let bytes = bytes::Bytes::from(noise(60_000, 5));
    let refused = crate::builder::build_in(&tiny, &bytes, &mut MemorySink::default());
    assert!(matches!(refused, Err(crate::WriteError::Content(crate::ContentError::TooLarge(_)))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_built_reads_back(len in 0usize..40_000, seed in any::<u64>()) {
        let bytes = noise(len, seed);
        let mut sink = MemorySink::default();
        let content = built(&SMALL, &bytes, &mut sink);
        prop_assert_eq!(content.size(), len as u64);
        prop_assert_eq!(read_back(&SMALL, &content, &sink), bytes);
    }

    #[test]
    fn a_stream_is_cut_like_the_whole(len in 0usize..20_000, seed in any::<u64>(), step in 1usize..3000) {
        let bytes = noise(len, seed);
        let mut chunker = Chunker::in_shape(SMALL);
        let mut lens = Vec::new();
        for piece in bytes.chunks(step) {
            lens.extend(chunker.push(piece).iter().map(bytes::Bytes::len));
        }
        lens.extend(chunker.finish().iter().map(bytes::Bytes::len));
        prop_assert_eq!(lens, cut_in(&SMALL, &bytes));
    }

    #[test]
    fn spans_cover_exactly_the_range(len in 1usize..20_000, a in 0u64..25_000, b in 0u64..25_000) {
        let bytes = noise(len, 9);
        let mut sink = MemorySink::default();
        let content = built(&SMALL, &bytes, &mut sink);
        prop_assume!(!matches!(content, Content::Inline(_)));
        let nodes = |digest: &wayfs_types::Digest| sink.get(digest);
        let reader = ContentReader::in_shape(SMALL, &content, &nodes).unwrap();
        let mut found = Vec::new();
        let mut at = a;
        for span in reader.spans(a..b) {
            let span = span.unwrap();
            prop_assert_eq!(span.offset, at);
            at += span.within.len() as u64;
            found.extend_from_slice(&sink.get(&span.digest).unwrap()[span.within]);
        }
        let end = b.min(len as u64);
        let wanted = if a < end { &bytes[a as usize..end as usize] } else { &[] };
        prop_assert_eq!(&found[..], wanted);
    }
}
