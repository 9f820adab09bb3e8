//! How a replica is opened upon its store.

use crate::api::Config;
use crate::children::Children;
use crate::contents::Contents;
use crate::histories::Histories;
use crate::locks::Locks;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::composition::Composition;
use crate::replica::core::Core;
use crate::replica::errors::OpenError;
use crate::requests::Requests;
use crate::requests::watches::Watches;
use crate::state::State;
use crate::upstream::Uplink;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wayfs_types::{Admitted, FileId, Image, Key, MetaStore, Origin, StorageError, Time, WallTime};

impl<S: MetaStore> Replica<S> {
    /// Opens a replica upon its store, fresh or as a crash left it.
    ///
    /// A fresh home gets its root directory and its own origin. Whatever the store holds counts
    /// as durable.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] if the store was made for something else; [`OpenError::Storage`].
    pub fn open(config: Config, store: S, now: Time) -> Result<Self, OpenError> {
        let composition = Composition::of(config.role);
        let state = State::of(store, &config, composition)?;
        let sequence = state.sequence();
        let core = Core {
            config,
            composition,
            state,
            now,
            wall: WallTime::EPOCH,
            opened: now,
            outputs: VecDeque::new(),
            line: None,
            for_requests: Vec::new(),
            more_work: false,
        };
        let mut replica = Self {
            core,
            failed: false,
            peers: BTreeMap::new(),
            children: Children::default(),
            requests: Requests::default(),
            watches: Watches::of(composition.tree),
            uplink: Uplink::after(sequence, composition.position),
            contents: Contents::at(composition.position),
            locks: Locks::default(),
            members: Members::default(),
            histories: Histories::default(),
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
        let log = self.core.read_log()?;
        self.core.state.set_log(log);
        self.histories.read_renamed(&self.core)?;
        self.histories.read_stands_for();
        self.histories.note_opened_at(self.core.state.sequence());
        self.histories.read_gaps(&self.core)?;
        self.histories.read_found(&mut self.core)?;
        Contents::advance_tallies(&mut self.core)?;
        self.watches.read(self.core.state.store())?;
        let totals = self.read_totals()?;
        self.core.state.set_totals(totals);
        self.children.read_children(&self.core)?;
        self.contents.read_named(&self.core)?;
        self.begin_as_server()
    }

    fn read_former_times(&mut self) -> Result<(), OpenError> {
        self.histories.read_succession(&self.core)?;
        self.uplink.read_past(&self.core)?;
        self.contents.read_recount(&self.core)?;
        Ok(())
    }

    fn begin_as_server(&mut self) -> Result<(), OpenError> {
        if self.core.orders() && self.core.state.inode(FileId::ROOT)?.is_none() {
            self.make_home()?;
        }
        if self.core.orders() {
            self.take_key()?;
            if self.core.state.totals().missing > 0 {
                // Perhaps nobody will come: who has it on record may have been turned away.
                self.contents.note_holders_moved(&self.core);
                self.contents.supersede_unshown(&mut self.core)?;
            }
        }
        if self.core.serves() {
            self.locks.begin_lock_grace(&self.core)?;
            self.locks.read_given_locks(&self.core)?;
            self.begin_usage()?;
            self.members.begin_quotas(&self.core)?;
            self.begin_life()?;
        }
        Ok(())
    }

    fn make_home(&mut self) -> Result<(), StorageError> {
        let label = self.core.config.label.clone();
        let own = Origin::admitted(Admitted::Home, self.core.config.node, label);
        let origin = self.core.config.origin;
        let root = Image::Inode(Arc::new(wayfs_tree::root_inode()));
        self.core.state.put_image(Key::Inode(FileId::ROOT), Some(root))?;
        self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(own.into())))?;
        self.commit()?;
        self.core.state.want_sync();
        self.core.ask_sync();
        Ok(())
    }
}
