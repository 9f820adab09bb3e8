//! What is measured at growing sizes: each cost has an axis along which it must not grow.

use super::counting::Work;
use super::world::{HOME, HostId, World};
use anyhow::{Result, ensure};
use wayfs_proto::Role;
use wayfs_types::FileId;

/// Files in one directory of a volume that is filled.
const FILES_PER_DIRECTORY: usize = 200;

/// Something with a cost for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A client makes files while the volume has many.
    Create,
    /// The same, without a line to its station, while many of its records wait.
    CreateOffline,
    /// The records that waited go up.
    CatchUp,
    /// A station sends home what its client made while it had no line to the home.
    StationCatchUp,
    /// A client removes files while the volume has many.
    Remove,
    /// A client lists one directory for the first time: the cost of a name.
    FirstListing,
    /// It lists it once more.
    SecondListing,
    /// A client finds a file by name while the volume has many.
    Lookup,
    /// A client changes what nobody watches, while another at the same station watches many directories.
    ChangeBesideWatches,
    /// Everything is at rest for a second while the volume has many files.
    IdleSecond,
    /// One client makes files, and many stations are told.
    TellStations,
}

/// Everything that is measured.
pub(crate) const ALL: [Cost; 11] = [
    Cost::Create,
    Cost::CreateOffline,
    Cost::CatchUp,
    Cost::StationCatchUp,
    Cost::Remove,
    Cost::FirstListing,
    Cost::SecondListing,
    Cost::Lookup,
    Cost::ChangeBesideWatches,
    Cost::IdleSecond,
    Cost::TellStations,
];

impl Cost {
    /// As the table names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::CreateOffline => "create offline",
            Self::CatchUp => "catch up, a record",
            Self::StationCatchUp => "catch up of a station, a record",
            Self::Remove => "remove",
            Self::FirstListing => "first listing, a name",
            Self::SecondListing => "second listing, a name",
            Self::Lookup => "look up",
            Self::ChangeBesideWatches => "create beside watches",
            Self::IdleSecond => "an idle second",
            Self::TellStations => "create, all stations told",
        }
    }

    /// What grows.
    pub(crate) const fn axis(self) -> &'static str {
        match self {
            Self::CreateOffline | Self::CatchUp | Self::StationCatchUp => "unsent records",
            Self::FirstListing | Self::SecondListing => "names in it",
            Self::ChangeBesideWatches => "watches",
            Self::TellStations => "stations",
            Self::Create | Self::Remove | Self::Lookup | Self::IdleSecond => "files",
        }
    }

    /// Measures it at a size, in so many operations (or as many as the size has).
    pub(crate) fn measure(self, size: usize, operations: usize) -> Result<Measured> {
        let site = Site::new(if self == Self::TellStations { size } else { 1 })?;
        match self {
            Self::Create => site.filled(size)?.creates(operations),
            Self::CreateOffline => site.backlog(Waiting::AtClient, size)?.creates(operations),
            Self::CatchUp => site.backlog(Waiting::AtClient, size)?.catch_up(Waiting::AtClient, size),
            Self::StationCatchUp => site.backlog(Waiting::AtStation, size)?.catch_up(Waiting::AtStation, size),
            Self::Remove => site.filled(size)?.removes(operations.min(size)),
            Self::FirstListing => site.filled_flat(size)?.listing(size, Seen::Never),
            Self::SecondListing => site.filled_flat(size)?.listing(size, Seen::Before),
            Self::Lookup => site.filled(size)?.lookups(operations),
            Self::ChangeBesideWatches => site.watched(size)?.creates(operations),
            Self::IdleSecond => site.filled(size)?.idle(operations),
            Self::TellStations => site.creates(operations),
        }
    }
}

/// The work of the three kinds of machine for some operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// How many.
    pub(crate) operations: u64,
    /// Client (that does them), station (its own), home.
    pub(crate) work: [Work; 3],
}

/// Whether the client has listed a directory before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Before,
}

/// Where records wait for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    AtClient,
    AtStation,
}

/// A home, stations, and two clients at the first.
struct Site {
    world: World,
    station: HostId,
    client: HostId,
    other: HostId,
    /// Where operations take place.
    place: FileId,
}

impl Site {
    fn new(stations: usize) -> Result<Self> {
        let mut world = World::new()?;
        let station = world.add(Role::Station, HOME)?;
        for _ in 1..stations {
            world.begin(Role::Station, HOME)?;
        }
        world.rest()?;
        let client = world.add(Role::Client, station)?;
        let other = world.add(Role::Client, station)?;
        let place = world.mkdir(client, FileId::ROOT, "place")?;
        world.rest()?;
        Ok(Self { world, station, client, other, place })
    }

    /// Directories with files in the volume, made by the client that works here.
    fn filled(mut self, files: usize) -> Result<Self> {
        let mut directory = FileId::ROOT;
        for number in 0..files {
            if number % FILES_PER_DIRECTORY == 0 {
                directory = self.world.mkdir(self.client, FileId::ROOT, &format!("directory-{number}"))?;
            }
            self.world.create(self.client, directory, &format!("file-{number}"))?;
        }
        self.world.rest()?;
        Ok(self)
    }

    /// Files of the other client in one directory.
    fn filled_flat(mut self, files: usize) -> Result<Self> {
        self.place = self.world.mkdir(self.other, FileId::ROOT, "flat")?;
        for number in 0..files {
            self.world.create(self.other, self.place, &format!("file-{number}"))?;
        }
        self.world.rest()?;
        Ok(self)
    }

    /// Who lacks a line, and to whom.
    fn cut(&self, waiting: Waiting) -> (HostId, HostId) {
        match waiting {
            Waiting::AtClient => (self.client, self.station),
            Waiting::AtStation => (self.station, HOME),
        }
    }

    /// Records that wait for a line.
    fn backlog(mut self, waiting: Waiting, records: usize) -> Result<Self> {
        let (holder, parent) = self.cut(waiting);
        self.world.disconnect(holder, parent);
        self.world.rest()?;
        for number in 0..records {
            self.world.create(self.client, self.place, &format!("waiting-{number}"))?;
        }
        self.world.rest()?;
        ensure!(self.world.unsent(holder) >= records as u64, "nothing was sent meanwhile");
        Ok(self)
    }

    /// Directories that the other client looks at.
    fn watched(mut self, watches: usize) -> Result<Self> {
        let mut directories = Vec::new();
        for number in 0..watches {
            directories.push(self.world.mkdir(self.client, FileId::ROOT, &format!("watched-{number}"))?);
        }
        self.world.rest()?;
        for directory in directories {
            self.world.list(self.other, directory)?;
        }
        self.world.rest()?;
        Ok(self)
    }

    fn measured(mut self, operations: usize, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<Measured> {
        let hosts = [self.client, self.station, HOME];
        let before = hosts.map(|host| self.world.work(host));
        act(&mut self)?;
        let mut work = hosts.map(|host| self.world.work(host));
        for (after, before) in work.iter_mut().zip(before) {
            *after = *after - before;
        }
        Ok(Measured { operations: operations as u64, work })
    }

    fn creates(self, count: usize) -> Result<Measured> {
        self.measured(count, |site| {
            for number in 0..count {
                site.world.create(site.client, site.place, &format!("new-{number}"))?;
            }
            site.world.rest()
        })
    }

    fn removes(self, count: usize) -> Result<Measured> {
        let mut site = self;
        let directories = count.div_ceil(FILES_PER_DIRECTORY);
        let mut found = Vec::new();
        for at in 0..directories {
            let text = format!("directory-{}", at * FILES_PER_DIRECTORY);
            found.push(site.world.lookup(site.client, FileId::ROOT, &text)?);
        }
        site.measured(count, |site| {
            for number in 0..count {
                let directory = found[number / FILES_PER_DIRECTORY];
                site.world.unlink(site.client, directory, &format!("file-{number}"))?;
            }
            site.world.rest()
        })
    }

    fn lookups(self, count: usize) -> Result<Measured> {
        let mut site = self;
        let directory = site.world.lookup(site.client, FileId::ROOT, "directory-0")?;
        site.measured(count, |site| {
            for number in 0..count {
                let text = format!("file-{}", number % FILES_PER_DIRECTORY);
                site.world.lookup(site.client, directory, &text)?;
            }
            Ok(())
        })
    }

    fn listing(self, names: usize, seen: Seen) -> Result<Measured> {
        let mut site = self;
        if seen == Seen::Before {
            site.world.list(site.client, site.place)?;
        }
        site.measured(names, |site| {
            let found = site.world.list(site.client, site.place)?;
            ensure!(found == names, "{found} of {names} names were listed");
            Ok(())
        })
    }

    fn catch_up(self, waiting: Waiting, records: usize) -> Result<Measured> {
        let (holder, parent) = self.cut(waiting);
        self.measured(records, |site| {
            site.world.connect(holder, parent);
            for _ in 0..100 {
                site.world.rest()?;
                if site.world.unsent(holder) == 0 {
                    return Ok(());
                }
            }
            anyhow::bail!("the backlog does not go")
        })
    }

    fn idle(self, seconds: usize) -> Result<Measured> {
        self.measured(seconds, |site| site.world.pass(std::time::Duration::from_secs(seconds as u64)))
    }
}
