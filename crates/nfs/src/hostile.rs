//! Whatever a server sends is read within bounds; what others encode is read as they meant it.

use crate::calls::{self, Cookie, Place, Stability};
use crate::rpc::{self, Credentials, Xid};
use crate::{Exchange, Handle, Kind, Records, WaitPolicy, mount_protocol, portmap, results, retry::Retry, xdr::Reader};
use nfs3_types::nfs3::{self, Nfs3Option, Nfs3Result, filename3, nfs_fh3};
use nfs3_types::rpc::{msg_body, rpc_msg};
use nfs3_types::xdr_codec::{List, Opaque, Pack, Unpack};
use proptest::prelude::*;
use std::io::Cursor;
use wayfs_types::Time;

fn packed(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.pack(&mut bytes).unwrap();
    bytes
}

fn handle(bytes: &[u8]) -> Handle {
    Handle::read(&mut Reader::new(&packed(&Opaque::borrowed(bytes)))).unwrap()
}

fn credentials() -> Credentials {
    Credentials { machine: "host".into(), uid: 7, gid: 8, groups: (0..40).collect() }
}

#[test]
fn a_call_is_read_by_others_as_it_was_meant() {
    let file = handle(b"file");
    let call = calls::write(&file, 1 << 33, b"hello", Stability::Unstable);
    let bytes = rpc::encode_call(Xid(9), call.kind.procedure(), &credentials(), &call.arguments);
    let mut cursor = Cursor::new(&bytes);
    let (message, _) = rpc_msg::unpack(&mut cursor).unwrap();
    let msg_body::CALL(body) = message.body else { panic!("not a call") };
    assert_eq!((message.xid, body.prog, body.vers, body.proc), (9, 100_003, 3, 7));
    let (user, _) = nfs3_types::rpc::auth_unix::unpack(&mut Cursor::new(&body.cred.body[..])).unwrap();
    assert_eq!((user.uid, user.gid, user.gids), (7, 8, (0..16).collect::<Vec<u32>>()));
    let (arguments, _) = nfs3::WRITE3args::unpack(&mut cursor).unwrap();
    assert_eq!((arguments.offset, arguments.count, &arguments.data[..]), (1 << 33, 5, &b"hello"[..]));
    assert_eq!(cursor.position(), bytes.len() as u64);

    let to = Place { directory: &file, name: b"new name" };
    let call = calls::rename(Place { directory: &file, name: b"x" }, to);
    let (arguments, _) = nfs3::RENAME3args::unpack(&mut Cursor::new(&call.arguments)).unwrap();
    assert_eq!(arguments.to.name.as_ref(), b"new name");
    let call = calls::read_directory_plus(&file, Cookie { place: 3, verifier: [5; 8] }, 4096);
    let (arguments, _) = nfs3::READDIRPLUS3args::unpack(&mut Cursor::new(&call.arguments)).unwrap();
    assert_eq!((arguments.cookie, arguments.cookieverf.0, arguments.maxcount), (3, [5; 8], 4096));
}

#[test]
fn results_of_others_are_read_as_they_were_meant() {
    let entry = nfs3::entryplus3 {
        fileid: 5,
        name: filename3(Opaque::borrowed(b"name")),
        cookie: 77,
        name_attributes: Nfs3Option::None,
        name_handle: Nfs3Option::Some(nfs_fh3 { data: Opaque::borrowed(b"fh") }),
    };
    let reply: nfs3::READDIRPLUS3res<'_> = Nfs3Result::Ok(nfs3::READDIRPLUS3resok {
        dir_attributes: Nfs3Option::None,
        cookieverf: nfs3::cookieverf3([1; 8]),
        reply: nfs3::dirlistplus3 { entries: List(vec![entry]), eof: false },
    });
    let listing = results::read_directory_plus(&packed(&reply)).unwrap().unwrap();
    assert_eq!(listing.next(), Some(Cookie { place: 77, verifier: [1; 8] }));
    assert_eq!((&listing.entries[0].name[..], &listing.entries[0].handle), (&b"name"[..], &Some(handle(b"fh"))));
    let read: nfs3::READ3res<'_> = Nfs3Result::Ok(nfs3::READ3resok {
        file_attributes: Nfs3Option::None,
        count: 3,
        eof: true,
        data: Opaque::borrowed(b"abc"),
    });
    let bytes = packed(&read);
    assert_eq!(results::read(&bytes, 3).unwrap().unwrap().bytes, b"abc");
    assert!(results::read(&bytes, 2).is_err(), "more than was asked for");
}

#[test]
fn names_that_lead_elsewhere_are_not_shown() {
    let names: [&[u8]; 4] = [b"good", b"../etc", b"", b"a\0b"];
    let entry = |name: &&'static [u8]| nfs3::entry3 { fileid: 1, name: filename3(Opaque::borrowed(name)), cookie: 1 };
    let reply: nfs3::READDIR3res<'_> = Nfs3Result::Ok(nfs3::READDIR3resok {
        dir_attributes: Nfs3Option::None,
        cookieverf: nfs3::cookieverf3([0; 8]),
        reply: nfs3::dirlist3 { entries: List(names.iter().map(entry).collect()), eof: true },
    });
    let listing = results::read_directory(&packed(&reply)).unwrap().unwrap();
    assert_eq!(listing.entries.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), [b"good"]);
    assert_eq!(listing.next(), None);
}

/// Reads bytes as everything that they could be; used by the fuzzer, too.
fn read_as_everything(bytes: &[u8]) {
    let _ = rpc::decode_reply(bytes);
    let _ = results::attributes(bytes);
    let _ = results::lookup(bytes);
    let _ = results::read(bytes, 4096);
    let _ = results::write(bytes, 4096);
    let _ = results::made(bytes);
    let _ = results::read_link(bytes);
    let _ = results::file_system_info(bytes);
    let _ = results::file_system_statistics(bytes);
    let _ = results::commit(bytes);
    let _ = mount_protocol::mount_results(bytes);
    let _ = mount_protocol::exports_results(bytes);
    let _ = portmap::port_results(bytes);
    for listing in [results::read_directory(bytes), results::read_directory_plus(bytes)].into_iter().flatten().flatten()
    {
        assert!(listing.entries.len() <= bytes.len() / 24);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_answer_does_harm(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0xff), any::<u8>()], 0..600)) {
        read_as_everything(&bytes);
        // As a success, too.
        read_as_everything(&[&[0; 4], &bytes[..]].concat());
        let mut exchange = Exchange::new(Retry::Ours.begin(), WaitPolicy::Hard, credentials(), 0);
        exchange.submit(&calls::Call { kind: Kind::Read, arguments: vec![] });
        while exchange.poll_transmit(Time::ZERO).is_some() {}
        let _ = exchange.handle_message(Time::from_micros(5), &bytes);
        let mut records = Records::default();
        for part in bytes.chunks(7) {
            records.push(part);
            while let Ok(Some(_)) = records.poll() {}
        }
    }
}

proptest! {
    /// Short runs of the fuzz targets.
    #[test]
    fn decoders_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 1..100_usize) {
        crate::fuzzing::decode(&bytes);
        crate::fuzzing::records(&bytes, cut);
        crate::fuzzing::serve(&bytes);
    }

    #[test]
    fn a_client_comes_to_an_end_whatever_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::drive(&bytes);
    }
}
