//! What a server can say about its own health.

use crate::shared::Shared;
use wayfs_admin::doctor::{self, fact};
use wayfs_control::report::{DoctorFact, DoctorReport, Verdict};
use wayfs_node::LinkState;

pub(super) fn report(server: &Shared) -> DoctorReport {
    let mut facts = vec![listening(server)];
    let volumes = server.all();
    if volumes.is_empty() {
        facts.push(fact(
            "volumes",
            Verdict::Warning,
            "this server has no volumes",
            "Make one: `wayfs volume create NAME`.",
        ));
    }
    for served in volumes {
        let check = |what: &str| format!("volume {}: {what}", served.name());
        facts.push(doctor::replica(&check("replica"), served.volume.failure()));
        if let Some(free) = served.volume.contents().available() {
            let room = doctor::DiskRoom { free, refused_at: 0 };
            facts.push(doctor::room(&check("room"), "for contents", room));
        }
        facts.push(doctor::way_home(&check("room on the way home"), &served.volume));
        if let Some(stats) = served.volume.contents().stats()
            && stats.corrupt > 0
        {
            let found = format!("{} damaged chunks were found since the start", stats.corrupt);
            facts.push(fact(
                &check("contents"),
                Verdict::Bad,
                found,
                "Check the disk; they are fetched again from other holders.",
            ));
        }
        facts.push(doctor::own_contents(&check("own contents"), &served.volume));
        match served.link.as_ref().map(|link| link.status()) {
            None => {}
            Some(link) => match link.state {
                LinkState::Connected => facts.push(fact(&check("home"), Verdict::Good, link.why, "")),
                LinkState::Searching { last_error } => {
                    facts.push(fact(
                        &check("home"),
                        Verdict::Warning,
                        last_error,
                        "Check the network and that the home runs.",
                    ));
                }
                LinkState::Refused { reason } => {
                    facts.push(fact(&check("home"), Verdict::Bad, reason, "Join again with a new ticket."))
                }
                LinkState::Offline => facts.push(fact(&check("home"), Verdict::Warning, "offline", "")),
            },
        }
        facts.push(doctor::conflicts(&check("conflicts"), &served.volume));
    }
    DoctorReport { facts }
}

fn listening(server: &Shared) -> DoctorFact {
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    fact(
        "port",
        Verdict::Good,
        format!("UDP {}, told to others as {}", server.bound, addresses.join(", ")),
        "If others cannot connect, let UDP through the firewall to this port.",
    )
}
