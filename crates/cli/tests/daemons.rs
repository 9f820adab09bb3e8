//! Daemons as init scripts and people see them: readiness, refusals, endings, and what a dead one leaves behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod machine;

use machine::{Machine, code, err, is_mounted, kill, out, pid_of, wait};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

#[test]
fn a_server_in_the_background_serves_when_the_command_returns_and_ends_when_stop_returns() {
    let machine = Machine::new();
    let started = machine.serve(&["--daemon"]);
    assert_eq!(code(&started), 0, "{}", err(&started));
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    let ticket = machine.run(&["volume", "ticket", "work"]);
    assert!(out(&ticket).starts_with("wayfs1-") && out(&ticket).lines().count() == 1, "{}", out(&ticket));
    let stopped = machine.run(&["stop"]);
    assert_eq!(code(&stopped), 0, "{}", err(&stopped));
    assert!(!machine.path("data/control.sock").exists());
    // What it had is there again.
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert!(out(&machine.run(&["volume", "list"])).contains("work"));
}

#[test]
fn a_server_that_cannot_start_says_why_also_from_the_background() {
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    for more in [&["--daemon"][..], &[]] {
        let second = machine.serve(more);
        assert_eq!(code(&second), 5, "{}", err(&second));
        assert!(err(&second).contains("in use"), "{}", err(&second));
    }
    let other = Machine::new();
    let port_taken = other.wayfs(&["serve", "--data", &other.text("data"), "--listen", &machine.listen()]);
    assert_eq!(code(&port_taken), 6, "{}", err(&port_taken));
    assert!(err(&port_taken).contains("--listen"), "{}", err(&port_taken));
    let policy =
        other.wayfs(&["serve", "--data", &other.text("data"), "--listen", &other.listen(), "--policy", "often"]);
    assert_eq!(code(&policy), 2, "{}", err(&policy));
}

#[test]
fn the_service_manager_hears_of_readiness_and_a_signal_ends_in_order() {
    let machine = Machine::new();
    let socket = machine.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (data, listen) = (machine.text("data"), machine.listen());
    let mut command = machine.command(&["serve", "--data", &data, "--listen", &listen]);
    let mut server = command.env("NOTIFY_SOCKET", &socket).spawn().unwrap();
    let hear = || {
        let mut buffer = [0; 64];
        let len = manager.recv(&mut buffer).expect("the manager hears within its bound");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(wait(&mut server).code(), Some(0));
}

#[test]
fn a_mount_comes_and_goes_and_what_a_killed_one_left_is_cleaned_up() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("no /dev/fuse here: nothing to mount with");
        return;
    }
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    assert_eq!(code(&machine.run(&["volume", "ticket", "work", "--out", &machine.text("ticket")])), 0);
    let mnt = machine.text("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let mount = |source: &str| machine.run(&["mount", "--daemon", source, &mnt, "--cache", &machine.text("cache")]);
    let first = mount(&machine.text("ticket"));
    assert_eq!(code(&first), 0, "{}", err(&first));
    let umount = machine.run(&["umount", "--flush", &mnt]);
    assert_eq!((code(&umount), is_mounted(&mnt)), (0, false), "{}{}", err(&umount), machine.logs());

    // From here on the name is enough.
    let second = mount("work");
    assert_eq!(code(&second), 0, "{}", err(&second));
    kill(pid_of(&machine, "mount"));
    let cleaned = machine.run(&["umount", &mnt]);
    assert_eq!((code(&cleaned), is_mounted(&mnt)), (0, false), "{}{}", err(&cleaned), machine.logs());
    assert_eq!(code(&machine.run(&["umount", &mnt])), 4, "there is nothing left to unmount");
    // A mount at the same place does the cleaning up itself, also where the kernel still knows the root's attributes.
    assert_eq!(code(&mount("work")), 0);
    std::fs::write(machine.path("mnt/file"), "kept").unwrap();
    assert_eq!(code(&machine.run(&["--at", &mnt, "sync", "--timeout", "20"])), 0);
    kill(pid_of(&machine, "mount"));
    let again = mount("work");
    assert_eq!(code(&again), 0, "{}", err(&again));
    assert_eq!(std::fs::read_to_string(machine.path("mnt/file")).unwrap(), "kept");
    // The dead one stands in no list, and a command for mounts means the one that is there.
    let status = out(&machine.wayfs(&["status"]));
    assert_eq!(status.lines().filter(|line| line.starts_with("mount ")).count(), 1, "{status}");
    let online = machine.wayfs(&["auto"]);
    assert_eq!(code(&online), 0, "{}", err(&online));
    assert_eq!(code(&machine.run(&["umount", &mnt])), 0);
    let unknown = mount("nonesuch");
    assert_eq!((code(&unknown), is_mounted(&mnt)), (4, false), "{}", err(&unknown));
}

/// Whoever may look at processes sees no ticket, however it was given.
#[test]
fn a_running_mount_shows_no_ticket_in_its_arguments_and_environment() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("no /dev/fuse here: nothing to mount with");
        return;
    }
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    for in_environment in [false, true] {
        let ticket = out(&machine.run(&["volume", "ticket", "work"])).trim().to_owned();
        let (mnt, cache) = (machine.text("mnt"), machine.text(&format!("cache-{in_environment}")));
        std::fs::create_dir_all(&mnt).unwrap();
        let mut command = if in_environment {
            let mut command = machine.command(&["mount", &mnt, "--cache", &cache]);
            command.env("WAYFS_TICKET", &ticket);
            command
        } else {
            machine.command(&["mount", &ticket, &mnt, "--cache", &cache])
        };
        let mut mount = command.spawn().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(40);
        while !is_mounted(&mnt) {
            assert!(mount.try_wait().unwrap().is_none(), "the mount ended");
            assert!(std::time::Instant::now() < deadline, "the mount does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{}/{file}", mount.id())).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(&ticket), "{file} shows the ticket");
        }
        let ended = machine.run(&["umount", &mnt]);
        assert_eq!(code(&ended), 0, "{}", err(&ended));
        assert!(wait(&mut mount).success());
    }
}
