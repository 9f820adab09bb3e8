//! What a part keeps in memory of rows of its own.
//!
//! A part changes both in one step, but the rows are there only when the batch of the input is committed. If that comes to nothing (the disk
//! is full, or the peer breaks the protocol later in the same message), what is kept is taken back with them: else memory and store say
//! different things until the next restart (seed 163005659: a move to another parent that a full disk did not take down).

use std::ops::Deref;

/// A value that says what rows of the store say, or what they will say once this input is committed.
#[derive(Debug, Default)]
pub(crate) struct Mirror<T> {
    value: T,
    /// As it was at the last commit, if this input changed it.
    committed: Option<T>,
}

impl<T: Clone> Mirror<T> {
    /// For a change of it with that of its rows.
    pub(crate) fn edit(&mut self) -> &mut T {
        if self.committed.is_none() {
            self.committed = Some(self.value.clone());
        }
        &mut self.value
    }

    /// For what was read from its rows.
    pub(crate) const fn as_stored(&mut self) -> &mut T {
        &mut self.value
    }

    /// Its rows are in the store.
    pub(crate) fn committed(&mut self) {
        self.committed = None;
    }

    /// Its rows did not come into the store.
    pub(crate) fn abandon(&mut self) {
        if let Some(committed) = self.committed.take() {
            self.value = committed;
        }
    }
}

impl<T> Deref for Mirror<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_to_nothing_is_taken_back_and_what_was_committed_stays() {
        let mut mirror = Mirror::<u8>::default();
        *mirror.as_stored() = 1;
        *mirror.edit() = 2;
        *mirror.edit() = 3;
        mirror.abandon();
        assert_eq!(*mirror, 1);
        *mirror.edit() = 4;
        mirror.committed();
        mirror.abandon();
        assert_eq!(*mirror, 4);
    }
}
