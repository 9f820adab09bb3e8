//! Chunks directories of all kinds open, or are refused; what is read has its name; work goes on.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use wayfs_store::fuzzing::{Forged, ForgedSegment};
use wayfs_store::{ChunkConfig, ChunkStore, DataDir, Role};
use wayfs_types::Digest;

#[derive(Debug, Arbitrary)]
struct Segment {
    verify_from: u8,
    records: Vec<Record>,
    /// Bytes cut off at the end.
    cut: u16,
    /// A byte that rotted.
    rot: Option<(u16, u8)>,
}

#[derive(Debug, Arbitrary)]
enum Record {
    Chunk(Vec<u8>),
    FalseChunk([u8; 32], Vec<u8>),
    /// Of a chunk with these bytes.
    Tombstone(Vec<u8>, u8, u16),
    Summary(Vec<(Vec<u8>, u16, u32)>),
    Noise(Vec<u8>),
}

impl Record {
    fn forge(self) -> Forged {
        let name = |bytes: &[u8]| *Digest::of(bytes).as_bytes();
        match self {
            Self::Chunk(bytes) => Forged::Chunk { digest: None, bytes },
            Self::FalseChunk(digest, bytes) => Forged::Chunk { digest: Some(digest), bytes },
            Self::Tombstone(bytes, segment, offset) => {
                Forged::Tombstone { digest: name(&bytes), segment: segment.into(), offset: offset.into() }
            }
            Self::Summary(list) => {
                let entry = |(bytes, offset, len): (Vec<u8>, u16, u32)| (name(&bytes), offset.into(), len);
                Forged::Summary(list.into_iter().map(entry).collect())
            }
            Self::Noise(bytes) => Forged::Noise(bytes),
        }
    }
}

impl Segment {
    fn bytes(self, id: u32) -> Vec<u8> {
        let records = self.records.into_iter().map(Record::forge).collect();
        let mut bytes = ForgedSegment { id, verify_from: self.verify_from.into(), records }.encode();
        bytes.truncate(bytes.len().saturating_sub(self.cut.into()));
        if let Some((at, to)) = self.rot
            && let Some(byte) = bytes.get_mut(usize::from(at))
        {
            *byte = to;
        }
        bytes
    }
}

libfuzzer_sys::fuzz_target!(|segments: Vec<Segment>| {
    let root = tempfile::tempdir_in("/dev/shm").expect("make a directory");
    let directory = DataDir::open(root.path(), Role::Server).expect("a fresh directory opens");
    for (id, segment) in (1..4).zip(segments) {
        let path = root.path().join("chunks").join(format!("{id:08}.seg"));
        std::fs::write(path, segment.bytes(id)).expect("write a segment");
    }
    let config = ChunkConfig { min_free: 0, ..ChunkConfig::default() };
    let Ok((store, _)) = ChunkStore::open(&directory, config.clone()) else { return };
    for (digest, len) in store.list(None, 1000) {
        if let Ok(Some(bytes)) = store.get(&digest) {
            assert_eq!((Digest::of(&bytes), bytes.len()), (digest, len as usize), "a chunk is what it is called");
        }
    }
    let fresh = b"something that is put now";
    store.put(&Digest::of(fresh), fresh).expect("there is room");
    store.sync().expect("the disk works");
    // Damaged chunks may stand in its way, which it says; it must not take others with it.
    let _ = store.compact();
    drop(store);
    let (store, _) = ChunkStore::open(&directory, config).expect("what was opened once opens again");
    assert_eq!(store.get(&Digest::of(fresh)).expect("it is whole").as_deref(), Some(&fresh[..]));
});
