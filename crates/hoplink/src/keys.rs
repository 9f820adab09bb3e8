//! The keys of a session: from the secret that both ends of the handshake's connection know and nobody else.

use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use wayfs_net::ChannelBinding;
use zeroize::Zeroizing;

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// At the near end.
    Base,
    /// At the far end.
    Mobile,
}

/// One key for each way.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) seal: LessSafeKey,
    pub(crate) open: LessSafeKey,
}

impl Keys {
    /// Of this end of a handshake.
    pub(crate) fn new(role: Role, binding: &ChannelBinding) -> Self {
        let up = key("wayfs link datagrams, mobile to base 1", binding);
        let down = key("wayfs link datagrams, base to mobile 1", binding);
        match role {
            Role::Base => Self { seal: down, open: up },
            Role::Mobile => Self { seal: up, open: down },
        }
    }
}

fn key(context: &str, binding: &ChannelBinding) -> LessSafeKey {
    let bytes = Zeroizing::new(blake3::derive_key(context, binding.as_bytes()));
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*bytes).expect("the key has the length of the cipher's"))
}
