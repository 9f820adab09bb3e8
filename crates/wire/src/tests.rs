//! The codec against random, mutated and golden bytes.

use crate::codec::FORMAT_VERSION;
use crate::{
    AskId, Cut, DelegationId, Down, FrameSerial, HeldVersion, KeyImage, LEN_MAX, LOCKS_TOLD_MAX, LentVersion,
    LockVerdict, Mark, Message, Omitted, Question, RecallId, Resume, SentRecord, Span, Stamp, Then, Up, Verdict,
    WireError, decode, encode, encode_image, encode_images, image_len, record_len,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use wayfs_types::AttrVersion;
use wayfs_types::request::{LockFamily, LockKind, LockOwner, LockRange, LockRequest};
use wayfs_types::{
    AttrChange, Chain, CommitNumber, Conflict, ConflictKind, Content, Digest, Entry, FileId, Image, Inode, Key, Kind,
    LIVES_MAX, Life, Name, Op, OriginId, Place, Record, RecordId, Replaced, Seal, UserId, VolumeId, WallTime,
    XattrName,
};

fn origin() -> impl Strategy<Value = OriginId> {
    (0u32..1 << 23).prop_map(|raw| OriginId::new(raw).unwrap())
}

fn id() -> impl Strategy<Value = RecordId> {
    (origin(), 1u64..1 << 40).prop_map(|(origin, sequence)| RecordId::new(origin, sequence).unwrap())
}

fn file() -> impl Strategy<Value = FileId> {
    id().prop_map(FileId::made_by)
}

fn wall() -> impl Strategy<Value = WallTime> {
    any::<i64>().prop_map(WallTime::from_nanos)
}

fn name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(1u8..=255, 1..40)
        .prop_map(|bytes| bytes.into_iter().map(|b| if b == b'/' || b == b'.' { b'x' } else { b }).collect::<Vec<u8>>())
        .prop_map(|bytes| Name::new(bytes).unwrap())
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..100).prop_map(|bytes| Content::Inline(Bytes::from(bytes))),
        // No tree is longer than its depth can hold: chunks of 1 MiB, 1,024 pieces in a node.
        (0u8..=3, any::<u64>(), any::<u64>(), any::<[u8; 32]>()).prop_map(|(depth, size, holes, root)| {
            let size = 1 + size % (1 << (20 + 10 * u32::from(depth)));
            Content::Tree { size, root: Digest::from_bytes(root), depth, holes: holes % size }
        }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (file(), name(), 0u16..=0o7777, content()).prop_map(|(parent, name, mode, content)| Op::Create {
            parent,
            name,
            kind: Kind::File,
            mode,
            uid: 1000,
            gid: 1000,
            content
        }),
        (file(), name(), 0u16..=0o7777).prop_map(|(parent, name, mode)| Op::Mkdir {
            parent,
            name,
            mode,
            uid: 0,
            gid: 0
        }),
        (file(), file(), name()).prop_map(|(file, parent, name)| Op::Link { file, parent, name }),
        (file(), name(), file(), id()).prop_map(|(parent, name, file, version)| Op::Unlink {
            parent,
            name,
            file,
            version
        }),
        (file(), name(), file()).prop_map(|(parent, name, file)| Op::Rmdir { parent, name, file }),
        (file(), name(), file(), file(), name(), proptest::option::of((file(), id()))).prop_map(
            |(from_parent, from_name, file, to_parent, to_name, replaced)| Op::Rename {
                from_parent,
                from_name,
                file,
                to_parent,
                to_name,
                replaced: replaced.map(|(file, version)| Replaced { file, version }),
            }
        ),
        (file(), name(), file(), file(), name(), file()).prop_map(
            |(from_parent, from_name, file, to_parent, to_name, other)| Op::Exchange {
                from_parent,
                from_name,
                file,
                to_parent,
                to_name,
                other
            }
        ),
        (file(), id(), proptest::option::of(0u16..=0o7777), proptest::option::of(wall())).prop_map(
            |(file, base, mode, mtime)| Op::SetAttr {
                file,
                base: AttrVersion(base),
                change: AttrChange { mode, uid: None, gid: None, mtime }
            }
        ),
        (file(), name()).prop_map(|(file, name)| Op::SetXattr {
            file,
            name: XattrName::new(name.as_bytes()).unwrap(),
            value: Some(Bytes::from_static(b"value"))
        }),
        (file(), id(), content(), wall()).prop_map(|(file, base, content, mtime)| Op::Store {
            file,
            base,
            content,
            mtime
        }),
        id().prop_map(|conflict| Op::Resolve { conflict }),
        Just(Op::Touch),
        Just(Op::Skip { after: 0, life: Life(5) }),
    ]
}

fn sent() -> impl Strategy<Value = SentRecord> {
    (id(), wall(), any::<u32>(), op(), any::<bool>())
        .prop_map(|(id, time, user, op, held)| SentRecord { record: Record { id, time, user: UserId(user), op }, held })
}

fn inode() -> impl Strategy<Value = Inode> {
    (content(), id(), id(), wall(), proptest::collection::vec((file(), name()), 0..3)).prop_map(
        |(content, version, attr_version, mtime, places)| Inode {
            kind: Kind::File,
            mode: 0o644,
            uid: 1,
            gid: 2,
            content,
            version,
            attr_version: AttrVersion(attr_version),
            mtime,
            ctime: mtime,
            btime: mtime,
            places: places.into_iter().map(|(parent, name)| Place { parent, name }).collect(),
            removed_from: None,
            merged_into: None,
            subdirectories: 0,
            xattrs: Default::default(),
            unlisted: 0,
        },
    )
}

fn key_image() -> impl Strategy<Value = KeyImage> {
    prop_oneof![
        (file(), proptest::option::of(inode())).prop_map(|(file, inode)| KeyImage {
            key: Key::Inode(file),
            image: inode.map(|i| Image::Inode(Arc::new(i)))
        }),
        (file(), name(), file(), id()).prop_map(|(parent, name, file, version)| KeyImage {
            key: Key::Entry(parent, name),
            image: Some(Image::Entry(Entry { file, version })),
        }),
        (id(), file(), wall()).prop_map(|(record, file, time)| KeyImage {
            key: Key::Conflict(record),
            image: Some(Image::Conflict(Box::new(Conflict {
                kind: ConflictKind::StoreStore,
                file,
                copy: None,
                winner: record,
                record,
                user: UserId(0),
                time,
                place: None,
            }))),
        }),
    ]
}

/// Leaves the contents of all inodes out.
fn left_out(images: &mut [KeyImage]) -> Vec<Omitted> {
    let mut omitted = Vec::new();
    for (index, pair) in images.iter_mut().enumerate() {
        if let Some(Image::Inode(inode)) = &mut pair.image {
            Arc::make_mut(inode).content = Content::EMPTY;
            omitted.push(Omitted { index: index as u32, digest: Digest::of(b"left out") });
        }
    }
    omitted
}

proptest! {
    #[test]
    fn images_in_bytes_make_the_message_that_images_make(
        (serial, through, more) in (any::<u64>().prop_map(FrameSerial), any::<u64>().prop_map(CommitNumber), any::<bool>()),
        mut images in proptest::collection::vec(key_image(), 0..200),
        leaves_out in any::<bool>(),
    ) {
        let omitted = if leaves_out { left_out(&mut images) } else { Vec::new() };
        let bytes: Vec<Bytes> = images.iter().map(encode_image).collect();
        let message = encode_images(Cut { serial, through, more }, &bytes, &omitted);
        prop_assert_eq!(message, encode(&Message::Down(Down::Images { serial, through, more, images, omitted })));
    }
}

fn lock(file: FileId, start: u64, end: u64) -> LockRequest {
    let (family, owner, range) = (LockFamily::Posix, LockOwner(1), LockRange { start, end });
    LockRequest { file, family, owner, pid: 1, range, kind: LockKind::Read, wait: false }
}

fn lock_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u64>(), origin(), origin(), proptest::collection::vec(file(), 0..9)).prop_map(
            |(ask, from, client, files)| {
                let wanted = files.into_iter().map(|file| lock(file, 3, 9)).collect();
                Message::Down(Down::GiveLock { ask: AskId(ask), from, client, wanted })
            }
        ),
        (any::<u64>(), any::<bool>(), proptest::collection::vec(file(), 0..9)).prop_map(|(ask, told, files)| {
            let left = files.into_iter().map(|file| lock(file, 0, u64::MAX)).collect();
            Message::Up(Up::LockGiven { ask: AskId(ask), told, left })
        }),
        (any::<u64>().prop_map(DelegationId), file(), proptest::collection::vec(any::<u64>(), 0..9)).prop_map(
            |(serial, file, starts)| {
                let held = starts.into_iter().map(|start| lock(file, start, u64::MAX)).collect();
                Message::Up(Up::ReturnLocks { file, family: LockFamily::Posix, serial, held })
            }
        ),
        (any::<u64>().prop_map(DelegationId), file()).prop_map(|(serial, file)| {
            Message::Down(Down::RecallLocks { file, family: LockFamily::Flock, serial })
        }),
        (any::<u64>(), any::<u64>().prop_map(DelegationId)).prop_map(|(ask, serial)| {
            Message::Down(Down::LockAnswer { ask: AskId(ask), verdict: LockVerdict::Delegated { serial } })
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        proptest::collection::vec(sent(), 0..10).prop_map(|records| Message::Up(Up::Records { records })),
        (
            any::<u64>().prop_map(FrameSerial),
            any::<u64>(),
            any::<bool>(),
            proptest::collection::vec(key_image(), 0..10)
        )
            .prop_map(|(serial, through, more, mut images)| {
                let omitted = left_out(&mut images);
                Message::Down(Down::Images { serial, through: CommitNumber(through), more, images, omitted })
            }),
        (
            any::<[u8; 16]>(),
            proptest::option::of((origin(), wall(), any::<u64>())),
            proptest::collection::vec(origin(), 0..9)
        )
            .prop_map(|(volume, resume, origins)| Message::Up(Up::Hello {
                volume: VolumeId::from_bytes(volume),
                resume: resume.map(|(origin, born, cursor)| Resume {
                    stamp: Stamp { origin, born, life: Life(3) },
                    cursor: CommitNumber(cursor)
                }),
                origins,
                safe: 7,
                life: Life(9),
            })),
        (any::<u64>(), file(), proptest::option::of(name()), 1u32..4096, proptest::collection::vec(id(), 0..9))
            .prop_map(|(ask, directory, after, limit, seen)| Message::Up(Up::Ask {
                ask: AskId(ask),
                question: Question::List { directory, after, limit },
                seen
            })),
        (origin(), any::<[u64; 4]>()).prop_map(|(origin, [applied, safe, visible, stable])| Message::Down(
            Down::Marks { marks: vec![Mark { origin, applied, safe, visible, stable, check: Chain::START.check() }] }
        )),
        proptest::collection::vec(sent(), 1..10).prop_map(|records| {
            let id = records[0].record.id;
            let spans = vec![Span { origin: id.origin(), from: 1, through: id.sequence(), chain: Chain::START }];
            Message::Up(Up::Cancelled { spans, records })
        }),
        (any::<u64>(), proptest::collection::vec((id(), file(), content()), 0..10)).prop_map(|(through, held)| {
            let versions = held.into_iter();
            let versions = versions.map(|(version, file, content)| HeldVersion { version, file, content }).collect();
            Message::Up(Up::Holds { through, versions })
        }),
        proptest::collection::vec((id(), file(), content(), proptest::option::of(origin())), 0..10).prop_map(|lent| {
            let lent = lent.into_iter();
            let held = |version, file, content| HeldVersion { version, file, content };
            let versions =
                lent.map(|(version, file, content, to)| LentVersion { held: held(version, file, content), to });
            Message::Up(Up::Lent { versions: versions.collect() })
        }),
        (any::<u64>().prop_map(RecallId), proptest::collection::vec(file(), 0..9))
            .prop_map(|(serial, files)| { Message::Down(Down::GiveBack { serial, files, then: Then::Ask }) }),
        (any::<u64>(), proptest::collection::vec(file(), 0..9))
            .prop_map(|(ask, files)| Message::Up(Up::Claim { ask: AskId(ask), files })),
        (any::<u64>(), any::<u64>()).prop_map(|(number, through)| Message::Down(Down::Pong {
            number,
            through: Some(CommitNumber(through)),
            home_ms: Some(number)
        })),
        (any::<u64>(), any::<i64>(), any::<[u8; 32]>()).prop_map(|(position, at, half)| {
            let mut seal = [0; 64];
            seal[..32].copy_from_slice(&half);
            let (position, at, seal) = (CommitNumber(position), WallTime::from_nanos(at), Seal::from_bytes(seal));
            Message::Down(Down::HomeWord { position, at, seal })
        }),
        lock_message(),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(message in message()) {
        prop_assert_eq!(decode(&encode(&message)), Ok(message));
    }

    #[test]
    fn any_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = decode(&bytes) {
            prop_assert_eq!(decode(&encode(&message)), Ok(message));
        }
    }

    #[test]
    fn any_bytes_after_the_version_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut framed = vec![FORMAT_VERSION];
        framed.extend(bytes);
        let _ = decode(&framed);
    }

    #[test]
    fn mutated_messages_do_no_harm(message in message(), at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = encode(&message).to_vec();
        let place = at.index(bytes.len());
        bytes[place] ^= with;
        let _ = decode(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = decode(&bytes);
    }

    #[test]
    fn trailing_bytes_are_refused(message in message(), extra in 1usize..9) {
        let mut bytes = encode(&message).to_vec();
        bytes.extend(std::iter::repeat_n(0, extra));
        prop_assert_eq!(decode(&bytes), Err(WireError::Trailing(extra)));
    }

    #[test]
    fn lengths_add_up(records in proptest::collection::vec(sent(), 1..9)) {
        let sum: usize = records.iter().map(record_len).sum();
        let whole = encode(&Message::Up(Up::Records { records })).len();
        prop_assert!(whole <= sum + 8 && whole > sum);
    }
}

#[test]
fn a_record_is_small() {
    let record = Record {
        id: RecordId::new(OriginId::new(12).unwrap(), 34_567).unwrap(),
        time: WallTime::from_parts(1_800_000_000, 123_456_789),
        user: UserId(1000),
        op: Op::Create {
            parent: FileId::made_by(RecordId::new(OriginId::new(12).unwrap(), 30_000).unwrap()),
            name: Name::new("main.rs").unwrap(),
            kind: Kind::File,
            mode: 0o644,
            uid: 1000,
            gid: 1000,
            content: Content::EMPTY,
        },
    };
    assert!(record_len(&SentRecord { record, held: true }) < 50);
}

#[test]
fn bounds_are_held() {
    let malformed = |message: Message| matches!(decode(&encode(&message)), Err(WireError::Malformed(_)));
    let create = |kind, mode, content| {
        let parent = FileId::ROOT;
        let op = Op::Create { parent, name: Name::new("x").unwrap(), kind, mode, uid: 0, gid: 0, content };
        let record = Record { id: RecordId::GENESIS, time: WallTime::EPOCH, user: UserId(0), op };
        Message::Up(Up::Records { records: vec![SentRecord { record, held: true }] })
    };
    assert!(!malformed(create(Kind::File, 0o644, Content::EMPTY)));
    assert!(malformed(create(Kind::Directory, 0o755, Content::EMPTY)));
    assert!(malformed(create(Kind::File, 0o10000, Content::EMPTY)));
    assert!(malformed(create(Kind::File, 0, Content::Inline(Bytes::from(vec![0; 5000])))));
    assert!(malformed(create(Kind::Symlink(Bytes::from(vec![b'x'; 5000])), 0o777, Content::EMPTY)));
    let backwards = lock(FileId::ROOT, 5, 4);
    assert!(malformed(Message::Up(Up::Lock { ask: AskId(1), request: backwards })));
    let given = |wanted| Message::Up(Up::GiveLock { ask: AskId(1), client: OriginId::GENESIS, wanted });
    assert!(malformed(given(vec![backwards])));
    assert!(!malformed(given(vec![lock(FileId::ROOT, 4, 5); LOCKS_TOLD_MAX])));
    assert!(malformed(given(vec![lock(FileId::ROOT, 4, 5); LOCKS_TOLD_MAX + 1])));
    let image = Some(Image::Entry(Entry { file: FileId::ROOT, version: RecordId::GENESIS }));
    let told = |images: Vec<KeyImage>, omitted: Vec<Omitted>| {
        Message::Down(Down::Images { serial: FrameSerial(1), through: CommitNumber(1), more: false, images, omitted })
    };
    assert!(malformed(told(vec![KeyImage { key: Key::Inode(FileId::ROOT), image: image.clone() }], Vec::new())));
    let entry = KeyImage { key: Key::Entry(FileId::ROOT, Name::new("a").unwrap()), image };
    let omitted = |index| vec![Omitted { index, digest: Digest::of(b"") }];
    assert!(!malformed(told(vec![entry.clone()], Vec::new())));
    assert!(malformed(told(vec![entry.clone()], omitted(0))), "an entry has no contents");
    assert!(malformed(told(vec![entry], omitted(1))), "there is no such image");
    let stamp = Stamp { origin: OriginId::GENESIS, born: WallTime::EPOCH, life: Life::NONE };
    let welcome = |ends: usize| {
        let (current, applied, ends) = (CommitNumber(1), Vec::new(), vec![1; ends]);
        Message::Down(Down::Welcome { stamp, current, resume: false, applied, ends, went_back: false })
    };
    assert!(!malformed(welcome(LIVES_MAX)));
    assert!(malformed(welcome(LIVES_MAX + 1)));
    assert_eq!(decode(&vec![1; LEN_MAX + 1]), Err(WireError::TooLong(LEN_MAX + 1)));
    assert_eq!(decode(&[9, 0, 0]), Err(WireError::Version(9)));
    assert!(decode(&[]).is_err());
}

/// If this fails, the format changed: raise `FORMAT_VERSION` and `docs/format/wire.md` with it.
#[test]
fn golden_vectors() {
    let hex = |message: &Message| data_encoding_hex(&encode(message));
    assert_eq!(hex(&Message::Up(Up::Ping { number: 300 })), "07000eac02");
    assert_eq!(hex(&Message::Up(Up::Start)), "070004");
    let pong = Down::Pong { number: 300, through: Some(CommitNumber(5)), home_ms: None };
    assert_eq!(hex(&Message::Down(pong)), "070108ac02010500");
    let lookup = Question::Lookup { parent: FileId::ROOT, name: Name::new("a").unwrap() };
    assert_eq!(
        hex(&Message::Up(Up::Ask { ask: AskId(1), question: lookup, seen: Vec::new() })),
        "07000701000101 6100".replace(' ', "")
    );
    let answer = Down::LockAnswer { ask: AskId(2), verdict: LockVerdict::Granted };
    assert_eq!(hex(&Message::Down(answer)), "0701070200");
    let client = OriginId::new(5).unwrap();
    let wanted = vec![lock(FileId::ROOT, 3, 9)];
    assert_eq!(hex(&Message::Up(Up::GiveLock { ask: AskId(2), client, wanted })), "07001c0205010100010103090000");
    assert_eq!(hex(&Message::Up(Up::LockGiven { ask: AskId(2), told: true, left: Vec::new() })), "07001d020100");
    assert_eq!(hex(&Message::Down(Down::BringsLocks { client })), "07011705");
    let (file, family) = (FileId::ROOT, LockFamily::Flock);
    assert_eq!(hex(&Message::Down(Down::RecallLocks { file, family, serial: DelegationId(6) })), "070118010106");
    assert_eq!(
        hex(&Message::Up(Up::ReturnLocks { file, family, serial: DelegationId(6), held: Vec::new() })),
        "07001f01010600"
    );
    let answer = Down::LockAnswer { ask: AskId(2), verdict: LockVerdict::Delegated { serial: DelegationId(6) } };
    assert_eq!(hex(&Message::Down(answer)), "070107020706");
    let image = KeyImage {
        key: Key::Entry(FileId::ROOT, Name::new("a").unwrap()),
        image: Some(Image::Entry(Entry { file: FileId::ROOT, version: RecordId::GENESIS })),
    };
    assert_eq!(image_len(&image), 8);
    let images = Down::Answer {
        serial: FrameSerial(1),
        ask: AskId(1),
        verdict: Verdict::Found,
        through: CommitNumber(9),
        images: vec![image],
    };
    assert_eq!(hex(&Message::Down(images)), "07010201010009010101016101010101");
    let mut told = vec![KeyImage { key: Key::Entry(FileId::ROOT, Name::new("a").unwrap()), image: None }];
    let omitted = left_out(&mut told);
    let images = Down::Images { serial: FrameSerial(1), through: CommitNumber(9), more: true, images: told, omitted };
    assert_eq!(hex(&Message::Down(images)), "0701010109010101010161 0000".replace(' ', ""));
    let omitted = Omitted { index: 3, digest: Digest::from_bytes([0xab; 32]) };
    assert_eq!(data_encoding_hex(&postcard::to_allocvec(&omitted).unwrap()), format!("03{}", "ab".repeat(32)));
}

fn data_encoding_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
