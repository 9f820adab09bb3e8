//! Two connections joined at the base station (`split`): how many bytes pass, and what an end of one means to the other.
//!
//! The state is hard: what the relay took from one side it owes to the other, so it takes no more than fits its
//! buffer, and the window of the side that sends closes when the other side is slow. A half that ends is ended on the other side
//! when everything before the end has gone over; a reset is a reset at once.

/// One of the two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayEnd {
    /// The fixed host's.
    Wire,
    /// The mobile's.
    Air,
}

impl RelayEnd {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Wire => Self::Air,
            Self::Air => Self::Wire,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Wire => 0,
            Self::Air => 1,
        }
    }
}

/// What the driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayStep {
    /// Read up to so many bytes from that connection, and tell [`Relay::took`].
    Read(RelayEnd, u32),
    /// Write so many bytes to that connection, and tell [`Relay::gave`].
    Write(RelayEnd, u32),
    /// End our half of that connection.
    Close(RelayEnd),
    /// Reset that connection.
    Reset(RelayEnd),
}

/// From one end to the other.
#[derive(Debug, Default, Clone, Copy)]
struct Half {
    held: u32,
    ended: bool,
    closed: bool,
}

/// The relay.
#[derive(Debug)]
pub struct Relay {
    buffer: u32,
    /// By where the bytes come from.
    halves: [Half; 2],
    resets: Vec<RelayEnd>,
    dead: bool,
}

impl Relay {
    /// With so many bytes of buffer for each direction.
    pub const fn new(buffer: u32) -> Self {
        let half = Half { held: 0, ended: false, closed: false };
        Self { buffer, halves: [half; 2], resets: Vec::new(), dead: false }
    }

    /// Bytes taken from an end and not yet given to the other.
    pub const fn held(&self, from: RelayEnd) -> u32 {
        self.halves[from.index()].held
    }

    /// What is to be done, given what can be read from each end; `room` is what each end's connection takes.
    pub fn steps(&mut self, readable: [u32; 2], room: [u32; 2]) -> Vec<RelayStep> {
        let mut steps: Vec<RelayStep> = self.resets.drain(..).map(RelayStep::Reset).collect();
        if self.dead {
            return steps;
        }
        for from in [RelayEnd::Wire, RelayEnd::Air] {
            let to = from.other();
            let half = &mut self.halves[from.index()];
            let write = half.held.min(room[to.index()]);
            if write > 0 {
                steps.push(RelayStep::Write(to, write));
            }
            let read = readable[from.index()].min(self.buffer - half.held);
            if read > 0 {
                steps.push(RelayStep::Read(from, read));
            }
            if half.ended && half.held == 0 && readable[from.index()] == 0 && !half.closed {
                half.closed = true;
                steps.push(RelayStep::Close(to));
            }
        }
        steps
    }

    /// So many bytes were read.
    pub const fn took(&mut self, from: RelayEnd, len: u32) {
        self.halves[from.index()].held += len;
    }

    /// So many bytes were written.
    pub const fn gave(&mut self, to: RelayEnd, len: u32) {
        self.halves[to.other().index()].held -= len;
    }

    /// That end sends nothing more.
    pub const fn ended(&mut self, from: RelayEnd) {
        self.halves[from.index()].ended = true;
    }

    /// That connection is gone: so is the other.
    pub fn reset(&mut self, by: RelayEnd) {
        if !std::mem::replace(&mut self.dead, true) {
            self.halves = [Half::default(); 2];
            self.resets.push(by.other());
        }
    }

    /// Whether both halves have ended, or it was reset.
    pub fn is_done(&self) -> bool {
        self.dead && self.resets.is_empty() || self.halves.iter().all(|half| half.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_ends_after_what_was_before_its_end_and_the_other_goes_on() {
        let mut relay = Relay::new(1000);
        assert_eq!(relay.steps([600, 0], [0, 0]), [RelayStep::Read(RelayEnd::Wire, 600)]);
        relay.took(RelayEnd::Wire, 600);
        relay.ended(RelayEnd::Wire);
        assert_eq!(relay.steps([0, 0], [0, 400]), [RelayStep::Write(RelayEnd::Air, 400)]);
        relay.gave(RelayEnd::Air, 400);
        assert_eq!(relay.steps([0, 0], [0, 400]), [RelayStep::Write(RelayEnd::Air, 200)]);
        relay.gave(RelayEnd::Air, 200);
        assert_eq!(relay.steps([0, 0], [0, 0]), [RelayStep::Close(RelayEnd::Air)]);
        // Only once, and the other way still works.
        assert_eq!(relay.steps([0, 50], [0, 0]), [RelayStep::Read(RelayEnd::Air, 50)]);
        assert!(!relay.is_done());
        relay.took(RelayEnd::Air, 50);
        relay.ended(RelayEnd::Air);
        assert_eq!(relay.steps([0, 0], [99, 0]), [RelayStep::Write(RelayEnd::Wire, 50)]);
        relay.gave(RelayEnd::Wire, 50);
        assert_eq!(relay.steps([0, 0], [99, 0]), [RelayStep::Close(RelayEnd::Wire)]);
        assert!(relay.is_done());
    }

    #[test]
    fn no_more_is_taken_than_fits() {
        let mut relay = Relay::new(1000);
        relay.took(RelayEnd::Wire, 900);
        assert_eq!(relay.steps([5000, 0], [0, 0]), [RelayStep::Read(RelayEnd::Wire, 100)]);
        relay.took(RelayEnd::Wire, 100);
        assert_eq!(relay.steps([5000, 0], [0, 0]), []);
        assert_eq!(relay.held(RelayEnd::Wire), 1000);
    }

    #[test]
    fn a_reset_is_passed_on_once_and_ends_everything() {
        let mut relay = Relay::new(1000);
        relay.took(RelayEnd::Air, 10);
        relay.reset(RelayEnd::Air);
        relay.reset(RelayEnd::Wire);
        assert_eq!(relay.steps([7, 7], [7, 7]), [RelayStep::Reset(RelayEnd::Wire)]);
        assert_eq!(relay.steps([7, 7], [7, 7]), []);
        assert!(relay.is_done());
    }
}
