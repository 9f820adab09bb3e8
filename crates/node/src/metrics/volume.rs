//! What is counted of a volume, and what is asked when someone looks.

use super::{Counter, Histogram, Stopwatch, Text};
use crate::clock;
use crate::volume::Volume;
use std::time::Duration;
use wayfs_proto::{Amount, Full, Neighbour, Role};

/// Counters of one volume since the start.
#[derive(Debug, Default)]
pub struct VolumeMetrics {
    /// Bytes of contents sent, as they went over the wire.
    pub bytes_up: Counter,
    /// Bytes of contents received, as they came over the wire.
    pub bytes_down: Counter,
    /// The contents sent before packing.
    pub bytes_up_unpacked: Counter,
    /// The contents received after unpacking.
    pub bytes_down_unpacked: Counter,
    /// Chunks received as the difference to others.
    pub differences_in: Counter,
    /// Chunks that were sent again because the receiver had not what they were the difference to.
    pub bases_lost: Counter,
    /// Chunks that were damaged or gone and were fetched anew.
    pub chunks_repaired: Counter,
    /// Chunks that went on to whoever asked while they came.
    pub chunks_passed_on: Counter,
    /// Contents that were owed and whose bytes were found nowhere.
    pub contents_gone: Counter,
    /// Contents taken in whole from children.
    pub pushes_in: Counter,
    /// Chunks that were fetched and did not come.
    pub fetches_failed: Counter,
    /// Chunks that the sweep removed.
    pub chunks_swept: Counter,
    /// Time that someone waited for a chunk from the parent.
    pub fetch_wait: Histogram,
    /// Time that a server waited for a chunk of a child or of its parent while someone else waited for it.
    pub backfetch_wait: Histogram,
    /// Time from a local change to the station's word that it is safe.
    pub safety_ack: Histogram,
    /// Records of children that were applied here.
    pub records_applied: Counter,
    /// Time that the engine worked, under the lock of the volume.
    pub engine_time: Stopwatch,
    /// Time of one sync, contents and records.
    pub sync: Histogram,
}

impl VolumeMetrics {
    /// Somebody waited for a chunk, whether it came or not.
    pub(crate) fn waited(&self, role: Role, took: Duration) {
        match role {
            Role::Client => self.fetch_wait.observe(took),
            Role::Home | Role::Station => self.backfetch_wait.observe(took),
        }
    }
}

/// Writes everything about a volume under its name.
pub fn render(text: &mut Text, volume: &Volume, name: &str) {
    let label = [("volume", name)];
    if let Some(progress) = volume.look(wayfs_proto::Replica::progress) {
        text.gauge(
            "wayfs_records_waiting",
            "Records that the parent has not confirmed.",
            &label,
            progress.records_waiting as f64,
        );
        text.gauge("wayfs_versions_lost", "Versions whose bytes nobody has.", &label, progress.versions_lost as f64);
        text.gauge("wayfs_conflicts_open", "Open conflict reports.", &label, progress.conflicts_open as f64);
        text.gauge(
            "wayfs_connected",
            "Whether the parent is connected.",
            &label,
            f64::from(u8::from(progress.parent_up)),
        );
        text.gauge("wayfs_children", "Children with a live session.", &label, progress.children as f64);
    }
    render_home(text, volume, &label);
    render_ledger(text, volume, &label);
    render_room(text, volume, name);
    render_sessions(text, volume, name);
    let metrics = volume.metrics();
    text.gauge("wayfs_chunk_bytes", "Bytes of contents kept here.", &label, volume.contents().bytes() as f64);
    text.gauge("wayfs_pushes_pending", "Contents on their way to the parent.", &label, volume.uploads.len() as f64);
    text.counter("wayfs_content_sent_bytes_total", "Bytes of contents sent.", &label, metrics.bytes_up.value());
    text.counter(
        "wayfs_content_received_bytes_total",
        "Bytes of contents received.",
        &label,
        metrics.bytes_down.value(),
    );
    render_packing(text, metrics, &label);
    text.counter("wayfs_fetches_failed_total", "Chunks that could not be had.", &label, metrics.fetches_failed.value());
    text.counter(
        "wayfs_chunks_swept_total",
        "Chunks removed because nothing refers to them.",
        &label,
        metrics.chunks_swept.value(),
    );
    render_scrub(text, volume, &label);
    render_work(text, metrics, &label);
    text.histogram(
        "wayfs_safety_ack_seconds",
        "From a change to the word that it is safe.",
        &label,
        &metrics.safety_ack,
    );
    text.histogram("wayfs_fetch_wait_seconds", "Waits for a chunk from the parent.", &label, &metrics.fetch_wait);
    text.histogram(
        "wayfs_backfetch_wait_seconds",
        "Waits of a server for a chunk that it lacked.",
        &label,
        &metrics.backfetch_wait,
    );
}

/// What reading everything found: chunks of the last whole pass and of the present one.
fn render_scrub(text: &mut Text, volume: &Volume, label: &[(&str, &str)]) {
    let at = volume.scrub_position();
    let ended = at.ended.map_or(0.0, |ended| ended.as_nanos() as f64 / 1e9);
    text.gauge(
        "wayfs_scrub_ended_seconds",
        "When all contents had been read last, since 1970; 0: never.",
        label,
        ended,
    );
    text.gauge(
        "wayfs_scrub_read_bytes",
        "Bytes that the present pass over all contents has read.",
        label,
        at.found.bytes as f64,
    );
    let sum = |of: fn(&crate::ScrubCounts) -> u64| (of(&at.found) + of(&at.found_before)) as f64;
    text.gauge(
        "wayfs_scrub_damaged_chunks",
        "Damaged chunks that the last whole pass and the present one found.",
        label,
        sum(|found| found.damaged),
    );
    text.gauge(
        "wayfs_scrub_lost_chunks",
        "Those of them that nobody had who was reached.",
        label,
        sum(|found| found.lost),
    );
}

/// How the home is, by the word of the parent.
fn render_home(text: &mut Text, volume: &Volume, label: &[(&str, &str)]) {
    let now = clock::now();
    let look = volume.look(|replica| (replica.home_heard(), replica.is_home_reachable(now)));
    let Some((Some(heard), reachable)) = look else { return };
    let reachable = f64::from(u8::from(reachable == Some(true)));
    text.gauge("wayfs_home_reachable", "Whether the home was heard of lately, by the parent's word.", label, reachable);
    let ago = now.since(heard).as_secs_f64();
    text.gauge("wayfs_home_seen_seconds", "Time since the home was heard last, by the parent's word.", label, ago);
}

/// What has not come all the way: the numbers that `wayfs status` shows, but for writes to open files.
fn render_ledger(text: &mut Text, volume: &Volume, label: &[(&str, &str)]) {
    let Some(Ok(ledger)) = volume.look(wayfs_proto::Replica::ledger) else { return };
    let age = |amount: Amount| {
        let oldest = amount.oldest.map_or(0, |time| clock::wall().as_nanos().saturating_sub(time.as_nanos()));
        oldest.max(0) as f64 / 1e9
    };
    let not_safe = ledger.not_safe.unwrap_or_default();
    text.gauge("wayfs_dirty_records", "Updates that no server is known to have whole.", label, not_safe.records as f64);
    text.gauge("wayfs_dirty_bytes", "Bytes that no server is known to have.", label, not_safe.bytes as f64);
    text.gauge("wayfs_dirty_oldest_seconds", "Age of the oldest of these updates.", label, age(not_safe));
    let at_station = ledger.at_station.unwrap_or_default();
    text.gauge(
        "wayfs_at_station_bytes",
        "Bytes that a station has and the home has not.",
        label,
        at_station.bytes as f64,
    );
    let lacks = ledger.home_lacks;
    text.gauge("wayfs_home_lacks_records", "Updates that have not come home whole.", label, lacks.records as f64);
    text.gauge("wayfs_home_lacks_bytes", "Bytes that the home lacks.", label, lacks.bytes as f64);
    text.gauge("wayfs_home_lacks_oldest_seconds", "Age of the oldest of these updates.", label, age(lacks));
}

/// The room of this machine and of the servers above.
fn render_room(text: &mut Text, volume: &Volume, name: &str) {
    let own = match volume.role() {
        Role::Client => "cache",
        Role::Station => "station",
        Role::Home => "home",
    };
    let above = volume.rooms_above();
    let places = above.iter().map(|server| {
        let place = match (server.quota, server.is_home) {
            (Some(_), _) => "quota",
            (None, true) => "home",
            (None, false) => "station",
        };
        (place, server.label.as_str(), server.room)
    });
    for (place, host, room) in std::iter::once((own, "", volume.room())).chain(places) {
        let labels = [("volume", name), ("place", place), ("host", host)];
        let is_full = f64::from(u8::from(room.full != Full::No));
        text.gauge("wayfs_full", "Whether a disk from here up to the home has no room for contents.", &labels, is_full);
        text.gauge("wayfs_room_bytes", "Bytes that it has left for contents.", &labels, room.left as f64);
    }
}

/// What packing saved.
fn render_packing(text: &mut Text, metrics: &VolumeMetrics, label: &[(&str, &str)]) {
    text.counter(
        "wayfs_content_sent_unpacked_bytes_total",
        "The contents sent, before packing.",
        label,
        metrics.bytes_up_unpacked.value(),
    );
    text.counter(
        "wayfs_content_received_unpacked_bytes_total",
        "The contents received, after unpacking.",
        label,
        metrics.bytes_down_unpacked.value(),
    );
    text.counter(
        "wayfs_content_differences_total",
        "Chunks received as the difference to others.",
        label,
        metrics.differences_in.value(),
    );
    text.counter(
        "wayfs_content_bases_lost_total",
        "Chunks sent again because a base was lost.",
        label,
        metrics.bases_lost.value(),
    );
    text.counter(
        "wayfs_chunks_repaired_total",
        "Chunks that were damaged or gone and were fetched anew.",
        label,
        metrics.chunks_repaired.value(),
    );
    text.counter(
        "wayfs_chunks_passed_on_total",
        "Chunks that went on to whoever asked while they came.",
        label,
        metrics.chunks_passed_on.value(),
    );
    text.counter(
        "wayfs_contents_gone_total",
        "Contents that this machine owed and whose bytes were found nowhere.",
        label,
        metrics.contents_gone.value(),
    );
}

/// What this machine spends: by it one sees how much more a home could carry.
fn render_work(text: &mut Text, metrics: &VolumeMetrics, label: &[(&str, &str)]) {
    text.counter(
        "wayfs_records_applied_total",
        "Records of children that were applied here.",
        label,
        metrics.records_applied.value(),
    );
    text.time("wayfs_engine_seconds_total", "Time that the engine worked.", label, metrics.engine_time.value());
    text.histogram("wayfs_sync_seconds", "Syncs of contents and records to the disk.", label, &metrics.sync);
}

/// The ways to the neighbours.
fn render_sessions(text: &mut Text, volume: &Volume, name: &str) {
    for session in volume.sessions() {
        let node = session.node.short();
        let side = match session.neighbour {
            Neighbour::Parent => "parent",
            Neighbour::ChildStation { .. } => "station",
            Neighbour::ChildClient { .. } => "client",
        };
        let labels = [("volume", name), ("node", node.as_str()), ("side", side)];
        text.gauge(
            "wayfs_net_rtt_seconds",
            "Smoothed round-trip time of a session.",
            &labels,
            session.rtt.as_secs_f64(),
        );
    }
}
