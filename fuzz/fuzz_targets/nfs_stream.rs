#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| wayfs_nfs::fuzzing::records(
    data.get(1..).unwrap_or_default(),
    usize::from(data.first().copied().unwrap_or(1))
));
