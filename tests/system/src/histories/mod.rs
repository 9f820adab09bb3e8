//! Histories of what programs on several machines did and saw, and whether they can be true.
//!
//! A history is checked key by key (a file, a name, a lock): a system is linearizable if it is so for each. The checker is pure
//! code; who records is `tests/histories.rs` (two stations), `tests/histories_near.rs` (one) and `tests/histories_killed.rs` (one, with
//! kills and spells offline).

mod linear;
mod models;
mod operation;
mod programs;
mod recording;
mod sessions;

pub use linear::{Checked, Model, check};
pub use models::{
    Counter, CounterInput, Lock, LockInput, Log, LogInput, Maker, MakerInput, Register, RegisterInput, Token,
    TokenInput,
};
pub use operation::Operation;
pub use programs::{Care, KEYS, PLACES, Program, Recorded, lines_of, prepare};
pub use recording::{Histories, judge, note, now};
pub use sessions::{Broken, Seen, check_sessions};
