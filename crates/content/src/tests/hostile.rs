//! Lying nodes are refused, never believed and never a panic.

use super::{built, noise};
use crate::error::{ContentError, NodeFault};
use crate::limits::{SMALL, STANDARD};
use crate::list_node::{Entry, Expected, ListNode};
use crate::reader::ContentReader;
use crate::rewrite::{Edit, rewrite_in};
use crate::sink::MemorySink;
use bytes::Bytes;
use proptest::prelude::*;
use std::convert::Infallible;
use wayfs_types::{Content, Digest};

fn entry(len: u64) -> Entry {
    Entry { digest: Digest::of(&len.to_le_bytes()), len }
}

fn parse(node: &ListNode, level: u8, len: u64) -> Result<ListNode, NodeFault> {
    let expected = Expected { digest: Digest::of(b"it"), level, len };
    ListNode::parse(&node.encode(), expected).map_err(|error| match error {
        ContentError::BadNode { fault, .. } => fault,
        other => panic!("{other}"),
    })
}

#[test]
fn each_fault_is_named() {
    let good = ListNode { level: 1, entries: vec![entry(5), entry(7)] };
    assert_eq!(parse(&good, 1, 12), Ok(good.clone()));
    assert_eq!(parse(&good, 2, 12), Err(NodeFault::Level { wanted: 2, found: 1 }));
    assert_eq!(parse(&good, 1, 13), Err(NodeFault::Sum { wanted: 13, found: 12 }));
    let empty = ListNode { level: 1, entries: vec![] };
    assert_eq!(parse(&empty, 1, 0), Err(NodeFault::Entries(0)));
    let crowded = ListNode { level: 1, entries: vec![entry(1); 1025] };
    assert_eq!(parse(&crowded, 1, 1025), Err(NodeFault::Entries(1025)));
    let hollow = ListNode { level: 1, entries: vec![entry(0), entry(4)] };
    assert_eq!(parse(&hollow, 1, 4), Err(NodeFault::EntryLen(0)));
    let fat = ListNode { level: 1, entries: vec![entry(1 << 21)] };
    assert_eq!(parse(&fat, 1, 1 << 21), Err(NodeFault::EntryLen(1 << 21)));
    let wrapping = ListNode { level: 2, entries: vec![entry(u64::MAX), entry(2)] };
    assert_eq!(parse(&wrapping, 2, 1), Err(NodeFault::EntryLen(2)));
}

#[test]
fn versions_and_trailing_bytes_are_refused() {
    let expected = Expected { digest: Digest::of(b"it"), level: 1, len: 5 };
    let mut bytes = ListNode { level: 1, entries: vec![entry(5)] }.encode().to_vec();
    bytes.push(0);
    let fault = |bytes: &[u8]| match ListNode::parse(bytes, expected) {
        Err(ContentError::BadNode { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(&bytes), NodeFault::Encoding);
    bytes.pop();
    bytes[0] = 9;
    assert_eq!(fault(&bytes), NodeFault::Version(9));
    assert_eq!(fault(&[]), NodeFault::Encoding);
}

#[test]
fn content_outside_the_format_is_refused() {
    let nodes = |_: &Digest| None;
    let root = Digest::of(b"root");
    for content in [
        Content::Tree { size: 0, root, depth: 1, holes: 0 },
        Content::Tree { size: 5, root, depth: 4, holes: 0 },
        Content::Tree { size: 2 << 20, root, depth: 0, holes: 0 },
        Content::Inline(Bytes::from(vec![0; 4097])),
    ] {
        assert!(matches!(ContentReader::new(&content, &nodes), Err(ContentError::BadContent { .. })));
    }
    let absent = Content::Tree { size: 2 << 20, root, depth: 1, holes: 0 };
    let reader = ContentReader::new(&absent, &nodes).unwrap();
    assert_eq!(reader.entries(0, 0).collect::<Vec<_>>(), vec![Err(ContentError::MissingNode(root))]);
}

#[test]
fn bytes_under_a_wrong_name_are_told() {
    assert!(crate::verify(&Digest::of(b"a"), b"a").is_ok());
    assert!(matches!(crate::verify(&Digest::of(b"a"), b"b"), Err(ContentError::Mismatch { .. })));
}

#[test]
fn a_short_read_is_an_error() {
    let nodes = |_: &Digest| None;
    let mut read = |_: u64, _: usize| -> Result<Bytes, Infallible> { Ok(Bytes::from_static(b"?")) };
    let dirty = [0..9_000_000];
    let edit = Edit { old: &Content::EMPTY, nodes: &nodes, dirty: &dirty, new_size: 9_000_000 };
    let refused = rewrite_in(STANDARD, &edit, &mut read, &mut MemorySink::default());
    assert!(matches!(refused, Err(crate::WriteError::Content(ContentError::ShortRead { .. }))));
}

proptest! {
    #[test]
    fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), len in any::<u64>()) {
        let expected = Expected { digest: Digest::of(b"it"), level: 1, len };
        let _ = ListNode::parse(&bytes, expected);
    }

    /// Nodes with bytes changed, served under their old names: reading and rewriting end in order.
    #[test]
    fn a_damaged_tree_never_panics(at in any::<usize>(), value in any::<u8>(), which in any::<usize>(), size in 2_000usize..30_000) {
        let mut sink = MemorySink::default();
        let bytes = noise(size, 4);
        let content = built(&SMALL, &bytes, &mut sink);
        let names: Vec<Digest> = {
            let nodes = |digest: &Digest| sink.get(digest);
            ContentReader::in_shape(SMALL, &content, &nodes).unwrap().list_nodes().unwrap()
        };
        prop_assume!(!names.is_empty());
        let victim = names[which % names.len()];
        let mut damaged = sink.get(&victim).unwrap().to_vec();
        let place = at % damaged.len();
        damaged[place] = value;
        sink.chunks.insert(victim, Bytes::from(damaged));
        let nodes = |digest: &Digest| sink.get(digest);
        let reader = ContentReader::in_shape(SMALL, &content, &nodes).unwrap();
        let covered: u64 = reader.spans(0..size as u64).filter_map(Result::ok).map(|span| span.within.len() as u64).sum();
        prop_assert!(covered <= size as u64);
        let mut read = |offset: u64, len: usize| -> Result<Bytes, Infallible> {
            Ok(Bytes::copy_from_slice(&bytes[offset as usize..offset as usize + len]))
        };
        let dirty = [size as u64 / 2..size as u64 / 2 + 10];
        let edit = Edit { old: &content, nodes: &nodes, dirty: &dirty, new_size: size as u64 };
        let _ = rewrite_in(SMALL, &edit, &mut read, &mut MemorySink::default());
    }
}
