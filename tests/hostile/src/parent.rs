//! A peer that is a server itself: clients come to it.

use crate::peer::Peer;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use wayfs_net::{CloseCode, Connection};
use wayfs_types::{Chain, CommitNumber, Life, NodeId, OriginId, Seal, WallTime};
use wayfs_wire::{Applied, Down, KeyImage, Message, Stamp, Up, Verdict, decode, encode};

/// What a hostile server does.
#[derive(Debug, Clone)]
pub struct Script {
    /// What it tells of the servers in its welcome.
    pub news: Value,
    /// What it says of the tree, once.
    pub images: Vec<KeyImage>,
    /// It ends each session as soon as that said hello.
    pub ends_at_once: bool,
}

impl Default for Script {
    fn default() -> Self {
        let news = json!({ "list": null, "places": [] });
        Self { news, images: Vec::new(), ends_at_once: false }
    }
}

/// What it saw.
#[derive(Default)]
struct Seen {
    attached: Vec<NodeId>,
    said: Vec<Up>,
    open: Vec<Connection>,
}

/// A server that does what it likes with who comes.
pub struct Parent {
    peer: Peer,
    seen: Arc<Mutex<Seen>>,
}

impl Parent {
    /// From now on the peer serves.
    pub fn serve(peer: Peer, script: Script, origin: OriginId) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (endpoint, noted) = (peer.endpoint.clone(), Arc::clone(&seen));
        peer.spawn(async move {
            while let Some(connection) = endpoint.accept().await {
                tokio::spawn(visit(connection, script.clone(), origin, Arc::clone(&noted)));
            }
        });
        Self { peer, seen }
    }

    /// The machine.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How often a machine attached.
    pub fn attached(&self) -> usize {
        self.seen.lock().unwrap().attached.len()
    }

    /// All that children said.
    pub fn said(&self) -> Vec<Up> {
        self.seen.lock().unwrap().said.clone()
    }

    /// Sessions that are open.
    pub fn open(&self) -> usize {
        let mut seen = self.seen.lock().unwrap();
        seen.open.retain(|connection| connection.close_reason().is_none());
        seen.open.len()
    }
}

async fn visit(connection: Connection, script: Script, origin: OriginId, seen: Arc<Mutex<Seen>>) {
    let Some((sender, mut receiver)) = connection.control() else { return };
    let Ok(Some(greeting)) = receiver.recv().await else { return };
    let Ok(greeting) = serde_json::from_slice::<Value>(&greeting) else { return };
    let Some(attach) = greeting.get("Attach") else {
        // Others look for news: they get none.
        connection.close(CloseCode::GOODBYE, "");
        return;
    };
    let child: OriginId = serde_json::from_value(attach["origin"].clone()).unwrap();
    connection.admit();
    let have = json!({ "list": 0, "places": [] });
    let seen_at = connection.remote_addr();
    let welcome = json!({ "Welcome": { "have": have, "news": script.news, "seen_at": seen_at } });
    if sender.send(Bytes::from(welcome.to_string())).await.is_err() {
        return;
    }
    {
        let mut seen = seen.lock().unwrap();
        seen.attached.push(connection.peer());
        seen.open.push(connection.clone());
    }
    let mut serial = wayfs_wire::FrameSerial::default();
    while let Ok(Some(bytes)) = receiver.recv().await {
        let Ok(Message::Up(up)) = decode(&bytes) else { continue };
        if script.ends_at_once && matches!(up, Up::Hello { .. }) {
            connection.close(CloseCode::GOODBYE, "");
            return;
        }
        for down in answers(&up, &script, (origin, child), &mut serial) {
            if sender.send(encode(&Message::Down(down))).await.is_err() {
                return;
            }
        }
        seen.lock().unwrap().said.push(up);
    }
}

/// What it says of the home's newest change.
pub const FORGED: CommitNumber = CommitNumber(77_777);

/// A parent that holds nothing, and answers so.
fn answers(
    up: &Up,
    script: &Script,
    (own, child): (OriginId, OriginId),
    serial: &mut wayfs_wire::FrameSerial,
) -> Vec<Down> {
    let through = CommitNumber(1);
    match up {
        Up::Hello { .. } => {
            let stamp = Stamp { origin: own, born: WallTime::from_nanos(77), life: Life(5) };
            let applied = vec![Applied { origin: child, through: 0, chain: Chain::START }];
            vec![Down::Welcome { stamp, current: through, resume: false, applied, ends: Vec::new(), went_back: false }]
        }
        Up::Start => {
            *serial = serial.next();
            let images = script.images.clone();
            vec![Down::Images { serial: *serial, through, more: false, images, omitted: Vec::new() }]
        }
        Up::Ask { ask, .. } => {
            *serial = serial.next();
            vec![Down::Answer { serial: *serial, ask: *ask, verdict: Verdict::Unready, through, images: Vec::new() }]
        }
        Up::Catch { ask } => vec![Down::Caught { ask: *ask, reached: false }],
        // It would like to speak for the home.
        Up::Ping { number } => vec![
            Down::HomeWord { position: FORGED, at: WallTime::from_nanos(i64::MAX), seal: Seal::from_bytes([7; 64]) },
            Down::Pong { number: *number, through: Some(through), home_ms: Some(0) },
        ],
        _ => Vec::new(),
    }
}
