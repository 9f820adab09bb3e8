//! What files, names and locks would be on one machine.

use super::linear::Model;

/// A file that is written whole and read whole.
#[derive(Debug)]
pub struct Register;

/// What is asked of a [`Register`]. Its answer is the value read, or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterInput {
    /// What is in it? Nothing: 0.
    Read,
    /// Puts a value in.
    Write(u64),
}

impl Model for Register {
    type State = u64;
    type Input = RegisterInput;
    type Output = u64;

    fn new() -> u64 {
        0
    }

    fn step(state: &u64, input: &RegisterInput, output: Option<&u64>) -> Option<u64> {
        match input {
            RegisterInput::Write(value) => Some(*value),
            RegisterInput::Read => output.is_none_or(|seen| seen == state).then_some(*state),
        }
    }
}

/// A number in a file that programs add one to, under a lock.
#[derive(Debug)]
pub struct Counter;

/// What is asked of a [`Counter`]. Its answer is the number afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterInput {
    /// One more.
    Add,
    /// What is it?
    Read,
}

impl Model for Counter {
    type State = u64;
    type Input = CounterInput;
    type Output = u64;

    fn new() -> u64 {
        0
    }

    fn step(state: &u64, input: &CounterInput, output: Option<&u64>) -> Option<u64> {
        let after = state + u64::from(*input == CounterInput::Add);
        output.is_none_or(|told| *told == after).then_some(after)
    }
}

/// A file that programs append lines to.
#[derive(Debug)]
pub struct Log;

/// What is asked of a [`Log`]. Its answer is the lines that were read; nothing, of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogInput {
    /// One more line.
    Append(u64),
    /// What is in it?
    Read,
}

impl Model for Log {
    type State = Vec<u64>;
    type Input = LogInput;
    type Output = Vec<u64>;

    fn new() -> Vec<u64> {
        Vec::new()
    }

    fn step(state: &Vec<u64>, input: &LogInput, output: Option<&Vec<u64>>) -> Option<Vec<u64>> {
        match input {
            LogInput::Append(line) => Some(state.iter().copied().chain([*line]).collect()),
            LogInput::Read => output.is_none_or(|seen| seen == state).then(|| state.clone()),
        }
    }
}

/// A name that is made by `O_EXCL` (or `mkdir`, `link`) and removed.
#[derive(Debug)]
pub struct Maker;

/// What is asked of a [`Maker`]. Its answer is whether it was done, or was as it is already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakerInput {
    /// Makes it; `false`: it was there.
    Make,
    /// Removes it; `false`: it was not there.
    Remove,
}

impl Model for Maker {
    type State = bool;
    type Input = MakerInput;
    type Output = bool;

    fn new() -> bool {
        false
    }

    fn step(is_there: &bool, input: &MakerInput, output: Option<&bool>) -> Option<bool> {
        let (is_done, after) = match input {
            MakerInput::Make => (!is_there, true),
            MakerInput::Remove => (*is_there, false),
        };
        output.is_none_or(|told| *told == is_done).then_some(after)
    }
}

/// A file that is renamed from place to place, and is at one of them.
#[derive(Debug)]
pub struct Token;

/// What is asked of a [`Token`]: a move between two places. Its answer is whether it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenInput {
    /// Where it is taken from.
    pub from: usize,
    /// Where it goes. The same: it is looked for there.
    pub to: usize,
}

impl Model for Token {
    type State = usize;
    type Input = TokenInput;
    type Output = bool;

    fn new() -> usize {
        0
    }

    fn step(place: &usize, input: &TokenInput, output: Option<&bool>) -> Option<usize> {
        let is_there = *place == input.from;
        let after = if is_there { input.to } else { *place };
        output.is_none_or(|told| *told == is_there).then_some(after)
    }
}

/// A lock that excludes all others.
#[derive(Debug)]
pub struct Lock;

/// What is asked of a [`Lock`], each by a client. Its answer says that it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockInput {
    /// Waits until it is free and takes it.
    Take(usize),
    /// Lets go of it.
    Leave(usize),
    /// The client died: it has it no more.
    Die(usize),
}

impl Model for Lock {
    type State = Option<usize>;
    type Input = LockInput;
    type Output = ();

    fn new() -> Option<usize> {
        None
    }

    fn step(holder: &Option<usize>, input: &LockInput, _: Option<&()>) -> Option<Option<usize>> {
        match input {
            LockInput::Take(client) => holder.is_none().then_some(Some(*client)),
            LockInput::Leave(client) => (*holder == Some(*client)).then_some(None),
            LockInput::Die(client) => Some(holder.filter(|holder| holder != client)),
        }
    }
}
