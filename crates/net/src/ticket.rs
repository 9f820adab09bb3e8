//! A ticket: all that a machine needs to join a volume, in one line of text.
//!
//! `wayfs1-` and base32 (lower case, no padding) of:
//!
//! ```text
//! version u8 = 1 | length u16 of all bytes, check included | role u8 | volume id 16
//! | home key 32 | secret 32 | expiry u64 (seconds of Unix time)
//! | name len u8, name | address count u8, { family u8 = 4 or 6, address 4 or 16, port u16 }
//! | or, for a name: { 0 u8, name len u8, name, port u16 }
//! | check 4: the first bytes of BLAKE3 over all before
//! ```
//!
//! Numbers are little-endian. Upper case and white space (a line that a mailer broke) are
//! forgiven. Whoever has the text can join once, so it is to be treated as a password.

use crate::address::{Address, HOST_LEN_MAX};
use crate::ticket_secret::{SECRET_LEN, TicketSecret};
use bytes::{Buf, BufMut};
use data_encoding::BASE32_NOPAD;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use wayfs_types::{NodeId, VolumeId};
use zeroize::Zeroizing;

/// Most addresses in a ticket.
pub const ADDRESSES_MAX: usize = 8;
/// Longest volume name in a ticket, in bytes.
pub const NAME_LEN_MAX: usize = 255;

const PREFIX: &str = "wayfs1-";
const VERSION: u8 = 1;
const CHECK_LEN: usize = 4;
/// Version, length, role, volume, home, secret, expiry, name length, address count.
const LEN_MIN: usize = 1 + 2 + 1 + 16 + 32 + SECRET_LEN + 8 + 1 + 1 + CHECK_LEN;
const LEN_MAX: usize = LEN_MIN + NAME_LEN_MAX + ADDRESSES_MAX * (4 + HOST_LEN_MAX);
/// Longest text looked at; base32 makes 8 characters of 5 bytes.
const TEXT_LEN_MAX: usize = 4 * LEN_MAX;

/// What a ticket lets its holder become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TicketRole {
    /// A client: mounts the volume.
    Client,
    /// A station: serves the volume to clients.
    Station,
    /// A client that may only read.
    Reader,
}

/// An invitation to one volume, good for one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    role: TicketRole,
    volume: VolumeId,
    volume_name: String,
    home: NodeId,
    addresses: Vec<Address>,
    secret: TicketSecret,
    expiry_unix_s: u64,
}

/// What a ticket is made of.
#[derive(Debug, Clone)]
pub struct TicketParts {
    /// What its holder becomes.
    pub role: TicketRole,
    /// The volume.
    pub volume: VolumeId,
    /// The volume's name, for people: up to [`NAME_LEN_MAX`] bytes without control characters.
    pub volume_name: String,
    /// The home server's key.
    pub home: NodeId,
    /// Where the home may be reached, the best first: one to [`ADDRESSES_MAX`].
    pub addresses: Vec<Address>,
    /// What proves that the ticket is held.
    pub secret: TicketSecret,
    /// When it ends, in seconds of Unix time.
    pub expiry_unix_s: u64,
}

/// Why a text is no ticket, or parts make none. Says which part is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Not a ticket at all.
    #[error("this is no ticket: it must begin with `{PREFIX}`")]
    Prefix,
    /// A character that no ticket contains.
    #[error("the ticket contains `{}`, which no ticket does: copy it again", .0.escape_default())]
    Character(char),
    /// Something is missing at the end.
    #[error("the ticket is cut short: copy all of it")]
    Truncated,
    /// There is more than a ticket.
    #[error("something follows after the ticket's end: copy the ticket alone")]
    Excess,
    /// A character was changed on the way.
    #[error("the ticket was mistyped or damaged: its check does not fit")]
    Check,
    /// Made by a newer version.
    #[error("the ticket has version {0}, this program knows up to {VERSION}: install a newer one")]
    Version(u32),
    /// A role that this version does not know.
    #[error("the ticket has an unknown role ({0})")]
    Role(u8),
    /// The volume's name is empty, too long, not UTF-8, or holds control characters.
    #[error("the ticket's volume name is not usable")]
    Name,
    /// An address is not one, or there are none or too many.
    #[error("the ticket's addresses are wrong: {0}")]
    Address(&'static str),
}

impl Ticket {
    /// Makes a ticket.
    ///
    /// # Errors
    /// [`TicketError::Name`] or [`TicketError::Address`] if a part breaks its limits.
    pub fn new(parts: TicketParts) -> Result<Self, TicketError> {
        let name = &parts.volume_name;
        if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
            return Err(TicketError::Name);
        }
        check_addresses(&parts.addresses)?;
        Ok(Self {
            role: parts.role,
            volume: parts.volume,
            volume_name: parts.volume_name,
            home: parts.home,
            addresses: parts.addresses,
            secret: parts.secret,
            expiry_unix_s: parts.expiry_unix_s,
        })
    }

    /// What its holder becomes.
    pub fn role(&self) -> TicketRole {
        self.role
    }

    /// The volume.
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    /// The volume's name, for people.
    pub fn volume_name(&self) -> &str {
        &self.volume_name
    }

    /// The home server's key.
    pub fn home(&self) -> NodeId {
        self.home
    }

    /// Where the home may be reached, the best first; never empty.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What proves that the ticket is held.
    pub fn secret(&self) -> &TicketSecret {
        &self.secret
    }

    /// When it ends, in seconds of Unix time.
    pub fn expiry_unix_s(&self) -> u64 {
        self.expiry_unix_s
    }

    /// Whether it has ended at a time in seconds of Unix time. Only the home's clock decides;
    /// a client asks this for a better message.
    pub fn expired_at(&self, now_unix_s: u64) -> bool {
        now_unix_s >= self.expiry_unix_s
    }

    /// The line of text that is given to people. A password: not to be logged.
    pub fn to_text(&self) -> Zeroizing<String> {
        let bytes = self.encode();
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + bytes.len() * 2));
        text.push_str(PREFIX);
        BASE32_NOPAD.encode_append(&bytes, &mut text);
        text.make_ascii_lowercase();
        text
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(LEN_MAX));
        bytes.put_u8(VERSION);
        bytes.put_u16_le(0);
        bytes.put_u8(match self.role {
            TicketRole::Client => 1,
            TicketRole::Station => 2,
            TicketRole::Reader => 3,
        });
        bytes.put_slice(self.volume.as_bytes());
        bytes.put_slice(self.home.as_bytes());
        bytes.put_slice(self.secret.expose());
        bytes.put_u64_le(self.expiry_unix_s);
        bytes.put_u8(u8::try_from(self.volume_name.len()).expect("checked when it was made"));
        bytes.put_slice(self.volume_name.as_bytes());
        bytes.put_u8(u8::try_from(self.addresses.len()).expect("checked when it was made"));
        for address in &self.addresses {
            match address.ip().map(|address| address.ip()) {
                Some(IpAddr::V4(ip)) => {
                    bytes.put_u8(4);
                    bytes.put_slice(&ip.octets());
                }
                Some(IpAddr::V6(ip)) => {
                    bytes.put_u8(6);
                    bytes.put_slice(&ip.octets());
                }
                None => {
                    let host = address.host().unwrap_or_default();
                    bytes.put_u8(0);
                    bytes.put_u8(u8::try_from(host.len()).expect("a name is at most 253 bytes"));
                    bytes.put_slice(host.as_bytes());
                }
            }
            bytes.put_u16_le(address.port());
        }
        let len = u16::try_from(bytes.len() + CHECK_LEN).expect("a ticket is under 3 KiB");
        bytes[1..3].copy_from_slice(&len.to_le_bytes());
        let check = check(&bytes);
        bytes.put_slice(&check);
        bytes
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > TEXT_LEN_MAX {
            return Err(TicketError::Excess);
        }
        let mut clean = Zeroizing::new(String::with_capacity(text.len()));
        clean.extend(text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()));
        let code = match clean.strip_prefix(PREFIX) {
            Some(code) => code,
            None => return Err(other_prefix(&clean)),
        };
        if let Some(wrong) = code.chars().find(|c| !matches!(c, 'a'..='z' | '2'..='7')) {
            return Err(TicketError::Character(wrong));
        }
        let bytes = decode(code)?;
        parse(&bytes)
    }
}

/// A later program may write another number behind the same word.
fn other_prefix(text: &str) -> TicketError {
    text.strip_prefix("wayfs")
        .and_then(|rest| rest.split_once('-'))
        .and_then(|(number, _)| number.parse().ok())
        .map_or(TicketError::Prefix, TicketError::Version)
}

/// Turns letters to bytes. A cut may leave a number of letters that no bytes give: what
/// can be read is read, so that the length tells of the cut.
fn decode(code: &str) -> Result<Zeroizing<Vec<u8>>, TicketError> {
    let upper = Zeroizing::new(code.to_ascii_uppercase());
    match BASE32_NOPAD.decode(upper.as_bytes()) {
        Ok(bytes) => Ok(Zeroizing::new(bytes)),
        Err(error) => match error.kind {
            data_encoding::DecodeKind::Length => Err(TicketError::Truncated),
            data_encoding::DecodeKind::Symbol
            | data_encoding::DecodeKind::Trailing
            | data_encoding::DecodeKind::Padding => Err(TicketError::Check),
        },
    }
}

fn parse(bytes: &[u8]) -> Result<Ticket, TicketError> {
    match bytes.first() {
        None => return Err(TicketError::Truncated),
        Some(&VERSION) => {}
        Some(&0) => return Err(TicketError::Check),
        Some(&newer) => return Err(TicketError::Version(u32::from(newer))),
    }
    let Some(len) = bytes.get(1..3).map(|mut len| usize::from(len.get_u16_le())) else {
        return Err(TicketError::Truncated);
    };
    if !(LEN_MIN..=LEN_MAX).contains(&len) {
        return Err(TicketError::Check);
    }
    match bytes.len().cmp(&len) {
        std::cmp::Ordering::Less => return Err(TicketError::Truncated),
        std::cmp::Ordering::Greater => return Err(TicketError::Excess),
        std::cmp::Ordering::Equal => {}
    }
    let (body, given) = bytes.split_at(len - CHECK_LEN);
    if check(body) != given {
        return Err(TicketError::Check);
    }
    parse_body(&body[3..])
}

/// Reads what a right check vouches for; the lengths within are checked all the same, since
/// anyone can make a check.
fn parse_body(mut body: &[u8]) -> Result<Ticket, TicketError> {
    let role = match body.get_u8() {
        1 => TicketRole::Client,
        2 => TicketRole::Station,
        3 => TicketRole::Reader,
        other => return Err(TicketError::Role(other)),
    };
    let volume = VolumeId::from_bytes(take(&mut body));
    let home = NodeId::from_bytes(take(&mut body));
    let secret = TicketSecret::from_bytes(take(&mut body));
    let expiry_unix_s = body.get_u64_le();
    let name_len = usize::from(body.get_u8());
    if body.len() < name_len {
        return Err(TicketError::Name);
    }
    let (name, mut body) = body.split_at(name_len);
    let volume_name = std::str::from_utf8(name).map_err(|_| TicketError::Name)?.to_owned();
    let addresses = parse_addresses(&mut body)?;
    let parts = TicketParts { role, volume, volume_name, home, addresses, secret, expiry_unix_s };
    Ticket::new(parts)
}

fn parse_addresses(body: &mut &[u8]) -> Result<Vec<Address>, TicketError> {
    let count = body.try_get_u8().map_err(|_| TicketError::Address("they are missing"))?;
    if usize::from(count) > ADDRESSES_MAX {
        return Err(TicketError::Address("there are too many"));
    }
    let mut addresses = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let cut = TicketError::Address("one is cut short");
        let family = body.try_get_u8().map_err(|_| cut.clone())?;
        if family == 0 {
            addresses.push(parse_named(body)?);
            continue;
        }
        let ip = match family {
            4 if body.len() >= 4 => IpAddr::V4(Ipv4Addr::from(take::<4>(body))),
            6 if body.len() >= 16 => IpAddr::V6(Ipv6Addr::from(take::<16>(body))),
            4 | 6 => return Err(cut),
            _ => return Err(TicketError::Address("one is neither IPv4 nor IPv6 nor a name")),
        };
        let port = body.try_get_u16_le().map_err(|_| cut)?;
        addresses.push(SocketAddr::new(ip, port).into());
    }
    if body.is_empty() { Ok(addresses) } else { Err(TicketError::Address("something follows them")) }
}

fn parse_named(body: &mut &[u8]) -> Result<Address, TicketError> {
    let cut = TicketError::Address("one is cut short");
    let len = usize::from(body.try_get_u8().map_err(|_| cut.clone())?);
    if body.len() < len {
        return Err(cut);
    }
    let (host, rest) = body.split_at(len);
    *body = rest;
    let port = body.try_get_u16_le().map_err(|_| cut)?;
    let host = std::str::from_utf8(host).map_err(|_| TicketError::Address("a name is not one"))?;
    Address::named(host, port).map_err(|_| TicketError::Address("a name is not one"))
}

fn check_addresses(addresses: &[Address]) -> Result<(), TicketError> {
    if addresses.is_empty() {
        return Err(TicketError::Address("there are none"));
    }
    if addresses.len() > ADDRESSES_MAX {
        return Err(TicketError::Address("there are too many"));
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err(TicketError::Address("a port is zero"));
    }
    if addresses.iter().any(|address| !address.is_dialable()) {
        return Err(TicketError::Address("one is of no single machine"));
    }
    Ok(())
}

fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let digest = blake3::derive_key("wayfs ticket check 1", bytes);
    [digest[0], digest[1], digest[2], digest[3]]
}

/// The caller has made sure that the bytes are there.
fn take<const N: usize>(body: &mut &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    body.copy_to_slice(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests;
