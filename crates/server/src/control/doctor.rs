//! What a server can say about its own health.

use crate::served::Served;
use crate::server::Shared;
use wayfs_control::report::{DoctorFact, DoctorReport, Verdict};
use wayfs_node::LinkState;
use wayfs_proto::Replica;
use wayfs_types::FileId;

/// Files named in one line.
const NAMED_MAX: usize = 10;
/// Less room than this is a warning, in bytes.
const ROOM_LOW: u64 = 1 << 30;

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
        match served.volume.failure() {
            Some(reason) => {
                facts.push(fact(&check("storage"), Verdict::Bad, &reason, "Mend the cause and restart the server."))
            }
            None => facts.push(fact(&check("storage"), Verdict::Good, "working", "")),
        }
        if let Some(room) = served.volume.contents().available() {
            let (verdict, next) = match room {
                0 => (Verdict::Bad, "Make room: updates are refused until then, nothing is lost."),
                room if room < ROOM_LOW => (Verdict::Warning, "Make room soon."),
                _ => (Verdict::Good, ""),
            };
            facts.push(fact(&check("room"), verdict, &format!("{} MiB left for contents", room >> 20), next));
        }
        if let Some(full) = served.volume.full() {
            facts.push(fact(&check("full disks"), Verdict::Bad, &full, "Make room there; it goes on by itself."));
        }
        if let Some(stats) = served.volume.contents().stats()
            && stats.corrupt > 0
        {
            let found = format!("{} damaged chunks were found since the start", stats.corrupt);
            facts.push(fact(
                &check("contents"),
                Verdict::Bad,
                &found,
                "Check the disk; they are fetched again from other holders.",
            ));
        }
        facts.extend(torn(&served, &check("own contents")));
        match served.link.as_ref().map(|link| link.status()) {
            None => {}
            Some(link) => match link.state {
                LinkState::Connected => facts.push(fact(&check("home"), Verdict::Good, &link.why, "")),
                LinkState::Searching { last_error } => {
                    facts.push(fact(
                        &check("home"),
                        Verdict::Warning,
                        &last_error,
                        "Check the network and that the home runs.",
                    ));
                }
                LinkState::Refused { reason } => {
                    facts.push(fact(&check("home"), Verdict::Bad, &reason, "Join again with a new ticket."))
                }
                LinkState::Offline => facts.push(fact(&check("home"), Verdict::Warning, "offline", "")),
            },
        }
        let conflicts = served.volume.look(Replica::progress).map_or(0, |progress| progress.conflicts_open);
        if conflicts > 0 {
            let found = format!("{conflicts} open");
            facts.push(fact(&check("conflicts"), Verdict::Warning, &found, "`wayfs conflicts list` shows them."));
        }
    }
    DoctorReport { facts }
}

/// Bytes that others will ask this server for, and that a crash took.
fn torn(served: &Served, check: &str) -> Option<DoctorFact> {
    let torn = match served.volume.torn() {
        Ok(torn) => torn,
        Err(error) => return Some(fact(check, Verdict::Bad, &error.to_string(), "Check the disk.")),
    };
    let path = |file| served.volume.look(|replica| wayfs_node::paths::path_of(replica, file)).flatten();
    let named = |file: &FileId| path(*file).map_or_else(|| file.to_string(), |path| path.display().to_string());
    let names: Vec<String> = torn.iter().take(NAMED_MAX).map(named).collect();
    let found = format!("bytes of {} files that are to be here are lost: {}", torn.len(), names.join(", "));
    (!torn.is_empty()).then(|| fact(check, Verdict::Bad, &found, "Write them again, or remove them."))
}

fn listening(server: &Shared) -> DoctorFact {
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    fact(
        "port",
        Verdict::Good,
        &format!("UDP {}, told to others as {}", server.bound, addresses.join(", ")),
        "If others cannot connect, let UDP through the firewall to this port.",
    )
}

fn fact(check: &str, verdict: Verdict, detail: &str, next_step: &str) -> DoctorFact {
    DoctorFact { check: check.to_owned(), verdict, detail: detail.to_owned(), next_step: next_step.to_owned() }
}
