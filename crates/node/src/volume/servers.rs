//! What is known of the servers, and of who else takes itself for the home.

use super::Volume;
use crate::clock;
use crate::servers::{News, Rival, exchange};
use std::sync::Weak;
use wayfs_proto::{Held, Role};
use wayfs_types::Admitted;

impl Volume {
    /// Tells all neighbours of the servers, from now on.
    pub(super) fn spread_news_of_servers(&self) {
        self.settings.runtime.spawn(exchange::spread(Weak::clone(&self.me)));
    }

    /// Home only: signs a new list of servers where the members ask for one. To be called whenever they changed.
    pub fn refresh_servers(&self) {
        if self.role() != Role::Home {
            return;
        }
        match self.look(wayfs_proto::Replica::origins) {
            Some(Ok(origins)) => drop(self.directory.refresh(&origins)),
            Some(Err(error)) => tracing::error!(%error, "read members for the list of servers"),
            None => {}
        }
    }

    /// Home only: notes who else is taken for the home, and says so.
    pub(crate) fn note_rival(&self, rival: Rival) {
        if self.directory.note_rival(rival) {
            self.hooks.attention(&rival.to_string());
        }
    }

    /// Takes in what a neighbour knows of the servers.
    pub(crate) fn take_news(&self, news: News) {
        if let Some(station) = news.list.as_ref().and_then(|list| self.directory.successor_by(list)) {
            self.note_rival(Rival::Successor(station));
        }
        if !self.directory.take(news) {
            return;
        }
        self.note_home();
        if self.role() != Role::Home {
            return;
        }
        // A list of our own that is newer than ours: we were restored from an older copy, and what was revoked since stays so.
        for node in self.directory.revoked() {
            let admitted = self.look(|replica| replica.admitted(node)).and_then(Result::ok).unwrap_or_default();
            if admitted.iter().any(|(_, origin)| origin.admitted != Admitted::Revoked)
                && let Err(error) =
                    self.change_members(|replica| replica.revoke(clock::now(), clock::wall(), node, Held::Taken))
            {
                tracing::error!(%error, node = %node.short(), "revoke again what a newer list calls removed");
            }
        }
        self.refresh_servers();
    }

    /// The engine believes whom the directory does: the home may have changed its key.
    pub(super) fn note_home(&self) {
        let home = self.directory.home();
        if let Some(replica) = self.lock().replica.as_mut() {
            replica.trust_home(home);
        }
    }
}
