//! How a replica is opened upon its store.

use super::{COUNTERS, Counters, OpenError, Replica, Staged};
use crate::api::{Config, Role};
use crate::children::Children;
use crate::contents::Contents;
use crate::histories::Histories;
use crate::locks::Locks;
use crate::members::Members;
use crate::requests::Requests;
use crate::requests::watches::Watches;
use crate::state::log::Log;
use crate::state::overlay::Overlay;
use crate::state::tables::unpack;
use crate::state::totals::Totals;
use crate::state::view_cache::ViewCache;
use crate::upstream::Uplink;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wayfs_types::{Admitted, FileId, Image, Key, MetaStore, Origin, StorageError, Ticket, Time, WallTime};

impl<S: MetaStore> Replica<S> {
    /// Opens a replica upon its store, fresh or as a crash left it.
    ///
    /// A fresh home gets its root directory and its own origin. Whatever the store holds counts
    /// as durable.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] if the store was made for something else; [`OpenError::Storage`].
    pub fn open(config: Config, store: S, now: Time) -> Result<Self, OpenError> {
        let counters = match store.get(COUNTERS)? {
            Some(bytes) => unpack(&bytes)?,
            None => Counters::of_new(config.role),
        };
        let mut replica = Self {
            store,
            counters,
            saved: counters,
            overlay: Overlay::default(),
            views: ViewCache::of(config.view_rows_kept),
            staged: Staged::default(),
            totals: Totals::default(),
            now,
            wall: WallTime::EPOCH,
            opened: now,
            outputs: VecDeque::new(),
            ticket: Ticket(0),
            stored: Ticket(0),
            sync_asked: Ticket(0),
            sync_wanted: false,
            sync_at: None,
            failed: false,
            log: Log::default(),
            peers: BTreeMap::new(),
            children: Children::default(),
            requests: Requests::default(),
            watches: Watches::default(),
            tombstones_from: 0,
            uplink: Uplink::after(counters.sequence),
            contents: Contents::default(),
            locks: Locks::default(),
            members: Members::default(),
            histories: Histories::default(),
            more_work: false,
            levels_moved: false,
            replays: 0,
            unvouched: 0,
            config,
        };
        if replica.check_identity()? {
            replica.succeed()?;
        }
        replica.read_rows()?;
        Ok(replica)
    }

    /// Takes over what the store says, in an order in which each finds what it needs.
    fn read_rows(&mut self) -> Result<(), OpenError> {
        self.read_former_times()?;
        self.log = self.read_log()?;
        self.read_renamed()?;
        self.read_stands_for();
        self.histories.note_opened_at(self.counters.sequence);
        self.read_gaps()?;
        self.read_found()?;
        self.advance_tallies()?;
        self.watches = Watches::read(&self.store)?;
        self.totals = self.read_totals()?;
        self.read_children()?;
        self.read_named()?;
        self.begin_as_server()
    }

    fn read_former_times(&mut self) -> Result<(), OpenError> {
        self.read_succession()?;
        self.read_moved_at()?;
        self.read_recount()?;
        self.read_forgotten()?;
        Ok(())
    }

    fn begin_as_server(&mut self) -> Result<(), OpenError> {
        if self.config.role == Role::Home && self.inode(FileId::ROOT)?.is_none() {
            self.make_home()?;
        }
        if self.config.role == Role::Home {
            self.take_key()?;
            if self.totals.missing > 0 {
                // Perhaps nobody will come: who has it on record may have been turned away.
                self.note_holders_moved();
                self.supersede_unshown()?;
            }
        }
        if self.config.role != Role::Client {
            self.begin_lock_grace()?;
            self.read_given_locks()?;
            self.begin_usage()?;
            self.begin_quotas()?;
            self.begin_life()?;
        }
        Ok(())
    }

    fn make_home(&mut self) -> Result<(), StorageError> {
        let label = self.config.label.clone();
        let own = Origin::admitted(Admitted::Home, self.config.node, label);
        let origin = self.config.origin;
        let root = Image::Inode(Arc::new(wayfs_tree::root_inode()));
        self.put_image(Key::Inode(FileId::ROOT), Some(root))?;
        self.put_image(Key::Origin(origin), Some(Image::Origin(own.into())))?;
        self.commit()?;
        self.sync_wanted = true;
        self.ask_sync();
        Ok(())
    }
}
