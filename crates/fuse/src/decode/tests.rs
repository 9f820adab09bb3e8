/// A whole message with this body.
pub(crate) fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(crate::uapi::IN_HEADER + body.len()).unwrap();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&opcode.to_ne_bytes());
    for word in [42_u64, 7] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    for word in [1000_u32, 100, 77, 0] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}
