//! One operation in a history.

/// What a client asked, when, and what it was told.
///
/// Times are of one clock, in any unit, and differ where the order is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<I, O> {
    /// Who asked. One client asks one thing after the other.
    pub client: usize,
    /// When it asked.
    pub asked: u64,
    /// What it was told, and when. `None`: it is not known whether it was done, nor when: then or at any later time.
    pub told: Option<(u64, O)>,
    /// What it asked.
    pub input: I,
}

impl<I, O> Operation<I, O> {
    /// One that was answered.
    pub fn answered(client: usize, (asked, told): (u64, u64), input: I, output: O) -> Self {
        Self { client, asked, told: Some((told, output)), input }
    }

    /// One of which nobody knows what became.
    pub fn unknown(client: usize, asked: u64, input: I) -> Self {
        Self { client, asked, told: None, input }
    }

    /// When it is over at the latest.
    pub(super) fn end(&self) -> u64 {
        self.told.as_ref().map_or(u64::MAX, |(at, _)| *at)
    }
}
