//! Any bytes on a control stream are frames within their limits, or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| wayfs_net::fuzzing::read_frames(input.1, input.0.into()));
