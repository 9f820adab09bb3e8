//! What crosses the wide area while a command runs, and what of it the station kept back.
//!
//! Three listeners, by `wayfs events`: the writer's station and the home tell each record that takes effect with them
//! (one that was cancelled on the way is none), and the other site's mount tells the names that change there. What was
//! made and taken away again by the command (locks, temporary files) is seen by the kernel's own notices at the writer.

use crate::sites::{client_of, station_of};
use crate::{LabError, Process, Sites};
use rustix::fs::inotify;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A listener that said nothing for so long has said all.
const QUIET: Duration = Duration::from_millis(300);
/// Longest wait for that.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// What one command caused.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Crossing {
    /// Records that took effect at the writer's station.
    pub(super) taken: u64,
    /// Records that took effect at the home.
    pub(super) arrived: u64,
    /// Names in the repository that the command made and took away.
    pub(super) passing: u64,
    /// Of these, names of which the other site heard.
    pub(super) heard: u64,
    /// Bytes over the writer's wide area, with headers: to the home, and from it.
    pub(super) wire_bytes: WireBytes,
}

/// Listeners while one site writes.
pub(super) struct Listeners {
    site: usize,
    station: Process,
    home: Process,
    other: Process,
}

impl Listeners {
    /// Listens for what a site writes. They hear what happens from a moment later on.
    pub(super) fn start(sites: &Sites, site: usize) -> Result<Self, LabError> {
        let listen = |host: String, label: &str| {
            let command = sites.command(&host, &["events"])?;
            sites.lab().spawn(&host, label, command)
        };
        let label = format!("events-{}", client_of(site));
        Ok(Self {
            site,
            station: listen(station_of(site), &label)?,
            home: listen("home".into(), &label)?,
            other: listen(client_of(1 - site), &label)?,
        })
    }

    /// Whether all of them have heard something.
    pub(super) fn hear(&self) -> bool {
        [&self.station, &self.home, &self.other].iter().all(|listener| !listener.output().is_empty())
    }

    /// Begins to count what a command does in a repository.
    pub(super) fn count(&self, sites: &Sites, repository: &Path) -> Result<Counting<'_>, LabError> {
        self.wait_until_quiet();
        let lens = [&self.station, &self.home, &self.other].map(|listener| listener.output().len());
        let bytes = wire_bytes(sites, self.site);
        Ok(Counting { listeners: self, lens, bytes, names: MadeNames::watch(repository)? })
    }

    fn wait_until_quiet(&self) {
        let began = Instant::now();
        let said = || [&self.station, &self.home, &self.other].map(|listener| listener.output().len());
        let (mut last, mut since) = (said(), Instant::now());
        while since.elapsed() < QUIET && began.elapsed() < QUIET_MAX {
            std::thread::sleep(Duration::from_millis(20));
            let now = said();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }
}

/// A count that has begun.
pub(super) struct Counting<'a> {
    listeners: &'a Listeners,
    lens: [usize; 3],
    bytes: WireBytes,
    names: MadeNames,
}

impl Counting<'_> {
    /// Ends it, when the other site has seen everything. `extra` records were not the command's.
    pub(super) fn finish(self, sites: &Sites, extra: u64) -> Result<Crossing, LabError> {
        self.listeners.wait_until_quiet();
        let Listeners { site, station, home, other } = self.listeners;
        let after = wire_bytes(sites, *site);
        let said = |listener: &Process, from: usize| listener.output().split_off(from);
        let heard = paths(&said(other, self.lens[2]));
        let passing = self.names.passing(sites.at(*site))?;
        Ok(Crossing {
            taken: records(&said(station, self.lens[0])).saturating_sub(extra),
            arrived: records(&said(home, self.lens[1])).saturating_sub(extra),
            passing: passing.len() as u64,
            heard: passing.intersection(&heard).count() as u64,
            wire_bytes: WireBytes { up: after.up - self.bytes.up, down: after.down - self.bytes.down },
        })
    }
}

/// Bytes over the wide area.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireBytes {
    /// To the home.
    pub(super) up: u64,
    /// From it.
    pub(super) down: u64,
}

fn wire_bytes(sites: &Sites, site: usize) -> WireBytes {
    let statistics = sites.lab().statistics(sites.wide(site));
    WireBytes { up: statistics.up.delivered_len, down: statistics.down.delivered_len }
}

fn events<'a>(said: &'a str, kinds: &'a [&str]) -> impl Iterator<Item = serde_json::Value> + 'a {
    let events = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    events.filter(move |event| kinds.iter().any(|kind| event["kind"] == *kind))
}

/// Records that took effect.
fn records(said: &str) -> u64 {
    events(said, &["applied"]).count() as u64
}

/// Paths that changed, from the root of the volume.
fn paths(said: &str) -> BTreeSet<PathBuf> {
    let told = events(said, &["created", "edited", "renamed", "removed", "attributes"]);
    let named =
        told.flat_map(|event| [event["path"].as_str(), event["from"].as_str()].map(|path| path.map(PathBuf::from)));
    named.flatten().collect()
}

/// Names that are made below a directory, by the kernel's notices.
struct MadeNames {
    notices: OwnedFd,
    directories: BTreeMap<i32, PathBuf>,
}

impl MadeNames {
    /// Looks at all directories that are there now.
    fn watch(top: &Path) -> Result<Self, LabError> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let notices = inotify::init(flags).map_err(|error| LabError::io("watch for names")(error.into()))?;
        let mut directories = BTreeMap::new();
        let mut left = vec![top.to_owned()];
        while let Some(directory) = left.pop() {
            let doing = || LabError::io(format!("watch {}", directory.display()));
            let wanted = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
            let watch = inotify::add_watch(&notices, &directory, wanted).map_err(|error| doing()(error.into()))?;
            for entry in std::fs::read_dir(&directory).map_err(doing())? {
                let entry = entry.map_err(doing())?;
                if entry.file_type().map_err(doing())?.is_dir() {
                    left.push(entry.path());
                }
            }
            directories.insert(watch, directory);
        }
        Ok(Self { notices, directories })
    }

    /// Paths below `root` that were made and are no more.
    fn passing(&self, root: &Path) -> Result<BTreeSet<PathBuf>, LabError> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&self.notices, &mut buffer);
        let mut passing = BTreeSet::new();
        loop {
            match reader.next() {
                Ok(notice) => {
                    let (Some(directory), Some(name)) = (self.directories.get(&notice.wd()), notice.file_name()) else {
                        continue;
                    };
                    let path = directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                    if std::fs::symlink_metadata(&path).is_err() {
                        passing.insert(path.strip_prefix(root).unwrap_or(&path).to_owned());
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(passing),
                Err(error) => return Err(LabError::io("read which names were made")(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_made_and_are_gone_are_passing() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let names = MadeNames::watch(place.path()).unwrap();
        for name in ["lock", "lock", "stays"] {
            std::fs::write(below.join(name), "").unwrap();
            if name == "lock" {
                std::fs::remove_file(below.join(name)).unwrap();
            }
        }
        std::fs::write(below.join(",temporary,"), "").unwrap();
        std::fs::rename(below.join(",temporary,"), below.join("file,v")).unwrap();
        std::fs::create_dir(place.path().join("#lock")).unwrap();
        std::fs::remove_dir(place.path().join("#lock")).unwrap();
        let passing = names.passing(place.path()).unwrap();
        assert_eq!(passing, ["#lock", "below/,temporary,", "below/lock"].map(PathBuf::from).into());
    }

    #[test]
    fn records_and_names_are_read_from_events() {
        let said = "{\"kind\":\"applied\",\"record\":\"3.7\",\"path\":null}\n{\"kind\":\"visible\",\"record\":\"3.7\"}\n\
                    {\"kind\":\"removed\",\"path\":\"tree/#cvs.lock\"}\nbroken";
        assert_eq!(records(said), 1);
        assert_eq!(paths(said), BTreeSet::from([PathBuf::from("tree/#cvs.lock")]));
    }
}
