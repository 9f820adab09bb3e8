//! What drivers and tools ask of a replica. Each question is answered by the part that knows.

use crate::api::{Config, Holder, Output};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::lost::GivenUp;
use crate::histories::Histories;
use crate::histories::successor::{Prospect, Succession};
use crate::members::Members;
use crate::members::usage_sums::Usage;
use crate::members::word_kept::HomeWord;
use crate::replica::Replica;
use crate::report::LostContent;
use crate::upstream::Uplink;
use std::sync::Arc;
use wayfs_policy::Input;
use wayfs_types::request::LockRequest;
use wayfs_types::{
    FileId, Inode, MetaStore, Name, NodeId, OriginId, Place, Quota, Record, RecordId, Seal, StorageError, Ticket, Time,
    Top,
};
use wayfs_wire::{Room, ServerRoom};

impl<S: MetaStore> Replica<S> {
    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// The store, for drivers that own its syncing half.
    pub fn store(&self) -> &S {
        self.core.state.store()
    }

    /// The last ticket that the driver said is durable.
    pub fn stored(&self) -> Ticket {
        self.core.state.stored()
    }

    /// The store, for a test that keeps it in the replica and syncs it there.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn store_mut(&mut self) -> &mut S {
        self.core.state.store_mut()
    }

    /// Gives the store back: what is not durable is for the store to keep or lose.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn into_store(self) -> S {
        self.core.state.into_store()
    }

    /// How often tentative records had to be replayed since the replica was opened: for metrics.
    pub fn replays(&self) -> u64 {
        self.core.state.replays()
    }

    /// How often something was answered that the parent did not vouch for, or what it had vouched for before was given
    /// up. An answer before which it was the same as after it may be kept until a callback breaks it; any other is good
    /// for the moment only, since no callback will come.
    pub fn unvouched(&self) -> u64 {
        self.requests.unvouched()
    }

    /// A file's inode in the view; of a removed or merged file its marker.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn inode(&self, file: FileId) -> Result<Option<Arc<wayfs_types::Inode>>, StorageError> {
        self.core.state.inode(file)
    }

    /// What a name stands for in the view.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn entry(&self, parent: FileId, name: &Name) -> Result<Option<wayfs_types::Entry>, StorageError> {
        self.core.state.entry(parent, name)
    }

    /// A record that the parent has not confirmed, as the log keeps it.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn logged(&self, record: RecordId) -> Result<Option<Record>, StorageError> {
        self.core.state.logged(record)
    }

    /// The names of a file that are known here, in order.
    ///
    /// Takes as long as the file has names.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn names_of(&self, file: FileId) -> Result<Vec<Place>, StorageError> {
        self.core.state.names_of(file)
    }

    /// Whether a place is one of a file's names.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn has_name(&self, file: FileId, inode: &Inode, place: &Place) -> Result<bool, StorageError> {
        self.core.state.has_name(file, inode, place)
    }

    /// Whether a file has a name in a directory, as far as it is known here.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn stands_in(&self, file: FileId, inode: &Inode, directory: FileId) -> Result<bool, StorageError> {
        self.core.state.stands_in(file, inode, directory)
    }

    /// What is kept in memory of the store and is not as it is there, if anything is. Reads all that is kept.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn kept_row_is_wrong(&self) -> Result<Option<String>, StorageError> {
        let of_parents = self.uplink.wrongly_kept(&self.core)?;
        let of_histories = self.histories.wrongly_kept(&self.core)?;
        let of_locks = self.locks.wrongly_kept(&self.core)?;
        Ok(self.core.state.kept_row_is_wrong()?.or(of_parents).or(of_histories).or(of_locks))
    }

    /// Whether a file is, or stands in, a directory in which the home decides at once, as far as it is known here.
    ///
    /// # Errors
    /// [`StorageError`] if that cannot be read: then nobody may decide as if it were not so.
    pub fn is_the_homes(&self, file: FileId) -> Result<bool, StorageError> {
        Uplink::is_the_homes(&self.core, file)
    }

    /// The directory below which a member works; `None`: the whole volume.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn part_of(&self, origin: OriginId) -> Result<Option<FileId>, StorageError> {
        Children::part_of(&self.core, origin)
    }

    /// Whether a file lies in a member's part of the volume.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn is_in_part(&self, origin: OriginId, file: FileId) -> Result<bool, StorageError> {
        Children::is_in_part(&self.core, origin, file)
    }

    /// What is known of this station as a successor of its home. Which contents lie here the driver knows.
    pub fn prospect(&self) -> Prospect {
        Histories::prospect(&self.core)
    }

    /// The home's signature under the number that this store writes under, if it took that in place of another: a home that was put
    /// back and has forgotten the number wants to see it (`admit_again`). `None`: the number is the one that this machine was
    /// admitted under.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn admission(&self) -> Result<Option<Seal>, StorageError> {
        Members::admission(&self.core)
    }

    /// Whose word counts as the home's from now on: it may have changed its key.
    pub fn trust_home(&mut self, home: NodeId) {
        Members::trust_home(&mut self.core, home)
    }

    /// The quota of the whole volume: it stands in the row of its home.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn quota_of_volume(&self) -> Result<Quota, StorageError> {
        Members::quota_of_volume(&self.core)
    }

    /// What a member takes up, under the origins that it had before, too. At servers only.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn usage(&self, origin: OriginId) -> Result<Usage, StorageError> {
        Members::usage(&self.core, origin)
    }

    /// What the whole volume takes up. At servers only.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn usage_of_volume(&self) -> Result<Usage, StorageError> {
        Members::usage_of_volume(&self.core)
    }

    /// Whether the sums are what every file together gives; if not, what differs. For checks: it reads the whole view.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn usage_is_wrong(&self) -> Result<Option<String>, StorageError> {
        Members::usage_is_wrong(&self.core)
    }

    /// Whether this version's bytes are lost, as far as this replica was told: gone at their writer (which this is), or
    /// declared lost by the home, be it that the file shows another version since.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn is_lost(&self, version: RecordId) -> Result<bool, StorageError> {
        Contents::is_lost(&self.core, version)
    }

    /// Whether the home declared this version lost, as far as this replica was told, and it has not turned up: nobody tells any more
    /// how far it came.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn is_declared_lost(&self, version: RecordId) -> Result<bool, StorageError> {
        Contents::is_declared_lost(&self.core, version)
    }

    /// To which server's store a version of ours is lent: it and we have its contents, the home does not.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn lent_to(&self, version: RecordId) -> Result<Option<OriginId>, StorageError> {
        Contents::lent_to(&self.core, version)
    }

    /// What an output means to the propagation policy of this station. Other roles have none.
    ///
    /// # Errors
    /// [`StorageError`] if the view cannot be read.
    pub fn propagation_news(&self, output: &Output) -> Result<Option<Input>, StorageError> {
        Contents::propagation_news(&self.core, output)
    }

    /// Files whose locks this client decides about by itself, one for each family.
    pub fn locks_delegated(&self) -> usize {
        self.locks.locks_delegated()
    }

    /// What programs of a replica have locked, for all that this one knows: not what that replica decides about alone.
    pub fn locks_of(&self, replica: OriginId) -> Vec<LockRequest> {
        self.locks.of_programs(replica)
    }

    /// Whether a program of this replica has a lock, or waits for the word of a parent about one.
    pub fn holds_locks(&self) -> bool {
        self.locks.holds_locks(&self.core)
    }

    /// The newest word of the home, whose signature was checked. `None`: none came since this replica was opened, or there are no
    /// keys to check it with.
    pub fn home_word(&self) -> Option<HomeWord> {
        self.members.home_word()
    }

    /// Whether a server told of a quota.
    pub fn has_quota(&self) -> bool {
        self.members.has_quota()
    }

    /// Whether our quotas, as far as we were told of any, allow that a file becomes so long.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn has_quota_for(&self, file: FileId, size: u64) -> Result<bool, StorageError> {
        self.members.has_quota_for(&self.core, file, size)
    }

    /// The least room of the servers on the way to the home, quotas included, and how many files those leave. What was written here
    /// since counts as used. `None`: nobody told.
    pub fn room_on_the_way(&self) -> Option<(Room, u64)> {
        self.members.room_on_the_way()
    }

    /// Whether what we have to send would be refused for a quota: it waits here then, and the session goes on.
    pub fn is_over_quota(&self) -> bool {
        self.members.is_over_quota()
    }

    /// The room of the servers above this replica, as far as they told, nearest first.
    pub fn rooms_above(&self) -> &[ServerRoom] {
        self.members.rooms_above()
    }

    /// Whose place this home took; `None`: it made the volume, or is no home.
    pub fn succession(&self) -> Option<Succession> {
        self.histories.succession()
    }

    /// Tops that the driver announced lately by [`crate::Input::ContentsHere`] before any record named them:
    /// garbage collection keeps them, too. At most 16,384, for [`crate::Config::announced_grace`].
    pub fn tops_announced(&self) -> Vec<Top> {
        self.contents.tops_announced()
    }

    /// Bytes of one version that have gone on to the home, as far as the server that has it told.
    pub fn sent_home(&self, version: RecordId) -> u64 {
        self.contents.sent_home(version)
    }

    /// Bytes of what is lent that have gone on to the home, as far as the server that has it told.
    pub fn bytes_sent_home(&self) -> u64 {
        self.contents.bytes_sent_home()
    }

    /// Whether the cache may be trusted: a live session, and its lease.
    pub fn is_trusted(&self) -> bool {
        self.core.is_trusted()
    }

    /// When the home was heard last: from the home itself, or by the word of our parent, which is as old as its last
    /// answer to a ping (a quarter of a lease). `None`: not since this replica was opened.
    pub fn home_heard(&self) -> Option<Time> {
        self.uplink.home_heard(&self.core)
    }

    /// Whether the home was heard of within a lease, and a while for two hops' pings. `None`: not since this replica was
    /// opened.
    pub fn is_home_reachable(&self, now: Time) -> Option<bool> {
        self.uplink.is_home_reachable(&self.core, now)
    }

    /// Whether what this client closed is seen by the next look of any other at the same parent, and the other way round.
    pub fn is_close_to_open(&self) -> bool {
        self.uplink.is_close_to_open(&self.core)
    }

    /// Whether nobody else looks at a directory, as far as that is promised.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn has_alone(&self, directory: FileId) -> bool {
        self.uplink.has_alone(directory)
    }

    /// Whether a change of a file is made at once, without a question to the parent.
    pub fn is_change_free(&self, file: FileId) -> bool {
        self.uplink.is_change_free(&self.core, file)
    }

    /// Where the contents of a version can be had.
    ///
    /// A station's or client's answer [`Holder::Parent`] does not exclude that the chunk store still
    /// has them in its cache: the driver looks there first.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn holder(&self, file: FileId, version: RecordId) -> Result<Holder, StorageError> {
        self.contents.holder(&self.core, &self.children, file, version)
    }

    /// Everybody below us who may have the contents of a version, in the order of asking: who told so in its present session, who is there, who is
    /// away; of these the newest holder first, spares last.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn holders(&self, file: FileId, version: RecordId) -> Result<Vec<Holder>, StorageError> {
        self.contents.holders(&self.core, &self.children, file, version)
    }

    /// Client: what it wrote, whose bytes are gone here, and of which the home has decided what became of it, while this replica has not heard
    /// yet what; at most so many. What was written over is not among it.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn undecided(&self, limit: usize) -> Result<Vec<LostContent>, StorageError> {
        Contents::undecided(&self.core, limit)
    }

    /// What is lost of the file that shows this version, if anything is, as far as this replica was told.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn lost_of(&self, file: FileId, version: RecordId) -> Result<Option<LostContent>, StorageError> {
        Contents::lost_of(&self.core, file, version)
    }

    /// Versions whose bytes nobody has, at most so many of each sort: those that the home has not decided upon first.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn lost_contents(&self, limit: usize) -> Result<Vec<LostContent>, StorageError> {
        Contents::lost_contents(&self.core, limit)
    }

    /// Contents that nobody who is there has, and machines that may have them: what waits until they come.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn contents_away(&self, limit: usize) -> Result<Vec<GivenUp>, StorageError> {
        Contents::contents_away(&self.core, &self.children, limit)
    }
}
