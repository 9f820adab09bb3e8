//! How much is done for a row.

/// Which form of a run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// To see within a minute or two that rows work; their figures say little.
    Small,
    /// What figures are told of. Default.
    Whole,
}

impl Size {
    /// By its name, as the command line has it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::Small),
            "whole" => Some(Self::Whole),
            _ => None,
        }
    }

    /// The first in the small form, else the second.
    pub(crate) const fn choose<T: Copy>(self, small: T, whole: T) -> T {
        match self {
            Self::Small => small,
            Self::Whole => whole,
        }
    }
}
