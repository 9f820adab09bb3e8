//! Hunts for planted bugs: a plan in which each of them can matter, and a seed that is run with it and without it.

use crate::plan::{Disaster, Plan};
use crate::planted::Bug;
use crate::run::run_planned;
use crate::violation::Violation;
use crate::world::Verbosity;

impl Bug {
    /// A plan in which the bug can matter.
    pub fn plan(self, seed: u64) -> Plan {
        let does: &[Disaster] = match self {
            Self::DutyDroppedAtSafe | Self::DutyNotTold => &[Disaster::StationGone],
            Self::OldCopyAsNew => &[Disaster::HomeBack],
            Self::ChunksSyncedFirst => &[Disaster::Torn],
            Self::FenceIgnored => &[Disaster::Fence],
            _ => &[],
        };
        let plan = Plan::with(seed, &Disaster::ON, does);
        match self {
            Self::RightsNotHeard => Plan { close_to_open: true, ..plan },
            Self::KernelNotTold => Plan { kernel_names: true, ..plan },
            Self::ExclusiveIgnored => Plan { exclusive: true, ..plan.with_makers_only() },
            Self::DutyNotTold => plan.with_long_duties(),
            // A content and its record must come while a group commit is under way, and power be cut then.
            Self::ChunksSyncedFirst => Plan {
                big: 0.8,
                think: plan.think / 4,
                fault_every: plan.fault_every.map(|every| every / 4),
                clients: plan.clients.max(6),
                ..plan
            },
            _ => plan,
        }
    }

    /// The broken promise by which a seed finds the bug. `None`: it does not, or breaks without it, too.
    pub fn found_by(self, seed: u64) -> Option<Violation> {
        let violation = run_planned(self.plan(seed), Some(self), Verbosity::Quiet).violations.into_iter().next()?;
        run_planned(self.plan(seed), None, Verbosity::Quiet).violations.is_empty().then_some(violation)
    }
}
