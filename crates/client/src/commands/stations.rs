//! The way to the parent.

use super::{LOOK_PERIOD, Mode, MountCommands, PATIENCE};
use std::time::{Duration, Instant};
use wayfs_admin::stations;
use wayfs_control::report::{StationReport, StationsReport, WhyReport};
use wayfs_control::{ControlError, Done, ErrorKind, Sink};
use wayfs_net::Address;
use wayfs_node::{CandidateStatus, LinkState, ServerInfo};

/// How long announcements are waited for.
const NEARBY_WAIT: Duration = Duration::from_secs(3);

/// The way out if the station that the user chose does not answer.
pub(super) const USE_ANOTHER: &str = "`wayfs station use auto` lets another station be used.";

impl MountCommands {
    pub(super) fn go_offline(&self) -> Done {
        self.set_mode(Mode::Offline);
        self.parts.link.go_offline();
        Done::Nothing
    }

    pub(super) fn go_auto(&self) -> Done {
        self.set_mode(Mode::Auto);
        self.parts.link.go_online();
        Done::Nothing
    }

    pub(super) fn go_online(&self, out: &mut dyn Sink) -> Result<Done, ControlError> {
        self.set_mode(Mode::Online);
        self.parts.link.go_online();
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.parts.link.status();
            match &status.state {
                LinkState::Connected => return Ok(Done::Nothing),
                LinkState::Refused { reason } => {
                    return Err(ControlError::new(
                        ErrorKind::Refused,
                        reason.clone(),
                        "Ask the administrator for a new ticket.",
                    ));
                }
                LinkState::Searching { last_error } if Instant::now() >= end || out.is_gone() => {
                    let cause = status.held_up_by_choice();
                    return Err(ControlError::new(
                        ErrorKind::Unreachable,
                        cause.unwrap_or_else(|| format!("no station answers: {last_error}")),
                        "Check the network; it goes on trying.",
                    ));
                }
                LinkState::Searching { .. } | LinkState::Offline => {}
            }
            if Instant::now() >= end + PATIENCE {
                return Err(ControlError::new(ErrorKind::Unreachable, "the link does not leave offline", "Try again."));
            }
            std::thread::sleep(LOOK_PERIOD / 10);
        }
    }

    pub(super) fn stations(&self) -> StationsReport {
        let status = self.parts.link.status();
        let mut stations: Vec<StationReport> =
            status.candidates.iter().map(|c| stations::candidate(c, &status)).collect();
        stations.sort_by(|one, other| {
            let rank = |station: &StationReport| (!station.chosen, station.rtt_ms.unwrap_or(f64::MAX));
            rank(one).partial_cmp(&rank(other)).unwrap_or(std::cmp::Ordering::Equal)
        });
        StationsReport { stations }
    }

    /// Whoever announces itself on the local network, of this volume or not.
    pub(super) fn nearby(&self, out: &mut dyn Sink) -> Result<StationsReport, ControlError> {
        let heard = wayfs_node::nearby::listen(NEARBY_WAIT, || out.is_gone());
        let heard = heard.map_err(|error| {
            ControlError::new(ErrorKind::Failed, error.to_string(), "Is there a network that carries multicast?")
        })?;
        let known = self.stations().stations;
        let stations = heard.into_iter().map(|(node, addresses)| {
            let station = known.iter().find(|station| station.node == node.to_string()).cloned();
            let addresses = addresses.iter().map(ToString::to_string).collect();
            match station {
                Some(station) => StationReport { addresses, ..station },
                None => stations::unknown(node, addresses, "no server of this volume, as far as is known"),
            }
        });
        Ok(StationsReport { stations: stations.collect() })
    }

    pub(super) fn use_station(&self, wanted: Option<&str>) -> Result<Done, ControlError> {
        let Some(wanted) = wanted else {
            self.parts.link.pin(None);
            self.parts.link.measure_now();
            return Ok(Done::Nothing);
        };
        let status = self.parts.link.status();
        let matches = |candidate: &&CandidateStatus| candidate.server.is_called(wanted);
        let found: Vec<&CandidateStatus> = status.candidates.iter().filter(matches).collect();
        match found.as_slice() {
            [one] => {
                self.parts.link.pin(Some(one.server.node));
                Ok(Done::Nothing)
            }
            [] => Err(ControlError::new(
                ErrorKind::NotFound,
                format!("no station `{wanted}` is known"),
                "`wayfs station list` shows those that are.",
            )),
            _ => Err(ControlError::new(
                ErrorKind::Usage,
                format!("`{wanted}` means {} stations", found.len()),
                "Use the node id or the address from `wayfs station list`.",
            )),
        }
    }

    /// Sets by hand where a server is reached.
    pub(super) fn set_address(&self, wanted: &str, texts: &[String]) -> Result<StationsReport, ControlError> {
        let parsed: Result<Vec<Address>, _> = texts.iter().map(|text| text.parse::<Address>()).collect();
        let addresses =
            parsed.ok().filter(|addresses| addresses.iter().all(Address::is_dialable)).ok_or_else(|| {
                let next_step = "Give HOST:PORT, as in home.example.org:7475, or `auto`.";
                ControlError::new(ErrorKind::Usage, format!("`{}` is no address", texts.join(" ")), next_step)
            })?;
        let directory = self.volume().directory();
        let called: Vec<ServerInfo> = directory.list().into_iter().filter(|server| server.is_called(wanted)).collect();
        let [server] = &called[..] else {
            return Err(ControlError::new(
                if called.is_empty() { ErrorKind::NotFound } else { ErrorKind::Usage },
                format!("`{wanted}` means {} servers", called.len()),
                "`wayfs station list` shows them; name one by its node id.",
            ));
        };
        directory.set_by_hand(server.node, addresses);
        self.parts.link.look_again();
        let mut report = self.stations();
        report.stations.retain(|station| station.node == server.node.to_string());
        Ok(report)
    }

    pub(super) fn why(&self) -> WhyReport {
        let status = self.parts.link.status();
        let mut reasons = Vec::new();
        match &status.state {
            LinkState::Connected => reasons.push(format!("It is {}.", status.why)),
            LinkState::Offline => reasons.push("You said to stay offline.".to_owned()),
            LinkState::Searching { last_error } => reasons.push(format!("No station answers: {last_error}.")),
            LinkState::Refused { reason } => reasons.push(format!("Refused: {reason}.")),
        }
        if let (LinkState::Connected, Some(next)) = (&status.state, status.measures_in) {
            reasons.push(format!(
                "It looks for a nearer one again in {} s; `wayfs station use auto` looks now.",
                next.as_secs()
            ));
        }
        if let Some(cause) = status.held_up_by_choice() {
            reasons.push(format!("{cause}."));
        } else if status.pinned.is_some() {
            reasons.push("You chose it; `wayfs station use auto` lets the nearest be chosen again.".to_owned());
        }
        let chosen = (status.state == LinkState::Connected).then(|| status.parent.as_ref().map(|p| p.label.clone()));
        WhyReport { chosen: chosen.flatten(), reasons, candidates: self.stations().stations }
    }
}
