//! Any bytes are a greeting or a ticket of a link, or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    wayfs_hoplink::fuzzing::read_greetings(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(ticket) = text.parse::<wayfs_hoplink::LinkTicket>()
    {
        assert_eq!(ticket.to_text().parse::<wayfs_hoplink::LinkTicket>().as_ref(), Ok(&ticket));
    }
});
