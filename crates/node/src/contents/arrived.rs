//! What follows when contents have come: they are synced, and the engine is told when all of a version is here.

use super::serve;
use super::want::Want;
use crate::contents::ContentsError;
use crate::session::Session;
use crate::syncer::Arriving;
use crate::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use wayfs_proto::Neighbour;
use wayfs_types::Content;

/// Chunks that come up one by one are looked at together.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

impl Volume {
    /// A chunk came up from a child: perhaps the version is whole by now, and then we hold it, too.
    pub(super) fn back_fetched_from(self: &Arc<Self>, session: &Session, want: Want) {
        if session.neighbour == Neighbour::Parent {
            return;
        }
        let content = self.look(|replica| replica.inode(want.file).ok().flatten()).flatten();
        let Some(content) = content.filter(|inode| inode.version == want.version).map(|inode| inode.content.clone())
        else {
            return;
        };
        let (Some(root), volume) = (content.root(), Arc::clone(self)) else { return };
        if !self.contents.begin_check(root) {
            return;
        }
        let pause = if matches!(content, Content::Tree { depth: 0, .. }) { Duration::ZERO } else { CHECK_PAUSE };
        self.settings.runtime.spawn(async move {
            tokio::time::sleep(pause).await;
            // From here on a chunk that comes wants a check of its own.
            volume.contents.end_check(&root);
            serve::complete(&volume, want.file, want.version, content, None).await;
        });
    }

    /// Waits until all chunks put so far are durable.
    pub(crate) async fn contents_durable(&self) -> Result<(), ContentsError> {
        self.arrived_durable(None).await
    }

    /// The same, where some of them were arriving.
    pub(crate) async fn arrived_durable(&self, arrived: Option<Arriving>) -> Result<(), ContentsError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let done = move |result| {
            // The asker may have given up.
            let _ = send.send(result);
        };
        self.syncs.want_contents(arrived, Box::new(done));
        match receive.await {
            Ok(result) => result.map_err(ContentsError::from),
            Err(_) => Err(ContentsError::Stopped),
        }
    }
}
