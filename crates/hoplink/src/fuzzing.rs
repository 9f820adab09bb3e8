//! What strangers and peers send, for the fuzzer.

/// Reads bytes as the greetings of both ends.
pub fn read_greetings(bytes: &[u8]) {
    if let Some(hello) = crate::greeting::decode_hello(bytes) {
        let again = crate::greeting::encode(&hello);
        assert_eq!(crate::greeting::decode_hello(&again), Some(hello), "a greeting survives its bytes");
    }
    if let Some(answer) = crate::greeting::decode_answer(bytes) {
        let again = crate::greeting::encode(&answer);
        assert_eq!(crate::greeting::decode_answer(&again), Some(answer), "an answer survives its bytes");
    }
}
