//! Whatever is announced on the local network, little of it is remembered, and nothing that cannot be used.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::net::IpAddr;

#[derive(Debug, Arbitrary)]
struct Announced {
    /// `None`: a key that is one.
    key: Option<String>,
    number: u16,
    port: u16,
    four: Vec<[u8; 4]>,
    six: Vec<[u8; 16]>,
}

libfuzzer_sys::fuzz_target!(|announced: Vec<Announced>| {
    let announced: Vec<(String, u16, Vec<IpAddr>)> = announced
        .into_iter()
        .map(|one| {
            let mut node = [0; 32];
            node[..2].copy_from_slice(&one.number.to_be_bytes());
            let key = one.key.unwrap_or_else(|| wayfs_types::NodeId::from_bytes(node).to_string());
            let four = one.four.into_iter().map(IpAddr::from);
            (key, one.port, four.chain(one.six.into_iter().map(IpAddr::from)).collect())
        })
        .collect();
    wayfs_node::fuzzing::hear_announcements(&announced);
});
