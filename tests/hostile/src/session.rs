//! A session of messages, from either side.

use crate::contents::{Ask, Reply, encode};
use crate::peer::{PATIENCE, Peer};
use bytes::Bytes;
use std::time::Duration;
use wayfs_net::{Connection, FrameReceiver, FrameSender, Priority};
use wayfs_types::{CommitNumber, Life, VolumeId};
use wayfs_wire::{Down, Message, Up, decode, encode as encode_message};

/// The frames of a connection.
pub(crate) type Frames = (FrameSender, FrameReceiver);

/// A session that a peer has with a server.
pub struct Session<'a> {
    peer: &'a Peer,
    connection: Connection,
    frames: Frames,
}

impl<'a> Session<'a> {
    pub(crate) fn new(peer: &'a Peer, connection: Connection, frames: Frames) -> Self {
        Self { peer, connection, frames }
    }

    /// Says something.
    pub fn say(&self, up: Up) {
        // A session that is over is found out by who asks about it.
        let _ = self.peer.run(self.frames.0.send(encode_message(&Message::Up(up))));
    }

    /// What is said next; `None`: nothing within this time, or the session is over.
    pub fn hear(&mut self, within: Duration) -> Option<Down> {
        let frames = &mut self.frames.1;
        let heard = self.peer.run(async { tokio::time::timeout(within, frames.recv()).await });
        let bytes: Bytes = heard.ok()?.ok()??;
        match decode(&bytes).expect("a server says what can be read") {
            Message::Down(down) => Some(down),
            Message::Up(up) => panic!("a parent said {up:?}"),
        }
    }

    /// Begins as a fresh child of a life of its own; answers the newest change of the parent.
    pub fn hello(&mut self, volume: VolumeId) -> CommitNumber {
        self.say(Up::Hello { volume, resume: None, origins: Vec::new(), safe: 0, life: Life(7) });
        loop {
            if let Down::Welcome { current, .. } = self.hear(PATIENCE).expect("a welcome") {
                return current;
            }
        }
    }

    /// Waits for something that is said; `None`: the session ended before.
    pub fn hear_until<T>(&mut self, mut wanted: impl FnMut(&Down) -> Option<T>) -> Option<T> {
        loop {
            let down = self.hear(PATIENCE)?;
            if let Some(found) = wanted(&down) {
                return Some(found);
            }
        }
    }

    /// Waits until the other side ended the session; answers why, as it said.
    pub fn ended(self) -> String {
        let closed = self.peer.run(self.connection.closed());
        format!("{closed:?}")
    }

    /// Asks about contents.
    pub fn ask(&self, ask: &Ask, body: Bytes) -> Reply {
        self.peer.run(async {
            let (mut sender, call) =
                self.connection.upload(encode(ask), body.len() as u64, Priority::Background).await.unwrap();
            // What is refused by its header is answered before the body is through: the answer counts.
            if sender.send(body).await.is_ok() {
                let _ = sender.finish().await;
            }
            let (header, _) = call.answer().await.unwrap();
            Reply::decode(&header)
        })
    }
}
