//! Numbers for Prometheus.

use crate::vfs::Vfs;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use wayfs_node::Volume;
use wayfs_node::metrics::{MetricsError, MetricsServer, Text, render};

/// Serves the numbers of a mount on loopback.
pub(crate) fn serve(
    address: SocketAddr,
    volume: &Arc<Volume>,
    vfs: &Arc<Vfs>,
    name: String,
) -> Result<MetricsServer, MetricsError> {
    let (volume, vfs) = (Arc::downgrade(volume), Arc::downgrade(vfs));
    MetricsServer::start(address, move || text(&volume, &vfs, &name))
}

fn text(volume: &Weak<Volume>, vfs: &Weak<Vfs>, name: &str) -> String {
    match (volume.upgrade(), vfs.upgrade()) {
        (Some(volume), Some(vfs)) => of_mount(&volume, &vfs, name),
        _ => String::new(),
    }
}

/// The numbers of a mount as text.
pub(crate) fn of_mount(volume: &Volume, vfs: &Vfs, name: &str) -> String {
    let mut text = Text::default();
    render(&mut text, volume, name);
    let label = [("volume", name)];
    let dirty = vfs.files().dirty();
    let bytes: u64 = dirty.iter().map(|file| file.len).sum();
    let oldest = dirty.first().map_or(0.0, |file| file.age.as_secs_f64());
    text.gauge("wayfs_open_dirty_bytes", "Bytes written to open files and in no record yet.", &label, bytes as f64);
    text.gauge("wayfs_open_dirty_oldest_seconds", "Age of the oldest of them.", &label, oldest);
    text.gauge("wayfs_open_handles", "Handles that programs have open.", &label, vfs.open_handles() as f64);
    text.gauge("wayfs_body_bytes", "Bytes of files kept whole for passthrough.", &label, vfs.files().idle_len() as f64);
    let illegal = crate::files::illegal_count();
    text.counter(
        "wayfs_open_illegal_steps",
        "Steps of open files that their table does not allow: a bug.",
        &label,
        illegal,
    );
    text.finish()
}
