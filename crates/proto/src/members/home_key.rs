//! The key of the home, which may change (`docs/decisions/0040-a-home-changes-its-key.md`).

use crate::children::Children;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use std::sync::Arc;
use wayfs_types::{Image, Key, MetaStore, NodeId, Origin, StorageError};

impl<S: MetaStore> Replica<S> {
    /// A home whose key was changed says so in its own row, which tells all others who it is.
    pub(crate) fn take_key(&mut self) -> Result<(), StorageError> {
        let (own, node) = (self.core.config.origin, self.core.config.node);
        let Some(image) = Children::origin_image(&mut self.core, own)?
            .filter(|image| self.core.config.former_keys.contains(&image.node))
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
}

impl Members {
    /// Whose word counts as the home's from now on: it may have changed its key.
    pub(crate) fn trust_home<S: MetaStore>(core: &mut Core<S>, home: NodeId) {
        core.config.home = Some(home);
    }
}
