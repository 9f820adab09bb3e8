//! `wayfs link` with the schemes that join two connections at the base, over real TCP: what each side sees of the other.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code, reason = "what a connection has negotiated has no safe interface")]

mod common;

use common::link_world::{BAD, BASE, MOBILE, POOL, READY, World, interrupt, until, with};
use rustix::net;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;
use wayfs_lab::{LabError, Process, line};

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
        let world = World::with_wire(BAD, "split")?;
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
        Ok(())
    });
}

/// Over a hop that loses nothing: a reset that is lost nobody sends again.
fn a_base_that_ends_resets_both_sides(delay_ms: u32) {
    with(|| {
        let hop = format!("profile = \"wireless-1mb\"\nboth = {{ rate_mbps = 10.0, delay_ms = {delay_ms}.0 }}");
        let mut world = World::with_wire(&hop, "split")?;
        let (mut asker, mut asked) = connected(&world, "far", wire(&world));
        interrupt(world.base.take());
        for stream in [&mut asker, &mut asked] {
            assert_eq!(stream.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        Ok(())
    });
}

#[test]
fn a_base_that_ends_tells_both_sides() {
    a_base_that_ends_resets_both_sides(0);
}

/// The last segment of the handshake is on its way still when the base ends.
#[test]
fn a_base_that_ends_tells_who_has_just_connected() {
    a_base_that_ends_resets_both_sides(60);
}

/// Several mobiles around a base, and a host on the wire behind it.
fn many(mobiles: &[&str]) -> Result<(World, Vec<Process>), LabError> {
    let mut world = World::around(mobiles, BAD)?;
    world.lab.host("wire")?;
    world.lab.link("near", "wire", line("ethernet-100")?)?;
    world.start_base(&["--scheme", "split"])?;
    let mut processes = Vec::new();
    for mobile in mobiles {
        processes.push(world.mobile_at(mobile, &[])?);
        world.ip(mobile, &format!("route replace {}/32 dev wayfs-link", world.lab.address("wire")?));
    }
    world.ip("wire", &format!("route add {POOL} dev to-near"));
    Ok((world, processes))
}

/// Joined connections of all mobiles, and openings that found no place.
fn joined(world: &World) -> (u64, u64) {
    let peers = world.status("near").unwrap()["peers"].as_array().unwrap().clone();
    let connections = peers.iter().map(|peer| peer["connections"].as_u64().unwrap()).sum();
    (connections, peers[0]["turned_away"].as_u64().unwrap())
}

fn say(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    to.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
}

fn speak((asker, asked): &mut (TcpStream, TcpStream)) {
    say(asker, asked);
    say(asked, asker);
}

#[test]
fn a_flood_of_openings_that_nobody_answers_is_bounded_and_others_go_on() {
    with(|| {
        let (world, _mobiles) = many(&["far", "other"])?;
        let mut before = connected(&world, "far", wire(&world));
        let nobody = Ipv4Addr::new(10, 99, 0, 1);
        world.ip("far", &format!("route add {nobody}/32 dev wayfs-link"));
        world.ip("near", &format!("route add {nobody}/32 dev to-wire"));
        world.ip("wire", &format!("route add blackhole {nobody}/32"));
        world.lab.inside("far", || {
            for port in 1..=2000_u16 {
                let socket = net::socket_with(
                    net::AddressFamily::INET,
                    net::SocketType::STREAM,
                    net::SocketFlags::NONBLOCK,
                    None,
                );
                // Its opening is on its way; that the socket goes tells nobody.
                let _ = net::connect(socket.unwrap(), &SocketAddr::from((nobody, port)));
            }
        })?;
        until("openings to be turned away", || joined(&world).1 > 0);
        let (connections, _) = joined(&world);
        assert!((100..=129).contains(&connections), "{connections} are asked for");
        speak(&mut before);
        // Another mobile does not notice.
        let mut after = connected(&world, "other", wire(&world));
        speak(&mut after);
        Ok(())
    });
}

#[test]
fn so_many_connections_are_joined_and_no_more_and_those_go_on() {
    with(|| {
        let limit = getrlimit(Resource::Nofile);
        if limit.maximum.is_some_and(|maximum| maximum < 8192) {
            eprintln!("SKIPPED: this user may not have 8192 descriptors");
            return Ok(());
        }
        setrlimit(Resource::Nofile, Rlimit { current: Some(8192), maximum: limit.maximum }).unwrap();
        let (world, _mobiles) = many(&["far", "other", "late"])?;
        let (_, address) = wire(&world);
        let listener = world.lab.inside("wire", || TcpListener::bind((address, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        let open = |mobile: &str, within| world.lab.inside(mobile, || TcpStream::connect_timeout(&at, within)).unwrap();
        let mut all = Vec::new();
        for mobile in ["far", "other"] {
            for _ in 0..512 {
                let stream = open(mobile, READY).unwrap();
                all.push((stream, listener.accept().unwrap().0));
            }
            let more = open(mobile, Duration::from_millis(1500)).unwrap_err();
            assert_eq!(more.kind(), ErrorKind::TimedOut, "one mobile has no more than half of all");
        }
        let late = open("late", Duration::from_millis(1500)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let (connections, turned_away) = joined(&world);
        assert!(connections == 1024 && turned_away >= 3, "{connections} joined, {turned_away} turned away");
        for ends in &mut all {
            speak(ends);
        }
        // A place that is free again is taken.
        drop(all.pop());
        until("a place", || joined(&world).0 < 1024);
        assert!(open("late", READY).is_ok());
        Ok(())
    });
}
