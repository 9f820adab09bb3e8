//! The experiments, a file each.

mod andrew;
mod back_fetch;
mod chosen;
mod links;
mod nfs;
mod noise;
mod on_air;
mod reconcile;
mod replay;
mod safe;
mod scenarios;
mod sensitivity;
mod sharing;
mod space;
mod tcp;
mod throughput;
mod visibility;

pub(crate) use replay::read_all as read_trace;

use crate::Experiment;

/// All of them, in the order in which `wayfs lab run all` runs them.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &andrew::Andrew,
    &back_fetch::BackFetch,
    &links::Links,
    &nfs::Nfs::BlockSize,
    &nfs::Nfs::Backoff,
    &nfs::Nfs::Link,
    &nfs::Nfs::Both,
    &nfs::Nfs::TwoClients,
    &nfs::Nfs::Overflow,
    &reconcile::Reconcile,
    &replay::Replay,
    &safe::Safe,
    &sensitivity::Sensitivity,
    &sharing::Sharing,
    &space::Space,
    &tcp::Validate,
    &tcp::Tables(tcp::Which::Lan),
    &tcp::Tables(tcp::Which::Wan),
    &tcp::Tables(tcp::Which::Bursts),
    &tcp::Tables(tcp::Which::ErrorRates),
    &tcp::Beyond::Asymmetric,
    &tcp::Beyond::Multihop,
    &tcp::Beyond::Web,
    &tcp::Recorded,
    &throughput::Throughput,
    &visibility::Visibility,
    &on_air::OnAir,
];

/// The experiment of a name.
pub fn experiment(name: &str) -> Option<&'static dyn Experiment> {
    EXPERIMENTS.iter().copied().find(|experiment| experiment.name() == name)
}
