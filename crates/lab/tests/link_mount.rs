//! A WayFS mount over `wayfs link`: what the link tells is heeded by the daemons of both sides.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::link_world::{BAD, READY, World, until, with};
use std::process::Command;
use wayfs_lab::{LabError, Link, MountPoint, Process};
use wayfs_link::LineState;

const HOME: &str = "10.177.0.1:7475";

/// A home beside the base, and a mount at the mobile that listens to the mobile's link.
struct Volume {
    client: Process,
    home: Process,
    at: MountPoint,
    world: World,
}

impl Volume {
    fn start() -> Result<Self, LabError> {
        let world = World::start(BAD, "ours", &[])?;
        let data = world.lab.directory("near")?.join("data");
        let mut command = world.lab.wayfs("near", &common::program())?;
        command.arg("serve").arg("--data").arg(&data).args(["--listen", HOME, "--no-mdns"]);
        let home = world.lab.spawn("near", "home", command)?;
        let tool = |arguments: &[&str]| {
            let mut command = world.lab.wayfs("near", &common::program()).unwrap();
            command.args(arguments).env("WAYFS_AT", &data);
            world.lab.run("near", command, READY).unwrap()
        };
        until("the home to run", || tool(&["status"]).status.success());
        assert!(tool(&["volume", "create", "letters"]).status.success());
        let ticket = String::from_utf8(tool(&["volume", "ticket", "letters"]).stdout).unwrap();
        let at = world.lab.mount_point("far")?;
        let mut command = world.lab.wayfs("far", &common::program())?;
        let socket = world.lab.directory("far")?.join("link.sock");
        command.env("WAYFS_TICKET", ticket.trim()).arg("mount").arg(at.path()).args(["--no-mdns", "-o"]);
        command.arg(format!("link={}", socket.display())).arg("--cache").arg(world.lab.directory("far")?.join("cache"));
        let client = world.lab.spawn("far", "mount", command)?;
        until("the volume to be mounted", || at.is_mounted());
        Ok(Self { client, home, at, world })
    }

    fn wayfs(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.lab.wayfs("far", &common::program()).unwrap();
        command.args(arguments).env("WAYFS_AT", self.at.path());
        command
    }

    fn sync(&self) {
        let command = self.wayfs(&["sync", "--until", "safe", "--timeout", "60"]);
        let output = self.world.lab.run("far", command, 2 * READY).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn told(&self, what: &str) -> usize {
        self.client.output().matches(&format!("the link below is {what}")).count()
    }

    fn is_down(&self) -> bool {
        self.world.status("far").is_some_and(|status| status["peers"][0]["channel"] == "down")
    }
}

#[test]
fn a_mount_hears_that_its_link_is_down_and_up_and_goes_on() {
    with(|| {
        let mut volume = Volume::start()?;
        std::fs::write(volume.at.path().join("before"), vec![1; 100_000]).unwrap();
        volume.sync();
        assert_eq!(volume.told("down"), 0);
        let hop: Link = volume.world.hop();
        volume.world.lab.set_state(hop, LineState::Cut);
        std::fs::write(volume.at.path().join("during"), vec![2; 400_000]).unwrap();
        until("the link to be down", || volume.is_down());
        until("the mount to hear of it", || volume.told("down") > 0);
        assert_eq!(volume.told("up"), 0);
        volume.world.lab.set_state(hop, LineState::Connected);
        until("the mount to hear that it is up", || volume.told("up") > 0);
        volume.sync();
        let mut command = volume.wayfs(&["link", "hand-off", "--socket"]);
        command.arg(volume.world.lab.directory("far")?.join("link.sock"));
        assert!(volume.world.lab.run("far", command, READY)?.status.success());
        until("the mount to hear of a hand-off", || volume.told("handed off") > 0);
        volume.client.signal(rustix::process::Signal::TERM);
        volume.client.wait(READY)?;
        volume.home.signal(rustix::process::Signal::TERM);
        volume.home.wait(READY)?;
        Ok(())
    });
}
