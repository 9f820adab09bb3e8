//! How it goes.

use crate::served::Served;
use crate::server::Shared;
use std::sync::PoisonError;
use std::time::Duration;
use wayfs_control::report::{StationReport, StationsReport, StatusReport, StatusWord, VolumeRole, VolumeStatus};
use wayfs_control::{ControlError, DaemonKind, ErrorKind, Sink};
use wayfs_node::{LinkState, LinkStatus, ServerInfo, ServerKind, clock};
use wayfs_proto::{Neighbour, Progress, Replica};
use wayfs_types::WallTime;

/// How long announcements are waited for.
const NEARBY_WAIT: Duration = Duration::from_secs(3);

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: WallTime) -> i64 {
    time.as_nanos() / 1_000_000
}

/// Milliseconds since a time of a writer's clock; zero if that clock is ahead.
pub(super) fn age_ms(time: WallTime) -> u64 {
    u64::try_from(unix_ms(clock::wall()) - unix_ms(time)).unwrap_or(0)
}

pub(super) fn report(server: &Shared) -> StatusReport {
    StatusReport {
        kind: DaemonKind::Server,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_ms: u64::try_from(server.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        node: server.endpoint.id().to_string(),
        listening: vec![server.bound.to_string()],
        volumes: volumes(server),
    }
}

/// Those that are served, and those that cannot be.
fn volumes(server: &Shared) -> Vec<VolumeStatus> {
    let mut all: Vec<VolumeStatus> = server.all().iter().map(|served| volume(served)).collect();
    let broken = server.broken.read().unwrap_or_else(PoisonError::into_inner);
    all.extend(broken.iter().map(crate::broken::Broken::status));
    all
}

fn volume(served: &Served) -> VolumeStatus {
    let progress = served.volume.look(Replica::progress);
    let link = served.link.as_ref().map(wayfs_node::ParentLink::status);
    let (word, cause, next_step) = judge(served, progress.as_ref(), link.as_ref());
    let signed = served.volume.look(Replica::home_word).flatten().filter(|_| link.is_some());
    let mut status = VolumeStatus {
        id: served.id.to_string(),
        name: served.name().to_owned(),
        role: role(served),
        word,
        cause,
        next_step,
        parent: link.as_ref().and_then(parent),
        home_reachable: Some(link.as_ref().is_none_or(|link| link.state == LinkState::Connected)),
        home_seen_ms: served
            .volume
            .look(Replica::home_heard)
            .flatten()
            .filter(|_| link.is_some())
            .map(|heard| u64::try_from(clock::now().since(heard).as_millis()).unwrap_or(u64::MAX)),
        home_signed_unix_ms: signed.map(|word| word.at.as_nanos() / 1_000_000),
        home_word_age_ms: signed
            .map(|word| word.age(clock::now(), clock::wall()))
            .map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        home_position: signed.map(|word| word.position.0),
        reconciled_unix_ms: link.as_ref().and_then(|link| link.heard).map(unix_ms),
        cache_used_bytes: served.volume.contents().bytes(),
        full: served.volume.full(),
        ledger: super::ledger::of(served),
        scrub: super::scrub::status(&served.volume.scrub_position()),
        ..VolumeStatus::default()
    };
    if let Some(progress) = progress {
        status.conflicts_open = progress.conflicts_open;
        status.versions_lost = progress.versions_lost;
        status.children = progress.children;
    }
    status
}

pub(super) fn role(served: &Served) -> VolumeRole {
    if served.is_home() { VolumeRole::Home } else { VolumeRole::Station }
}

fn judge(served: &Served, progress: Option<&Progress>, link: Option<&LinkStatus>) -> (StatusWord, String, String) {
    let attention = |cause: String, next: &str| (StatusWord::NeedsAttention, cause, next.to_owned());
    if let Some(reason) = served.volume.failure() {
        return attention(reason, "Mend the cause and restart the server.");
    }
    if let Some(rival) = served.volume.directory().rival() {
        return attention(rival.to_string(), rival.next_step());
    }
    let Some(progress) = progress else {
        return attention("the volume has stopped".into(), "Restart the server.");
    };
    if let Some(LinkState::Refused { reason }) = link.map(|link| &link.state) {
        return attention(reason.clone(), "Join again with `wayfs station join TICKET`.");
    }
    match link.map(|link| &link.state) {
        Some(LinkState::Searching { last_error }) => {
            let cause = if last_error.is_empty() {
                "connecting to the home".into()
            } else {
                format!("the home is not reached: {last_error}")
            };
            return (StatusWord::Away, cause, "Nothing is lost; it connects by itself when the home is back.".into());
        }
        Some(LinkState::Offline) => return (StatusWord::Away, "set offline".into(), String::new()),
        Some(LinkState::Connected | LinkState::Refused { .. }) | None => {}
    }
    if let Some(full) = served.volume.full() {
        return (StatusWord::Full, full, "Make room there; it goes on by itself.".into());
    }
    if progress.versions_lost > 0 {
        return attention(wayfs_control::lost_text(progress.versions_lost), wayfs_control::LOST_NEXT);
    }
    if progress.conflicts_open > 0 {
        let cause = match progress.conflicts_open {
            1 => "a conflict is open".to_owned(),
            more => format!("{more} conflicts are open"),
        };
        return attention(cause, "`wayfs conflicts list` shows them, `wayfs conflicts resolve` settles them.");
    }
    if progress.records_waiting > 0 {
        let cause = format!("{} records are on their way to the home", progress.records_waiting);
        return (StatusWord::Dirty, cause, String::new());
    }
    (StatusWord::Active, String::new(), String::new())
}

fn parent(link: &LinkStatus) -> Option<StationReport> {
    let server = link.parent.as_ref()?;
    let mut report = station(server);
    report.connected = link.state == LinkState::Connected;
    report.chosen = true;
    report.rtt_ms = link.rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
    report.note = link.why.clone();
    add_throughput(&mut report, link);
    Some(report)
}

/// What was seen to go over the way to a server.
fn add_throughput(report: &mut StationReport, link: &LinkStatus) {
    let known = link.candidates.iter().find(|candidate| candidate.server.node.to_string() == report.node);
    if let Some(candidate) = known {
        report.up_bits_per_second = candidate.up.map(|up| up.bits_per_second);
        report.down_bits_per_second = candidate.down.map(|down| down.bits_per_second);
        let both = candidate.up.iter().chain(&candidate.down);
        report.confidence = both.map(|seen| seen.confidence).min_by(f64::total_cmp);
    }
}

fn station(server: &ServerInfo) -> StationReport {
    StationReport {
        node: server.node.to_string(),
        name: server.label.clone(),
        role: match server.kind {
            ServerKind::Home => "home".into(),
            ServerKind::Station => "station".into(),
        },
        addresses: server.addresses.iter().map(ToString::to_string).collect(),
        ..StationReport::default()
    }
}

/// Whoever announces itself on the local network, of these volumes or not.
pub(super) fn nearby(server: &Shared, out: &mut dyn Sink) -> Result<StationsReport, ControlError> {
    let heard = wayfs_node::nearby::listen(NEARBY_WAIT, || out.is_gone());
    let heard = heard.map_err(|error| {
        ControlError::new(ErrorKind::Failed, error.to_string(), "Is there a network that carries multicast?")
    })?;
    let known = stations(server);
    let stations = heard.into_iter().map(|(node, addresses)| {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        match known.iter().find(|station| station.node == node.to_string()).cloned() {
            Some(station) => StationReport { addresses, ..station },
            None => StationReport {
                node: node.to_string(),
                name: node.short(),
                role: "unknown".into(),
                addresses,
                note: if node == server.endpoint.id() { "this server".into() } else { String::new() },
                ..StationReport::default()
            },
        }
    });
    Ok(StationsReport { stations: stations.collect() })
}

/// Stations (and homes) of all volumes here.
pub(super) fn stations(server: &Shared) -> Vec<StationReport> {
    let mut list: Vec<StationReport> = Vec::new();
    for served in server.all() {
        let sessions = served.volume.sessions();
        for info in served.volume.directory().list() {
            let mut report = station(&info);
            let session = sessions.iter().find(|session| {
                session.node == info.node && !matches!(session.neighbour, Neighbour::ChildClient { .. })
            });
            report.connected = session.is_some();
            report.rtt_ms = session.map(|session| session.rtt.as_secs_f64() * 1e3);
            report.seen_unix_ms = served.heard.seen(info.node).map(unix_ms);
            if let Some(link) = &served.link {
                add_throughput(&mut report, &link.status());
            }
            report.note = if info.node == server.endpoint.id() {
                format!("this server, of volume {}", served.name())
            } else {
                format!("of volume {}", served.name())
            };
            list.push(report);
        }
    }
    list
}
