//! The key of the home, which may change (`docs/decisions/0040-a-home-changes-its-key.md`).

use crate::replica::Replica;
use std::sync::Arc;
use wayfs_types::{Image, Key, MetaStore, NodeId, Origin, StorageError};

impl<S: MetaStore> Replica<S> {
    /// A home whose key was changed says so in its own row, which tells all others who it is.
    pub(crate) fn take_key(&mut self) -> Result<(), StorageError> {
        let (own, node) = (self.core.config.origin, self.core.config.node);
        let Some(image) = self.origin_image(own)?.filter(|image| self.core.config.former_keys.contains(&image.node))
        else {
            return Ok(());
        };
        self.core.state.put_image(
            Key::Origin(own),
            Some(Image::Origin(Arc::new(Origin { node, ..Arc::unwrap_or_clone(image) }))),
        )?;
        self.commit()?;
        self.core.state.want_sync();
        self.core.ask_sync();
        Ok(())
    }

    /// Whose word counts as the home's from now on: it may have changed its key.
    pub fn trust_home(&mut self, home: NodeId) {
        self.core.config.home = Some(home);
    }
}
