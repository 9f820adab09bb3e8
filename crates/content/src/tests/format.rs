//! Golden vectors: names that must never change. `docs/format/content.md` shows the same.

use super::{built, noise};
use crate::limits::STANDARD;
use crate::list_node::{Entry, ListNode};
use crate::sink::MemorySink;
use wayfs_types::{Content, Digest};

#[test]
fn a_list_node_is_encoded_as_drawn() {
    let digest = Digest::from_bytes([0xab; 32]);
    let node = ListNode { level: 1, entries: vec![Entry { digest, len: 300_000 }, Entry { digest, len: 7 }] };
    let mut wanted = vec![1, 1, 2];
    wanted.extend_from_slice(&[0xab; 32]);
    wanted.extend_from_slice(&[0xe0, 0xa7, 0x12]);
    wanted.extend_from_slice(&[0xab; 32]);
    wanted.push(7);
    assert_eq!(node.encode().to_vec(), wanted);
}

#[test]
fn the_cuts_of_known_bytes_stay_where_they_are() {
    let lens = crate::cut(&noise(2 << 20, 1));
    assert_eq!(lens, GOLDEN_LENS);
}

#[test]
fn the_names_of_known_files_stay_what_they_are() {
    let mut sink = MemorySink::default();
    for (len, wanted) in GOLDEN_NAMES {
        let content = built(&STANDARD, &noise(len, 1), &mut sink);
        let Content::Tree { root, depth, size, holes: 0 } = content else { panic!("a tree") };
        assert_eq!(size, len as u64);
        assert_eq!(format!("{depth} {root}"), wanted, "{len} bytes");
    }
}

const GOLDEN_LENS: [usize; 8] = [364_837, 167_313, 342_136, 276_446, 196_010, 161_430, 537_706, 51_274];

const GOLDEN_NAMES: [(usize, &str); 3] = [
    (5000, "0 pyepcrdooh4jeaz7ntxwzch4lt2mkssn3xupclxubiu7ro64kjuq"),
    (2 << 20, "1 c2xb3qcecquzbueehggwlimxtlnnmlm4tfzkivzzikhacoys22ua"),
    (100 << 20, "1 fwgnzazlidsx6auo2636z3vfozzrqxy4n5csbwmnbborxtaf5zfq"),
];
