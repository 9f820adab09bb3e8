//! Where a machine may be reached: an address and a port, or a name and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Longest host name, in bytes (RFC 1035).
pub(crate) const HOST_LEN_MAX: usize = 253;
/// Longest label of a host name, in bytes.
const LABEL_LEN_MAX: usize = 63;

/// Where a machine may be reached: `192.0.2.7:7475`, `[2001:db8::7]:7475` or `home.example.org:7475`.
///
/// A name is resolved at every dial, so that a machine whose address changes is found under the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Form);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Ip(SocketAddr),
    Name { host: String, port: u16 },
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no port behind it.
    #[error("an address has a port behind it, as in home.example.org:7475 or 192.0.2.7:7475")]
    NoPort,
    /// The port is not between 1 and 65535.
    #[error("a port is a number between 1 and 65535")]
    Port,
    /// Neither an IP address nor a host name.
    #[error("the part before the port is neither an IP address (IPv6 in brackets) nor a host name")]
    Host,
}

impl Address {
    /// A name and a port, checked.
    ///
    /// # Errors
    /// [`AddressError::Host`] or [`AddressError::Port`].
    pub fn named(host: &str, port: u16) -> Result<Self, AddressError> {
        if port == 0 {
            return Err(AddressError::Port);
        }
        if !is_host(host) {
            return Err(AddressError::Host);
        }
        Ok(Self(Form::Name { host: host.to_ascii_lowercase(), port }))
    }

    /// The socket address; `None` if a name must be resolved first.
    pub fn ip(&self) -> Option<SocketAddr> {
        match &self.0 {
            Form::Ip(address) => Some(*address),
            Form::Name { .. } => None,
        }
    }

    /// The host name; `None` for an IP address.
    pub fn host(&self) -> Option<&str> {
        match &self.0 {
            Form::Ip(_) => None,
            Form::Name { host, .. } => Some(host),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        match &self.0 {
            Form::Ip(address) => address.port(),
            Form::Name { port, .. } => *port,
        }
    }

    /// Whether it can be dialled: it has a port and stands for one machine.
    pub fn is_dialable(&self) -> bool {
        self.port() != 0 && self.ip().is_none_or(|address| is_of_one_machine(address.ip()))
    }
}

/// Whether an IP address can be that of a single machine.
pub(crate) fn is_of_one_machine(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast()
}

/// Letters, digits, hyphens and underscores in labels between dots; not only digits at the end, which would be a
/// mistyped IP address.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_LEN_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last_is_number = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    (1..=HOST_LEN_MAX).contains(&host.len()) && host.split('.').all(is_label) && !last_is_number
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(Form::Ip(address))
    }
}

impl FromStr for Address {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
        let port = port.parse().map_err(|_| AddressError::Port)?;
        Self::named(host, port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Ip(address) => write!(f, "{address}"),
            Form::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> serde::Deserialize<'a> for Address {
    fn deserialize<D: serde::Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'a, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_survive_their_text() {
        for text in ["192.0.2.7:7475", "[2001:db8::7]:1", "home.example.org:7475", "localhost:9", "a_b-c.lan:65535"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("Home.Example.ORG:7".parse::<Address>().unwrap().to_string(), "home.example.org:7");
        let ip: SocketAddr = "192.0.2.7:7475".parse().unwrap();
        assert_eq!(Address::from(ip).ip(), Some(ip));
    }

    #[test]
    fn what_is_neither_is_refused_with_what_is_wrong() {
        for (text, error) in [
            ("home.example.org", AddressError::NoPort),
            ("home.example.org:0", AddressError::Port),
            ("home.example.org:70000", AddressError::Port),
            ("home.example.org:", AddressError::Port),
            (":7475", AddressError::Host),
            ("192.0.2.300:7475", AddressError::Host),
            ("2001:db8::7:7475", AddressError::Host),
            ("a..b:1", AddressError::Host),
            ("-a.b:1", AddressError::Host),
            ("a b:1", AddressError::Host),
            ("\u{e9}.org:1", AddressError::Host),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
        assert!(format!("{}:1", "a.".repeat(150)).parse::<Address>().is_err());
    }
}
