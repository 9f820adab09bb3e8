//! Any text in a table of `/proc` is read or left out.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wayfs_fuse::fuzzing::read_mount_table(bytes);
    let text = String::from_utf8_lossy(bytes);
    wayfs_cli::fuzzing::mount_table(&text);
    wayfs_client::fuzzing::read_watch(&text);
    wayfs_nfsmount::read_process_tables(&text);
    wayfs_server::fuzzing::addresses(&text);
});
