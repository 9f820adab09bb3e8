//! Whether two stores mean the same by the same number: forks, copies that were put back, numbers that were lost, stations
//! that take over what their home forgot.

pub(crate) mod comparing;
pub(crate) mod fork;
pub(crate) mod found_lost;
pub(crate) mod gaps;
pub(crate) mod identity;
pub(crate) mod lives;
pub(crate) mod renamed;
pub(crate) mod restored;
pub(crate) mod restoring;
pub(crate) mod rewriting;
pub(crate) mod succession;
pub(crate) mod taken_back;
pub(crate) mod takeover;
pub(crate) mod written_over;
