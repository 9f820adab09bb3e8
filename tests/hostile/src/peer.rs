//! A machine with a key of its own.

use crate::session::{Frames, Session};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::runtime::Runtime;
use wayfs_net::{Address, CloseCode, Connection, Endpoint, NetConfig, NodeIdentity, Ticket};
use wayfs_types::{Chain, NodeId, OriginId, Record, Seal, VolumeId};
use wayfs_wire::Sealed;

/// Version of the greeting.
const VERSION: u16 = 3;
/// Longest wait for anything that the other side says at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A machine that says what it likes.
pub struct Peer {
    runtime: Runtime,
    pub(crate) endpoint: Endpoint,
    key: NodeIdentity,
}

/// What a peer is admitted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    /// It writes.
    Client,
    /// It only reads.
    Reader,
    /// It serves.
    Station,
}

impl As {
    const fn joins(self) -> &'static str {
        match self {
            Self::Client => "Client",
            Self::Reader => "Reader",
            Self::Station => "Station",
        }
    }

    const fn attaches(self) -> &'static str {
        match self {
            Self::Client | Self::Reader => "Client",
            Self::Station => "Station",
        }
    }
}

/// What a peer has that was admitted.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its ticket: where the home is.
    pub ticket: Ticket,
    /// Its origin.
    pub origin: OriginId,
    /// As what.
    pub admitted: As,
}

/// A server's word on where it listens.
#[derive(Serialize)]
struct Place {
    node: NodeId,
    number: u64,
    addresses: Vec<Address>,
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer {
    /// A machine on loopback with a fresh key.
    pub fn new() -> Self {
        Self::at(Ipv4Addr::LOCALHOST)
    }

    /// The same at an address of its own; all that begin with 127 are on loopback.
    pub fn at(address: Ipv4Addr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let key = NodeIdentity::generate().unwrap();
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::bind((address, 0).into(), &key, NetConfig::default()).unwrap()
        };
        Self { runtime, endpoint, key }
    }

    /// Its key.
    pub fn node(&self) -> NodeId {
        self.key.id()
    }

    /// Its seal under a record of its own that is the first it ever wrote.
    pub fn sealed(&self, volume: VolumeId, record: &Record) -> Sealed {
        let chain = wayfs_tree::chained(Chain::START, record);
        let mut said = b"wayfs records 1\0".to_vec();
        said.extend(volume.as_bytes());
        said.extend(record.id.origin().raw().to_be_bytes());
        said.extend(record.id.sequence().to_be_bytes());
        said.extend(chain.as_bytes());
        Sealed { record: record.id, seal: Seal::from_bytes(self.key.sign(&said)) }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.endpoint.local_addr().unwrap().to_string()
    }

    /// Runs something to its end, which comes in time.
    pub fn run<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, what).await }).expect("an end in time")
    }

    pub(crate) fn spawn(&self, what: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(what);
    }

    /// A connection to the home of a ticket, on which nothing was said.
    pub fn dial(&self, ticket: &Ticket) -> Connection {
        self.run(self.endpoint.connect(ticket.addresses(), ticket.home())).unwrap()
    }

    /// Says a greeting; answers what is said to it, if anything.
    pub(crate) fn greet(&self, connection: &Connection, greeting: &Value) -> (Frames, Option<Value>) {
        let (sender, mut receiver) = connection.control().unwrap();
        let reply = self.run(async {
            sender.send(Bytes::from(greeting.to_string())).await.ok()?;
            receiver.recv().await.ok().flatten()
        });
        ((sender, receiver), reply.map(|bytes| serde_json::from_slice(&bytes).expect("an answer in JSON")))
    }

    /// Becomes a member.
    pub fn join(&self, ticket: &str, admitted: As, label: &str) -> Member {
        let ticket: Ticket = ticket.parse().unwrap();
        let connection = self.dial(&ticket);
        let proof = ticket.secret().proof(&connection.channel_binding(), self.node());
        let greeting = json!({ "Join": {
            "version": VERSION, "volume": ticket.volume(), "ticket": ticket.secret().id().as_bytes(), "proof": proof,
            "role": admitted.joins(), "label": label, "former": null,
        }});
        let (_, reply) = self.greet(&connection, &greeting);
        let reply = reply.expect("an answer");
        let origin = serde_json::from_value(reply["Granted"]["origin"].clone());
        let origin = origin.unwrap_or_else(|error| panic!("{error}: {reply}"));
        connection.close(CloseCode::GOODBYE, "");
        Member { ticket, origin, admitted }
    }

    /// Begins a session with the home as a member; what a server that refuses says is the error.
    ///
    /// # Errors
    /// The refusal, or why the connection was closed without a word.
    pub fn attach(&self, member: &Member) -> Result<Session<'_>, Value> {
        let connection = self.dial(&member.ticket);
        let greeting = json!({ "Attach": {
            "version": VERSION, "volume": member.ticket.volume(), "origin": member.origin,
            "role": member.admitted.attaches(), "have": { "list": 0, "places": [] },
        }});
        let (frames, reply) = self.greet(&connection, &greeting);
        match reply {
            Some(reply) if reply.get("Welcome").is_some() => Ok(Session::new(self, connection, frames)),
            Some(reply) => Err(reply),
            None => Err(json!(format!("{:?}", self.run(connection.closed())))),
        }
    }

    /// Tells the home where this member listens, signed by its own key.
    pub fn tell_place(&self, member: &Member) {
        let connection = self.dial(&member.ticket);
        let have = json!({ "list": 0, "places": [] });
        let greeting = json!({ "Look": { "version": VERSION, "volume": member.ticket.volume(), "have": have } });
        let ((sender, _), reply) = self.greet(&connection, &greeting);
        assert!(reply.as_ref().is_some_and(|reply| reply.get("Servers").is_some()), "{reply:?}");
        let tell = json!({ "news": { "list": null, "places": [self.place(1)] } });
        self.run(async {
            sender.send(Bytes::from(tell.to_string())).await.unwrap();
            connection.closed().await;
        });
    }

    /// Where this machine listens, signed.
    pub fn place(&self, number: u64) -> Value {
        let addresses = vec![self.endpoint.local_addr().unwrap().into()];
        let place = Place { node: self.node(), number, addresses };
        self.signed("wayfs server place 1", &serde_json::to_string(&place).unwrap())
    }

    /// A list of servers that names a machine as the volume's home and this one as its station, signed by this machine.
    pub fn list_with_home(&self, volume: VolumeId, home: NodeId) -> Value {
        let entry = |node: NodeId, role: &str, name: &str| {
            json!({ "node": node, "role": role, "name": name, "addresses": [], "since_unix_ms": 1,
                "revoked_unix_ms": null })
        };
        let entries = [entry(home, "home", "home"), entry(self.node(), "station", "evil@station")];
        // The order of the fields is that of the format.
        let text = format!(
            r#"{{"volume":{},"number":{},"home":{},"entries":{}}}"#,
            json!(volume),
            u64::MAX / 2,
            json!(home),
            json!(entries)
        );
        self.signed("wayfs server list 1", &text)
    }

    fn signed(&self, context: &str, text: &str) -> Value {
        let message = [context.as_bytes(), b"\0", text.as_bytes()].concat();
        let bytes = self.key.sign(&message).to_vec();
        json!({ "text": text, "by": self.node(), "signature": bytes })
    }
}
