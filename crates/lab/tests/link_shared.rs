//! `wayfs link` where several want more than the hop carries: mobiles around one base, full queues, reserved room, and both families of addresses.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::link_world::{BAD, BASE, MOBILE, World, until, with};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const OTHER: Ipv4Addr = Ipv4Addr::new(10, 177, 0, 3);
const MOBILE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6179, 0x6673, 0x0ab1, 0, 0, 0, 2);
const BASE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6179, 0x6673, 0x0ab1, 0, 0, 0, 1);
/// Bytes before the shares are counted, and of the count.
const WARM: u64 = 1_000_000;
const COUNTED: u64 = 4_000_000;

/// Sends without an end from the base to an address of a host, and counts what arrives there.
fn flow<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    world: &'scope World,
    to: (&'static str, Ipv4Addr),
    (got, stop): (&'scope AtomicU64, &'scope AtomicBool),
) {
    let listener = world.lab.inside(to.0, || TcpListener::bind((to.1, 0))).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    let mut sender = world.lab.inside("near", || TcpStream::connect(at)).unwrap().unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    sender.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    scope.spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            // A timeout is a look at whether all is over.
            let _ = sender.write(&[1; 4096]);
        }
    });
    scope.spawn(move || {
        let mut buffer = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            if let Ok(len) = receiver.read(&mut buffer) {
                got.fetch_add(len as u64, Ordering::Relaxed);
            }
        }
    });
}

#[test]
fn two_mobiles_have_like_shares_however_much_is_sent_to_each() {
    with(|| {
        let mut world = World::around(&["far", "other"], BAD)?;
        world.start_base(&["--scheme", "ours"])?;
        world.start_mobile(&[])?;
        let _other = world.mobile_at("other", &[])?;
        let (many, one, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let count = || [many.load(Ordering::Relaxed), one.load(Ordering::Relaxed)];
        let shares = std::thread::scope(|scope| {
            for _ in 0..4 {
                flow(scope, &world, ("far", MOBILE), (&many, &stop));
            }
            flow(scope, &world, ("other", OTHER), (&one, &stop));
            until("all to be under way", || count().iter().sum::<u64>() > WARM);
            let before = count();
            until("enough to arrive", || count().iter().sum::<u64>() > WARM + COUNTED);
            let after = count();
            stop.store(true, Ordering::Relaxed);
            [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes as f64)
        });
        let jain = (shares[0] + shares[1]).powi(2) / (2.0 * (shares[0].powi(2) + shares[1].powi(2)));
        // Four connections beside one would have four fifths of a queue that they share: an index of 0.74.
        assert!(jain > 0.9, "{shares:?}: {jain}");
        eprintln!("shares {shares:?}: Jain's index {jain:.3}");
        let status = world.status("near").unwrap();
        assert_eq!(status["peers"].as_array().unwrap().len(), 2, "{status}");
        Ok(())
    });
}

#[test]
fn a_full_queue_is_bounded_and_told_and_what_comes_later_passes() {
    with(|| {
        for scheme in ["ours", "ll-sack", "snoop"] {
            let mut world = World::around(&["far"], BAD)?;
            world.start_base(&["--scheme", scheme, "--queue", "16"])?;
            world.start_mobile(&["--queue", "16"])?;
            let bind = |host, at: Ipv4Addr| world.lab.inside(host, || UdpSocket::bind((at, 0))).unwrap().unwrap();
            let (from, to) = (bind("near", BASE), bind("far", MOBILE));
            let at = to.local_addr().unwrap();
            let mut fullest = 0;
            for round in 0..40 {
                for _ in 0..100 {
                    from.send_to(&[7; 1200], at).unwrap();
                }
                if round % 8 == 0 {
                    fullest = fullest.max(world.status("near").unwrap()["peers"][0]["queue_bytes"].as_u64().unwrap());
                }
            }
            let peer = world.status("near").unwrap()["peers"][0].clone();
            assert!(peer["dropped"].as_u64() > Some(0), "{scheme}: the flood did not fill the queue: {peer}");
            // `snoop` keeps no queue before the hop, but the socket's.
            assert!(fullest <= 16 * 1024 + 1300, "{scheme}: {fullest}");
            assert!(peer["state_bytes"].as_u64() < Some(2 << 20), "{scheme}: {peer}");
            until("the queue to run empty", || world.status("near").unwrap()["peers"][0]["queue_bytes"] == 0);
            world.both_ways(50_000);
        }
        Ok(())
    });
}

#[test]
fn reserved_room_is_never_overrun() {
    with(|| {
        let mut world = World::around(&["far"], BAD)?;
        world.start_base(&["--scheme", "ours", "--reservation"])?;
        world.start_mobile(&["--reservation"])?;
        world.both_ways(1_000_000);
        for host in ["near", "far"] {
            let peer = world.status(host).unwrap()["peers"][0].clone();
            assert!(peer["overflowed"] == 0 && peer["given_up"] == 0, "{host}: {peer}");
            assert!(peer["lost"].as_u64() > Some(0), "the hop lost nothing, so this proves nothing: {peer}");
            assert!(peer["state_bytes"].as_u64() < Some(2 << 20), "{host}: {peer}");
        }
        Ok(())
    });
}

#[test]
fn both_families_of_addresses_go_over_the_link() {
    with(|| {
        for scheme in ["ours", "snoop-sack", "fec:6,4"] {
            let world = World::start(BAD, scheme, &[])?;
            world.transfer("far", ("near", BASE_V6), 200_000, || {});
            world.transfer("near", ("far", MOBILE_V6), 200_000, || {});
            world.both_ways(50_000);
            let spoofed = world.status("near").unwrap()["peers"][0]["spoofed"].clone();
            assert_eq!(spoofed, 0, "{scheme}");
        }
        Ok(())
    });
}
