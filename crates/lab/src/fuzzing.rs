//! Texts that people give the laboratory, for the fuzzer: recorded work, networks, lines, traces of capacity.

use crate::NetworkFile;
use crate::experiments::read_trace;
use wayfs_link::description::LineDescription;

/// Reads text as each of them. Nothing is built.
pub fn read(text: &str) {
    read_trace(text);
    let _ = NetworkFile::read(text);
    let _ = wayfs_link::Capacity::parse_trace(text);
    if let Ok(line) = toml::from_str::<LineDescription>(text) {
        let _ = line.plan(&|name| Ok(name.to_owned()));
    }
}
