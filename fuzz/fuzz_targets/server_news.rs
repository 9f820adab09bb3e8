//! Whoever says what of the servers of a volume: no older list is taken, and nobody else becomes the home.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::sync::LazyLock;
use wayfs_node::fuzzing::{Said, Signers, hear_of_servers};

static SCRATCH: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("make a directory"));
static SIGNERS: LazyLock<Signers> = LazyLock::new(Signers::draw);

#[derive(Debug, Arbitrary)]
enum Word {
    Known { number: u64, roles: Vec<bool>, revoked: u8, by: u8 },
    List(Vec<u8>, u8),
    Place(Vec<u8>, u8),
    At { number: u64, port: u16, by: u8 },
    News(Vec<u8>),
    Restart,
}

/// A list as a home writes it; its keys are put in by whoever signs.
fn list(number: u64, roles: &[bool], revoked: u8) -> Vec<u8> {
    let key = wayfs_types::NodeId::from_bytes([1; 32]);
    let entries: Vec<serde_json::Value> = roles
        .iter()
        .enumerate()
        .map(|(at, home)| {
            serde_json::json!({
                "node": key, "role": if *home { "home" } else { "station" }, "name": "ann@reed",
                "addresses": [], "since_unix_ms": 1, "revoked_unix_ms": (at == usize::from(revoked)).then_some(2),
            })
        })
        .collect();
    let volume = wayfs_types::VolumeId::from_bytes([7; 16]);
    serde_json::to_vec(&serde_json::json!({ "volume": volume, "number": number, "home": key, "entries": entries }))
        .expect("this is JSON")
}

libfuzzer_sys::fuzz_target!(|words: Vec<Word>| {
    let said: Vec<Said> = words
        .into_iter()
        .map(|word| match word {
            Word::Known { number, roles, revoked, by } => Said::List(list(number, &roles, revoked), by),
            Word::List(text, by) => Said::List(text, by),
            Word::At { number, port, by } => {
                let key = wayfs_types::NodeId::from_bytes([1; 32]);
                let addresses = [format!("10.0.0.1:{port}")];
                let place = serde_json::json!({ "node": key, "number": number, "addresses": addresses });
                Said::Place(serde_json::to_vec(&place).expect("this is JSON"), by)
            }
            Word::Place(text, by) => Said::Place(text, by),
            Word::News(text) => Said::News(text),
            Word::Restart => Said::Restart,
        })
        .collect();
    hear_of_servers(SCRATCH.path(), &SIGNERS, &said);
});
