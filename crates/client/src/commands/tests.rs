//! Refusals in words.

use super::*;

#[test]
fn every_refusal_says_what_to_do() {
    for error in [FsError::NotFound, FsError::Unreachable, FsError::NoSpace, FsError::ReadOnly, FsError::Io] {
        let said = refused("look up a", error);
        assert!(!said.next_step.is_empty());
        assert!(said.message.starts_with("look up a: "));
    }
    assert_eq!(refused("x", FsError::TimedOut).kind, ErrorKind::Unreachable);
}
