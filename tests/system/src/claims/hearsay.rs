//! What `wayfs events` of a mount tells: each version when it is safe, visible, stable.

use super::piece::Number;
use super::world::{Speaker, World};
use crate::{Machine, Process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// After a disaster what a mount tells may be what it had heard just before.
const BLIND: Duration = Duration::from_secs(2);

/// Somebody who reads the events of a mount.
#[derive(Debug)]
pub(super) struct Listener {
    /// Ends with us; it ends by itself when the mount does.
    _process: Process,
    file: PathBuf,
    /// Bytes of the file that were read.
    read: usize,
    /// What happened until then does not count, in milliseconds since 1970.
    deaf_until: u128,
}

impl Listener {
    /// Listens from now on.
    pub(super) fn new(machine: &Machine, mount: &Path) -> Self {
        let file = machine.path("events.jsonl");
        // Lines of a mount before are of another time.
        let _ = std::fs::remove_file(&file);
        let mut command = machine.command();
        command.env("WAYFS_AT", mount).arg("events");
        Self { _process: Process::start(&mut command, &file), file, read: 0, deaf_until: 0 }
    }

    /// What was told since the last look, in whole lines.
    fn news(&mut self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let end = text.rfind('\n').map_or(0, |at| at + 1).max(self.read);
        let fresh = text.get(self.read..end).unwrap_or_default();
        let news = fresh.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_late = |event: &Value| event["unix_ms"].as_u64().is_some_and(|at| u128::from(at) > self.deaf_until);
        let news = news.filter(is_late).collect();
        self.read = end;
        news
    }

    /// What happens now and in the next moments does not count.
    fn deafen(&mut self, span: Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.deaf_until = (now + span).as_millis();
    }
}

/// A client's events become claims. Of one who has not heard of a put-back home they do not count.
pub(super) fn hear(world: &mut World, at: usize) {
    let was_deaf = world.is_deaf(at);
    let hears = world.hears_the_home(Speaker::Client(at));
    let Some(listener) = &mut world.clients[at].listener else { return };
    let news = listener.news();
    if was_deaf || !hears {
        // Lines from before it heard are among them.
        return listener.deafen(Duration::ZERO);
    }
    for event in news {
        let Some(number) = meant(world, at, &event) else { continue };
        let (home, servers) = (world.home.disk, world.servers());
        match event["kind"].as_str() {
            Some("safe") => world.diary.claim_one_of(number, &servers, "event: safe"),
            Some("visible") => world.diary.claim_visible(number, "event: visible"),
            Some("stable") => world.diary.claim_holder(number, home, "event: stable"),
            Some(_) | None => {}
        }
    }
}

/// All clients' do.
pub(super) fn hear_all(world: &mut World) {
    for at in 0..world.clients.len() {
        if world.clients[at].runs() {
            hear(world, at);
        }
    }
}

/// Something befell a disk: what is told in this moment may be of the time before.
pub(super) fn deafen_all(world: &mut World) {
    for client in &mut world.clients {
        if let Some(listener) = &mut client.listener {
            listener.deafen(BLIND);
        }
    }
}

/// The piece that an event is about: it was written there, and no other has its length.
fn meant(world: &World, at: usize, event: &Value) -> Option<Number> {
    let len = usize::try_from(event["size_bytes"].as_u64()?).ok()?;
    let mut found = world.diary.pieces().iter().filter(|(_, piece)| piece.len == len);
    let (number, piece) = found.next()?;
    let is_only = found.next().is_none();
    (is_only && piece.writer == Some(world.clients[at].disk) && !piece.is_failed).then_some(*number)
}
