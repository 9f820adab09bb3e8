//! A link's ticket: all that a mobile needs to find a base and prove that it may use it, in one line of text.
//!
//! `wayfslink1-` and base32 (lower case, no padding) of: base's key 32 | secret 32 | address count u8, { len u8, text } | check 4, the
//! first bytes of BLAKE3 over all before. Whoever has the text can use the base, so it is a password.

use data_encoding::BASE32_NOPAD;
use std::str::FromStr;
use wayfs_net::{Address, TicketSecret};
use wayfs_types::NodeId;
use zeroize::Zeroizing;

const PREFIX: &str = "wayfslink1-";
const CHECK_LEN: usize = 4;
const ADDRESSES_MAX: usize = 4;
/// Longest text looked at: two keys and four addresses of 259 bytes, as base32.
const TEXT_LEN_MAX: usize = 2048;

/// An invitation to one base, good for any number of mobiles until the base is given a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTicket {
    /// The base's key.
    pub base: NodeId,
    /// What proves that the ticket is held.
    pub secret: TicketSecret,
    /// Where the base answers handshakes, one to four; datagrams go to the next port, if the base does not say another.
    pub addresses: Vec<Address>,
}

/// Why a text is no ticket of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkTicketError {
    /// Not such a ticket.
    #[error("this is no ticket of a link: it must begin with `{PREFIX}`, as `wayfs link base` prints it")]
    Prefix,
    /// It was changed on the way.
    #[error("the ticket was mistyped, cut short or damaged: copy all of it again")]
    Check,
    /// Its addresses are none.
    #[error("the ticket names no address that can be reached: make a new one at the base")]
    Address,
}

impl LinkTicket {
    /// The line of text that is given to people. A password: not to be logged.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(256));
        bytes.extend_from_slice(self.base.as_bytes());
        bytes.extend_from_slice(self.secret.expose());
        let addresses = &self.addresses[..self.addresses.len().min(ADDRESSES_MAX)];
        bytes.push(addresses.len() as u8);
        for address in addresses {
            // A host name has 253 bytes at most, but a name and a port could have 259.
            let text = address.to_string();
            let text = &text.as_bytes()[..text.len().min(255)];
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text);
        }
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        let mut text = Zeroizing::new(PREFIX.to_owned());
        BASE32_NOPAD.encode_append(&bytes, &mut text);
        text.make_ascii_lowercase();
        text
    }
}

impl FromStr for LinkTicket {
    type Err = LinkTicketError;

    fn from_str(text: &str) -> Result<Self, LinkTicketError> {
        let text = text.trim();
        if text.len() > TEXT_LEN_MAX {
            return Err(LinkTicketError::Check);
        }
        let clean = Zeroizing::new(text.split_whitespace().collect::<String>().to_ascii_lowercase());
        let code = clean.strip_prefix(PREFIX).ok_or(LinkTicketError::Prefix)?;
        let upper = Zeroizing::new(code.to_ascii_uppercase());
        let bytes = Zeroizing::new(BASE32_NOPAD.decode(upper.as_bytes()).map_err(|_| LinkTicketError::Check)?);
        let body = bytes.len().checked_sub(CHECK_LEN).map(|len| bytes.split_at(len));
        let Some((body, _)) = body.filter(|(body, given)| check(body) == *given) else {
            return Err(LinkTicketError::Check);
        };
        parse(body).ok_or(LinkTicketError::Address)
    }
}

fn parse(body: &[u8]) -> Option<LinkTicket> {
    let (base, rest) = body.split_first_chunk::<32>()?;
    let (secret, rest) = rest.split_first_chunk::<32>()?;
    let (count, mut rest) = rest.split_first()?;
    let mut addresses = Vec::new();
    for _ in 0..*count {
        let (len, text) = rest.split_first()?;
        let text = std::str::from_utf8(text.get(..usize::from(*len))?).ok()?;
        addresses.push(text.parse::<Address>().ok().filter(Address::is_dialable)?);
        rest = &rest[1 + usize::from(*len)..];
    }
    let whole = rest.is_empty() && (1..=ADDRESSES_MAX).contains(&addresses.len());
    let (base, secret) = (NodeId::from_bytes(*base), TicketSecret::from_bytes(*secret));
    whole.then_some(LinkTicket { base, secret, addresses })
}

fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let digest = blake3::derive_key("wayfs link ticket check 1", bytes);
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> LinkTicket {
        LinkTicket {
            base: NodeId::from_bytes([3; 32]),
            secret: TicketSecret::from_bytes([9; 32]),
            addresses: vec!["192.0.2.7:7475".parse().unwrap(), "base.example.org:9".parse().unwrap()],
        }
    }

    #[test]
    fn a_ticket_survives_its_text_broken_or_shouted() {
        let text = ticket().to_text();
        assert_eq!(text.parse::<LinkTicket>().unwrap(), ticket());
        let (one, two) = text.split_at(50);
        assert_eq!(format!("{one}\n {two}\n").to_uppercase().parse::<LinkTicket>().unwrap(), ticket());
    }

    #[test]
    fn every_change_and_cut_is_refused() {
        let text = ticket().to_text();
        for at in 0..text.len() {
            assert!(text[..at].parse::<LinkTicket>().is_err(), "cut to {at}");
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            assert!(String::from_utf8(changed).unwrap().parse::<LinkTicket>().is_err(), "changed at {at}");
        }
        assert!("x".repeat(5000).parse::<LinkTicket>().is_err());
        let nowhere = LinkTicket { addresses: Vec::new(), ..ticket() };
        assert_eq!(nowhere.to_text().parse::<LinkTicket>(), Err(LinkTicketError::Address));
    }
}
