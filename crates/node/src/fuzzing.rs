//! What a peer says first on a stream, the chunks that it sends, what it says of the servers, and small files, for the fuzzer.

use crate::contents::message::{Ask, Form, Reply, encode};
use crate::contents::{History, Path, pack_difference, unpack_chunk};
use crate::handshake::{self, REPLY_LEN_MAX as LEN_MAX};
use crate::scrub::ScrubPosition;
use crate::servers::{Directory, Have, News, Place, SERVERS_MAX, ServerKind, ServerList, Signed};
use std::net::IpAddr;
use wayfs_net::NodeIdentity;
use wayfs_transfer::Piece;
use wayfs_types::{Digest, VolumeId};

/// Reads bytes as each message that begins a stream; what decodes is encoded and read to the same.
///
/// # Panics
/// If it is not: a fault of the codec.
pub fn decode_headers(bytes: &[u8]) {
    if let Ok(ask) = Ask::decode(bytes) {
        assert_eq!(Ask::decode(&encode(&ask)), Ok(ask), "a question survives its encoding");
    }
    if let Ok(reply) = Reply::decode(bytes) {
        assert_eq!(Reply::decode(&encode(&reply)), Ok(reply), "an answer survives its encoding");
    }
    if let Ok(hello) = handshake::decode::<handshake::Greeting>(bytes, LEN_MAX) {
        assert_eq!(
            handshake::decode(&handshake::encode(&hello), usize::MAX),
            Ok(hello),
            "a greeting survives its encoding"
        );
    }
    if let Ok(reply) = handshake::decode::<handshake::Reply>(bytes, LEN_MAX) {
        assert_eq!(
            handshake::decode(&handshake::encode(&reply), usize::MAX),
            Ok(reply),
            "its answer survives its encoding"
        );
    }
}

/// Reads bytes as a packed chunk: four bytes for its length, one for how many of the rest are its bases, in 1/256.
///
/// # Panics
/// If it unpacks to another length than was said: a fault of the codec.
pub fn unpack_chunks(bytes: &[u8]) {
    let Some(([a, b, c, d, share], rest)) = bytes.split_first_chunk() else { return };
    let len = u32::from_le_bytes([*a, *b, *c, *d]);
    let (bases, body) = rest.split_at(rest.len() * usize::from(*share) / 256);
    for form in [Form::Plain, Form::Zstd { len }, Form::Difference { len, named: 1, before: 0 }] {
        if let Ok(chunk) = unpack_chunk(form, bytes::Bytes::copy_from_slice(body), bases)
            && form != Form::Plain
        {
            assert_eq!(chunk.len(), len as usize, "a chunk is as long as was said");
        }
    }
}

/// Who may sign: the home, a station, a stranger. Made once, since drawing a key costs more than all the rest.
pub struct Signers {
    home: NodeIdentity,
    station: NodeIdentity,
    stranger: NodeIdentity,
    own: NodeIdentity,
}

impl Signers {
    /// Draws their keys.
    ///
    /// # Panics
    /// If the system has no randomness.
    pub fn draw() -> Self {
        let key = || NodeIdentity::generate().expect("there is randomness");
        Self { home: key(), station: key(), stranger: key(), own: key() }
    }

    fn one(&self, number: u8) -> &NodeIdentity {
        match number % 4 {
            0 => &self.home,
            1 => &self.station,
            2 => &self.stranger,
            _ => &self.own,
        }
    }

    /// A list as JSON has it, with the keys of these in the places of others: a fuzzer would not guess one.
    fn list(&self, text: &[u8]) -> Option<ServerList> {
        let mut list: ServerList = serde_json::from_slice(text).ok()?;
        list.volume = VolumeId::from_bytes([7; 16]);
        list.home = self.one(list.number as u8 / 64 * 2).id();
        for (at, entry) in list.entries.iter_mut().enumerate() {
            let home = entry.role == ServerKind::Home;
            entry.node = if home { list.home } else { self.one((at as u8).wrapping_add(1)).id() };
        }
        Some(list)
    }
}

/// What somebody says of the servers: text of a list or of a place, and who signs it.
#[derive(Debug, Clone)]
pub enum Said {
    /// A list.
    List(Vec<u8>, u8),
    /// A place.
    Place(Vec<u8>, u8),
    /// News in JSON, signed by nobody that counts.
    News(Vec<u8>),
    /// The machine starts again.
    Restart,
}

/// Lets a machine hear of the servers of its volume; `scratch` is an empty directory.
///
/// # Panics
/// If it takes an older list, another home, or more than it may: a fault of the directory.
pub fn hear_of_servers(scratch: &std::path::Path, signers: &Signers, said: &[Said]) {
    let path = scratch.join("servers.json");
    let _ = std::fs::remove_file(&path);
    let open = || Directory::load(&path, VolumeId::from_bytes([7; 16]), signers.own.clone(), signers.home.id());
    let mut directory = open();
    let mut newest = 0;
    for one in said {
        let news = match one {
            Said::List(text, by) => {
                signers.list(text).and_then(|list| Signed::new(&list, signers.one(*by))).map(of_list)
            }
            Said::Place(text, by) => place(text, signers.one(*by)).map(of_place),
            Said::News(text) => serde_json::from_slice(text).ok(),
            Said::Restart => {
                directory = open();
                None
            }
        };
        if let Some(news) = news {
            directory.take(news);
        }
        let number = directory.signed_list().map_or(0, |list| list.number);
        assert!(number >= newest, "an older list is not taken");
        newest = number;
        assert_eq!(directory.home(), signers.home.id(), "nobody else becomes the home");
        assert!(directory.list().len() <= SERVERS_MAX + 1);
        assert!(directory.news_for(&Have::default()).is_well_formed() && directory.have().is_well_formed());
    }
}

fn of_list(list: Signed) -> News {
    News { list: Some(list), places: Vec::new() }
}

fn of_place(place: Signed) -> News {
    News { list: None, places: vec![place] }
}

fn place(text: &[u8], by: &NodeIdentity) -> Option<Signed> {
    let mut place: Place = serde_json::from_slice(text).ok()?;
    place.node = by.id();
    Signed::new(&place, by)
}

/// Takes in announcements on the local network: keys as text, ports, addresses.
pub fn hear_announcements(announced: &[(String, u16, Vec<IpAddr>)]) {
    crate::nearby::note_all(announced);
}

/// Reads bytes as the small files of a volume's store; `scratch` is an empty directory.
pub fn read_files(scratch: &std::path::Path, bytes: &[u8], signers: &Signers) {
    let servers = scratch.join("servers.json");
    std::fs::write(&servers, bytes).expect("memory has room");
    let own = signers.own.clone();
    let directory = Directory::load(&servers, VolumeId::from_bytes([7; 16]), own, signers.home.id());
    let _ = (directory.list(), directory.have(), directory.former_addresses());
    std::fs::write(scratch.join("scrub.json"), bytes).expect("memory has room");
    let _ = ScrubPosition::load(scratch);
}

/// A step of two machines that exchange chunks over one session.
#[derive(Debug, Clone)]
pub enum Step {
    /// One asks for a chunk, and the other answers.
    Give(Vec<u8>),
    /// The same, and the answer is lost.
    GiveInVain(Vec<u8>),
    /// A liar answers the last question with these bits and bytes.
    Lie(u64, u32, Vec<u8>),
    /// A list node is taken apart as the bytes below a piece of this level and length.
    Node(u8, u64, Vec<u8>),
}

/// Lets two machines exchange chunks as differences to those of before: what arrives is what was sent.
///
/// # Panics
/// If it is not, or a liar's bytes are taken for a chunk that they are not: a fault of the machine.
pub fn exchange_chunks(steps: &[Step]) {
    let (asker, giver) = (History::default(), History::default());
    let mut kept: std::collections::BTreeMap<Digest, bytes::Bytes> = std::collections::BTreeMap::new();
    let mut last = 0;
    for step in steps {
        match step {
            Step::Give(chunk) | Step::GiveInVain(chunk) => {
                let chunk = bytes::Bytes::copy_from_slice(chunk);
                let digest = Digest::of(&chunk);
                let number = asker.asked().ask(digest);
                last = last.max(number);
                let (before, bases) = giver.given().give(number, &chunk);
                if matches!(step, Step::GiveInVain(_)) {
                    giver.given().take_back(number);
                    continue;
                }
                let Some(packed) = pack_difference(&chunk, &bases.concat(), Path::Fast) else {
                    giver.given().take_back(number);
                    kept.insert(digest, chunk);
                    continue;
                };
                let form = Form::Difference { len: chunk.len() as u32, named: 0, before };
                let named = asker.asked().bases(number, before).expect("an honest giver names what was asked for");
                let held: Option<Vec<bytes::Bytes>> = named.iter().map(|base| kept.get(base).cloned()).collect();
                if let Some(held) = held {
                    let unpacked = unpack_chunk(form, packed, &held.concat()).expect("it was packed upon these");
                    assert_eq!(unpacked, chunk, "what arrives is what was sent");
                    kept.insert(digest, chunk);
                }
            }
            Step::Lie(before, len, bytes) => {
                let Some(named) = asker.asked().bases(last, *before) else { continue };
                let held: Vec<bytes::Bytes> = named.iter().filter_map(|base| kept.get(base).cloned()).collect();
                let form = Form::Difference { len: *len, named: 0, before: *before };
                if let Ok(chunk) = unpack_chunk(form, bytes::Bytes::copy_from_slice(bytes), &held.concat()) {
                    assert_eq!(chunk.len(), *len as usize);
                }
            }
            Step::Node(level, len, bytes) => {
                let piece = Piece { digest: Digest::of(bytes), level: *level, len: *len };
                if piece.is_well_formed()
                    && let Some(children) = piece.children(bytes)
                {
                    let sum: u64 = children.iter().map(|child| child.len).sum();
                    assert_eq!(sum, *len, "the pieces below are the whole");
                    assert!(children.iter().all(|child| child.level + 1 == *level));
                }
            }
        }
    }
}
