//! What may happen to the file, and what does by a seed.

#[derive(Debug, Clone)]
pub(super) enum Step {
    Open {
        writes: bool,
        truncates: bool,
        is_passthrough: bool,
        appends: bool,
    },
    Write {
        handle: usize,
        offset: u64,
        len: u64,
        byte: u8,
    },
    Read {
        handle: usize,
        offset: u64,
        len: u64,
    },
    Store {
        handle: usize,
        page: u64,
        byte: u8,
    },
    Unmap,
    WriteBack,
    Truncate {
        size: u64,
        is_through_handle: bool,
    },
    Flush {
        handle: usize,
    },
    Close {
        handle: usize,
    },
    Sync {
        handle: usize,
    },
    Refuse {
        refuses: bool,
    },
    /// What is recorded is in the memory of the daemon alone.
    Hold {
        holds: bool,
    },
    Elsewhere {
        len: u64,
        byte: u8,
        is_appended: bool,
        is_during_commit: bool,
    },
    News,
    Forget,
    Look,
    Settle,
    Observe,
    Wait {
        seconds: u64,
    },
    SendAway,
    MakeRoom,
    Remove,
    Kill,
}

/// Numbers that follow from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Places around those at which the table changes its ways.
    fn place(&mut self) -> u64 {
        match self.below(6) {
            0..=2 => self.below(6000),
            3 | 4 => 128 * 1024 - 2000 + self.below(4000),
            _ => self.below(300_000),
        }
    }

    fn len(&mut self) -> u64 {
        if self.one_in(4) { 1 + self.below(200_000) } else { 1 + self.below(4000) }
    }

    pub(super) fn step(&mut self) -> Step {
        let (handle, byte) = (self.below(8) as usize, self.below(255) as u8);
        match self.below(48) {
            0..=5 => Step::Open {
                writes: self.one_in(2),
                truncates: self.one_in(3),
                is_passthrough: self.one_in(2),
                appends: self.one_in(4),
            },
            6..=13 => Step::Write { handle, offset: self.place(), len: self.len(), byte },
            14..=16 => Step::Read { handle, offset: self.place(), len: self.len() },
            17..=19 => Step::Store { handle, page: self.below(12), byte },
            20 => Step::Unmap,
            21 => Step::WriteBack,
            22 | 23 => Step::Truncate { size: self.place(), is_through_handle: self.one_in(2) },
            24 => Step::Flush { handle },
            25..=27 => Step::Close { handle },
            28 => Step::Sync { handle },
            29 => Step::Refuse { refuses: self.one_in(2) },
            30 | 31 => Step::Elsewhere {
                len: self.place(),
                byte,
                is_appended: self.one_in(2),
                is_during_commit: self.one_in(2),
            },
            32 | 33 => Step::News,
            34 => Step::Forget,
            35 => Step::Look,
            36 | 37 => Step::Observe,
            38 | 39 => Step::Wait { seconds: self.below(8) },
            40 => Step::SendAway,
            41 => Step::MakeRoom,
            42 if self.one_in(3) => Step::Remove,
            42 => Step::Observe,
            46 | 47 => Step::Hold { holds: self.one_in(2) },
            43 => Step::Kill,
            _ => Step::Settle,
        }
    }
}
