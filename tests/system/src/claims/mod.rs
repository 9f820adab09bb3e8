//! The checker of claims: a volume of real processes works, says how safe its files are, and loses disks.
//!
//! A **piece** is one content that a program wrote; its bytes say which one it is. A **claim** is what a daemon said of a
//! piece (`info`, `status`, `queue`, `sync`, attributes, a successful `fsync`), as the disks that have the piece whole if the
//! claim is true ([`diary`]). Then a disk is lost for ever, put back to an older copy, damaged or filled ([`disaster`]), and
//! whoever is left must show every piece that a disk which is left has by what was claimed ([`verdict`]): that is SEMANTICS.md's
//! table of what survives which loss. [`amounts`] counts where a daemon said how much lacks; [`hearsay`] reads its events; [`numbers`] holds the commands of one daemon against each other.
//!
//! All choices follow from a seed. Time does not: the same seed meets another moment in every run.

mod amounts;
mod diary;
mod disaster;
mod disk;
mod hearsay;
mod loop_disk;
mod numbers;
mod piece;
mod report;
mod run;
mod server_numbers;
mod statement;
mod verdict;
mod workload;
mod world;

pub use disaster::Kind;
pub use run::{Failure, Plan, Round, run};
