//! Any bytes decode to a message or are refused; what decodes is encoded to the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = wayfs_wire::decode(bytes) {
        let again = wayfs_wire::encode(&message);
        assert_eq!(wayfs_wire::decode(&again).as_ref(), Ok(&message));
    }
});
