//! Numbers for Prometheus.

use crate::fs::FileSystem;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use wayfs_node::Volume;
use wayfs_node::metrics::{MetricsError, MetricsServer, Text, render};

/// Serves the numbers of a mount on loopback.
pub(crate) fn serve(
    address: SocketAddr,
    volume: &Arc<Volume>,
    fs: &Arc<FileSystem>,
    name: String,
) -> Result<MetricsServer, MetricsError> {
    let (volume, fs) = (Arc::downgrade(volume), Arc::downgrade(fs));
    MetricsServer::start(address, move || text(&volume, &fs, &name))
}

fn text(volume: &Weak<Volume>, fs: &Weak<FileSystem>, name: &str) -> String {
    match (volume.upgrade(), fs.upgrade()) {
        (Some(volume), Some(fs)) => of_mount(&volume, &fs, name),
        _ => String::new(),
    }
}

/// The numbers of a mount as text.
pub(crate) fn of_mount(volume: &Volume, fs: &FileSystem, name: &str) -> String {
    let mut text = Text::default();
    render(&mut text, volume, name);
    let label = [("volume", name)];
    let dirty = fs.files().dirty();
    let bytes: u64 = dirty.iter().map(|file| file.len).sum();
    let oldest = dirty.first().map_or(0.0, |file| file.age.as_secs_f64());
    text.gauge("wayfs_open_dirty_bytes", "Bytes written to open files and in no record yet.", &label, bytes as f64);
    text.gauge("wayfs_open_dirty_oldest_seconds", "Age of the oldest of them.", &label, oldest);
    text.gauge("wayfs_open_handles", "Handles that programs have open.", &label, fs.open_handles() as f64);
    text.gauge("wayfs_body_bytes", "Bytes of files kept whole for passthrough.", &label, fs.files().idle_len() as f64);
    text.counter(
        "wayfs_operations_unanswered",
        "Operations that ended without an answer, and were refused for that: too much was waiting, or a bug.",
        &label,
        fs.unanswered(),
    );
    let illegal = crate::files::illegal_count();
    text.counter(
        "wayfs_open_illegal_steps",
        "Steps of open files that their table does not allow: a bug.",
        &label,
        illegal,
    );
    text.finish()
}
