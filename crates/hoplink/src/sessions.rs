//! The sessions of a peer: the one in use, the one before it, and one that the peer has not used yet.

use crate::seal::{Kind, Seal, SealError};
use std::collections::VecDeque;
use std::ops::Range;

/// A new one pushes the oldest out.
const SESSIONS_MAX: usize = 3;

/// Sessions, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    list: VecDeque<(u32, Seal)>,
    /// What this end calls the session that it sends with.
    sending: u32,
}

/// When a new session is used for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// At once: the other end is known to have it.
    AtOnce,
    /// When the other end has used it.
    WhenUsed,
}

impl Sessions {
    /// Adds one; gives the name of one that it pushed out.
    pub(crate) fn add(&mut self, name: u32, seal: Seal, when: Use) -> Option<u32> {
        if when == Use::AtOnce || self.list.is_empty() {
            self.sending = name;
        }
        self.list.push_back((name, seal));
        let gone = if self.list.len() > SESSIONS_MAX { self.list.pop_front() } else { None };
        if gone.as_ref().is_some_and(|(gone, _)| *gone == self.sending) {
            self.sending = name;
        }
        gone.map(|(name, _)| name)
    }

    /// Forgets all; gives their names.
    pub(crate) fn clear(&mut self) -> Vec<u32> {
        self.list.drain(..).map(|(name, _)| name).collect()
    }

    /// The one to send with.
    pub(crate) fn sending(&mut self) -> Option<&mut Seal> {
        let sending = self.sending;
        self.list.iter_mut().find(|(name, _)| *name == sending).map(|(_, seal)| seal)
    }

    /// Opens a datagram of the session with that name. Also tells whether it is the latest of the latest session.
    pub(crate) fn open(&mut self, name: u32, datagram: &mut [u8]) -> Result<(Kind, Range<usize>, bool), SealError> {
        let place = self.list.iter().position(|(known, _)| *known == name).ok_or(SealError::Foreign)?;
        let (_, seal) = &mut self.list[place];
        let (kind, body) = seal.open(datagram)?;
        let latest = seal.is_latest(datagram);
        let sending = self.list.iter().position(|(known, _)| *known == self.sending).unwrap_or(0);
        if place > sending {
            self.sending = name;
        }
        Ok((kind, body, latest && place >= sending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Keys, Role};
    use wayfs_net::ChannelBinding;

    fn seal(role: Role, handshake: u8, theirs: u32) -> Seal {
        Seal::new(Keys::new(role, &ChannelBinding::from_bytes([handshake; 32])), theirs)
    }

    #[test]
    fn a_new_session_is_sent_with_when_the_other_end_has_used_it() {
        let mut base = Sessions::default();
        let mut mobile = [seal(Role::Mobile, 1, 10), seal(Role::Mobile, 2, 20)];
        assert_eq!(base.add(10, seal(Role::Base, 1, 1), Use::WhenUsed), None);
        assert_eq!(base.add(20, seal(Role::Base, 2, 2), Use::WhenUsed), None);
        assert_eq!(base.sending, 10);
        let mut datagrams = [Vec::new(), Vec::new()];
        for (seal, datagram) in mobile.iter_mut().zip(&mut datagrams) {
            seal.seal(Kind::Ping, datagram, |_| {});
        }
        let [mut old, mut new] = datagrams;
        assert!(base.open(20, &mut new).unwrap().2);
        assert_eq!(base.sending, 20);
        // One of before is still read, but is not the latest.
        assert!(!base.open(10, &mut old).unwrap().2);
        assert_eq!(base.sending, 20);
        assert_eq!(base.open(30, &mut old), Err(SealError::Foreign));
        assert_eq!(base.add(30, seal(Role::Base, 3, 3), Use::WhenUsed), None);
        assert_eq!(base.add(40, seal(Role::Base, 4, 4), Use::WhenUsed), Some(10));
        assert!(base.sending().is_some());
        assert_eq!(base.clear(), [20, 30, 40]);
    }
}
