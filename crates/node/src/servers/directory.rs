//! The servers of a volume, as this machine knows them; kept in `servers.json`.

use super::info::{ADDRESSES_MAX, SERVERS_MAX, ServerInfo, ServerKind};
use super::list::ServerList;
use super::news::{Have, News};
use super::place::Place;
use super::rival::Rival;
use super::signed::Signed;
use crate::clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use tracing::{info, warn};
use wayfs_net::{Address, KeyChange, NodeIdentity, follow};
use wayfs_types::{NodeId, Origin, OriginId, VolumeId};

/// Addresses of one server that are dialled.
const DIALLED_MAX: usize = 16;
/// Former addresses of this machine's key that are kept.
const FORMER_MAX: usize = 16;
/// Changes of the home's key that are kept; the oldest are forgotten first.
const CHANGES_MAX: usize = 64;

/// Who serves a volume. A leaf in the order of locks.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    volume: VolumeId,
    own: NodeIdentity,
    known: Mutex<Known>,
    changed: watch::Sender<u64>,
}

/// `servers.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    home: NodeId,
    list: Option<Signed>,
    places: Vec<Signed>,
    by_hand: Vec<(NodeId, Vec<Address>)>,
    told: Vec<(NodeId, Vec<Address>)>,
    /// Where this machine's key was, or is said to be.
    #[serde(default)]
    former: Vec<Address>,
    /// The home whose place another took, and where it was.
    #[serde(default)]
    former_home: Option<(NodeId, Vec<Address>)>,
    /// How the home's key was changed.
    #[serde(default)]
    changes: Vec<KeyChange>,
}

#[derive(Debug)]
struct Known {
    /// Whose word counts.
    home: NodeId,
    /// How the home's key was changed, as far as this machine ever heard: a ticket may name a key of before.
    changes: Vec<KeyChange>,
    list: Option<(Signed, ServerList)>,
    places: BTreeMap<NodeId, (Signed, Place)>,
    /// Addresses that the user gave; they stay until the user takes them back.
    by_hand: BTreeMap<NodeId, Vec<Address>>,
    /// Addresses of a ticket; they stay until the server itself tells others.
    told: BTreeMap<NodeId, Vec<Address>>,
    /// Highest number of a list of our own, seen elsewhere: ours was restored from an older copy.
    list_seen: u64,
    /// Where this machine listens, as far as it sees that itself, and where its parent saw it.
    own_addresses: Vec<Address>,
    seen_at: Option<Address>,
    /// Addresses at which this machine's key was before, or is by a place that this machine did not sign; the newest last.
    former: Vec<Address>,
    /// The home whose place another took, and where it was.
    former_home: Option<(NodeId, Vec<Address>)>,
    /// Who else is taken for this volume's home, and when it was last heard.
    rival: Option<(Rival, Instant)>,
}

impl Directory {
    /// What was saved. A file that cannot be read is learnt again from the next server.
    pub(crate) fn load(path: &Path, volume: VolumeId, own: NodeIdentity, home: NodeId) -> Self {
        let saved = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Saved>(&bytes).map_err(|error| {
                warn!(%error, "the list of servers is damaged and is learnt again");
            }),
            Err(_) => Err(()),
        };
        let (changed, _) = watch::channel(0);
        let known = Known {
            home,
            changes: own.changes().to_vec(),
            list: None,
            places: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            told: BTreeMap::new(),
            list_seen: 0,
            own_addresses: Vec::new(),
            seen_at: None,
            former: Vec::new(),
            former_home: None,
            rival: None,
        };
        let directory = Self { path: path.to_path_buf(), volume, own, known: Mutex::new(known), changed };
        if let Ok(saved) = saved {
            directory.lock().restore(volume, saved);
        }
        directory
    }

    /// The key whose word counts: the home's.
    pub fn home(&self) -> NodeId {
        self.lock().home
    }

    /// The key that a server has now which had this one: the home may have changed its own.
    pub fn follow(&self, node: NodeId) -> NodeId {
        follow(&self.lock().changes, node)
    }

    /// All servers known, the home first.
    pub fn list(&self) -> Vec<ServerInfo> {
        let known = self.lock();
        let mut servers: Vec<ServerInfo> = match &known.list {
            Some((_, list)) => {
                list.live().map(|entry| known.info(entry.node, entry.role, entry.name.clone())).collect()
            }
            None => Vec::new(),
        };
        if !servers.iter().any(|server| server.node == known.home) {
            servers.push(known.info(known.home, ServerKind::Home, "home".to_owned()));
        }
        servers.sort_by_key(|server| server.kind);
        servers
    }

    /// One of them.
    pub fn find(&self, node: NodeId) -> Option<ServerInfo> {
        self.list().into_iter().find(|server| server.node == node)
    }

    /// The newest list of the home; `None` before the first was heard.
    pub(crate) fn signed_list(&self) -> Option<ServerList> {
        self.lock().list.as_ref().map(|(_, list)| list.clone())
    }

    /// What this machine has.
    pub fn have(&self) -> Have {
        let known = self.lock();
        Have {
            list: known.list.as_ref().map_or(0, |(_, list)| list.number),
            places: known.places.iter().map(|(node, (_, place))| (*node, place.number)).collect(),
        }
    }

    /// What this machine has and another has not.
    pub fn news_for(&self, have: &Have) -> News {
        let known = self.lock();
        let places = known.places.iter().filter(|(node, (_, place))| place.number > have.place_of(**node));
        News {
            list: known.list.as_ref().filter(|(_, list)| list.number > have.list).map(|(signed, _)| signed.clone()),
            places: places.map(|(_, (signed, _))| signed.clone()).collect(),
        }
    }

    /// Takes in what someone said; answers whether something changed. What is not signed by whom it must be, older than
    /// what is known, or of a key that the list does not have, is left out.
    pub fn take(&self, news: News) -> bool {
        if !news.is_well_formed() {
            return false;
        }
        let mut known = self.lock();
        let mut changed = false;
        if let Some(list) = news.list {
            changed |= known.take_list(self.volume, self.own.id(), list);
        }
        for place in news.places {
            changed |= place.read::<Place>().is_some_and(|read| known.take_place(self.own.id(), place, read));
        }
        if changed {
            self.publish(&known);
        }
        changed
    }

    /// Adds where a server may be reached by the word of a ticket. The key must be the home's, or in the list.
    pub fn tell(&self, node: NodeId, addresses: Vec<Address>) -> bool {
        let addresses = Place::cut(addresses);
        let mut known = self.lock();
        let node = follow(&known.changes, node);
        let is_news =
            known.is_server(node) && !addresses.is_empty() && known.info_addresses(node).first() != addresses.first();
        if is_news {
            known.told.insert(node, addresses);
        }
        if is_news {
            self.publish(&known);
        }
        is_news
    }

    /// Sets by hand where a server is reached; none: takes that back. Answers whether the server is known.
    pub fn set_by_hand(&self, node: NodeId, addresses: Vec<Address>) -> bool {
        let addresses = Place::cut(addresses);
        let mut known = self.lock();
        if !known.is_server(node) {
            return false;
        }
        if addresses.is_empty() {
            known.by_hand.remove(&node);
        } else {
            known.by_hand.insert(node, addresses);
        }
        self.publish(&known);
        true
    }

    /// Takes another key for the home's: by the word of a ticket that the user gave. One that the home had before stands for the
    /// one that it has now.
    pub fn trust_home(&self, home: NodeId) -> bool {
        let mut known = self.lock();
        let home = follow(&known.changes, home);
        let is_news = known.home != home;
        if is_news {
            let addresses = known.info_addresses(known.home);
            known.former_home = Some((known.home, addresses));
            known.home = home;
            known.list = None;
            known.places.clear();
            info!(home = %home.short(), "another key is taken for the home's, by the word of a ticket");
        }
        if is_news {
            self.publish(&known);
        }
        is_news
    }

    /// Servers only: says where this machine listens. A new place is signed when it differs from the last.
    pub fn set_own(&self, addresses: Vec<Address>) -> bool {
        let mut known = self.lock();
        known.own_addresses = addresses;
        let is_news = known.sign_place(&self.own);
        if is_news {
            self.publish(&known);
        }
        is_news
    }

    /// Servers only: the address at which the parent sees this machine, which may be that of an address translator.
    pub(crate) fn set_seen_at(&self, address: Option<Address>) -> bool {
        let mut known = self.lock();
        known.seen_at = address;
        let is_news = known.sign_place(&self.own);
        if is_news {
            self.publish(&known);
        }
        is_news
    }

    /// Home only: signs a new list if the origins, or addresses given by hand, ask for one.
    pub(crate) fn refresh(&self, origins: &[(OriginId, Origin)]) -> bool {
        let mut known = self.lock();
        let is_news = known.sign_list(self.volume, &self.own, origins);
        if is_news {
            self.publish(&known);
        }
        is_news
    }

    /// Keys that a newer list of our own, signed before we were restored from an older copy, calls removed.
    pub(crate) fn revoked(&self) -> Vec<NodeId> {
        let known = self.lock();
        let entries = known.list.iter().flat_map(|(_, list)| &list.entries);
        entries.filter(|entry| entry.revoked_unix_ms.is_some()).map(|entry| entry.node).collect()
    }

    /// Servers only: addresses at which this machine's key was, or is said to be, and this machine is not.
    pub(crate) fn former_addresses(&self) -> Vec<Address> {
        let known = self.lock();
        known.former.iter().filter(|address| !known.is_own(self.own.id(), address)).cloned().collect()
    }

    /// Home only: the home whose place it took, and where that was.
    pub(crate) fn former_home(&self) -> Option<(NodeId, Vec<Address>)> {
        self.lock().former_home.clone()
    }

    /// Home only: the station that took its place, if this is its list.
    pub(crate) fn successor_by(&self, list: &Signed) -> Option<NodeId> {
        let known = self.lock();
        let read = list.read::<ServerList>().filter(|read| read.volume == self.volume && read.home != self.own.id())?;
        let is_of_station = known.home == self.own.id() && known.is_server(read.home);
        (is_of_station && list.is_signed_by::<ServerList>(read.home)).then_some(read.home)
    }

    /// This machine's list, for whoever follows another.
    pub(crate) fn own_list(&self) -> News {
        News { list: self.lock().list.as_ref().map(|(signed, _)| signed.clone()), places: Vec::new() }
    }

    /// Home only: who else was taken for the home a moment ago.
    pub fn rival(&self) -> Option<Rival> {
        self.lock().rival.map(|(rival, _)| rival)
    }

    /// Notes that a rival was heard; answers whether that is news.
    pub(crate) fn note_rival(&self, rival: Rival) -> bool {
        let before = self.lock().rival.replace((rival, Instant::now()));
        before.is_none_or(|(before, _)| before != rival)
    }

    /// Forgets the rival that was last heard before this.
    pub(crate) fn forget_rival(&self, heard_before: Instant) {
        let mut known = self.lock();
        if known.rival.is_some_and(|(_, heard)| heard < heard_before) {
            known.rival = None;
        }
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Saves what changed, and wakes whoever waits for a change.
    fn publish(&self, known: &Known) {
        self.save(known);
        self.changed.send_modify(|count| *count += 1);
    }

    fn save(&self, known: &Known) {
        let saved = Saved {
            home: known.home,
            list: known.list.as_ref().map(|(signed, _)| signed.clone()),
            places: known.places.values().map(|(signed, _)| signed.clone()).collect(),
            by_hand: known.by_hand.clone().into_iter().collect(),
            told: known.told.clone().into_iter().collect(),
            former: known.former.clone(),
            former_home: known.former_home.clone(),
            changes: known.changes.clone(),
        };
        let bytes = serde_json::to_vec_pretty(&saved).expect("a list of servers holds nothing that JSON cannot say");
        // What is lost if this fails is learnt again at the next session; an older list might be taken until then.
        if let Err(error) = write(&self.path, &bytes) {
            warn!(%error, "save list of servers");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Takes what was saved, with the same checks as what comes over the network.
    fn restore(&mut self, volume: VolumeId, saved: Saved) {
        // It may have followed the home to another key since the membership was written.
        self.home = saved.home;
        self.note_changes(&saved.changes);
        if let Some(list) = saved.list {
            let read = list.read::<ServerList>();
            self.list = read.filter(|read| self.accepts(volume, &list, read)).map(|read| (list, read));
        }
        for signed in saved.places {
            if let Some(place) = signed.read::<Place>().filter(|place| signed.is_signed_by::<Place>(place.node)) {
                self.places.insert(place.node, (signed, place));
            }
        }
        self.by_hand = saved.by_hand.into_iter().collect();
        self.told = saved.told.into_iter().collect();
        self.former = saved.former;
        self.former.truncate(FORMER_MAX);
        self.former_home = saved.former_home;
        // A home whose own key was changed while it did not run.
        self.hand_over(follow(&self.changes, self.home));
    }

    /// Whether the home signed a list: by the key that is known, or by one that follows it.
    fn accepts(&self, volume: VolumeId, signed: &Signed, list: &ServerList) -> bool {
        let is_followed = list.home == self.home || follow(&list.changes, self.home) == list.home;
        list.volume == volume && is_followed && signed.is_signed_by::<ServerList>(list.home)
    }

    /// Keeps changes of the home's key that were not known.
    fn note_changes(&mut self, changes: &[KeyChange]) {
        for change in changes {
            if !self.changes.contains(change) {
                self.changes.push(*change);
            }
        }
        let extra = self.changes.len().saturating_sub(CHANGES_MAX);
        self.changes.drain(..extra);
    }

    /// The home has another key: what the user or a ticket said of where it is holds on.
    fn hand_over(&mut self, to: NodeId) {
        let from = std::mem::replace(&mut self.home, to);
        if from == to {
            return;
        }
        info!(from = %from.short(), to = %to.short(), "the home has changed its key");
        for addresses in [&mut self.by_hand, &mut self.told] {
            if let Some(of_home) = addresses.remove(&from) {
                addresses.insert(to, of_home);
            }
        }
    }

    fn take_list(&mut self, volume: VolumeId, own: NodeId, signed: Signed) -> bool {
        let Some(list) = signed.read::<ServerList>() else { return false };
        let number = self.list.as_ref().map_or(0, |(_, known)| known.number).max(self.list_seen);
        if list.number <= number || !self.accepts(volume, &signed, &list) {
            return false;
        }
        if own == self.home {
            warn!("a newer list of servers with this home's own signature is known elsewhere: this is an older copy");
            self.list_seen = list.number;
        }
        self.note_changes(&list.changes);
        self.hand_over(list.home);
        self.list = Some((signed, list));
        self.forget_strangers(own);
        true
    }

    /// Drops what is known of keys that the list lacks.
    fn forget_strangers(&mut self, own: NodeId) {
        let home = self.home;
        let Some((_, list)) = &self.list else { return };
        let is_server = |node: &NodeId| *node == own || *node == home || list.find(*node).is_some();
        self.places.retain(|node, _| is_server(node));
        self.by_hand.retain(|node, _| is_server(node));
        self.told.retain(|node, _| is_server(node));
    }

    fn take_place(&mut self, own: NodeId, signed: Signed, place: Place) -> bool {
        let number = self.places.get(&place.node).map_or(0, |(_, known)| known.number);
        if place.node == own {
            return place.number != number
                && signed.is_signed_by::<Place>(own)
                && self.note_former(own, &place.addresses);
        }
        let is_news = place.number > number && self.is_server(place.node) && signed.is_signed_by::<Place>(place.node);
        if is_news {
            // The server's own, newer word stands for what a ticket said.
            self.told.remove(&place.node);
            self.places.insert(place.node, (signed, place));
        }
        is_news
    }

    /// Whether this machine says itself that it is there.
    fn is_own(&self, own: NodeId, address: &Address) -> bool {
        let place = self.places.get(&own).map(|(_, place)| &place.addresses);
        self.own_addresses.contains(address) || place.is_some_and(|addresses| addresses.contains(address))
    }

    /// Keeps addresses at which this machine's key is said to be, or was; answers whether one of them is new.
    fn note_former(&mut self, own: NodeId, addresses: &[Address]) -> bool {
        let mut is_news = false;
        for address in addresses {
            if !self.is_own(own, address) && !self.former.contains(address) {
                self.former.push(address.clone());
                is_news = true;
            }
        }
        let extra = self.former.len().saturating_sub(FORMER_MAX);
        self.former.drain(..extra);
        is_news
    }

    fn is_server(&self, node: NodeId) -> bool {
        node == self.home || self.list.as_ref().is_some_and(|(_, list)| list.find(node).is_some())
    }

    fn info(&self, node: NodeId, kind: ServerKind, label: String) -> ServerInfo {
        ServerInfo { node, kind, label, addresses: self.info_addresses(node) }
    }

    fn info_addresses(&self, node: NodeId) -> Vec<Address> {
        let entry = self.list.as_ref().and_then(|(_, list)| list.find(node));
        let sources = [
            self.by_hand.get(&node),
            self.told.get(&node),
            self.places.get(&node).map(|(_, place)| &place.addresses),
            entry.map(|entry| &entry.addresses),
        ];
        let mut addresses: Vec<Address> = Vec::new();
        for address in sources.into_iter().flatten().flatten() {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses.truncate(DIALLED_MAX);
        addresses
    }

    fn sign_place(&mut self, own: &NodeIdentity) -> bool {
        let mut addresses = self.own_addresses.clone();
        if let Some(seen) = self.seen_at.clone().filter(|seen| !addresses.contains(seen)) {
            addresses.insert(0, seen);
        }
        let addresses = Place::cut(addresses);
        let before = self.places.get(&own.id()).map(|(_, place)| place.clone());
        if addresses.is_empty() || before.as_ref().is_some_and(|before| before.addresses == addresses) {
            return false;
        }
        let number = next_number(before.as_ref().map_or(0, |before| before.number));
        let place = Place { node: own.id(), number, addresses };
        let Some(signed) = Signed::new(&place, own) else { return false };
        self.places.insert(own.id(), (signed, place));
        if let Some(before) = before {
            self.note_former(own.id(), &before.addresses);
        }
        true
    }

    fn sign_list(&mut self, volume: VolumeId, own: &NodeIdentity, origins: &[(OriginId, Origin)]) -> bool {
        let before = self.list.as_ref().map(|(_, list)| list);
        let by_hand = |node: NodeId| {
            let mut addresses = self.by_hand.get(&node).cloned().unwrap_or_default();
            addresses.truncate(ADDRESSES_MAX);
            addresses
        };
        let now = clock::wall().as_nanos() / 1_000_000;
        let entries = ServerList::entries_of(origins, before, by_hand, now);
        let number = before.map_or(0, |before| before.number).max(self.list_seen);
        let is_newest = before.is_some_and(|before| before.number > self.list_seen);
        let is_same = |before: &ServerList| {
            before.entries == entries && before.home == own.id() && before.changes == own.changes()
        };
        if is_newest && before.is_some_and(is_same) {
            return false;
        }
        let changes = own.changes().to_vec();
        let list = ServerList { volume, number: next_number(number), home: own.id(), changes, entries };
        let Some(signed) = Signed::new(&list, own) else {
            warn!(servers = SERVERS_MAX, "the list of servers is too long to be signed: remove stations");
            return false;
        };
        self.home = own.id();
        self.list = Some((signed, list));
        self.forget_strangers(own.id());
        true
    }
}

/// A number above the last, and of this moment where the clock allows.
fn next_number(last: u64) -> u64 {
    let now = u64::try_from(clock::wall().as_nanos() / 1_000_000).unwrap_or(0);
    now.max(last.saturating_add(1))
}

/// Replaces the file, durably: after a crash an older list must not be taken for the newest.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = std::fs::File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests;
