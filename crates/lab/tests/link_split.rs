//! `wayfs link` with the schemes that join two connections at the base, over real TCP: what each side sees of the other.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code, reason = "what a connection has negotiated has no safe interface")]

mod common;

use common::link_world::{BAD, BASE, MOBILE, READY, World, interrupt, until, with};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What the base may owe in one direction: two sockets' buffers as its rooms limit them, and what lies between.
const OWED_MAX: u64 = 2 << 20;
const MOBILE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6179, 0x6673, 0x0ab1, 0, 0, 0, 2);
const BASE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6179, 0x6673, 0x0ab1, 0, 0, 0, 1);

/// Whether a connection uses selective acknowledgements.
fn has_sack(stream: &TcpStream) -> bool {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes, of which the sixth are the options.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    assert_eq!(result, 0);
    info[5] & 2 != 0
}

/// A connection from a host to an address of another one: its ends, as they see each other.
fn connected(world: &World, from: &str, to: (&str, IpAddr)) -> (TcpStream, TcpStream) {
    let listener = world.lab.inside(to.0, || TcpListener::bind((to.1, 0))).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    let stream = world.lab.inside(from, || TcpStream::connect_timeout(&at, READY)).unwrap().unwrap();
    let (other, peer) = listener.accept().unwrap();
    // Neither sees that somebody is between them.
    assert_eq!((stream.peer_addr().unwrap(), stream.local_addr().unwrap()), (at, peer));
    for stream in [&stream, &other] {
        stream.set_read_timeout(Some(READY)).unwrap();
        stream.set_write_timeout(Some(READY)).unwrap();
    }
    (stream, other)
}

fn wire(world: &World) -> (&'static str, IpAddr) {
    ("wire", world.lab.address("wire").unwrap().into())
}

fn peer(world: &World) -> serde_json::Value {
    world.status("near").unwrap()["peers"][0].clone()
}

fn until_nothing_is_joined(world: &World) {
    until("all to be delivered", || peer(world)["connections"] == 0);
}

#[test]
fn each_side_has_the_options_of_its_own_connection() {
    with(|| {
        for (scheme, over_the_hop) in [("split", false), ("split-sack", true)] {
            let mut world = World::with_wire(BAD, scheme)?;
            assert_eq!(peer(&world)["scheme"], scheme);
            for (from, to) in [("far", wire(&world)), ("wire", ("far", MOBILE.into()))] {
                let (asker, asked) = connected(&world, from, to);
                let (mobile, wire) = if from == "far" { (&asker, &asked) } else { (&asked, &asker) };
                assert_eq!(has_sack(mobile), over_the_hop, "{scheme} from {from}");
                assert!(has_sack(wire), "{scheme} from {from}");
            }
            let wire = world.lab.address("wire")?;
            world.transfer("far", ("wire", wire), 300_000, || {});
            world.transfer("wire", ("far", MOBILE), 300_000, || {});
            world.both_ways(100_000);
            world.transfer("far", ("near", BASE_V6), 100_000, || {});
            world.transfer("near", ("far", MOBILE_V6), 100_000, || {});
            until_nothing_is_joined(&world);
            interrupt(world.mobile.take());
            interrupt(world.base.take());
        }
        Ok(())
    });
}

#[test]
fn a_side_that_has_said_all_still_hears_and_a_reset_reaches_the_other() {
    with(|| {
        let world = World::with_wire(BAD, "split-sack")?;
        for (from, to) in [("far", wire(&world)), ("wire", ("far", MOBILE.into()))] {
            let (mut asker, mut asked) = connected(&world, from, to);
            asker.write_all(&[7; 50_000]).unwrap();
            asker.shutdown(Shutdown::Write).unwrap();
            let mut got = Vec::new();
            asked.read_to_end(&mut got).unwrap();
            assert_eq!(got, [7; 50_000]);
            asked.write_all(&[9; 70_000]).unwrap();
            drop(asked);
            got.clear();
            asker.read_to_end(&mut got).unwrap();
            assert_eq!(got, [9; 70_000]);
            drop(asker);
            until_nothing_is_joined(&world);

            for resets in [0, 1] {
                let ends = connected(&world, from, to);
                let (breaks, mut hears) = if resets == 0 { ends } else { (ends.1, ends.0) };
                rustix::net::sockopt::set_socket_linger(&breaks, Some(Duration::ZERO)).unwrap();
                drop(breaks);
                let error = hears.read(&mut [0; 10]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "from {from}, {resets}");
                until_nothing_is_joined(&world);
            }
        }
        Ok(())
    });
}

/// Writes until nothing is taken any more for a while; gives how much was.
fn fill(stream: &mut TcpStream, block: &[u8]) -> u64 {
    rustix::net::sockopt::set_socket_send_buffer_size(&*stream, 64 * 1024).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(4))).unwrap();
    let mut total = 0;
    loop {
        match stream.write(block) {
            Ok(len) => total += len as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return total,
            Err(error) => panic!("{error}"),
        }
        assert!(total < 64 << 20, "nothing holds the sender back");
    }
}

#[test]
fn who_does_not_read_holds_the_sender_back_and_what_is_owed_is_told() {
    with(|| {
        let world = World::with_wire(BAD, "split-sack")?;
        for (from, to, owed, other) in [
            ("far", wire(&world), "owed_to_wire", "owed_to_mobile"),
            ("wire", ("far", MOBILE.into()), "owed_to_mobile", "owed_to_wire"),
        ] {
            let (mut writer, mut reader) = connected(&world, from, to);
            let total = fill(&mut writer, &[5; 8192]);
            let told = peer(&world);
            let is_bounded = told[owed].as_u64().is_some_and(|bytes| (1..OWED_MAX).contains(&bytes));
            assert!(is_bounded && told[other] == 0 && told["connections"] == 1, "{told}");
            writer.shutdown(Shutdown::Write).unwrap();
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert!(got.len() as u64 == total && got.iter().all(|byte| *byte == 5), "{} of {total}", got.len());
            drop((writer, reader));
            until_nothing_is_joined(&world);
        }
        Ok(())
    });
}

#[test]
fn who_refuses_or_does_not_answer_does_so_to_the_one_who_asked() {
    with(|| {
        let mut world = World::with_wire(BAD, "split")?;
        let nobody = Ipv4Addr::new(10, 99, 0, 1);
        world.ip("far", &format!("route add {nobody}/32 dev wayfs-link"));
        world.ip("near", &format!("route add {nobody}/32 dev to-wire"));
        // It is swallowed there, and nobody says so.
        world.ip("wire", &format!("route add blackhole {nobody}/32"));
        let ask = |from: &str, to: SocketAddr, within| {
            world.lab.inside(from, || TcpStream::connect_timeout(&to, within)).unwrap().map(drop)
        };
        let address = world.lab.address("wire")?;
        for (from, to) in [("far", address), ("wire", MOBILE), ("far", BASE), ("near", MOBILE)] {
            let error = ask(from, (to, 9).into(), READY).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{from} to {to}");
        }
        let error = ask("far", (nobody, 9).into(), Duration::from_secs(3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        // The base still asks, as a kernel would.
        assert_eq!(peer(&world)["connections"], 1);
        // A listener that is full for somebody else's sake, and a mobile that is gone, cost the others nothing.
        world.both_ways(50_000);

        let (mut asker, mut asked) = connected(&world, "far", wire(&world));
        interrupt(world.base.take());
        for stream in [&mut asker, &mut asked] {
            assert_eq!(stream.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        Ok(())
    });
}
