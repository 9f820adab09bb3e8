//! What the two ends say on the handshake's connection, once each, before the keys count (`docs/format/link.md`).

use crate::config::Addresses;
use serde::{Deserialize, Serialize};

/// Longest greeting, in bytes.
const LEN_MAX: usize = 1024;
/// Longest name of a scheme.
const SCHEME_LEN_MAX: usize = 32;
/// Version of the greetings and datagrams.
pub(crate) const VERSION: u8 = 1;

/// The mobile's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u8,
    /// Names the ticket's secret, and proves it on this connection.
    pub(crate) ticket: [u8; 16],
    pub(crate) proof: [u8; 32],
    /// Other than last time: the mobile's numbers begin anew.
    pub(crate) life: u64,
    /// What the mobile calls the session.
    pub(crate) session: u32,
    /// The scheme that it wants; empty: the base's.
    pub(crate) scheme: String,
    pub(crate) window: u32,
    pub(crate) mtu: u16,
}

/// The base's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The mobile is in.
    Welcome(Welcome),
    /// It is not, and why.
    Refused(String),
}

/// What a mobile that is in must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) life: u64,
    pub(crate) session: u32,
    pub(crate) scheme: String,
    pub(crate) window: u32,
    pub(crate) mtu: u16,
    /// Where datagrams go, at the address of the handshake.
    pub(crate) port: u16,
    /// The mobile's addresses, and the base's.
    pub(crate) yours: Addresses,
    pub(crate) mine: Addresses,
}

/// As bytes of a frame.
pub(crate) fn encode(greeting: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(greeting).expect("a greeting of numbers and short texts can be written")
}

/// Out of a frame. `None`: it is none, or says what no end says.
pub(crate) fn decode_hello(bytes: &[u8]) -> Option<Hello> {
    let hello: Hello = decode(bytes)?;
    (hello.scheme.len() <= SCHEME_LEN_MAX).then_some(hello)
}

/// Out of a frame. `None`: it is none, or says what no end says.
pub(crate) fn decode_answer(bytes: &[u8]) -> Option<Answer> {
    let answer: Answer = decode(bytes)?;
    let makes_sense = match &answer {
        Answer::Welcome(it) => {
            it.scheme.len() <= SCHEME_LEN_MAX
                && it.window > 0
                && it.port > 0
                && [it.yours, it.mine]
                    .iter()
                    .all(|of| (1..=32).contains(&of.v4_prefix) && (1..=128).contains(&of.v6_prefix))
        }
        Answer::Refused(why) => why.len() <= LEN_MAX,
    };
    makes_sense.then_some(answer)
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    if bytes.len() > LEN_MAX {
        return None;
    }
    let (greeting, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(greeting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pool;

    #[test]
    fn greetings_survive_their_bytes_and_damage_is_refused() {
        let (ticket, proof, scheme) = ([1; 16], [2; 32], "ours".to_owned());
        let hello = Hello { version: VERSION, ticket, proof, life: 3, session: 4, scheme, window: 512, mtu: 1360 };
        let bytes = encode(&hello);
        assert_eq!(decode_hello(&bytes), Some(hello.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(decode_hello(&bytes[..cut]), None);
        }
        let long = Hello { scheme: "x".repeat(40), ..hello };
        assert_eq!(decode_hello(&encode(&long)), None);
        let pool = Pool::default();
        let welcome = Welcome {
            life: 1,
            session: 2,
            scheme: "snoop".into(),
            window: 9,
            mtu: 1300,
            port: 77,
            yours: pool.addresses(1),
            mine: pool.addresses(0),
        };
        let answer = Answer::Welcome(welcome.clone());
        assert_eq!(decode_answer(&encode(&answer)), Some(answer));
        assert_eq!(decode_answer(&encode(&Answer::Welcome(Welcome { window: 0, ..welcome }))), None);
        assert_eq!(decode_answer(&[0xff; 2000]), None);
    }
}
