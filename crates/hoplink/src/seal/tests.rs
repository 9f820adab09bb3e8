//! What is taken, and what is not.

use super::*;
use crate::keys::Role;
use wayfs_net::ChannelBinding;

fn pair() -> (Seal, Seal) {
    let binding = ChannelBinding::from_bytes([7; 32]);
    (Seal::new(Keys::new(Role::Base, &binding), 5), Seal::new(Keys::new(Role::Mobile, &binding), 9))
}

fn sealed(from: &mut Seal, body: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    from.seal(Kind::Packet, &mut datagram, |to| to.extend_from_slice(body));
    datagram
}

#[test]
fn what_is_sealed_is_opened_once() {
    let (mut base, mut mobile) = pair();
    let datagram = sealed(&mut base, b"hello");
    assert_eq!(session_of(&datagram), Ok(5));
    assert_eq!(datagram.len(), OVERHEAD + 5);
    let mut copy = datagram.clone();
    let (kind, body) = mobile.open(&mut copy).unwrap();
    assert_eq!((kind, &copy[body]), (Kind::Packet, &b"hello"[..]));
    assert_eq!(mobile.open(&mut datagram.clone()), Err(SealError::Replayed));
    // One's own datagrams are not the other's.
    assert_eq!(base.open(&mut datagram.clone()), Err(SealError::Forged));
}

#[test]
fn every_change_is_seen_and_harms_nothing() {
    let (mut base, mut mobile) = pair();
    let datagram = sealed(&mut base, b"hello");
    for at in 0..datagram.len() {
        let mut changed = datagram.clone();
        changed[at] ^= 0x40;
        // The version and the session are looked at before; a changed counter is another nonce.
        assert!(mobile.open(&mut changed).is_err(), "changed at {at}");
        assert!(mobile.open(&mut datagram[..at].to_vec()).is_err(), "cut to {at}");
    }
    assert!(mobile.open(&mut datagram.clone()).is_ok());
}

#[test]
fn datagrams_may_overtake_each_other_within_the_window() {
    let (mut base, mut mobile) = pair();
    let all: Vec<Vec<u8>> = (0..3 * WINDOW).map(|_| sealed(&mut base, b"x")).collect();
    let mut open = |n: u64| mobile.open(&mut all[n as usize].clone()).map(|_| ());
    assert_eq!(open(10), Ok(()));
    assert_eq!(open(3), Ok(()));
    assert_eq!(open(3), Err(SealError::Replayed));
    assert_eq!(open(WINDOW + 11), Ok(()));
    assert_eq!(open(11), Err(SealError::Replayed), "too old");
    assert_eq!(open(12), Ok(()));
    assert_eq!(open(10), Err(SealError::Replayed));
    assert_eq!(open(3 * WINDOW - 1), Ok(()));
    for n in 2 * WINDOW..3 * WINDOW - 1 {
        assert_eq!(open(n), Ok(()), "{n}");
        assert_eq!(open(n), Err(SealError::Replayed), "{n}");
    }
}

#[test]
fn keys_of_another_handshake_open_nothing() {
    let (mut base, _) = pair();
    let other = ChannelBinding::from_bytes([8; 32]);
    let mut stranger = Seal::new(Keys::new(Role::Mobile, &other), 9);
    assert_eq!(stranger.open(&mut sealed(&mut base, b"x")), Err(SealError::Forged));
}
