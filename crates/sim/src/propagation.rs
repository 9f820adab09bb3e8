//! A station's propagation policy, driven: [`wayfs_policy::Propagator`] decides, told by the engine as it is live.

use crate::host::Host;
use crate::network::End;
use crate::violation::Violation;
use crate::world::{Event, World};
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_policy::{Input, Mechanism, Output, Propagator, Setting};
use wayfs_proto::{Input as EngineInput, Output as EngineOutput, Recall};
use wayfs_transfer::Want;
use wayfs_types::{RecordId, Time};

/// Versions looked at together when a station is opened: few, so that there are pages.
const RECALLED_AT_ONCE: usize = 4;
/// The longest time within which a policy sends that the checker waits for.
const BOUND_MAX: Duration = Duration::from_secs(60);
/// What is due goes in this time, if nothing breaks: where seeds let contents go one at a time over slow lines that lose, it takes long.
const SENT_IN: Duration = Duration::from_secs(240);

/// By when a policy has sent whatever is current, however it decides; `None`: perhaps never.
fn bound(setting: Setting) -> Option<Duration> {
    let own = match setting.mechanism {
        Mechanism::WriteThrough => Some(Duration::ZERO),
        Mechanism::Periodic(period) => Some(period),
        Mechanism::OnDemand
        | Mechanism::InvalidationHeuristic(_)
        | Mechanism::StationLoad(..)
        | Mechanism::TimeToNextUse(_)
        | Mechanism::AdaptiveDelay => None,
    };
    own.into_iter().chain(setting.within).min()
}

impl World {
    /// The engine of a host did something.
    pub(crate) fn tell_policy(&mut self, index: usize, output: &EngineOutput) {
        let host = &self.hosts[index];
        let replica = host.replica.as_ref().filter(|_| host.propagator.is_some());
        let news = replica.and_then(|replica| replica.propagation_news(output).ok().flatten());
        if let Some(news) = news {
            self.hosts[index].tell_policy(self.now, news);
        }
    }

    /// A parent was given a piece of a version, because somebody reads.
    pub(crate) fn tell_policy_of_reader(&mut self, index: usize, asker: End, Want { file, version, .. }: Want) {
        if asker == End::Parent {
            self.hosts[index].back_fetched.insert(version);
            self.hosts[index].tell_policy(self.now, Input::BackFetched { file, version });
            self.drain(index);
        }
    }

    /// What a policy sends next, for its engine.
    pub(crate) fn poll_policy(&mut self, index: usize) -> Option<EngineInput> {
        let Output::Propagate { file, version } = self.hosts[index].propagator.as_mut()?.poll_output()?;
        self.note(|| format!("  host {index} sends {version} of {file} ahead"));
        Some(EngineInput::Propagate { file, version })
    }

    /// The clock of a policy.
    pub(crate) fn wake_policy(&mut self, index: usize) {
        self.hosts[index].policy_wakes_at = None;
        self.hosts[index].tell_policy(self.now, Input::Tick);
        self.drain(index);
    }

    pub(crate) fn arm_policy(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host.propagator.as_ref().and_then(Propagator::poll_timeout) else { return };
        if host.policy_wakes_at.is_none_or(|at| at > due) {
            host.policy_wakes_at = Some(due);
            let life = host.life;
            self.at(due, Event::PolicyWake { host: index, life });
        }
    }

    /// Whatever its policy decides, a station sends what is current within the bound that is set, or at its periods.
    pub(crate) fn check_sent_ahead(&mut self) {
        let stations = self.running().into_iter().filter_map(|index| Some((index, bound(self.hosts[index].policy?)?)));
        let bounded: Vec<(usize, Duration)> = stations.filter(|(_, bound)| *bound <= BOUND_MAX).collect();
        let Some(longest) = bounded.iter().map(|(_, bound)| *bound).max() else { return };
        let due = self.now + longest;
        self.run_until(due);
        let end = self.now + SENT_IN;
        for (index, bound) in bounded {
            while self.violations.is_empty() && self.now < end && !self.kept_back(index).is_empty() {
                let next = self.now + Duration::from_millis(500);
                self.run_until(next);
            }
            let kept = self.kept_back(index);
            if self.violations.is_empty() && !kept.is_empty() {
                let line =
                    format!("host {index}, {:?}, bound {bound:?}: {}", self.hosts[index].policy, kept.join("; "));
                self.violations
                    .push(Violation::new("a station sends contents ahead within the bound of its policy", line));
            }
        }
    }

    /// What files of a station show and it answers for. What it has by chance, of a version that another keeps for the home (it passed
    /// the chunks on), it is not asked for.
    fn kept_back(&self, index: usize) -> Vec<String> {
        let host = &self.hosts[index];
        let Some(replica) = host.replica.as_ref() else { return Vec::new() };
        let in_use = replica.contents_in_use(None, 0).map(|page| page.contents).unwrap_or_default();
        let owed: BTreeSet<RecordId> = in_use.iter().filter(|kept| kept.owed).filter_map(|kept| kept.version).collect();
        let (mut recall, mut kept) = (Some(Recall::default()), Vec::new());
        let is_bounded = host.policy.and_then(|policy| policy.within).is_some_and(|within| within <= BOUND_MAX);
        while recall.is_some() {
            let page = replica.recall_unsent(&mut recall, host.wall(self.now), usize::MAX / 2).unwrap_or_default();
            for input in page {
                if let Input::Written { file, version, .. } = input
                    && owed.contains(&version)
                    && self.has_version_whole(index, version)
                    && (is_bounded || !host.back_fetched.contains(&version))
                {
                    kept.push(format!("{version} of {file}"));
                }
            }
        }
        kept
    }

    fn has_version_whole(&self, index: usize, version: RecordId) -> bool {
        let update = self.history.updates.get(&self.history.held_by(version));
        let root = update.and_then(|update| update.content.root());
        root.is_some_and(|root| self.is_whole_durable(index, root))
    }
}

impl Host {
    /// Its policy as it is opened, with what waits there.
    pub(crate) fn open_policy(&self, now: Time) -> Option<Propagator> {
        let replica = self.replica.as_ref()?;
        let mut machine = Propagator::new(self.policy?);
        let mut recall = Some(Recall::default());
        while recall.is_some() {
            let page = replica.recall_unsent(&mut recall, self.wall(now), RECALLED_AT_ONCE);
            page.unwrap_or_default().into_iter().for_each(|written| machine.handle(now, written));
        }
        Some(machine)
    }

    fn tell_policy(&mut self, now: Time, news: Input) {
        if let Some(machine) = self.propagator.as_mut() {
            machine.handle(now, news);
        }
    }
}
