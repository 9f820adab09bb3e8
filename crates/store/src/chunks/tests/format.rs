//! Golden vectors of the segment format; `docs/format/store.md` shows the same.

use crate::OpenError;
use crate::chunks::scan::Record;
use crate::chunks::segment::{
    Binding, Kind, Place, RecordHeader, Salt, SegmentHeader, SegmentId, decode_tombstone, encode_tombstone,
};
use crate::chunks::summary;
use std::fmt::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wayfs_types::Digest;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn headers_are_as_drawn() {
    let header = SegmentHeader { id: SegmentId(3), verify_from: SegmentId(2), salt: Salt(0x1122_3344_5566_7788) };
    assert_eq!(hex(&header.encode()), GOLDEN_SEGMENT);
    assert_eq!(SegmentHeader::decode(Path::new("x"), &header.encode()).unwrap(), Some(header));
    let record = RecordHeader { kind: Kind::Chunk, len: 5, digest: Digest::from_bytes([0xab; 32]) };
    let binding = Binding { salt: header.salt, offset: 40 };
    assert_eq!(hex(&record.encode(binding)), GOLDEN_RECORD);
    assert_eq!(RecordHeader::decode(&record.encode(binding), binding), Some(record));
    let elsewhere = Binding { offset: 41, ..binding };
    assert_eq!(RecordHeader::decode(&record.encode(binding), elsewhere), None, "bound to its place");
    let place = Place { segment: SegmentId(3), offset: 40 };
    let tombstone = encode_tombstone(place, &record.digest);
    assert_eq!(hex(&tombstone), GOLDEN_TOMBSTONE);
    assert_eq!(decode_tombstone(&tombstone, &record.digest), Some(place));
    assert_eq!(decode_tombstone(&tombstone, &Digest::from_bytes([1; 32])), None);
}

#[test]
fn newer_segments_are_refused_by_name() {
    let header = SegmentHeader { id: SegmentId(3), verify_from: SegmentId(2), salt: Salt(1) };
    let mut bytes = header.encode();
    bytes[8] = 2;
    let sum = crc32fast::hash(&bytes[..36]);
    bytes[36..].copy_from_slice(&sum.to_le_bytes());
    let refused = SegmentHeader::decode(Path::new("x"), &bytes);
    assert!(matches!(refused, Err(OpenError::TooNew { found: 2, known: 1, .. })));
}

#[test]
fn segment_names_are_eight_digits() {
    assert_eq!(SegmentId::of_name("00000012.seg"), Some(SegmentId(12)));
    for odd in ["12.seg", "00000012", "+0000012.seg", "99999999999.seg", "00000012.seg.damaged"] {
        assert_eq!(SegmentId::of_name(odd), None, "{odd}");
    }
}

#[test]
fn summaries_are_as_drawn_and_any_change_shows() {
    let scratch = tempfile::tempfile().unwrap();
    let chunk = Record::Chunk { digest: Digest::from_bytes([0xab; 32]), offset: 40, len: 5 };
    let dead = Place { segment: SegmentId(2), offset: 40 };
    let tombstone = Record::Tombstone { digest: Digest::from_bytes([0xcd; 32]), dead };
    let salt = Salt(0x1122_3344_5566_7788);
    let offset = 40 + 53 + 60;
    let (header, payload) = summary::encode(&[chunk, tombstone], salt, offset).unwrap();
    assert_eq!(hex(&payload), GOLDEN_SUMMARY.replace(' ', ""));
    scratch.write_all_at(&header.encode(Binding { salt, offset }), offset).unwrap();
    scratch.write_all_at(&payload, offset + 48).unwrap();
    let len = scratch.metadata().unwrap().len();
    assert_eq!(summary::read(&scratch, salt, len).unwrap(), Some(vec![chunk, tombstone]));
    assert_eq!(summary::read(&scratch, Salt(salt.0 + 1), len).unwrap(), None);
    assert_eq!(summary::read(&scratch, salt, len - 1).unwrap(), None);
    let mut image = vec![0; len as usize];
    scratch.read_exact_at(&mut image, 0).unwrap();
    for at in offset..len {
        let byte = image[at as usize];
        scratch.write_all_at(&[byte ^ 1], at).unwrap();
        assert_eq!(summary::read(&scratch, salt, len).unwrap(), None, "byte {at}");
        scratch.write_all_at(&[byte], at).unwrap();
    }
}

const GOLDEN_SUMMARY: &str = "\
    01 abababababababababababababababababababababababababababababababab 28000000 05000000 \
    02 cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd 02000000 28000000 \
    5753756d 99000000 bd0097fb";
const GOLDEN_SEGMENT: &str = "574159465353454701000000030000000200000000000000887766554433221100000000692d6327";
const GOLDEN_RECORD: &str =
    "5743686b0100000005000000abababababababababababababababababababababababababababababababab33f67573";
const GOLDEN_TOMBSTONE: &str = "030000002800000009a51aa8";
