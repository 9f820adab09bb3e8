//! Any byte of any file may change: never a wrong value, never a panic.

use super::{Random, copy_image, data_dir, meta_config, open_meta};
use crate::DiskMetaStore;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wayfs_types::{Batch, MetaStore};

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if super::written_len(&std::fs::read(&path).unwrap()) > 0 {
            found.push(path);
        }
    }
    found.sort();
}

fn value(key: u64) -> Vec<u8> {
    Random(key + 1).bytes(600)
}

#[test]
fn rotten_tables_give_errors_and_never_wrong_values() {
    let scratch = tempfile::tempdir().unwrap();
    let live = scratch.path().join("live");
    let mut store = open_meta(&live);
    for key in 0..4000_u64 {
        let mut batch = Batch::default();
        batch.put(key.to_be_bytes().to_vec(), value(key));
        store.commit(batch).unwrap();
    }
    drop(store);
    drop(open_meta(&live));
    let mut random = Random(11);
    let mut served = 0;
    for round in 0..30 {
        let copy = scratch.path().join(format!("copy{round}"));
        copy_image(&live, &copy);
        let mut found = Vec::new();
        files(&copy.join("meta"), &mut found);
        let victim = &found[random.below(found.len() as u64) as usize];
        let written = super::written_len(&std::fs::read(victim).unwrap()) as u64;
        let at = random.below(written);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(victim).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << random.below(8))], at).unwrap();
        if let Ok(store) = DiskMetaStore::open(&data_dir(&copy), meta_config()) {
            for key in (0..4000_u64).step_by(7) {
                match store.get(&key.to_be_bytes()) {
                    Ok(Some(found)) => {
                        assert_eq!(found, value(key), "key {key} of {}", victim.display());
                        served += 1;
                    }
                    Ok(None) => panic!("key {key} vanished after damage of {} at {at}", victim.display()),
                    Err(_) => {}
                }
            }
        }
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert!(served > 0, "most damage is local");
}
