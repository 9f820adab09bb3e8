//! How it goes.

use crate::served::Served;
use crate::shared::Shared;
use std::sync::PoisonError;
use std::time::Duration;
use wayfs_admin::ledger::MAKE_ROOM;
use wayfs_admin::{elapsed_ms, stations, unix_ms};
use wayfs_control::report::{StationReport, StationsReport, StatusReport, StatusWord, VolumeRole, VolumeStatus};
use wayfs_control::{ControlError, DaemonKind, ErrorKind, Sink};
use wayfs_node::{LinkState, LinkStatus, clock};
use wayfs_proto::{Neighbour, Progress, Replica};

/// How long announcements are waited for.
const NEARBY_WAIT: Duration = Duration::from_secs(3);

pub(super) fn report(server: &Shared) -> StatusReport {
    StatusReport {
        kind: DaemonKind::Server,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_ms: elapsed_ms(server.started),
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
        parent: link.as_ref().and_then(stations::parent),
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
        scrub: wayfs_admin::scrub::status(&served.volume),
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
        return (StatusWord::Full, full, MAKE_ROOM.into());
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

/// Whoever announces itself on the local network, of these volumes or not.
pub(super) fn nearby(server: &Shared, out: &mut dyn Sink) -> Result<StationsReport, ControlError> {
    let heard = wayfs_node::nearby::listen(NEARBY_WAIT, || out.is_gone());
    let heard = heard.map_err(|error| {
        ControlError::new(ErrorKind::Failed, error.to_string(), "Is there a network that carries multicast?")
    })?;
    let known = all_stations(server);
    let stations = heard.into_iter().map(|(node, addresses)| {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        match known.iter().find(|station| station.node == node.to_string()).cloned() {
            Some(station) => StationReport { addresses, ..station },
            None => {
                let note = if node == server.endpoint.id() { "this server" } else { "" };
                stations::unknown(node, addresses, note)
            }
        }
    });
    Ok(StationsReport { stations: stations.collect() })
}

/// Stations (and homes) of all volumes here.
pub(super) fn all_stations(server: &Shared) -> Vec<StationReport> {
    let mut list: Vec<StationReport> = Vec::new();
    for served in server.all() {
        let sessions = served.volume.sessions();
        for info in served.volume.directory().list() {
            let link = served.link.as_ref().map(wayfs_node::ParentLink::status);
            let candidate = link
                .as_ref()
                .and_then(|link| Some((link.candidates.iter().find(|c| c.server.node == info.node)?, link)));
            let mut report =
                candidate.map_or_else(|| stations::named(&info), |(one, link)| stations::candidate(one, link));
            let session = sessions.iter().find(|session| {
                session.node == info.node && !matches!(session.neighbour, Neighbour::ChildClient { .. })
            });
            report.connected = session.is_some();
            report.rtt_ms = session.map(|session| session.rtt.as_secs_f64() * 1e3);
            report.seen_unix_ms = served.heard.seen(info.node).map(unix_ms);
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
