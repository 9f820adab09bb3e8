//! The queue of contents for the parent, driven: [`wayfs_transfer::uploads`] decides, as it does live.

use crate::disk::Kept;
use crate::planted::Bug;
use crate::world::{Due, Event, Transfer, World};
use wayfs_proto::{Input as EngineInput, PeerId};
use wayfs_transfer::Order;
use wayfs_transfer::uploads::{Input, Output};
use wayfs_types::{Content, Digest, FileId, RecordId};

impl World {
    /// The engine of a host wants a content at its parent.
    pub(crate) fn upload(&mut self, index: usize, file: FileId, version: RecordId, content: Content) {
        let (Some(peer), Some(root)) = (self.hosts[index].parent_session, content.root()) else { return };
        let has = self.has_what_it_made(index, version, root, Kept::Here);
        let is_excused = self.lacks_only_what_went_with_its_base(index, version, root, Kept::Here);
        if !has && !self.hosts[index].is_harmed && !is_excused {
            let line = format!("host {index} was told to push {version} and lacks {:?}", self.lacking(index, root));
            return self.violate("a push has its contents", line);
        }
        if self.bug == Some(Bug::OnePushOnly) && !self.hosts[index].uploads.is_empty() {
            return;
        }
        self.feed_uploads(index, Input::Order(Order { peer, file, version, content }));
    }

    fn lacking(&self, index: usize, root: Digest) -> Vec<Digest> {
        let pieces = self.pieces(root);
        let disk = self.hosts[index].disk.0.borrow();
        pieces.iter().copied().filter(|piece| !disk.has_sound(*piece)).collect()
    }

    pub(crate) fn feed_uploads(&mut self, index: usize, input: Input<PeerId>) {
        self.hosts[index].uploads.handle(self.now, input);
        while let Some(output) = self.hosts[index].uploads.poll_output() {
            self.carry_out_upload(index, output);
        }
        self.arm_uploads(index);
    }

    fn carry_out_upload(&mut self, index: usize, output: Output<PeerId>) {
        self.note(|| format!("  host {index} uploads {output:?}"));
        match output {
            Output::Begin(order) => self.begin_push(index, order),
            Output::Repair(order) => self.repair(index, order),
            Output::Gone(Order { file, version, content, .. }) => {
                self.history.say_gone(version, self.now);
                self.feed(index, EngineInput::ContentGone { file, version, content });
            }
        }
    }

    fn arm_uploads(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host.uploads.poll_timeout() else { return };
        if host.uploads_wake_at.is_none_or(|at| at > due) {
            host.uploads_wake_at = Some(due);
            let life = host.life;
            self.at(due, Event::Transfer(Transfer::Due { host: index, life, due: Due::Upload }));
        }
    }

    /// A pause may be over.
    pub(crate) fn wake_uploads(&mut self, index: usize) {
        self.hosts[index].uploads_wake_at = None;
        self.feed_uploads(index, Input::Tick);
    }
}
