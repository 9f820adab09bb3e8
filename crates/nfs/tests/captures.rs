//! What real clients and servers said to each other is read as they meant it, and called as they called it.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wayfs_nfs::calls::{self, Call, Cookie, Place, Stability};
use wayfs_nfs::rpc::{self, Credentials, Xid};
use wayfs_nfs::xdr::{DecodeError, Reader};
use wayfs_nfs::{
    Exchange, Handle, Kind, Procedure, Status, WaitPolicy, mount_protocol, portmap, results, retry::Retry,
};
use wayfs_types::Time;

#[test]
fn a_session_of_nearly_every_procedure_is_read() {
    let seen = replay("session-udp.txt");
    assert_eq!((seen.calls, seen.strays, seen.unknown), (59, 0, 0));
    let missing: Vec<Kind> = Kind::NFS.into_iter().filter(|kind| !seen.kinds.contains_key(kind)).collect();
    assert_eq!(missing, [Kind::MakeNode, Kind::ReadDirectoryPlus, Kind::Commit]);
    assert!(seen.same > 40, "{} of the calls were made as we make them", seen.same);
}

#[test]
fn names_and_attributes_over_a_stream_are_read() {
    let seen = replay("namespace-tcp.txt");
    assert_eq!((seen.calls, seen.strays, seen.unknown), (37, 0, 0));
}

#[test]
fn an_answer_before_its_call_is_nobodys() {
    let seen = replay("reply-first-udp.txt");
    // The client sees it as what it is: an answer to nothing that it asked.
    assert_eq!((seen.calls, seen.strays, seen.unknown), (58, 0, 1));
}

#[test]
fn what_is_answered_twice_is_done_once_and_what_nobody_asked_changes_nothing() {
    let seen = replay("sent-again-udp.txt");
    assert_eq!(seen.calls, 12);
    assert_eq!(seen.strays, 1, "a second answer to a call that was sent again");
    assert_eq!(seen.unknown, 7, "answers whose calls were not captured");
    assert_eq!(seen.kinds.keys().copied().collect::<Vec<_>>(), [Kind::Write]);
}

#[test]
fn writes_over_a_stream_are_read() {
    let seen = replay("writes-tcp.txt");
    assert_eq!((seen.calls, seen.strays, seen.unknown), (31, 0, 0));
    assert!(seen.kinds[&Kind::Write] > 0);
}

/// What a capture had.
#[derive(Debug, Default)]
struct Seen {
    /// Different calls.
    calls: usize,
    kinds: BTreeMap<Kind, usize>,
    /// Calls of theirs that ours would be byte for byte.
    same: usize,
    strays: u64,
    /// Answers to no call.
    unknown: usize,
}

/// Makes the calls of a capture by an exchange, and hands it the answers as they came.
fn replay(name: &str) -> Seen {
    let credentials = Credentials { machine: "replay".into(), uid: 0, gid: 0, groups: vec![] };
    let mut exchange = Exchange::new("constant".parse::<Retry>().unwrap().begin(), WaitPolicy::Hard, credentials, 0);
    let mut seen = Seen::default();
    let mut ours: BTreeMap<u32, (Xid, Kind)> = BTreeMap::new();
    let mut others = BTreeSet::new();
    for (now, message) in messages(name) {
        let xid = u32::from_be_bytes(message[..4].try_into().unwrap());
        if message[4..8] == [0; 4] {
            let (kind, arguments) = call(&message).unwrap();
            let Some(kind) = kind else {
                others.insert(xid);
                continue;
            };
            match ours.get(&xid) {
                // Sent again: a client of ours would send the same bytes.
                Some(_) => exchange.handle_notice(now, wayfs_nfs::Notice::HandOff),
                None => {
                    seen.calls += 1;
                    *seen.kinds.entry(kind).or_default() += 1;
                    seen.same += usize::from(made_by_us(kind, arguments).is_some_and(|made| made == arguments));
                    let ours_now = exchange.submit(&Call { kind, arguments: arguments.to_vec() });
                    ours.insert(xid, (ours_now, kind));
                }
            }
            while exchange.poll_transmit(now).is_some() {}
            continue;
        }
        let Some((renamed, kind)) = ours.get(&xid) else {
            seen.unknown += usize::from(!others.contains(&xid));
            continue;
        };
        let (_, body) = rpc::decode_reply(&message).unwrap();
        read(*kind, body.unwrap_or_else(|refusal| panic!("{name}: {kind:?} was refused: {refusal}")))
            .unwrap_or_else(|error| panic!("{name}: an answer to {kind:?}: {error}"));
        exchange.handle_message(now, &[&renamed.0.to_be_bytes(), &message[4..]].concat()).unwrap();
        while let Some(answer) = exchange.poll_answer() {
            assert_eq!((answer.xid, answer.kind), (*renamed, *kind));
        }
    }
    seen.strays = exchange.statistics().strays;
    seen
}

/// An extract, line by line.
fn messages(name: &str) -> Vec<(Time, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (seconds, bytes) = line.split_once(' ').unwrap();
        let mut message = Vec::new();
        for part in bytes.split(' ') {
            match part.split_once('*') {
                Some((byte, count)) => {
                    let byte = u8::from_str_radix(byte, 16).unwrap();
                    message.resize(message.len() + count.parse::<usize>().unwrap(), byte);
                }
                None => message
                    .extend((0..part.len()).step_by(2).map(|at| u8::from_str_radix(&part[at..at + 2], 16).unwrap())),
            }
        }
        (Time::from_micros((seconds.parse::<f64>().unwrap() * 1e6) as u64), message)
    };
    text.lines().map(line).collect()
}

/// Kind and arguments of a call; no kind if it is of a program that we do not call.
fn call(message: &[u8]) -> Result<(Option<Kind>, &[u8]), DecodeError> {
    let mut reader = Reader::new(message);
    reader.u64("a transaction and that it is a call")?;
    assert_eq!(reader.u32("a version of RPC")?, 2);
    let (program, version, number) = (reader.u32("a program")?, reader.u32("its version")?, reader.u32("a procedure")?);
    for _ in 0..2 {
        reader.u32("a flavour")?;
        reader.opaque("an authentication", 400)?;
    }
    // Version 3 of the port mapper answers with an address as text, which we do not ask for.
    let kind = Kind::of(Procedure { program, version, number });
    Ok((kind, reader.rest()))
}

fn read(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    // Whether the server said yes or no, the message is to be one.
    fn told<T>(results: Result<Result<T, Status>, DecodeError>) -> Result<(), DecodeError> {
        results.map(drop)
    }
    match kind {
        Kind::Null => Ok(()),
        Kind::GetAttributes => told(results::attributes(body)),
        Kind::SetAttributes => told(results::set_attributes(body)),
        Kind::Lookup => told(results::lookup(body)),
        Kind::Access => told(results::access(body)),
        Kind::ReadLink => told(results::read_link(body)),
        Kind::Read => told(results::read(body, 65_536)),
        Kind::Write => told(results::write(body, 65_536)),
        Kind::Create | Kind::MakeDirectory | Kind::Symlink | Kind::MakeNode => told(results::made(body)),
        Kind::Remove | Kind::RemoveDirectory | Kind::Rename | Kind::Link | Kind::PathConfiguration => {
            told(results::done(body))
        }
        Kind::ReadDirectory => told(results::read_directory(body)),
        Kind::ReadDirectoryPlus => told(results::read_directory_plus(body)),
        Kind::FileSystemStatistics => told(results::file_system_statistics(body)),
        Kind::FileSystemInfo => told(results::file_system_info(body)),
        Kind::Commit => told(results::commit(body)),
        Kind::Port => portmap::port_results(body).map(drop),
        Kind::Mount => told(mount_protocol::mount_results(body)),
        Kind::Exports => mount_protocol::exports_results(body).map(drop),
    }
}

/// The arguments that we would send for what theirs say; `None` for kinds whose arguments leave a choice.
fn made_by_us(kind: Kind, arguments: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(arguments);
    let handle = Handle::read(&mut reader).ok()?;
    let made = match kind {
        Kind::GetAttributes => calls::attributes(&handle),
        Kind::ReadLink => calls::read_link(&handle),
        Kind::FileSystemStatistics => calls::file_system_statistics(&handle),
        Kind::FileSystemInfo => calls::file_system_info(&handle),
        Kind::Access => calls::access(&handle, reader.u32("rights").ok()?),
        Kind::Lookup => calls::lookup(Place { directory: &handle, name: reader.opaque("a name", 255).ok()? }),
        Kind::Remove => calls::remove(Place { directory: &handle, name: reader.opaque("a name", 255).ok()? }),
        Kind::RemoveDirectory => {
            calls::remove_directory(Place { directory: &handle, name: reader.opaque("a name", 255).ok()? })
        }
        Kind::Rename => {
            let from = Place { directory: &handle, name: reader.opaque("a name", 255).ok()? };
            let to = Handle::read(&mut reader).ok()?;
            calls::rename(from, Place { directory: &to, name: reader.opaque("a name", 255).ok()? })
        }
        Kind::Link => {
            let to = Handle::read(&mut reader).ok()?;
            calls::link(&handle, Place { directory: &to, name: reader.opaque("a name", 255).ok()? })
        }
        Kind::Read => calls::read(&handle, reader.u64("a place").ok()?, reader.u32("a count").ok()?),
        Kind::Write => {
            let offset = reader.u64("a place").ok()?;
            reader.u32("a count").ok()?;
            let stability = if reader.u32("how stable").ok()? == 0 { Stability::Unstable } else { Stability::FileSync };
            calls::write(&handle, offset, reader.opaque("bytes", 65_536).ok()?, stability)
        }
        Kind::Commit => calls::commit(&handle, reader.u64("a place").ok()?, reader.u32("a count").ok()?),
        Kind::ReadDirectory => {
            let cookie = Cookie { place: reader.u64("a place").ok()?, verifier: reader.fixed("a verifier").ok()? };
            calls::read_directory(&handle, cookie, reader.u32("a count").ok()?)
        }
        Kind::Null
        | Kind::SetAttributes
        | Kind::Create
        | Kind::MakeDirectory
        | Kind::Symlink
        | Kind::MakeNode
        | Kind::ReadDirectoryPlus
        | Kind::PathConfiguration
        | Kind::Port
        | Kind::Mount
        | Kind::Exports => return None,
    };
    Some(made.arguments)
}
