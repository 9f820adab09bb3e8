//! Shows a host directory at a mount point: `loopback HOST POINT [--passthrough] [--writeback] [--helper]`.
//!
//! Ends when the mount point is unmounted.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use wayfs_fuse::loopback::{Loopback, LoopbackOptions};
use wayfs_fuse::{Config, Mount, MountMethod, MountOptions, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (words, paths): (Vec<_>, Vec<_>) = arguments.iter().partition(|word| word.starts_with("--"));
    let [host, point] = paths[..] else {
        return Err("usage: loopback HOST POINT [--passthrough] [--writeback] [--helper]".into());
    };
    let has = |flag: &str| words.iter().any(|word| *word == flag);
    let options = LoopbackOptions { passthrough: has("--passthrough"), ..LoopbackOptions::default() };
    let loopback = Loopback::new(Path::new(host), options)?;
    let mut options = MountOptions::new(point);
    options.allow_other = rustix::process::geteuid().is_root();
    if has("--helper") {
        options.method = MountMethod::Fusermount;
    }
    let mut config = Config::default();
    config.writeback_cache = has("--writeback");
    Session::new(Mount::new(&options)?, config).run(Arc::new(loopback), 2)?;
    Ok(())
}
