//! How urgent a request and its bodies are.

/// Which bodies go first. Frames always go before both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Nobody waits for it: contents sent ahead of need.
    Background,
    /// A program waits for it.
    #[default]
    Foreground,
}

impl Priority {
    /// That of a stream until its body begins.
    pub(crate) const fn of_stream(self) -> i32 {
        match self {
            Self::Background => 0,
            // Room for the turns of bodies below each, see `turns.rs`.
            Self::Foreground => 1 << 30,
        }
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Background => 0,
            Self::Foreground => 1,
        }
    }

    pub(crate) const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Background),
            1 => Some(Self::Foreground),
            _ => None,
        }
    }
}
