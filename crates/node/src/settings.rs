//! What can be set for a volume.

use crate::ContentPacking;
use std::path::PathBuf;
use std::time::Duration;
use wayfs_net::NodeIdentity;
use wayfs_policy::Setting;
use wayfs_proto::Config;
use wayfs_types::NodeId;

/// The two keys that a replica must know.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    /// This machine's.
    pub own: &'a NodeIdentity,
    /// The home's.
    pub home: NodeId,
}

/// How often everything that is kept is read, unless that is set.
pub const SCRUB_PERIOD: Duration = Duration::from_secs(30 * 86_400);

/// Settings of one [`Volume`](crate::Volume).
#[derive(Debug, Clone)]
pub struct VolumeSettings {
    /// The engine's settings.
    pub replica: Config,
    /// This machine's key, for what it says of itself; that of a home signs the list of servers.
    pub identity: NodeIdentity,
    /// The home's key, by the ticket's word: whose list of servers counts.
    pub home: NodeId,
    /// Where metadata (`meta/`) and chunks (`chunks/`) are kept. One process at a time.
    pub directory: PathBuf,
    /// Open it although metadata that was durable is lost or damaged. Only a person should say so. Default false.
    pub accept_loss: bool,
    /// Runs the sessions.
    pub runtime: tokio::runtime::Handle,
    /// Most bytes of cached contents; past it the least recently used that others hold are evicted.
    /// `None` (servers): no bound but the disk. Never bounds what nobody else has.
    pub cache_bytes_max: Option<u64>,
    /// A chunk that nothing refers to is kept this long after it was last put or asked for, since the
    /// record that refers to it may still be on its way. Default 10 min: longer than any upload stalls
    /// before it starts afresh.
    pub unreferenced_grace: Duration,
    /// Pause between sweeps. Default 60 s: a sweep walks everything that is in use.
    pub sweep_period: Duration,
    /// All that is kept is read once in so long, and what is damaged is fetched anew; `None`: never by itself. Default 30 days:
    /// often enough that two copies seldom rot in between, and a hundredth of what a disk reads in that time if it is full.
    pub scrub_period: Option<Duration>,
    /// Contents pushed at the same time. Default 4: enough to fill a path, few enough that each is soon whole.
    pub pushes_max: usize,
    /// Station: which contents go to the home before anybody asks for them, and when. Default `None`: none do. Other roles have none.
    pub propagation: Option<Setting>,
    /// How contents are packed. Default: as the path is worth it.
    pub content_packing: ContentPacking,
}

impl VolumeSettings {
    /// The defaults.
    pub fn new(replica: Config, keys: Keys<'_>, directory: PathBuf, runtime: tokio::runtime::Handle) -> Self {
        Self {
            replica,
            identity: keys.own.clone(),
            home: keys.home,
            directory,
            accept_loss: false,
            runtime,
            cache_bytes_max: None,
            unreferenced_grace: Duration::from_secs(600),
            sweep_period: Duration::from_secs(60),
            scrub_period: Some(SCRUB_PERIOD),
            pushes_max: 4,
            propagation: None,
            content_packing: ContentPacking::default(),
        }
    }
}
