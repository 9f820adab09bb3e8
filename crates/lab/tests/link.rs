//! `wayfs link` on hosts of the laboratory: real TCP over a bad hop, and everything that may go wrong.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::link_world::{BAD, BASE, MOBILE, World, interrupt, output, until, with};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_lab::{LabError, Topology, line};

#[test]
fn every_scheme_carries_tcp_over_bad_periods_and_ctrl_c_ends_both_ends() {
    with(|| {
        for scheme in [
            "ours",
            "ll",
            "ll-order",
            "ll-sack",
            "snoop",
            "snoop-sack",
            "eln",
            "split",
            "split-sack",
            "fec:6,4",
            "none",
        ] {
            let mut world = World::start(BAD, scheme, &[])?;
            world.both_ways(200_000);
            let status = world.status("far").unwrap();
            assert_eq!(status["peers"][0]["scheme"], scheme);
            interrupt(world.mobile.take());
            interrupt(world.base.take());
            assert!(world.status("far").is_none(), "the socket went with it");
        }
        Ok(())
    });
}

/// Datagrams sent one every 2 ms, by their numbers as they arrived.
fn datagrams(world: &World, count: u32) -> Vec<u32> {
    let bind = |host, at: Ipv4Addr| world.lab.inside(host, || UdpSocket::bind((at, 0))).unwrap().unwrap();
    let (from, to) = (bind("far", MOBILE), bind("near", BASE));
    to.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let at = to.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..count {
                from.send_to(&[&number.to_be_bytes()[..], &[0; 400]].concat(), at).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut got = Vec::new();
        let mut buffer = [0; 2000];
        while let Ok(len) = to.recv(&mut buffer) {
            assert_eq!(len, 404);
            got.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
            if got.len() == count as usize {
                break;
            }
        }
        got
    })
}

#[test]
fn losses_are_hidden_in_order_and_without_a_scheme_they_are_not() {
    with(|| {
        let count = 1000;
        let hidden = World::start(BAD, "ours", &[])?;
        assert_eq!(datagrams(&hidden, count), (0..count).collect::<Vec<u32>>());
        let peer = hidden.status("far").unwrap()["peers"][0].clone();
        assert!(peer["hidden"].as_u64() > Some(0) && peer["given_up"] == 0, "{peer}");
        drop(hidden);
        let plain = World::start(BAD, "none", &[])?;
        let got = datagrams(&plain, count).len();
        assert!(got < count as usize, "the hop lost nothing, so the first half proves nothing");
        Ok(())
    });
}

#[test]
fn a_mobile_changes_its_address_in_the_middle() {
    with(|| {
        let world = World::start(BAD, "ours", &[])?;
        let near = world.lab.address("near")?;
        let move_away = || {
            world.ip("near", "route add 10.78.0.9 dev to-far");
            world.ip("far", "address add 10.78.0.9/32 dev lo");
            world.ip("far", &format!("route replace {near} dev to-near src 10.78.0.9"));
            world.ip("far", "address delete 10.77.0.1/32 dev lo");
        };
        world.transfer("far", ("near", BASE), 1_000_000, move_away);
        until("the base to follow", || {
            let at = world.status("near").unwrap()["peers"][0]["at"].clone();
            at.as_str().is_some_and(|at| at.starts_with("10.78.0.9:"))
        });
        world.both_ways(100_000);
        Ok(())
    });
}

#[test]
fn a_base_that_starts_again_and_a_path_that_shrinks_are_survived() {
    with(|| {
        let mut world = World::start(BAD, "ours", &[])?;
        world.both_ways(50_000);
        let killed = world.base.as_mut().unwrap();
        killed.kill();
        world.base = None;
        world.start_base(&["--scheme", "ours"])?;
        until("the mobile to come back", || world.status("near").is_some_and(|it| it["peers"][0]["channel"] == "good"));
        world.both_ways(50_000);
        world.transfer("near", ("far", MOBILE), 300_000, || world.ip("far", "link set dev to-near mtu 1400"));
        until("the MTU to follow", || world.status("far").unwrap()["mtu"].as_u64() < Some(1300));
        world.both_ways(100_000);
        Ok(())
    });
}

#[test]
fn a_device_that_is_taken_away_and_tickets_that_are_wrong_are_told() {
    with(|| {
        let mut world = World::start(BAD, "ours", &["--default"])?;
        let rules = |world: &World| {
            let mut command = Command::new("ip");
            command.args(["-4", "rule"]);
            String::from_utf8(world.lab.run("far", command, common::link_world::READY).unwrap().stdout).unwrap()
        };
        assert!(rules(&world).contains("5202"), "{}", rules(&world));
        world.ip("far", "link delete wayfs-link");
        let (code, text) = output(world.mobile.take().unwrap());
        assert_eq!(code, Some(6), "{text}");
        assert!(text.contains("TUN device wayfs-link is gone"), "{text}");
        assert!(!rules(&world).contains("5202"), "{}", rules(&world));
        // A ticket of before is worthless after --new-ticket.
        let old = std::fs::read_to_string(world.ticket()).unwrap();
        interrupt(world.base.take());
        world.start_base(&["--new-ticket"])?;
        let command = world.mobile_command("far", old.trim(), &[])?;
        let (code, text) = output(world.lab.spawn("far", "old", command)?);
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("get a new one"), "{text}");
        // Another scheme than the base's, a ticket with a letter changed, a device that is taken.
        interrupt(world.base.take());
        world.start_base(&["--scheme", "ll"])?;
        let command = world.mobile_command("far", &world.ticket(), &["--scheme", "snoop"])?;
        let (code, text) = output(world.lab.spawn("far", "other", command)?);
        assert!(code == Some(5) && text.contains("ll") && text.contains("snoop"), "{code:?} {text}");
        let command = world.mobile_command("far", &old.trim().replace('a', "b").replace("wbyfs", "wayfs"), &[])?;
        let (code, text) = output(world.lab.spawn("far", "damaged", command)?);
        assert!(code == Some(2) && text.contains("ticket"), "{code:?} {text}");
        world.start_mobile(&[])?;
        let command = world.mobile_command("far", &world.ticket(), &[])?;
        let (code, text) = output(world.lab.spawn("far", "second", command)?);
        assert!(code == Some(2) && text.contains("runs at"), "{code:?} {text}");
        Ok(())
    });
}

#[test]
fn ctrl_c_ends_a_wait_for_a_base_that_is_not_there() {
    with(|| {
        let mut world = World::hosts(BAD)?;
        world.start_base(&[])?;
        interrupt(world.base.take());
        // The ticket is good, and nobody is at its address.
        let command = world.mobile_command("far", &world.ticket(), &[])?;
        let mobile = world.lab.spawn("far", "mobile", command)?;
        // Until it has begun to ask: its device is made before.
        until("the mobile to ask", || {
            let mut command = Command::new("ip");
            command.args(["link", "show", "wayfs-link"]);
            world.lab.run("far", command, common::link_world::READY).unwrap().status.success()
        });
        std::thread::sleep(Duration::from_secs(1));
        interrupt(Some(mobile));
        Ok(())
    });
}

/// Passes datagrams between mobile and base, and adds replays, changes, things out of order and rubbish.
fn meddle(at: UdpSocket, base: SocketAddr, stop: &AtomicBool) {
    at.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut mobile, mut kept, mut count) = (None, Vec::new(), 0_usize);
    let mut buffer = [0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = at.recv_from(&mut buffer) else { continue };
        if from != base {
            mobile = Some(from);
        }
        let Some(to) = (if from == base { mobile } else { Some(base) }) else { continue };
        count += 1;
        let mut bytes = buffer[..len].to_vec();
        match count % 7 {
            // Held back until others have passed it, and sent twice then.
            0 => kept.push((bytes, to)),
            1 => {
                for (old, to) in kept.drain(..) {
                    at.send_to(&old, to).unwrap();
                    at.send_to(&old, to).unwrap();
                }
                at.send_to(&bytes, to).unwrap();
            }
            2 => {
                let place = count % bytes.len();
                bytes[place] ^= 0x55;
                at.send_to(&bytes, to).unwrap();
                bytes[place] ^= 0x55;
                at.send_to(&bytes[..place], to).unwrap();
                at.send_to(&bytes, to).unwrap();
            }
            3 => {
                for _ in 0..20 {
                    bytes.rotate_left(1);
                    at.send_to(&bytes, to).unwrap();
                }
                bytes.rotate_right(20);
                at.send_to(&bytes, to).unwrap();
            }
            _ => drop(at.send_to(&bytes, to).unwrap()),
        }
    }
}

#[test]
fn whoever_sits_on_the_way_gets_nothing_in() {
    with(|| {
        let mut lab = Topology::new(3)?;
        for host in ["far", "middle", "near"] {
            lab.host(host)?;
        }
        lab.link("far", "middle", line("ethernet-100")?)?;
        lab.link("middle", "near", line("ethernet-100")?)?;
        let (middle, near) = (lab.address("middle")?, lab.address("near")?);
        let mut world = World { mobile: None, base: None, lab, hop: None };
        let socket = |port| world.lab.inside("middle", || UdpSocket::bind((middle, port))).unwrap().unwrap();
        let (greetings, traffic, stop) = (socket(7480), socket(7481), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // QUIC bears this, too.
            scope.spawn(|| meddle(greetings, (near, 7480).into(), &stop));
            scope.spawn(|| meddle(traffic, (near, 7481).into(), &stop));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Result<(), LabError> {
                world.start_base(&["--scheme", "ours", "--address", &format!("{middle}:7480")])?;
                world.start_mobile(&[])?;
                world.both_ways(500_000);
                for host in ["far", "near"] {
                    let status = world.status(host).unwrap();
                    for count in ["foreign", "forged", "replayed"] {
                        assert!(status[count].as_u64() > Some(0), "{host} {count}: {status}");
                    }
                    let peer = &status["peers"][0];
                    assert!(status["senseless"] == 0 && peer["given_up"] == 0, "{host}: {status}");
                    assert!(peer["state_bytes"].as_u64() < Some(2 << 20), "{host}: {status}");
                }
                interrupt(world.mobile.take());
                interrupt(world.base.take());
                Ok(())
            }));
            stop.store(true, Ordering::Relaxed);
            match result {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    });
}
