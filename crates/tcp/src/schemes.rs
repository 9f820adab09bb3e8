//! Which recovery belongs to which scheme.

use crate::Scheme;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::eln::Eln;
use crate::newreno::NewReno;
use crate::recovery::{DUPLICATES, Recovery};
use crate::reno::Reno;
use crate::sack::Sack;
use crate::smart::Smart;

/// The recovery of a scheme.
pub(crate) fn recovery(scheme: Scheme) -> Box<dyn Recovery> {
    match scheme {
        Scheme::Reno => Box::new(Reno::default()),
        Scheme::NewReno => Box::new(NewReno::default()),
        Scheme::Smart => Box::new(Smart::default()),
        Scheme::Sack => Box::new(Sack::default()),
        Scheme::Eln => Box::new(Eln::new(DUPLICATES)),
        Scheme::ElnFirst => Box::new(Eln::new(1)),
        Scheme::Cubic => Box::new(Cubic::default()),
        Scheme::Bbr => Box::new(Bbr::default()),
    }
}
