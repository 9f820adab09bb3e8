//! The vocabulary between a child and its parent.
//!
//! ```text
//!   child                                   parent
//!     Hello ──────────────────────────────▶  who I am, where I left off, whose records I carry
//!     ◀────────────────────────── Welcome    what you have of them, and whether I can resume
//!     Watch* Start ───────────────────────▶  what I look at; begin (and Refresh, for echoes that a broken session ate)
//!     ◀────────────────────────── Images*    what changed after my cursor; then whatever changes
//!     Received ───────────────────────────▶  (an answered callback)
//!     Records ────────────────────────────▶
//!     ◀──────────────────────────── Marks    how far each origin's records have come
//!     Ask ────────────────────────────────▶
//!     ◀─────────────────────────── Answer
//! ```

use crate::down::Down;
use crate::up::Up;
use serde::{Deserialize, Serialize};

/// Anything that travels in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a child to its parent.
    Up(Up),
    /// From a parent to its child.
    Down(Down),
}
